"""The one way up: methods of objects that draw or write a report of themselves.

``run.plot()`` and ``run.report()`` are methods of a run, and notebooks draw traces and plans, but
charts are a room above all of them. So that room is imported here, by name, when it is asked for;
nothing else imports upwards.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from bdes_framework.errors import BdesError, InvalidValueError

_PACKAGES = ("altair", "jinja2", "vl_convert")


def missing_packages() -> list[str]:
    """Return the packages of the extra ``report`` that are not installed."""
    return [name for name in _PACKAGES if find_spec(name) is None]


def report_function(name: str) -> Any:
    """Return a function of the room of reports; raise InvalidValueError without its packages."""
    missing = missing_packages()
    if missing:
        raise InvalidValueError(
            f"charts need {' and '.join(missing)}: install 'bdes-framework[report]'"
        )
    return getattr(import_module("bdes_framework.report.from_python"), name)


def drawn(name: str, thing: object) -> str:
    """Return an object's chart as an HTML image; empty if it cannot be drawn, or packages lack."""
    try:
        found: str = report_function(name)(thing)
    except BdesError:  # the table beside it is left
        return ""
    return found
