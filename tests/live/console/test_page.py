"""The console in a real browser: it draws, follows, reads well, and asks for nothing elsewhere."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.browser import Browser, browser, needs_browser
from tests.support.live_console import ServedConsole, a_status, served_console

pytestmark = needs_browser

HOSTILE = "<img src=x onerror=\"document.title='gone'\">"
LONG = "an arm whose name is as long as a name may be, " + "and on " * 3
VIEWS: dict[str, dict[str, Any]] = {
    "desktop": {"width": 1200},
    "phone": {"width": 360, "dark": True},
}
VISIBLE = "[...document.querySelectorAll('main > section')].filter(one => one.offsetHeight)"


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def console() -> Iterator[ServedConsole]:
    with served_console(a_status()) as served:
        yield served


@pytest.fixture
def hostile() -> dict[str, Any]:
    """A status in which all that comes from outside is hostile."""
    status = a_status(name=HOSTILE, headline=HOSTILE, arms_text=HOSTILE)
    for arm, name in zip(status["arms"], (HOSTILE, LONG, "__proto__"), strict=True):
        arm["name"] = name
    status["models"][0]["changed"] = HOSTILE
    status["lifts"][0]["over"] = HOSTILE
    return status


def look(window: Browser, console: ServedConsole, status: dict[str, Any], view: str) -> None:
    """Open the console and wait until the status is shown."""
    console.status = status
    window.open(console.address, **VIEWS[view])
    await_headline(window, status["headline"])


def await_headline(window: Browser, headline: str) -> None:
    window.wait_until(f"return document.getElementById('headline').textContent === {headline!r}")


def test_all_is_drawn_and_nothing_foreign_asked_for(
    window: Browser, console: ServedConsole
) -> None:
    look(window, console, a_status(), "desktop")
    assert window.run(f"return {VISIBLE}.length") == 6
    marks = window.run(
        "return [...document.querySelectorAll('.chart svg')].map(svg =>"
        " svg.querySelectorAll('rect, circle').length)"
    )
    assert marks == [2, 2 * 2, 2 * 2, 20 + 2, 12 * 2 + 4]
    assert window.console_errors() == []
    asked = window.requests()
    assert len(asked) >= 7
    assert {address.partition("/console/")[0].rstrip("/") for address in asked} == {console.address}


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_no_serious_fault(
    window: Browser, console: ServedConsole, hostile: dict[str, Any], view: str
) -> None:
    look(window, console, hostile, view)
    window.run("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert window.serious_faults() == []
    inner, whole = window.run("return [innerWidth, document.documentElement.scrollWidth]")
    assert whole <= inner, "the page scrolls sideways"


@pytest.mark.parametrize("view", VIEWS)
def test_hostile_names_show_as_text(
    window: Browser, console: ServedConsole, hostile: dict[str, Any], view: str
) -> None:
    look(window, console, hostile, view)
    assert window.run("return document.images.length") == 0
    assert window.run("return document.title") == f"{HOSTILE} · bdes live"
    shown = window.run("return document.body.innerText")
    assert shown.count(HOSTILE) >= 6
    assert "__proto__" in shown
    assert window.console_errors() == []
    outside = window.run(
        "return [...document.querySelectorAll('.chart svg')].flatMap(svg => {"
        " const box = svg.getBoundingClientRect();"
        " return [...svg.querySelectorAll('text')].filter(text => {"
        "   const at = text.getBoundingClientRect();"
        "   return at.right > box.right + 1 || at.left < box.left - 1 }) })"
        ".map(text => text.textContent)"
    )
    assert outside == []


def test_page_follows_what_is_sent(window: Browser, console: ServedConsole) -> None:
    look(window, console, a_status(headline="before"), "desktop")
    window.run("document.querySelector('#plan details').open = true")
    folded = "document.querySelectorAll('details[open]').length"
    changed = a_status(headline="after", decisions_per_second=99.5, name="another")
    changed["table"]["starts"][1] = 0.777
    console.status = changed
    await_headline(window, "after")
    assert "99.5" in window.run("return document.getElementById('facts').innerText")
    assert window.run("return document.title") == "another · bdes live"
    assert "0.777" in window.run("return document.getElementById('plan-table').innerText")
    assert window.run(f"return {folded}") == 1, "what a reader opened is closed again"


def test_what_is_missing_is_left_out(window: Browser, console: ServedConsole) -> None:
    few = a_status(headline="few", lifts=[], table=None, states=None, shares=[], models=[])
    few |= {"model": None, "waiting": None}
    for arm in few["arms"]:
        arm |= {"earns": None, "pays": None, "leads_to": None, "mean": None}
    look(window, console, few, "desktop")
    assert window.run(f"return {VISIBLE}.map(one => one.id)") == ["", "arms"]
    assert window.console_errors() == []


def test_of_many_arms_the_most_shown_are_drawn(window: Browser, console: ServedConsole) -> None:
    many = a_status(headline="many")
    (first, *_), n = many["arms"], 60
    many["arms"] = [
        {**first, "number": i, "name": f"arm {i}", "share": i / 1770, "shown": i} for i in range(n)
    ]
    many["shares"] = [{"from": 1e9 + 60 * i, "counts": list(range(n))} for i in range(3)]
    look(window, console, many, "phone")
    circles = "document.querySelectorAll('#earns-picture circle').length"
    assert window.run(f"return {circles}") == 20
    drawn = window.run("return document.getElementById('earns-picture').textContent")
    assert "arm 59 " in drawn
    assert "arm 40 " in drawn
    assert "arm 39 " not in drawn
    assert window.run("return document.querySelectorAll('#arms-table tbody tr').length") == n
    assert window.run("return document.querySelectorAll('#shares-table thead th').length") == 21
    assert window.console_errors() == []


def test_sick_service_is_seen_at_once(window: Browser, console: ServedConsole) -> None:
    look(
        window,
        console,
        a_status(headline="Not healthy: the disk is full", is_healthy=False),
        "phone",
    )
    assert window.run("return document.title").startswith("⚠")
    assert window.run("return document.getElementById('light').className") == "light bad"


def test_lost_connection_is_said_and_taken_up_again(window: Browser) -> None:
    with served_console(a_status(headline="first")) as console:
        window.open(console.address)
        await_headline(window, "first")
        port = int(console.address.rpartition(":")[2])
    window.wait_until("return document.body.classList.contains('lost')")
    assert "connection lost" in window.run("return document.body.innerText")
    with served_console(a_status(headline="second"), port=port):
        await_headline(window, "second")
        assert not window.run("return document.body.classList.contains('lost')")


def test_keyboard_reaches_tables_and_folds(window: Browser, console: ServedConsole) -> None:
    look(window, console, a_status(headline="keys"), "desktop")
    reached = []
    for _ in range(6):
        window.press("\ue004")
        reached.append(window.run("return document.activeElement.tagName"))
        outline = window.run("return getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"
    assert reached == ["A", "SUMMARY", "SUMMARY", "SUMMARY", "SUMMARY", "DIV"]


def test_csp_stops_scripts_from_elsewhere(window: Browser, console: ServedConsole) -> None:
    look(window, console, a_status(headline="guarded"), "desktop")
    added = window.run(
        "const s = document.createElement('script');"
        "try { s.textContent = 'window.broken = 1' } catch { return 'refused' }"
        "document.body.append(s); return window.broken === undefined"
    )
    assert added in ("refused", True)
    refused = window.run("try { document.body.innerHTML = '<b>x</b>' } catch { return true }")
    assert refused, "a text can become HTML"
    window.run("fetch('https://example.org/').catch(() => {})")
    deadline = time.monotonic() + 10
    while not any("Content Security Policy" in line for line in window.console_errors()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
