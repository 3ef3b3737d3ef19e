"""How likely a user comes back after each visit, learned from who came when.

Nobody says that they leave: who was not seen again may still come. A visit that is long past, and
after which the user was not seen again, counts as the last: long is several times the mean time
between two visits of a user. Visits more recent than that count for nothing, whether or not the
user came back, because those who come back soon are seen first.

The chance is estimated for each number of visits made, as in a life table, and drawn towards what
is expected where few users got so far. That is what all visits together say, but no more than
this: where it is told how often a user comes on average, those still here come as often as makes
that average true; otherwise, they come about as often again as they came so far. So where nobody
has left yet, nobody is expected to stay for ever.
"""

import numpy as np

from bdes_framework import FloatArray, compiled
from bdes_policies.crowd.visit_log import VisitsByUser

_LONG_AGO = 8.0
"""Times the mean gap between two visits: where gaps are exponential, one in 3,000 is longer."""
_PRIOR_VISITS = 20.0
"""What is assumed of leaving before anything was seen weighs as much as so many visits."""
_ASSUMED_VISITS = 20.0
"""How often a user is assumed to come, where nobody says: soon forgotten, see above."""
_LIKE_EXPECTED = 50.0
"""What is expected weighs as much as so many users who made one number of visits: fewer would let
chance decide for the few who come very often."""
_FEWEST_LEFT = 0.1
"""Where fewer users than this have stayed, the average that is told says little of them."""
_SURE_TO = 1.0 / 16.0
"""An average that is told is not believed more exactly than to this share of it."""
_MOST_VISITS = 1024
"""Users who came as often as this or more are taken to be alike."""


@compiled
def _count_returns(
    log: VisitsByUser, now: int, long_ago: float, past: FloatArray, returned: FloatArray
) -> tuple[float, float]:
    """Count visits long ago, and those with another one after; return gaps in all, and how many.

    The last place of the arrays is for all higher numbers of visits too.
    """
    total, gaps = 0.0, 0.0
    for user in range(log.starts.size - 1):
        start, stop = log.starts[user], log.starts[user + 1]
        for v in range(start, stop):
            place = min(v - start, past.size - 1)
            came_back = v + 1 < stop
            if came_back:
                total += log.visits[v + 1] - log.visits[v]
                gaps += 1.0
            if now - log.visits[v] > long_ago:
                past[place] += 1.0
                returned[place] += came_back
    return total, gaps


@compiled
def _life_table(
    past: FloatArray, returned: FloatArray, overall: float, told: float, chances: FloatArray
) -> None:
    """Fill in the chance of coming back after each number of visits; ``told`` is 0 if unknown."""
    left, spent = 1.0, 1.0  # the share of users who came so often, and visits so far per user
    for place in range(chances.size):
        further = _ASSUMED_VISITS + place - 1.0
        if told > 0.0:
            further = max(abs(told - spent) / max(left, _FEWEST_LEFT), _SURE_TO * (told - 1.0))
        expected = overall
        if told == 0.0 or left > _FEWEST_LEFT:
            expected = min(overall, further / (1.0 + further))
        known = returned[place] + _LIKE_EXPECTED * expected
        chances[place] = known / (past[place] + _LIKE_EXPECTED)
        left *= chances[place]
        spent += left


def chances_of_return(log: VisitsByUser, visits_per_user: float | None) -> FloatArray:
    """Return the chance of coming back after visit 1, 2, ...: the last is for all that follow.

    ``visits_per_user`` is how often a user is expected to come, if that is known.
    """
    n, now = log.starts.size - 1, log.visits.size
    expected = _ASSUMED_VISITS if visits_per_user is None else visits_per_user
    weight = _PRIOR_VISITS if visits_per_user is None else _PRIOR_VISITS * expected
    stays, seen = weight * (1.0 - 1.0 / expected), weight
    longest = int(np.diff(log.starts).max()) if n else 0
    past, returned, chances = np.zeros((3, min(longest, _MOST_VISITS) + 1))
    if n:
        total, gaps = _count_returns(log, now, np.inf, past, returned)
        if gaps:
            _count_returns(log, now, _LONG_AGO * total / gaps, past, returned)
    overall = (stays + returned.sum()) / (seen + past.sum())
    _life_table(past, returned, overall, visits_per_user or 0.0, chances)
    return chances
