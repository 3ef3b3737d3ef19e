"""The simulation loop: a policy plays an environment for a horizon.

Rounds are played in chunks of fixed size. Sums are taken round by round, in order, so results
do not depend on how a policy groups its pulls, on whether it is fused, or on what is kept.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from attrs import field, frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.display import (
    html_facts,
    html_table,
    shown_fields,
    shown_numbers,
)
from bdes_framework._internal.interrupts import is_interrupt
from bdes_framework._internal.numbers import as_integer
from bdes_framework._internal.text import class_path, quoted
from bdes_framework._internal.threads import one_thread
from bdes_framework._internal.upwards import drawn, report_function
from bdes_framework.errors import ContractError, InvalidValueError
from bdes_framework.interfaces import (
    Benchmark,
    CrowdEnvironment,
    Diagnostics,
    Environment,
    HasDiagnostics,
    HasInstance,
    Policy,
)
from bdes_framework.model.instance import Instance
from bdes_framework.model.rounds import Record
from bdes_framework.simulation.chunk import ChunkPlayer
from bdes_framework.simulation.totals import Totals

if TYPE_CHECKING:
    import altair

CHUNK = 1 << 14
"""Rounds per chunk: four arrays of this many numbers stay inside a core's cache."""


@frozen(eq=False)
class Trace:
    """The record of one simulation: curves at checkpoints and, if kept, every round.

    Parameters
    ----------
    horizon, n_arms : int
        Numbers of rounds and of arms.
    checkpoints : IntArray, shape (c,)
        Rounds after which the curves were recorded; the last is the horizon.
    cumulative_rewards, cumulative_means : FloatArray, shape (c,)
        Cumulative reward, and its expectation given the arms pulled.
    cumulative_states : FloatArray | None, shape (c,)
        Cumulative state of the pulls; None if the environment brings no states (it brings
        them in every round or in none).
    counts : IntArray, shape (K,)
        Number of pulls of each arm.
    arms : IntArray | None, shape (horizon,)
        The arm pulled in each round; None, like all below, if only curves were kept.
    rewards, means : FloatArray | None, shape (horizon,)
        The reward of each round, and its expectation.
    probabilities : FloatArray | None, shape (horizon,)
        Under noise, the probability each reward was drawn with; None without noise.
    states : FloatArray | None, shape (horizon,)
        The state of each pull; None if the environment brings none.
    diagnostics : Diagnostics
        The policy's diagnostics at the end; empty if it has none or they failed.
    diagnostics_error : BaseException | None
        What ``diagnostics`` of the policy raised, or that it returned no mapping.
    """

    horizon: int
    n_arms: int
    checkpoints: IntArray
    cumulative_rewards: FloatArray
    cumulative_means: FloatArray
    cumulative_states: FloatArray | None
    counts: IntArray
    arms: IntArray | None = None
    rewards: FloatArray | None = None
    means: FloatArray | None = None
    probabilities: FloatArray | None = None
    states: FloatArray | None = None
    diagnostics: Diagnostics = field(factory=dict)
    diagnostics_error: BaseException | None = None

    @property
    def total_reward(self) -> float:
        """The sum of all rewards."""
        return float(self.cumulative_rewards[-1])

    @property
    def total_mean(self) -> float:
        """The expectation of the sum of all rewards, given the arms pulled."""
        return float(self.cumulative_means[-1])

    def __repr__(self) -> str:
        return shown_fields(
            "Trace",
            horizon=self.horizon,
            n_arms=self.n_arms,
            total_reward=self.total_reward,
            total_mean=self.total_mean,
            counts=shown_numbers(self.counts),
            kept="every round" if self.arms is not None else "curves only",
        )

    def plot(self, benchmark: Benchmark | None = None) -> "altair.VConcatChart":
        """Return a chart of reward over rounds, and of the state and the arms if they were kept.

        Needs the extra ``report``. With a benchmark, from :func:`benchmark_of`, regret is drawn in
        place of reward.
        """
        chart: altair.VConcatChart = report_function("plot_trace")(self, benchmark)
        return chart

    def _repr_html_(self) -> str:
        facts = [
            ("rounds", self.horizon),
            ("reward", self.total_reward),
            ("expected reward", self.total_mean),
            ("expected reward per round", self.total_mean / self.horizon),
        ]
        order = np.argsort(-self.counts, kind="stable").tolist()
        rows = [
            (arm, int(n), f"{100 * n / self.horizon:.1f} %")
            for arm in order
            for n in [self.counts[arm]]
        ]
        table = html_table(["arm", "pulls", "share"], rows)
        return html_facts("Trace", facts) + table + drawn("image_of_trace", self)


def log_checkpoints(horizon: int, n: int = 50) -> IntArray:
    """Return up to ``n`` rounds from 1 to ``horizon``, evenly spaced on a log scale.

    >>> log_checkpoints(1000, 4).tolist()
    [1, 10, 100, 1000]
    """
    horizon, n = as_integer(horizon, "horizon", 1), as_integer(n, "n", 2)
    return np.unique(np.rint(np.geomspace(1, horizon, n)).astype(np.int64))


@one_thread()
def simulate(
    environment: Environment,
    policy: Policy,
    horizon: int,
    *,
    checkpoints: Sequence[int] | IntArray | None = None,
    keep: bool = True,
) -> Trace:
    """Simulate a policy on an environment for ``horizon`` rounds.

    Parameters
    ----------
    environment, policy : Environment, Policy
        Newly built ones: both are used up.
    horizon : int
        Number of rounds.
    checkpoints : Sequence[int] | IntArray | None
        Increasing rounds at which the curves are recorded; log-spaced by default. The horizon
        is always the last.
    keep : bool
        Whether to keep every round. If not, memory does not grow with the horizon.

    Raises
    ------
    ContractError
        If the policy or the environment breaks its protocol; names its class, the round
        (counted from 0) and the value. A number that is not finite, or a reward outside [0, 1],
        may be found as late as at the end of its chunk of rounds.
    """
    horizon = as_integer(horizon, "horizon", 1)
    rounds = as_checkpoints(checkpoints, horizon)
    n_arms = arms_of(environment)
    totals = Totals(n_arms, rounds)
    kept = Record.empty(horizon if keep else min(CHUNK, horizon))
    player = ChunkPlayer(environment, policy, n_arms, horizon)
    for start in range(0, horizon, CHUNK):
        offset = start if keep else 0
        chunk = kept.rounds(offset, offset + min(CHUNK, horizon - start))
        player.play(chunk, start)
        added = totals.add(chunk, start)
        player.check(chunk, start, added, totals.total)
    rewards, means, states = totals.curves
    diagnostics, diagnostics_error = diagnostics_of(policy)
    return Trace(
        horizon=horizon,
        n_arms=n_arms,
        checkpoints=rounds,
        cumulative_rewards=rewards,
        cumulative_means=means,
        cumulative_states=states if player.has_states else None,
        counts=totals.counts,
        arms=kept.arms if keep else None,
        rewards=kept.rewards if keep else None,
        means=kept.means if keep else None,
        probabilities=kept.probabilities if keep and player.is_noisy else None,
        states=kept.states if keep and player.has_states else None,
        diagnostics=diagnostics,
        diagnostics_error=diagnostics_error,
    )


def diagnostics_of(policy: object) -> tuple[Diagnostics, BaseException | None]:
    """Return a policy's diagnostics, or what went wrong: that must not cost a simulation."""
    if not isinstance(policy, HasDiagnostics):
        return {}, None
    try:
        found: object = policy.diagnostics()
        if not isinstance(found, Mapping):
            what = f"diagnostics must return a mapping, got {quoted(found)}"
            raise ContractError(f"policy {class_path(policy)}: {what}")
        return dict(found), None
    except BaseException as error:
        if is_interrupt(error):
            raise
        return {}, error


def arms_of(environment: Environment | CrowdEnvironment) -> int:
    """Return the number of arms, after checking it against the environment's instance."""
    who = f"environment {class_path(environment)}"
    try:
        n_arms = as_integer(environment.n_arms, "n_arms", 1)
    except InvalidValueError as error:
        raise ContractError(f"{who}: {error}") from None
    if isinstance(environment, HasInstance):
        instance = environment.instance
        if not isinstance(instance, Instance):
            raise ContractError(f"{who}: instance must be an Instance, got {quoted(instance)}")
        if (n := instance.n_arms) != n_arms:
            raise ContractError(f"{who}: n_arms is {n_arms}, but its instance has {n}")
    return n_arms


def as_checkpoints(values: Sequence[int] | IntArray | None, horizon: int) -> IntArray:
    """Return checked rounds, the last of which is the horizon; log-spaced ones for None."""
    if values is None:
        return log_checkpoints(horizon)
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise InvalidValueError(f"checkpoints must be a list of rounds, got {quoted(values)}")
    rounds = np.append(array.astype(np.int64), horizon)
    if rounds.size > 1 and rounds[-2] == horizon:
        rounds = rounds[:-1]
    if rounds[0] < 1 or (np.diff(rounds) <= 0).any():
        raise InvalidValueError(
            f"checkpoints must increase from 1 to {horizon}, got {quoted(values)}"
        )
    return rounds
