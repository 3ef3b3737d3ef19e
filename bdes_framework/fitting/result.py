"""The result of a fit: estimates with intervals and checks, and how they are shown."""

from collections.abc import Iterator

import numpy as np
from attrs import field, frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.display import (
    Summary,
    html_facts,
    html_table,
    shown_fields,
    shown_names,
    shown_numbers,
)
from bdes_framework._internal.numbers import as_integer
from bdes_framework._internal.text import ascii_controls, counted, one_line
from bdes_framework.fitting.fit_warnings import MAX_USEFUL_FACTOR
from bdes_framework.fitting.goodness import SIGNIFICANT, GoodnessOfFit
from bdes_framework.fitting.parametrisation import Coordinates
from bdes_framework.fitting.prior import FitPrior
from bdes_framework.model.instance import Instance

_NEAREST = 1e-6
"""Probabilities of a prior are kept this far from 0 and 1, whose logits are infinite."""
MAX_NAME_LENGTH = 40
ARM_HEADINGS = ("Arm", "Pulls", "r", "95 %", "b", "95 %")


@frozen
class ModelScore:
    """Log-likelihood, AIC and BIC of a model of a log; smaller AIC and BIC are better.

    Parameters
    ----------
    log_likelihood : float
        The largest the model's likelihood gets. The estimates of a fit are a posterior's mode,
        where it is a little less.
    n_parameters, n_rows : int
        What AIC and BIC charge for: rows whose reward is known.
    """

    log_likelihood: float
    n_parameters: int
    n_rows: int

    @property
    def aic(self) -> float:
        """Akaike's criterion."""
        return 2 * self.n_parameters - 2 * self.log_likelihood

    @property
    def bic(self) -> float:
        """Schwarz's criterion."""
        return float(np.log(self.n_rows)) * self.n_parameters - 2 * self.log_likelihood


@frozen(eq=False)
class PlayableArms:
    """Estimates in a scale in which no r, b or q0 exceeds 1: made by :meth:`Fit.playable_arms`.

    Parameters
    ----------
    instance : Instance
        The estimates.
    r_interval, b_interval : FloatArray, shape (K, 2)
        Their 95 % intervals, in the same scale.
    """

    instance: Instance
    r_interval: FloatArray = field(repr=False)
    b_interval: FloatArray = field(repr=False)


@frozen(eq=False)
class Fit:
    """Estimates of r, b and lam, with intervals and checks: made by :func:`fit`.

    Parameters
    ----------
    instance : Instance
        The estimates, ready for any planner.
    names : tuple[str, ...]
        What the arms are called.
    pulls : IntArray, shape (K,)
        How often each arm was played, whether its reward is known or not.
    n_sequences : int
        How many sequences the log had.
    covariance : FloatArray, shape (2K+1, 2K+1)
        Of the estimates of r, b and lam, in this order; a known lam has zeros. Where an
        arm has few successes or failures, it says less than the intervals.
    r_interval, b_interval : FloatArray, shape (K, 2)
        95 % intervals, made in the fit's coordinates; by profile likelihood too, where some
        arm has few successes or failures.
    lam_interval : tuple[float, float]
        Twice the same number if lam is known.
    evolving, stationary : ModelScore
        This model, and the one without a state, in which every arm pays its mean.
    drifting : ModelScore
        The model of a drift: one end state for all arms, so that responsiveness moves with time,
        whatever is shown.
    drift : Instance
        The most likely one.
    goodness : GoodnessOfFit
        Predictions against rewards, by bins.
    warnings : tuple[str, ...]
        What the log cannot tell.
    coordinates : Coordinates
        Those of the normal posterior that intervals and draws come from.
    centre, deviations : FloatArray
        The mean of that posterior, and a square root of its covariance.
    spread : float | None
        By how much users differ: the standard deviation of the logarithm of a user's factor on r;
        None unless users have one.
    spread_interval : tuple[float, float] | None
        Its 95 % interval.
    """

    instance: Instance
    names: tuple[str, ...]
    pulls: IntArray
    n_sequences: int
    covariance: FloatArray
    r_interval: FloatArray
    b_interval: FloatArray
    lam_interval: tuple[float, float]
    evolving: ModelScore
    stationary: ModelScore
    drifting: ModelScore
    drift: Instance
    goodness: GoodnessOfFit
    warnings: tuple[str, ...]
    coordinates: Coordinates = field(repr=False)
    centre: FloatArray = field(repr=False)
    deviations: FloatArray = field(repr=False)
    spread: float | None = None
    spread_interval: tuple[float, float] | None = None

    def __repr__(self) -> str:
        low, high = self.lam_interval
        rate = f"{self.instance.lam:.4g}"
        return shown_fields(
            "Fit",
            n_rows=int(self.pulls.sum()),
            names=shown_names(self.names),
            r=shown_numbers(self.instance.r),
            b=shown_numbers(self.instance.b),
            lam=rate if low == high else f"{rate} ({low:.4g} to {high:.4g})",
            p_value=f"{self.goodness.p_value:.2g}",
            warnings=len(self.warnings),
        )

    def _repr_html_(self) -> str:
        facts = [("rows", self.rows_text()), *self.facts()]
        facts += [("warning", warning) for warning in self.warnings]
        return html_facts("Fit", facts) + html_table(ARM_HEADINGS, list(self.arm_texts()))

    def summary(self) -> Summary:
        """Return estimates, comparisons, checks and warnings for reading, as ``bdes fit`` has them.

        Typing ``fit(log).summary()`` shows it; ``str`` of it is the text.
        """
        facts = [("rows", self.rows_text()), *self.facts()]
        rows = [list(ARM_HEADINGS), *map(list, self.arm_texts())]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [f"{name:16}  {value}" for name, value in facts]
        for first, *others in rows:
            columns = zip(others, widths[1:], strict=True)
            cells = [first.ljust(widths[0]), *(text.rjust(width) for text, width in columns)]
            lines.append("  ".join(cells))
        lines += [ascii_controls(f"warning: {warning}") for warning in self.warnings]
        return Summary("\n".join(lines))

    @property
    def n_unknown(self) -> int:
        """How many rewards of the log were not known."""
        return int(self.pulls.sum()) - self.evolving.n_rows

    def rows_text(self, sequences: str = "") -> str:
        """Return how many rows the log has, and how many rewards are not known, in words."""
        unknown = f", {counted(self.n_unknown, 'reward')} not known" if self.n_unknown else ""
        return f"{int(self.pulls.sum()):,}{sequences}{unknown}"

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield what the fit found besides the arms, in words: a name and a text each."""
        low, high = self.lam_interval
        rate = f"{self.instance.lam:.4g}"
        yield "lam", f"{rate}, known" if low == high else f"{rate} ({low:.4g} to {high:.4g})"
        if self.spread is not None and self.spread_interval is not None:
            least, most = self.spread_interval
            yield (
                "users differ",
                f"by factors of spread {self.spread:.3g} ({least:.3g} to {most:.3g})",
            )
        yield "log-likelihood", f"{self.evolving.log_likelihood:z,.1f}"
        for name, simpler, claim in (
            ("against no state", self.stationary, "the state explains the log"),
            ("against a drift", self.drifting, "what is shown explains the log"),
        ):
            aic, bic = self.evolving.aic - simpler.aic, self.evolving.bic - simpler.bic
            verdict = f"{claim} {'better' if bic < 0 else 'no better'}"
            if (aic < 0) != (bic < 0):
                verdict = f"they disagree on whether {claim} better"
            yield name, f"AIC {aic:+z,.1f}, BIC {bic:+z,.1f}: {verdict}"
        check = self.goodness
        verdict = "no sign of misfit"
        if check.p_value < SIGNIFICANT:
            verdict = "the model does not describe the log"
        elif check.detectable > MAX_USEFUL_FACTOR:
            verdict = "too little data to tell"
        statistic = f"{check.statistic:{'.1f' if check.statistic < 1e5 else '.3g'}}"
        yield (
            "goodness of fit",
            f"chi-square {statistic} on {check.freedom}, p = {check.p_value:.2g}: {verdict}",
        )

    def arm_texts(self) -> Iterator[tuple[str, ...]]:
        """Yield each arm in words: its name, pulls, r and b, each with its interval."""
        for arm, name in enumerate(self.names):
            yield (
                one_line(name, MAX_NAME_LENGTH),
                f"{self.pulls[arm]:,}",
                _number(self.instance.r[arm]),
                " to ".join(map(_number, self.r_interval[arm])),
                _number(self.instance.b[arm]),
                " to ".join(map(_number, self.b_interval[arm])),
            )

    def draws(self, n: int, rng: np.random.Generator) -> list[Instance]:
        """Return ``n`` instances drawn from the posterior."""
        as_integer(n, "n", 1)
        normal = rng.standard_normal((n, self.centre.size))
        return [self.coordinates.instance(self.centre + self.deviations @ z) for z in normal]

    def playable_arms(self) -> PlayableArms:
        """Return the same problem in the scale in which its highest state is at most 1.

        Then no r exceeds 1 either, as no probability does, but for rounding: it can be simulated.
        """
        at = self.instance
        scale = max(1.0, at.q0, float(at.b.max()))
        if scale > 1:
            r, b = np.minimum(at.r * scale, 1.0), np.minimum(at.b / scale, 1.0)
            at = Instance(r, b, at.lam, min(at.q0 / scale, 1.0))
        r_interval = np.minimum(self.r_interval * scale, 1.0)
        return PlayableArms(at, r_interval, self.b_interval / scale)

    def as_prior(self) -> FitPrior:
        """Return this posterior as a learner's prior, where no r, b or q0 exceeds 1.

        Examples
        --------
        >>> from bdes_framework import Log, fit
        >>> rng = np.random.default_rng(1)
        >>> log = Log(np.repeat(rng.integers(0, 2, 100), 5), rng.integers(0, 2, 500))
        >>> fit(log).as_prior().n_arms
        2
        """
        n, at, theta = self.instance.n_arms, self.playable_arms().instance, self.centre
        scales = np.ones(theta.size)
        scales[:n] = max(1.0, self.instance.q0, float(self.instance.b.max()))
        scales[n : 2 * n] = 1.0 / scales[0]
        values = scales * self.coordinates.parameters(theta)
        values = np.clip(values, _NEAREST, 1 - _NEAREST)
        per_logit = scales / (values * (1 - values))
        slopes = self.coordinates.jacobian(theta) * per_logit[:, None]
        upper: FloatArray = np.linalg.qr((slopes @ self.deviations).T).R
        root = (upper * np.where(np.diag(upper) < 0, -1.0, 1.0)[:, None]).T
        return FitPrior(
            centre=np.log(values / (1 - values)).tolist(),
            deviations=[row[: place + 1] for place, row in enumerate(root.tolist())],
            q0=at.q0,
            lam=at.lam if theta.size == 2 * n else None,
        )


def natural_covariance(
    coordinates: Coordinates, centre: FloatArray, deviations: FloatArray
) -> FloatArray:
    """Return the covariance of r, b and lam, with zeros for a lam that is known.

    ``deviations`` is a square root of that of the coordinates, around ``centre``.
    """
    slopes = coordinates.jacobian(centre)
    found = np.zeros((2 * coordinates.n_arms + 1, 2 * coordinates.n_arms + 1))
    found[: centre.size, : centre.size] = slopes @ (deviations @ deviations.T) @ slopes.T
    return found


def _number(value: float) -> str:
    """Return four decimals, or, of a b that has no bound to speak of, three digits."""
    return f"{value:.4f}" if value < 1000 else f"{value:.3g}"
