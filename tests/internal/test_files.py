"""Files are read and written whole, with errors that name them."""

import os
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from bdes_framework import ConfigError, StoreError
from bdes_framework._internal.files import (
    MAX_BYTES,
    read_json,
    read_text,
    read_toml,
    replace_file,
    replace_text,
)


def test_replace_text_leaves_only_the_file(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    for text in ("old", "new ±"):
        replace_text(file, text)
        assert file.read_text(encoding="utf-8") == text
        assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("error", [OSError("full"), RuntimeError("wrong"), KeyboardInterrupt()])
def test_failed_replace_file_keeps_the_old(tmp_path: Path, error: BaseException) -> None:
    file = tmp_path / "out.txt"
    file.write_text("old")

    def write(path: Path) -> None:
        path.write_text("half of it")
        raise error

    expected = StoreError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected):
        replace_file(file, write)
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_replace_file_follows_no_link(tmp_path: Path) -> None:
    file, victim = tmp_path / "out.txt", tmp_path / "victim.txt"
    victim.write_text("mine")
    for name in ("out.txt", "out.txt.tmp", f"out.txt.{os.getpid()}.tmp"):
        (tmp_path / name).symlink_to(victim)

    def write(path: Path) -> None:
        assert not path.exists()  # so nobody could plant it
        assert path.parent.stat().st_mode & 0o777 == 0o700
        path.write_text("new")

    replace_file(file, write)
    assert (file.read_text(), file.is_symlink(), victim.read_text()) == ("new", False, "mine")
    fresh = tmp_path / "fresh.txt"
    fresh.touch()
    assert file.stat().st_mode == fresh.stat().st_mode


def test_replace_text_names_the_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot write '.*no/out.txt': No such file"):
        replace_text(tmp_path / "no" / "out.txt", "text")


@pytest.mark.parametrize(
    ("content", "read", "message"),
    [
        (b"a = ", read_toml, "is not valid TOML"),
        (b"a = " + b"9" * 5000, read_toml, "too many digits"),
        (b"\xff", read_toml, "is not UTF-8"),
        (b"a" + b".a" * 100_000 + b" = 1", read_toml, "has a key of 100,001 parts; the maximum"),
        (b"[a" + b" . a" * 100_000 + b"]", read_toml, "has a key of 100,001 parts; the maximum"),
        (b"x = {a" + b".'a'" * 100_000 + b" = 1}", read_toml, "has a key of 100,001 parts"),
        (b"a.b.c = 1\n" * 40_000, read_toml, "has 120,000 parts of keys; the maximum"),
        (b"\xff", read_text, "is not UTF-8"),
        (b"[1]", read_json, "is not a JSON object"),
        (b"{", read_json, "is not valid JSON"),
        (b"[" * 100_000, read_json, "is not valid JSON"),
        (b'{"a": ' + b"[" * 150 + b"]" * 150 + b"}", read_json, "nested more than 100 deep"),
        (b" " * (MAX_BYTES + 1), read_json, "larger than 16 MiB"),
        (None, read_toml, "No such file"),
    ],
)
def test_unreadable_files_are_named(
    tmp_path: Path, content: bytes | None, read: Callable[[Path], object], message: str
) -> None:
    file = tmp_path / "in.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=f"in.toml: .*{message}"):
        read(file)


@pytest.mark.parametrize(
    "text",
    [
        f"x = '{'a.' * 1000}' # {'a.' * 1000} don't",
        f'x = "\\"{"a." * 1000}"\ny = 1.5',
        f"x = '''{'a.' * 1000}\n'{'a.' * 1000}''''\ny = 1",
        f'x = """{"a." * 1000}\n\\"""{"a." * 1000}""""\ny = 1',
        f"x = [{'0.5, ' * 1000}]",
        "x = [\n" + "    [\n        0.5,\n        0.6,\n    ],\n" * 30_000 + "]",
    ],
)
def test_dots_in_values_are_no_parts_of_keys(tmp_path: Path, text: str) -> None:
    (tmp_path / "in.toml").write_text(text)
    assert read_toml(tmp_path / "in.toml") == tomllib.loads(text)


@pytest.mark.parametrize(
    ("path", "message"),
    [("/dev/zero", "is no regular file"), ("a\0b", "null"), (".", "is a folder, not a file")],
)
def test_only_regular_files_are_read(path: str, message: str) -> None:
    for read in (read_text, read_json):
        with pytest.raises(ConfigError, match=message):
            read(Path(path))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="is no regular file"):
        read_text(tmp_path / "pipe")
