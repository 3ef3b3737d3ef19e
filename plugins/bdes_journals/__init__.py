"""Plugin of journals, which keep what happens to a live learner: SQLite and PostgreSQL."""

from bdes_framework import Registrar, hookimpl

BDES_API_VERSION = 1


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    """Register ``sqlite`` and ``postgres``."""
    from bdes_journals import postgres, sqlite

    registrar.journal("sqlite", sqlite.SqliteConfig, sqlite.build)
    registrar.journal("postgres", postgres.PostgresConfig, postgres.build)
