"""Expansion of grids: one table of an experiment file as all the variants it stands for.

A parameter given as a list where one value is wanted is an axis of a grid; a number given
as a string is a formula in T and K.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

from attrs import AttrsInstance, fields, frozen

from bdes_framework._internal.text import ascii_controls, quoted
from bdes_framework.errors import ConfigError, InvalidValueError, Mistake
from bdes_framework.experiment.arms import MAX_INSTANCES
from bdes_framework.experiment.formulas import evaluate
from bdes_framework.experiment.result_table import Value
from bdes_framework.interfaces import Kind
from bdes_framework.plugin import config_types as ct
from bdes_framework.plugin.registry import Entry

_INSTANCE_AXES = ("arms", "arms.seed", "arms.file")
"""What makes instances of one environment, if it is given several values."""

_DIMENSIONS = {"arms.n": "K"}
"""Axes under the names they have in results."""


@frozen
class Source:
    """An environment or policy of the file: its entry, label, and the values of parameters."""

    kind: Kind
    path: str
    entry: Entry
    label: str
    axes: Mapping[str, list[object]]

    @property
    def size(self) -> int:
        """Number of variants."""
        return math.prod(map(len, self.axes.values()))

    def variants(self) -> Iterator[tuple[str, dict[str, object]]]:
        """Yield the label and the values of every variant."""
        for combination in itertools.product(*self.axes.values()):
            chosen = dict(zip(self.axes, combination, strict=True))
            words = [f"{name}={_short(chosen[name])}" for name in self._varying()]
            yield (f"{self.label} ({', '.join(words)})" if words else self.label), chosen

    def dimensions(self, chosen: Mapping[str, object]) -> tuple[dict[str, Value], str]:
        """Return a variant's values of what varies, and the name of its instance.

        Arms drawn with several seeds, or listed, are instances; all else that varies is a
        dimension of the results.
        """
        values: dict[str, Value] = {}
        instance = []
        for name in self._varying():
            value = chosen[name]
            if name in _INSTANCE_AXES:
                instance.append(_short(value))
            else:
                plain = value if isinstance(value, str | int | float) else _short(value)
                values[_DIMENSIONS.get(name, name)] = plain
        return values, " ".join(instance)

    def _varying(self) -> list[str]:
        return [name for name, values in self.axes.items() if len(values) > 1]


def axes_of(
    entry: Entry, table: Mapping[str, object], path: str
) -> tuple[dict[str, list[object]], list[Mistake]]:
    """Return the values each parameter of a table takes, and the mistakes in their lists."""
    kinds = ct.field_types(entry.config)
    given: dict[str, tuple[object, bool]] = {}
    mistakes: list[Mistake] = []
    for name, value in table.items():
        if name == "arms" and takes_arms(entry.config) and isinstance(value, Mapping):
            arms, wrong = _with_seeds(value, f"{path}.arms")
            mistakes += wrong
            given |= {f"arms.{key}": (inner, key in ("r", "b")) for key, inner in arms.items()}
        elif name == "arms" and takes_arms(entry.config) and _is_list_of_tables(value):
            given[name] = _named(value), False
        else:
            given[name] = value, takes_list(kinds.get(name, ct.ANYTHING))
    axes: dict[str, list[object]] = {}
    for name, (value, is_list) in given.items():
        values = value if isinstance(value, list) and not is_list else [value]
        if not values:
            mistakes.append(Mistake(f"{path}.{name}", "is an empty list"))
        axes[name], repeated = _distinct(values)
        mistakes += [
            Mistake(f"{path}.{name}", f"has {quoted(label)} twice in its grid")
            for label in repeated
        ]
    return axes, mistakes


def _with_seeds(
    arms: Mapping[str, object], path: str
) -> tuple[Mapping[str, object], list[Mistake]]:
    """Return a table of arms with ``instances`` spelled out as seeds, and what is wrong with it."""
    n, first = arms.get("instances", 1), arms.get("seed", 0)
    if isinstance(n, list):
        return arms, [Mistake(f"{path}.instances", "must be one number, got a list")]
    if isinstance(first, list) and "instances" in arms:
        return arms, [Mistake(f"{path}.instances", "counts seeds from 'seed' on: give it one")]
    # What is no number is left as it stands: checked as every other table is.
    if not isinstance(n, int) or not isinstance(first, int) or "generator" not in arms:
        return arms, []
    if not 1 < n <= MAX_INSTANCES:
        return arms, []
    rest = {key: value for key, value in arms.items() if key != "instances"}
    return {**rest, "seed": [first + i for i in range(n)]}, []


def _is_list_of_tables(value: object) -> TypeGuard[list[Mapping[str, object]]]:
    return isinstance(value, list) and all(isinstance(each, Mapping) for each in value)


def _named(tables: list[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """Return a list of arms in which each has a name: its number where it has none."""
    return [{"name": str(number), **table} for number, table in enumerate(tables, start=1)]


def duplicate_labels(sources: Sequence[Source]) -> Iterator[Mistake]:
    """Yield a mistake for each label that two variants share."""
    owners: dict[str, Source] = {}
    for source in sources:
        reported: set[str] = set()
        for label, _ in source.variants():
            owner = owners.get(label)
            if owner is None:
                owners[label] = source
            elif owner.path not in reported:
                reported.add(owner.path)
                other = f"also that of {owner.path}, or of one of its variants; give each its own"
                which = "that of two of its variants" if owner is source else f"{other} 'label'"
                yield Mistake(source.path, f"the label {quoted(label)} is {which}")


def _distinct(values: list[object]) -> tuple[list[object], list[str]]:
    """Return values without repetitions (of 1, 1.0 and "1", say), and the labels of those."""
    seen: set[str] = set()
    repeated: dict[str, None] = {}
    kept: list[object] = []
    for value in values:
        labels = {_short(value), _short(_normal(value))}
        if labels & seen:
            repeated[_short(value)] = None
        else:
            kept.append(value)
        seen |= labels
    return kept, list(repeated)


def _short(value: object) -> str:
    """Return a value as a label shows it: arms by name, a table by what it uses and sets."""
    if isinstance(value, Mapping):
        if "use" not in value and isinstance(name := value.get("name"), str):
            return ascii_controls(name)
        settings = [f"{key}={_inner(inner)}" for key, inner in value.items() if key != "use"]
        return " ".join([_short(value.get("use", "")), *settings]).strip()
    return ascii_controls(str(value))


def _inner(value: object) -> str:
    return f"({_short(value)})" if isinstance(value, Mapping) else _short(value)


def _normal(value: object) -> object:
    """Return integers as floats and tables with sorted keys, to compare values of a grid."""
    if isinstance(value, Mapping):
        return {key: _normal(value[key]) for key in sorted(value)}
    return float(value) if type(value) is int and abs(value) < 2**53 else value


def formula_value(
    text: str, path: str, horizon: int, n_arms: int | None, kind: ct.ConfigType
) -> float | int:
    """Return the value of a formula, rounded where the parameter is an integer."""
    try:
        value = evaluate(text, horizon, n_arms)
    except InvalidValueError as error:
        raise ConfigError([Mistake(path, str(error))]) from None
    return value if ct.ScalarType(float) in ct.members_of(kind) else round(value)


def takes_list(kind: ct.ConfigType) -> bool:
    """Return whether a list here is one value, not an axis of a grid."""
    lists = ct.ArrayType | ct.FixedTupleType | ct.ListType
    return any(isinstance(member, lists) for member in ct.members_of(kind))


def wants_number(kind: ct.ConfigType) -> bool:
    """Return whether a string here can only be a formula."""
    members = set(ct.members_of(kind))
    return bool(members & {ct.ScalarType(int), ct.ScalarType(float)}) and not any(
        member == ct.ScalarType(str) or isinstance(member, ct.ChoiceType | ct.ReferenceType)
        for member in members
    )


def takes_arms(config: type[AttrsInstance]) -> bool:
    """Return whether an environment may have a table ``arms`` in place of ``r`` and ``b``."""
    names = {attribute.name for attribute in fields(config)}
    return {"r", "b"} <= names and "arms" not in names
