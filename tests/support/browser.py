"""A headless Chromium for tests: Debian's own, driven by its own driver; nothing is downloaded."""

import base64
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
DRIVER = shutil.which("chromedriver")

needs_browser = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="no chromium and chromedriver here: apt-get install chromium chromium-driver",
)

# Tests run as root in containers, and the page is our own: no sandbox.
_FLAGS = "headless=new no-sandbox disable-gpu disable-dev-shm-usage disable-quic no-first-run"
_FLAGS += " disable-background-networking disable-component-update disable-sync"


class Browser:
    """One Chromium window, with the few things the tests of a page need."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self._driver = driver
        self._driver.set_script_timeout(60)

    def open(
        self, page: Path | str, *, width: int = 1200, dark: bool = False, media: str = ""
    ) -> None:
        """Open a file or address at a width, in a colour scheme, on the screen or as it prints."""
        self._driver.get("about:blank")
        self.resize(width, 900)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        media_features = {"features": [scheme], "media": media}
        self._driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media_features)
        self.console_errors()
        self.requests()
        self._driver.get(page if isinstance(page, str) else page.resolve().as_uri())

    def draw_all(self) -> None:
        """Wait until every chart is drawn."""
        self.wait_until("return document.documentElement.dataset.ready")

    def resize(self, width: int, height: int) -> None:
        """Make the window this large, in pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def point_at(self, selector: str, x: float, y: float, *, zoom: bool = False) -> None:
        """Move the mouse over an element, to shares of its width and height; turn its wheel."""
        left, top = self.run(
            f"const one = document.querySelector({selector!r});"
            " one.scrollIntoView({block: 'center', behavior: 'instant'});"
            " const at = one.getBoundingClientRect();"
            f" return [at.x + at.width * {x}, at.y + at.height * {y}]"
        )
        events: list[dict[str, object]] = [{"type": "mouseMoved"}, {"type": "mouseMoved"}]
        if zoom:
            events.append({"type": "mouseWheel", "deltaX": 0, "deltaY": -200, "modifiers": 8})
        for i, event in enumerate(events):
            place = {"x": left + 2 * i, "y": top}
            self._driver.execute_cdp_cmd("Input.dispatchMouseEvent", {**event, **place})

    def pdf_pages(self) -> int:
        """Print the page on A4 and return on how many pages."""
        paper = {"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": True}
        found = self._driver.execute_cdp_cmd("Page.printToPDF", paper)
        return len(re.findall(rb"/Type\s*/Page\b(?!s)", base64.b64decode(found["data"])))

    def picture(self, width: int, height: int) -> bytes:
        """Return the top of the page as it looks, so large in pixels, as a PNG."""
        part = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        whole = {"captureBeyondViewport": True, "format": "png", "clip": part}
        found = self._driver.execute_cdp_cmd("Page.captureScreenshot", whole)
        return base64.b64decode(found["data"])

    def press(self, keys: str) -> None:
        """Press keys, one after the other, where the focus is."""
        ActionChains(self._driver).send_keys(keys).perform()

    def run(self, script: str) -> Any:
        """Run a script in the page and return its value."""
        return self._driver.execute_script(script)

    def run_async(self, script: str) -> Any:
        """Run a script that calls back, and return what it calls back with."""
        return self._driver.execute_async_script(script)

    def wait_until(self, script: str, seconds: float = 20) -> None:
        """Wait until a script returns something true."""
        WebDriverWait(self._driver, seconds, poll_frequency=0.05).until(lambda _: self.run(script))

    def console_errors(self) -> list[str]:
        """Return the errors and warnings in the console since the last call."""
        entries = self._driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def serious_faults(self, exclude: str = "") -> list[tuple[str, list[str]]]:
        """Return what axe-core finds of serious faults, each with the elements that have it."""
        self.run((files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8"))
        context = f"{{exclude: [{exclude!r}]}}" if exclude else "document"
        found: dict[str, Any] = self.run_async(
            f"axe.run({context}, {{elementRef: false, resultTypes: ['violations']}})"
            ".then(arguments[arguments.length - 1])"
        )
        assert len(found["passes"]) > 15
        return [
            (fault["id"], [node["html"][:200] for node in fault["nodes"]][:3])
            for fault in found["violations"]
            if fault["impact"] in ("serious", "critical")
        ]

    def requests(self) -> list[str]:
        """Return the addresses the page requested since the last call."""
        entries = self._driver.get_log("performance")  # type: ignore[no-untyped-call]
        messages = [json.loads(entry["message"])["message"] for entry in entries]
        return [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Start a Chromium with an empty profile; end it again."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*_FLAGS.split(), "window-size=1200,900", f"user-data-dir={profile}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with webdriver.Chrome(options=options, service=Service(str(DRIVER))) as driver:
        yield Browser(driver)
