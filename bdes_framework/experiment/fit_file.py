"""Files of fits: a file of arms that holds the whole fit, so that it needs no log any more.

What ``bdes plan`` and experiments read stands at the top (see :mod:`arms`); the table ``fit``
has the rest. Of the covariance it has the triangular root that draws are made with, to the last
bit: the draws of a fit from a file are those of the fit itself.
"""

import math
from pathlib import Path

import numpy as np
from attrs import asdict, frozen

from bdes_framework._internal.arrays import FloatArray
from bdes_framework._internal.files import invalid_file
from bdes_framework.errors import InvalidValueError
from bdes_framework.experiment.arms import ArmsFile, read_arms, write_arms
from bdes_framework.fitting.goodness import GoodnessOfFit
from bdes_framework.fitting.parametrisation import Coordinates, RatePrediction
from bdes_framework.fitting.prior import FitPrior
from bdes_framework.fitting.result import Fit, ModelScore, natural_covariance
from bdes_framework.model.instance import Instance
from bdes_framework.plugin.config_values import structure

MAX_COVARIANCE_ARMS = 400
"""Covariances of more arms are left out: their files would be larger than any that is read."""


@frozen
class _Posterior:
    """The normal posterior of a fit in its own coordinates, and its intervals in its own scale."""

    q0: float
    bounded: bool
    played: list[bool]
    """Which arms have rewards that are known."""
    centre: list[float]
    deviations: list[list[float]]
    """The lower triangle, row by row."""
    r_interval: list[list[float]]
    b_interval: list[list[float]]
    lam: float
    lam_deviation: float | None = None
    """None if lam is known."""
    spread: float | None = None
    spread_interval: list[float] | None = None

    def __attrs_post_init__(self) -> None:
        if [len(row) for row in self.deviations] != list(range(1, len(self.centre) + 1)):
            raise InvalidValueError("'deviations' must be a triangle as high as 'centre' is long")


@frozen
class _Goodness:
    """A check of the fit, bin by bin."""

    rows: list[float]
    predicted: list[float]
    observed: list[float]
    statistic: float
    freedom: int
    detectable: float | None = None
    """None if no error could be found out."""


@frozen
class _Drift:
    """The model with one end state, in the fit's own scale."""

    r: list[float]
    b: float
    lam: float


@frozen
class _FitTable:
    """The table ``fit`` of a file."""

    rows: int
    unknown_rewards: int
    sequences: int
    pulls: list[int]
    r_interval: list[list[float]]
    b_interval: list[list[float]]
    lam_interval: list[float]
    log_likelihood: float
    log_likelihood_without_state: float
    log_likelihood_of_drift: float
    parameters: int
    parameters_of_drift: int
    aic: float
    aic_without_state: float
    bic: float
    bic_without_state: float
    aic_of_drift: float
    bic_of_drift: float
    p_value: float
    warnings: list[str]
    goodness: _Goodness
    drift: _Drift
    posterior: _Posterior | None = None


def fitted_arms(found: Fit) -> ArmsFile:
    """Return the arms of a fit, playable, with all that :func:`load_fit` needs."""
    arms, evolving, stationary = found.playable_arms(), found.evolving, found.stationary
    instance, check, drifting = arms.instance, found.goodness, found.drifting
    table = _FitTable(
        rows=int(found.pulls.sum()),
        unknown_rewards=found.n_unknown,
        sequences=found.n_sequences,
        pulls=found.pulls.tolist(),
        r_interval=arms.r_interval.tolist(),
        b_interval=arms.b_interval.tolist(),
        lam_interval=list(found.lam_interval),
        log_likelihood=evolving.log_likelihood,
        log_likelihood_without_state=stationary.log_likelihood,
        log_likelihood_of_drift=drifting.log_likelihood,
        parameters=evolving.n_parameters,
        parameters_of_drift=drifting.n_parameters,
        aic=evolving.aic,
        aic_without_state=stationary.aic,
        bic=evolving.bic,
        bic_without_state=stationary.bic,
        aic_of_drift=drifting.aic,
        bic_of_drift=drifting.bic,
        p_value=check.p_value,
        warnings=list(found.warnings),
        goodness=_Goodness(
            check.rows.tolist(),
            check.predicted.tolist(),
            check.observed.tolist(),
            check.statistic,
            check.freedom,
            check.detectable if math.isfinite(check.detectable) else None,
        ),
        drift=_Drift(found.drift.r.tolist(), float(found.drift.b[0]), found.drift.lam),
        posterior=_posterior(found),
    )
    about = asdict(table, filter=lambda _, value: value is not None)
    r, b, names = instance.r.tolist(), instance.b.tolist(), list(found.names)
    return ArmsFile(r, b, instance.lam, instance.q0, names, about)


def _posterior(found: Fit) -> _Posterior | None:
    coordinates, lam = found.coordinates, found.coordinates.lam
    if coordinates.n_arms > MAX_COVARIANCE_ARMS:
        return None
    deviations = found.deviations.tolist()
    return _Posterior(
        q0=coordinates.q0,
        bounded=coordinates.bounded,
        played=coordinates.played.tolist(),
        centre=found.centre.tolist(),
        deviations=[row[: place + 1] for place, row in enumerate(deviations)],
        r_interval=found.r_interval.tolist(),
        b_interval=found.b_interval.tolist(),
        lam=lam.lam if isinstance(lam, RatePrediction) else lam,
        lam_deviation=lam.deviation if isinstance(lam, RatePrediction) else None,
        spread=found.spread,
        spread_interval=None if found.spread_interval is None else list(found.spread_interval),
    )


def save_fit(found: Fit, path: str | Path) -> None:
    """Write a fit to a .toml or .json file, whole or not at all.

    ``bdes plan`` and experiments read its arms, :func:`load_fit` reads all of it.

    Parameters
    ----------
    found : Fit
        The fit.
    path : str | Path
        A file that ends in .toml or .json.

    Raises
    ------
    InvalidValueError
        If the file has another ending.
    StoreError
        If it cannot be written.
    """
    path = Path(path)
    if path.suffix not in (".toml", ".json"):
        raise InvalidValueError(f"a file of a fit ends in .toml or .json, got {path.name!r}")
    write_arms(path, fitted_arms(found))


def load_fit(path: str | Path) -> Fit:
    """Return the fit that a file holds: estimates, covariance, intervals, checks and warnings.

    Intervals and draws are those of the fit that was written, to the last bit; no log is needed.

    Parameters
    ----------
    path : str | Path
        A .toml or .json file, written by ``bdes fit --out`` or :func:`save_fit`.

    Raises
    ------
    ConfigError
        If it cannot be read, or holds no covariance: it was written by an older version, or by
        hand, or has more than 400 arms.

    Examples
    --------
    >>> import tempfile
    >>> from bdes_framework import Log, fit
    >>> rng = np.random.default_rng(1)
    >>> log = Log(np.repeat(rng.integers(0, 2, 100), 5), rng.integers(0, 2, 500))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_fit(fit(log), folder + "/ads.toml")
    ...     again = load_fit(folder + "/ads.toml")
    >>> again.lam_interval == fit(log).lam_interval
    True
    """
    path = Path(path)
    arms = read_arms(path)
    if not arms.fit:
        raise invalid_file(path, "holds arms, but no fit of them")
    if "posterior" not in arms.fit:
        raise invalid_file(
            path,
            "holds a fit without its covariance (an older version wrote it, or it has more than"
            f" {MAX_COVARIANCE_ARMS} arms): fit the log again",
        )
    table = structure(_FitTable, arms.fit, str(path), "fit")
    try:
        return _fit_of(arms, table)
    except ValueError as error:
        raise invalid_file(path, f"holds a fit that does not hold together: {error}") from None


def load_prior(path: str | Path) -> FitPrior:
    """Return the prior that the file of a fit holds: that of :func:`load_fit`."""
    path = Path(path)
    try:
        return load_fit(path).as_prior()
    except InvalidValueError as error:
        raise invalid_file(path, f"holds a fit that can be no prior: {error}") from None


def _fit_of(arms: ArmsFile, table: _FitTable) -> Fit:
    posterior = table.posterior
    assert posterior is not None
    pulls = np.array(table.pulls, dtype=np.int64)
    played = np.array(posterior.played, dtype=np.bool_)
    n = pulls.size
    known = posterior.lam_deviation is None
    lam = posterior.lam if known else RatePrediction(posterior.lam, posterior.lam_deviation or 0.0)
    coordinates = Coordinates(n, lam, posterior.q0, posterior.bounded, played)
    centre = np.array(posterior.centre)
    deviations = np.zeros((centre.size, centre.size))
    for place, row in enumerate(posterior.deviations):
        deviations[place, : place + 1] = row
    names = tuple(arms.names or map(str, range(n)))
    ends = np.array(posterior.r_interval), np.array(posterior.b_interval)
    shapes = {values.shape for values in ends}
    alike = centre.size == coordinates.size and len(names) == played.size == n
    if not alike or shapes != {(n, 2)}:
        raise InvalidValueError(f"its lists are not those of {n} arms")
    if not all(map(_finite, (centre, deviations, *ends))) or (pulls < 0).any():
        raise InvalidValueError("some number is not finite, or below 0")
    if not played.any() or len(table.lam_interval) != 2:
        raise InvalidValueError("it has no pulls, or no interval of lam")
    check, drift = table.goodness, table.drift
    n_known = table.rows - table.unknown_rewards
    return Fit(
        instance=coordinates.instance(centre),
        names=names,
        pulls=pulls,
        n_sequences=table.sequences,
        covariance=natural_covariance(coordinates, centre, deviations),
        r_interval=ends[0],
        b_interval=ends[1],
        lam_interval=(table.lam_interval[0], table.lam_interval[1]),
        evolving=ModelScore(table.log_likelihood, table.parameters, n_known),
        stationary=ModelScore(table.log_likelihood_without_state, int(played.sum()), n_known),
        drifting=ModelScore(table.log_likelihood_of_drift, table.parameters_of_drift, n_known),
        drift=Instance(drift.r, [drift.b] * len(drift.r), drift.lam, posterior.q0),
        goodness=GoodnessOfFit(
            np.array(check.rows),
            np.array(check.predicted),
            np.array(check.observed),
            check.statistic,
            check.freedom,
            table.p_value,
            math.inf if check.detectable is None else check.detectable,
        ),
        warnings=tuple(table.warnings),
        coordinates=coordinates,
        centre=centre,
        deviations=deviations,
        spread=posterior.spread,
        spread_interval=_pair(posterior.spread_interval),
    )


def _pair(ends: list[float] | None) -> tuple[float, float] | None:
    return None if ends is None or len(ends) != 2 else (ends[0], ends[1])


def _finite(values: FloatArray) -> bool:
    return bool(np.isfinite(values).all())
