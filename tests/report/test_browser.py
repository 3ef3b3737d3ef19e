"""The report in a real browser: it loads, draws, answers, reads well, and asks for nothing."""

import csv
import io
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from bdes_framework import load_run
from bdes_framework.report.data import RunData
from bdes_framework.report.page import Settings, report_page
from bdes_framework.report.template import vega_script
from benchmarks.runs import LARGE
from tests.support.browser import Browser, browser, needs_browser
from tests.support.experiments import changed
from tests.support.reports import HOSTILE_POLICY, STUDY, make_run

pytestmark = needs_browser

EXAMPLES = Path(__file__).parents[2] / "examples"

VIEWS: dict[str, dict[str, object]] = {
    "desktop": {"width": 1200},
    "tablet": {"width": 800},
    "phone": {"width": 360, "dark": True},
    "print": {"width": 720, "dark": True, "media": "print"},
}
on_desktop = pytest.mark.parametrize("view", ["desktop"], indirect=True)

SECTIONS = ["won", "share", "growth", "horizons", "paths", "details", "run"]

BOX = "document.querySelectorAll('.filter input')"
LINES = "document.querySelectorAll('[data-figure=regret] .mark-line.role-mark path').length"


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def view(window: Browser, hostile_page: Path, request: pytest.FixtureRequest) -> Browser:
    """The page with every chart drawn; opened once per view, for all tests of that view."""
    window.open(hostile_page, **VIEWS[request.param])  # type: ignore[arg-type]
    window.draw_all()
    assert window.console_errors() == []
    assert window.requests() == [hostile_page.resolve().as_uri()]
    return window


@pytest.fixture(scope="module")
def demo_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the demo, but with short horizons and ten arms."""
    folder = tmp_path_factory.mktemp("demo")
    (folder / "first_policy.py").write_text((EXAMPLES / "first_policy.py").read_text())
    demo = changed(
        (EXAMPLES / "demo.toml").read_text(),
        ("[1_000, 10_000, 100_000]", "[50, 100, 200]"),
        ("replications = 5", "replications = 2"),
        ("r = [0.9, 0.3]", f"r = {[0.9] + [0.3] * 9}"),
        ("b = [0.1, 1.0]", f"b = {[0.1] + [1.0] * 9}"),
    )
    file = folder / "report.html"
    with load_run(make_run(folder, demo)) as run:
        settings = Settings(6, experiment=folder / "experiment.toml")
        file.write_text(report_page(RunData(run), settings), encoding="utf-8")
    return file


def pick(view: Browser, dimension: str, value: str) -> None:
    """Choose a value of the filter, "all" for all."""
    view.run(
        "const label = [...document.querySelectorAll('.filter .dimension')]"
        f".find(one => one.textContent.startsWith({dimension!r}));"
        f"const select = label.querySelector('select'); select.value = {value!r};"
        "select.dispatchEvent(new Event('change'))"
    )


def saved(view: Browser, button: str) -> list[dict[str, str]]:
    """Press a button that saves a file, and return its rows."""
    text = view.run_async(
        "const done = arguments[arguments.length - 1]; const make = URL.createObjectURL;"
        "URL.createObjectURL = blob => { blob.text().then(done); URL.createObjectURL = make;"
        " return make.call(URL, blob) };"
        f"document.querySelector({button!r}).click()"
    )
    return list(csv.DictReader(io.StringIO(text)))


@on_desktop
def test_every_chart_has_marks_and_fits(view: Browser) -> None:
    charts = view.run(
        "return [...document.querySelectorAll('.chart')].map(chart =>"
        " [chart.querySelectorAll('svg .role-mark path, svg .role-mark line, svg .role-mark text')"
        ".length, chart.querySelector('svg').getBoundingClientRect().right"
        " - chart.getBoundingClientRect().right])"
    )
    assert len(charts) == 2 + 4 + 2 + 2  # across lam by T, curves, over T by lam, state and arms
    assert min(marks for marks, _ in charts) >= 2
    assert max(excess for _, excess in charts) <= 0, "a chart is wider than its frame"


@on_desktop
def test_hostile_names_show_as_text(view: Browser) -> None:
    assert view.run("return document.title") != "gone"
    assert view.run("return document.images.length") == 0
    assert HOSTILE_POLICY in view.run("return document.body.innerText")
    drawn = view.run(
        "return [...document.querySelectorAll('[data-figure=share] svg text')]"
        ".map(text => text.textContent)"
    )
    assert any(text.startswith("<script>") for text in drawn)


@on_desktop
def test_heading_click_sorts_by_number(view: Browser) -> None:
    script = (
        "const table = document.querySelector('#results');"
        "const heads = [...table.querySelectorAll('th')];"
        "const index = heads.findIndex(th => th.textContent.startsWith('regret'));"
        "heads[index].querySelector('button').click();"
        "return [heads[index].getAttribute('aria-sort'), [...table.tBodies[0].rows]"
        ".map(row => Number(row.cells[index].dataset.value)).filter(Number.isFinite)]"
    )
    for expected in ("ascending", "descending"):
        direction, numbers = view.run(script)
        assert direction == expected
        assert numbers == sorted(numbers, reverse=expected == "descending")
        assert numbers[0] != numbers[-1]


@on_desktop
def test_picking_a_cell_redraws_and_names_it(view: Browser) -> None:
    shown = "document.querySelector('[data-figure=path] .panel').innerText"
    before = view.run(f"return {shown}")
    view.run(
        "const pick = document.getElementById('pick-path'); pick.selectedIndex = 1;"
        "pick.dispatchEvent(new Event('change'))"
    )
    view.wait_until(f"return {shown}.includes('etc: two ads')")
    assert view.run(f"return {shown}") != before


@on_desktop
@pytest.mark.parametrize("target", SECTIONS)
def test_navigation_lands_where_it_says(view: Browser, target: str) -> None:
    view.run("document.documentElement.style.scrollBehavior = 'auto'; scrollTo(0, 0)")
    view.run(f"location.hash = ''; location.hash = {target!r}")
    top = f"document.getElementById({target!r}).getBoundingClientRect().top"
    bar = "document.querySelector('.filter').getBoundingClientRect().bottom"
    view.wait_until(f"return scrollY > 0 && {top} >= {bar} - 1")
    left, at_end = view.run(
        f"return [{top} - {bar}, scrollY + innerHeight >= document.body.scrollHeight - 2]"
    )
    assert left < 30 or at_end  # just below the bar that stays on top
    if target == "run":
        assert view.run("return document.getElementById('run').open")
        view.run("document.getElementById('run').open = false")


@on_desktop
def test_filter_applies_to_charts_and_tables(view: Browser) -> None:
    answer = "document.querySelector('.answer:not([hidden])')"
    rows = "document.querySelectorAll('#every-setting tbody tr:not([hidden])').length"
    heads = f"[...{answer}.querySelectorAll('th:not([hidden])')].map(th => th.textContent)"
    assert view.run(f"return [{LINES}, {rows}]") == [4 * 3, 12]
    view.run(f"{BOX}[0].click()")
    view.wait_until(f"return {LINES} === 8")
    assert view.run(f"return {rows}") == 8
    assert view.run("return document.querySelectorAll('#results tbody tr[hidden]').length") == 1
    pick(view, "lam", "0.3")
    pick(view, "T", "200")
    view.wait_until(f"return {LINES} === 2")
    assert view.run(f"return {rows}") == 2
    assert "lam = 0.05" not in view.run(f"return {heads}")
    assert "lam = 0.3" in view.run(f"return {heads}")
    assert "T = 200;" in view.run(f"return {answer}.innerText")
    found = saved(view, "[data-figure=regret] .csv")
    assert {(row["lam"], row["T"]) for row in found} == {("0.3", "200")}
    assert len({row["policy"] for row in found}) == 2
    assert float(found[-1]["mean"]) > 0
    assert len(saved(view, ".answer:not([hidden]) .save")) == 3  # with the one that failed
    view.run("document.querySelector('.filter .all').click()")
    view.wait_until(f"return {LINES} === 12")
    assert view.run(f"return [{rows}, document.querySelector('.filter .all').hidden]") == [12, True]


@on_desktop
def test_pointing_shows_the_nearest_point(view: Browser) -> None:
    # Nowhere near a line: the nearest point is shown all the same.
    view.point_at("[data-figure=regret] .chart .root", 0.4, 0.1)
    view.wait_until("return !document.getElementById('tip').hidden")
    words = view.run("return document.getElementById('tip').innerText")
    names = view.run("return JSON.parse(document.getElementById('report-data').text).policies")
    assert words.splitlines()[0] in names
    assert "95 % from" in words
    assert "round" in words
    seen = (
        "return [...document.querySelectorAll('[data-figure=regret] .mark-symbol path')]"
        ".filter(dot => Number(dot.getAttribute('opacity')) === 1).length"
    )
    view.wait_until(f"{seen} === 1")


@on_desktop
def test_log_scales_and_reset_redraw(view: Browser) -> None:
    ticks = (
        "[...document.querySelectorAll('[data-figure=regret] .chart')][0]"
        ".querySelector('svg').textContent"
    )
    before = view.run(f"return {ticks}")
    view.run("document.querySelector('[data-figure=regret] .log').click()")
    view.wait_until(f"return {ticks} !== {before!r}")
    assert view.run(f"return {LINES}") == 12
    view.run("document.querySelector('[data-figure=regret] .log').click()")
    view.wait_until(f"return {ticks} === {before!r}")
    reset = "document.querySelector('[data-figure=regret] .reset')"
    assert view.run(f"return {reset}.hidden")
    view.point_at("[data-figure=regret] .chart .root", 0.5, 0.5, zoom=True)
    view.wait_until(f"return !{reset}.hidden && {ticks} !== {before!r}")
    view.run(f"{reset}.click()")
    view.wait_until(f"return {reset}.hidden && {ticks} === {before!r}")
    assert view.console_errors() == []


@on_desktop
def test_numbers_of_a_chart_open_as_a_table(view: Browser) -> None:
    view.run("document.querySelector('[data-figure=share] details').open = true")
    view.wait_until("return document.querySelector('[data-figure=share] details tbody tr')")
    head = view.run("return document.querySelector('[data-figure=share] thead').innerText")
    assert head.split() == ["policy", "lam", "mean", "95", "%", "from", "95", "%", "to"]
    rows = "document.querySelectorAll('[data-figure=share] tbody tr').length"
    assert view.run(f"return {rows}") == 12


@pytest.mark.parametrize("view", ["desktop", "phone"], indirect=True)
def test_axe_finds_no_serious_fault(view: Browser) -> None:
    folds = "document.querySelectorAll('.fold, [data-figure=share] details')"
    view.run(f"{folds}.forEach(details => {{ details.open = true }})")
    view.wait_until("return document.querySelector('figure details tbody tr')")
    # Drawings are images with a text alternative; their thousands of marks take it seconds.
    assert view.serious_faults(".chart svg") == []


@on_desktop
def test_csp_stops_scripts_from_elsewhere(view: Browser) -> None:
    done = view.run(
        "const s = document.createElement('script'); s.textContent = 'window.broken = 1';"
        "document.body.append(s);"
        "try { setTimeout('window.late = 1', 0) } catch { }"
        "fetch('https://example.org/').catch(() => {});"
        "return window.broken === undefined;"
    )
    assert done
    assert "Content Security Policy" in " ".join(view.console_errors())
    assert view.run("return window.late === undefined")


@pytest.mark.parametrize("view", ["desktop", "tablet", "phone"], indirect=True)
def test_page_never_scrolls_sideways(view: Browser, request: pytest.FixtureRequest) -> None:
    view.run("document.querySelectorAll('details').forEach(details => { details.open = true })")
    inner, whole = view.run("return [innerWidth, document.documentElement.scrollWidth]")
    assert whole <= inner == VIEWS[request.node.callspec.params["view"]]["width"]


@pytest.mark.parametrize("view", ["phone"], indirect=True)
def test_phone_shows_numbers_beside_names(view: Browser) -> None:
    name, width, number = view.run(
        "const cells = document.querySelector('#results tbody tr').cells;"
        "const box = document.querySelector('#results').closest('.scroll');"
        "box.scrollLeft = 60;"
        "const [first, second] = [...cells].map(cell => cell.getBoundingClientRect());"
        "return [first.left - box.getBoundingClientRect().left, first.width, second.width]"
    )
    assert abs(name) < 3  # the names stay while numbers move
    assert width <= 140
    assert width + number < 340


@pytest.mark.parametrize("width", [1200, 390])
def test_no_text_of_a_chart_is_cut(window: Browser, demo_page: Path, width: int) -> None:
    window.open(demo_page, width=width)
    window.draw_all()
    texts = window.run(
        "return [...document.querySelectorAll('.chart svg')].flatMap(svg => {"
        " const edge = svg.getBoundingClientRect();"
        " return [...svg.querySelectorAll('text')].map(text => {"
        "  const box = text.getBoundingClientRect();"
        "  return [text.textContent, Math.max(box.right - edge.right, edge.left - box.left)] }) })"
    )
    assert {"arm 0", "other arms"} <= {text for text, _ in texts}
    assert any(text.startswith("toy: one of each: ") for text, _ in texts)
    assert [(text, beyond) for text, beyond in texts if beyond > 0.5] == []


def test_phone_has_the_filter_in_one_row(window: Browser, demo_page: Path) -> None:
    window.open(demo_page, width=390)
    window.run(f"{BOX}[0].click()")  # now there is a button that shows all again
    boxes = window.run(
        "return [...document.querySelectorAll('.filter label, .filter button')].map(one => {"
        " const box = one.getBoundingClientRect(); return [box.left, box.right] })"
    )
    boxes.sort()
    assert len(boxes) == 5 + 2 + 1  # policies, lam and T, the button
    assert all(right <= left for (_, right), (left, _) in pairwise(boxes))
    assert window.run("return document.querySelector('.filter').offsetHeight") < 70


def test_demo_prints_on_few_pages(window: Browser, demo_page: Path) -> None:
    window.open(demo_page, width=720, media="print")
    window.draw_all()
    assert window.pdf_pages() <= 6


@pytest.mark.parametrize("view", ["phone"], indirect=True)
def test_dark_mode_is_dark_and_charts_follow(view: Browser) -> None:
    assert view.run("return getComputedStyle(document.body).backgroundColor") == "rgb(16, 20, 26)"
    grounds = view.run(
        "return [...document.querySelectorAll('.chart svg')]"
        ".map(svg => getComputedStyle(svg).backgroundColor)"
    )
    assert set(grounds) == {"rgb(23, 27, 33)"}


@pytest.mark.parametrize("view", ["print"], indirect=True)
def test_print_is_short_and_cuts_nothing(view: Browser) -> None:
    assert view.pdf_pages() <= 6
    assert view.run("return getComputedStyle(document.querySelector('nav')).display") == "none"
    ground = view.run("return getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(255, 255, 255)"
    inner, whole = view.run("return [innerWidth, document.documentElement.scrollWidth]")
    assert whole <= inner
    cut = view.run(
        "return [...document.querySelectorAll('main .scroll')]"
        ".filter(box => box.scrollHeight > box.clientHeight + 1).length"
    )
    assert cut == 0
    broken = view.run(
        "return [...document.querySelectorAll('td.number')].filter(td => {"
        " const text = document.createRange(); text.selectNodeContents(td);"
        " return !td.textContent.includes(' ') && text.getClientRects().length > 1 }).length"
    )
    assert broken == 0
    # On paper, too, a chart must say which setting or cell it shows.
    unseen = (
        "return [...document.querySelectorAll('.panel h3')].filter(h => !h.offsetHeight).length"
    )
    assert view.run(unseen) == 0


@pytest.mark.slow
def test_large_report_opens_fast_and_is_small(window: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    with load_run(make_run(tmp_path, LARGE)) as run:
        file.write_text(report_page(RunData(run), Settings()), encoding="utf-8")
    size = file.stat().st_size
    print(f"{size / 1e6:.2f} MB, {size / len(vega_script()):.2f} times the vega bundle")
    assert size < 5e6
    seconds = []
    for _ in range(3):
        window.open(file)
        window.wait_until("return document.documentElement.dataset.drawn")
        seconds.append(float(window.run("return document.documentElement.dataset.drawn")) / 1000)
    print(f"opens in {min(seconds):.2f} s")
    assert min(seconds) < 2
    assert "2,000 of 2,000" in window.run("return document.body.textContent")


@pytest.mark.slow
def test_200_instances_of_12_policies_fit_one_screen(window: Browser, tmp_path: Path) -> None:
    seeds = ", ".join(map(str, range(1, 201)))
    names = "aae exp3 exp3p thompson uniform sticky wide-ucb discounted-ucb sliding-window-ucb"
    more = "".join(f'\n[[policies]]\nuse = "{name}"\n' for name in [*names.split(), "auto"])
    text = changed(STUDY, ("[1, 2, 3]", f"[{seeds}]"), ("[50, 200]", "[30]")) + more
    file = tmp_path / "report.html"
    with load_run(make_run(tmp_path, text)) as run:
        file.write_text(report_page(RunData(run), Settings()), encoding="utf-8")
    assert file.stat().st_size < 5e6
    window.open(file)
    window.draw_all()
    bottom = window.run("return document.getElementById('results').getBoundingClientRect().bottom")
    assert bottom < 900
    assert window.run("return document.querySelectorAll('#results tbody tr').length") == 12
    assert window.run("return document.querySelectorAll('.panel').length") == 1 + 2 + 1
    assert "400 instances" in window.run("return document.querySelector('.headline').innerText")
