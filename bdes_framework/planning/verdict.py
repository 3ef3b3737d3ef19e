"""Whether a log gives reason to deploy a plan: what is shown must matter, as the model says."""

from collections.abc import Callable, Iterator

import numpy as np
from attrs import evolve, frozen

from bdes_framework._internal.text import listed, quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.goodness import SIGNIFICANT
from bdes_framework.fitting.log import Log
from bdes_framework.fitting.randomisation import RandomisationTest, randomisation_test
from bdes_framework.fitting.result import Fit
from bdes_framework.fitting.suggestion import SuggestedExperiment, suggest_experiment

MATTERS = 0.05
"""What was shown earlier matters if the randomisation test's p-value lies below this."""
LEAST_PERMUTATIONS = 20
"""With fewer no p-value lies below 0.05: the smallest is 1 over one more."""
LEAST_REWARDS = 30
"""A plan shows no arm of which the log knows fewer rewards: what it pays is mostly a guess."""
_MOSTLY = 0.5
"""A test that rests on fewer of the visits says so."""
_HARDLY_ANY = 0.01
"""A test that rests on fewer of the visits is none."""
_HELPS = "give --strata within which chances were the same"
_MIN_VISITS, _MAX_VISITS = 10, 200
"""Of a user in an experiment that is suggested: about as many as in the log."""


@frozen(eq=False)
class Verdict:
    """Whether what is shown matters and the model describes how, as a log has it.

    Parameters
    ----------
    fit : Fit
        The fit of the log.
    test : RandomisationTest | None
        Whether earlier arms matter, by permuting arms within users; None if it was left out.
    experiment : SuggestedExperiment | None
        What would tell, if the log does not show that it matters.
    unknown_arms : tuple[str, ...]
        Arms of a plan that the log says too little about, if one was made.
    """

    fit: Fit
    test: RandomisationTest | None
    experiment: SuggestedExperiment | None = None
    unknown_arms: tuple[str, ...] = ()

    @property
    def matters(self) -> bool:
        """Whether there is evidence that what was shown earlier matters."""
        return self.test is not None and self.test.p_value < MATTERS

    @property
    def can_be_tested(self) -> bool:
        """Whether some visits could as well have shown what others did, as far as is known."""
        return self.test is None or self.test.exchanged >= _HARDLY_ANY

    @property
    def describes(self) -> bool:
        """Whether nothing speaks against the model."""
        return self.fit.goodness.p_value >= SIGNIFICANT

    @property
    def doubts(self) -> tuple[str, ...]:
        """Reasons not to deploy a plan, in words; none if there is evidence for it."""
        return tuple(self._doubts())

    def _doubts(self) -> Iterator[str]:
        if self.test is None:
            yield "it was not tested whether what was shown earlier matters"
        elif not self.can_be_tested:
            yield "it cannot be tested whether what was shown earlier matters"
        elif not self.matters:
            p_value = f"p = {self.test.p_value:.2g}"
            yield f"the log does not show that what was shown earlier matters ({p_value})"
        if not self.describes:
            yield f"the model does not describe the log (p = {self.fit.goodness.p_value:.2g})"
        if self.unknown_arms:
            few = f"fewer than {LEAST_REWARDS} rewards are known"
            yield f"the plan shows arms of which {few}: {listed(map(quoted, self.unknown_arms))}"

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the test does not rest on, in words."""
        if self.test is None or self.test.exchanged >= _MOSTLY:
            return ()
        left = f"{self.test.exchanged:.0%} of the visits could as well have shown what others did"
        rests = "the test of whether what is shown matters rests on these alone"
        return (f"chances of arms changed: by their propensities, {left}; {rests}: {_HELPS}",)

    @property
    def answer(self) -> str:
        """The answer in a sentence."""
        wrong = ", but not as the model says: its figures cannot be trusted"
        if self.test is None:
            return "It was not tested whether what you show changes how people respond later."
        if not self.can_be_tested:
            hardly = "hardly any visit could as well have shown what others did"
            what = "whether what you show changes how people respond later"
            return f"It cannot be tested {what}: by their propensities, {hardly}."
        p_value = f"p = {self.test.p_value:.2g}"
        if not self.matters:
            return f"Nothing shows that what you show changes how people respond later ({p_value})."
        but = "" if self.describes else wrong
        return f"What you show changes how people respond later ({p_value}){but}."

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield what speaks for and against it: a name and a text each."""
        yield "does it matter", "not tested" if self.test is None else str(self.test)
        found = dict(self.fit.facts())
        if not self.matters:
            # Against no state at all, a trend that all arms share looks like a state.
            better = "the state explains the log better"
            alike = "a state, or a trend that all arms share, explains the log better"
            found = {name: text.replace(better, alike) for name, text in found.items()}
        for name in ("goodness of fit", "against a drift", "against no state"):
            yield name, found[name]
        if self.experiment is not None:
            yield "to find out", str(self.experiment)

    def as_json(self) -> dict[str, object]:
        """Return what JSON holds of it."""
        test = self.test
        return {
            "matters": None if test is None else self.matters,
            "p_value": None if test is None else test.p_value,
            "permutations": None if test is None else test.null_statistics.size,
            "describes": self.describes,
            "doubts": list(self.doubts),
            "warnings": list(self.warnings),
            "experiment": None if self.experiment is None else _experiment_json(self.experiment),
        }


def check_permutations(permutations: int) -> None:
    """Raise if there are so few permutations that they can never show anything."""
    if 0 < permutations < LEAST_PERMUTATIONS:
        raise InvalidValueError(
            f"permutations must be 0, for no test, or at least {LEAST_PERMUTATIONS}, got"
            f" {permutations}: with n of them the smallest p-value is 1 / (n + 1), and below"
            f" {MATTERS} something matters"
        )


def judge(
    fit: Fit,
    log: Log,
    permutations: int,
    on_progress: Callable[[float], None] | None = None,
    threads: int = 1,
) -> Verdict:
    """Return the verdict on the log of a fit; without permutations nothing is tested."""
    check_permutations(permutations)
    if not permutations:
        return Verdict(fit, None)
    strata = None if log.strata is None else log.strata.astype(np.int64)
    test = randomisation_test(
        log, permutations=permutations, strata=strata, threads=threads, on_progress=on_progress
    )
    found = Verdict(fit, test)
    if found.matters or log.n_arms < 2:
        return found
    visits = round(log.n_rows / log.n_sequences)
    try:
        # On its own: what the log told of b rests on a model for which it gives no evidence.
        at_once = min(max(visits, _MIN_VISITS), _MAX_VISITS)
        suggested = suggest_experiment(fit, visits=at_once, with_log=False)
    except InvalidValueError:  # nothing would tell, as far as this fit can say
        return found
    return evolve(found, experiment=suggested)


def _experiment_json(found: SuggestedExperiment) -> dict[str, object]:
    return {
        "arms": list(found.names),
        "run": found.run,
        "users": found.users,
        "visits": found.visits,
        "b_error": float(found.b_errors.max()),
        "lam_error": found.lam_error,
    }
