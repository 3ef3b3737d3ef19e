"""The policy ``crowd-posterior``: a user is shown what is best if a draw of their own is true."""

from pathlib import Path

from attrs import field, frozen
from attrs.validators import ge, gt, lt

from bdes_framework import (
    CrowdPolicyContext,
    CrowdProblem,
    Diagnostics,
    DiagnosticValue,
    FitPrior,
    FloatArray,
    IntArray,
    validate_integer,
    validate_number,
)
from bdes_policies.crowd.deciding import Decider
from bdes_policies.crowd.learning import Learner, LearningRules
from bdes_policies.posterior.modes import Belief, RatePrior, prior_from_fit

_UNKNOWN_RATE = RatePrior(0.5, 4.0, known=False, starts=(0.003, 0.05, 0.5))
"""Four in logits is several orders of magnitude; starts so far apart that no mode was missed."""


@frozen
class CrowdPosteriorConfig:
    """Posterior sampling for many users: lam, and how often users come, may be unknown.

    One posterior of r, b and lam is fitted to the rewards of all users; some instances are drawn
    from it, and a decision table is planned for each. User ``u`` follows table ``u`` modulo their
    number, at the state that what they were shown has led to under their own instance. So users
    explore side by side, each for a lifetime, until the next fit. How likely a user comes back is
    learned from who came when, for each number of visits made.

    Rewards may be late, in any order, or missing: those that are known decide, nothing else.

    Parameters
    ----------
    growth : float
        Fit, draw and plan anew when the number of known rewards has grown by this share, between 0
        and 1.
    draws : int
        How many instances to draw. Once rewards are known, every other one is not drawn but the
        most likely: half of the users explore.
    prior : FitPrior | path | None
        The file of a fit, as ``bdes fit --out`` writes it: what is known of the arms and of lam
        before the first visit. The fit's arms are the first; it must begin at the same state.
    """

    growth: float = field(default=0.1, validator=[validate_number, gt(0), lt(1)])
    draws: int = field(default=64, validator=[validate_integer, ge(1)])
    prior: Path | FitPrior | None = None


def _believed(
    config: CrowdPosteriorConfig, problem: CrowdProblem
) -> tuple[RatePrior, Belief | None]:
    if config.prior is not None:
        q0 = problem.q0 / max(1.0, problem.q0)
        return prior_from_fit(config.prior, problem.n_arms, q0, problem.lam)
    if problem.lam is not None:
        return RatePrior(problem.lam, 1.0, known=True, starts=(problem.lam,)), None
    return _UNKNOWN_RATE, None


class CrowdPosterior:
    """The policy ``crowd-posterior``: a learner, and a decider by its newest model."""

    def __init__(self, config: CrowdPosteriorConfig, context: CrowdPolicyContext) -> None:
        problem = context.problem
        prior, belief = _believed(config, problem)
        rules = LearningRules(config.growth, config.draws)
        told_seed = int(context.stream("told").integers(2**63))
        self._learner = Learner(problem, prior, belief, rules, context.rng, told_seed)
        self._decider = Decider(problem.n_arms)

    def __repr__(self) -> str:
        log = self._learner.log
        known = f"visits={log.n_visits:,}, users={log.n_users:,}, rewards={log.n_known:,}"
        return f"CrowdPosterior(n_arms={self._learner.n_arms}, {known})"

    @property
    def decider(self) -> Decider:
        """The half that decides."""
        return self._decider

    @property
    def learner(self) -> Learner:
        """The half that learns."""
        return self._learner

    def ask(self, users: IntArray) -> IntArray:
        """Return an arm for each visit, by a new model if one is due."""
        self._decide_by_newest()
        arms = self._decider.decide(users)
        self._learner.show(users, arms)
        return arms

    def choose(self, users: IntArray) -> IntArray:
        """Return the arm to show each user now, by a new model if one is due."""
        self._decide_by_newest()
        return self._decider.choose(users)

    def show(self, users: IntArray, arms: IntArray) -> None:
        """Note the next visits, and what was shown."""
        self._have_a_model()
        self._decider.show(users, arms)
        self._learner.show(users, arms)

    def tell(self, visits: IntArray, rewards: FloatArray) -> None:
        """Take note of rewards."""
        self._learner.tell(visits, rewards)

    def add_arm(self) -> int:
        """Add an arm of which nothing is known; return its number."""
        self._have_a_model()
        self._decider.add_arm()
        return self._learner.add_arm()

    def retire_arm(self, arm: int) -> None:
        """Show an arm no more; what its rewards said of lam and of states is kept."""
        self._have_a_model()
        self._decider.retire_arm(arm)
        self._learner.retire_arm(arm)

    def _decide_by_newest(self) -> None:
        self._have_a_model()
        if self._learner.is_due:
            self._decider.use(self._learner.model())

    def _have_a_model(self) -> None:
        """Make the first model, of nothing, unless there is one."""
        if self._learner.n_models == 0:
            self._decider.use(self._learner.model())

    def diagnostics(self) -> Diagnostics:
        """Return estimates with 95 % intervals, how often users come, and what was done."""
        self._have_a_model()
        learner = self._learner
        shown: dict[str, DiagnosticValue] = {
            "models": learner.n_models,
            "rows_swept": learner.rows_swept,
            "expected_visits": learner.expected_visits,
        }
        for name, (r, b, lam) in zip(("hat", "low", "high"), learner.estimates(), strict=True):
            shown |= {f"r_{name}": r, f"b_{name}": b, f"lam_{name}": lam}
        return shown
