"""``bdes warm-up``: compile every loop now, so that nobody waits for it later."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np

from bdes_framework._internal.text import listed
from bdes_framework.cli.options import echo, plugin_options
from bdes_framework.cli.progress import progress
from bdes_framework.experiment.run import run_experiment
from bdes_framework.fitting.adjoint import FASTER_FROM
from bdes_framework.fitting.blocks import likelihood_of_log, score_of_log
from bdes_framework.fitting.fit import fit
from bdes_framework.fitting.log import Log
from bdes_framework.interfaces import Kind
from bdes_framework.model.instance import Instance
from bdes_framework.planning.advice import advise
from bdes_framework.planning.lift import KnownArms, lift
from bdes_framework.planning.plan_report import plan_for_leavers, report_plan
from bdes_framework.planning.verdict import judge
from bdes_framework.plugin.load import load_plugins
from bdes_framework.plugin.plugins import Plugins
from bdes_framework.plugin.registry import Entry

_INSTANCE = Instance([0.9, 0.3, 0.5], [0.1, 0.9, 0.6], 0.05)
_ARMS = {"r": [0.9, 0.3, 0.5], "b": [0.1, 0.9, 0.6], "lam": 0.05}
_USERS, _VISITS = 40, 25
_WORLDS: Mapping[Kind, Mapping[str, object]] = {
    Kind.POLICY: _ARMS | {"use": "bernoulli"},
    Kind.CROWD_POLICY: _ARMS | {"use": "crowd", "users": _USERS, "visits_per_user": _VISITS},
}
"""Where policies play: the documented examples of environments."""


@click.command("warm-up")
@plugin_options
def warm_up(**chosen: Any) -> None:
    """Compile all loops now: for images and services, whose later starts read them from the disk.

    Something small is planned, fitted, and played with every registered policy that needs no
    parameters. What is compiled is kept beside the installed packages, or where the environment
    variable NUMBA_CACHE_DIR says.
    """
    with progress("warm-up") as shown:
        shown.begin("loading")
        plugins = load_plugins(**chosen)
        entries = [entry for kind in _WORLDS for entry in plugins.entries(kind)]
        ready = [entry for entry in entries if _needs_nothing(entry)]
        parts = list(_parts(plugins, ready, chosen))
        for done, (name, work) in enumerate(parts):
            shown.begin(name, len(parts))
            shown.advance(done)
            work()
        seconds = shown.compiling.seconds
    if len(ready) < len(entries):
        left = listed(entry.name for entry in entries if entry not in ready)
        echo(f"left out, as they need parameters: {left}", err=True)
    if seconds:
        echo(f"compiled what was missing, in {seconds:.0f} s; from now on it comes from the disk")
    else:
        echo("nothing to compile: all of it is on the disk")


def _needs_nothing(entry: Entry) -> bool:
    """Return whether something can be built without parameters."""
    try:
        entry.config()
    except Exception:  # a missing parameter, or a validator that refuses the defaults
        return False
    return True


def _parts(
    plugins: Plugins, ready: list[Entry], chosen: Mapping[str, Any]
) -> Iterator[tuple[str, Callable[[], object]]]:
    yield "planning", partial(_plan, plugins)
    yield "fitting", partial(_fit, plugins)
    for entry in ready:
        yield f"playing {entry.name}", partial(_play, entry, chosen)


def _plan(plugins: Plugins) -> None:
    known = KnownArms(_INSTANCE)
    lift(known, report_plan(plugins, _INSTANCE, 2_000).plan, n_draws=1)
    lift(known, plan_for_leavers(plugins, _INSTANCE, 0.98), n_draws=1)
    for entry in plugins.entries(Kind.PLANNER):
        if _needs_nothing(entry):
            plugins.planner(entry.name).plan(_INSTANCE, 6)


def _fit(plugins: Plugins) -> None:
    rng = np.random.default_rng(1)
    n = _USERS * _VISITS
    arms, rewards = rng.integers(0, 3, n), rng.random(n) < np.linspace(0.8, 0.2, n)
    log = Log(arms, rewards.astype(float), np.arange(0, n, _VISITS))
    for users in ("alike", "clustered"):
        found = fit(log, users=users)
        advise(plugins, judge(found, log, 20), log, None, 0.98)
    many = Instance(np.full(FASTER_FROM, 0.5), np.full(FASTER_FROM, 0.5), 0.1)
    likelihood_of_log(log, many)
    score_of_log(log, many)


def _play(entry: Entry, chosen: Mapping[str, Any]) -> None:
    experiment = {
        "name": "warm-up",
        "seed": 1,
        "horizons": [_USERS * _VISITS],
        "replications": 1,
        "reveal_lam": True,
        "reveal_replenishing_arm": entry.kind is Kind.POLICY,
        "environments": [_WORLDS[entry.kind]],
        "policies": [{"use": entry.name}],
        "plugins": {
            "modules": list(chosen["modules"]),
            "disabled": list(chosen["disabled"]),
        },
    }
    with TemporaryDirectory() as folder:
        run_experiment(experiment, out=f"{folder}/run", engine="serial", reuse=False)
