"""Tables of results for the terminal; labels are never taken for markup."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from bdes_framework._internal.text import ascii_controls
from bdes_framework.experiment.summary import Estimate, Result, slopes

_MIN_WIDTH_FOR_REWARD = 100
"""The width in characters from which on reward is shown beside regret."""


def results_table(results: Sequence[Result], width: int) -> Table:
    """Return a table of results, with a star at the best policy of each environment and horizon."""
    with_regret = any(result.regret is not None for result in results)
    with_reward = width >= _MIN_WIDTH_FOR_REWARD or not with_regret
    best = _best(results)
    slope_of = slopes(results)
    table = Table(pad_edge=False, box=None, header_style="bold")
    table.add_column("Environment", overflow="fold", min_width=_width(results, "environment"))
    table.add_column("T", justify="right", no_wrap=True)
    table.add_column("Policy", overflow="fold", min_width=_width(results, "policy") + 2)
    if with_reward:
        table.add_column("Reward ± 95 %", justify="right")
        table.add_column("A round", justify="right")
    if with_regret:
        table.add_column("DES regret ± 95 %", justify="right")
        table.add_column("Of OPT", justify="right")
        if slope_of:
            table.add_column("Slope", justify="right")
    for result in results:
        row = [
            ascii_controls(result.environment),
            f"{result.horizon:,}",
            ascii_controls(result.policy) + _remark(result, result in best),
            *(_reward_texts(result) if with_reward else ()),
        ]
        if with_regret:
            row += [estimate_text(result.regret), _fraction(result)]
            if slope_of:
                slope = slope_of.get((result.environment, result.policy))
                row.append("" if slope is None else f"{slope:.2f}")
        style = "bold" if result in best else ""
        table.add_row(*(Text(text) for text in row), style=style)
    return table


def _remark(result: Result, is_best: bool) -> str:
    """Return the text after a policy's label: a star, and the number of failed replications."""
    some = result.n_failed and result.mean is not None
    return (" *" if is_best else "") + (f" ({result.n_failed} failed)" if some else "")


def _reward_texts(result: Result) -> tuple[str, str]:
    """Return the total reward, and the expected reward per round."""
    if result.mean is None:
        return "-", "failed"
    return estimate_text(result.reward), f"{result.mean.mean / result.horizon:.4f}"


def _width(results: Sequence[Result], label: str) -> int:
    """Return the width of a column of labels: that of the longest one, 20 at most."""
    return min(max((len(getattr(result, label)) for result in results), default=0), 20)


def _best(results: Sequence[Result]) -> list[Result]:
    """Return the results with the highest expected reward of their environment and horizon."""
    columns: dict[tuple[str, int], list[Result]] = {}
    for result in results:
        if result.mean is not None:
            columns.setdefault((result.environment, result.horizon), []).append(result)
    return [
        max(column, key=lambda r: r.mean.mean if r.mean is not None else 0.0)
        for column in columns.values()
        if len(column) > 1
    ]


def _fraction(result: Result) -> str:
    if result.mean is None:
        return "failed"
    if result.regret is None:
        return "-"
    optimum = result.mean.mean + result.regret.mean
    return f"{result.mean.mean / optimum:.1%}" if optimum > 0 else "-"


def estimate_text(estimate: Estimate | None) -> str:
    """Return a mean with its interval, or a dash."""
    if estimate is None:
        return "-"
    if estimate.half_width is None:
        return f"{estimate.mean:,.1f}"
    return f"{estimate.mean:,.1f} ± {estimate.half_width:,.1f}"
