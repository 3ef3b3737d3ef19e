"""Vega, Vega-Lite and Vega-Embed as one script, made by vl-convert and kept in the user's cache.

Making it takes seconds and depends on nothing but vl-convert's version.
"""

import os
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import vl_convert

from bdes_framework._internal.files import replace_text

_SNIPPET = "window.vegaEmbed = vegaEmbed;"


@cache
def vega_script() -> str:
    """Return the script that defines ``window.vegaEmbed``; needs no network."""
    file = _cache_folder() / f"vega-{version('vl-convert-python')}.js"
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        script: str = vl_convert.javascript_bundle(_SNIPPET)
        _keep(file, script)
        return script


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "bdes-framework"


def _keep(file: Path, script: str) -> None:
    """Keep the script for next time, where that is possible."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_text(file, script)
