"""Plugins that fail to load: source by fault, and the reason that is reported."""

from tests.support.experiments import good_plugin

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


GOOD = good_plugin("x")
DOCSTRING = "'''Always plays arm 0.'''"
BROKEN = {
    "import raises": (RAISES_ON_IMPORT, "OSError: the disk is on fire"),
    "import exits": (EXITS_ON_IMPORT, "SystemExit: 3"),
    "hook raises half-way": (good_plugin("first") + HALF_WAY, "'half-way'"),
    "takes a taken name": (
        good_plugin("bernoulli", (".policy(", ".environment(")),
        "already registered by plugin 'bdes_environments' of bdes-framework",
    ),
    "newer API": (
        good_plugin("x", ("API_VERSION = 1", "API_VERSION = 2")),
        "written for API version 2, newer than this framework's 1",
    ),
    "API before the first": (
        good_plugin("x", ("API_VERSION = 1", "API_VERSION = 0")),
        "written for API version 0; the first was 1",
    ),
    "exception of its own kind": (
        "class Own(BaseException): pass\nraise Own('of its own kind')",
        "Own: of its own kind",
    ),
    "exception without a message": (
        UNREADABLE + "raise Unreadable",
        "Unreadable: (its message cannot be read: Own)",
    ),
    "plugin error without a message": (
        UNREADABLE.replace("BaseException):  #", "") + "raise Unreadable",
        "(its message cannot be read: Own)",
    ),
    "cancelled": (
        "import asyncio\nraise asyncio.CancelledError('stop')",
        "CancelledError: stop",
    ),
    "type of a field cannot be resolved": (
        good_plugin("x", (DOCSTRING, "size: 'Missing' = 1")),
        "policy 'x': a type in Config cannot be resolved: NameError: name 'Missing'",
    ),
    "no API": (good_plugin("x", ("BDES_API_VERSION = 1", "")), "add 'BDES_API_VERSION = 1'"),
    "misspelt hook": (
        good_plugin("x", ("bdes_register", "bdes_regster")),
        "'bdes_regster' is not a hook. Did you mean 'bdes_register'?",
    ),
    "misspelt and unmarked hook": (
        GOOD + "\ndef bdes_run_strated(run): ...",
        "'bdes_run_strated' is not a hook. Did you mean 'bdes_run_started'?",
    ),
    "unmarked hook": (
        good_plugin("x", ("@hookimpl", "")),
        "'bdes_register' is not marked with @hookimpl",
    ),
    "no hook": ("BDES_API_VERSION = 1", "implements no hook"),
    "unknown hook argument": (
        good_plugin("x", ("bdes_register(registrar)", "bdes_register(register)")),
        "register",
    ),
    "bad name": (good_plugin("Not A Name"), "cannot name a policy"),
    "config is no attrs class": (good_plugin("x", ("@frozen", "")), "expected an attrs class"),
    "config has a reserved field": (
        good_plugin("x", (DOCSTRING, "seed: int = 1")),
        "'seed', a reserved name",
    ),
    "one config class for two names": (
        GOOD + '    registrar.policy("y", Config, build)\n',
        "already belongs to 'x'",
    ),
    "factory is no function": (
        good_plugin("x", ("Config, build)", "Config, None)")),
        "expected a factory",
    ),
}
