"""Off-policy checks: exact on balanced logs, right with a wrong model, honest about support."""

import itertools
import math

import numpy as np
import pytest

import bdes_framework as bdes

# Probabilities are multiples of 1/4, so that a small log can hold all that happens, in proportion.
DYADIC = bdes.Instance([0.5, 0.5], [0.5, 1.0], 1.0)
WRONG = bdes.Instance([0.9, 0.1], [0.1, 0.7], 0.3)
ADS = bdes.Instance([0.7, 0.4], [0.2, 0.9], 0.3)


class Known:
    """A posterior of one instance."""

    names = ("loud", "calm\x1b")

    def __init__(self, instance: bdes.Instance) -> None:
        self.instance = instance

    def draws(self, n: int, rng: np.random.Generator) -> list[bdes.Instance]:
        return [self.instance] * n


def balanced_log(chance: float) -> tuple[bdes.Log, bdes.FloatArray]:
    """Return a log in which all happens as often as it should: arm 0 is shown with a chance."""
    arms: list[tuple[int, ...]] = []
    rewards: list[tuple[int, ...]] = []
    for shown in itertools.product((0, 1), repeat=2):
        paying = DYADIC.expected_rewards(shown)
        for paid in itertools.product((0, 1), repeat=2):
            share = math.prod(chance if arm == 0 else 1 - chance for arm in shown)
            share *= math.prod(
                p if y else 1 - p for p, y in zip(paying.tolist(), paid, strict=True)
            )
            times = round(128 * share)
            assert times == 128 * share
            arms += [shown] * times
            rewards += [paid] * times
    played = np.array(arms).ravel()
    log = bdes.Log(played, np.array(rewards).ravel(), range(0, played.size, 2), Known.names)
    return log, np.where(played == 0, chance, 1 - chance)


@pytest.mark.parametrize("chance", [0.5, 0.25])
@pytest.mark.parametrize("plan", [[0, 0], [0, 1], [1, 0], [1, 1]])
def test_a_balanced_log_gives_the_value(chance: float, plan: list[int]) -> None:
    log, propensities = balanced_log(chance)
    schedule = bdes.Schedule.of(plan)
    truth = DYADIC.value(schedule) / 2
    found = bdes.check_off_policy(Known(WRONG), schedule, log, propensities, n_visits=2)
    assert found.importance.mean == pytest.approx(truth)
    assert found.self_normalised.mean == pytest.approx(truth)
    assert found.doubly_robust.mean == pytest.approx(truth)  # whatever the model
    assert found.model.mean == pytest.approx(WRONG.value(schedule) / 2)
    share = math.prod(chance if arm == 0 else 1 - chance for arm in plan)
    assert found.matching == pytest.approx(share * log.n_sequences)
    assert found.effective == pytest.approx(found.matching)  # all count alike
    assert found.n_users == 128


def test_intervals_of_one_visit_are_the_textbooks() -> None:
    log, propensities = balanced_log(0.25)
    found = bdes.check_off_policy(
        Known(DYADIC), bdes.Schedule.of([0]), log, propensities, n_visits=1
    )
    first, rewards = log.arms[::2], log.rewards[::2]
    weighted = np.where(first == 0, 4.0, 0.0) * rewards
    error = weighted.std() / math.sqrt(128)
    assert found.importance.high - found.importance.mean == pytest.approx(1.959964 * error)
    # Self-normalised: the mean of 32 users' rewards.
    error = rewards[first == 0].std() / math.sqrt(32)
    half = found.self_normalised.high - found.self_normalised.mean
    assert half == pytest.approx(1.959964 * error)


def simulated(seed: int, users: int, rows: int) -> tuple[bdes.Log, bdes.FloatArray]:
    """Return users whose next arm is likely the last one, with 2 to ``rows`` visits."""
    rng = np.random.default_rng(seed)
    arms: list[int] = []
    chances, rewards, starts = [], [], []
    for _ in range(users):
        starts.append(len(arms))
        shown: list[int] = []
        for visit in range(int(rng.integers(2, rows + 1))):
            again = 0.6 if visit else 0.5
            same = rng.random() < again
            last = shown[-1] if shown else 0
            shown.append(last if same else 1 - last)
            chances.append(again if same else 1 - again)
        arms += shown
        rewards += (rng.random(len(shown)) < ADS.expected_rewards(shown)).tolist()
    return bdes.Log(arms, rewards, starts, Known.names), np.array(chances)


def coverage(n_logs: int, model: bdes.Instance, users: int = 800) -> dict[str, float]:
    plan = bdes.Schedule.of([0, 1, 1, 0])
    hits: dict[str, list[bool]] = {}
    for seed in range(n_logs):
        log, chances = simulated(seed, users, 4)
        found = bdes.check_off_policy(Known(model), plan, log, chances, n_visits=4, n_draws=1)
        lengths = np.diff(log.starts, append=log.n_rows)
        made = np.array([(lengths > t).sum() for t in range(4)])
        truth = made @ ADS.expected_rewards(plan.arms) / made.sum()
        for name in ("importance", "self_normalised", "doubly_robust"):
            value = getattr(found, name)
            hits.setdefault(name, []).append(value.low <= truth <= value.high)
    return {name: float(np.mean(held)) for name, held in hits.items()}


@pytest.mark.parametrize("model", [ADS, WRONG], ids=["right model", "wrong model"])
def test_intervals_hold_the_truth(model: bdes.Instance) -> None:
    assert min(coverage(40, model).values()) >= 0.82


@pytest.mark.slow
@pytest.mark.parametrize("model", [ADS, WRONG], ids=["right model", "wrong model"])
def test_off_policy_intervals_cover_95_percent(model: bdes.Instance) -> None:
    found = coverage(500, model, users=2500)
    print(found)
    assert 0.925 <= min(found.values()) <= max(found.values()) <= 0.975


def test_a_good_model_makes_it_surer() -> None:
    log, chances = simulated(1, 2000, 4)
    plan = bdes.Schedule.of([0, 1, 1, 0])
    found = bdes.check_off_policy(Known(ADS), plan, log, chances)
    width = {
        name: getattr(found, name).high - getattr(found, name).low
        for name in ("importance", "self_normalised", "doubly_robust")
    }
    assert width["doubly_robust"] < 0.95 * width["importance"]
    assert found.agrees
    assert not bdes.check_off_policy(Known(WRONG), plan, log, chances).agrees


def test_only_visits_with_support_are_checked() -> None:
    log, chances = simulated(1, 400, 12)
    table = bdes.plan_for_leavers(bdes.load_plugins(), ADS, 0.9)
    found = bdes.check_off_policy(Known(ADS), table, log, chances)
    assert 1 <= found.n_visits < 12
    assert found.effective > 30
    with pytest.raises(bdes.InvalidValueError, match=r"no user was shown .* at visit \d+ after"):
        bdes.check_off_policy(Known(ADS), bdes.Schedule.of([0, 1] * 6), log, chances, n_visits=12)


def test_a_plan_nobody_was_shown_is_an_error() -> None:
    log = bdes.Log([0, 0] * 50, [0, 1] * 50, range(0, 100, 2), Known.names)
    with pytest.raises(bdes.InvalidValueError, match=r"no user was shown 'calm\\x1b' at visit 1,"):
        bdes.check_off_policy(Known(ADS), bdes.Schedule.of([1, 1]), log, np.full(100, 0.5))
    few = bdes.Log([1, 0] * 20 + [0, 0] * 30, [0, 1] * 50, range(0, 100, 2), Known.names)
    with pytest.raises(
        bdes.InvalidValueError,
        match=r"only 20 users, who count as 20\.0, were shown .* at visit 1, .* 30 are needed",
    ):
        bdes.check_off_policy(Known(ADS), bdes.Schedule.of([1, 1]), few, np.full(100, 0.5))


@pytest.mark.parametrize(
    ("propensities", "problem"),
    [
        (None, "the log has no propensities"),
        ([0.5], "need one propensity per row"),
        ([0.5, 0.0], "row 1: must lie above 0"),
        ([1.5, 1.0], "row 0: must lie above 0 and be at most 1, got 1.5"),
        ([math.nan, 1.0], "row 0: must lie above 0"),
    ],
)
def test_bad_propensities_are_errors(propensities: list[float] | None, problem: str) -> None:
    log = bdes.Log([0, 1], [0, 1], names=Known.names)
    given = None if propensities is None else np.array(propensities)
    with pytest.raises(bdes.InvalidValueError, match=problem):
        bdes.check_off_policy(Known(ADS), bdes.Schedule.of([0]), log, given)


def test_missing_rewards_drop_out() -> None:
    log, propensities = balanced_log(0.5)
    plan = bdes.Schedule.of([0, 1])
    whole = bdes.check_off_policy(Known(WRONG), plan, log, propensities)
    # Twice the log, one time without rewards: the same means of half as many users.
    rewards = np.concatenate([log.rewards.astype(float), np.full(log.n_rows, np.nan)])
    arms, starts = np.tile(log.arms, 2), np.concatenate([log.starts, log.starts + log.n_rows])
    chances = np.tile(propensities, 2)
    holes = bdes.Log(arms, rewards, starts, log.names, propensities=chances)
    found = bdes.check_off_policy(Known(WRONG), plan, holes)
    for name in ("importance", "self_normalised", "doubly_robust"):
        assert getattr(found, name) == getattr(whole, name)


def test_shown_in_words_and_as_json() -> None:
    log, propensities = balanced_log(0.5)
    found = bdes.check_off_policy(Known(DYADIC), bdes.Schedule.of([0, 1]), log, propensities)
    assert max(map(len, repr(found).splitlines())) <= 80
    assert "doubly robust" in found._repr_html_()
    content = found.as_json()
    assert content["visits"] == 2
    assert content["agrees"] is True
    with pytest.raises(bdes.InvalidValueError, match="n_visits must be at most 2"):
        bdes.check_off_policy(
            Known(DYADIC), bdes.Schedule.of([0, 1]), log, propensities, n_visits=3
        )


@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_wrong_propensities_are_not_the_models_fault(factor: float) -> None:
    log, chances = simulated(1, 2000, 4)
    plan = bdes.Schedule.of([0, 1, 1, 0])
    assert bdes.check_off_policy(Known(ADS), plan, log, chances).agrees
    with pytest.raises(bdes.InvalidValueError, match="propensities do not fit the log: at visit"):
        bdes.check_off_policy(Known(ADS), plan, log, chances * factor)


def test_certain_propensities_that_are_none() -> None:
    log = bdes.Log([0] * 100, [0, 1] * 50, range(100), Known.names)
    plan = bdes.Schedule.of([0])
    assert bdes.check_off_policy(Known(ADS), plan, log, np.ones(100)).n_visits == 1
    with pytest.raises(bdes.InvalidValueError, match=r"stand for 200 % \(±0\) of users"):
        bdes.check_off_policy(Known(ADS), plan, log, np.full(100, 0.5))


def test_right_propensities_are_not_refused() -> None:
    plan = bdes.Schedule.of([0, 1, 1, 0])
    for seed in range(60):  # barely enough users: the errors of their weights are rough
        log, chances = simulated(1000 + seed, 400, 4)
        bdes.check_off_policy(Known(ADS), plan, log, chances, n_draws=1)
