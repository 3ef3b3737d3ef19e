"""Models of ``crowd-posterior``: what is decided by, what people are told, and both as data."""

from collections.abc import Mapping

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from bdes_framework import (
    CrowdEstimates,
    FloatArray,
    IntArray,
    InvalidValueError,
    pack_model,
    unpack_model,
)
from bdes_policies.crowd.tables import STATES, Tables

_KIND = "crowd-posterior 1"
_ESTIMATES = ("r", "b", "lam", "r_draws", "b_draws", "lam_draws")


@frozen(eq=False)
class Model:
    """What is decided by: instances, a decision table for each, and the states of all users.

    User ``u`` is treated as if instance ``u`` modulo their number were true.
    """

    number: int
    """Models count from 0."""
    visits: int
    """How many visits it has read."""
    r: FloatArray
    """Shape (n, K), as b, in the unit of the states here: no number of an instance exceeds 1."""
    b: FloatArray
    """Shape (n, K)."""
    lam: FloatArray
    """Shape (n,)."""
    tables: Tables
    active: IntArray
    """The arms that are in the tables."""
    chances: FloatArray
    """How likely a user comes back after the first visit, the second, ...: the tables' rows."""
    q0: float
    """The state of every user at their first visit."""
    states: FloatArray
    """Shape (users,): after these visits, each under the user's own instance."""
    counts: IntArray
    """Shape (users,): how often each has come."""
    unit: float
    """What a state of 1 here is in the problem."""
    estimates: CrowdEstimates
    """What people are told, in the unit of the problem."""


@frozen(eq=False)
class LearnerState:
    """What a learner needs to go on as if it had just made a model."""

    values: Mapping[str, object] = field(factory=dict)
    arrays: Mapping[str, NDArray[np.generic]] = field(factory=dict)


def model_data(model: Model, learner: LearnerState) -> bytes:
    """Return a model as data."""
    flat = model.tables.arms.ravel()
    starts = np.append(0, np.flatnonzero(np.diff(flat)) + 1).astype(np.int32)
    estimates = model.estimates
    values = {
        "number": model.number,
        "visits": model.visits,
        "q0": model.q0,
        "unit": model.unit,
        "continuation": estimates.continuation,
        "first_state": estimates.q0,
        "learner": dict(learner.values),
    }
    arrays: dict[str, NDArray[np.generic]] = {
        name: getattr(model, name) for name in ("r", "b", "lam", "active", "chances", "states")
    }
    arrays |= {"counts": model.counts.astype(np.int32)}
    arrays |= {"low": model.tables.low, "per_state": model.tables.per_state}
    # Most neighbours in a table are alike: where another arm begins says all.
    arrays |= {"table_starts": starts, "table_arms": flat[starts]}
    arrays |= {f"estimated_{name}": getattr(estimates, name) for name in _ESTIMATES}
    return pack_model(_KIND, values, {**arrays, **learner.arrays})


def read_model(data: bytes) -> tuple[Model, LearnerState]:
    """Return what :func:`model_data` wrote; InvalidValueError if that is damaged, or other data."""
    values, found = unpack_model(data, _KIND)
    try:
        return _read(values, found)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidValueError(f"the model is incomplete: {error!r}") from None


def _read(
    values: Mapping[str, object], found: Mapping[str, NDArray[np.generic]]
) -> tuple[Model, LearnerState]:
    def floats(name: str) -> FloatArray:
        return found[name].astype(np.float64)

    def integers(name: str) -> IntArray:
        return found[name].astype(np.int64)

    def number(name: str) -> float:
        return float(str(values[name]))

    r, b, lam, chances = (floats(name) for name in ("r", "b", "lam", "chances"))
    shape = lam.size, chances.size, STATES
    lengths = np.diff(integers("table_starts"), append=int(np.prod(shape)))
    arms = np.repeat(found["table_arms"], lengths).astype(np.int16).reshape(shape)
    states, counts, active = floats("states"), integers("counts"), integers("active")
    k = b.shape[1]
    fits = r.shape == b.shape == (lam.size, k) and states.shape == counts.shape
    if not fits or arms.min() < 0 or arms.max() >= k or counts.min(initial=0) < 0:
        raise ValueError("its arrays do not belong together")
    estimates = CrowdEstimates(
        q0=number("first_state"),
        continuation=number("continuation"),
        **{name: floats(f"estimated_{name}") for name in _ESTIMATES},
    )
    model = Model(
        number=int(number("number")),
        visits=int(number("visits")),
        r=r,
        b=b,
        lam=lam,
        tables=Tables(arms, floats("low"), floats("per_state")),
        active=active,
        chances=chances,
        q0=number("q0"),
        states=states,
        counts=counts,
        unit=number("unit"),
        estimates=estimates,
    )
    kept = values["learner"]
    if not isinstance(kept, dict):
        raise TypeError("no state of a learner")
    return model, LearnerState(kept, found)
