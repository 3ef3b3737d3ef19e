"""A headless Chromium for tests: Debian's own, driven by its own driver; nothing is downloaded."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
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

    def open(self, file: Path, *, width: int = 1200, dark: bool = False, media: str = "") -> None:
        """Open a page at a width, in a colour scheme, on the screen or as it prints."""
        self._driver.get("about:blank")
        self._resize(width, 900)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        media_features = {"features": [scheme], "media": media}
        self._driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media_features)
        self.console_errors()
        self.requests()
        self._driver.get(file.resolve().as_uri())

    def draw_all(self) -> None:
        """Make the window as tall as the page, so that every chart is drawn; wait for them."""
        size = self.run("return [innerWidth, document.documentElement.scrollHeight]")
        self._resize(size[0], min(size[1], 15_000))
        self.wait_until(
            "return [...document.querySelectorAll('.chart:not([hidden])')]"
            ".every(chart => chart.dataset.drawn)"
        )

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

    def requests(self) -> list[str]:
        """Return the addresses the page requested since the last call."""
        entries = self._driver.get_log("performance")  # type: ignore[no-untyped-call]
        messages = [json.loads(entry["message"])["message"] for entry in entries]
        return [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]

    def _resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


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
