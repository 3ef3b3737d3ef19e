"""The policy ``posterior``: fit all pulls, draw instances, plan for each, follow one plan."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from attrs import field, frozen
from attrs.validators import ge, gt, le, lt, optional
from numpy.typing import NDArray

from bdes_framework import (
    ContractError,
    Diagnostics,
    DiagnosticValue,
    FitPrior,
    FloatArray,
    IntArray,
    InvalidValueError,
    PolicyContext,
    Problem,
    compiled,
    validate_integer,
    validate_number,
)
from bdes_policies.exploration.phased_policy import MAX_BLOCK
from bdes_policies.exploration.phases import check_rewards
from bdes_policies.posterior.backtracking import Instances, move_states
from bdes_policies.posterior.deviates import CorrelatedDeviates
from bdes_policies.posterior.information_gain import choose_plan, highest_value
from bdes_policies.posterior.laplace import Draw, Posterior
from bdes_policies.posterior.lookahead import (
    MAX_STEPS,
    STATES,
    plan_all,
    room_for_futures,
    steps_ahead,
)
from bdes_policies.posterior.modes import RatePrior, prior_from_fit

_MIN_ROUNDS = 2
"""Of an epoch."""
_FIRST_REDRAW = 0.003
_FIRST_ROUNDS = 1000
"""In the first rounds draws are cheap and are made more often: an arm whose first rewards were
poor is tried again only after an optimistic draw."""
_MIN_PLAYS = 2.0
"""Times log T: how often every arm is played where the state has moved, ``_STINT`` in a row."""
_STINT = 6
_MAX_SHARES = (0.25, 0.05)
"""Shares of the rounds so far, and of all, that playing arms that often may take."""
_TRIAL = 0.25
"""The part of 1/lam pulls that shows something of an arm's end state."""
_UNKNOWN_DEVIATION = 4.0
_SHOWN_STEPS = 400
_MAX_CYCLE = 64
_MAX_TEXT = 200


@frozen
class PosteriorConfig:
    """Information-directed sampling, for any lam: known, predicted or unknown. Not in the paper.

    The state is a known function of the arms pulled once (b, lam) are given, so the
    likelihood of every pull is explicit. In epochs that grow with the rounds played: fit
    (r, b, lam) to all pulls; draw some instances from the posterior; plan roughly for each,
    from the state that the arms really pulled have led to under it and for the rounds really
    left; follow the plan with the least squared regret per information gain, or an optimistic
    candidate that is worth its price. As long as the state has surely not moved that is Thompson
    sampling. Draws narrow as the end comes nearer, when there is less and less to explore for.

    Parameters
    ----------
    lam_prior : float | None
        A prediction of lam, between 0 and 1, neither of them: where lam is not known. Without
        one, lam is taken to be about 1/T, give or take several orders of magnitude.
    lam_deviation : float
        The standard deviation of the prediction, in logit lam: 2.3 is a factor of 10.
    trust_lam : bool
        False: play as if lam were not known.
    growth : float
        Fit anew when the log has grown by this share, between 0 and 1.
    redraw : float
        Draw and plan anew when the log has grown by this share, between 0 and 1, and after
        every fit. Every draw is compared with the whole log, which is much of the work.
    draws : int
        How many instances to draw. Every plan is evaluated under every draw: a hundred draws take
        a hundred times as long for that as ten.
    width : float
        What the deviations of draws are multiplied by, times a factor that falls to 0 at the
        end: the square root of log(1 + left / (t + 4/lam)). The fewer the draws and the smaller
        this is, the likelier it is to settle on a wrong answer too early. While lam·t is below
        1, pay-offs are drawn as wide as they are, whatever this says.
    prior : FitPrior | path | None
        The file of a fit, as ``bdes fit --out`` writes it: what is known of the arms and of lam
        before the first round. The fit's arms are the first; it must begin at the same state.
    """

    lam_prior: float | None = field(
        default=None, validator=optional([validate_number, gt(0), lt(1)])
    )
    lam_deviation: float = field(default=3.0, validator=[validate_number, ge(1e-3), le(1e3)])
    trust_lam: bool = True
    growth: float = field(default=0.05, validator=[validate_number, gt(0), lt(1)])
    redraw: float = field(default=0.04, validator=[validate_number, gt(0), lt(1)])
    draws: int = field(default=12, validator=[validate_integer, ge(1)])
    width: float = field(default=0.7, validator=[validate_number, gt(0), lt(math.inf)])
    prior: Path | FitPrior | None = None

    def __attrs_post_init__(self) -> None:
        if self.prior is not None and self.lam_prior is not None:
            raise InvalidValueError("give 'prior' or 'lam_prior', not both: a fit says both")


def rate_prior(config: PosteriorConfig, problem: Problem) -> RatePrior:
    """Return the prior of lam: its true value, a prediction, or a wide one around 1/T."""
    if problem.lam is not None and config.trust_lam:
        return RatePrior(problem.lam, 1.0, known=True, starts=(problem.lam,))
    slow = 1.0 / (problem.horizon + 1.0)
    centre, deviation = slow, _UNKNOWN_DEVIATION
    if config.lam_prior is not None:
        centre, deviation = float(config.lam_prior), float(config.lam_deviation)
    return RatePrior(centre, deviation, known=False, starts=(slow, math.sqrt(slow), 0.5))


class PullHistory:
    """All arms pulled and rewards observed, in arrays that grow by doubling."""

    def __init__(self) -> None:
        self._arms = np.empty(1024, dtype=np.int64)
        self._rewards = np.empty(1024, dtype=np.float32)
        self.size = 0

    @property
    def arms(self) -> IntArray:
        """All arms pulled."""
        return self._arms[: self.size]

    @property
    def rewards(self) -> NDArray[np.float32]:
        """All rewards observed, in single precision, which is exact for 0 and 1."""
        return self._rewards[: self.size]

    def add(self, arms: IntArray, rewards: FloatArray) -> None:
        """Append a block of pulls."""
        stop = self.size + arms.size
        if stop > self._arms.size:
            room = max(2 * self._arms.size, stop)
            self._arms, self._rewards = np.resize(self._arms, room), np.resize(self._rewards, room)
        self._arms[self.size : stop] = arms
        self._rewards[self.size : stop] = rewards
        self.size = stop


class FollowedInstance(NamedTuple):
    """What is planned for: an instance that the log allows for, and the state if it is true."""

    draw: Draw
    state: float
    left: int
    """How many rounds there are to plan for."""

    def plan(self, arms: IntArray) -> float:
        """Fill in the first arms of a careful plan; return what it promises per round."""
        (r, b, lam), state, left = self
        one = Instances(r[None], b[None], np.array([lam]), np.array([state]))
        promised = np.empty(1)
        plan_all(one, left, MAX_STEPS, promised, arms[None], room_for_futures(1, STATES))
        return float(promised[0])


class PosteriorPolicy:
    """The policy ``posterior``."""

    def __init__(self, config: PosteriorConfig, context: PolicyContext) -> None:
        problem, rng = context.problem, context.rng
        self._config = config
        self._horizon = problem.horizon
        self._n_arms = problem.n_arms
        # (c·r, b/c, q0/c) is the same problem for every c: it is fitted in the scale in which no
        # number exceeds 1, and shown in that of the problem.
        self._unit = max(1.0, problem.q0)
        self._rng = rng
        q0, belief = problem.q0 / self._unit, None
        rate = rate_prior(config, problem)
        if config.prior is not None:
            told = problem.lam if config.trust_lam else None
            rate, belief = prior_from_fit(config.prior, problem.n_arms, q0, told)
        self._posterior = Posterior(problem.n_arms, q0, rate, belief)
        self._history = PullHistory()
        self._block = np.empty(0, dtype=np.int64)
        self._n_observed = self._asked = 0
        self._plays = np.zeros(problem.n_arms, dtype=np.int64)
        self._fit_at = 0
        self._deviates = CorrelatedDeviates(config.draws, problem.n_arms, rng)
        self._n_fits = self._n_plans = 0
        self._active: FollowedInstance | None = None
        self._snapshots: list[tuple[int, FloatArray, FloatArray, FloatArray]] = []

    def __repr__(self) -> str:
        played = f"{self._history.size:,} of {self._horizon:,}"
        return f"PosteriorPolicy(n_arms={self._n_arms}, played={played})"

    # -- Policy ------------------------------------------------------------------------------

    def ask(self, limit: int) -> IntArray:
        """Return the next arms of the plan, or of a new one."""
        if self._n_observed == self._block.size:
            self._next_block()
        self._asked = n = min(limit, self._block.size - self._n_observed, MAX_BLOCK)
        return self._block[self._n_observed : self._n_observed + n].copy()

    def tell(self, rewards: FloatArray) -> None:
        """Append the rewards to the history."""
        check_rewards(rewards, self._asked)
        if not ((rewards >= 0) & (rewards <= 1)).all():
            raise InvalidValueError(f"rewards must lie in [0, 1], got {rewards.tolist()[:5]!r}")
        self._history.add(self._block[self._n_observed : self._n_observed + rewards.size], rewards)
        self._n_observed += rewards.size
        self._asked = 0

    # -- epochs -----------------------------------------------------------------------------

    def _next_block(self) -> None:
        t = self._history.size
        left = self._horizon - t
        if left == 0:
            raise ContractError("asked for more rounds than the problem's horizon has")
        if t >= self._fit_at:
            self._fit()
            self._fit_at = t + max(_MIN_ROUNDS, int(self._config.growth * t))
        arm = self._underplayed_arm(t)
        if arm is not None:
            self._block = np.full(min(_STINT, left), arm, dtype=np.int64)
            self._active, self._n_observed = None, 0
            self._plays[arm] += self._block.size
            self._fit_at = t + self._block.size
            return
        active = self._choose(left)
        share = min(self._config.redraw, _FIRST_REDRAW * (1 + t / _FIRST_ROUNDS))
        rounds = max(_MIN_ROUNDS, int(share * t))
        block = np.empty(min(rounds, self._fit_at - t, left), dtype=np.int64)
        active.plan(block)
        n = _until_doubled(block, self._plays, self._allowance(active.draw.lam, left))
        if n < block.size:
            self._fit_at = t + n
        self._block, self._active, self._n_observed = block[:n], active, 0
        self._n_plans += 1

    def _underplayed_arm(self, t: int) -> int | None:
        """Return an arm that was played too little to be given up, or None.

        Where the state moves, draws change too slowly, and are too few, to try it again in time.
        """
        if not self._posterior.has_moved:
            return None
        most = min(share * n for share, n in zip(_MAX_SHARES, (t, self._horizon), strict=True))
        wanted = min(_MIN_PLAYS * math.log(self._horizon), most / self._n_arms)
        arm = int(self._plays.argmin())
        return arm if self._plays[arm] < wanted else None

    def _allowance(self, lam: float, left: int) -> int:
        """Return for how many pulls to try an arm even if that more than doubles its plays."""
        if lam * left <= 1.0:
            return _MIN_ROUNDS
        return max(_MIN_ROUNDS, int(_TRIAL / lam))

    def _fit(self) -> None:
        self._posterior.fit(self._history.arms, self._history.rewards)
        self._n_fits += 1
        if not self._snapshots or self._history.size >= 2 * self._snapshots[-1][0]:
            self._snapshots.append(self._estimates())

    def _choose(self, left: int) -> FollowedInstance:
        """Return what to plan for: an optimistic candidate if worth its price, else a draw.

        Where the state has not moved, under any mode, b and lam hardly count, and the plan of the
        highest value, of draws with the same r, is Thompson sampling.
        """
        posterior = self._posterior
        deviates = self._deviates.after(self._history.size, posterior.rate_of_change)
        draws = posterior.draws(deviates, self._rng, self._config.width, left)
        since_fit = self._history.arms[posterior.n_pulls :]
        move_states(draws, since_fit)
        if not posterior.may_have_moved:
            chosen = highest_value(draws, left)
        else:
            others, price = posterior.optimistic_candidates(left)
            move_states(others, since_fit)
            chosen = choose_plan(draws, others, price, posterior.rate_of_change, left)
            if chosen >= draws.lam.size:
                draws, chosen = others, chosen - draws.lam.size
        draw = Draw(draws.r[chosen], draws.b[chosen], float(draws.lam[chosen]))
        return FollowedInstance(draw, float(draws.state[chosen]), left)

    # -- diagnostics -------------------------------------------------------------------------

    def _estimates(self) -> tuple[int, FloatArray, FloatArray, FloatArray]:
        best = self._posterior.best
        estimates = np.concatenate([best.r, best.b, [best.lam]])
        low, high = self._posterior.intervals()
        scale = np.repeat([1 / self._unit, self._unit, 1.0], [self._n_arms, self._n_arms, 1])
        return self._history.size, scale * estimates, scale * low, scale * high

    def diagnostics(self) -> Diagnostics:
        """Return estimates with 95 % intervals, now and over time, epochs and the plan."""
        shown: dict[str, DiagnosticValue] = {
            "fits": self._n_fits,
            "plans": self._n_plans,
            "rows_swept": self._posterior.rows_swept,
        }
        if not self._n_fits:
            return shown
        k = self._n_arms
        for name, values in zip(("hat", "low", "high"), self._estimates()[1:], strict=True):
            shown[f"r_{name}"], shown[f"b_{name}"] = values[:k], values[k : 2 * k]
            shown[f"lam_{name}"] = float(values[-1])
        shown["fitted_after"] = np.array([each[0] for each in self._snapshots])
        for index, name in enumerate(("hat", "low", "high"), start=1):
            over_time = np.array([each[index] for each in self._snapshots])
            shown[f"r_{name}_over_time"] = over_time[:, :k]
            shown[f"b_{name}_over_time"] = over_time[:, k : 2 * k]
            shown[f"lam_{name}_over_time"] = over_time[:, -1]
        return shown if self._active is None else shown | self._planned(self._active)

    def _planned(self, active: FollowedInstance) -> dict[str, DiagnosticValue]:
        rounds, ahead, to_the_end = steps_ahead(active.draw.lam, active.left, MAX_STEPS)
        steps = min(_SHOWN_STEPS, ahead) if to_the_end else _SHOWN_STEPS
        arms = np.empty(steps * rounds, dtype=np.int64)
        value = active.plan(arms)
        text = " ".join(f"{arm}×{n}" for arm, n in _runs(arms))
        return {
            "drawn_r": active.draw.r / self._unit,
            "drawn_b": active.draw.b * self._unit,
            "drawn_lam": active.draw.lam,
            "state": active.state * self._unit,
            "plan": text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…",
            "plan_value": value,
            "cycle": _cycle(arms[::rounds]),
            "cycle_rounds": rounds,
        }


@compiled
def _until_doubled(block: IntArray, plays: IntArray, fewest: int) -> int:
    """Count the pulls until one would more than double its arm's plays; add them to ``plays``.

    A draw may be wrong about an arm that was hardly ever played.
    """
    most = plays.copy()
    for arm in range(plays.size):
        most[arm] += max(plays[arm], fewest)
    for t in range(block.size):
        if plays[block[t]] >= most[block[t]]:
            return t
        plays[block[t]] += 1
    return int(block.size)


def _runs(arms: IntArray) -> list[tuple[int, int]]:
    """Return arms and how often each is played before the next."""
    starts = np.flatnonzero(np.append(True, arms[1:] != arms[:-1]))
    lengths = np.diff(np.append(starts, arms.size))
    return list(zip(arms[starts].tolist(), lengths.tolist(), strict=True))


def _cycle(arms: IntArray) -> IntArray:
    """Return the shortest cycle that the middle half of some steps repeats; empty if none."""
    middle = arms[arms.size // 4 : arms.size - arms.size // 4]
    for period in range(1, min(_MAX_CYCLE, middle.size // 2) + 1):
        if np.array_equal(middle[period:], middle[:-period]):
            return middle[:period].copy()
    return np.empty(0, dtype=np.int64)
