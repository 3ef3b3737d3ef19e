"""``bdes fit``: what a log says: does it matter, what are the arms, what is a plan worth."""

import shlex
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args

import click
from attrs import asdict
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bdes_framework._internal.text import ascii_controls, counted, listed, quoted, without_password
from bdes_framework.cli.fit_plan import (
    PLAN_OPTIONS,
    PlanRequest,
    answer_json,
    refuse_plan,
    show_advice,
    write_plan,
)
from bdes_framework.cli.options import (
    AS_JSON,
    HORIZON,
    LEAVE,
    PATH,
    TEXT_PATH,
    VISITS,
    echo,
    json_text,
    output,
    print_facts,
    write_data,
)
from bdes_framework.cli.progress import Progress, progress
from bdes_framework.cli.report import need_charts
from bdes_framework.cli.signals import signals_stop
from bdes_framework.experiment.arms import write_arms
from bdes_framework.experiment.fit_file import fitted_arms
from bdes_framework.fitting.fit import Users
from bdes_framework.fitting.fit import fit as fit_log
from bdes_framework.fitting.log import Log
from bdes_framework.fitting.parametrisation import RatePrediction
from bdes_framework.fitting.readers import read_log
from bdes_framework.fitting.result import ARM_HEADINGS
from bdes_framework.fitting.rows import BadRows, Columns
from bdes_framework.live.export import is_journal, journal_log, opened_journal
from bdes_framework.model.instance import as_rate, as_state
from bdes_framework.planning.advice import Advice, advise
from bdes_framework.planning.verdict import Verdict, check_permutations, judge
from bdes_framework.plugin.load import load_plugins

_USER_HELP = "Whose state it was; without it the log is one sequence."
_ORDER_HELP = "Numbers or moments by which a user's rows are sorted."
_PROPENSITY_HELP = "How probable it was that the arm was chosen."
_STRATA_HELP = "Groups of rows in which any arm might have been chosen."
_QUERY_HELP = "The rows of a database: one SELECT."
_ENCODING_HELP = "How CSV is written."
_STRICT_HELP = "Refuse a log with bad rows; up to 1 % are left out otherwise."
_DEVIATION_HELP = "--lam is only a prediction, with this deviation of its logit."
_STATE_HELP = "The state each sequence begins at, or 'unknown'."
_OUT_HELP = "Write a .toml or .json file, for 'bdes plan' and experiments."
_PLAN_HELP = "Also plan: for --horizon, or for users who leave as they do in the log."
_ANYWAY_HELP = "Plan even if the log gives no reason to."
_PLAN_OUT_HELP = "Write the plan with arms' names (.json; a schedule also .csv)."
_PERMUTATIONS_HELP = (
    "Of arms within users, to test whether what is shown matters; 0: no test, else 20 or more."
)
_MAX_PERMUTATIONS = 100_000
_USERS_HELP = "What intervals assume: that users are alike, or not; not, from 100 users on."
_MANY_USERS = 100
_REPORT_HELP = "Write it all as one HTML page."


@click.command()
@click.argument("log", type=TEXT_PATH)
@click.option("--arm", default="arm", show_default=True, metavar="COLUMN", help="The arm played.")
@click.option("--reward", default="reward", show_default=True, metavar="COLUMN", help="0 or 1.")
@click.option("--user", metavar="COLUMN", help=_USER_HELP)
@click.option("--order", "--time", metavar="COLUMN", help=_ORDER_HELP)
@click.option("--propensity", metavar="COLUMN", help=_PROPENSITY_HELP)
@click.option("--strata", metavar="COLUMN", help=_STRATA_HELP)
@click.option("--query", metavar="SQL", help=_QUERY_HELP)
@click.option("--encoding", default="utf-8", show_default=True, help=_ENCODING_HELP)
@click.option("--strict", is_flag=True, help=_STRICT_HELP)
@click.option("--lam", type=float, help="The evolution rate, if it is known.")
@click.option("--lam-deviation", type=float, metavar="DEVIATION", help=_DEVIATION_HELP)
@click.option("--q0", default="1", show_default=True, metavar="STATE", help=_STATE_HELP)
@click.option("--out", type=PATH, help=_OUT_HELP)
@click.option("--users", type=click.Choice(get_args(Users)), help=_USERS_HELP)
@click.option(
    "--permutations",
    type=click.IntRange(0, _MAX_PERMUTATIONS),
    default=400,
    show_default=True,
    help=_PERMUTATIONS_HELP,
)
@click.option("--plan", "planned", is_flag=True, help=_PLAN_HELP)
@click.option("--horizon", "-T", type=HORIZON, help="Plan a schedule of so many visits.")
@click.option("--leave", type=LEAVE, help="Plan for users of whom this share leaves at a visit.")
@click.option("--visits", type=VISITS, help="Or: who come so often on average.")
@click.option("--plan-anyway", is_flag=True, help=_ANYWAY_HELP)
@click.option("--plan-out", type=PATH, help=_PLAN_OUT_HELP)
@click.option("--report", "page", type=PATH, help=_REPORT_HELP)
@click.option(
    "--overwrite", is_flag=True, help="Overwrite the page's file even if it is no report."
)
@AS_JSON
def fit(
    log: str,
    lam: float | None,
    lam_deviation: float | None,
    q0: str,
    out: Path | None,
    users: Users | None,
    permutations: int,
    page: Path | None,
    overwrite: bool,
    as_json: bool,
    query: str | None,
    encoding: str,
    strict: bool,
    **others: Any,
) -> None:
    """Say what LOG tells: a file or folder of pulls, a database, a live learner's folder or
    journal, or - for a pipe.

    In this order: does what is shown matter, does the model describe it, what are lam, r and b,
    and, with --plan, what is a plan worth. One row per pull, in any order. CSV, Parquet, DuckDB,
    SQLite, postgresql://...
    """
    # All that was asked for is checked before a long file is read.
    check_permutations(permutations)
    _check_files(log, out, page, overwrite=overwrite)
    wanted = PlanRequest(**{name: others.pop(name) for name in PLAN_OPTIONS})
    rate, state, named = _rate(lam, lam_deviation), _state(q0), Columns(**others)
    unused, bad = list[str](), list[BadRows]()
    with signals_stop(), progress() as shown:
        shown.begin("reading", 100)
        rows = _read(
            log,
            named,
            partial(_advance, shown),
            unused.extend,
            on_bad=bad.extend,
            strict=strict,
            query=query,
            encoding=encoding,
        )
        continuation = wanted.continuation(rows)
        shown.begin(f"fitting {counted(rows.n_rows, 'row')}")
        assumed: Users = "clustered" if rows.n_sequences >= _MANY_USERS else "alike"
        found = fit_log(rows, lam=rate, q0=state, users=users or assumed)
        if permutations:
            shown.begin("testing whether what is shown matters", 100)
        verdict = judge(found, rows, permutations, partial(_advance, shown))
        advice = None
        if wanted.planned and (wanted.plan_anyway or not verdict.doubts):
            shown.begin("planning")
            advice = advise(load_plugins(), verdict, rows, wanted.horizon, continuation)
            verdict = advice.verdict
            if verdict.doubts and not wanted.plan_anyway:
                advice = None
    for kind in bad:
        echo(f"bad rows: {ascii_controls(str(kind))}", err=True)
    arms = fitted_arms(found)
    if as_json:
        write_data(json_text(asdict(arms) | answer_json(verdict, advice)))
    else:
        _show(output(), verdict, rows, unused, advice)
    files: dict[Path | None, Callable[[Path], object]] = {
        out: lambda path: write_arms(path, arms),
        page: lambda path: _write_page(path, _source(log), rows, verdict, advice),
    }
    if advice is not None:
        files[wanted.plan_out] = partial(write_plan, plan=advice.plan, names=found.names)
    for path, write in files.items():
        if path is not None:
            write(path)
            echo(f"wrote {path}", err=as_json)
    if wanted.planned and advice is None:
        refuse_plan(verdict)


def _advance(shown: Progress, done: float) -> None:
    shown.advance(round(100 * done))


def _read(log: str, named: Columns, *progress: Callable[..., None], **options: Any) -> Log:
    """Read a log from where it is, or from a journal, where everybody knows what is what."""
    if options["query"] is not None or not is_journal(log):
        return read_log(sys.stdin.buffer if log == "-" else log, named, *progress, **options)
    if named != Columns():
        raise click.UsageError(
            "a journal knows its users, their order and propensities: name no columns"
        )
    with opened_journal(log) as journal:
        return journal_log(journal)


def _check_files(log: str, out: Path | None, page: Path | None, *, overwrite: bool) -> None:
    """Raise if there is nothing to read from, or something cannot be written."""
    if log == "-" and sys.stdin is None:
        raise click.UsageError("standard input is closed: there is no log to read from it")
    if out is not None:
        _check_out(out)
    if page is not None:
        _check_page(page, overwrite=overwrite)


def _check_page(page: Path, *, overwrite: bool) -> None:
    """Raise if a page cannot be written: packages or a folder lack, or it is somebody else's."""
    need_charts()
    from bdes_framework.report.template import check_is_report

    if not page.parent.is_dir():
        raise click.UsageError(f"cannot write {page}: there is no such folder")
    if not overwrite:
        check_is_report(page)


def _write_page(page: Path, source: str, log: Log, verdict: Verdict, advice: Advice | None) -> None:
    """Write the page of a fit, with the command that made it."""
    from bdes_framework.report.fit_page import FitPage

    command = shlex.join(["bdes", *map(without_password, sys.argv[1:])])
    with progress() as shown:
        shown.begin("writing the report")
        FitPage(source, log, verdict, advice, command).write(page, overwrite=True)


def _source(log: str) -> str:
    """Return what a page calls a log: the name of a file, or an address without its password."""
    return without_password(log) if "://" in log else Path(log).name


def _check_out(out: Path) -> None:
    if out.suffix not in (".toml", ".json"):
        raise click.UsageError(f"--out must end in .toml or .json, got {quoted(out.name)}")
    if not out.parent.is_dir():
        raise click.UsageError(f"cannot write {out}: there is no such folder")
    if out.is_dir():
        raise click.UsageError(f"cannot write {out}: it is a folder")


def _rate(lam: float | None, deviation: float | None) -> float | RatePrediction | None:
    if lam is None:
        if deviation is not None:
            raise click.UsageError("--lam-deviation needs --lam, the predicted rate")
        return None
    return as_rate(lam) if deviation is None else RatePrediction(lam, deviation)


def _state(q0: str) -> float | None:
    if q0 == "unknown":
        return None
    try:
        number = float(q0)
    except ValueError:
        raise click.UsageError(f"--q0 needs a number or 'unknown', got {quoted(q0)}") from None
    return as_state(number)


def _show(
    console: Console, verdict: Verdict, log: Log, unused: list[str], advice: Advice | None
) -> None:
    found = verdict.fit
    console.print(Text(verdict.answer if advice is None else f"{verdict.answer} {advice.answer}"))
    print_facts(console, _summary(verdict, log, unused))
    arms = Table(pad_edge=False, box=None, header_style="bold")
    for heading in ARM_HEADINGS:
        arms.add_column(heading, justify="left" if heading == "Arm" else "right")
    for cells in found.arm_texts():
        arms.add_row(*map(Text, cells))  # text, not markup: names come from the log
    console.print(arms)
    for warning in (*found.warnings, *verdict.warnings):
        console.print(Text(ascii_controls(f"warning: {warning}"), style="yellow"))
    if advice is not None:
        show_advice(console, advice)


def _summary(verdict: Verdict, log: Log, unused: list[str]) -> Iterator[tuple[str, str]]:
    found = verdict.fit
    facts = dict(verdict.facts())
    yield from facts.items()
    plural = "" if log.n_sequences == 1 else "s"
    yield "rows", found.rows_text(f" in {log.n_sequences:,} sequence{plural}")
    if unused:
        is_one = log.n_sequences == 1 and "user" in unused
        hint = ": one sequence: did you mean --user user?" if is_one else ""
        yield "not used", f"column{'s' if len(unused) > 1 else ''} {listed(unused)}{hint}"
    for name, text in found.facts():
        if name not in facts:
            yield name, text
