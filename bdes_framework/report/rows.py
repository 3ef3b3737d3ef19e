"""Rows that charts need beyond what :mod:`data` says: fitted lines, and where names stand."""

import math
from collections.abc import Mapping, Sequence

from bdes_framework.report.charts import spread
from bdes_framework.report.data import Row, RunData, gap_rows, horizon_rows
from bdes_framework.report.names import clipped
from bdes_framework.report.slopes import Promise, SlopeFit, table_1

MAX_NAME = 16
"""Characters of a policy's name beside its slope; the slope must not be cut off."""

MIN_SHARE = 1e-12
"""Gaps below this are drawn here: a logarithmic axis has no zero."""


def loglog_rows(
    data: RunData,
    environment: str,
    fits: Mapping[tuple[str, str], SlopeFit],
    policies: Sequence[str],
) -> list[Row]:
    """Return mean regret over horizons, fitted lines, and the slope Table 1 promises."""
    means = [
        {"kind": "mean", **row}
        for row in horizon_rows(data, environment)
        if row["policy"] in policies
    ]
    for row in means:
        row["drawn_low"] = max(row["low"], row["value"] / 20)  # nothing negative has a logarithm
    found = {
        data.policy_names[policy]: fit
        for (place, policy), fit in fits.items()
        if place == environment
    }
    name = data.environment_names[environment]
    lines = [
        {"kind": "fit", "environment": name, "policy": policy, "T": horizon,
         "value": fit.at(horizon), "label": f"{clipped(policy, MAX_NAME)}: {fit.slope:.2f}"}
        for policy, fit in found.items()
        for horizon in (fit.horizons[0], fit.horizons[-1])
    ]  # fmt: skip
    promised = _promise_rows(data, environment, means)
    ends = [row for row in [*lines, *promised] if row["T"] == max(r["T"] for r in means)]
    bars = [row[end] for row in means for end in ("drawn_low", "high")]
    _place_labels(ends, [*bars, *(row["value"] for row in [*lines, *promised])])
    return [*means, *lines, *promised]


def promise_of(data: RunData, environment: str) -> Promise | None:
    """Return what Table 1 says of an environment at its longest horizon, if it has a lam."""
    horizon = max(r.horizon for r in data.results if r.environment == environment)
    lam = data.lam_of(environment, horizon)
    return None if lam is None else table_1(lam, horizon)


def _promise_rows(data: RunData, environment: str, means: list[Row]) -> list[Row]:
    """Return a line of the promised slope, a little above everything measured."""
    promise = promise_of(data, environment)
    horizons = sorted({row["T"] for row in means})
    if promise is None or len(horizons) < 2:
        return []
    scale = 1.6 * max(row["value"] / row["T"] ** promise.exponent for row in means)
    return [
        {"kind": "promise", "environment": data.environment_names[environment], "T": horizon,
         "value": scale * horizon**promise.exponent, "label": f"Table 1: {promise.exponent:.2f}"}
        for horizon in (horizons[0], horizons[-1])
    ]  # fmt: skip


def _place_labels(ends: list[Row], values: list[float]) -> None:
    if ends:
        # The axis ends at whole powers of ten.
        lowest = 10 ** math.floor(math.log10(min(values)))
        highest = 10 ** math.ceil(math.log10(max(values)))
        places = spread([row["value"] for row in ends], lowest, highest, log=True)
        for row, place in zip(ends, places, strict=True):
            row["label_at"] = place


def drawn_gap_rows(data: RunData) -> list[Row]:
    """Return the benchmarks' gaps, with what a logarithmic axis can show of them."""
    return [
        {**row, "rounds": f"{row['T']:,}", "drawn_share": max(row["share"], MIN_SHARE)}
        for row in gap_rows(data)
    ]
