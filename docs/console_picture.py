"""Take the console's picture in docs, of a service that really serves: ``make figures``.

Needs Chromium; without one the picture stays as it is.
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
VISITS = 20_000
WIDTH, HEIGHT = 1100, 1500


def main() -> None:
    """Serve the shop's users, and take the picture."""
    if not (CHROMIUM and DRIVER):
        sys.exit("no chromium and chromedriver here: docs/img/live-console.png stays as it is")
    with TemporaryDirectory() as made:
        folder = Path(made) / "shop"
        shutil.copytree(SHOP, folder, ignore=shutil.ignore_patterns("*.sqlite*"))
        setup = load_live(folder)
        world = load_world(folder / "world.toml", setup.plugins)
        few = evolve(world, config=evolve(world.config, visits=VISITS))
        with ServiceProcess(folder) as service, browser(Path(made) / "profile") as window:
            simulate_live(few, setup, url=service.address, compare=False)
            window.open(service.address, width=WIDTH)
            window.wait_until("return document.querySelector('#shares svg')")
            (DOCS / "img" / "live-console.png").write_bytes(window.picture(WIDTH, HEIGHT))


if __name__ == "__main__":
    main()
