"""One cell of an experiment: what decides its numbers, and playing it.

A cell is plain and picklable: names and parameters, no objects of any plugin. Its key is a
hash of everything that decides its numbers, so results are never mixed up.
"""

import hashlib
import json
import time
import traceback
from collections.abc import Mapping

import numpy as np
from attrs import evolve, fields, frozen, has

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.seeding import branch
from bdes_framework._internal.text import one_line
from bdes_framework.errors import InvalidValueError
from bdes_framework.interfaces import Diagnostics, Environment, HasBenchmark, HasInstance, Policy
from bdes_framework.model.instance import Problem
from bdes_framework.plugin.plugins import Plugins
from bdes_framework.simulation.loop import Trace, log_checkpoints, simulate

KEY_FORMAT = 1
"""Raised whenever the meaning of a cell's fields changes, so that old results are not reused."""

OVERHEAD_PULLS = 100_000
"""How many pulls of a compiled policy take as long as all of a cell but its pulls."""


@frozen
class Part:
    """An environment or a policy of a cell: its label, its plugin's name, its parameters."""

    label: str
    use: str
    parameters: Mapping[str, object]

    @property
    def table(self) -> dict[str, object]:
        """The reference that builds it."""
        return {"use": self.use, **self.parameters}


@frozen
class Cell:
    """One policy on one environment, for one horizon and one replication.

    Parameters
    ----------
    key : str
        A hash of everything that decides the cell's numbers.
    environment, policy : Part
        Who plays whom.
    horizon, replication : int
        How many rounds are played, and which repetition this is, from 0.
    seed : int
        The experiment's seed: the root of every random stream.
    checkpoints : int
        At how many log-spaced rounds the curves are noted.
    reveal_lam, reveal_replenishing_arm : bool
        What the policy is told of the instance.
    """

    key: str
    environment: Part
    policy: Part
    horizon: int
    replication: int
    seed: int
    checkpoints: int
    reveal_lam: bool
    reveal_replenishing_arm: bool

    @property
    def cost(self) -> float:
        """Expected pulls, for an engine to balance work by, building and saving included."""
        return float(self.horizon + OVERHEAD_PULLS)


@frozen(eq=False)
class CellResult:
    """What became of a cell: curves at the checkpoints, or an error.

    Parameters
    ----------
    key : str
        Which cell.
    rewards, means : array of float, shape (c,)
        Paid and expected reward up to each checkpoint; empty if the cell failed.
    states : array of float, shape (c,)
        The sum of the states; empty if there are none.
    counts : array of int, shape (K,)
        How often each arm was pulled.
    basis : str
        What its benchmark is computed from: cells that share an instance share it. Empty
        if there is nothing to compute one from.
    diagnostics : str
        What the policy showed at the end, as JSON.
    error, details : str
        How it failed, on one line and with its traceback; empty if it did not.
    seconds : float
        How long it took; no part of the result.
    """

    key: str
    rewards: FloatArray
    means: FloatArray
    states: FloatArray
    counts: IntArray
    basis: str
    diagnostics: str
    error: str
    details: str
    seconds: float


def execute(plugins: Plugins, cell: Cell) -> CellResult:
    """Play one cell. Whatever a plugin raises becomes part of the result."""
    begin = time.perf_counter()
    try:
        environment = build_environment(plugins, cell)
        checkpoints = log_checkpoints(cell.horizon, cell.checkpoints)
        trace = play(plugins, cell, environment, checkpoints, keep=False)
        basis, diagnostics = _basis(environment, cell), _as_json(trace.diagnostics)
    except (Exception, SystemExit) as error:  # a plugin that calls sys.exit ends its own cell
        return failed(cell.key, *explained(error), time.perf_counter() - begin)
    return CellResult(
        key=cell.key,
        rewards=trace.cumulative_rewards,
        means=trace.cumulative_means,
        states=np.empty(0) if trace.cumulative_states is None else trace.cumulative_states,
        counts=trace.counts,
        basis=basis,
        diagnostics=diagnostics,
        error="",
        details="",
        seconds=time.perf_counter() - begin,
    )


def explained(error: BaseException) -> tuple[str, str]:
    """Return an error on one line and with its traceback, however hostile it is."""
    try:
        line = one_line(f"{type(error).__name__}: {error}")
        details = "".join(traceback.format_exception(error))
    except Exception:
        line = details = f"{type(error).__name__}, which cannot be shown"
    return line, details.encode("utf-8", "backslashreplace").decode()


def failed(key: str, error: str, details: str, seconds: float = 0.0) -> CellResult:
    """Return the result of a cell that failed."""
    nothing = np.empty(0)
    no_counts = np.empty(0, dtype=np.int64)
    return CellResult(key, nothing, nothing, nothing, no_counts, "", "{}", error, details, seconds)


def build_environment(plugins: Plugins, cell: Cell) -> Environment:
    """Build a cell's environment with the luck of its replication."""
    seed = branch(cell.seed, "replication", cell.replication)
    return plugins.environment(cell.environment.table, seed=seed)


def play(
    plugins: Plugins, cell: Cell, environment: Environment, checkpoints: IntArray, *, keep: bool
) -> Trace:
    """Let a cell's policy play its environment; what is noted or kept changes no number."""
    policy = _build_policy(plugins, cell, environment)
    return simulate(environment, policy, cell.horizon, checkpoints=checkpoints, keep=keep)


def refusal(plugins: Plugins, cell: Cell) -> str:
    """Return why a cell's policy refuses to play knowing so little; empty if it does not.

    Builds, and plays nothing. A policy that would refuse knowing everything, too, has a
    reason of another kind, which its cells will tell.
    """
    untold = [name for name in ("reveal_lam", "reveal_replenishing_arm") if not getattr(cell, name)]
    try:
        environment = build_environment(plugins, cell)
        _build_policy(plugins, cell, environment)
    except InvalidValueError as error:
        reason = str(error)
    except (Exception, SystemExit):
        return ""
    else:
        return ""
    try:
        told = evolve(cell, reveal_lam=True, reveal_replenishing_arm=True)
        _build_policy(plugins, told, environment)
    except (Exception, SystemExit):
        return ""
    return f"{reason}; or set {' and '.join(untold)} to true"


def _build_policy(plugins: Plugins, cell: Cell, environment: Environment) -> Policy:
    seed = branch(cell.seed, "replication", cell.replication)
    return plugins.policy(cell.policy.table, _problem(environment, cell), seed=seed)


def _basis(environment: Environment, cell: Cell) -> str:
    """Name what decides the benchmark: the instance, which an environment's luck may have drawn.

    An environment with a benchmark of its own is asked once per replication: it may depend
    on luck too.
    """
    if isinstance(environment, HasBenchmark):
        return cell_key({}, own=cell.environment.table, seed=cell.seed, k=cell.replication)
    if isinstance(environment, HasInstance):
        return cell_key({}, instance=environment.instance)
    return ""


def _problem(environment: Environment, cell: Cell) -> Problem:
    """Say what the learner may know: nothing of an environment that is no B-DES instance."""
    if not isinstance(environment, HasInstance):
        return Problem(environment.n_arms, cell.horizon)
    instance = environment.instance
    replenishing = int(instance.b.argmax()) if cell.reveal_replenishing_arm else None
    return Problem(
        n_arms=environment.n_arms,
        horizon=cell.horizon,
        lam=instance.lam if cell.reveal_lam else None,
        replenishing_arm=replenishing,
        q0=instance.q0,
    )


def cell_key(versions: Mapping[str, str], **decisive: object) -> str:
    """Return the hash of everything that decides a cell's numbers, plugin versions included."""
    text = json.dumps(
        {"format": KEY_FORMAT, "versions": dict(versions), **decisive},
        sort_keys=True,
        default=canonical,
    )
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def canonical(value: object) -> object:
    """Return a value as plain JSON that two equal values share, and two others do not."""
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return {"array": [str(value.dtype), list(value.shape), digest]}
    if isinstance(value, np.generic):
        return value.item()
    cls = type(value)
    if has(cls):
        own = {field.name: getattr(value, field.name) for field in fields(cls)}
        return {"config": cls.__qualname__, "fields": own}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be part of a cell")


def _as_json(diagnostics: Diagnostics) -> str:
    plain = {
        str(name): value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        for name, value in diagnostics.items()
    }
    return json.dumps(plain, sort_keys=True, default=str)
