"""The report in a real browser: it loads, draws, answers, reads well, and asks for nothing."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from bdes_framework import load_run
from bdes_framework.report.data import RunData
from bdes_framework.report.page import Settings, report_page, vega_script
from tests.support.browser import Browser, browser, needs_browser
from tests.support.reports import EXPERIMENT, HOSTILE_POLICY, PLAIN, make_run

pytestmark = needs_browser


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def write_report(folder: Path, text: str, settings: Settings) -> Path:
    run = load_run(make_run(folder, text))
    file = folder / "report.html"
    file.write_text(report_page(RunData(run), settings), encoding="utf-8")
    run.close()
    return file


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with hostile names, failures and several values of lam."""
    folder = tmp_path_factory.mktemp("report")
    return write_report(folder, EXPERIMENT, Settings(6, experiment=folder / "experiment.toml"))


def test_it_loads_without_an_error_and_asks_for_nothing(window: Browser, page: Path) -> None:
    window.open(page)
    window.draw_all()
    assert window.console_errors() == []
    assert window.requests() == [page.resolve().as_uri()]


def test_the_policy_stops_scripts_and_styles_that_are_not_the_page_s(
    window: Browser, page: Path
) -> None:
    window.open(page)
    done = window.run(
        "const s = document.createElement('script'); s.textContent = 'window.broken = 1';"
        "document.body.append(s);"
        "try { setTimeout('window.late = 1', 0) } catch { }"
        "fetch('https://example.org/').catch(() => {});"
        "return window.broken === undefined;"
    )
    assert done
    errors = " ".join(window.console_errors())
    assert "Content Security Policy" in errors
    assert window.run("return window.late === undefined")


def test_every_chart_is_drawn_with_marks_in_it(window: Browser, page: Path) -> None:
    window.open(page)
    window.draw_all()
    marks = window.run(
        "return [...document.querySelectorAll('.chart:not([hidden])')].map(chart =>"
        " chart.querySelectorAll('svg .role-mark path, svg .role-mark line, svg .role-mark text')"
        ".length)"
    )
    assert len(marks) == 7  # final, regret, loglog, lam, state, arms, gap
    assert min(marks) >= 2
    widths = window.run(
        "return [...document.querySelectorAll('.chart:not([hidden])')].map(chart =>"
        " chart.querySelector('svg').getBoundingClientRect().right"
        " - chart.getBoundingClientRect().right)"
    )
    assert max(widths) <= 0, "a chart is wider than its frame"


def test_hostile_names_show_as_text(window: Browser, page: Path) -> None:
    window.open(page)
    window.draw_all()
    assert window.run("return document.title") != "gone"
    assert window.run("return document.images.length") == 0
    assert HOSTILE_POLICY in window.run("return document.body.innerText")
    drawn = window.run(
        "return [...document.querySelectorAll('[data-figure=final] svg text')]"
        ".map(text => text.textContent)"
    )
    assert any(text.startswith("<script>") for text in drawn)


def test_a_click_on_a_heading_sorts_by_number_and_says_so(window: Browser, page: Path) -> None:
    window.open(page)
    script = (
        "const table = document.querySelector('#won table');"
        "const heads = [...table.querySelectorAll('th')];"
        "const index = heads.findIndex(th => th.textContent.startsWith('Reward/round'));"
        "heads[index].querySelector('button').click();"
        "return [heads[index].getAttribute('aria-sort'),"
        " [...table.tBodies[0].rows].map(row => row.cells[index].textContent)]"
    )
    direction, values = window.run(script)
    assert direction == "ascending"
    numbers = [float(value) for value in values]
    assert numbers == sorted(numbers)
    direction, values = window.run(script)
    assert direction == "descending"
    assert [float(value) for value in values] == sorted(numbers, reverse=True)


def test_picking_a_cell_draws_another_path_and_names_it(window: Browser, page: Path) -> None:
    window.open(page)
    window.draw_all()
    state = "document.querySelector('[data-figure=path] .chart')"
    before = window.run(f"return [{state}.getAttribute('aria-label'), {state}.innerHTML]")
    window.run(
        "const pick = document.getElementById('pick-path'); pick.selectedIndex = 1;"
        "pick.dispatchEvent(new Event('change'))"
    )
    window.wait_until(f"return {state}.getAttribute('aria-label').includes('etc on two ads')")
    after = window.run(f"return [{state}.getAttribute('aria-label'), {state}.innerHTML]")
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_hiding_a_policy_takes_its_line_away(window: Browser, page: Path) -> None:
    window.open(page)
    window.draw_all()
    count = "document.querySelectorAll('[data-figure=regret] .mark-line.role-mark path').length"
    assert window.run(f"return {count}") == 3
    window.run("document.querySelector('fieldset.legend input').click()")
    window.wait_until(f"return {count} === 2")


def test_pointing_shows_values_as_text(window: Browser, page: Path) -> None:
    window.open(page)
    window.draw_all()
    window.run(
        "const dot = document.querySelector('[data-figure=final] .mark-symbol path');"
        "const box = dot.getBoundingClientRect();"
        "const at = {bubbles: true, clientX: box.x + 3, clientY: box.y + 3};"
        "for (const kind of ['pointerover', 'mouseover', 'pointermove', 'mousemove'])"
        " dot.dispatchEvent(new (kind.startsWith('p') ? PointerEvent : MouseEvent)(kind, at))"
    )
    window.wait_until("return !document.getElementById('tip').hidden")
    assert "95 % from" in window.run("return document.getElementById('tip').textContent")


def test_the_numbers_of_a_chart_open_as_a_table(window: Browser, page: Path) -> None:
    window.open(page)
    window.run("document.querySelector('[data-figure=lam] details').open = true")
    window.wait_until("return document.querySelector('[data-figure=lam] details tbody tr')")
    head = window.run("return document.querySelector('[data-figure=lam] thead').innerText")
    assert head.split() == ["policy", "lam", "mean", "95", "%", "from", "95", "%", "to"]
    rows = "document.querySelectorAll('[data-figure=lam] tbody tr').length"
    assert window.run(f"return {rows}") == 6


@pytest.mark.parametrize("width", [360, 800, 1200])
def test_the_page_never_scrolls_sideways(window: Browser, page: Path, width: int) -> None:
    window.open(page, width=width)
    window.draw_all()
    window.run("document.querySelectorAll('details').forEach(details => { details.open = true })")
    inner, whole = window.run("return [innerWidth, document.documentElement.scrollWidth]")
    assert whole <= inner == width


def test_dark_mode_is_dark_and_charts_follow(window: Browser, page: Path) -> None:
    window.open(page, dark=True)
    window.draw_all()
    ground = window.run("return getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(16, 20, 26)"
    grounds = window.run(
        "return [...document.querySelectorAll('.chart svg')]"
        ".map(svg => getComputedStyle(svg).backgroundColor)"
    )
    assert set(grounds) == {"rgb(23, 27, 33)"}


def test_in_print_nothing_is_cut_off_and_charts_say_what_they_show(
    window: Browser, page: Path
) -> None:
    window.open(page, width=720, media="print", dark=True)
    window.draw_all()
    assert window.run("return getComputedStyle(document.querySelector('nav')).display") == "none"
    assert window.run("return getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)"
    )
    inner, whole = window.run("return [innerWidth, document.documentElement.scrollWidth]")
    assert whole <= inner
    cut = window.run(
        "return [...document.querySelectorAll('main .scroll')]"
        ".filter(box => box.scrollHeight > box.clientHeight + 1).length"
    )
    assert cut == 0
    # On paper, too, a chart must say which environment, horizon or cell it shows.
    unseen = "return [...document.querySelectorAll('.pick')].filter(p => !p.offsetHeight).length"
    assert window.run(unseen) == 0


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (360, True)])
def test_axe_finds_no_serious_fault(window: Browser, page: Path, dark: bool, width: int) -> None:
    window.open(page, dark=dark, width=width)
    window.draw_all()
    window.run("document.querySelector('[data-figure=lam] details').open = true")
    window.wait_until("return document.querySelector('figure details tbody tr')")
    window.run((files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8"))
    found = window.run_async(
        "axe.run(document, {elementRef: false}).then(arguments[arguments.length - 1])"
    )
    assert len(found["passes"]) > 20
    faults = [
        (fault["id"], fault["impact"], [node["html"][:200] for node in fault["nodes"]][:3])
        for fault in found["violations"]
        if fault["impact"] in ("serious", "critical")
    ]
    assert faults == []


LARGE = PLAIN.partition("[[environments]]")[0].replace("replications = 5", "replications = 10")


@pytest.mark.slow
def test_2000_cells_of_8_policies_open_in_2_seconds_and_weigh_under_5_mb(
    window: Browser, tmp_path: Path
) -> None:
    environments = [
        f'[[environments]]\nuse = "bernoulli"\nlabel = "ads {i}"\nr = [0.9, 0.3]\nb = [0.1, 1.0]\n'
        f"lam = {0.05 * (i + 1):.2f}\n"
        for i in range(5)
    ]
    names = ["ucb1", "etc", "thompson", "exp3", "exp3p", "aae", "sticky", "uniform"]
    policies = [f'[[policies]]\nuse = "{name}"\n' for name in names]
    horizons = LARGE.replace("[100, 1000, 4000]", "[100, 200, 400, 800, 1600]")
    file = write_report(tmp_path, "\n".join([horizons, *environments, *policies]), Settings())
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
