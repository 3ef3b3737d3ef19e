"""Take the console's pictures in docs, of a service that really serves: ``make figures``.

Needs Chromium; without one the pictures stay as they are.
"""

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import evolve

from bdes_framework.live.config import load_live
from bdes_framework.live.serving import ServiceProcess
from bdes_framework.live.simulate import simulate_live
from bdes_framework.live.world import load_world
from tests.support.browser import CHROMIUM, DRIVER, browser

DOCS = Path(__file__).parent
SHOP = DOCS.parent / "examples" / "live" / "shop"
VISITS = 40_000
WIDTH = 1100
HEIGHTS = {"live-console.png": 1500, "live-console-top.png": 500}


def main() -> None:
    """Serve the shop's users, and take the pictures."""
    if not (CHROMIUM and DRIVER):
        sys.exit("no chromium and chromedriver here: docs/img/live-console*.png stay as they are")
    with TemporaryDirectory() as made:
        folder = Path(made) / "shop"
        shutil.copytree(SHOP, folder, ignore=shutil.ignore_patterns("*.sqlite*"))
        setup = load_live(folder)
        world = load_world(folder / "world.toml", setup.plugins)
        few = evolve(world, config=evolve(world.config, visits=VISITS))
        with ServiceProcess(folder) as service, browser(Path(made) / "profile") as window:
            simulate_live(few, setup, url=service.address, plays=0)
            window.open(service.address, width=WIDTH)
            window.wait_until("return document.querySelector('#shares svg')")
            for name, height in HEIGHTS.items():
                (DOCS / "img" / name).write_bytes(window.picture(WIDTH, height))


if __name__ == "__main__":
    main()
