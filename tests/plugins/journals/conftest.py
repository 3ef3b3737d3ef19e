"""A PostgreSQL server for the tests of a module, where one is installed."""

from collections.abc import Iterator

import pytest

from tests.support.postgres import BINARIES, PostgresServer, postgres_server


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    if not BINARIES:
        pytest.skip("PostgreSQL is not installed")
    pytest.importorskip("psycopg")
    with postgres_server() as found:
        yield found
