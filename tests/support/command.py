"""The ``bdes`` command run in this process: most of a process's time would be its start."""

import contextlib
import io
import os
import re
import subprocess
import sys
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from bdes_framework.cli import main


def bdes(
    *arguments: str,
    cwd: Path | None = None,
    settings: Mapping[str, str] | None = None,
    merged: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run ``bdes`` with these arguments; output is captured, not checked.

    Cells run serially unless arguments or file choose an engine: that changes no number, and
    saves the start of the workers. ``merged`` puts stderr into stdout, in the order written.
    """
    folder = cwd or Path.cwd()
    serial = ["--engine", "serial"] if _leaves_engine_open(arguments, folder) else []
    environment = {"COLUMNS": "200", "NO_COLOR": "1", **(settings or {})}
    status: int | str | None = 0
    out = io.StringIO()
    err = out if merged else io.StringIO()
    with (
        contextlib.chdir(folder),
        warnings.catch_warnings(),
        mock.patch.dict(os.environ, environment),
        mock.patch.object(sys, "argv", ["bdes", *arguments, *serial]),
        mock.patch("bdes_framework.cli.progress._FIRST_LINE_SECONDS", 1e6),  # on slow machines, too
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        warnings.simplefilter("default", UserWarning)  # shown, as it would be to a user
        try:
            main()
        except SystemExit as end:
            status = end.code
        except Exception:
            traceback.print_exc()
            status = 1
    return subprocess.CompletedProcess(
        ["bdes", *arguments], int(status or 0), out.getvalue(), "" if merged else err.getvalue()
    )


def prints(*arguments: str, cwd: Path | None = None) -> str:
    """Return what a command prints that succeeds."""
    done = bdes(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fails(*arguments: str, cwd: Path | None = None) -> str:
    """Return the error of a wrong request, which is no traceback."""
    done = bdes(*arguments, cwd=cwd)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    return done.stderr


def bdes_process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run ``bdes`` in a process of its own, which has imported nothing yet."""
    command = [sys.executable, "-c", "from bdes_framework.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, **options)


_PROGRESS = re.compile(
    r"(?m)^bdes: (compiling|loading|reading|fitting|testing|playing|planning|writing)\b.*\n"
)


def without_progress(printed: str) -> str:
    """Return what a process printed without lines of progress, which slow machines print."""
    return _PROGRESS.sub("", printed)


def _leaves_engine_open(arguments: tuple[str, ...], folder: Path) -> bool:
    if arguments[:1] != ("run",) or {"--engine", "--workers", "--help"} & {*arguments}:
        return False
    files = [folder / argument for argument in arguments if argument.endswith(".toml")]
    texts = [file.read_text("utf-8", "replace") for file in files if file.is_file()]
    return bool(texts) and not any(re.search(r"(?m)^engine\b", text) for text in texts)
