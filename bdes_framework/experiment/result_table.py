"""The table of results: ranked policies, the sentence that answers, and how both are written."""

import html
import math
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Literal, TypeAlias

from attrs import frozen

from bdes_framework._internal.text import ascii_controls, one_line
from bdes_framework.experiment.summary import Estimate

if TYPE_CHECKING:
    import pandas

Value: TypeAlias = str | int | float | bool
"""The value of a dimension, such as 0.1 of lam; a formula as it was written."""

Group: TypeAlias = tuple[Value, ...]
"""The values of the dimensions a table is split by."""

Measure: TypeAlias = Literal["share", "reward"]

Step: TypeAlias = Literal["round", "visit"]
"""What a horizon counts: rounds of one audience, or visits of many users."""

MAX_LABEL = 60
"""Characters of a label that a table shows."""

MAX_TIED = 3
"""Tied policies that the sentence names."""

BEST, TIED = " *", " ="

BEATEN = 1 + 1e-6
"""The share of OPT, beyond rounding, above which a benchmark is beaten."""

IntervalOver: TypeAlias = Literal["instances", "replications", "both"]

ColumnKind: TypeAlias = Literal[
    "policy", "key", "group", "overall", "regret", "per_user", "first", "told"
]


@frozen
class TableColumn:
    """A column of a table of results as text.

    Parameters
    ----------
    kind : ColumnKind
        What it holds: policies, groups and so on; a key is what tells rows of one policy apart.
    heading : tuple[str, ...]
        Its heading: one part, or one per dimension of the split.
    texts, short : tuple[str, ...]
        Its cells, and those without intervals; empty where there are none.
    """

    kind: ColumnKind
    heading: tuple[str, ...]
    texts: tuple[str, ...]
    short: tuple[str, ...] = ()


@frozen
class Pooled:
    """The result of one policy, pooled over the instances of some settings.

    Parameters
    ----------
    share : Estimate | None
        Expected reward as a share of the best sequence's; None where there is no benchmark.
    regret : Estimate | None
        DES regret per instance; None where there is no benchmark.
    regret_per_user : Estimate | None
        DES regret per user; None where there is one audience, or no benchmark.
    reward : Estimate
        Expected reward per round, or per visit of many users.
    behind : Estimate | None
        By how much less it earns than the best policy, in what the table measures: paired on
        the same instances and random draws. None for the best policy, and without a pair.
    n_first, n_units : int
        On how many instances it earned the most, and on how many it was played.
    worst_instance : str
        The instance, with its setting, on which it earned the smallest share.
    worst : float
        What it earned there, in what the table measures.
    n_failed : int
        Number of failed cells.
    is_best : bool
        Whether no other policy earned more on average.
    """

    share: Estimate | None
    regret: Estimate | None
    regret_per_user: Estimate | None
    reward: Estimate
    behind: Estimate | None
    n_first: int
    n_units: int
    worst_instance: str
    worst: float
    n_failed: int
    is_best: bool

    @property
    def is_tied(self) -> bool:
        """Whether it cannot be told from the best policy: the interval of ``behind`` holds 0."""
        return (
            self.behind is not None
            and self.behind.half_width is not None
            and self.behind.mean <= self.behind.half_width
        )

    def measured(self, measure: Measure) -> Estimate:
        """Return its share of OPT, or its reward per round or visit."""
        found = self.share if measure == "share" else self.reward
        assert found is not None
        return found


@frozen
class PolicyResults:
    """A row of a table of results: one policy, overall and by group.

    Parameters
    ----------
    policy : str
        The policy's label.
    told : tuple[str, ...]
        What was revealed to it of the instance: ``lam``, ``replenishing_arm``, both or neither.
    overall : Pooled | None
        Over all groups; None if no cell of it finished well.
    groups : tuple[Pooled | None, ...]
        By group, as the table's ``groups``.
    """

    policy: str
    told: tuple[str, ...]
    overall: Pooled | None
    groups: tuple[Pooled | None, ...]


@frozen(repr=False)
class ResultTable:
    """The results of a run, best policy first, pooled over instances: made by ``Run.table``.

    Parameters
    ----------
    name : str
        The experiment's name.
    step : Literal["round", "visit"]
        What horizons count: rounds, or visits of many users.
    measure : Literal["share", "reward"]
        What is compared: the share of the best sequence's reward, or, where a benchmark is
        missing, the reward per round or visit.
    by : tuple[str, ...]
        The dimensions the table is split by, such as ``lam``.
    groups : tuple[tuple, ...]
        Their values, one group per column.
    horizon : int
        The number of rounds or visits of the overall column: the longest, or the chosen one.
    dimensions : Mapping[str, tuple]
        All that varies in the run, with its values; ``instance`` is left out.
    n_instances : int
        Number of instances, over all environments.
    n_units : int
        Number of instances, each counted once per setting, in the overall column.
    n_replications : int
        Number of replications of each cell.
    interval_over : Literal["instances", "replications", "both"]
        What the intervals are over: instances, or replications where there is one instance;
        both if only some environments have several.
    rows : tuple[PolicyResults, ...]
        The policies, best first.
    plans_benchmarks : bool
        Whether the experiment wants benchmarks, though some may not be planned yet.
    """

    name: str
    step: Step
    measure: Measure
    by: tuple[str, ...]
    groups: tuple[Group, ...]
    horizon: int
    dimensions: Mapping[str, tuple[Value, ...]]
    n_instances: int
    n_units: int
    n_replications: int
    interval_over: IntervalOver
    rows: tuple[PolicyResults, ...]
    plans_benchmarks: bool = True

    @property
    def sentence(self) -> str:
        """The answer in one sentence: who earns most, how much, and how far ahead of the next."""
        ranked = [row for row in self.rows if row.overall is not None]
        if not ranked:
            return "No cell has finished well yet."
        best = ranked[0]
        assert best.overall is not None
        earned = best.overall.measured(self.measure)
        words = f"{shown_value(best.policy)} earns {self._amount(earned)}"
        words += f" of {best_words(self.step)}" if self.measure == "share" else f" per {self.step}"
        if beats_benchmark(best.overall):
            words = f"{shown_value(best.policy)} earns more than the benchmark, which is no optimum"
        if len(ranked) == 1:
            return words + "."
        tied = [row for row in ranked if row.overall is not None and row.overall.is_tied]
        if tied:
            names = [shown_value(row.policy) for row in tied]
            if len(names) > MAX_TIED + 1:
                names[MAX_TIED:] = [f"{len(names) - MAX_TIED:,} others"]
            words += f", tied with {listing(names)}"
        behind = [row for row in ranked[1:] if row not in tied]
        if behind and behind[0].overall is not None and behind[0].overall.behind is not None:
            lead = self._lead(behind[0].overall.behind)
            words += f", {lead} ahead of {shown_value(behind[0].policy)}"
        if self.n_units > 1:
            n_first, n_units = best.overall.n_first, best.overall.n_units
            words += f"; on {n_first:,} of {n_units:,} {self._units} it is first"
        return ("So far, " if self._is_uneven else "") + words + "."

    @property
    def _is_uneven(self) -> bool:
        """Whether some policies have no result on some instances, so that means are not alike."""
        played = [row.overall.n_units for row in self.rows if row.overall is not None]
        return min(played, default=self.n_units) < self.n_units

    @property
    def _units(self) -> str:
        """What ranks are counted on: instances, or settings that have one instance each."""
        return "settings" if self.interval_over == "replications" else "instances"

    def _amount(self, found: Estimate) -> str:
        if self.measure == "reward":
            half = "" if found.half_width is None else f" ± {found.half_width:.2g}"
            return f"{found.mean:.4f}{half}"
        half = "" if found.half_width is None else f" ± {100 * found.half_width:.1f}"
        return f"{100 * found.mean:.1f}{half} %"

    def _lead(self, behind: Estimate) -> str:
        """Return how far the best policy is ahead, with the interval of the difference."""
        scale, form, unit = (100, ".1f", " points") if self.measure == "share" else (1, ".4f", "")
        half = "" if behind.half_width is None else f" ± {scale * behind.half_width:{form}}"
        return f"{scale * behind.mean:{form}}{half}{unit}"

    def columns(self) -> list[TableColumn]:
        """Return the columns: policy, one per group, overall, regret, first on, told."""
        overall = [row.overall for row in self.rows]
        columns = [TableColumn("policy", ("policy",), tuple(map(self._name, self.rows)))]
        for index, group in enumerate(self.groups):
            found = [row.groups[index] for row in self.rows]
            columns.append(self._measured("group", self._group_name(group), found))
        if self.by != ("T",):
            alone = "share, %" if self.measure == "share" else f"reward per {self.step}"
            heading = "all" if self.groups else alone
            columns.append(self._measured("overall", (heading,), overall))
        if self.measure == "share":
            columns.append(TableColumn("regret", ("regret",), tuple(map(_regret, overall))))
            if any(own is not None and own.regret_per_user is not None for own in overall):
                texts = tuple(map(_regret_per_user, overall))
                columns.append(TableColumn("per_user", ("per user",), texts))
        if self.n_units > 1 and len(self.rows) > 1:
            columns.append(TableColumn("first", ("first on",), tuple(map(_first, overall))))
        told = tuple(", ".join(row.told) or "nothing" for row in self.rows)
        return [*columns, TableColumn("told", ("told",), told)]

    def _name(self, row: PolicyResults) -> str:
        failed = row.overall.n_failed if row.overall is not None else 0
        return ascii_controls(row.policy) + (f" ({failed:,} failed)" if failed else "")

    def _group_name(self, group: Group) -> tuple[str, ...]:
        if self.by == ("environment",):
            return (shown_value(group[0]),)
        names = map(shown_value, self.by)
        return tuple(f"{d} = {shown_value(v)}" for d, v in zip(names, group, strict=True))

    def _measured(
        self, kind: ColumnKind, heading: tuple[str, ...], found: Sequence[Pooled | None]
    ) -> TableColumn:
        texts, short = ([self.entry(own, interval=i) for own in found] for i in (True, False))
        return TableColumn(kind, heading, tuple(texts), tuple(short))

    @property
    def headings(self) -> list[str]:
        """The headings of the columns: policy, one per group, overall, regret, first on, told."""
        return [", ".join(column.heading) for column in self.columns()]

    def texts(self) -> Iterator[list[str]]:
        """Yield the cells of each row, as the headings: ``*`` marks the best, ``=`` the tied."""
        for row in zip(*(column.texts for column in self.columns()), strict=True):
            yield list(row)

    def entry(self, found: Pooled | None, *, interval: bool = True) -> str:
        """Return a mean with its interval: ``*`` after the best, ``=`` after one tied with it."""
        if found is None:
            return "failed"
        value = found.measured(self.measure)
        scale, form = (100, ".1f") if self.measure == "share" else (1, ".4f")
        beaten = beats_benchmark(found)
        text = "> 100" if beaten else f"{scale * value.mean:{form}}"
        if interval and value.half_width is not None and not beaten:
            text += f" ± {scale * value.half_width:{form}}"
        return text + self._mark(found)

    def _mark(self, found: Pooled | None) -> str:
        if len(self.rows) < 2 or found is None:
            return ""
        return BEST if found.is_best else TIED if found.is_tied else ""

    @property
    def legend(self) -> list[str]:
        """What the numbers, marks and columns mean, a line each."""
        return list(self.explain({column.kind for column in self.columns()}))

    def explain(self, kinds: Set[ColumnKind]) -> Iterator[str]:
        """Yield what the numbers and marks mean, and what these columns are."""
        yield self._measure_words()
        if self._is_uneven:
            some = f"not every policy has finished on all {self._units}"
            yield f"{some}, so means are of different ones"
        if len(self.rows) > 1:
            marks = [self._mark(own) for row in self.rows for own in (row.overall, *row.groups)]
            tied = "; = tied: the difference, paired by instance and luck, may be 0"
            yield "* earns the most" + (tied if TIED in marks else "")
        yield from self._regret_words(kinds)
        if "first" in kinds:
            yield f"first on: {self._first_words()}"
        others = [name for name in self.dimensions if name not in self.by and name != "T"]
        if others:
            words = [_plural(name) for name in others]
            yield f"each number is a mean over {listing(words)}"
        if "environment" in self.dimensions:
            column = "all: " if "overall" in kinds and self.groups else ""
            yield f"{column}every environment counts the same, however many settings it has"
        if "told" in kinds:
            known = "T" if self.step == "round" else "of visits"
            yield f"told: what a policy knows beforehand, besides the number of arms and {known}"

    def _measure_words(self) -> str:
        what = f"share of {best_words(self.step)}'s reward in %"
        if self.measure == "reward":
            what = reward_words(self.step, self.plans_benchmarks)
        at = f", {horizon_words(self.horizon, self.step)}"
        if "T" in self.by:
            at = "; T counts visits" if self.step == "visit" else ""
        over = self._interval_words()
        return f"{what}{at}; ± 95 % over {over}" if over else f"{what}{at}; one value each"

    def _regret_words(self, kinds: Set[ColumnKind]) -> Iterator[str]:
        if "regret" in kinds:
            at = f" at T = {self.horizon:,}" if "T" in self.by else ""
            yield f"regret: expected reward lost against {best_words(self.step)}{at}"
        if "per_user" in kinds:
            yield "per user: that regret, divided by the number of users"
        if self.step == "visit" and self.measure == "share":
            what = "what to show at which state, not knowing when a user leaves"
            yield f"{best_words(self.step)}: {what}"

    def _first_words(self) -> str:
        """Return what ranks are counted on, also where instances count more than once."""
        if self._units == "settings" or self.n_units == self.n_instances:
            return f"on how many {self._units} it earns the most"
        varying = [name for name in self.dimensions if name not in ("environment", "T")]
        counts = [len(self.dimensions[name]) for name in varying]
        at = "all their settings"
        if self.n_units == self.n_instances * math.prod(counts):
            values = zip(counts, map(shown_value, varying), strict=True)
            at = listing([f"{count:,} values of {name}" for count, name in values])
        units = f"{self.n_units:,}: {self.n_instances:,} instances at {at}"
        return f"how often it earns the most; {units}"

    def _interval_words(self) -> str:
        return interval_words(self.interval_over, self.n_instances, self.n_replications)

    def told_lines(self) -> list[str]:
        """Return who was told what, a line each; one line if all were told the same."""
        groups: dict[tuple[str, ...], list[str]] = {}
        for row in self.rows:
            groups.setdefault(row.told, []).append(shown_value(row.policy))
        ordered = sorted(groups.items(), key=lambda group: (-len(group[0]), group[0]))
        if len(ordered) == 1:
            words = listing(ordered[0][0]) if ordered[0][0] else "nothing"
            return [f"told {words}: every policy"]
        return [f"told {listing(told) or 'nothing'}: {', '.join(who)}" for told, who in ordered]

    def to_markdown(self) -> str:
        """Return the table in Markdown, ready for a README."""
        rows = [[_markdown(text) for text in row] for row in [self.headings, *self.texts()]]
        rule = ["---", *["---:"] * (len(self.headings) - 2), "---"]
        lines = ["| " + " | ".join(row) + " |" for row in (rows[0], rule, *rows[1:])]
        return "\n".join(lines) + "\n"

    def to_latex(self) -> str:
        """Return the table in LaTeX, with the rules of booktabs; the best in bold."""
        columns = "l" + "r" * (len(self.headings) - 2) + "l"
        lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
        lines += [" & ".join(map(_latex, self.headings)) + r" \\", r"\midrule"]
        lines += [" & ".join(map(_latex_entry, row)) + r" \\" for row in self.texts()]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"

    def to_dict(self) -> dict[str, object]:
        """Return all of it as nested mappings and lists, as JSON has them; no NaN, but None."""
        return {
            "name": self.name,
            "sentence": self.sentence,
            "step": self.step,
            "measure": self.measure,
            "by": list(self.by),
            "horizon": self.horizon,
            "dimensions": {name: list(values) for name, values in self.dimensions.items()},
            "n_instances": self.n_instances,
            "n_units": self.n_units,
            "n_replications": self.n_replications,
            "interval_over": self.interval_over,
            "policies": [
                {
                    "policy": row.policy,
                    "told": list(row.told),
                    "overall": _nested(row.overall, self.step),
                    "groups": [
                        dict(zip(self.by, group, strict=True))
                        | {"results": _nested(own, self.step)}
                        for group, own in zip(self.groups, row.groups, strict=True)
                    ],
                }
                for row in self.rows
            ],
            "legend": self.legend,
        }

    def to_records(self) -> list[dict[str, object]]:
        """Return one flat mapping per policy and group, and one per policy overall.

        The keys are the columns of ``to_pandas``: the policy, the dimensions of the split (None
        in the overall rows), means with half-widths, and the rest of what is pooled.
        """
        found = []
        for row in self.rows:
            nothing = (None,) * len(self.by)
            for group, own in [*zip(self.groups, row.groups, strict=True), (nothing, row.overall)]:
                place = dict(zip(self.by, group, strict=True))
                found.append(
                    {"policy": row.policy, **place, **_record(own, self.step), "told": row.told}
                )
        return found

    def to_pandas(self) -> "pandas.DataFrame":
        """Return a pandas frame, one row per policy and group; needs pandas."""
        import pandas

        return pandas.DataFrame(self.to_records())

    def __str__(self) -> str:
        rows = [self.headings, *self.texts()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        last = len(widths) - 1
        lines = [
            "  ".join(
                text.ljust(width) if place in (0, last) else text.rjust(width)
                for place, (text, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join([self.sentence, "", *lines, "", *self.legend])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(text)}</th>" for text in self.headings)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>"
            for row in self.texts()
        )
        legend = "<br>".join(map(html.escape, self.legend))
        return (
            f"<p><strong>{html.escape(self.sentence)}</strong></p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"<p><small>{legend}</small></p>"
        )


def shown_value(value: Value) -> str:
    """Return a label or a value of a dimension for reading: safe to print, on one line.

    >>> shown_value(100_000), shown_value(0.1), shown_value("1/T")
    ('100,000', '0.1', '1/T')
    """
    if isinstance(value, str | bool):
        return one_line(str(value), MAX_LABEL)
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def best_words(step: Step) -> str:
    """Return what shares are of."""
    return "the best sequence" if step == "round" else "the best decision table"


def reward_words(step: Step, plans_benchmarks: bool) -> str:
    """Return what is shown in place of shares, and why."""
    why = "some benchmarks are missing" if plans_benchmarks else "there is no benchmark"
    return f"expected reward per {step}, for {why}"


def horizon_words(horizon: int, step: Step) -> str:
    """Return a horizon for reading: a number of rounds, or of visits at most."""
    return f"T = {horizon:,}" + (" visits" if step == "visit" else "")


def interval_words(over: IntervalOver, n_instances: int, n_replications: int) -> str:
    """Return what intervals are over, with how many; empty if there are none."""
    instances, replications = f"{n_instances:,} instances", f"{n_replications:,} replications"
    if over == "replications":
        return replications if n_replications > 1 else ""
    if over == "both":
        single = f"over {replications}" if n_replications > 1 else "no interval"
        return f"instances; in environments with only one, {single}"
    return instances + (f", {replications} each" if n_replications > 1 else "")


def beats_benchmark(found: Pooled) -> bool:
    """Return whether more was earned than the benchmark earns, beyond rounding."""
    return found.share is not None and found.share.mean > BEATEN


def _plural(dimension: str) -> str:
    return "environments" if dimension == "environment" else f"values of {shown_value(dimension)}"


def _first(found: Pooled | None) -> str:
    return "-" if found is None else f"{found.n_first:,} of {found.n_units:,}"


def _regret(found: Pooled | None) -> str:
    if found is None or found.regret is None:
        return "-"
    half = found.regret.half_width
    return f"{found.regret.mean:,.1f}" + ("" if half is None else f" ± {half:,.1f}")


def listing(words: Sequence[str]) -> str:
    """Return words as a list for reading, the last with "and"; empty without any."""
    *others, last = words or [""]
    return f"{', '.join(others)} and {last}" if others else last


def _regret_per_user(found: Pooled | None) -> str:
    if found is None or found.regret_per_user is None:
        return "-"
    half = found.regret_per_user.half_width
    return f"{found.regret_per_user.mean:.3f}" + ("" if half is None else f" ± {half:.3f}")


_COUNTS = ("n_first", "n_units", "worst", "worst_instance", "n_failed", "is_best", "is_tied")


def _estimates(found: Pooled, step: Step) -> dict[str, Estimate | None]:
    of_users = {"regret_per_user": found.regret_per_user} if step == "visit" else {}
    return {
        "share": found.share,
        "regret": found.regret,
        **of_users,
        f"reward_per_{step}": found.reward,
        "behind": found.behind,
    }


def _record(found: Pooled | None, step: Step) -> dict[str, object]:
    """Return pooled results as a flat mapping."""
    if found is None:
        return {}
    record: dict[str, object] = {}
    for name, value in _estimates(found, step).items():
        record[name] = None if value is None else value.mean
        record[f"{name}_half_width"] = None if value is None else value.half_width
    return record | {name: getattr(found, name) for name in _COUNTS}


def _nested(found: Pooled | None, step: Step) -> dict[str, object] | None:
    """Return pooled results with each mean and its half-width in a mapping of their own."""
    if found is None:
        return None
    nested: dict[str, object] = {
        name: None if value is None else {"mean": value.mean, "half_width": value.half_width}
        for name, value in _estimates(found, step).items()
    }
    return nested | {name: getattr(found, name) for name in _COUNTS}


def _markdown(text: str) -> str:
    """Return text with what Markdown would interpret escaped; the best in bold."""
    bold = text.endswith(BEST)
    plain = "".join(f"\\{c}" if c in "\\`*[]<>|" else c for c in text.removesuffix(BEST))
    return f"**{plain}**" if bold else plain


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    **{c: f"\\{c}" for c in "&%$#_{}"},
}


def _latex(text: str) -> str:
    """Return text with what LaTeX would interpret escaped."""
    return "".join(_LATEX.get(c, c) for c in text)


def _latex_entry(text: str) -> str:
    """Return the text of a cell; the best in bold, as papers have it, a tied one marked."""
    return rf"\textbf{{{_latex(text.removesuffix(BEST))}}}" if text.endswith(BEST) else _latex(text)
