"""Runs and pages made once for all tests of reports."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bdes_framework import load_run
from bdes_framework.report.data import RunData
from bdes_framework.report.page import Settings, report_page
from tests.support.reports import EXPERIMENT, STUDY, make_run


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("hostile"), EXPERIMENT)


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("study"), STUDY)


@pytest.fixture(scope="session")
def hostile_page(hostile: Path) -> Path:
    """A report with hostile names, failures and several values of lam."""
    file = hostile.parent / "report.html"
    settings = Settings(6, experiment=hostile.parent / "experiment.toml")
    with load_run(hostile) as run:
        file.write_text(report_page(RunData(run), settings), encoding="utf-8")
    return file


@pytest.fixture
def data(plain: Path) -> Iterator[RunData]:
    with load_run(plain) as run:
        yield RunData(run)


@pytest.fixture
def hostile_data(hostile: Path) -> Iterator[RunData]:
    with load_run(hostile) as run:
        yield RunData(run)


@pytest.fixture
def study_data(study: Path) -> Iterator[RunData]:
    with load_run(study) as run:
        yield RunData(run)
