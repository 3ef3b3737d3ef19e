"""What policies showed of their workings, summed up over replications."""

import json
import math
from collections import Counter
from collections.abc import Sequence

from bdes_framework.report.data import RunData
from bdes_framework.report.html import Cell, Column, brief, table, without

MOST_ROWS = 1_250
MOST_ELEMENTS = 12


def diagnostics(data: RunData) -> str:
    """Return what policies showed of their workings, over replications at the last horizon."""
    groups: dict[tuple[str, str, str], list[object]] = {}
    last = data.horizons[-1] if data.horizons else 0
    for row in data.run.rows():
        if row["horizon"] == last and row["error"] is None:
            for name, value in json.loads(str(row["diagnostics"])).items():
                key = str(row["policy"]), str(row["environment"]), str(name)
                groups.setdefault(key, []).append(value)
    if not groups:
        return '<p class="note">No policy of this run shows diagnostics.</p>'
    rows = [
        [Cell(data.policy_names[policy]), Cell(data.environment_names[environment]),
         Cell(name, limit=60), Cell(_typical(values))]
        for (policy, environment, name), values in list(groups.items())[:MOST_ROWS]
    ]  # fmt: skip
    caption = f"What policies showed at the end, T = {last:,}, over all replications"
    columns = [Column("Policy"), Column("Environment"), Column("Name"), Column("Value")]
    left_out = len(groups) - len(rows)
    return table(caption, columns, rows) + (without(left_out, "lines") if left_out else "")


def _typical(values: list[object]) -> str:
    """Return values of one diagnostic over replications in a few words."""
    numbers = [_numbers(value) for value in values]
    columns = [row for row in numbers if row is not None]
    lengths = {len(row) for row in columns}
    if len(columns) == len(values) and len(lengths) == 1 and 0 < max(lengths) <= MOST_ELEMENTS:
        return ", ".join(_range(column) for column in zip(*columns, strict=True))
    (first, n), *others = Counter(_plain(value) for value in values).most_common()
    return f"{first} ({n} of {len(values)} replications)" if others else first


def _plain(value: object) -> str:
    """Return one value for reading: words without quotes, numbers without needless digits."""
    if isinstance(value, str):
        return value
    numbers = _numbers(value)
    if numbers is None:
        return brief(value)
    words = ", ".join(map(_digits, numbers))
    return f"[{words}]" if isinstance(value, list) else words


def _numbers(value: object) -> list[float] | None:
    """Return the numbers in a value, or None if it is anything else than numbers."""
    given = value if isinstance(value, list) else [value]
    found = [float(x) for x in given if isinstance(x, int | float) and not isinstance(x, bool)]
    return found if len(found) == len(given) else None


def _range(column: Sequence[float]) -> str:
    """Return the mean over replications, and in brackets from where to where they go."""
    finite = [x for x in column if math.isfinite(x)]
    if not finite:
        return "not a number"
    low, high, mean = min(finite), max(finite), math.fsum(finite) / len(finite)
    if low == high:
        return _digits(mean)
    return f"{_digits(mean)} ({_digits(low)} to {_digits(high)})"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e12 else f"{value:.4g}"
