"""Learning from many users: one posterior of (r, b, lam), draws from it, and a table for each.

All users share r, b and lam, and start at the same known state. So their pulls are one log of many
sequences, whose likelihood is explicit, for every pull; and its scale is never in doubt, as it is
with one audience whose first state is forgotten. Draws are normal around the modes, in logit r,
in b and in log lam.
"""

import math

import numpy as np
from attrs import frozen
from numpy.random import Generator

from bdes_framework import (
    CrowdEstimates,
    CrowdProblem,
    FloatArray,
    IntArray,
    InvalidValueError,
    compiled,
)
from bdes_policies.crowd.active_arms import check_retired
from bdes_policies.crowd.leaving import chances_of_return
from bdes_policies.crowd.models import LearnerState, Model, model_data, read_model
from bdes_policies.crowd.tables import planned_tables
from bdes_policies.crowd.visit_log import VisitLog, VisitsByUser
from bdes_policies.posterior.backtracking import MAX_LOGIT
from bdes_policies.posterior.modes import Belief, Mode, ModeSearch, Pulls, RatePrior

_OF_UNIFORM = 12.0
"""The precision of a uniform distribution: of each b, before anything is known."""
_TOLD_DRAWS = 256
"""Instances that people are told intervals from: 2.5 % of them are six."""
_NEAR_END = 1e-3
"""Believed b are no better known than this, however near to 0 or 1 they are."""


@compiled
def states_after(
    log: VisitsByUser, b: FloatArray, lam: FloatArray, q0: float, states: FloatArray
) -> None:
    """Fill in the state of each user after all visits: user u's under instance u modulo n."""
    for user in range(states.size):
        q, own = q0, user % lam.size
        for v in range(log.starts[user], log.starts[user + 1]):
            q += lam[own] * (b[own, log.arms[v]] - q)
        states[user] = q


@frozen(eq=False)
class Draws:
    """Instances drawn from the posterior."""

    r: FloatArray
    """Shape (n, K), as b."""
    b: FloatArray
    lam: FloatArray
    """Shape (n,)."""


@frozen
class LearningRules:
    """How often, and from how many draws, a model is made."""

    growth: float
    draws: int


class Learner:
    """All visits so far, and models made of them; decides nothing.

    A model depends on which rewards are known, not on the order they came in.
    """

    def __init__(
        self,
        problem: CrowdProblem,
        prior: RatePrior,
        belief: Belief | None,
        rules: LearningRules,
        rng: Generator,
        told_seed: int = 0,
    ) -> None:
        self._visits_per_user = problem.visits_per_user
        # (c·r, b/c, q0/c) is the same problem for every c: fitted where no number exceeds 1.
        self._unit = max(1.0, problem.q0)
        self._q0 = problem.q0 / self._unit
        self._prior = prior
        self._rules = rules
        self._rng = rng
        self._told_seed = told_seed
        self._search = ModeSearch(problem.n_arms, self._q0, prior, belief)
        self._is_active = np.ones(problem.n_arms, dtype=np.bool_)
        self._due_at = 0
        self._n_models = 0
        self._chances = np.empty(0)
        self.log = VisitLog()

    @property
    def n_arms(self) -> int:
        """How many arms there are, retired ones included."""
        return self._is_active.size

    @property
    def is_due(self) -> bool:
        """Whether the log has grown enough for another model, or its arms have changed."""
        return self.log.n_known >= self._due_at

    def add_arm(self) -> int:
        """Add an arm, of which nothing is known; return its number."""
        self._search.add_arm()
        self._is_active = np.append(self._is_active, True)
        self._due_at = 0
        return self.n_arms - 1

    def retire_arm(self, arm: int) -> None:
        """Plan without an arm from now on."""
        check_retired(self._is_active, arm)
        self._is_active[arm] = False
        self._due_at = 0

    def show(self, users: IntArray, arms: IntArray) -> None:
        """Take note of the next visits."""
        self.log.add(users, arms)

    def tell(self, visits: IntArray, rewards: FloatArray) -> None:
        """Take note of rewards."""
        self.log.tell(visits, rewards)

    def learn(self) -> bytes:
        """Make the next model, as data."""
        model = self.model()
        state = self._rng.bit_generator.state
        values, arrays = self._search.saved()
        values |= {
            "due_at": self._due_at,
            "generator": state["bit_generator"],
            "words": state["state"]["state"].tolist(),
            "rest": [state["has_uint32"], state["uinteger"]],
        }
        return model_data(model, LearnerState(values, arrays))

    def resume(self, model: bytes) -> None:
        """Go on as if this model had just been made here, of what is known now."""
        made, kept = read_model(model)
        values = kept.values
        if made.b.shape[1] != self.n_arms or made.visits != self.log.n_visits:
            raise InvalidValueError(
                f"the model is of {made.b.shape[1]} arms and {made.visits:,} visits, but here are"
                f" {self.n_arms} and {self.log.n_visits:,}"
            )
        generator = self._rng.bit_generator
        state = dict(generator.state)
        if values.get("generator") != state["bit_generator"]:
            raise InvalidValueError("the model was made with other random numbers")
        try:
            words = np.array(values["words"], dtype=np.uint64)
            rest = np.array(values["rest"], dtype=np.uint64).tolist()
            due_at = int(str(values["due_at"]))
            self._search.restore(values, kept.arrays)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidValueError(f"the model is incomplete: {error!r}") from None
        generator.state = {
            **state,
            "state": {"state": words},
            "has_uint32": rest[0],
            "uinteger": rest[1],
        }
        self._due_at, self._n_models, self._chances = due_at, made.number + 1, made.chances

    def model(self) -> Model:
        """Fit all visits, draw instances, and plan a table for each."""
        log = self.log.by_user()
        draws = self.draws(log, explorers_only=self.log.n_known == 0)
        self._chances = chances_of_return(log, self._visits_per_user)
        active = np.flatnonzero(self._is_active)
        problem = draws.r, draws.b, draws.lam, self._q0, self._chances
        states = np.empty(log.starts.size - 1)
        states_after(log, draws.b, draws.lam, self._q0, states)
        known, number = self.log.n_known, self._n_models
        self._due_at = known + max(1, math.ceil(self._rules.growth * known))
        self._n_models += 1
        return Model(
            number=number,
            visits=self.log.n_visits,
            r=draws.r,
            b=draws.b,
            lam=draws.lam,
            tables=planned_tables(*problem, active),
            active=active,
            chances=self._chances,
            q0=self._q0,
            states=states,
            counts=np.diff(log.starts),
            unit=self._unit,
            estimates=self._told(number),
        )

    def _told(self, number: int) -> CrowdEstimates:
        """Return what people are told, with draws enough for an interval.

        These are no part of what is decided, and come from random numbers of their own.
        """
        draws = self._draws_around(_TOLD_DRAWS, np.random.default_rng([self._told_seed, number]))
        r, b, lam = (np.array(each) for each in zip(*self.estimates(), strict=True))
        unit = self._unit
        return CrowdEstimates(
            r=r,
            b=b,
            lam=lam,
            q0=self._q0 * unit,
            continuation=1.0 - 1.0 / max(self.expected_visits, 1.0),
            r_draws=draws.r / unit,
            b_draws=draws.b * unit,
            lam_draws=draws.lam,
        )

    def draws(self, log: VisitsByUser, explorers_only: bool = True) -> Draws:
        """Fit visits, and draw instances, each around a mode picked by its weight.

        Unless all are for explorers, every other instance is the centre of its mode: half as many
        users find out as much a little later, and the others lose nothing by it.
        """
        self._search.update(Pulls(log.arms, log.rewards, log.starts[:-1]))
        return self._draws_around(self._rules.draws, self._rng, explorers_only)

    def _draws_around(self, n: int, rng: Generator, explorers_only: bool = True) -> Draws:
        """Draw instances around the modes."""
        modes, k = self._search.modes, self.n_arms
        deviates = rng.standard_normal((n, 2 * k + 1))
        if not explorers_only:
            deviates[1::2] = 0.0
        evidence = np.array([mode.evidence for mode in modes])
        weights = np.cumsum(np.exp(evidence - evidence[0]))
        picks = np.searchsorted(weights, rng.random(n) * weights[-1], side="right")
        there = np.empty_like(deviates)
        for pick, mode in enumerate(modes):
            of_mode = picks == pick
            centre, root = self._normal_around(mode)
            there[of_mode] = centre + np.linalg.solve(root.T, deviates[of_mode].T).T
        there = np.clip(there, -MAX_LOGIT, MAX_LOGIT)
        lam = np.minimum(np.exp(there[:, -1]), 1.0)
        if self._prior.known:
            lam = np.full(n, self._prior.lam)
        return Draws(1.0 / (1.0 + np.exp(-there[:, :k])), np.clip(there[:, k:-1], 0.0, 1.0), lam)

    def _normal_around(self, mode: Mode) -> tuple[FloatArray, FloatArray]:
        """Return the normal posterior around a mode: its centre, and a root of its precision.

        In logit r, b and log lam, each kept within its bounds. Near 1 a logit flattens out while
        the log still tells lam = 0.99 from 0.98, and so with b near either end: there draws that
        are normal in logits would be wide of the log. Rates near 0 differ by factors.
        """
        r, b, lam = self._search.values(mode.point.theta)
        k, rate = self.n_arms, 1.0 / self._prior.deviation**2
        slopes = np.concatenate([r * (1 - r), np.ones(k), [0.0 if self._prior.known else lam]])
        precision = np.diag(np.concatenate([2 * r * (1 - r), np.full(k, _OF_UNIFORM), [rate]]))
        if self._search.belief is not None:
            places = self._search.believed
            ends = np.maximum(np.append(b * (1 - b), 1 - lam), _NEAR_END)
            per_logit = (1.0 / np.append(np.ones(k), ends))[places]
            believed = self._search.belief.precision * np.outer(per_logit, per_logit)
            precision[np.ix_(places, places)] = believed
        precision += mode.point.information * np.outer(slopes, slopes)
        centre = np.concatenate([mode.point.theta[:k], b, [math.log(lam) if lam else 0.0]])
        return centre, np.linalg.cholesky(precision)

    def estimates(self) -> list[tuple[FloatArray, FloatArray, float]]:
        """Return r, b and lam of the best mode, and the ends of their 95 % intervals."""
        best = self._search.modes[0].point
        width = 1.96 * np.sqrt(np.diag(np.linalg.inv(best.precision)))
        ends = [self._search.values(best.theta + sign * width) for sign in (0.0, -1.0, 1.0)]
        return [(r / self._unit, b * self._unit, lam) for r, b, lam in ends]

    @property
    def expected_visits(self) -> float:
        """How often a user is expected to come, by the chances of coming back."""
        chances = np.minimum(self._chances, 1.0 - 1e-12)
        reached = np.concatenate([[1.0], np.cumprod(chances)])
        return float(reached[:-1].sum() + reached[-1] / (1.0 - chances[-1]))

    @property
    def n_models(self) -> int:
        """How many models were made."""
        return self._n_models

    @property
    def rows_swept(self) -> int:
        """How many visits were read to fit them."""
        return self._search.rows_swept
