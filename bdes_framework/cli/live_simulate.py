"""``bdes live simulate``: a live service tried on users whose truth is known, over HTTP."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from attrs import asdict

from bdes_framework._internal.text import counted, duration
from bdes_framework.cli.options import AS_JSON, PATH, echo, json_text
from bdes_framework.cli.progress import progress
from bdes_framework.errors import InvalidValueError
from bdes_framework.interfaces import Kind
from bdes_framework.live import world as worlds
from bdes_framework.live.config import load_live
from bdes_framework.live.simulate import LiveSimulation, simulate_live

_MOST_CONNECTIONS = 64
_WORLD_HELP = f"The users; {worlds.FILE} in FOLDER by default."
_NEW_HELP = "In a copy of FOLDER that is removed at the end: its own journal is left alone."
_URL_HELP = "Where FOLDER is served already; by default it is served on a free port of loopback."
_RESTART_HELP = "After so many visits, ask the service to stop, and start it again."
_KILL_HELP = "After so many visits, kill the service, and start it again."
_VISIT = click.IntRange(min=1)
_RATE = click.FloatRange(min=0, max=1e6, min_open=True)
_PLAYS_HELP = "How often to play the same policy in simulate_crowd, to compare."


@click.command()
@click.argument("folder", type=PATH)
@click.option("--world", type=PATH, help=_WORLD_HELP)
@click.option("--new", "is_new", is_flag=True, help=_NEW_HELP)
@click.option("--url", help=_URL_HELP)
@click.option(
    "--connections",
    type=click.IntRange(1, _MOST_CONNECTIONS),
    default=4,
    show_default=True,
    help="How many requests are made at once.",
)
@click.option("--restart", "restarts", type=_VISIT, multiple=True, help=_RESTART_HELP)
@click.option("--kill", "kills", type=_VISIT, multiple=True, help=_KILL_HELP)
@click.option("--rate", type=_RATE, help="At most so many decisions a second.")
@click.option(
    "--plays", type=click.IntRange(0, 1_000), default=10, show_default=True, help=_PLAYS_HELP
)
@AS_JSON
def simulate(
    folder: Path,
    world: Path | None,
    is_new: bool,
    url: str | None,
    connections: int,
    restarts: tuple[int, ...],
    kills: tuple[int, ...],
    rate: float | None,
    plays: int,
    as_json: bool,
) -> None:
    """Serve users whose truth is known from FOLDER, over HTTP, and say what is lost.

    The users and what arms really do to them are in a file, world.toml. The service is the one of
    'bdes live serve', a process of its own, which may be stopped and killed on the way. What it
    earns is compared with the best decision table, and with the same policy without a service.
    """
    if is_new and url is not None:
        raise click.UsageError("--new starts a service of its own, and --url names one: give one")
    with _copied(folder) if is_new else _as_it_is(folder) as place:
        setup = load_live(place)
        file = folder / worlds.FILE if world is None else world
        known = worlds.load_world(file, setup.plugins)
        with progress() as told:
            told.begin("serving", known.config.visits)
            found = simulate_live(
                known,
                setup,
                url=url,
                connections=connections,
                restarts=restarts,
                kills=kills,
                rate=rate,
                plays=plays,
                on_visits=told.advance,
            )
    if as_json:
        names = ("regret", "regret_alone", "ratio")
        echo(json_text({**asdict(found), **{name: getattr(found, name) for name in names}}))
    else:
        echo("\n".join(lines_of(found)))
    if found.missing:
        raise click.exceptions.Exit(1)


@contextmanager
def _as_it_is(folder: Path) -> Iterator[Path]:
    yield folder


@contextmanager
def _copied(folder: Path) -> Iterator[Path]:
    """Yield a copy of a folder without its journal."""
    setup = load_live(folder)
    entry, _ = setup.plugins.resolve(Kind.JOURNAL, setup.config.journal)
    if entry.name != "sqlite":
        raise InvalidValueError("--new is for journals in a file of their own: use = 'sqlite'")
    with TemporaryDirectory(prefix="bdes-live-") as made:
        place = Path(made) / "simulated"
        shutil.copytree(folder, place, ignore=shutil.ignore_patterns("*.sqlite*"))
        yield place


def lines_of(found: LiveSimulation) -> Iterator[str]:
    """Yield what was found, the answer first."""
    yield _answer(found)
    yield ""
    rows = [("earned over HTTP", found.earned, found.regret)]
    if found.alone:
        mean = sum(found.alone) / len(found.alone)
        rows.append(("in simulate_crowd", mean, found.regret_alone))
    if found.best is not None:
        rows.append(("best decision table", found.best, None))
    for name, earned, regret in rows:
        lost = "" if regret is None else f"   regret {regret:10,.1f}   {_share(regret, found)}"
        yield f"{name:20}{earned:12,.1f}{lost}"
    yield ""
    rate = found.visits / found.seconds
    yield (
        f"{counted(found.visits, 'decision')} for {counted(found.users, 'user')} in"
        f" {duration(found.seconds)}, {rate:,.0f} a second; {counted(found.rewards, 'reward')}"
        f" told, {found.lost:,} lost; {counted(found.models, 'model')}"
    )
    if found.restarts or found.kills:
        stops = found.restarts + found.kills
        yield (
            f"{counted(found.restarts, 'restart')} and {counted(found.kills, 'kill')}; ready again"
            f" after {found.down / stops:.1f} s on average"
        )
    if not found.missing:
        yield "all decisions and rewards that were acknowledged are known to the service"


def _answer(found: LiveSimulation) -> str:
    if found.missing:
        return "NOT all that was acknowledged is known: " + "; ".join(found.missing)
    if found.regret is None or found.best is None:
        return "these users have no benchmark: nobody can say what was lost"
    answer = (
        f"the service loses {_share(found.regret, found)} of what the best decision table earns"
    )
    if found.ratio is None:
        return answer
    shares = sorted(100 * (1 - earned / found.best) for earned in found.alone)
    plays = f"{shares[0]:.2f} to {shares[-1]:.2f} % in {counted(len(shares), 'play')}"
    ratio = f"{found.ratio:.2f} times as much as the same policy in simulate_crowd"
    return f"{answer}, {ratio} ({plays})"


def _share(regret: float, found: LiveSimulation) -> str:
    return f"{100 * regret / found.best:.2f} %" if found.best else "–"
