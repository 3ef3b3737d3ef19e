"""Files that stand for what they hold: fits that are priors, and decision tables.

A parameter that takes a :class:`FitPrior` or a :class:`DecisionTable` may be given a file's name in
an experiment file. It is read with the experiment file, relative to it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from attrs import asdict

from bdes_framework.fitting.prior import FitPrior
from bdes_framework.model.decision_table import DecisionTable
from bdes_framework.plugin.config_types import ConfigType, TableType, members_of


def _prior(path: Path) -> dict[str, Any]:
    from bdes_framework.experiment.fit_file import load_prior  # a fit imports scipy

    return asdict(load_prior(path))


def _table(path: Path) -> dict[str, Any]:
    return asdict(
        DecisionTable.read(path),
        filter=lambda attribute, _: attribute.init,
        value_serializer=lambda _, __, value: (
            value.tolist() if isinstance(value, np.ndarray) else value
        ),
    )


_READERS: dict[ConfigType, Callable[[Path], dict[str, Any]]] = {
    TableType(FitPrior): _prior,
    TableType(DecisionTable): _table,
}


def content_reader(kind: ConfigType) -> Callable[[Path], dict[str, Any]] | None:
    """Return what reads a file for a parameter of this type; None if a file is only its name."""
    found = (_READERS.get(member) for member in members_of(kind))
    return next(filter(None, found), None)
