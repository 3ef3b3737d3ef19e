"""Regret rates, measured: ``make rates`` plays every regime of Table 1 and writes docs/rates.md.

Mean DES regret over paired seeds, log-log slope over horizons with a bootstrap interval,
beside the slope of the theorem's own finite-T expression over the same horizons.
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import altair as alt
import numpy as np
from attrs import frozen
from rich.console import Console
from rich.progress import track

import bdes_framework as bdes
from bdes_framework.arms import ArmsConfig, make_arms

DOCS = Path(__file__).parent.parent / "docs"
PLUGINS = bdes.load_plugins()
SEEDS = 30
INSTANCES = 3
ALLOWED_EXCESS = 0.05
HORIZONS = tuple(round(10 ** (k / 2)) for k in range(6, 13))
"""Half decades from 10^3 to 10^6."""

Rate = Callable[[int], float]
Theory = Callable[[int, int, float], float]


@frozen
class Case:
    """One line of the table: a policy in a regime, and what the paper promises of it."""

    name: str
    regime: str
    policy: str
    parameters: Mapping[str, object]
    lam: Rate
    theory: Theory | None
    theorem: str
    n_arms: int = 3
    first: int = 10_000
    gated: bool = False
    two_arms: bool = False
    least_slope: float | None = None

    @property
    def horizons(self) -> list[int]:
        """The horizons it is measured at."""
        return [horizon for horizon in HORIZONS if horizon >= self.first]


@frozen(eq=False)
class Measured:
    """Regret of one case: shape (seeds, horizons), averaged over instances."""

    case: Case
    regret: bdes.FloatArray
    slope: float
    low: float
    high: float
    theory_slope: float | None

    @property
    def held(self) -> bool | None:
        """Whether the gate held; None if there is none."""
        if self.case.least_slope is not None:
            return self.slope > self.case.least_slope
        if not self.case.gated or self.theory_slope is None:
            return None
        return self.low <= self.theory_slope + ALLOWED_EXCESS


def slow(horizon: int, n_arms: int, lam: float) -> float:
    """EXP3.P: sqrt(K T ln K) + (1 - (1 - lam)^T) OPT, with OPT = T."""
    forgotten = -math.expm1(horizon * math.log1p(-lam))
    return math.sqrt(n_arms * horizon * math.log(n_arms)) + forgotten * horizon


def middle(horizon: int, n_arms: int, lam: float) -> float:
    """ETC: (K ln T · ln lam / ln(1 - lam))^(1/3) T^(2/3)."""
    ratio = math.log(lam) / math.log1p(-lam)
    return math.cbrt(n_arms * math.log(horizon) * ratio) * math.pow(horizon, 2 / 3)


def fast(horizon: int, n_arms: int, lam: float) -> float:
    """Sticky: K sqrt(T ln(K T)) + (1 - lam) T."""
    return n_arms * math.sqrt(horizon * math.log(n_arms * horizon)) + (1 - lam) * horizon


CASES = [
    Case("exp3p, lam = T^-2", "slow", "exp3p", {}, lambda t: t**-2.0, slow, "4.1",
         first=1_000, gated=True),
    Case("exp3p, lam = T^-1.5", "slow", "exp3p", {}, lambda t: t**-1.5, slow, "4.1",
         first=1_000, gated=True),
    Case("etc, lam = 0.1", "middle", "etc", {}, lambda t: 0.1, middle, "3.1", gated=True),
    Case("etc, lam = 0.5", "middle", "etc", {}, lambda t: 0.5, middle, "3.1", gated=True),
    Case("sticky, lam = 1 - 1/sqrt(T)", "fast", "sticky", {}, lambda t: 1 - t**-0.5, fast,
         "5.1", gated=True),
    Case("sticky, lam = 1", "fast", "sticky", {}, lambda t: 1.0, fast, "5.1", gated=True),
    Case("etc, paper's tuning, lam = 0.5", "middle", "etc", {"tuning": "paper"}, lambda t: 0.5,
         middle, "3.1"),
    Case("etc-unknown-arm, lam = 0.5", "middle", "etc-unknown-arm", {}, lambda t: 0.5, middle,
         "B.3"),
    Case("unknown-lambda, lam = 0.5", "middle", "unknown-lambda", {}, lambda t: 0.5, middle,
         "6.2"),
    *(
        Case(f"{name} on (1, 0), (0, 1)", "fast", name, {}, lambda t: 1.0, None, "Prop. 2.1",
             n_arms=2, first=1_000, two_arms=True, least_slope=0.95)
        for name in ("ucb1", "exp3", "aae", "thompson")
    ),
]  # fmt: skip


def instance_of(case: Case, index: int, horizon: int) -> bdes.Instance:
    """Return an instance drawn from a fixed seed, with one arm that restores the state fully."""
    lam = case.lam(horizon)
    if case.two_arms:
        return bdes.Instance([1.0, 0.0], [0.0, 1.0], lam)
    r, b = make_arms(ArmsConfig(generator="click-bait", n=case.n_arms, seed=index), Path())
    b[b.argmax()] = 1.0
    return bdes.Instance(r, b, lam)


@cache
def optimum(r: bytes, b: bytes, lam: float, horizon: int) -> float:
    """Return the value of a plan within 1e-6 of the optimum."""
    instance = bdes.Instance(np.frombuffer(r), np.frombuffer(b), lam)
    return PLUGINS.planner("certified", gap=1e-6).plan(instance, horizon).value


def regret_of(
    case: Case, instance: bdes.Instance, horizon: int, seed: int, noise: object = None
) -> float:
    """Return the DES regret of one simulation."""
    known = None if case.policy == "unknown-lambda" else instance.lam
    replenishing = None if "unknown" in case.policy else int(instance.b.argmax())
    problem = bdes.Problem(instance.n_arms, horizon, known, replenishing)
    environment = PLUGINS.environment(
        "bernoulli", seed=seed, r=instance.r, b=instance.b, lam=instance.lam, noise=noise
    )
    policy = PLUGINS.policy(case.policy, problem, seed=seed, **case.parameters)
    best = optimum(instance.r.tobytes(), instance.b.tobytes(), instance.lam, horizon)
    return best - bdes.simulate(environment, policy, horizon, keep=False).total_mean


def measure(case: Case, seeds: int = SEEDS) -> Measured:
    """Play a case at all its horizons; fit the slope, and bootstrap it over seeds."""
    n_instances = 1 if case.two_arms else INSTANCES
    regret = np.zeros((seeds, len(case.horizons)))
    for column, horizon in enumerate(case.horizons):
        for index in range(n_instances):
            instance = instance_of(case, index, horizon)
            for seed in range(seeds):
                regret[seed, column] += regret_of(case, instance, horizon, seed) / n_instances
    theory = None
    if case.theory is not None:
        bounds = [case.theory(t, case.n_arms, case.lam(t)) for t in case.horizons]
        theory = slope_of(case.horizons, np.array(bounds))
    return Measured(case, regret, *slope_with_interval(case.horizons, regret), theory)


def slope_with_interval(
    horizons: Sequence[int], regret: bdes.FloatArray
) -> tuple[float, float, float]:
    """Return the slope of mean regret, shape (seeds, horizons), and its 95 % bootstrap interval."""
    seeds, rng = len(regret), np.random.default_rng(0)
    samples = [
        slope_of(horizons, regret[rng.integers(0, seeds, seeds)].mean(axis=0)) for _ in range(2000)
    ]
    low, high = np.quantile(samples, (0.025, 0.975))
    return slope_of(horizons, regret.mean(axis=0)), float(low), float(high)


def slope_of(horizons: Sequence[int], regret: bdes.FloatArray) -> float:
    """Return the log-log slope of regret over horizons, by least squares."""
    return float(np.polyfit(np.log(horizons), np.log(np.maximum(regret, 1e-9)), 1)[0])


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
            plain = _mean_regret(case, horizon, seeds, None)
            for sigma in (0.05, 0.1, 0.2):
                noise = {"use": "gaussian", "sigma": sigma}
                extra = _mean_regret(case, horizon, seeds, noise) - plain
                extra /= sigma * horizon
                error = float(extra.std(ddof=1) / math.sqrt(seeds))
                rows.append(NoiseRow(case.policy, sigma, horizon, float(extra.mean()), error))
    return rows


NOISY = ("exp3p, lam = T^-2", "etc, lam = 0.5", "sticky, lam = 1")


def _mean_regret(case: Case, horizon: int, seeds: int, noise: object) -> bdes.FloatArray:
    """Return the regret of each seed, averaged over instances: shape (seeds,)."""
    instances = [instance_of(case, index, horizon) for index in range(INSTANCES)]
    return np.array(
        [
            np.mean([regret_of(case, instance, horizon, seed, noise) for instance in instances])
            for seed in range(seeds)
        ]
    )


PAGE = """# Measured rates

<!-- Written by `make rates`; do not edit by hand. -->

Mean DES regret of {seeds} paired seeds and {instances} click-bait instances from fixed seeds
(K = 3, one arm with b = 1), against a plan proven to be within 1e-6 of the optimum. The slope is
fitted on a log-log scale over half decades up to T = 10^6; its interval is a 95 % bootstrap over
seeds. The theorem's slope is that of its own finite-T expression, logarithms and N(lam) included,
over the same horizons. A gate holds when the interval's lower end exceeds the theorem's slope by
at most {excess}; for the policies that know nothing of states, when the slope is above 0.95, as
Proposition 2.1 says.

![Mean regret against the horizon, by case](img/rates.svg)

| case | theorem | horizons | regret at the last | slope, 95 % | theorem's slope | gate |
|---|---|---|---|---|---|---|
{rates}

## Noise

Theorem 6.1 allows extra regret of the order of sigma·T. Measured with Gaussian noise on the same
instances: the regret that noise adds, divided by sigma·T (mean ± standard error over paired seeds).
It grows at most linearly if the last column does not grow with T.

| policy | sigma | T | extra regret / (sigma·T) |
|---|---|---|---|
{noise}
"""


def page(measured: list[Measured], noise: list[NoiseRow]) -> str:
    """Return the documentation page."""
    return PAGE.format(
        seeds=SEEDS,
        instances=INSTANCES,
        excess=ALLOWED_EXCESS,
        rates="\n".join(map(_line, measured)),
        noise="\n".join(
            f"| {n.policy} | {n.sigma} | {n.horizon:,} | {n.extra:+.4f} ± {n.error:.4f} |"
            for n in noise
        ),
    )


def _line(row: Measured) -> str:
    case = row.case
    theory = "-" if row.theory_slope is None else f"{row.theory_slope:.2f}"
    gate = {None: "reported", True: "held", False: "**not held**"}[row.held]
    return (
        f"| {case.name} | {case.theorem} | {case.horizons[0]:,} to {case.horizons[-1]:,} |"
        f" {row.regret[:, -1].mean():,.0f} | {row.slope:.2f} ({row.low:.2f} to {row.high:.2f})"
        f" | {theory} | {gate} |"
    )


def chart(measured: list[Measured]) -> alt.FacetChart:
    """Return mean regret against the horizon, one panel a regime."""
    rows = [
        {"case": m.case.name, "regime": m.case.regime, "T": t, "regret": max(float(y), 1e-3)}
        for m in measured
        for t, y in zip(m.case.horizons, m.regret.mean(axis=0), strict=True)
    ]
    lines = (
        alt.Chart(alt.InlineData(values=rows, name="rates"))
        .mark_line(point=True)
        .encode(
            x=alt.X(
                "T:Q",
                scale=alt.Scale(type="log"),
                axis=alt.Axis(format="~s", values=[1e3, 1e4, 1e5, 1e6]),
                title="horizon T (rounds)",
            ),
            y=alt.Y("regret:Q", scale=alt.Scale(type="log"), title="mean DES regret"),
            color=alt.Color(
                "case:N",
                scale=alt.Scale(scheme="tableau20"),
                legend=alt.Legend(title=None, orient="bottom", columns=2, labelLimit=300),
            ),
        )
        .properties(width=230, height=230)
    )
    both: alt.FacetChart = lines.facet(column=alt.Column("regime:N", title=None)).configure(
        font="sans-serif", background="white"
    )
    return both


def main() -> None:
    measured = [measure(case) for case in track(CASES, "playing", console=Console(stderr=True))]
    (DOCS / "rates.md").write_text(page(measured, measure_noise()))
    chart(measured).save(DOCS / "img" / "rates.svg")
    for row in measured:
        Console().print(f"{row.case.name}: {row.slope:.2f} ({row.low:.2f} to {row.high:.2f})")
    sys.exit(1 if any(row.held is False for row in measured) else 0)


if __name__ == "__main__":
    main()
