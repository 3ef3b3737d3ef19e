"""Shared by the local plugins of good and broken subjects that the kit is tried on."""

from attrs import AttrsInstance, frozen, make_class

LESS_KNOWN: dict[str, dict[str, str]] = {
    "etc": {
        "plays_without_knowing_lam": "needs lam",
        "plays_without_knowing_a_replenishing_arm": "needs a replenishing arm",
    },
    "etc-unknown-arm": {"plays_without_knowing_lam": "needs lam"},
    "wide-ucb": {"plays_without_knowing_lam": "needs lam"},
}
"""By policy: checks it is expected to fail, and why."""


def config_for(name: str) -> type[AttrsInstance]:
    """Return a config class without parameters; every name needs one of its own."""
    made: type[AttrsInstance] = make_class("Config", {}, frozen=True)
    made.__doc__ = f"What is called {name}."
    return made


@frozen
class UnexplainedConfig:
    """Has a parameter nobody explains.

    Parameters
    ----------
    width : float
        How wide it is.
    """

    width: float = 1.0
    depth: float = 1.0


@frozen
class SpeechlessConfig:
    pass
