"""Damage done to run databases on purpose."""

import sqlite3
from contextlib import closing
from pathlib import Path

from bdes_framework.experiment.store import DATABASE


def change_value(folder: Path, column: str) -> None:
    """Change one bit or digit of a column, such as ``cells.means``, in its table's first row."""
    table, _, name = column.partition(".")
    with closing(sqlite3.connect(folder / DATABASE)) as connection, connection:
        query = f"SELECT rowid, {name} FROM {table} ORDER BY rowid"
        rowid, old = connection.execute(query).fetchone()
        new: object
        if isinstance(old, bytes):
            new = bytes([old[0] ^ 1]) + old[1:]
        elif isinstance(old, str):
            new = chr(ord(old[0]) ^ 1) + old[1:]
        else:
            new = old + 1
        change = f"UPDATE {table} SET {name} = ? WHERE rowid = ?"
        connection.execute(change, (new, rowid))
