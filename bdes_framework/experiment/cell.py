"""Cells of an experiment: one policy on one environment, its key, and simulating it.

A cell is plain and picklable: names and parameters, no objects of any plugin.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sized
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import numpy as np
from attrs import asdict, evolve, field, fields, frozen, has
from numpy.random import SeedSequence

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.display import shown_fields
from bdes_framework._internal.files import parse_json, working_folder_restored
from bdes_framework._internal.interrupts import is_interrupt
from bdes_framework._internal.seeding import branch
from bdes_framework._internal.text import quoted
from bdes_framework._internal.threads import one_thread
from bdes_framework.errors import InvalidValueError
from bdes_framework.experiment.failures import explained
from bdes_framework.interfaces import (
    CrowdEnvironment,
    CrowdPolicy,
    Environment,
    HasBenchmark,
    HasInstance,
    HasRateAndStart,
    HasVisitsPerUser,
    Kind,
    Policy,
)
from bdes_framework.model.compiling import CompileTimer, on_compiling
from bdes_framework.model.instance import CrowdProblem, Instance, Problem
from bdes_framework.plugin.fingerprint import ChangedCodeError, decisive_versions, has_foreign_code
from bdes_framework.plugin.plugins import Plugins
from bdes_framework.plugin.registry import REVEALED
from bdes_framework.plugin.shared_functions import shared_functions_kept
from bdes_framework.simulation.crowd import CrowdTrace, simulate_crowd
from bdes_framework.simulation.crowd_benchmark import user_checkpoints
from bdes_framework.simulation.feedback import Feedback, FeedbackConfig
from bdes_framework.simulation.loop import Trace, log_checkpoints, simulate

KEY_FORMAT = 2
"""Part of every key: increased when the meaning of a cell's fields changes."""

MAX_DIAGNOSTICS = 1_000_000
"""The most characters of JSON that a cell's diagnostics may have."""

DIAGNOSTICS_ERROR = "diagnostics_error"
"""The name under which it is stored why a cell has no diagnostics."""

OVERHEAD_PULLS = 100_000
"""The fixed cost of a cell, in pulls of a compiled policy."""

_PLAYED: set[str] = set()
"""Policies of which this process has played a cell, so that their code is loaded."""


@frozen
class Part:
    """An environment or a policy of a cell: its label, its plugin's name, its parameters.

    ``decisive`` are its parameters with the content of files in place of their names.
    ``code`` names the code it consists of, with versions: its plugin's and what it references.
    ``source`` is its label without what varies, ``varies`` the values of what does, and
    ``instance`` tells the arms it has from those of other instances; ``uses`` is what a policy
    may be told of the instance.
    """

    label: str
    use: str
    parameters: Mapping[str, object]
    code: Mapping[str, str]
    source: str = ""
    varies: Mapping[str, str | int | float | bool] = field(factory=dict)
    instance: str = ""
    uses: tuple[str, ...] = ()
    decisive: Mapping[str, object] | None = None

    @property
    def is_foreign(self) -> bool:
        """Whether building it runs code of third parties."""
        return has_foreign_code(self.code)

    @property
    def table(self) -> dict[str, object]:
        """The reference from which the plugin builds it."""
        return {"use": self.use, **self.parameters}

    @property
    def decisive_table(self) -> dict[str, object]:
        """The reference with the content of files in place of their names."""
        return self.table if self.decisive is None else {"use": self.use, **self.decisive}


@frozen
class Cell:
    """One policy on one environment, for one horizon and one replication.

    Parameters
    ----------
    key : str
        A hash of everything that decides the cell's numbers.
    spec : str
        The same without code: a hash of what the experiment file says of the cell.
    code : Mapping[str, str]
        The names and versions of all code that decides the cell's numbers.
    environment, policy : Part
        Labels, plugin names and parameters.
    horizon, replication : int
        Number of rounds, or of visits at most, and number of the repetition, from 0.
    seed : int
        The experiment's seed: the root of every random stream.
    checkpoints : int
        Number of log-spaced rounds at which the curves are recorded.
    reveal_lam, reveal_replenishing_arm : bool
        What is revealed to the policy of the instance.
    reveal_visits_per_user : bool
        Whether the policy is told how often a user is expected to come.
    feedback : FeedbackConfig | None
        When a policy for many users learns rewards; None where there is one audience.
    """

    key: str
    spec: str
    code: Mapping[str, str]
    environment: Part
    policy: Part
    horizon: int
    replication: int
    seed: int
    checkpoints: int
    reveal_lam: bool
    reveal_replenishing_arm: bool
    reveal_visits_per_user: bool = True
    feedback: FeedbackConfig | None = None

    def __repr__(self) -> str:
        policy, environment = quoted(self.policy.label, 60), quoted(self.environment.label, 60)
        place = {"policy": policy, "environment": environment, "horizon": self.horizon}
        return shown_fields("Cell", **place, replication=self.replication)

    @property
    def cost(self) -> float:
        """Expected cost in pulls, building and saving included, by which engines balance load."""
        return float(self.horizon + OVERHEAD_PULLS)


@frozen(eq=False)
class UserCurves:
    """What the first users brought together, in the order of their first visits.

    Parameters
    ----------
    users : IntArray, shape (d,)
        Numbers of users, increasing; the last is the number of all who came.
    rewards, means : FloatArray, shape (d,)
        Cumulative reward of the first so many users, and its expectation.
    """

    users: IntArray
    rewards: FloatArray
    means: FloatArray


@frozen(eq=False)
class CellResult:
    """The result of a cell: curves at the checkpoints, or an error.

    Parameters
    ----------
    key : str
        The cell's key.
    rewards, means : FloatArray, shape (c,)
        Cumulative reward and its expectation at the checkpoints; empty if the cell failed.
    states : FloatArray, shape (c,)
        Cumulative state; empty if the environment brings none.
    counts : IntArray, shape (K,)
        Number of pulls of each arm.
    basis : str
        Hash of what the benchmark is computed from, shared by cells of one instance; empty
        if there is no benchmark.
    diagnostics : str
        The policy's diagnostics at the end, as JSON.
    error, details : str
        The error on one line, and its traceback; empty if the cell did not fail.
    seconds : float
        Duration, without what was compiled meanwhile; not part of the result.
    user_curves : UserCurves | None
        Curves over users; None if there is one audience, or the cell failed.
    is_first : bool
        Whether it was the first cell of its policy in its process, which loads code; not part of
        the result.
    """

    key: str
    rewards: FloatArray = field(repr=False)
    means: FloatArray = field(repr=False)
    states: FloatArray = field(repr=False)
    counts: IntArray = field(repr=False)
    basis: str
    diagnostics: str = field(repr=False)
    error: str
    details: str = field(repr=False)
    seconds: float
    user_curves: UserCurves | None = field(default=None, repr=False)
    is_first: bool = False

    @property
    def warning(self) -> str | None:
        """Why there are no diagnostics although the policy has some; None otherwise."""
        if not self.diagnostics.startswith(f'{{"{DIAGNOSTICS_ERROR}": "'):
            return None
        try:
            return f"no diagnostics: {parse_json(self.diagnostics)[DIAGNOSTICS_ERROR]}"
        except (ValueError, KeyError):  # changed by somebody, with its checksum
            return "no diagnostics: what is stored of them cannot be read"

    @property
    def total_reward(self) -> float | None:
        """The sum of all rewards; None if the cell failed."""
        return None if self.error else float(self.rewards[-1])

    @property
    def total_mean(self) -> float | None:
        """The expectation of that sum, given the arms pulled; None if the cell failed."""
        return None if self.error else float(self.means[-1])


@contextmanager
def guarded(plugins: Plugins) -> Iterator[None]:
    """Run plugins on one thread, and put back what they change of this process.

    Raises ContractError if that is a function which all plugins share.
    """
    with working_folder_restored(), one_thread(), shared_functions_kept(plugins.statuses):
        yield


def execute(plugins: Plugins, cell: Cell) -> CellResult:
    """Simulate one cell; an exception of a plugin becomes part of the result.

    Raises
    ------
    ChangedCodeError
        If the code here is not that of the cell's key: nothing may be saved under it.
    """
    plugins.check_code(cell.code)
    begin, compiling = time.perf_counter(), CompileTimer()
    is_first = cell.policy.label not in _PLAYED
    _PLAYED.add(cell.policy.label)
    try:
        with guarded(plugins), on_compiling(compiling.switch):
            environment = build_environment(plugins, cell)
            checkpoints = log_checkpoints(cell.horizon, cell.checkpoints)
            trace = play(plugins, cell, environment, checkpoints, keep=False)
            basis = _basis(environment, cell)
            diagnostics = _diagnostics_json(trace, plugins)
    except BaseException as error:  # whatever a plugin raises, sys.exit too, ends its own cell
        if is_interrupt(error) or isinstance(error, ChangedCodeError):
            raise
        return failed(cell.key, *explained(error, plugins), time.perf_counter() - begin)
    rewards, means, states = (
        np.empty(0) if curve is None else to_the_end(curve, checkpoints.size)
        for curve in (trace.cumulative_rewards, trace.cumulative_means, trace.cumulative_states)
    )
    return CellResult(
        key=cell.key,
        rewards=rewards,
        means=means,
        states=states,
        counts=trace.counts,
        basis=basis,
        diagnostics=diagnostics,
        error="",
        details="",
        seconds=max(time.perf_counter() - begin - compiling.seconds, 0.0),
        user_curves=_user_curves(trace, checkpoints) if isinstance(trace, CrowdTrace) else None,
        is_first=is_first,
    )


def to_the_end(curve: FloatArray, n: int) -> FloatArray:
    """Return a cumulative curve of ``n`` values: it stays what it is when nobody comes any more."""
    return np.pad(curve, (0, n - curve.size), mode="edge")


def _user_curves(trace: CrowdTrace, checkpoints: IntArray) -> UserCurves:
    users = user_checkpoints(checkpoints, trace.n_users)
    rewards, means = trace.cumulative_user_rewards, trace.cumulative_user_means
    return UserCurves(users, rewards[users - 1], means[users - 1])


def _diagnostics_json(trace: Trace | CrowdTrace, plugins: Plugins) -> str:
    """Return the diagnostics of a simulation as JSON, or why there are none: no failure."""
    error = trace.diagnostics_error
    try:
        if error is None:
            shown = {str(name): _limited(value) for name, value in trace.diagnostics.items()}
            return _limited(
                json.dumps(shown, sort_keys=True, default=lambda v: _limited(as_json(v)))
            )
    except BaseException as wrong:
        if is_interrupt(wrong):
            raise
        error = wrong
    return json.dumps({DIAGNOSTICS_ERROR: explained(error, plugins)[0]})


V = TypeVar("V")


def _limited(value: V) -> V:
    """Return a value of diagnostics; raise InvalidValueError if it is too large to be kept."""
    sized = value if isinstance(value, np.ndarray | Sized) else ()
    size = sized.size if isinstance(sized, np.ndarray) else len(sized)
    if size > MAX_DIAGNOSTICS:
        raise InvalidValueError(
            f"diagnostics are limited to {MAX_DIAGNOSTICS:,} characters of JSON"
        )
    return value


def failed(key: str, error: str, details: str, seconds: float = 0.0) -> CellResult:
    """Return the result of a cell that failed."""
    empty, no_counts = np.empty(0), np.empty(0, dtype=np.int64)
    return CellResult(key, empty, empty, empty, no_counts, "", "{}", error, details, seconds)


def build_environment(plugins: Plugins, cell: Cell) -> Environment | CrowdEnvironment:
    """Build a cell's environment with the seed of its replication."""
    if cell.feedback is None:
        return plugins.environment(cell.environment.table, seed=_seed(cell))
    return plugins.crowd_environment(cell.environment.table, seed=_seed(cell))


def play(
    plugins: Plugins,
    cell: Cell,
    environment: Environment | CrowdEnvironment,
    checkpoints: IntArray,
    *,
    keep: bool,
) -> Trace | CrowdTrace:
    """Simulate a cell's policy on ``environment``; what is recorded changes no number."""
    policy = _build_policy(plugins, cell, environment)
    if cell.feedback is None:
        one = cast(Environment, environment), cast(Policy, policy)
        return simulate(*one, cell.horizon, checkpoints=checkpoints, keep=keep)
    feedback = Feedback(**asdict(cell.feedback), seed=branch(_seed(cell), "feedback"))
    many = cast(CrowdEnvironment, environment), cast(CrowdPolicy, policy)
    return simulate_crowd(
        *many, cell.horizon, feedback=feedback, checkpoints=checkpoints, keep=keep
    )


def missing_knowledge(plugins: Plugins, cell: Cell) -> str:
    """Return why a cell's policy needs more to be revealed to be built; empty if it does not.

    Empty, too, if code of third parties would be run: it may never end, or end the process.
    """
    if cell.environment.is_foreign or cell.policy.is_foreign:
        return ""
    kind = Kind.POLICY if cell.feedback is None else Kind.CROWD_POLICY
    names = [f"reveal_{name}" for name in REVEALED[kind]]
    hidden = [name for name in names if not getattr(cell, name)]
    try:
        with guarded(plugins):
            environment = build_environment(plugins, cell)
            try:
                _build_policy(plugins, cell, environment)
            except InvalidValueError as error:
                knowing: dict[str, Any] = dict.fromkeys(names, True)
                _build_policy(plugins, evolve(cell, **knowing), environment)
                return f"{error}; or set {' and '.join(hidden)} to true"
    except BaseException as error:
        if is_interrupt(error):
            raise
    return ""


def _build_policy(
    plugins: Plugins, cell: Cell, environment: Environment | CrowdEnvironment
) -> Policy | CrowdPolicy:
    """Build a cell's policy; what an environment does not say of itself is not revealed."""
    instance = environment.instance if isinstance(environment, HasInstance) else None
    tells: Instance | HasRateAndStart | None = instance
    if tells is None and cell.feedback is not None and isinstance(environment, HasRateAndStart):
        tells = environment
    known = {} if tells is None else {"q0": tells.q0}
    lam = tells.lam if tells is not None and cell.reveal_lam else None
    if cell.feedback is None:
        shown = instance if cell.reveal_replenishing_arm else None
        best = None if shown is None else int(shown.b.argmax())
        one = Problem(environment.n_arms, cell.horizon, lam, best, **known)
        return plugins.policy(cell.policy.table, one, seed=_seed(cell))
    often = None
    if cell.reveal_visits_per_user and isinstance(environment, HasVisitsPerUser):
        often = environment.visits_per_user
    many = CrowdProblem(environment.n_arms, cell.horizon, often, lam, **known)
    return plugins.crowd_policy(cell.policy.table, many, seed=_seed(cell))


def _seed(cell: Cell) -> SeedSequence:
    return branch(cell.seed, "replication", cell.replication)


def _basis(environment: Environment | CrowdEnvironment, cell: Cell) -> str:
    """Return a hash of what decides the benchmark: the instance, which may have been drawn.

    An environment with a benchmark of its own is asked once per replication, and so are the
    visits of many users.
    """
    is_crowd = cell.feedback is not None
    if isinstance(environment, HasInstance) if is_crowd else isinstance(environment, HasBenchmark):
        own = cell.environment
        code = decisive_versions(own.code)
        return spec_hash(own=own.decisive_table, code=code, seed=cell.seed, k=cell.replication)
    if is_crowd:
        return ""
    if isinstance(environment, HasInstance):
        return spec_hash(instance=environment.instance)
    return ""


def cell_key(spec: str, code: Mapping[str, str]) -> str:
    """Return the hash of everything that decides a cell's numbers: its spec and its code."""
    return spec_hash(spec=spec, code=decisive_versions(code))


def spec_hash(**decisive: object) -> str:
    """Return a hash of values, the same for equal values and for no others."""
    content = {"format": KEY_FORMAT, **decisive}
    text = json.dumps(content, sort_keys=True, default=canonical)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def canonical(value: object) -> object:
    """Return a value as plain JSON, the same for equal values and for no others."""
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


def as_json(value: object) -> object:
    """Return arrays and numpy scalars as plain JSON, all else as text: json's ``default``."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
