"""The files to serve a live learner with: each says what the service and its page say."""

import json
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest
from attrs import fields

from bdes_framework.cli.live_serve import serve
from bdes_framework.live.serve_config import ServeConfig
from bdes_framework.live.service.app import Service
from bdes_framework.live.service.log import EventLog
from bdes_framework.live.service.numbers import session_metrics
from tests.support import REPOSITORY
from tests.support.fake_live import FakeSession

LIVE = REPOSITORY / "examples" / "live"
PAGE = (REPOSITORY / "docs" / "serving.md").read_text(encoding="utf-8")
KNOWN = {"FROM", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK"}
CONTAINER = (LIVE / "Containerfile").read_text(encoding="utf-8")


def instructions() -> list[tuple[str, str]]:
    """Return the container file's instructions, each with what follows it."""
    lines = [line for line in CONTAINER.splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(name, rest) for name, _, rest in (x.partition(" ") for x in joined.split("\n") if x)]


def options_of(arguments: list[str]) -> dict[str, object]:
    """Return what ``bdes live serve`` makes of arguments; raises what it would refuse."""
    return serve.make_context("serve", arguments).params


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd here")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = (LIVE / "bdes-live.service").read_text(encoding="utf-8")
    here = unit.replace("/opt/bdes-live/bin/bdes", sys.executable)
    file = tmp_path / "bdes-live.service"
    file.write_text(here, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(file)], capture_output=True, text=True
    )
    ours = [line for line in done.stderr.splitlines() if "bdes-live" in line]
    assert (done.returncode, ours) == (0, []), done.stderr


def test_unit_calls_a_command_that_is_there() -> None:
    unit = (LIVE / "bdes-live.service").read_text(encoding="utf-8")
    (start,) = re.findall(r"(?m)^ExecStart=(.*)$", unit)
    binary, live, name, *arguments = start.split()
    assert (Path(binary).name, live, name) == ("bdes", "live", "serve")
    assert options_of(arguments)["folder"] == Path("/var/lib/bdes-live/shop")
    assert "BDES_LIVE_TOKEN" in unit


def test_container_is_built_without_a_network() -> None:
    names = [name for name, _ in instructions()]
    assert set(names) <= {*KNOWN, "CMD"}
    installs = [rest for name, rest in instructions() if name == "RUN" and "pip install" in rest]
    assert all("--no-index --find-links /wheels" in each for each in installs)
    assert len(installs) == 1
    last_user = max(i for i, name in enumerate(names) if name == "USER")
    assert names.index("CMD") > last_user
    for line in re.findall(r"(?m)^#   (pip download.*|podman build.*)$", CONTAINER):
        assert line.split("     ")[0] in PAGE


def test_container_runs_commands_that_are_there(tmp_path: Path) -> None:
    (command,) = (rest for name, rest in instructions() if name == "CMD")
    words = json.loads(command)
    assert words[:3] == ["bdes", "live", "serve"]
    options = options_of(words[3:])
    assert (options["folder"], options["host"]) == (Path("/data"), "0.0.0.0")
    (health,) = (rest for name, rest in instructions() if name == "HEALTHCHECK")
    check = json.loads(health[health.index("CMD") + 4 :])
    compile(check[2], "healthcheck", "exec")
    (warm,) = (rest for name, rest in instructions() if name == "RUN" and "live init" in rest)
    compile(re.search(r'python -c "(.*?)"', warm)[1], "warm", "exec")  # type: ignore[index]


def test_wrong_arguments_would_be_noticed() -> None:
    with pytest.raises(click.UsageError):
        options_of(["/data", "--hosts", "0.0.0.0"])


def test_prometheus_asks_for_names_that_are_there() -> None:
    text = (LIVE / "prometheus.yml").read_text(encoding="utf-8")
    yaml: Any = import_module("yaml")
    (job,) = yaml.safe_load(text)["scrape_configs"]
    assert job["authorization"]["credentials_file"]
    service = Service(EventLog(sys.stderr))
    service.numbers.note("/decide", 200, 0.1)
    session = FakeSession()
    metrics = [*service.numbers.metrics(), *session_metrics(session)]  # type: ignore[arg-type]
    told = {sample.name for metric in metrics for sample in metric.samples}
    asked = set(re.findall(r"\bbdes_[a-z_]+", text))
    assert asked <= told
    assert len(asked) >= 4
    listed = set(re.findall(r"`(bdes_[a-z_]+)(?:\{[a-z,]+\})?`", PAGE)) - {
        "bdes_live",
        "bdes_framework",
    }
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in told}
    assert listed == families


def test_table_of_the_page_has_every_key() -> None:
    table = PAGE[PAGE.index("The table `[serve]`") : PAGE.index("## Under systemd")]
    keys = re.findall(r"(?m)^\| `(\w+)` \|", table)
    assert keys == [field.name for field in fields(ServeConfig)]
