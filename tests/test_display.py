"""What objects show when their name is typed: short, inside 80 columns, no arrays; safe HTML."""

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import bdes_framework as bdes
from tests.support.experiments import write_experiment, write_plugin
from tests.support.logs import ADS, simulated_log

MANY = bdes.Instance(np.linspace(1 / 3, 0.9, 1_000), np.linspace(1, 0.1, 1_000), 1 / 7, 2 / 3)
EVIL = "<script>alert(1)</script>\x1b[2J"
LABEL = "<i>mine</i>"
PLUGINS = bdes.load_plugins()


def long_schedule() -> bdes.Schedule:
    parts = [bdes.Segment(np.arange(1_000)), bdes.Segment([1, 2], 10**9), bdes.Segment([0])]
    return bdes.Schedule(parts * 20)


def plan() -> bdes.Plan:
    schedule = long_schedule()
    return bdes.Plan(schedule, MANY.value(schedule), 1e11)


def trace(keep: bool = True) -> bdes.Trace:
    parameters = {"r": MANY.r, "b": MANY.b, "lam": MANY.lam}
    environment = PLUGINS.environment("bernoulli", seed=1, **parameters)
    policy = PLUGINS.policy("ucb1", bdes.Problem(1_000, 3_000), seed=2)
    return bdes.simulate(environment, policy, 3_000, keep=keep)


def crowd_trace() -> bdes.CrowdTrace:
    parameters = {"r": MANY.r, "b": MANY.b, "lam": MANY.lam}
    environment = PLUGINS.crowd_environment("crowd", seed=1, **parameters)
    policy = PLUGINS.crowd_policy("crowd-greedy", bdes.CrowdProblem(1_000, 3_000), seed=2)
    return bdes.simulate_crowd(environment, policy, 3_000)


def fitted() -> bdes.Fit:
    log = simulated_log(ADS, users=40, rows=50)
    names = [EVIL, "calm", "x" * 150]
    return bdes.fit(bdes.Log(log.arms, log.rewards, log.starts, names))


def curve() -> bdes.CtrCurve:
    times = np.arange(100)
    return bdes.CtrCurve(times, 0.1 + 0.2 * 0.9**times + 0.001 * np.cos(times))


def run_in(folder: Path) -> bdes.Run:
    write_plugin(folder)
    name = 'name = "demo"', 'name = "<b>demo</b>"'
    label = 'use = "mine"', f'use = "mine"\nlabel = "{LABEL}"'
    file = write_experiment(folder, name, label)
    return bdes.run_experiment(file, out=folder / "run", engine="serial")


OBJECTS: dict[str, Callable[[], object]] = {
    "Instance": lambda: MANY,
    "Problem": lambda: bdes.Problem(1_000, 10**6),
    "Segment": lambda: bdes.Segment(np.arange(1_000), 3),
    "Schedule": long_schedule,
    "Plan": plan,
    "PlanReport": lambda: bdes.report_plan(PLUGINS, ADS, 1_000, "greedy"),
    "Trace": trace,
    "CrowdTrace": crowd_trace,
    "Outcome": lambda: bdes.Outcome(np.ones(1_000), np.ones(1_000)),
    "Benchmark": lambda: bdes.Benchmark(np.arange(1, 1_001), np.ones(1_000), 2 / 3),
    "Log": lambda: simulated_log(ADS, users=3, rows=1_000),
    "Fit": fitted,
    "GoodnessOfFit": lambda: fitted().goodness,
    "Plugins": lambda: PLUGINS,
    "CtrCurve": curve,
    "RateCalibration": lambda: bdes.calibrate_rate(curve()),
}


def check(shown: str, name: str) -> None:
    lines = shown.splitlines()
    assert shown.startswith(f"{name}("), shown
    assert len(lines) <= 10, shown
    assert max(map(len, lines)) <= 80, shown
    assert "array(" not in shown
    assert " object at 0x" not in shown
    assert shown.replace("\n", "").isprintable()


@pytest.mark.parametrize("name", OBJECTS)
def test_repr_is_short(name: str) -> None:
    check(repr(OBJECTS[name]()), name)


@pytest.mark.parametrize("kind", bdes.Kind)
def test_what_our_plugins_build_has_a_short_repr(kind: bdes.Kind) -> None:
    problem = bdes.Problem(3, 1_000, lam=0.15, replenishing_arm=2)
    arms = {"r": ADS.r, "b": ADS.b, "lam": ADS.lam}
    given: dict[str, dict[str, object]] = {
        "bernoulli": arms,
        "crowd": arms,
        "no-state": {"r": ADS.r},
        "crowd-table": {"r": ADS.r, "b": ADS.b, "visits_per_user": 20},
        "each": {"policy": "ucb1"},
        "pooled": {"policy": "ucb1"},
        "fixed-schedule": {"cycle": list(range(3)) * 100},
        "gaussian": {"sigma": 0.1},
        "rademacher": {"size": 0.1},
        "truncated-gaussian": {"scale": 0.1, "bound": 0.2},
    }
    for entry in PLUGINS.entries(kind):
        if entry.distribution != "bdes-framework":
            continue
        parameters = given.get(entry.name, {})
        if (kind, entry.name) == (bdes.Kind.NOISE_MODEL, "uniform"):
            parameters = {"half_width": 0.1}
        build: Callable[..., object] = getattr(PLUGINS, kind.name.lower())
        needs_seed = kind.value.endswith(("environment", "policy"))
        crowd = bdes.CrowdProblem(3, 1_000, lam=0.15)
        problems = {bdes.Kind.POLICY: (problem,), bdes.Kind.CROWD_POLICY: (crowd,)}
        place = problems.get(kind, ())
        seed = {"seed": 1} if needs_seed else {}
        built = build(entry.name, *place, **seed, **parameters)
        check(repr(built), type(built).__name__)


def test_run_curves_and_experiment(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    check(repr(run), "Run")
    assert "finished=6 of 6" in repr(run)
    check(repr(run.curves("bernoulli", LABEL, 50)), "Curves")
    check(repr(bdes.load_experiment(tmp_path / "demo.toml")), "Experiment")
    check(repr(bdes.load_experiment(tmp_path / "demo.toml").cells[0]), "Cell")
    shown = run._repr_html_()
    assert "&lt;i&gt;mine" in shown
    well_formed(shown)
    run.close()
    check(repr(run), "Run")
    assert "closed=True" in repr(run)
    well_formed(run._repr_html_())


def well_formed(shown: str) -> None:
    """Raise unless it is well-formed, without scripts or control characters."""
    assert "<script" not in shown
    assert shown.replace("\n", "").isprintable()
    ElementTree.fromstring(f"<div>{shown.replace('<br>', '<br/>')}</div>")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Instance", ["1,000 arms", "0.333333", "and 988 more"]),
        ("Schedule", ["repeats", "1,000,000,000"]),
        ("Plan", ["expected reward", "at most possible"]),
        ("PlanReport", ["share of the pulls", "best-fixed", "greedy"]),
        ("Plugins", ["policy", "ucb1, uniform", "journal", "sqlite"]),
        ("Trace", ["expected reward per round", "3,000"]),
        ("Fit", ["&lt;script&gt;", "goodness of fit", "0.15"]),
    ],
)
def test_html_is_small_and_escaped(name: str, words: list[str]) -> None:
    thing = OBJECTS[name]()
    shown: str = thing._repr_html_()  # type: ignore[attr-defined]
    well_formed(shown)
    assert len(re.sub(r"<img [^>]*>", "", shown)) < 6_000
    for word in words:
        assert word in shown


def test_summary_of_a_fit_is_what_the_command_prints() -> None:
    found = fitted()
    summary = found.summary()
    assert isinstance(summary, bdes.Summary)
    assert repr(summary) == str(summary) == summary.text
    lines = summary.text.splitlines()
    assert lines[0] == "rows              2,000"
    evil = "<script>alert(1)</script>\\x1b[2J"
    assert [line.split()[0] for line in lines[6:9]] == ["Arm", evil, "calm"]
    assert summary.text.replace("\n", "").isprintable()
    well_formed(summary._repr_html_())


def test_curves_only_is_said() -> None:
    assert "kept=curves only" in repr(trace(keep=False))
