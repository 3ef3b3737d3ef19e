"""Discovery: every way a plugin can fail, with plugins that are really installed or local."""

import pickle
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import bdes_framework as bdes
from bdes_framework import ConfigError, Kind, PluginError, Plugins, UnknownNameError, load_plugins
from tests.support.broken_plugins import BROKEN, HALF_WAY, RAISES_ON_IMPORT
from tests.support.experiments import Install, good_plugin

HOOKS_ONLY = """
from bdes_framework import hookimpl
BDES_API_VERSION = 1
@hookimpl
def bdes_run_started(run):
    pass
"""


def status_of(plugins: Plugins, name: str) -> bdes.PluginStatus:
    (status,) = [status for status in plugins.statuses if status.name == name]
    return status


def states(plugins: Plugins, *names: str) -> list[str]:
    return [status_of(plugins, name).state for name in names]


def load_file(folder: Path, source: str) -> Plugins:
    (folder / "mine.py").write_text(source)
    return load_plugins(modules=[str(folder / "mine.py")])


# -- failures -------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", BROKEN)
def test_broken_installed_plugin_is_reported(fault: str, install: Install) -> None:
    source, reason = BROKEN[fault]
    install("broken-one", source)
    install("sound-one", good_plugin("sound"))
    plugins = load_plugins()
    broken = status_of(plugins, "broken_one")
    assert (broken.state, broken.distribution, broken.version) == ("failed", "broken-one", "1.0")
    assert reason in broken.reason
    assert "Traceback" in broken.details
    assert states(plugins, "sound_one") == ["loaded"]
    assert plugins.entry(Kind.POLICY, "sound").distribution == "sound-one"
    assert not [entry for entry in plugins.entries() if entry.plugin == "broken_one"]


def test_what_is_installed_or_removed_later_is_seen(install: Install) -> None:
    assert "late_one" not in {status.name for status in load_plugins().statuses}
    site = install("late-one", good_plugin("late"))
    assert states(load_plugins(), "late_one") == ["loaded"]
    shutil.rmtree(site / "late_one-1.0.dist-info")
    assert "late_one" not in {status.name for status in load_plugins().statuses}


@pytest.mark.parametrize("fault", BROKEN)
def test_broken_local_file_is_reported(fault: str, tmp_path: Path) -> None:
    source, reason = BROKEN[fault]
    status = status_of(load_file(tmp_path, source), "mine")
    assert status.state == "failed"
    assert reason in status.reason


def test_name_of_a_failed_plugin_says_why(install: Install) -> None:
    install("broken-one", good_plugin("first") + HALF_WAY)
    with pytest.raises(PluginError, match=r"'first' belongs to plugin 'broken_one'.*half-way"):
        load_plugins().entry(Kind.POLICY, "first")


def test_name_that_is_taken_fails_the_later(install: Install) -> None:
    raising = HOOKS_ONLY.replace("pass", "raise OSError('called')")
    install("zebra", good_plugin("shared") + raising)
    install("ant", good_plugin("shared"))
    plugins = load_plugins()
    distributions = [status.distribution for status in plugins.statuses]
    first_party = distributions.count("bdes-framework")
    assert set(distributions[:first_party]) == {"bdes-framework"}
    assert distributions[first_party:] == sorted(distributions[first_party:])
    assert plugins.entry(Kind.POLICY, "shared").distribution == "ant"
    assert "zebra is already registered by plugin 'ant' of ant" in (
        status_of(plugins, "zebra").reason
    )
    plugins.announce("bdes_run_started", run=None)  # zebra's hook is never called


def test_plugin_name_that_is_taken(install: Install, tmp_path: Path) -> None:
    install("mine", good_plugin("x"))
    plugins = load_file(tmp_path, good_plugin("y"))
    assert [s.state for s in plugins.statuses if s.name == "mine"] == ["loaded", "failed"]
    assert "already loaded from mine" in plugins.statuses[-1].reason


@pytest.mark.parametrize("hooks_only", [True, False])
def test_module_under_two_names_loads_once(install: Install, hooks_only: bool) -> None:
    site = install("ant", HOOKS_ONLY if hooks_only else good_plugin("mine"))
    points = next(site.glob("ant-*.dist-info")) / "entry_points.txt"
    points.write_text(points.read_text() + "bee = ant\n")
    install("zebra", good_plugin("sound"))
    plugins = load_plugins()
    assert states(plugins, "ant", "bee", "zebra") == ["loaded", "failed", "loaded"]
    assert "is the same object as plugin 'ant'" in status_of(plugins, "bee").reason


def test_object_that_equals_everything(install: Install) -> None:
    equal = """
class Equal:
    BDES_API_VERSION = 1
    def __eq__(self, other):
        return True
    __hash__ = None
    @hookimpl
    def bdes_register(self, registrar):
        registrar.policy("equal", Config, build)
plugin = Equal()
"""
    install("ant", good_plugin("mine"))
    install("bee", good_plugin("theirs") + equal, target="bee:plugin")
    plugins = load_plugins()
    assert states(plugins, "ant", "bee") == ["loaded", "failed"]
    assert "equal" not in {entry.name for entry in plugins.entries()}


def test_interrupt_is_no_broken_plugin(install: Install) -> None:
    install("slow-one", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        load_plugins()


def test_reason_has_no_control_characters(install: Install) -> None:
    install("evil-one", "raise OSError('\\x1b[2J\\n\\u202e[red]gone[/red]')")
    reason = status_of(load_plugins(), "evil_one").reason
    assert reason.isprintable()
    assert "[red]gone[/red]" in reason


def test_missing_local_file_or_module() -> None:
    plugins = load_plugins(modules=["./nowhere.py", "no_such_module_anywhere"])
    assert "No such file" in status_of(plugins, "nowhere").reason
    assert "to load a file" in status_of(plugins, "no_such_module_anywhere").reason


# -- choosing -------------------------------------------------------------------------------


def test_disabled_plugin_is_not_imported(install: Install) -> None:
    install("quiet-one", RAISES_ON_IMPORT)
    for name in ("quiet_one", "quiet-one", "Quiet.One"):
        assert states(load_plugins(disabled=[name]), "quiet_one") == ["disabled"]
    assert "quiet_one" not in sys.modules


def test_disabled_name_that_is_misspelt_or_absent() -> None:
    with pytest.raises(ConfigError) as caught:
        load_plugins(disabled=["bdes_enviroments", "bdes-framework", "nowhere"])
    misspelt, absent = map(str, caught.value.mistakes)
    assert misspelt.startswith("plugins.disabled[0]: no plugin is called 'bdes_enviroments'.")
    assert "Did you mean 'bdes-environments'?" in misspelt
    assert absent == "plugins.disabled[2]: no plugin is called 'nowhere'."


def test_disabling_all_of_ours_leaves_nothing() -> None:
    plugins = load_plugins(disabled=["bdes-framework"])
    assert [e for e in plugins.entries() if e.distribution == "bdes-framework"] == []
    with pytest.raises(UnknownNameError, match=r"bdes_environments \(disabled\)"):
        plugins.environment("bernoulli", seed=1)


def test_required_version_and_state(install: Install) -> None:
    install("my-plugins", good_plugin("mine"), version="1.4")
    install("broken-one", RAISES_ON_IMPORT)
    load_plugins(required=["my-plugins>=1.2,<2", "My.Plugins", "x; python_version < '3'"])
    for requirement, message in (
        ("my-plugins>=2", "1.4 is installed"),
        ("not-there", "not installed"),
        ("broken-one", "the disk is on fire"),
        ("numpy", "announces no plugin"),
    ):
        with pytest.raises(PluginError, match=message):
            load_plugins(required=[requirement])
    with pytest.raises(PluginError, match="is disabled"):
        load_plugins(required=["my-plugins"], disabled=["my_plugins"])
    with pytest.raises(ConfigError, match="is no requirement"):
        load_plugins(required=["my plugins >>"])


def test_config_file_chooses_plugins(tmp_path: Path) -> None:
    package = tmp_path / "package_of_mine"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from .inner import *\nfrom .inner import bdes_register, BDES_API_VERSION\n"
    )
    (package / "inner.py").write_text(good_plugin("inner"))
    (package / "mine.py").write_text(good_plugin("mine"))
    config = tmp_path / "experiment.toml"
    config.write_text(
        '[plugins]\ndisabled = ["bdes_engines"]\nrequired = ["bdes-framework"]\n'
        'modules = ["package_of_mine/mine.py", "./package_of_mine"]\n'
    )
    with pytest.raises(PluginError, match="'bdes_engines' of bdes-framework is disabled"):
        load_plugins(config)
    config.write_text(config.read_text().replace('["bdes-framework"]', "[]"))
    plugins = load_plugins(config)
    assert states(plugins, "bdes_engines") == ["disabled"]
    assert status_of(plugins, "mine").version.startswith("sha256:")
    assert {e.name for e in plugins.entries(Kind.POLICY)} >= {"mine", "inner"}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"disable": []}, "plugins: disable: is not a parameter. Did you mean 'disabled'?"),
        ({"disabled": "all"}, "expected a list, got 'all'"),
        ({"modules": [1]}, "modules[0]: expected a string, got 1"),
    ],
)
def test_malformed_plugins_table(table: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_plugins(table)
    assert message in str(caught.value)


# -- using ----------------------------------------------------------------------------------


def test_local_file_is_imported_once_per_version(tmp_path: Path) -> None:
    first, again = (load_file(tmp_path, good_plugin("before")) for _ in range(2))
    assert first.entry(Kind.POLICY, "before").config is again.entry(Kind.POLICY, "before").config
    changed = load_file(tmp_path, good_plugin("after"))
    assert [e.name for e in changed.entries(Kind.POLICY) if e.plugin == "mine"] == ["after"]
    assert status_of(changed, "mine").version != status_of(first, "mine").version


def test_plugins_pickle_by_name(tmp_path: Path) -> None:
    plugins = load_file(tmp_path, good_plugin("mine"))
    copy = pickle.loads(pickle.dumps(plugins))
    assert [e.name for e in copy.entries()] == [e.name for e in plugins.entries()]


def test_factory_that_returns_something_else(tmp_path: Path) -> None:
    plugins = load_file(tmp_path, good_plugin("mine").replace("def tell", "def observe"))
    with pytest.raises(bdes.ContractError, match=r"plugin 'mine' .* 'First', which lacks tell"):
        plugins.policy("mine", bdes.Problem(2, 10), seed=1)


def test_name_table_and_config_build_alike() -> None:
    plugins = load_plugins()
    arms = np.array([0, 1, 1, 0] * 50)
    parameters = {"r": [0.9, 0.3], "b": [0.1, 1.0], "lam": 0.3}
    _, config = plugins.resolve(Kind.ENVIRONMENT, "bernoulli", parameters)
    by_name, by_table, by_config, other = (
        environment.pull(arms).rewards.tolist()
        for environment in (
            plugins.environment("bernoulli", seed=1, **parameters),
            plugins.environment({"use": "bernoulli", **parameters}, seed=1),
            plugins.environment(config, seed=1),
            plugins.environment("bernoulli", seed=2, **parameters),
        )
    )
    assert by_name == by_table == by_config != other
    with pytest.raises(ConfigError, match="not both"):
        plugins.environment(config, seed=1, lam=0.4)


# -- what policies are told -----------------------------------------------------------------


def told_by(folder: Path, uses: str) -> bdes.Problem:
    source = good_plugin(
        "mine",
        ("Config, build)", f"Config, build, uses={uses})"),
        ("return First()", "First.told = context.problem\n    return First()"),
    )
    problem = bdes.Problem(n_arms=2, horizon=10, lam=0.5, replenishing_arm=1)
    policy = load_file(folder, source).policy("mine", problem, seed=1)
    return policy.told  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(
    ("uses", "lam", "arm"),
    [
        ("None", 0.5, 1),
        ("()", None, None),
        ("['lam']", 0.5, None),
        ("('lam', 'replenishing_arm')", 0.5, 1),
        ("lambda config: {'replenishing_arm'}", None, 1),
    ],
)
def test_policy_is_told_only_what_it_uses(
    tmp_path: Path, uses: str, lam: float | None, arm: int | None
) -> None:
    told = told_by(tmp_path, uses)
    assert (told.lam, told.replenishing_arm, told.n_arms, told.horizon) == (lam, arm, 2, 10)


def test_wrong_uses_are_refused(tmp_path: Path) -> None:
    source = good_plugin("mine", ("Config, build)", "Config, build, uses=['lambda'])"))
    status = status_of(load_file(tmp_path, source), "mine")
    assert status.state == "failed"
    assert "policy 'mine' uses 'lambda', which cannot be revealed. Did you mean" in status.reason
    source = good_plugin("mine", ("Config, build)", "Config, build, uses='lam')"))
    assert "must be a list of names" in status_of(load_file(tmp_path, source), "mine").reason
    with pytest.raises(PluginError, match="its function 'uses' raised ZeroDivisionError"):
        told_by(tmp_path, "lambda config: 1 / 0")
    with pytest.raises(PluginError, match="uses 'q0', which cannot be revealed"):
        told_by(tmp_path, "lambda config: ['q0']")
