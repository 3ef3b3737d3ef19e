"""How tests of this folder read logs."""

import pytest

from bdes_framework.fitting import log_sources


@pytest.fixture(params=["duckdb", "python"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Read with DuckDB, and as if it were not installed."""
    engine = str(request.param)
    if engine == "python":
        monkeypatch.setattr(log_sources, "has_duckdb", lambda: False)
    return engine
