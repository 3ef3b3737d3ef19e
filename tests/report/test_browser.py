"""The report in a real browser: it loads, draws, answers, reads well, and asks for nothing."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from bdes_framework import load_run
from bdes_framework.report.data import RunData
from bdes_framework.report.page import Settings, report_page, vega_script
from benchmarks.runs import LARGE
from tests.support.browser import Browser, browser, needs_browser
from tests.support.reports import HOSTILE_POLICY, make_run

pytestmark = needs_browser

VIEWS: dict[str, dict[str, object]] = {
    "desktop": {"width": 1200},
    "tablet": {"width": 800},
    "phone": {"width": 360, "dark": True},
    "print": {"width": 720, "dark": True, "media": "print"},
}
on_desktop = pytest.mark.parametrize("view", ["desktop"], indirect=True)


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


@on_desktop
def test_every_chart_has_marks_and_fits(view: Browser) -> None:
    charts = view.run(
        "return [...document.querySelectorAll('.chart:not([hidden])')].map(chart =>"
        " [chart.querySelectorAll('svg .role-mark path, svg .role-mark line, svg .role-mark text')"
        ".length, chart.querySelector('svg').getBoundingClientRect().right"
        " - chart.getBoundingClientRect().right])"
    )
    assert len(charts) == 7  # final, regret, loglog, lam, state, arms, gap
    assert min(marks for marks, _ in charts) >= 2
    assert max(excess for _, excess in charts) <= 0, "a chart is wider than its frame"


@on_desktop
def test_hostile_names_show_as_text(view: Browser) -> None:
    assert view.run("return document.title") != "gone"
    assert view.run("return document.images.length") == 0
    assert HOSTILE_POLICY in view.run("return document.body.innerText")
    drawn = view.run(
        "return [...document.querySelectorAll('[data-figure=final] svg text')]"
        ".map(text => text.textContent)"
    )
    assert any(text.startswith("<script>") for text in drawn)


@on_desktop
def test_heading_click_sorts_by_number(view: Browser) -> None:
    script = (
        "const table = document.querySelector('#won table');"
        "const heads = [...table.querySelectorAll('th')];"
        "const index = heads.findIndex(th => th.textContent.startsWith('Reward/round'));"
        "heads[index].querySelector('button').click();"
        "return [heads[index].getAttribute('aria-sort'),"
        " [...table.tBodies[0].rows].map(row => Number(row.cells[index].textContent))]"
    )
    for expected in ("ascending", "descending"):
        direction, numbers = view.run(script)
        assert direction == expected
        assert numbers == sorted(numbers, reverse=expected == "descending")
        assert numbers[0] != numbers[-1]


@on_desktop
def test_picking_a_cell_redraws_and_names_it(view: Browser) -> None:
    state = "document.querySelector('[data-figure=path] .chart')"
    shown = f"return [{state}.getAttribute('aria-label'), {state}.innerHTML]"
    before = view.run(shown)
    view.run(
        "const pick = document.getElementById('pick-path'); pick.selectedIndex = 1;"
        "pick.dispatchEvent(new Event('change'))"
    )
    view.wait_until(f"return {state}.getAttribute('aria-label').includes('etc on two ads')")
    after = view.run(shown)
    assert before[0] != after[0]
    assert before[1] != after[1]


@on_desktop
def test_hiding_a_policy_removes_its_line(view: Browser) -> None:
    count = "document.querySelectorAll('[data-figure=regret] .mark-line.role-mark path').length"
    assert view.run(f"return {count}") == 3
    for lines in (2, 3):
        view.run("document.querySelector('fieldset.legend input').click()")
        view.wait_until(f"return {count} === {lines}")


@on_desktop
def test_pointing_shows_values_as_text(view: Browser) -> None:
    view.run(
        "const dot = document.querySelector('[data-figure=final] .mark-symbol path');"
        "const box = dot.getBoundingClientRect();"
        "const at = {bubbles: true, clientX: box.x + 3, clientY: box.y + 3};"
        "for (const kind of ['pointerover', 'mouseover', 'pointermove', 'mousemove'])"
        " dot.dispatchEvent(new (kind.startsWith('p') ? PointerEvent : MouseEvent)(kind, at))"
    )
    view.wait_until("return !document.getElementById('tip').hidden")
    assert "95 % from" in view.run("return document.getElementById('tip').textContent")


@on_desktop
def test_numbers_of_a_chart_open_as_a_table(view: Browser) -> None:
    view.run("document.querySelector('[data-figure=lam] details').open = true")
    view.wait_until("return document.querySelector('[data-figure=lam] details tbody tr')")
    head = view.run("return document.querySelector('[data-figure=lam] thead').innerText")
    assert head.split() == ["policy", "lam", "mean", "95", "%", "from", "95", "%", "to"]
    rows = "document.querySelectorAll('[data-figure=lam] tbody tr').length"
    assert view.run(f"return {rows}") == 6


@pytest.mark.parametrize("view", ["desktop", "phone"], indirect=True)
def test_axe_finds_no_serious_fault(view: Browser) -> None:
    view.run("document.querySelector('[data-figure=lam] details').open = true")
    view.wait_until("return document.querySelector('figure details tbody tr')")
    view.run((files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8"))
    found = view.run_async(
        "axe.run(document, {elementRef: false, resultTypes: ['violations']})"
        ".then(arguments[arguments.length - 1])"
    )
    assert len(found["passes"]) > 20
    faults = [
        (fault["id"], fault["impact"], [node["html"][:200] for node in fault["nodes"]][:3])
        for fault in found["violations"]
        if fault["impact"] in ("serious", "critical")
    ]
    assert faults == []


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
def test_dark_mode_is_dark_and_charts_follow(view: Browser) -> None:
    assert view.run("return getComputedStyle(document.body).backgroundColor") == "rgb(16, 20, 26)"
    grounds = view.run(
        "return [...document.querySelectorAll('.chart svg')]"
        ".map(svg => getComputedStyle(svg).backgroundColor)"
    )
    assert set(grounds) == {"rgb(23, 27, 33)"}


@pytest.mark.parametrize("view", ["print"], indirect=True)
def test_print_cuts_nothing_and_names_charts(view: Browser) -> None:
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
    # On paper, too, a chart must say which environment, horizon or cell it shows.
    unseen = "return [...document.querySelectorAll('.pick')].filter(p => !p.offsetHeight).length"
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
        window.run("document.querySelector('figure').scrollIntoView()")
        window.wait_until("return document.documentElement.dataset.drawn")
        seconds.append(float(window.run("return document.documentElement.dataset.drawn")) / 1000)
    print(f"opens in {min(seconds):.2f} s")
    assert min(seconds) < 2
    assert "2,000 of 2,000" in window.run("return document.body.innerText")
