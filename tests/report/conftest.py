"""Runs made once for all tests of reports."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bdes_framework import load_run
from bdes_framework.report.data import (
    RunData,
)
from tests.support.reports import (
    EXPERIMENT,
    make_run,
)


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("hostile"), EXPERIMENT)


@pytest.fixture
def data(plain: Path) -> Iterator[RunData]:
    run = load_run(plain)
    yield RunData(run)
    run.close()
