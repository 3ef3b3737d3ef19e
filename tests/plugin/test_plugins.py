"""Discovery: every way a plugin can fail, with plugins that are really installed or local."""

import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import bdes_framework as bdes
from bdes_framework import ConfigError, Kind, PluginError, PluginStatus, UnknownNameError
from tests.support.broken_plugins import BROKEN, HALF_WAY, RAISES_ON_IMPORT
from tests.support.experiments import Install

Good = Callable[[str], str]


def record_of(plugins: bdes.Plugins, name: str) -> PluginStatus:
    (record,) = [record for record in plugins.records if record.name == name]
    return record


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_installed_plugin_is_a_record_and_the_others_load(
    fault: str, install: Install, good_plugin: Good
) -> None:
    make, reason = BROKEN[fault]
    install("broken-one", make(good_plugin))
    install("sound-one", good_plugin("sound"))
    plugins = bdes.load_plugins()
    record = record_of(plugins, "broken_one")
    assert record.state == "failed"
    assert reason in record.reason
    assert (record.distribution, record.version) == ("broken-one", "1.0")
    assert "Traceback" in record.details
    assert record_of(plugins, "sound_one").state == "loaded"
    assert plugins.entry(Kind.POLICY, "sound").distribution == "sound-one"
    assert not [entry for entry in plugins.entries() if entry.plugin == "broken_one"]


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_local_file_is_a_record_too(fault: str, tmp_path: Path, good_plugin: Good) -> None:
    make, reason = BROKEN[fault]
    (tmp_path / "mine.py").write_text(make(good_plugin))
    plugins = bdes.load_plugins(modules=[str(tmp_path / "mine.py")])
    record = record_of(plugins, "mine")
    assert record.state == "failed"
    assert reason in record.reason


def test_a_plugin_that_fails_half_way_leaves_nothing_and_its_names_say_why(
    install: Install, good_plugin: Good
) -> None:
    install("broken-one", good_plugin("first") + HALF_WAY)
    plugins = bdes.load_plugins()
    with pytest.raises(PluginError, match=r"'first' belongs to plugin 'broken_one'.*half-way"):
        plugins.entry(Kind.POLICY, "first")


def test_first_party_comes_first_then_sorted_and_a_later_claimant_fails_whole(
    install: Install, good_plugin: Good
) -> None:
    install("zebra", good_plugin("shared"))
    install("ant", good_plugin("shared"))
    plugins = bdes.load_plugins()
    distributions = [record.distribution for record in plugins.records]
    first_party = distributions.count("bdes-framework")
    assert set(distributions[:first_party]) == {"bdes-framework"}
    assert distributions[first_party:] == sorted(distributions[first_party:])
    assert plugins.entry(Kind.POLICY, "shared").distribution == "ant"
    reason = record_of(plugins, "zebra").reason
    assert "zebra" in reason
    assert "'ant' of ant" in reason


def test_two_distributions_with_one_entry_point_name_do_not_both_load(
    install: Install, good_plugin: Good, tmp_path: Path
) -> None:
    install("ant", good_plugin("x"))
    (tmp_path / "ant.py").write_text(good_plugin("y"))
    plugins = bdes.load_plugins(modules=[str(tmp_path / "ant.py")])
    assert [r.state for r in plugins.records if r.name == "ant"] == ["loaded", "failed"]
    assert "already loaded from ant" in plugins.records[-1].reason


HOOKS_ONLY = """
from bdes_framework import hookimpl
BDES_API_VERSION = 1
@hookimpl
def bdes_run_started(run):
    pass
"""


@pytest.mark.parametrize("hooks_only", [True, False])
def test_one_module_under_two_names_loads_once(
    install: Install, good_plugin: Good, hooks_only: bool
) -> None:
    site = install("ant", HOOKS_ONLY if hooks_only else good_plugin("mine"))
    points = next(site.glob("ant-*.dist-info")) / "entry_points.txt"
    points.write_text(points.read_text() + "bee = ant\n")
    install("zebra", good_plugin("sound"))
    plugins = bdes.load_plugins()
    assert record_of(plugins, "ant").state == "loaded"
    assert record_of(plugins, "bee").state == "failed"
    assert "is the same object as plugin 'ant'" in record_of(plugins, "bee").reason
    assert record_of(plugins, "zebra").state == "loaded"


def test_an_object_that_equals_everything_leaves_nothing_behind(
    install: Install, good_plugin: Good
) -> None:
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
    plugins = bdes.load_plugins()
    assert record_of(plugins, "ant").state == "loaded"
    assert record_of(plugins, "bee").state == "failed"
    assert "equal" not in {entry.name for entry in plugins.entries()}


def test_an_interrupt_is_not_taken_for_a_broken_plugin(install: Install) -> None:
    install("slow-one", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        bdes.load_plugins()


def test_hooks_of_a_plugin_whose_names_are_taken_are_never_called(
    install: Install, good_plugin: Good
) -> None:
    install("ant", good_plugin("shared"))
    install("zebra", good_plugin("shared") + HOOKS_ONLY.replace("pass", "raise OSError('called')"))
    plugins = bdes.load_plugins()
    assert record_of(plugins, "zebra").state == "failed"
    plugins.announce("bdes_run_started", run=None)


def test_disabling_by_plugin_or_distribution_does_not_even_import(
    install: Install, good_plugin: Good
) -> None:
    install("quiet-one", RAISES_ON_IMPORT)
    for name in ("quiet_one", "quiet-one", "Quiet.One"):
        plugins = bdes.load_plugins(disabled=[name])
        assert record_of(plugins, "quiet_one").state == "disabled"
    assert "quiet_one" not in sys.modules


def test_a_misspelt_disabled_name_is_refused_and_an_absent_one_is_not() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'bdes-environments'"):
        bdes.load_plugins(disabled=["bdes_enviroments"])
    bdes.load_plugins(disabled=["something-not-installed-here"])


def test_with_all_of_ours_disabled_there_is_nothing_and_it_says_so() -> None:
    plugins = bdes.load_plugins(disabled=["bdes-framework"])
    assert [e for e in plugins.entries() if e.distribution == "bdes-framework"] == []
    with pytest.raises(UnknownNameError, match=r"bdes_environments \(disabled\)"):
        plugins.environment("bernoulli", seed=1)


def test_the_fixture_that_blocks_discovery_finds_nothing_installed(
    bdes_no_discovery: None, tmp_path: Path, good_plugin: Good
) -> None:
    assert bdes.load_plugins().records == ()
    (tmp_path / "mine.py").write_text(good_plugin("mine"))
    plugins = bdes.load_plugins(modules=[str(tmp_path / "mine.py")])
    assert [entry.name for entry in plugins.entries()] == ["mine"]


def test_requirements_are_checked_by_version_and_state(install: Install, good_plugin: Good) -> None:
    install("my-plugins", good_plugin("mine"), version="1.4")
    install("broken-one", RAISES_ON_IMPORT)
    bdes.load_plugins(required=["my-plugins>=1.2,<2", "My.Plugins", "x; python_version < '3'"])
    for requirement, message in (
        ("my-plugins>=2", "1.4 is installed"),
        ("not-there", "not installed"),
        ("broken-one", "the disk is on fire"),
        ("numpy", "announces no plugin"),
    ):
        with pytest.raises(PluginError, match=message):
            bdes.load_plugins(required=[requirement])
    with pytest.raises(PluginError, match="is disabled"):
        bdes.load_plugins(required=["my-plugins"], disabled=["my_plugins"])
    with pytest.raises(ConfigError, match="is no requirement"):
        bdes.load_plugins(required=["my plugins >>"])


def test_plugins_are_chosen_by_a_config_file(tmp_path: Path, good_plugin: Good) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "mine.py").write_text(good_plugin("mine"))
    package = tmp_path / "package_of_mine"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from .inner import *\nfrom .inner import bdes_register, BDES_API_VERSION\n"
    )
    (package / "inner.py").write_text(good_plugin("inner"))
    config = tmp_path / "experiment.toml"
    config.write_text(
        '[plugins]\ndisabled = ["bdes_engines"]\nrequired = ["bdes-framework"]\n'
        'modules = ["policies/mine.py", "./package_of_mine"]\n'
    )
    with pytest.raises(PluginError, match="'bdes_engines' of bdes-framework is disabled"):
        bdes.load_plugins(config)
    config.write_text(config.read_text().replace('["bdes-framework"]', "[]"))
    plugins = bdes.load_plugins(config)
    assert record_of(plugins, "bdes_engines").state == "disabled"
    assert record_of(plugins, "mine").version.startswith("sha256:")
    assert {e.name for e in plugins.entries(Kind.POLICY)} >= {"mine", "inner"}


def test_a_file_with_a_number_of_too_many_digits_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "experiment.toml"
    config.write_text(f"horizon = {'1' * 5000}\n")
    with pytest.raises(ConfigError, match=r"experiment\.toml: has a number with too many digits"):
        bdes.load_plugins(config)
    config.write_text("x" * (16 * 1024 * 1024 + 1))
    with pytest.raises(ConfigError, match="is larger than 16 MiB"):
        bdes.load_plugins(config)
    config.write_bytes(b"name = '\xff'")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        bdes.load_plugins(config)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"disable": []}, "plugins: disable: is not a parameter. Did you mean 'disabled'?"),
        ({"disabled": "all"}, "expected a list, got 'all'"),
        ({"modules": [1]}, "modules[0]: expected a string, got 1"),
    ],
)
def test_a_malformed_plugins_table_is_refused(table: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        bdes.load_plugins(table)
    assert message in str(caught.value)


def test_a_missing_local_file_or_module_says_so() -> None:
    plugins = bdes.load_plugins(modules=["./nowhere.py", "no_such_module_anywhere"])
    assert "No such file" in record_of(plugins, "nowhere").reason
    assert "to load a file" in record_of(plugins, "no_such_module_anywhere").reason


def test_a_local_file_is_loaded_anew_when_it_changes(tmp_path: Path, good_plugin: Good) -> None:
    file = tmp_path / "mine.py"
    file.write_text(good_plugin("before"))
    first = bdes.load_plugins(modules=[str(file)])
    again = bdes.load_plugins(modules=[str(file)])
    assert first.entry(Kind.POLICY, "before").config is again.entry(Kind.POLICY, "before").config
    file.write_text(good_plugin("after"))
    changed = bdes.load_plugins(modules=[str(file)])
    assert [e.name for e in changed.entries(Kind.POLICY) if e.plugin == "mine"] == ["after"]
    assert record_of(changed, "mine").version != record_of(first, "mine").version


def test_plugins_travel_to_other_processes_by_name(tmp_path: Path, good_plugin: Good) -> None:
    (tmp_path / "mine.py").write_text(good_plugin("mine"))
    plugins = bdes.load_plugins(modules=[str(tmp_path / "mine.py")])
    copy = pickle.loads(pickle.dumps(plugins))
    assert [e.name for e in copy.entries()] == [e.name for e in plugins.entries()]


def test_a_factory_that_returns_something_else_is_named(tmp_path: Path, good_plugin: Good) -> None:
    (tmp_path / "mine.py").write_text(good_plugin("mine").replace("def tell", "def told"))
    plugins = bdes.load_plugins(modules=[str(tmp_path / "mine.py")])
    with pytest.raises(bdes.ContractError, match=r"plugin 'mine' .* 'First', which lacks tell"):
        plugins.policy("mine", bdes.Problem(2, 10), seed=1)


def test_hostile_text_in_a_failure_cannot_move_the_cursor(install: Install) -> None:
    install("evil-one", "raise OSError('\\x1b[2J\\n\\u202e[red]gone[/red]')")
    reason = record_of(bdes.load_plugins(), "evil_one").reason
    assert reason.isprintable()
    assert "[red]gone[/red]" in reason


def test_an_engine_runs_every_job_once() -> None:
    engine = bdes.load_plugins().engine("serial")
    assert list(engine.run([1, 2, 3], lambda job: job * 10)) == [10, 20, 30]


def test_the_library_face_builds_by_name_table_and_config_object_alike() -> None:
    plugins = bdes.load_plugins()
    arms = np.array([0, 1, 1, 0] * 50)
    parameters = {"r": [0.9, 0.3], "b": [0.1, 1.0], "lam": 0.3}
    config = plugins.entry(Kind.ENVIRONMENT, "bernoulli").config
    by_name = plugins.environment("bernoulli", seed=1, **parameters)
    by_table = plugins.environment({"use": "bernoulli", **parameters}, seed=1)
    by_object = plugins.environment(
        config(r=np.array([0.9, 0.3]), b=np.array([0.1, 1.0]), lam=0.3),  # type: ignore[call-arg]
        seed=1,
    )
    rewards = by_name.pull(arms).rewards
    np.testing.assert_array_equal(rewards, by_table.pull(arms).rewards)
    np.testing.assert_array_equal(rewards, by_object.pull(arms).rewards)
    other = plugins.environment("bernoulli", seed=2, **parameters)
    assert not np.array_equal(rewards, other.pull(arms).rewards)
    with pytest.raises(ConfigError, match="not both"):
        plugins.environment(
            config(r=np.array([0.9]), b=np.array([0.1]), lam=0.3),  # type: ignore[call-arg]
            seed=1,
            lam=0.4,
        )
