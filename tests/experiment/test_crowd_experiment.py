"""Experiments with many users: cells, keys, engines, interruption, replay, results, logs."""

import csv
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import asdict

import bdes_framework as bdes
from bdes_framework import ConfigError, load_experiment, load_run, run_experiment
from bdes_framework._internal.seeding import branch
from bdes_framework.experiment.replay import experiment_of, replay_cell, verify_cell
from bdes_framework.experiment.store import open_store
from bdes_framework.simulation.feedback import Feedback, FeedbackConfig
from tests.support.command import bdes as command
from tests.support.experiments import Dump, changed, dump
from tests.support.players import PLUGINS

FILE = """
name = "crowd demo"
seed = 1
horizons = [400, 2000]
replications = 2
checkpoints = 12

[feedback]
every = 20
delay = 10
lost = 0.1

[[environments]]
use = "crowd"
users = 60
visits_per_user = 12
lifetimes = "geometric"
arrivals = "cohorts"
cohort = 10
lam = 0.3
arms = {generator = "click-bait", n = 3, seed = [1, 2]}

[[policies]]
use = "crowd-greedy"
explore = 5

[[policies]]
label = "each thompson"
use = "each"
policy = "thompson"

[[policies]]
label = "pooled ucb1"
use = "pooled"
policy = {use = "ucb1"}
"""


BERNOULLI = """[[environments]]
use = "bernoulli"
r = [0.9]
b = [1.0]
lam = 0.1
"""


LEARNED = """
name = "learned"
seed = 1
horizons = [600]
replications = 2
checkpoints = 12

[feedback]
every = 20
delay = 10
lost = 0.1

[[environments]]
use = "crowd"
users = 60
visits_per_user = 12
lifetimes = "geometric"
r = [0.9, 0.6, 0.3]
b = [0.1, 0.5, 1.0]
lam = 0.3

[[policies]]
use = "crowd-posterior"
draws = 2
growth = 0.9

[[policies]]
label = "warm"
use = "crowd-posterior"
draws = 2
growth = 0.9
prior = "fit.toml"

[[policies]]
use = "crowd-table"
table = "table.json"
"""


def write(folder: Path, *changes: tuple[str, str]) -> Path:
    (folder / "crowd.toml").write_text(changed(FILE, *changes))
    return folder / "crowd.toml"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an experiment and its run."""
    base = tmp_path_factory.mktemp("crowd")
    run_experiment(write(base), out=base / "run", engine="serial").close()
    return base


def test_cells_are_what_simulate_crowd_does(folder: Path) -> None:
    with load_run(folder / "run") as run:
        experiment = experiment_of(run)
        stored = run.cells()
    for cell, found in zip(experiment.cells, stored, strict=True):
        seed = branch(1, "replication", cell.replication)
        environment = PLUGINS.crowd_environment(cell.environment.table, seed=seed)
        assert isinstance(environment, bdes.HasInstance)
        assert isinstance(environment, bdes.HasVisitsPerUser)
        instance = environment.instance
        problem = bdes.CrowdProblem(
            3, cell.horizon, environment.visits_per_user, instance.lam, instance.q0
        )
        assert problem.visits_per_user == 12
        policy = PLUGINS.crowd_policy(cell.policy.table, problem, seed=seed)
        feedback = Feedback(every=20, delay=10, lost=0.1, seed=branch(seed, "feedback"))
        trace = bdes.simulate_crowd(environment, policy, cell.horizon, feedback=feedback)
        assert (found.total_reward, found.total_mean) == (trace.total_reward, trace.total_mean)
        assert (found.visits, found.users) == (trace.visits, trace.n_users)
        again = PLUGINS.crowd_environment(cell.environment.table, seed=seed)
        planner = PLUGINS.planner("certified")
        assert isinstance(planner, bdes.StationaryPlanner)
        checkpoints = bdes.log_checkpoints(cell.horizon, 12)
        benchmark = bdes.crowd_benchmark_of(again, cell.horizon, planner, checkpoints)
        assert benchmark is not None
        assert found.regret == benchmark.value - trace.total_mean
        assert found.regret_per_user == found.regret / trace.n_users


def check_interruption(file: Path, whole: Dump, folder: Path, cut: int) -> None:
    """Run in two parts, of which the first has ``cut`` cells: the same bits must be stored."""
    experiment = load_experiment(file)
    n = 0

    def stop(cell: bdes.Cell, result: bdes.CellResult) -> None:
        nonlocal n
        n += 1
        if n == cut:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, out=folder / "cut", engine="serial", reuse=False, on_cell=stop)
    with run_experiment(experiment, out=folder / "cut", engine="serial", reuse=False) as run:
        assert run.progress is not None
        assert run.progress.n_reused == cut
    assert dump(folder / "cut") == whole


def test_engines_and_interruptions_change_no_bit(folder: Path, tmp_path: Path) -> None:
    whole = dump(folder / "run")
    assert len(whole) == 24 + 8 + 24 + 8  # cells, benchmarks, and both over users
    file = folder / "crowd.toml"
    run_experiment(file, out=tmp_path / "two", engine="processes", reuse=False).close()
    assert dump(tmp_path / "two") == whole
    check_interruption(file, whole, tmp_path, cut=5)


def test_what_learns_has_the_same_bits(tmp_path: Path) -> None:
    instance = bdes.Instance([0.9, 0.6, 0.3], [0.1, 0.5, 1.0], 0.3)
    rng = np.random.default_rng(8)
    arms = rng.integers(3, size=(100, 25))
    means = np.array([instance.expected_rewards(own) for own in arms])
    clicks = (rng.random(arms.shape) < means).astype(np.int64)
    log = bdes.Log(arms.ravel(), clicks.ravel(), np.arange(100) * 25)
    bdes.save_fit(bdes.fit(log), tmp_path / "fit.toml")
    planner = PLUGINS.planner("certified")
    assert isinstance(planner, bdes.StationaryPlanner)
    planner.plan_stationary(instance, 0.9).write(tmp_path / "table.json")
    (tmp_path / "crowd.toml").write_text(LEARNED)
    file = tmp_path / "crowd.toml"
    with run_experiment(file, out=tmp_path / "run", engine="serial", reuse=False) as run:
        cells = run.cells()
    assert not any(cell.error for cell in cells)
    totals = {(cell.policy, cell.replication): cell.total_mean for cell in cells}
    assert len(set(totals.values())) == 6
    whole = dump(tmp_path / "run")
    check_interruption(file, whole, tmp_path, cut=3)
    # With a timeout even short cells are run by workers.
    timed = tmp_path / "timed.toml"
    timed.write_text(changed(LEARNED, ("seed = 1\n", "seed = 1\ntimeout = 300\n")))
    run_experiment(timed, out=tmp_path / "two", engine="processes", reuse=False).close()
    assert dump(tmp_path / "two") == whole


def test_finished_cells_are_reused(folder: Path) -> None:
    with run_experiment(folder / "crowd.toml", out=folder / "beside", engine="serial") as run:
        assert run.progress is not None
        assert run.progress.n_reused == 24
        assert run.table().sentence
    assert dump(folder / "beside") == dump(folder / "run")


def test_lost_rows_of_users_are_made_anew(folder: Path, tmp_path: Path) -> None:
    experiment = load_experiment(folder / "crowd.toml")
    options: dict[str, Any] = {"out": tmp_path / "run", "engine": "serial", "reuse": False}
    run_experiment(experiment, **options).close()
    store = open_store(tmp_path / "run", create=True)
    with store._transaction():
        for table in ("user_curves", "user_benchmarks"):
            store._connection.execute(
                f"UPDATE {table} SET users = x'0100000000000000' WHERE rowid < 3"
            )
    assert len(list(store.damage())) == 4
    store.close()
    with run_experiment(experiment, **options) as run:
        assert run.progress is not None
        assert run.progress.n_reused == 22
    assert dump(tmp_path / "run") == dump(folder / "run")


@pytest.mark.parametrize(
    "change",
    [
        ("every = 20", "every = 21"),
        ("delay = 10", 'delay = 10\ndelays = "geometric"'),
        ("lost = 0.1", "lost = 0.2"),
        ("replications = 2", "replications = 2\nreveal_visits_per_user = false"),
        ("cohort = 10", "cohort = 11"),
    ],
)
def test_what_decides_numbers_is_in_the_key(tmp_path: Path, change: tuple[str, str]) -> None:
    keys = [
        {cell.key for cell in load_experiment(write(tmp_path, *c)).cells} for c in ([], [change])
    ]
    assert len(keys[0]) == 24
    assert not keys[0] & keys[1]


def test_feedback_defaults_are_those_of_simulations(tmp_path: Path) -> None:
    start, end = FILE.index("[feedback]"), FILE.index("[[environments]]")
    file = write(tmp_path, (FILE[start:end], ""))
    assert load_experiment(file).cells[0].feedback == FeedbackConfig()
    defaults = asdict(bdes.Feedback())
    del defaults["seed"]
    assert asdict(FeedbackConfig()) == defaults


def test_visits_from_a_file_are_in_the_key(tmp_path: Path) -> None:
    text = changed(
        FILE,
        ('users = 60\nvisits_per_user = 12\nlifetimes = "geometric"\n', ""),
        ('arrivals = "cohorts"\ncohort = 10', 'arrivals = "file"\nfile = "who.txt"'),
    )
    (tmp_path / "crowd.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"environments\[0\].file: .*No such file"):
        load_experiment(tmp_path / "crowd.toml")
    specs = []
    for names in ("ann bob ann eve", "ann bob ann eve", "ann bob ann bob"):
        (tmp_path / "who.txt").write_text(names.replace(" ", "\n"))
        specs.append({cell.spec for cell in load_experiment(tmp_path / "crowd.toml").cells})
    assert specs[0] == specs[1]
    assert not specs[0] & specs[2]
    with run_experiment(tmp_path / "crowd.toml", out=tmp_path / "run", engine="serial") as run:
        assert {(cell.visits, cell.users) for cell in run.cells()} == {(4, 2)}
        assert str(tmp_path) not in json.dumps(run.resolved["config"]["environments"])
        with pytest.raises(ConfigError, match="not read unasked"):
            experiment_of(run)
        again = experiment_of(run, tmp_path / "crowd.toml")
    assert not verify_cell(again, again.cells[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            [('use = "crowd-greedy"\nexplore = 5', 'use = "ucb1"')],
            r"policies\[0\]: 'ucb1' is a policy for one audience, and environments\[0\] has many",
        ),
        (
            [('use = "crowd-greedy"', 'use = "crowd-gredy"')],
            "no crowd policy is called 'crowd-gredy'. Did you mean 'crowd-greedy'",
        ),
        (
            [('[[policies]]\nuse = "crowd', f'{BERNOULLI}[[policies]]\nuse = "crowd')],
            r"environments\[1\]: 'bernoulli' has one audience, and environments\[0\] has many",
        ),
        (
            [("seed = 1\n", 'seed = 1\nbenchmark = "fptas"\n')],
            "benchmark: planner 'fptas' makes no decision tables; those that do: certified, exact",
        ),
        ([("every = 20", "every = 0")], "feedback: every must be an integer of at least 1"),
        ([("every = 20", "often = 20")], "feedback.often: is not a parameter"),
    ],
)
def test_what_does_not_belong_is_a_mistake(
    tmp_path: Path, changes: list[tuple[str, str]], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load_experiment(write(tmp_path, *changes))


def test_one_audience_takes_nothing_of_users() -> None:
    tables: dict[str, Any] = {
        "name": "one",
        "seed": 1,
        "horizons": [10],
        "environments": [{"use": "bernoulli", "r": [0.9], "b": [1.0], "lam": 0.1}],
        "policies": [{"use": "each", "policy": "ucb1"}],
        "feedback": {"every": 5},
    }
    with pytest.raises(ConfigError) as found:
        load_experiment(tables)
    assert "policies[0]: 'each' is a policy for many users" in str(found.value)
    assert "feedback: is for experiments of many users" in str(found.value)


def test_names_are_of_one_kind() -> None:
    registrar = bdes.Registrar("acme", "acme")
    config = PLUGINS.entry(bdes.Kind.CROWD_POLICY, "each").config

    registrar.crowd_policy("ucb1", config, lambda config, context: None)  # type: ignore[arg-type, return-value]
    plugins = bdes.load_plugins()
    with pytest.raises(bdes.PluginError, match="'ucb1' of acme has the name of the policy"):
        plugins._registry.add(registrar.entries)
    with pytest.raises(bdes.UnknownNameError, match="'each' is a crowd policy, and no policy"):
        plugins.entry(bdes.Kind.POLICY, "each")


def test_results_over_visits_and_users_agree(folder: Path) -> None:
    with load_run(folder / "run") as run:
        cells, rows, points = run.cells(), list(run.rows()), list(run.curve_rows())
        label = run.cells()[0].environment
        curves = run.curves(label, "crowd-greedy", 2000)
        table = run.table((), horizon=2000)
        told = run.told
        benchmarks = {(b.environment, b.horizon): b for b in run.benchmarks()}
    assert run.step == "visit"
    assert told == {
        "crowd-greedy": (),
        "each thompson": ("lam", "visits_per_user"),
        "pooled ucb1": ("lam",),
    }
    for cell, row in zip(cells, rows, strict=True):
        assert (row["visits"], row["users"]) == (cell.visits, cell.users)
        assert row["regret_per_user"] == cell.regret_per_user
        assert row["OPT"] <= row["clairvoyant"]  # type: ignore[operator]
        own = [p for p in points if (p["instance"], p["T"], p["policy"], p["replication"])
               == (row["instance"], cell.horizon, cell.policy, cell.replication)]  # fmt: skip
        over_visits = [point for point in own if point["visits"] is not None]
        over_users = [point for point in own if point["users"] is not None]
        assert len(over_visits) + len(over_users) == len(own)
        for last in (over_visits[-1], over_users[-1]):
            assert last["total_reward"] == pytest.approx(cell.total_reward)
            assert last["total_mean"] == pytest.approx(cell.total_mean)
            assert last["regret"] == pytest.approx(cell.regret, abs=1e-9)
        assert over_visits[-1]["visits"] == cell.visits
        assert over_users[-1]["users"] == cell.users
    # 60 users of 12 visits are over before the horizon.
    longest = max(c.visits or 0 for c in cells)
    assert 500 < longest < 2000
    assert curves.checkpoints[-1] <= longest
    assert curves.steps.max() == curves.checkpoints[-1]
    assert curves.over_users is not None
    assert (np.diff(curves.over_users.means) > 0).all()
    some = next(iter(benchmarks.values()))
    assert some.table_gap is not None
    assert 0 <= some.table_gap < 1e-3
    assert "per user" in table.headings
    (record,) = [r for r in table.to_records() if r["policy"] == "crowd-greedy"]
    assert "reward_per_visit" in record
    per_user = [
        c.regret_per_user for c in cells if c.policy == "crowd-greedy" and c.horizon == 2000
    ]
    assert record["regret_per_user"] == pytest.approx(np.mean(per_user))  # type: ignore[arg-type]


def test_where_users_differ_there_is_no_regret(tmp_path: Path) -> None:
    file = write(tmp_path, ("cohort = 10", "cohort = 10\nspread = 0.3"), ("2000", "500"))
    with run_experiment(file, out=tmp_path / "run", engine="serial") as run:
        assert {cell.regret for cell in run.cells()} == {None}
        assert not run.benchmarks()
        assert "per visit" in run.table().sentence
        assert all(row["regret_per_user"] is None for row in run.rows())


@pytest.mark.parametrize("spread", [0.0, 0.3])
@pytest.mark.parametrize("reveal_lam", [True, False])
def test_policies_are_told_what_run_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spread: float, reveal_lam: bool
) -> None:
    problems = []

    def note(
        self: bdes.Plugins, use: bdes.CrowdPolicyRef, problem: bdes.CrowdProblem, **options: Any
    ) -> bdes.CrowdPolicy:
        problems.append(problem)
        return build(self, use, problem, **options)

    build = bdes.Plugins.crowd_policy
    experiment = load_experiment(
        write(
            tmp_path,
            ("cohort = 10", f"cohort = 10\nspread = {spread}\nq0 = 0.4"),
            ("[400, 2000]", "[200]"),
            ("replications = 2", f"replications = 1\nreveal_lam = {str(reveal_lam).lower()}"),
        )
    )
    monkeypatch.setattr(bdes.Plugins, "crowd_policy", note)
    with run_experiment(experiment, out=tmp_path / "run", engine="serial") as run:
        told = run.told["each thompson"]
    assert {problem.q0 for problem in problems} == {0.4}
    assert {problem.lam for problem in problems} == {0.3 if reveal_lam else None}
    assert ("lam" in told) == reveal_lam


def test_cells_are_replayed_and_verified(folder: Path) -> None:
    with load_run(folder / "run") as run:
        experiment, stored = experiment_of(run), run.cells()
    for place in (0, 7, 23):
        cell = experiment.cells[place]
        trace = replay_cell(experiment, cell, stored[place], bdes.log_checkpoints(cell.horizon))
        assert isinstance(trace, bdes.CrowdTrace)
        assert trace.visits == stored[place].visits
        assert verify_cell(experiment, cell, stored[place]) == ""


def test_terminal_speaks_of_visits(folder: Path) -> None:
    outputs = [
        command("check", "crowd.toml", "--verify", "1", cwd=folder),
        command("show", "run", "--all", cwd=folder),
        command("compare", "run", cwd=folder),
        command("compare", "run", "beside", cwd=folder),
        command("run", "crowd.toml", "--out", "run", "-v", cwd=folder),
    ]
    for one in outputs:
        assert one.returncode == 0, one.stderr
        assert "round" not in one.stdout + one.stderr
    assert "visits, at most  28,800" in outputs[0].stdout
    assert "the same, visit by visit" in outputs[0].stdout
    assert "T counts visits" in outputs[1].stdout
    assert "T = 2,000 visits" in outputs[2].stdout
    assert "of the best decision table" in outputs[1].stdout
    assert "reward per visit" in outputs[1].stdout


def test_log_of_a_cell_is_fitted(tmp_path: Path) -> None:
    text = changed(
        FILE,
        ("users = 60", "users = 1500"),
        ("[400, 2000]", "[20000]"),
        ("seed = [1, 2]", "seed = 1"),
        ("lost = 0.1", "lost = 0.0"),
        ("cohort = 10", "cohort = 100"),
        ("replications = 2", "replications = 1"),
    )
    (tmp_path / "crowd.toml").write_text(text)
    run_experiment(tmp_path / "crowd.toml", out=tmp_path / "run", engine="serial").close()
    missing = command("export", "run", "--log", cwd=tmp_path)
    assert missing.returncode == 2
    assert "name one policy" in missing.stderr
    options = ("--log", "--policy", "each thompson", "--out", "log.csv")
    assert command("export", "run", *options, cwd=tmp_path).returncode == 0
    found = command("fit", "log.csv", "--user", "user", "--order", "visit", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    columns = bdes.Columns(user="user", order="visit")
    fit = bdes.fit(bdes.read_log(tmp_path / "log.csv", columns))
    environment = load_experiment(tmp_path / "crowd.toml").cells[0].environment.table
    truth = np.concatenate([environment["r"], environment["b"], [environment["lam"]]])
    intervals = np.concatenate([fit.r_interval, fit.b_interval, [fit.lam_interval]])
    assert ((intervals[:, 0] <= truth) & (truth <= intervals[:, 1])).all()
    assert fit.instance.lam == pytest.approx(0.3, abs=0.03)


def test_lost_rewards_are_blank_in_logs(folder: Path) -> None:
    environment = "crowd (arms.seed=2)"
    options = ("--log", "--policy", "crowd-greedy", "--horizon", "400", "--replication", "1")
    done = command("export", "run", *options, "--environment", environment, cwd=folder)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert len(rows) == 400
    assert sorted(int(row["visit"]) for row in rows) == list(range(1, 401))
    users = [int(row["user"]) for row in rows]
    assert users == sorted(users)
    assert 20 <= sum(row["reward"] == "" for row in rows) <= 60
    with load_run(folder / "run") as run:
        (cell,) = [
            c for c in run.cells()
            if (c.environment, c.policy, c.horizon, c.replication)
            == (environment, "crowd-greedy", 400, 1)
        ]  # fmt: skip
    assert cell.total_reward is not None
    known = sum(row["reward"] == "1" for row in rows)
    assert known < cell.total_reward <= known + sum(row["reward"] == "" for row in rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policy", "x"], "--policy goes with --log"),
        (["--log", "--format", "json"], "--log writes CSV"),
        (["--log", "--environment", "x", "--policy", "each"], "no environment 'x'"),
        (["--log", "--policy", "crowd-greedy"], "name one environment"),
    ],
)
def test_wrong_requests_for_a_log(folder: Path, options: list[str], message: str) -> None:
    done = command("export", "run", *options, cwd=folder)
    assert done.returncode == 2
    assert message in done.stderr


def test_log_of_one_audience_has_rounds(tmp_path: Path) -> None:
    tables: dict[str, Any] = {
        "name": "one",
        "seed": 1,
        "horizons": [12],
        "environments": [{"use": "bernoulli", "r": [0.9, 0.3], "b": [0.1, 1.0], "lam": 0.1}],
        "policies": ["ucb1"],
    }
    run_experiment(tables, out=tmp_path / "run", engine="serial").close()
    done = command("export", "run", "--log", cwd=tmp_path)
    assert done.stdout.splitlines()[0] == "round,arm,reward"
    assert len(done.stdout.splitlines()) == 13


def test_schema_knows_experiments_of_many_users() -> None:
    import jsonschema

    schema = json.loads(command("schema").stdout)
    tables = tomllib.loads(FILE)
    jsonschema.validate(tables, schema)
    tables["feedback"]["often"] = 3
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tables, schema)


GENEROUS = """
import numpy as np
from attrs import frozen
from bdes_framework import Instance, Outcome, hookimpl

BDES_API_VERSION = 1

@frozen
class Config:
    '''Pays more than its instance says.'''

class Generous:
    n_arms = 1
    instance = Instance([0.5], [1.0], 0.1)
    def arrivals(self, n):
        return np.zeros(n, dtype=np.int64)
    def pull(self, users, arms):
        return Outcome(np.ones(arms.size), np.full(arms.size, 0.9))

@hookimpl
def bdes_register(registrar):
    registrar.crowd_environment("generous", Config, lambda config, context: Generous())
"""


def test_nobody_earns_more_than_the_clairvoyant_can(tmp_path: Path) -> None:
    (tmp_path / "generous.py").write_text(GENEROUS)
    (tmp_path / "crowd.toml").write_text(
        'name = "g"\nseed = 1\nhorizons = [50]\n[plugins]\nmodules = ["generous.py"]\n'
        '[[environments]]\nuse = "generous"\n[[policies]]\nuse = "crowd-greedy"\n'
    )
    with run_experiment(tmp_path / "crowd.toml", out=tmp_path / "run", engine="serial") as run:
        (cell,) = run.cells()
    assert cell.error is not None
    assert "earned 45 (expected reward) where the benchmark proves at most 25" in cell.error
    assert "suspect crowd environment 'generous' of local file generous" in cell.error


@pytest.mark.slow
def test_many_visits_fit_into_memory() -> None:
    """10^7 visits of 10^5 users stay below 500 MB, the interpreter included."""
    import subprocess
    import sys

    script = """
import resource
import bdes_framework as bdes
plugins = bdes.load_plugins()
users = {"users": 100_000, "visits_per_user": 120, "lifetimes": "geometric"}
arms = {"r": [0.9, 0.3, 0.6], "b": [0.1, 1.0, 0.5], "lam": 0.3}
environment = plugins.crowd_environment("crowd", seed=1, **users, **arms)
policy = plugins.crowd_policy("crowd-greedy", bdes.CrowdProblem(3, 10**7), seed=1)
feedback = bdes.Feedback(delay=1000, delays="geometric", lost=0.1)
trace = bdes.simulate_crowd(environment, policy, 10**7, feedback=feedback)
assert (trace.visits, trace.n_users) == (10**7, 100_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 500 * 1024  # kilobytes
