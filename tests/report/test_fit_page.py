"""The page of a fit: its order, its numbers against the log, hostile names, and in a browser."""

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

import bdes_framework as bdes
from bdes_framework.planning.advice import advise
from bdes_framework.planning.plan_words import table_words
from bdes_framework.planning.verdict import Verdict
from bdes_framework.report.fit_data import Exposure, response_rows, visit_rows
from bdes_framework.report.fit_page import FitPage
from tests.support.browser import Browser, browser, needs_browser
from tests.support.command import bdes as command
from tests.support.command import fails
from tests.support.logs import ADS, leaving_log

HOSTILE = "<script>alert('x')</script>"
NAMES = (HOSTILE, "calm & quiet", "constructor")
SECTIONS = ["matters", "model", "arms", "worth"]
VIEWS: dict[str, dict[str, Any]] = {
    "desktop": {"width": 1200},
    "phone": {"width": 360, "dark": True},
    "print": {"width": 720, "media": "print"},
}


@pytest.fixture(scope="module")
def fit_page() -> FitPage:
    """Return the page of a log with hostile names, propensities and rewards that are missing."""
    log = leaving_log(ADS, users=200, mean=15, seed=2)
    rewards = log.rewards.astype(float)
    rewards[5::50] = np.nan
    visits = np.arange(log.n_rows) - np.repeat(log.starts, np.diff(log.starts, append=log.n_rows))
    chances = np.where(visits % 3, 1.0, 1 / 3)  # runs of three, of one of three arms
    log = bdes.Log(log.arms, rewards, log.starts, NAMES, propensities=chances)
    verdict = Verdict(bdes.fit(log), bdes.randomisation_test(log, permutations=40))
    advice = advise(bdes.load_plugins(), verdict, log, continuation=0.9)
    return FitPage("ads <b>.csv", log, verdict, advice, "bdes fit 'ads <b>.csv'")


@pytest.fixture(scope="module")
def file(fit_page: FitPage, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fit_page.write(tmp_path_factory.mktemp("page") / "fit.html")


def data_of(html: str) -> Any:
    return json.loads(html.partition('id="report-data">')[2].partition("</script>")[0])


def test_answer_comes_first_and_in_order(fit_page: FitPage) -> None:
    html = fit_page.html()
    assert re.findall(r'<section id="(\w+)"', html) == SECTIONS
    assert fit_page.advice is not None
    answers = [fit_page.verdict.answer, fit_page.advice.answer]
    headlines = re.findall(r'<p class="headline">(.*)</p>', html.partition("<section")[0])
    assert [unescape(text) for text in headlines] == answers
    assert isinstance(fit_page.advice.plan, bdes.DecisionTable)
    shown = html.partition('id="shown-table"')[2].partition("</table>")[0]
    cells = [unescape(text) for text in re.findall(r"<td[^>]*>(.*?)</td>", shown)]
    assert cells == [text for row in table_words(fit_page.advice.plan, 40) for text in row]
    assert "Rewards per visit, on the same visits" in html
    by_log = fit_page.advice.check is not None
    assert by_log == ("doubly robust" in html)
    assert by_log != ("Not checked by propensities" in html)
    figures = data_of(html)["figures"]
    counts = {name: len(options) for name, options in figures.items()}
    n_lifts = len({one.title for one in fit_page.advice.lift.comparisons})
    assert counts == {"visits": 1, "response": 3, "states": 1, "table": 1, "lift": n_lifts}


def test_page_loads_nothing_and_hostile_text_stays_text(fit_page: FitPage) -> None:
    html = fit_page.html()
    assert HOSTILE not in html
    assert "&lt;script&gt;alert" in html
    assert "<b>" not in html
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)', html)
    assert policy.startswith("default-src &#39;none&#39;")
    assert "unsafe" not in policy
    assert not re.search(r'<[^>]+\s(src|style|on\w+)="', html.partition("<script>")[0])


def test_without_a_plan_it_says_why(fit_page: FitPage) -> None:
    verdict = Verdict(fit_page.verdict.fit, None)
    html = evolve(fit_page, verdict=verdict, advice=None, command="").html()
    assert re.findall(r'<section id="(\w+)"', html) == SECTIONS[:-1]
    assert "No plan is recommended:" in html
    assert "it was not tested whether" in html
    assert data_of(html)["figures"]["lift"] == []
    (states,) = data_of(html)["figures"]["states"]
    assert states["parts"][0]["alt"] == "How visits are spread over states."


def test_bins_add_up_to_the_log(fit_page: FitPage) -> None:
    log, at = fit_page.log, fit_page.verdict.fit.instance
    exposure = Exposure.of(log, at)
    users = np.split(np.arange(log.n_rows), log.starts[1:])
    states = np.concatenate([at.states(log.arms[rows].astype(np.int64)) for rows in users])
    visits = np.concatenate([np.arange(rows.size) for rows in users])
    known = log.known
    for arm in range(3):
        own = known & (log.arms == arm)
        rows = response_rows(exposure, arm)
        n = np.array([row["rows"] for row in rows])
        assert n.sum() == own.sum()
        means = {key: sum(n * [row[key] for row in rows]) / n.sum() for key in rows[0]}
        assert means["observed"] == pytest.approx(log.rewards[own].mean())
        assert means["predicted"] == pytest.approx((at.r[arm] * states[own]).mean())
        assert means["at"] == pytest.approx(states[own].mean())
        assert [row["at"] for row in rows] == sorted(row["at"] for row in rows)
        assert all(row["low"] <= row["observed"] <= row["high"] for row in rows)
    assert exposure.states.sum() == log.n_rows
    rows = visit_rows(exposure)
    first = known & (visits == 0)
    assert rows[0]["rows"] >= first.sum()
    n = np.array([row["rows"] for row in rows])
    assert sum(n * [row["at"] for row in rows]) == pytest.approx((visits[known] + 1).sum())


def test_files_of_others_are_not_overwritten(fit_page: FitPage, tmp_path: Path) -> None:
    file = tmp_path / "letter.html"
    file.write_text("dear all")
    with pytest.raises(bdes.InvalidValueError, match="is no report"):
        fit_page.write(file)
    assert fit_page.write(file, overwrite=True).read_text() != "dear all"
    assert fit_page.write(file) == file  # now it is one


def test_command_writes_a_schedules_page(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = [f"{user},{'ab'[rng.integers(2)]},{rng.integers(2)}" for user in range(20) for _ in "12"]
    (tmp_path / "log.csv").write_text("user,arm,reward\n" + "\n".join(rows))
    (tmp_path / "mine.html").write_text("dear all")
    flags = ("--user", "user", "--permutations", "20", "--plan", "-T", "2", "--plan-anyway")
    done = command("fit", "log.csv", *flags, "--report", "fit.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "wrote fit.html" in done.stdout
    html = (tmp_path / "fit.html").read_text(encoding="utf-8")
    assert "A plan was made all the same:" in html
    assert data_of(html)["figures"]["table"] == []
    assert re.search(r"<p>In this order: [ab](, [ab]| × 2)\.</p>", html)
    for page, message in (("mine.html", "is no report"), ("no/fit.html", "no such folder")):
        assert message in fails("fit", "nowhere.csv", "--report", page, cwd=tmp_path)


# -- in a browser ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def view(window: Browser, file: Path, request: pytest.FixtureRequest) -> Browser:
    window.open(file, **VIEWS[request.param])
    window.draw_all()
    assert window.console_errors() == []
    assert window.requests() == [file.resolve().as_uri()]
    return window


all_views = pytest.mark.parametrize("view", list(VIEWS), indirect=True)
screens = pytest.mark.parametrize("view", ["desktop", "phone"], indirect=True)


@needs_browser
@all_views
def test_every_chart_has_marks_and_fits(view: Browser) -> None:
    charts = view.run(
        "return [...document.querySelectorAll('.chart')].map(chart =>"
        " [chart.querySelectorAll('svg .role-mark path, svg .role-mark line').length,"
        " chart.querySelector('svg').getBoundingClientRect().right"
        " - chart.getBoundingClientRect().right])"
    )
    assert len(charts) >= 1 + 3 + 1 + 1 + 2
    assert min(marks for marks, _ in charts) >= 1
    assert max(excess for _, excess in charts) <= 0, "a chart is wider than its frame"
    assert view.run("return document.images.length") == 0
    assert HOSTILE in view.run("return document.body.innerText")


@needs_browser
@all_views
def test_no_text_of_a_chart_is_cut(view: Browser) -> None:
    cut = view.run(
        "return [...document.querySelectorAll('.chart svg')].flatMap(svg => {"
        " const box = svg.getBoundingClientRect();"
        " return [...svg.querySelectorAll('text')].filter(text => {"
        "  const at = text.getBoundingClientRect();"
        "  return at.width && Number(getComputedStyle(text).opacity) > 0"
        "   && (at.right > box.right + 1 || at.left < box.left - 1);"
        " }).map(text => text.textContent) })"
    )
    assert cut == []


@needs_browser
@screens
def test_axe_finds_no_serious_fault(view: Browser) -> None:
    view.run("document.querySelectorAll('figure details').forEach(one => { one.open = true })")
    view.wait_until("return document.querySelector('figure details tbody tr')")
    assert view.serious_faults(".chart svg") == []
    inner, whole = view.run("return [innerWidth, document.documentElement.scrollWidth]")
    assert whole <= inner, "the page scrolls sideways"


@needs_browser
def test_it_prints_on_three_pages(window: Browser, file: Path) -> None:
    window.open(file, **VIEWS["print"])
    window.draw_all()
    assert 1 <= window.pdf_pages() <= 4


@pytest.mark.parametrize("end", ["", "/shop", "/shop?sslpassword=pass-phrase"])
def test_a_page_tells_no_password(
    fit_page: FitPage, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "bdes_framework.cli.fit.read_log", lambda *_, **__: fit_page.log.first(1000)
    )
    address = f"postgresql://ann:secret@host{end}"
    flags = ("--query", "SELECT *", "--permutations", "0", "--report", "fit.html")
    done = command("fit", address, *flags, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    html = (tmp_path / "fit.html").read_text(encoding="utf-8")
    assert "secret" not in html + done.stdout + done.stderr
    assert "pass-phrase" not in html
    assert "postgresql://ann:***@host" in unescape(html)
    assert "bdes fit 'postgresql://ann:***@host" in unescape(html)
