"""Pages: one file each, that loads nothing and runs no script but its own."""

import base64
import hashlib
import os
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from stat import S_ISREG

import jinja2
import vl_convert

from bdes_framework._internal.files import replace_text
from bdes_framework._version import __version__
from bdes_framework.errors import InvalidValueError
from bdes_framework.report.labels import clipped

MARK = '<meta name="generator" content="bdes-framework report">'
"""A line near the beginning of every report; a file without it is somebody else's."""

_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("bdes_framework.report", "assets"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)
_TEMPLATES.filters["clip"] = clipped
_TEMPLATES.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}


def render_page(template: str, *, colours: str = "", **content: object) -> str:
    """Return a page: a template that extends ``base.html``; ``colours`` are added to its style."""
    style = _asset("report.css") + colours
    script, vega = _asset("report.js"), vega_script()
    return _TEMPLATES.get_template(template).render(
        version=__version__,
        policy="default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"script-src {_content_hash(vega)} {_content_hash(script)}; "
        f"style-src {_content_hash(style)}",
        style=style,
        script=script,
        vega=vega,
        **content,
    )


def _content_hash(content: str) -> str:
    """Return the hash by which a Content-Security-Policy allows one script or style."""
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def check_is_report(file: Path) -> None:
    """Raise InvalidValueError if the file exists and is no report."""
    try:
        is_report = S_ISREG(file.lstat().st_mode)  # a link is not followed, a pipe not waited for
        if is_report:
            with file.open(encoding="utf-8", errors="replace") as opened:
                is_report = MARK in opened.read(2_000)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InvalidValueError(f"cannot write {file}: {error.strerror}") from None
    if not is_report:
        raise InvalidValueError(f"{file} is no report; --overwrite replaces it all the same")


@cache
def vega_script() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script that defines ``window.vegaEmbed``.

    vl-convert takes seconds to make it, so it is kept in the user's cache by its version.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "bdes-framework"
    file = folder / f"vega-{version('vl-convert-python')}.js"
    with suppress(OSError, UnicodeDecodeError):
        return file.read_text(encoding="utf-8")
    script: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        replace_text(file, script)
    return script


def _asset(name: str) -> str:
    return (files("bdes_framework.report") / "assets" / name).read_text(encoding="utf-8")
