"""Every regime of Table 1, played and measured: how fast regret grows, and what noise adds.

Mean DES regret over paired seeds, log-log slope over horizons with a bootstrap interval,
beside the slope of the theorem's own finite-T expression over the same horizons.
"""

import math
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
from attrs import frozen

import bdes_framework as bdes
from bdes_framework.experiment.arms import ArmsConfig, generate_arms
from studies.pages import slope_of, slope_with_interval

PLUGINS = bdes.load_plugins()
SEEDS = 30
INSTANCES = 3
"""A seed's own: 90 in all, so that the bootstrap over seeds is one over instances as well."""
ALLOWED_EXCESS = 0.05
MAX_EXTERNAL = 0.01
"""A learner without external regret has at most this share of its DES regret, at T = 10^6."""
MAX_NOISE_SHARE = 0.05
"""Of sigma·T: what noise adds to regret, three standard errors more included, is at most this."""
MAX_EXPLORATION = 0.5
"""Horizons at which exploring takes more of them than this are left out."""

Rate = Callable[[int], float]
Theory = Callable[[int, int, float], float]


@frozen
class Case:
    """One line of the table: a policy in a regime, and what the paper promises of it."""

    name: str
    regime: str
    policy: str
    lam: Rate
    theory: Theory | None
    theorem: str
    parameters: Mapping[str, object] = {}
    n_arms: int = 3
    a_decade: int = 2
    last_power: int = 6
    gated: bool = False
    least_slope: float | None = None
    """Of DES regret, where external regret is next to nothing: what Proposition 2.1 says."""

    @property
    def horizons(self) -> list[int]:
        """What it is played at: from 10^3 to the last power of ten."""
        steps = (self.last_power - 3) * self.a_decade
        return [round(10 ** (3 + k / self.a_decade)) for k in range(steps + 1)]


@frozen
class Play:
    """What one simulation comes to."""

    regret: float
    external: float
    exploration: float
    """The share of the horizon that it explored for; infinite if that was cut to fit."""


@frozen(eq=False)
class Measured:
    """Regret of one case: shape (seeds, horizons), averaged over instances."""

    case: Case
    horizons: list[int]
    """Where exploring takes at most half of them."""
    regret: bdes.FloatArray
    slope: float
    low: float
    high: float
    last_slope: float
    """Over the last decade, or what there is of it."""
    last_low: float
    last_high: float
    theory_slope: float | None
    external: float
    """External regret at the last horizon, as a share of DES regret."""

    @property
    def held(self) -> bool | None:
        """Whether the gate held; None if there is none."""
        if self.case.least_slope is not None:
            return self.slope > self.case.least_slope and self.external <= MAX_EXTERNAL
        if not self.case.gated or self.theory_slope is None:
            return None
        return max(self.low, self.last_low) <= self.theory_slope + ALLOWED_EXCESS


def slow(horizon: int, n_arms: int, lam: float) -> float:
    """EXP3.P: sqrt(K T ln K) + (1 - (1 - lam)^T) OPT, with OPT = T."""
    _, forgotten = bdes.state_decay(lam, horizon)
    return math.sqrt(n_arms * horizon * math.log(n_arms)) + forgotten * horizon


def slow_ucb(horizon: int, n_arms: int, lam: float) -> float:
    """UCB1 in slow states: sqrt(K T ln T) + lam T^2, but never more than T (erratum 18)."""
    return math.sqrt(n_arms * horizon * math.log(horizon)) + min(1.0, lam * horizon) * horizon


def middle(horizon: int, n_arms: int, lam: float) -> float:
    """ETC as printed: the rounds that it explores, N(lam) included, and eps·T lost after them."""
    ratio = math.log(lam) / math.log1p(-lam)
    eps = math.cbrt(n_arms * math.log(horizon) * ratio / horizon)
    samples, settle = math.log(horizon) / eps**2, math.log(lam * eps) / math.log1p(-lam)
    explored = n_arms * samples * (settle + 1) + n_arms * (settle + samples) + settle
    return explored + eps * horizon


def fast(horizon: int, n_arms: int, lam: float) -> float:
    """Sticky: K sqrt(T ln(K T)) + (1 - lam) T."""
    return n_arms * math.sqrt(horizon * math.log(n_arms * horizon)) + (1 - lam) * horizon


CASES = [
    Case("exp3p, lam = T^-2", "slow", "exp3p", lambda t: t**-2.0, slow, "4.1", gated=True),
    Case("exp3p, lam = T^-1.5", "slow", "exp3p", lambda t: t**-1.5, slow, "4.1", gated=True),
    Case("etc, lam = 0.1", "middle", "etc", lambda t: 0.1, middle, "3.1", gated=True),
    Case("etc, lam = 0.5", "middle", "etc", lambda t: 0.5, middle, "3.1", gated=True),
    *(
        Case(
            f"sticky, lam = {text}",
            "fast",
            "sticky",
            lam,
            fast,
            "5.1",
            a_decade=4,
            last_power=7,  # it explores for most of shorter horizons
            gated=True,
        )
        for text, lam in (("1 - 1/sqrt(T)", lambda t: 1 - t**-0.5), ("1", lambda t: 1.0))
    ),
    Case(
        "etc, paper's tuning, lam = 0.5",
        "middle",
        "etc",
        lambda t: 0.5,
        middle,
        "3.1",
        {"tuning": "paper"},
        gated=True,
    ),
    *(
        Case(f"{policy}, lam = 0.5", "middle", policy, lambda t: 0.5, middle, theorem)
        for policy, theorem in (("etc-unknown-arm", "B.3"), ("unknown-lambda", "6.2"))
    ),
    *(
        Case(name, "middle", policy, lambda t: 0.5, None, "Prop. 2.1", n_arms=2, least_slope=0.95)
        for policy in ("ucb1", "exp3", "aae", "thompson")
        for name in [f"{policy} on (1, 0), (0, 1)"]
    ),
]


def instances_of(case: Case, seed: int, horizon: int) -> list[bdes.Instance]:
    """Return the instances that belong to a seed, the same at all horizons but for lam."""
    lam = case.lam(horizon)
    if case.n_arms == 2:
        return [bdes.Instance([1.0, 0.0], [0.0, 1.0], lam)]
    return [drawn_instance(case.n_arms, INSTANCES * seed + k, lam) for k in range(INSTANCES)]


def drawn_instance(n_arms: int, index: int, lam: float) -> bdes.Instance:
    """Return an instance drawn from a fixed seed, with one arm that restores the state fully."""
    config = ArmsConfig(generator="click-bait", n=n_arms, seed=index, replenishing=True)
    r, b = generate_arms(config)
    return bdes.Instance(r, b, lam)


@cache
def optimum(r: bytes, b: bytes, lam: float, horizon: int) -> float:
    """Return the value of a plan within 1e-6 of the optimum."""
    instance = bdes.Instance(np.frombuffer(r), np.frombuffer(b), lam)
    return PLUGINS.planner("certified", gap=1e-6).plan(instance, horizon).value


def played(
    case: Case, instance: bdes.Instance, horizon: int, seed: int, noise: object = None
) -> Play:
    """Return the DES regret of one simulation, and how long it explored."""
    known = None if case.policy == "unknown-lambda" else instance.lam
    replenishing = None if "unknown" in case.policy else int(instance.b.argmax())
    problem = bdes.Problem(instance.n_arms, horizon, known, replenishing)
    environment = PLUGINS.environment(
        "bernoulli", seed=seed, r=instance.r, b=instance.b, lam=instance.lam, noise=noise
    )
    policy = PLUGINS.policy(case.policy, problem, seed=seed, **case.parameters)
    best = optimum(instance.r.tobytes(), instance.b.tobytes(), instance.lam, horizon)
    trace = bdes.simulate(environment, policy, horizon, keep=False)
    external = float(bdes.external_regret(trace, instance)[-1])
    return Play(best - trace.total_mean, external, exploration(trace.diagnostics, horizon))


def exploration(shown: bdes.Diagnostics, horizon: int) -> float:
    """Return the share of the horizon that a policy explored for, as its diagnostics say."""
    if shown.get("clipped"):
        return math.inf
    finding = shown.get("estimation_ends", shown.get("test_ends", 0))
    rounds = (shown.get("committed_at", 0), shown.get("exploration", 0), finding)
    return sum(part for part in rounds if isinstance(part, int)) / horizon


def measure(case: Case, seeds: int = SEEDS) -> Measured:
    """Play a case at all its horizons; fit the slope, and bootstrap it over seeds."""
    plays = {horizon: _plays(case, horizon, seeds) for horizon in case.horizons}
    kept = {t: found for t, found in plays.items() if found.explored <= MAX_EXPLORATION}
    horizons, regret = list(kept), np.column_stack([found.regret for found in kept.values()])
    slope, low, high = slope_with_interval(horizons, regret)
    theory = None
    if case.theory is not None:
        bounds = [case.theory(t, case.n_arms, case.lam(t)) for t in horizons]
        theory = slope_of(horizons, np.array(bounds))
    of_last = [k for k, t in enumerate(horizons) if t >= horizons[-1] / 11]
    last = slope_with_interval([horizons[k] for k in of_last], regret[:, of_last])
    return Measured(
        case,
        horizons,
        regret,
        slope=slope,
        low=low,
        high=high,
        last_slope=last[0],
        last_low=last[1],
        last_high=last[2],
        theory_slope=theory,
        external=kept[horizons[-1]].external / float(regret[:, -1].mean()),
    )


@frozen(eq=False)
class Plays:
    """All plays at one horizon: regret of each seed over its instances, and means of the rest."""

    regret: bdes.FloatArray
    external: float
    explored: float


def _plays(case: Case, horizon: int, seeds: int, noise: object = None) -> Plays:
    plays = [
        [played(case, instance, horizon, seed, noise) for instance in instances]
        for seed in range(seeds)
        for instances in [instances_of(case, seed, horizon)]
    ]
    regret = [np.mean([play.regret for play in own]) for own in plays]
    every = [play for own in plays for play in own]
    external, explored = (
        float(np.mean([getattr(play, name) for play in every]))
        for name in ("external", "exploration")
    )
    return Plays(np.array(regret), external, explored)


@frozen
class NoiseRow:
    """What noise of one size costs one policy, as a share of sigma·T."""

    policy: str
    sigma: float
    horizon: int
    extra: float
    error: float


def measure_noise(seeds: int = SEEDS) -> list[NoiseRow]:
    """Return the regret that noise adds, divided by sigma·T, with its standard error."""
    rows = []
    for case in (c for c in CASES if c.name in NOISY):
        for horizon in (10_000, 100_000):
            plain = _plays(case, horizon, seeds).regret
            for sigma in (0.05, 0.1, 0.2):
                noise = {"use": "gaussian", "sigma": sigma}
                extra = _plays(case, horizon, seeds, noise).regret - plain
                extra /= sigma * horizon
                error = float(extra.std(ddof=1) / math.sqrt(seeds))
                rows.append(NoiseRow(case.policy, sigma, horizon, float(extra.mean()), error))
    return rows


NOISY = ("exp3p, lam = T^-2", "etc, lam = 0.5", "sticky, lam = 1")


@frozen
class ShrinkingGap:
    """A policy on three arms of which one pays a gap more; the gap shrinks as T grows."""

    policy: str
    lam: Rate
    gap: Rate
    text: str
    exponent: float
    """Of T: what the theorem has for the worst instance at each horizon, logarithms left out."""


SHRINKING = [
    ShrinkingGap("exp3p", lambda t: t**-2.0, lambda t: 5 / math.sqrt(t), "5/sqrt(T)", 1 / 2),
    ShrinkingGap("ucb1", lambda t: t**-2.0, lambda t: 5 / math.sqrt(t), "5/sqrt(T)", 1 / 2),
    ShrinkingGap("etc", lambda t: 0.5, lambda t: 1 / math.cbrt(t), "T^(-1/3)", 2 / 3),
    ShrinkingGap("sticky", lambda t: 1.0, lambda t: 25 / math.sqrt(t), "25/sqrt(T)", 1 / 2),
]
SHRINKING_HORIZONS = [10_000, 31_623, 100_000, 316_228, 1_000_000]
SHRINKING_SEEDS = range(9000, 9200)
"""Fixed before they were played, and not among those on which the gaps' factors were chosen."""
NEAR_EXPONENT = 0.1
"""Both ends of a slope's interval lie this near to the exponent."""


@frozen
class ShrinkingRow:
    """How regret grows where the gap shrinks."""

    case: ShrinkingGap
    regret: float
    slope: float
    low: float
    high: float

    @property
    def held(self) -> bool:
        """Whether the whole interval is near the exponent."""
        return all(abs(end - self.case.exponent) <= NEAR_EXPONENT for end in (self.low, self.high))


def measure_shrinking(case: ShrinkingGap) -> ShrinkingRow:
    """Play at all horizons, each with a gap of its own; all b are 1, so the optimum is known."""
    regret = np.empty((len(SHRINKING_SEEDS), len(SHRINKING_HORIZONS)))
    for column, horizon in enumerate(SHRINKING_HORIZONS):
        lam, r, b = case.lam(horizon), np.full(3, 0.5), np.ones(3)
        r[-1] += case.gap(horizon)
        for row, seed in enumerate(SHRINKING_SEEDS):
            world = PLUGINS.environment("bernoulli", seed=seed, r=r, b=b, lam=lam)
            policy = PLUGINS.policy(case.policy, bdes.Problem(3, horizon, lam, 0), seed=seed)
            earned = bdes.simulate(world, policy, horizon, keep=False).total_mean
            regret[row, column] = r[-1] * horizon - earned
    slope, low, high = slope_with_interval(SHRINKING_HORIZONS, regret)
    return ShrinkingRow(case, float(regret[:, -1].mean()), slope, low, high)


@frozen
class ArmsCase:
    """A policy in its regime, played with more and more arms."""

    policy: str
    text: str
    lam: float
    theory: Theory
    exponent: str
    """Of K, as Table 1 has it."""


ARMS = (2, 4, 8, 16, 32)
ARMS_HORIZON = 100_000
ARMS_SEEDS = range(9500, 9560)
"""An instance each, of every number of arms; fixed before they were played."""
ARMS_CASES = [
    ArmsCase("exp3p", "T^-2", ARMS_HORIZON**-2.0, slow, "1/2"),
    ArmsCase("ucb1", "T^-2", ARMS_HORIZON**-2.0, slow_ucb, "not in it"),
    ArmsCase("etc", "0.5", 0.5, middle, "1/3"),
    ArmsCase("sticky", "1", 1.0, fast, "1"),
]


@frozen(eq=False)
class ArmsRow:
    """How regret grows with the number of arms: arrays have shape (instances, numbers of arms)."""

    case: ArmsCase
    regret: bdes.FloatArray
    slope: float
    low: float
    high: float
    theory_slope: float
    """Of the theorem's own expression, logarithms included, over the same numbers of arms."""
    explored: bdes.FloatArray
    """Rounds."""
    lost_exploring: bdes.FloatArray


def measure_arms(case: ArmsCase) -> ArmsRow:
    """Play every instance once; fit the slope over arms, and bootstrap it over instances."""
    shape = len(ARMS_SEEDS), len(ARMS)
    regret, explored, lost = np.empty(shape), np.zeros(shape), np.zeros(shape)
    for row, seed in enumerate(ARMS_SEEDS):
        for column, n_arms in enumerate(ARMS):
            instance = drawn_instance(n_arms, seed, case.lam)
            r, b, lam = instance.r, instance.b, instance.lam
            problem = bdes.Problem(n_arms, ARMS_HORIZON, lam, int(b.argmax()))
            world = PLUGINS.environment("bernoulli", seed=seed, r=r, b=b, lam=lam)
            policy = PLUGINS.policy(case.policy, problem, seed=seed)
            trace = bdes.simulate(world, policy, ARMS_HORIZON)
            best = optimum(r.tobytes(), b.tobytes(), lam, ARMS_HORIZON)
            share = exploration(trace.diagnostics, ARMS_HORIZON)
            rounds = round(share * ARMS_HORIZON)
            assert trace.arms is not None
            regret[row, column] = best - trace.total_mean
            explored[row, column] = rounds
            if rounds:
                lost[row, column] = share * best - instance.value(trace.arms[:rounds])
    slope, low, high = slope_with_interval(ARMS, regret)
    bounds = np.array([case.theory(ARMS_HORIZON, n_arms, case.lam) for n_arms in ARMS])
    return ArmsRow(case, regret, slope, low, high, slope_of(ARMS, bounds), explored, lost)
