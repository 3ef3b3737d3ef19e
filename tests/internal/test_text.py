"""Text for messages: passwords of addresses are masked, whatever they are made of."""

import pytest

from bdes_framework._internal.text import without_password


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://ann:secret@host/shop", "postgresql://ann:***@host/shop"),
        ("postgresql://ann:secret@host", "postgresql://ann:***@host"),
        ("postgres://:secret@host:5432/shop", "postgres://:***@host:5432/shop"),
        ("postgresql://ann:sec@r/et x@host/shop", "postgresql://ann:***@host/shop"),
        ("mysql:/ann:secret@host", "mysql:/ann:***@host"),
        (
            "postgresql://host/shop?user=a&password=secret",
            "postgresql://host/shop?user=a&password=***",
        ),
        ("postgresql://h/s?sslpassword=secret&port=1", "postgresql://h/s?sslpassword=***&port=1"),
        # Nothing to mask.
        ("postgresql://ann@host:5432/shop", "postgresql://ann@host:5432/shop"),
        ("logs/a@b:c.csv", "logs/a@b:c.csv"),
        ("C:\\logs\\ads.csv", "C:\\logs\\ads.csv"),
        ("SELECT * FROM shown WHERE mail = 'a@b'", "SELECT * FROM shown WHERE mail = 'a@b'"),
    ],
)
def test_passwords_are_masked(address: str, shown: str) -> None:
    assert without_password(address) == shown
