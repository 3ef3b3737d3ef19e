"""A broken protocol in a simulation raises ContractError: whose, in which round, which value."""

import math
from collections.abc import Container
from typing import Any

import numpy as np
import pytest
from attrs import define

import bdes_framework as bdes
from bdes_framework import ContractError, IntArray, Outcome, Record, World, play_round, simulate
from bdes_framework.simulation.loop import CHUNK
from tests.support.players import (
    FaultyEnvironment,
    InTurn,
    Scripted,
    environment,
    play_in_turn,
    script,
    spoilt,
)


@define
class Answer:
    """Plays arm 0 for five rounds, then returns wrong arms."""

    wrong: Any
    _rounds: int = 0

    def ask(self, limit: int) -> IntArray:
        self._rounds += 1
        return np.zeros(1, dtype=np.int64) if self._rounds <= 5 else self.wrong

    def tell(self, rewards: bdes.FloatArray) -> None:
        pass


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.array([3]), "returned arm 3; arms go from 0 to 2"),
        (np.array([0, -1]), r"round 6 \(counted from 0\): ask returned arm -1"),
        (np.array([1.0]), "got array of float64"),
        (np.array([math.nan]), "nan"),
        (np.array([1], dtype=np.int32), "got array of int32"),
        (np.array([[1]]), r"shape \(1, 1\)"),
        (np.empty(0, dtype=np.int64), "1 to 15 arms, got 0"),
        (np.zeros(16, dtype=np.int64), "1 to 15 arms, got 16"),
        ([1], "got list"),
        (None, "got NoneType"),
    ],
)
def test_wrong_arms_raise(wrong: object, message: str) -> None:
    with pytest.raises(ContractError, match=message) as caught:
        simulate(environment(), Answer(wrong), 20)
    assert "policy tests.simulation.test_chunk.Answer, round" in str(caught.value)
    if "round 6" not in message:
        assert "round 5" in str(caught.value)


def outcome(n: int, **values: Any) -> Outcome:
    """Return an outcome of n zeros, with some values replaced."""
    return Outcome(**{"rewards": np.zeros(n), "means": np.zeros(n)} | values)


WRONG_OUTCOMES: dict[str, Any] = {
    "pull must return an Outcome, got None": lambda n: None,
    "pull must return an Outcome, got 0.5": lambda n: 0.5,
    r"rewards as array of float64, shape \(.,\), got list": lambda n: outcome(n, rewards=[0.5] * n),
    "rewards as .* got array of <U3": lambda n: outcome(n, rewards=np.full(n, "0.5")),
    "rewards as .* got array of int64": lambda n: outcome(n, rewards=np.zeros(n, dtype=int)),
    r"means as .* shape \(5,\)": lambda n: outcome(n, means=np.zeros(5)),
    r"rewards as .* shape \(., 1\)": lambda n: outcome(n, rewards=np.zeros((n, 1))),
    r"rewards as .* shape \(\)": lambda n: outcome(n, rewards=np.array(0.5)),
    "means as .* got NoneType": lambda n: outcome(n, means=None),
    "rewards are not finite": lambda n: outcome(n, rewards=spoilt(n)),
    "means are not finite": lambda n: outcome(n, means=spoilt(n)),
}
WRONG_EXTRAS: dict[str, Any] = {
    "probabilities as .* got list": lambda n: outcome(n, probabilities=[0.5] * n),
    r"states as .* shape \(5,\)": lambda n: outcome(n, states=np.zeros(5)),
    "states as .* got str": lambda n: outcome(n, states="q"),
    "states are not finite": lambda n: outcome(n, states=spoilt(n)),
    "probabilities are not finite": lambda n: outcome(n, probabilities=spoilt(n)),
}


@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize("message", WRONG_OUTCOMES | WRONG_EXTRAS)
def test_wrong_outcomes_raise(message: str, block: int) -> None:
    wrong = (WRONG_OUTCOMES | WRONG_EXTRAS)[message]
    where = r"environment tests\.support\.players\.FaultyEnvironment, round 0 \(counted from 0\)"
    with pytest.raises(ContractError, match=f"{where}: .*{message}"):
        simulate(FaultyEnvironment(wrong), Scripted(script(20), [block]), 20)


@pytest.mark.parametrize(("block", "keep"), [(1, True), (4, False)])
@pytest.mark.parametrize("message", WRONG_OUTCOMES)
def test_wrong_outcomes_raise_in_later_chunks(message: str, block: int, keep: bool) -> None:
    """After the first blocks, which are checked fully, and in the second chunk."""
    late = CHUNK + 40
    faulty = FaultyEnvironment(WRONG_OUTCOMES[message], since=late)
    with pytest.raises(ContractError, match=rf"round {late} \(counted from 0\): .*{message}"):
        simulate(faulty, Scripted(script(late + 8), [block]), late + 8, keep=keep)


@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("extra", ["states", "probabilities"])
def test_extras_in_some_rounds_only_raise(extra: str, first: bool, block: int) -> None:
    brings = [outcome, lambda n: outcome(n, **{extra: np.zeros(n)})]
    faulty = FaultyEnvironment(brings[not first], 6 * block, right=brings[first])
    message = rf"round {6 * block} .*: brought {'no ' if first else ''}{extra}"
    with pytest.raises(ContractError, match=message):
        simulate(faulty, Scripted(script(60), [block]), 60)


@pytest.mark.parametrize("n_arms", [0, -1, True, 2.0, "3", None])
def test_a_wrong_number_of_arms_raises(n_arms: object) -> None:
    with pytest.raises(ContractError, match=r"FaultyEnvironment: n_arms must be an integer"):
        simulate(FaultyEnvironment(n_arms=n_arms), Scripted(script(9), [1]), 9)


@pytest.mark.parametrize("n_arms", [2, 4])
def test_an_instance_of_other_arms_raises(n_arms: int) -> None:
    class WithInstance(FaultyEnvironment):
        instance: Any = bdes.Instance([0.5, 0.5, 0.5], [0.5, 0.5, 0.5], 0.5)

    with pytest.raises(ContractError, match=f"n_arms is {n_arms}, but its instance has 3"):
        simulate(WithInstance(n_arms=n_arms), Scripted(script(9, 2), [1]), 9)
    WithInstance.instance = None
    with pytest.raises(ContractError, match="instance must be an Instance, got None"):
        simulate(WithInstance(), Scripted(script(9, 2), [1]), 9)


def test_numpy_integers_are_integers() -> None:
    half = FaultyEnvironment(since=9, n_arms=np.int32(3))
    trace = simulate(half, Scripted(script(9), [1]), np.int64(9))  # type: ignore[arg-type]
    assert type(trace.horizon) is type(trace.n_arms) is int
    problem = bdes.Problem(np.int64(3), np.uint8(9), replenishing_arm=np.int16(2))  # type: ignore[arg-type]
    assert problem == bdes.Problem(3, 9, replenishing_arm=2)
    assert type(problem.n_arms) is type(problem.horizon) is type(problem.replenishing_arm) is int


@bdes.compiled
def _play_outside(world: World, record: Record) -> float:
    total = play_round(world, record, -1, 0) + play_round(world, record, record.arms.size, 0)
    return total + play_round(world, record, 10**15, 0)


@pytest.mark.parametrize("arm", [3, -1, 10**15, -(10**15)])
def test_wrong_arms_of_a_fused_policy_raise(arm: int) -> None:
    where = r"policy tests\.support\.players\.InTurn, round 7 \(counted from 0\)"
    with pytest.raises(ContractError, match=f"{where}: play wrote arm {arm}"):
        simulate(environment(), InTurn(7, arm), 20)


LEFT_OUT = "play left this round out: every round goes through play_round"
DIFFERENT = "play recorded what play_round did not play"


class WrongInSecondChunk(InTurn):
    """Plays arm 3 in round 5 of the second chunk, or writes no means there."""

    chunks = 0

    def play(self, world: World, record: Record) -> None:
        self.chunks += 1
        if self.chunks == 2 and self.spoil is not None:
            record.arms[:], record.rewards[:] = 0, 1.0
        else:
            play_in_turn(world, record, *((5, 3) if self.chunks == 2 else (-1, 0)))


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize(
    ("no_means", "message"),
    [
        (None, rf"round {CHUNK + 5} .*play wrote arm 3"),
        (True, rf"round {CHUNK} .*{DIFFERENT}"),
    ],
)
@pytest.mark.parametrize("n_chunks", [2, 3])
def test_later_fused_chunks_are_checked(
    keep: bool, no_means: bool | None, message: str, n_chunks: int
) -> None:
    with pytest.raises(ContractError, match="WrongInSecondChunk, " + message):
        simulate(environment(), WrongInSecondChunk(spoil=no_means), n_chunks * CHUNK, keep=keep)


class CheatsLater(InTurn):
    """Plays honestly, but writes down the highest rewards and means in some chunks."""

    def __init__(self, chunks: Container[int], value: float = 1.0) -> None:
        super().__init__()
        self.chunks, self.value, self.played = chunks, value, 0

    def play(self, world: World, record: Record) -> None:
        play_in_turn(world, record, -1, 0)
        if self.played in self.chunks:
            record.rewards[:], record.means[:] = self.value, self.value
        self.played += 1


@pytest.mark.parametrize("chunks", [[64], range(1, 64)])
def test_rewards_invented_later_are_found(chunks: Container[int]) -> None:
    """From some round on (found in the last chunk), or for long (in a chunk drawn at random)."""
    with pytest.raises(ContractError, match=f"CheatsLater, round .*{DIFFERENT}"):
        simulate(environment(), CheatsLater(chunks), 65 * CHUNK, keep=False)


@pytest.mark.parametrize("value", [1.5, -0.25])
def test_a_fused_policy_cannot_write_rewards_outside_0_1(value: float) -> None:
    """Every chunk is checked for that, also those that are not played again."""
    with pytest.raises(ContractError, match=f"CheatsLater, round {CHUNK} .*{DIFFERENT}"):
        simulate(environment(), CheatsLater([1], value), 3 * CHUNK)


@define
class Pays:
    """Pays a half, and another reward or mean in one round."""

    at: int
    reward: float
    mean: float
    n_arms: int = 3
    _done: int = 0

    def pull(self, arms: IntArray) -> Outcome:
        here = np.arange(self._done, self._done + arms.size) == self.at
        self._done += arms.size
        return Outcome(np.where(here, self.reward, 0.5), np.where(here, self.mean, 0.5))


@pytest.mark.parametrize("block", [1, 40])
@pytest.mark.parametrize("at", [1, 700])
@pytest.mark.parametrize(
    ("reward", "mean", "message"),
    [
        (1.01, 0.5, r"rewards must lie in \[0, 1\], got 1.01"),
        (-0.5, 0.5, r"rewards must lie in \[0, 1\], got -0.5"),
        (500.0, 0.5, r"rewards must lie in \[0, 1\], got 500"),
        (0.5, 1.01, r"means must lie in \[0, 1\], got 1.01"),
        (0.5, -0.01, r"means must lie in \[0, 1\], got -0.01"),
        (0.5, math.nan, "means are not finite: nan"),
    ],
)
def test_rewards_and_means_lie_in_0_1(
    block: int, at: int, reward: float, mean: float, message: str
) -> None:
    where = rf"environment tests\.simulation\.test_chunk\.Pays, round {at} "
    with pytest.raises(ContractError, match=where + ".*" + message):
        simulate(Pays(at, reward, mean), Scripted(script(1000), [block]), 1000)


def test_rounding_of_rewards_is_allowed() -> None:
    trace = simulate(Pays(3, 1 + 1e-12, -1e-15), Scripted(script(9), [1]), 9)
    assert trace.total_reward == pytest.approx(5)


WRONG_RECORDS: dict[str, tuple[str, Any]] = {
    "leaves out the last": (
        f"round 19 .*{LEFT_OUT}",
        lambda w, r: play_in_turn(w, r.rounds(0, r.arms.size - 1), -1, 0),
    ),
    "plays nothing": (f"round 0 .*{LEFT_OUT}", _play_outside),
    "writes arms only": (f"round 0 .*{LEFT_OUT}", lambda w, r: r.arms.fill(0)),
    "writes rewards itself": (
        f"round 0 .*{DIFFERENT}",
        lambda w, r: (r.arms.fill(0), r.rewards.fill(1.0), r.means.fill(0.5)),
    ),
    "plays every round twice": (
        f"round 0 .*{DIFFERENT}",
        lambda w, r: [play_round(w, r, t // 2, 0) for t in range(2 * r.arms.size)],
    ),
    "plays backwards": (
        f"round 0 .*{DIFFERENT}",
        lambda w, r: [play_round(w, r, t, t % 2) for t in range(r.arms.size)[::-1]],
    ),
    "rewrites arms": (
        f"round 0 .*{DIFFERENT}",
        lambda w, r: (play_in_turn(w, r, -1, 0), r.arms.fill(1)),
    ),
    "changes the last state": (
        f"round 19 .*{DIFFERENT}",
        lambda w, r: (play_in_turn(w, r, -1, 0), w.q.fill(0.25)),
    ),
}


@pytest.mark.parametrize("wrong", WRONG_RECORDS)
@pytest.mark.parametrize("noise", [None, {"use": "gaussian", "sigma": 0.2}])
def test_wrong_records_of_a_fused_policy_raise(wrong: str, noise: object) -> None:
    message, spoil = WRONG_RECORDS[wrong]
    for _ in range(2):  # the second time, memory still holds what was played the first time
        simulate(environment(noise=noise), InTurn(), 20)
        with pytest.raises(ContractError, match=f"InTurn, {message}"):
            simulate(environment(noise=noise), InTurn(spoil=spoil), 20)


def test_play_round_outside_the_block_is_ignored() -> None:
    played = environment()
    assert isinstance(played, bdes.FusedEnvironment)
    world, record = played.open_rounds(20), Record.empty(20)
    for values in record:
        values.fill(7)
    assert _play_outside(world, record) == 0.0
    assert all((values == 7).all() for values in record)
    assert world.q[0] == 1.0


@define
class OpenWorld(FaultyEnvironment):
    """A fused environment whose world is spoilt in its second chunk."""

    spoil: Any = None
    _chunks: int = 0

    def open_rounds(self, n: int) -> Any:
        self._chunks += 1
        half, uniforms = np.full(3, 0.5), np.full(n, 0.5)
        world = World(half, half, 0.5, np.ones(1), uniforms, np.empty(0))
        return world if self._chunks == 1 else self.spoil(world)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda w: None, "must return a World"),
        (lambda w: w._replace(lam="x"), "a number for lam"),
        (lambda w: w._replace(uniforms=np.zeros(4)), r"uniforms .* shape \(9,\), got"),
        (lambda w: w._replace(noise=np.zeros(4)), r"noise .* shape \(4,\)"),
        (lambda w: w._replace(noise=None), "noise .* got NoneType"),
        (lambda w: w._replace(r=np.zeros(2)), r"r as .* shape \(2,\)"),
        (lambda w: w._replace(b=np.zeros(4)), r"b as .* shape \(4,\)"),
        (lambda w: w._replace(q=np.zeros(0)), r"q as .* shape \(0,\)"),
        (lambda w: w._replace(b=[0.5] * 3), "b as .* got list"),
        (lambda w: w._replace(noise=np.zeros(9)), "brought probabilities .* none before"),
        (lambda w: w._replace(q=np.array([math.nan])), "means are not finite"),
    ],
)
def test_a_wrong_world_raises(spoil: Any, message: str) -> None:
    where = rf"environment .*OpenWorld, round {CHUNK} \(counted from 0\)"
    with pytest.raises(ContractError, match=f"{where}: .*{message}"):
        simulate(OpenWorld(spoil=spoil), InTurn(), CHUNK + 9)
