"""``fit``: known limits, adversarial logs, draws and forecasts."""

from typing import Any, TypeAlias

import numpy as np
import pytest
from scipy.special import expit, logit

import bdes_framework as bdes
from bdes_framework._internal.distributions import chi_square_tail
from bdes_framework.fitting import blocks
from bdes_framework.fitting import fit as fit_module
from bdes_framework.fitting.goodness import _visible_noncentrality
from tests.support.logs import ADS, intervals_of, simulated_log, truth_of


@pytest.fixture(scope="module")
def log() -> bdes.Log:
    return simulated_log(ADS, users=400, rows=50, seed=1)


@pytest.fixture(scope="module")
def found(log: bdes.Log) -> bdes.Fit:
    return bdes.fit(log)


def test_fit_maximises_the_posterior(log: bdes.Log, found: bdes.Fit) -> None:
    at, parameters = found.instance, truth_of(found.instance)
    _, score, information = bdes.likelihood_of(at, log.arms, log.rewards, log.starts)
    slopes = parameters * (1 - parameters) * score[:7]
    prior = np.append(0.5 - parameters[:6], -logit(at.lam) / 25)
    errors = np.sqrt(np.diag(found.covariance)) / (parameters * (1 - parameters))
    # In standard deviations: what a step of scoring would still move.
    np.testing.assert_allclose((slopes + prior) * errors, 0, atol=0.02)
    bound = np.linalg.inv(information[:7, :7])
    np.testing.assert_allclose(found.covariance, bound, rtol=0.05, atol=1e-5)


def test_scores_agree_with_closed_forms(log: bdes.Log, found: bdes.Fit) -> None:
    means = np.array([log.rewards[log.arms == arm].mean() for arm in range(3)])[log.arms]
    total = float(np.sum(np.log(np.where(log.rewards, means, 1 - means))))
    assert found.stationary.log_likelihood == pytest.approx(total)
    assert found.stationary.aic == pytest.approx(6 - 2 * total)
    assert found.evolving.n_parameters == 7
    likelihood = found.evolving.log_likelihood
    assert found.evolving.bic == pytest.approx(7 * np.log(20_000) - 2 * likelihood)
    assert found.evolving.bic < found.stationary.bic


def test_bic_prefers_no_state_where_there_is_none() -> None:
    still = simulated_log(bdes.Instance([0.6, 0.3], [0.5, 0.5], 0.0), users=1, rows=5000, seed=3)
    found = bdes.fit(still)
    more = found.evolving.bic - found.stationary.bic
    assert more > 0
    said = f"BIC prefers the model without a state, by {more:.1f}"
    assert any(text.startswith(said) for text in found.warnings)
    predicted = found.instance.value(still.arms.astype(np.int64))
    assert predicted == pytest.approx(still.rewards.sum(), rel=0.01)


@pytest.mark.parametrize(
    "known",
    [{}, {"lam": 0.1}, {"lam": bdes.RatePrediction(0.1, 0.5)}, {"q0": None}],
    ids=["", "lam", "predicted", "unknown q0"],
)
def test_many_arms_are_fitted_as_few(
    monkeypatch: pytest.MonkeyPatch, log: bdes.Log, known: dict[str, Any]
) -> None:
    """The climb by scores ends where Fisher scoring does."""
    direct = bdes.fit(log, **known)
    monkeypatch.setattr(blocks, "FASTER_FROM", 1)
    monkeypatch.setattr(fit_module, "MANY_ARMS", 1)
    found = bdes.fit(log, **known)
    errors = np.sqrt(np.maximum(np.diag(direct.covariance), 1e-30))[:7]
    assert np.abs((truth_of(found.instance) - truth_of(direct.instance)) / errors).max() < 0.01
    np.testing.assert_allclose(found.covariance, direct.covariance, rtol=0.01, atol=1e-8)
    likelihoods = found.evolving.log_likelihood, direct.evolving.log_likelihood
    assert likelihoods[0] == pytest.approx(likelihoods[1], abs=1e-3)


@pytest.mark.parametrize("lam", [0.0, 0.001, 0.15, 1.0])
def test_a_known_rate_has_no_error(lam: float) -> None:
    instance = bdes.Instance([0.7, 0.4], [0.3, 0.8], lam)
    found = bdes.fit(simulated_log(instance, users=300, rows=30, seed=4), lam=lam)
    assert found.instance.lam == lam
    assert found.lam_interval == (lam, lam)
    assert not found.covariance[-1].any()
    ends = intervals_of(found)
    near = 1.6 * (ends[:, 1] - ends[:, 0])  # four standard errors and more
    assert (np.abs(truth_of(instance) - truth_of(found.instance)) <= near).all()


@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_a_rate_at_its_boundary_is_warned_of(lam: float) -> None:
    instance = bdes.Instance([0.7, 0.4], [0.3, 0.8], lam)
    found = bdes.fit(simulated_log(instance, users=500, rows=30, seed=5))
    if lam == 1:
        assert found.lam_interval[1] == 1.0
        assert found.instance.lam > 0.95
    said = f"lam cannot be distinguished from {lam:.0f}"
    assert any(said in warning for warning in found.warnings)


@pytest.mark.parametrize("lam", [0.003, 0.03, 0.3, 0.9])
def test_fit_finds_any_rate(lam: float) -> None:
    instance = bdes.Instance([0.8, 0.5, 0.3], [0.2, 0.6, 0.9], lam)
    rows = max(50, int(10 / lam))
    log = simulated_log(instance, users=60_000 // rows, rows=rows, run=rows // 8, seed=6)
    found = bdes.fit(log)
    assert found.lam_interval[0] < lam < found.lam_interval[1]
    assert found.instance.lam == pytest.approx(lam, rel=0.25)


def test_no_start_finds_a_better_mode() -> None:
    rng = np.random.default_rng(7)
    for case in range(4):
        instance = bdes.Instance(rng.random(3), rng.random(3), float(rng.random()) ** 3)
        log = simulated_log(instance, users=1 + 20 * (case % 2), rows=300, run=3, seed=case)
        found = bdes.fit(log)
        for rate in np.geomspace(0.005, 0.99, 7):
            # A tight prediction at one rate, with its own best r and b: the profile.
            other = bdes.fit(log, lam=float(rate)).evolving.log_likelihood
            assert other < found.evolving.log_likelihood + 1.0


def test_a_prediction_counts_as_it_is_trusted(log: bdes.Log, found: bdes.Fit) -> None:
    for factor in (0.01, 100.0):
        wrong = 0.15 * factor / (1 + 0.15 * factor)
        weak = bdes.fit(log, lam=bdes.RatePrediction(wrong, 3.0))
        assert weak.instance.lam == pytest.approx(found.instance.lam, rel=0.1)
    sure = bdes.fit(log, lam=bdes.RatePrediction(0.3, 1e-4))
    assert sure.instance.lam == pytest.approx(0.3, abs=1e-3)


def test_an_unknown_q0_is_the_unit_of_states() -> None:
    halved = bdes.Instance([0.9, 0.8], [0.9, 0.2], 0.2, q0=0.5)
    log = simulated_log(halved, users=3000, rows=20, seed=8)
    found = bdes.fit(log, q0=None)
    ends = intervals_of(found)
    scaled = truth_of(halved.scaled(0.5))
    assert scaled[2] == pytest.approx(1.8)  # b exceeds 1
    assert (np.abs(truth_of(found.instance) - scaled) < 1.6 * (ends[:, 1] - ends[:, 0])).all()
    assert found.instance.q0 == 1.0
    assert any("q0 is unknown" in warning for warning in found.warnings)
    known = bdes.fit(log, q0=0.5)
    assert known.instance.q0 == 0.5
    assert known.evolving.log_likelihood == pytest.approx(found.evolving.log_likelihood, abs=3)


def test_the_order_of_users_does_not_matter(log: bdes.Log, found: bdes.Fit) -> None:
    order = np.random.default_rng(0).permutation(400)
    rows = (log.starts[order][:, None] + np.arange(50)).ravel()
    again = bdes.fit(bdes.Log(log.arms[rows], log.rewards[rows], log.starts))
    np.testing.assert_allclose(truth_of(again.instance), truth_of(found.instance), rtol=1e-4)
    assert again.evolving.log_likelihood == pytest.approx(found.evolving.log_likelihood, abs=1e-3)
    same = bdes.fit(log)
    assert same.instance == found.instance
    assert same.covariance.tobytes() == found.covariance.tobytes()


ADVERSARIAL = [
    ([0], [0]),
    ([0], [1]),
    ([0, 1] * 50, [0] * 100),
    ([0, 1] * 50, [1] * 100),
    ([0] * 100, [0, 1] * 50),
    ([0] * 100, [0] * 100),
    ([0] * 100, [1] * 100),
    ([0] * 50 + [1] * 50, [0] * 50 + [1] * 50),
    ([0] * 50 + [1] * 50, [1] * 50 + [0] * 50),
]
Options: TypeAlias = dict[str, Any]
UNKNOWN: list[Options] = [{}, {"q0": None}, {"q0": 0.0}]
OPTIONS: list[Options] = [*UNKNOWN, {"lam": 0.0}, {"lam": 1.0}, {"lam": 0.2, "q0": 3.0}]


def brute_force(
    log: bdes.Log, theta: bdes.FloatArray, lam: float | None, q0: float | None
) -> tuple[bdes.FloatArray, bdes.FloatArray]:
    """Return log-likelihoods and log-posteriors at coordinates, shape (points, 2K or 2K + 1).

    The recurrence and the priors in plain words, without any code of the fit.
    """
    n = log.n_arms
    share = expit(theta)
    r, b = share[:, :n] / max(1.0, q0 or 1.0), share[:, n : 2 * n]
    if q0 is None:
        b = (np.exp(-4 * theta[:, n : 2 * n]) + r.max(axis=1, keepdims=True) ** 4) ** -0.25
    rate = share[:, -1] if lam is None else lam
    q = np.full(len(theta), 1.0 if q0 is None else q0)
    value = np.zeros(len(theta))
    for arm, reward in zip(log.arms, log.rewards, strict=True):
        mean = np.clip(r[:, arm] * q, 1e-10, 1 - 1e-10)
        if reward != bdes.UNKNOWN_REWARD:
            value += np.log(mean if reward else 1 - mean)
        q = (1 - rate) * q + rate * b[:, arm]
    prior = 0.5 * np.log(share[:, : 2 * n] * (1 - share[:, : 2 * n])).sum(axis=1)
    if lam is None:
        prior -= 0.5 * (theta[:, -1] / 5) ** 2
    return value, value + prior


def with_unknown(log: bdes.Log, share: float) -> bdes.Log:
    """Return a log that lost some of its rewards."""
    lost = np.random.default_rng(5).random(log.n_rows) < share
    return bdes.Log(log.arms, np.where(lost, np.nan, log.rewards), log.starts, log.names)


def assert_nothing_is_better(
    found: bdes.Fit, log: bdes.Log, others: bdes.FloatArray, options: Options
) -> None:
    """Compare a fit with other coordinates by brute force."""
    lam, q0 = options.get("lam"), options.get("q0", 1.0)
    likelihoods, posteriors = brute_force(log, others, lam, q0)
    _, (here,) = brute_force(log, found.centre[None], lam, q0)
    assert here >= posteriors.max() - 1e-6
    assert found.evolving.log_likelihood >= likelihoods.max() - 0.05


@pytest.mark.parametrize(("arms", "rewards"), ADVERSARIAL)
@pytest.mark.parametrize("options", OPTIONS)
def test_fit_of_an_adversarial_log_is_the_best(
    arms: list[int], rewards: list[int], options: Options
) -> None:
    log = bdes.Log(arms, rewards)
    found = bdes.fit(log, **options)
    low, high = intervals_of(found).T
    assert np.isfinite([low, high]).all()
    assert ((low <= truth_of(found.instance)) & (truth_of(found.instance) <= high)).all()
    assert found.warnings
    assert 0 <= found.goodness.p_value <= 1
    assert len(found.draws(3, np.random.default_rng(0))) == 3
    # Nowhere on a grid over all of the coordinates is there anything better.
    size = found.centre.size
    axis = np.linspace(-9, 9, {2: 61, 3: 25, 4: 11, 5: 7}[size])
    grid = np.stack(np.meshgrid(*[axis] * size, indexing="ij"), axis=-1).reshape(-1, size)
    assert_nothing_is_better(found, log, grid, options)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("unknown", [0.0, 0.3])
def test_fit_of_a_small_log_is_the_best(options: Options, unknown: float) -> None:
    world = bdes.Instance([0.3, 0.2], [0.2, 0.9], 0.3)
    log = simulated_log(world, users=1, rows=100, seed=21)
    if unknown:
        log = with_unknown(log, unknown)
    found = bdes.fit(log, **options)
    # A random walk uphill from the answer, and points all over the place: none is better.
    rng, size = np.random.default_rng(22), found.centre.size
    steps = rng.normal(size=(4000, size)) * rng.choice([0.01, 0.1, 0.5, 2.0], (4000, 1))
    near, far = found.centre + steps, rng.uniform(-6, 6, (20_000, size))
    assert_nothing_is_better(found, log, np.concatenate([near, far]), options)


def test_an_arm_never_played_keeps_its_prior() -> None:
    found = bdes.fit(bdes.Log([0] * 200, [0, 1] * 100, names=["played", "spare\x1b[31m"]))
    assert found.r_interval[1].tolist() == [0.0, 1.0]
    assert found.instance.r[1] == found.instance.b[1] == 0.5
    (never,) = [text for text in found.warnings if text.startswith("never played")]
    assert never.endswith("arm spare\\x1b[31m")
    assert found.evolving.n_parameters == 3


def test_goodness_of_fit_sees_a_wrong_model() -> None:
    right = simulated_log(ADS, users=600, rows=50, seed=13)
    assert bdes.fit(right).goodness.p_value > 0.01
    # Rewards fall with the number of pulls of a user, whatever the arms: no state does that.
    place = np.tile(np.arange(50), 600)
    rng = np.random.default_rng(14)
    tired = (rng.random(right.n_rows) < np.where(place % 10 < 5, 0.7, 0.1)).astype(int)
    found = bdes.fit(bdes.Log(right.arms, tired, right.starts))
    assert any("the model does not describe the log" in text for text in found.warnings)
    check = found.goodness
    assert check.rows.sum() == right.n_rows
    assert check.observed @ check.rows == pytest.approx(tired.sum())
    assert check.p_value < 1e-6


def test_fit_counts_what_is_known(log: bdes.Log) -> None:
    lacking = with_unknown(log, 0.4)
    found = bdes.fit(lacking)
    n_unknown = lacking.n_unknown
    assert (found.n_unknown, found.evolving.n_rows) == (n_unknown, 20_000 - n_unknown)
    assert str(found.summary()).startswith(
        f"rows              20,000, {n_unknown:,} rewards not known"
    )
    assert "n_rows=20,000," in repr(found)
    known = lacking.known
    means = np.array([log.rewards[known & (log.arms == arm)].mean() for arm in range(3)])[log.arms]
    total = float(np.sum(np.log(np.where(log.rewards, means, 1 - means))[known]))
    assert found.stationary.log_likelihood == pytest.approx(total)
    assert found.goodness.rows.sum() == known.sum()
    assert found.goodness.observed @ found.goodness.rows == log.rewards[known].sum()
    assert found.goodness.p_value > 0.01
    low, high = intervals_of(found).T
    assert ((low < truth_of(ADS)) & (truth_of(ADS) < high)).all()
    assert not found.warnings


def test_states_follow_rows_of_unknown_reward() -> None:
    full = simulated_log(ADS, users=3000, rows=20, seed=17)
    lacking = with_unknown(full, 0.5)
    known = lacking.known
    dropped = bdes.Log.of_users(
        np.repeat(np.arange(3000), 20)[known], full.arms[known], full.rewards[known]
    )
    right, wrong = bdes.fit(lacking), bdes.fit(dropped)
    low, high = intervals_of(right).T
    assert ((low < truth_of(ADS)) & (truth_of(ADS) < high)).all()
    # Without those rows at all, the state seems to move about twice as fast.
    assert wrong.lam_interval[0] > ADS.lam


def test_an_arm_of_unknown_rewards_moves_the_state(log: bdes.Log) -> None:
    rewards = np.where(log.arms == 1, np.nan, log.rewards)
    found = bdes.fit(bdes.Log(log.arms, rewards, log.starts))
    assert "played, but no reward is known of arm 1" in found.warnings
    assert not any("never played" in text for text in found.warnings)
    assert found.r_interval[1].tolist() == [0, 1]
    low, high = found.b_interval[1]
    assert high - low < 0.2
    assert low < ADS.b[1] < high
    assert found.evolving.n_parameters == 6  # its r is none
    assert found.stationary.n_parameters == 2
    with pytest.raises(bdes.InvalidValueError, match="no reward of the log is known"):
        bdes.fit(bdes.Log([0, 1], [np.nan, np.nan]))


def test_likelihood_is_taken_at_a_predicted_rate() -> None:
    log = simulated_log(ADS, users=600, rows=50, seed=15)
    predicted = bdes.fit(log, lam=bdes.RatePrediction(0.99, 0.05))
    known = bdes.fit(log, lam=predicted.instance.lam).evolving.log_likelihood
    assert predicted.evolving.log_likelihood == pytest.approx(known, abs=0.01)
    assert bdes.fit(log).evolving.log_likelihood > known + 100


@pytest.mark.parametrize("freedom", [1, 4, 18])
def test_visible_noncentrality_has_power_80(freedom: int) -> None:
    rng = np.random.default_rng(freedom)
    drawn = rng.noncentral_chisquare(freedom, _visible_noncentrality(freedom), 2000)
    seen = np.mean([chi_square_tail(value, freedom) < 0.01 for value in drawn])
    assert 0.76 < seen < 0.84


def test_draws_have_the_posterior_mean_and_spread(found: bdes.Fit) -> None:
    draws = found.draws(4000, np.random.default_rng(0))
    values = np.array([truth_of(draw) for draw in draws])
    errors = np.sqrt(np.diag(found.covariance))
    np.testing.assert_allclose(values.std(axis=0), errors, rtol=0.1)
    assert (np.abs(values.mean(axis=0) - truth_of(found.instance)) < 0.15 * errors).all()
    assert found.draws(4000, np.random.default_rng(0)) == draws
    with pytest.raises(bdes.InvalidValueError, match="at least 1"):
        found.draws(0, np.random.default_rng(0))


def test_forecast_is_the_spread_over_draws(found: bdes.Fit) -> None:
    draws = found.draws(500, np.random.default_rng(0))
    plan, fixed = [0, 2, 2] * 30, [0] * 90
    value = bdes.forecast(draws, plan)
    assert value.low < found.instance.value(plan) < value.high
    lift = bdes.forecast(draws, plan, against=fixed)
    expected = [draw.value(plan) / draw.value(fixed) - 1 for draw in draws]
    assert lift.mean == pytest.approx(np.mean(expected))
    assert lift.low == pytest.approx(np.quantile(expected, 0.025))
    assert bdes.forecast(draws, plan, against=plan) == bdes.Forecast(0.0, 0.0, 0.0)
    with pytest.raises(bdes.InvalidValueError, match="at least one draw"):
        bdes.forecast([], plan)
    with pytest.raises(bdes.InvalidValueError, match="earns nothing"):
        bdes.forecast([bdes.Instance([0.0, 1.0], [1.0, 1.0], 0.1)], [1], against=[0])


@pytest.mark.parametrize("wrong", [{"lam": 2.0}, {"lam": -0.1}, {"q0": -1.0}, {"q0": np.nan}])
def test_fit_rejects_a_wrong_rate_or_state(wrong: dict[str, Any]) -> None:
    with pytest.raises(bdes.InvalidValueError, match=r"lam|q0"):
        bdes.fit(bdes.Log([0], [0]), **wrong)


@pytest.mark.parametrize("wrong", [(0, 1.0), (1, 1.0), (0.5, 0), (0.5, np.inf), (0.5, "much")])
def test_rate_prediction_rejects_bad_values(wrong: tuple[float, float]) -> None:
    with pytest.raises(bdes.InvalidValueError, match=r"lam|deviation"):
        bdes.RatePrediction(*wrong)


def test_fit_follows_the_ridge_of_one_sequence() -> None:
    # (c*r, b/c) explains all but the first rows as well: a narrow ridge, curved in logits.
    rng = np.random.default_rng(15)
    instance = bdes.Instance(rng.uniform(0.2, 0.8, 5), rng.uniform(0.1, 0.9, 5), 0.01)
    log = simulated_log(instance, users=1, rows=400_000, seed=16)
    found = bdes.fit(log)
    at_truth = bdes.likelihood_of(instance, log.arms, log.rewards).value
    # Twice the difference is chi-square with 11 degrees of freedom: 0.02 % exceed 35.
    assert 0 < 2 * (found.evolving.log_likelihood - at_truth) < 35


@pytest.mark.parametrize("q0", [2.0, None])
def test_no_probability_exceeds_one(q0: float | None) -> None:
    world = bdes.Instance([0.5, 0.3], [0.4, 1.0], 0.2, q0=2.0)
    if q0 is None:  # b reaches twice the first state
        world = bdes.Instance([1.0, 0.6], [0.4, 1.0], 0.2, q0=0.5)
    log = simulated_log(world, users=400, rows=10, seed=17)
    found = bdes.fit(bdes.Log(log.arms, log.rewards, log.starts, ["a", "b", "spare"]), q0=q0)
    for one in [found.instance, *found.draws(300, np.random.default_rng(0))]:
        assert one.r.max() * max(one.q0, one.b.max()) <= 1 + 1e-12
        for arm in range(3):
            assert one.expected_rewards([1] * 30 + [arm]).max() <= 1 + 1e-12


def test_an_arm_never_played_changes_no_other() -> None:
    world = bdes.Instance([0.9, 0.5], [0.9, 0.3], 0.2, q0=0.5)
    log = simulated_log(world, users=1000, rows=20, seed=18)
    alone = bdes.fit(log, q0=None)
    beside = bdes.fit(bdes.Log(log.arms, log.rewards, log.starts, ["a", "b", "spare"]), q0=None)
    np.testing.assert_allclose(beside.instance.r[:2], alone.instance.r, rtol=1e-4)
    np.testing.assert_allclose(beside.b_interval[:2], alone.b_interval, rtol=1e-3)
    one, other = (
        np.std([draw.b[0] for draw in found.draws(2000, np.random.default_rng(0))])
        for found in (alone, beside)
    )
    assert other == pytest.approx(one, rel=0.1)


@pytest.mark.parametrize("seed", [4, 26, 35, 36, 38])
def test_likelihood_of_few_rows_is_the_global_one(seed: int) -> None:
    # The estimate is on another: from there alone, these were lower by 0.1 to 0.8.
    world = bdes.Instance([0.5, 0.4, 0.6], [0.5, 0.6, 0.7], 0.01)
    log = simulated_log(world, users=1, rows=30, seed=seed)
    found = bdes.fit(log).evolving.log_likelihood
    for rate in (0.05, 0.2, 0.5, 0.8, 1.0):
        assert bdes.fit(log, lam=rate).evolving.log_likelihood < found + 0.02


# Arms that pay with certainty at their best: there, r or b or q0 is above 1 in some scale.
@pytest.mark.parametrize(
    ("world", "q0"),
    [
        (bdes.Instance([0.5, 0.4], [0.9, 1.0], 0.3, q0=0.5), None),
        (bdes.Instance([1.0, 0.9], [0.8, 1.0], 0.3, q0=0.4), None),
        (bdes.Instance([1.0, 0.4], [0.5, 1.0], 0.3, q0=1.0), None),
        (bdes.Instance([0.5, 0.2], [0.3, 1.0], 0.3, q0=2.0), 2.0),
    ],
)
def test_playable_arms_never_exceed_one(world: bdes.Instance, q0: float | None) -> None:
    found = bdes.fit(simulated_log(world, users=300, rows=20, seed=2), q0=q0)
    arms = found.playable_arms()
    at = arms.instance
    assert max(*at.r, *at.b, at.q0) <= 1
    for (low, high), value in zip(arms.r_interval, at.r, strict=True):
        assert 0 <= low < value <= high <= 1
    # In every scale the same: what alternating the arms pays.
    assert at.value([0, 1] * 10) == pytest.approx(found.instance.value([0, 1] * 10))
    assert at.value([0, 1] * 10) == pytest.approx(world.value([0, 1] * 10), rel=0.1)
    assert at.q0 == pytest.approx(world.q0 / max(*world.b, world.q0), rel=0.2)
