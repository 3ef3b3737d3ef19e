"""Named checks: how they are listed, run and reported.

A check is one promise of the contract, tried in a few scenarios. Each kind of thing has
its own list, in the module named after it.
"""

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar
from unittest import SkipTest

from attrs import evolve, field, frozen

from bdes_framework._internal.text import did_you_mean, listed, one_line, quoted
from bdes_framework.errors import BdesError, InvalidValueError
from bdes_framework.interfaces import Kind, Reference
from bdes_framework.plugin.load import load_plugins
from bdes_framework.plugin.parameters import parameters_of
from bdes_framework.plugin.plugins import Plugins
from bdes_framework.plugin.registry import Entry
from bdes_framework.testing import expect
from bdes_framework.testing.expect import (
    PromiseBrokenError,
    ScenarioRejectedError,
    global_random_state_restored,
)

if TYPE_CHECKING:
    import pytest

S = TypeVar("S")

KEPT = 64
"""How many games, pulls or plans are kept for the next checks of the same subject."""


@frozen
class Failure:
    """One check that failed.

    Parameters
    ----------
    subject : str
        What was checked, with its parameters.
    check : str
        The check's name.
    scenario : str
        The problem it failed in: K, T, lam and seed, where they apply.
    expected, came : str
        What the contract asks for, and what came instead.
    """

    subject: str
    check: str
    scenario: str
    expected: str
    came: str

    def __str__(self) -> str:
        where = f" [{self.scenario}]" if self.scenario else ""
        return f"{self.check}{where}\n  expected: {self.expected}\n  came:     {self.came}"


class ConformanceError(BdesError, AssertionError):
    """Raised when a subject breaks the contract: with every check that failed.

    Attributes
    ----------
    failures : tuple[Failure, ...]
        What failed and how.
    """

    def __init__(self, failures: Sequence[Failure]) -> None:
        self.failures = tuple(failures)
        super().__init__(failures)

    def __str__(self) -> str:
        n = len(self.failures)
        count = "a check" if n == 1 else f"{n} checks"
        return "\n\n".join([f"{self.failures[0].subject} fails {count}", *map(str, self.failures)])


@frozen(eq=False)
class Subject:
    """What is checked: a reference and parameters, looked up in plugins when a check first runs."""

    kind: Kind
    ref: Reference
    parameters: Mapping[str, object]
    given_plugins: Plugins | None

    @cached_property
    def plugins(self) -> Plugins:
        """The plugins it is looked up in: those given, or everything installed."""
        return load_plugins() if self.given_plugins is None else self.given_plugins

    @cached_property
    def entry(self) -> Entry:
        """What the reference names; raises if it or a parameter is wrong."""
        return self.plugins.resolve(self.kind, self.ref, self.parameters)[0]

    @property
    def name(self) -> str:
        """What the reference calls it; a config object goes by its class."""
        if isinstance(self.ref, str):
            return self.ref
        if isinstance(self.ref, Mapping):
            return str(self.ref.get("use", "?"))
        return type(self.ref).__name__

    def __str__(self) -> str:
        entry = self.entry
        given = ", ".join(f"{key}={quoted(value)}" for key, value in self.parameters.items())
        if not isinstance(self.ref, str):
            given = quoted(self.ref)
        return f"{entry.kind} {entry.name!r} of {entry.distribution}" + (given and f" ({given})")


F = TypeVar("F", bound=Callable[..., None])
Verify: TypeAlias = Callable[[Subject, S], None]
Parts: TypeAlias = Callable[[Subject, S], Iterable[tuple[Any, ...]]]


@frozen(eq=False)
class Check:
    """One promise of the contract, ready to be tried: call it.

    Parameters
    ----------
    name : str
        What expected failures and reports call it.
    promise : str
        What it makes sure of, in a sentence.
    verify : Callable[[Subject, object], None]
        Raises if the subject breaks the promise in a scenario.
    scenarios : tuple[object, ...]
        The scenarios it is tried in, one after another.
    subject : Subject
        What is checked.
    expected_failure : str | None
        Why this subject is known to fail it.
    """

    name: str
    promise: str
    verify: Verify[Any] = field(repr=False)
    scenarios: tuple[object, ...] = field(repr=False)
    subject: Subject
    expected_failure: str | None = None

    def __call__(self) -> None:
        """Try it in every scenario.

        Raises
        ------
        ConformanceError
            If the promise is broken.
        unittest.SkipTest
            If it does not apply to this subject; pytest then reports a skipped test.
        """
        subject = str(self.subject)  # a name or parameter that is wrong is no broken promise
        skipped: list[str] = []
        for scenario in self.scenarios:
            try:
                with global_random_state_restored():
                    self.verify(self.subject, scenario)
            except (ScenarioRejectedError, SkipTest) as error:
                skipped.append(str(error))
            except PromiseBrokenError as error:
                failure = Failure(subject, self.name, str(scenario), error.expected, error.came)
                raise ConformanceError([failure]) from None
            except Exception as error:
                failure = Failure(subject, self.name, str(scenario), self.promise, _raised(error))
                raise ConformanceError([failure]) from error
        if len(skipped) == len(self.scenarios):
            raise SkipTest(f"{self.name} does not apply: {skipped[0]}")


class ConformanceSuite(Generic[S]):
    """The checks of one kind, in the order they are reported.

    Its methods are the functions of each kind: ``policy_checks`` and ``check_policy``,
    ``environment_checks`` and ``check_environment``, ``planner_checks`` and
    ``check_planner``, ``noise_model_checks`` and ``check_noise_model``, ``engine_checks`` and
    ``check_engine``, ``crowd_environment_checks`` and ``check_crowd_environment``,
    ``crowd_policy_checks`` and ``check_crowd_policy``, ``journal_checks`` and ``check_journal``.
    """

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._promises: list[tuple[str, str, Verify[Any], tuple[object, ...]]] = []
        self._add(parameters_are_documented, ("",))

    def over(self, *scenarios: S) -> Callable[[Verify[S]], Verify[S]]:
        """Add a function as a check, to be tried in these scenarios.

        The function's name becomes the check's, its first line the promise.
        """
        return lambda verify: self._add(verify, scenarios)

    def over_each(self, parts: Parts[S], *scenarios: S) -> Callable[[F], F]:
        """Add a function as a check of every part that each of these scenarios brings."""

        def add(verify_part: F) -> F:
            @wraps(verify_part)
            def verify(subject: Subject, scenario: S) -> None:
                for part in parts(subject, scenario):
                    verify_part(*part)

            self._add(verify, scenarios)
            return verify_part

        return add

    def table(self, verify: Verify[S], **scenarios: Sequence[S]) -> None:
        """Add one function as several checks, by name; the name says what is promised."""
        for name, tried in scenarios.items():
            promise = f"It {name.replace('_', ' ')}."
            self._promises.append((name, promise, verify, tuple(tried)))

    def _add(self, verify: Verify[S], scenarios: Sequence[object]) -> Verify[S]:
        promise = (verify.__doc__ or "").partition("\n")[0]
        self._promises.append((verify.__name__, promise, verify, tuple(scenarios)))
        return verify

    def checks(
        self,
        ref: Reference,
        *,
        plugins: Plugins | None = None,
        expected_failures: Mapping[str, str] | None = None,
        **parameters: object,
    ) -> tuple[Check, ...]:
        """Return the checks of one subject, to be called one by one.

        Parameters
        ----------
        ref : str | Mapping[str, object] | object
            What is checked: a name, a table or a config object.
        plugins : Plugins | None
            Where it is registered; everything installed by default, loaded when a check runs.
        expected_failures : Mapping[str, str] | None
            Checks it is known to fail, with the reason, such as
            ``{"plays_without_knowing_lam": "needs lam"}``.
        **parameters
            Its parameters, if ``ref`` is a name or a table.
        """
        subject = Subject(self._kind, ref, parameters, plugins)
        checks = [Check(*promise, subject) for promise in self._promises]
        return _with_expected_failures(checks, expected_failures)

    def check(
        self,
        ref: Reference,
        *,
        plugins: Plugins | None = None,
        expected_failures: Mapping[str, str] | None = None,
        **parameters: object,
    ) -> None:
        """Run every check of one subject; takes what :meth:`checks` takes.

        Raises
        ------
        ConformanceError
            If any check fails: with all that did, and expected failures that passed.
        """
        failures: list[Failure] = []
        for check in self.checks(
            ref, plugins=plugins, expected_failures=expected_failures, **parameters
        ):
            try:
                check()
            except SkipTest:
                continue
            except ConformanceError as error:
                if check.expected_failure is None:
                    failures += error.failures
            else:
                if check.expected_failure is not None:
                    expected = f"a failure, because {check.expected_failure}"
                    came = "it passes: take it out of expected_failures"
                    failures.append(Failure(str(check.subject), check.name, "", expected, came))
        if failures:
            raise ConformanceError(failures)


def parameters_are_documented(subject: Subject, _: object) -> None:
    """The config class's docstring says what the thing is and what each parameter means."""
    config = subject.entry.config
    expected = f"a docstring of {config.__name__} with a summary and a meaning for each parameter"
    expect.that(bool(subject.entry.summary), expected, "no summary")
    unexplained = [p.name for p in parameters_of(config) if not p.meaning]
    expect.that(not unexplained, expected, f"nothing about {listed(unexplained)}")


def parametrize_with_checks(
    checks: Iterable[Check], *, expected_failures: Mapping[str, str] | None = None
) -> "pytest.MarkDecorator":
    """Make one test per check out of a test function that takes a ``check`` and calls it.

    Parameters
    ----------
    checks : Iterable[Check]
        From ``policy_checks``, ``environment_checks``, ``planner_checks`` or
        ``noise_model_checks``, or several of these together.
    expected_failures : Mapping[str, str] | None
        Known failures of every subject here, by check name, with the reason. They are strict
        xfails: one that passes after all is reported, so that the list stays true.

    Examples
    --------
    ::

        @parametrize_with_checks(policy_checks("my-policy", epsilon=0.1))
        def test_conformance(check: Check) -> None:
            check()
    """
    import pytest

    parameters = []
    for check in _with_expected_failures(checks, expected_failures):
        marks = []
        if check.expected_failure is not None:
            reason = check.expected_failure
            marks = [pytest.mark.xfail(reason=reason, strict=True, raises=ConformanceError)]
        parameters.append(pytest.param(check, id=f"{check.subject.name}-{check.name}", marks=marks))
    return pytest.mark.parametrize("check", parameters)


def _with_expected_failures(
    checks: Iterable[Check], expected_failures: Mapping[str, str] | None
) -> tuple[Check, ...]:
    """Note on each check whether it is expected to fail; raise for names that are no check."""
    found = tuple(checks)
    names = [check.name for check in found]
    reasons = expected_failures or {}
    for name in reasons:
        if name not in names:
            raise InvalidValueError(
                f"expected_failures: no check is called {quoted(name)}."
                f"{did_you_mean(name, names)} Checks: {', '.join(dict.fromkeys(names))}"
            )
    return tuple(
        evolve(check, expected_failure=reasons.get(check.name, check.expected_failure))
        for check in found
    )


def _raised(error: Exception) -> str:
    origin = error.__cause__ or error  # a factory's own error stands behind the plugin's
    where = traceback.extract_tb(origin.__traceback__)[-1]
    place = f"{Path(where.filename).name}, line {where.lineno}"
    return one_line(f"{type(error).__name__}: {error}") + f" ({place})"
