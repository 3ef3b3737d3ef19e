"""Plugins that fail to load: source by fault, and the reason that is reported."""

from collections.abc import Callable

Good = Callable[[str], str]
"""From the name of a policy to the source of a plugin that registers it."""

RAISES_ON_IMPORT = "raise OSError('the disk is on fire')"
EXITS_ON_IMPORT = "import sys; sys.exit(3)"
UNREADABLE = """
from bdes_framework import PluginError
class Own(BaseException):
    pass
class Unreadable(BaseException):  # PluginError):
    def __str__(self):
        raise Own
"""
HALF_WAY = """
    registrar.policy("second", Config, build)
    raise KeyError("half-way")
"""


def source(text: str) -> Callable[[Good], str]:
    return lambda good: text


def changed(old: str, new: str) -> Callable[[Good], str]:
    return lambda good: good("x").replace(old, new)


DOCSTRING = "'''Always plays arm 0.'''"
BROKEN: dict[str, tuple[Callable[[Good], str], str]] = {
    "import raises": (source(RAISES_ON_IMPORT), "OSError: the disk is on fire"),
    "import exits": (source(EXITS_ON_IMPORT), "SystemExit: 3"),
    "hook raises half-way": (lambda good: good("first") + HALF_WAY, "'half-way'"),
    "takes a taken name": (
        lambda good: good("x").replace(".policy(", ".environment(").replace('"x"', '"bernoulli"'),
        "already registered by plugin 'bdes_environments' of bdes-framework",
    ),
    "newer API": (
        changed("API_VERSION = 1", "API_VERSION = 2"),
        "written for API version 2, newer than this framework's 1",
    ),
    "API before the first": (
        changed("API_VERSION = 1", "API_VERSION = 0"),
        "written for API version 0; the first was 1",
    ),
    "exception of its own kind": (
        source("class Own(BaseException): pass\nraise Own('of its own kind')"),
        "Own: of its own kind",
    ),
    "exception without a message": (
        source(UNREADABLE + "raise Unreadable"),
        "Unreadable: (its message cannot be read: Own)",
    ),
    "plugin error without a message": (
        source(UNREADABLE.replace("BaseException):  #", "") + "raise Unreadable"),
        "(its message cannot be read: Own)",
    ),
    "cancelled": (
        source("import asyncio\nraise asyncio.CancelledError('stop')"),
        "CancelledError: stop",
    ),
    "type of a field cannot be resolved": (
        changed(DOCSTRING, "size: 'Missing' = 1"),
        "policy 'x': a type in Config cannot be resolved: NameError: name 'Missing'",
    ),
    "no API": (changed("BDES_API_VERSION = 1", ""), "add 'BDES_API_VERSION = 1'"),
    "misspelt hook": (
        changed("bdes_register", "bdes_regster"),
        "'bdes_regster' is not a hook. Did you mean 'bdes_register'?",
    ),
    "misspelt and unmarked hook": (
        lambda good: good("x") + "\ndef bdes_run_strated(run): ...",
        "'bdes_run_strated' is not a hook. Did you mean 'bdes_run_started'?",
    ),
    "unmarked hook": (changed("@hookimpl", ""), "'bdes_register' is not marked with @hookimpl"),
    "no hook": (source("BDES_API_VERSION = 1"), "implements no hook"),
    "unknown hook argument": (
        changed("bdes_register(registrar)", "bdes_register(register)"),
        "register",
    ),
    "bad name": (lambda good: good("Not A Name"), "cannot name a policy"),
    "config is no attrs class": (changed("@frozen", ""), "expected an attrs class"),
    "config has a reserved field": (changed(DOCSTRING, "seed: int = 1"), "'seed', a reserved name"),
    "one config class for two names": (
        lambda good: good("x") + '    registrar.policy("y", Config, build)\n',
        "already belongs to 'x'",
    ),
    "factory is no function": (changed("Config, build)", "Config, None)"), "expected a factory"),
}
