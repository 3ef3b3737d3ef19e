"""The page of what was measured: ``python -m studies.crowd.page`` writes docs/crowd-learning.md."""

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from bdes_framework import FloatArray
from studies.crowd.measure import ARRIVALS, FAMILIES, LIFETIMES, RATES, Row, saved
from studies.pages import (
    interval_of_means,
    interval_of_ratio,
    replaced_between,
    slope_with_interval,
    table,
)

PAGE = Path(__file__).parent.parent.parent / "docs" / "crowd-learning.md"
BEGIN = "<!-- crowd: written by python -m studies.crowd.page -->"
END = "<!-- end of crowd -->"

MOST_LOST = 0.007
"""Of the optimum at 10,000 users, in the mean over both families, at every rate."""
MOST_LOST_ONCE = 0.03
"""In any one run."""
MOST_SLOPE = 0.5
LEAST_ADVANTAGE = 5.0
"""Times less regret than the best copies of a policy for one audience, for lam of at least 0.1."""
MOST_FOR_DELAYS = 1.3
MOST_AFTER_WARM_START = 0.5


def chosen(rows: Iterable[Row], part: str, **fields: object) -> list[Row]:
    """Return the rows of a part whose games have these fields."""
    return [
        row
        for row in rows
        if row.game.part == part
        and all(getattr(row.game, name) == value for name, value in fields.items())
    ]


def by_seed(rows: list[Row], value: Callable[[Row], float]) -> FloatArray:
    """Return the mean of both families for each seed that has both."""
    found: dict[int, list[float]] = {}
    for row in rows:
        found.setdefault(row.game.seed, []).append(value(row))
    whole = [values for values in found.values() if len(values) == len(FAMILIES)]
    return np.array([float(np.mean(values)) for values in whole])


def _loss(row: Row) -> float:
    return row.loss


def _table_loss(row: Row) -> float:
    return row.table_regret / row.optimum


def percent(values: FloatArray) -> str:
    """Return a mean of shares and its 95 % interval."""
    low, high = interval_of_means(100 * values[:, None])
    return f"{100 * values.mean():.2f} ({low[0]:.2f} to {high[0]:.2f})"


def pairs(
    ours: list[Row], others: list[Row], value: Callable[[Row], float] = lambda row: row.loss
) -> FloatArray:
    """Return loss, or another value, beside loss, where both have seed and family."""
    theirs = {(row.game.family, row.game.seed): row.loss for row in others}
    both = [(value(row), theirs.get((row.game.family, row.game.seed))) for row in ours]
    return np.array([pair for pair in both if pair[1] is not None], dtype=np.float64)


def ratio(
    ours: list[Row], others: list[Row], value: Callable[[Row], float] = lambda row: row.loss
) -> float:
    """Return mean loss, or another value, against mean loss, where both have seed and family."""
    above, below = pairs(ours, others, value).mean(axis=0)
    return float(above / below)


def times(ours: list[Row], others: list[Row]) -> str:
    """Return mean loss against mean loss, with its 95 % interval."""
    low, high = interval_of_ratio(pairs(ours, others))
    return f"× {ratio(ours, others):.2f} ({low:.2f} to {high:.2f})"


def main_table(rows: list[Row]) -> str:
    lines = []
    for lifetimes in LIFETIMES:
        for lam in RATES:
            these = chosen(rows, "main", lam=lam, lifetimes=lifetimes)
            families = {
                family: np.array([row.loss for row in these if row.game.family == family])
                for family in FAMILIES
            }
            by_table = np.array([_table_loss(row) for row in these])
            lines.append(
                {
                    "lifetimes": lifetimes,
                    "lam": f"{lam:g}",
                    "instances of each": str(len(families["uniform"])),
                    "click-bait": percent(families["click-bait"]),
                    "uniform": percent(families["uniform"]),
                    "both": percent(by_seed(these, _loss)),
                    "worst run": f"{100 * max(row.loss for row in these):.2f}",
                    "against the table": f"{100 * by_table.mean():.2f}",
                }
            )
    return table(lines)


def arrivals_table(rows: list[Row]) -> str:
    lines = []
    for arrivals, lifetimes, told in itertools.product(ARRIVALS, LIFETIMES, (True, False)):
        line: dict[str, str] = {"arrivals": arrivals, "lifetimes": lifetimes}
        line["told"] = "how often users come" if told else "nothing"
        both: dict[str, Callable[[Row], float]] = {"optimum": _loss}
        if lifetimes == "fixed":  # where they are geometric, the best table is the optimum
            both["table"] = _table_loss
        for against, loss in both.items():
            of_rates: dict[str, str] = {}
            for lam in RATES:
                fields = {"lifetimes": lifetimes, "arrivals": arrivals, "told": told}
                these = chosen(rows, "arrivals", lam=lam, **fields)
                worst = 100 * max(map(loss, these))
                mean = 100 * by_seed(these, loss).mean()
                of_rates[f"lam = {lam:g}"] = f"{mean:.2f} ({worst:.2f})"
            lines.append(line | {"against": against} | of_rates)
    return table(lines)


def growth_table(rows: list[Row]) -> str:
    lines = []
    for lam in RATES:
        these = chosen(rows, "growth", lam=lam)
        if not these:
            continue
        marks = these[0].marks
        regret = np.array([row.regret_at for row in these])
        slope, low, high = slope_with_interval(marks, regret)
        line = {"lam": f"{lam:g}", "instances": str(len(these))}
        line |= {
            f"{mark:,}": f"{value:,.0f}"
            for mark, value in zip(marks, regret.mean(axis=0), strict=True)
        }
        lines.append(line | {"slope": f"{slope:.2f} ({low:.2f} to {high:.2f})"})
    return table(lines)


def best_copies(rows: list[Row], way: str, lam: float) -> tuple[str, list[Row]]:
    """Return the policy whose copies lose least at a rate, and its rows."""
    found: dict[str, list[Row]] = {}
    for row in chosen(rows, "best", lam=lam):
        if row.game.policy.startswith(way):
            found.setdefault(row.game.policy, []).append(row)
    name = min(found, key=lambda policy: float(np.mean([row.loss for row in found[policy]])))
    return name, found[name]


def advantage_table(rows: list[Row]) -> str:
    lines = []
    for lam in RATES:
        ours = chosen(rows, "main", lam=lam, lifetimes="geometric")
        line = {"lam": f"{lam:g}", "crowd-posterior": percent(by_seed(ours, _loss))}
        least = np.inf
        for way in ("each", "pooled"):
            name, theirs = best_copies(rows, way, lam)
            least = min(least, 1.0 / ratio(ours, theirs))
            line[f"best of {way}"] = f"{name}: {percent(by_seed(theirs, _loss))}"
        lines.append(line | {"times less": f"{least:.1f}"})
    return table(lines)


def larger_table(rows: list[Row]) -> str:
    lines = []
    for part, what in (("arms", "K = 20, 10,000 users"), ("visits", "500 visits, 3,000 users")):
        for lam in RATES:
            these = chosen(rows, part, lam=lam)
            if these:
                line = {"": what, "lam": f"{lam:g}", "instances": str(len(these))}
                for family in FAMILIES:
                    losses = [row.loss for row in these if row.game.family == family]
                    line[family] = f"{100 * np.mean(losses):.2f}" if losses else ""
                lines.append(line)
    return table(lines)


def delays_table(rows: list[Row]) -> str:
    lines = []
    for lam in RATES:
        plain = chosen(rows, "main", lam=lam, lifetimes="geometric")
        these = chosen(rows, "delays", lam=lam)
        whole, blind = ratio(these, plain), ratio(these, plain, _blind_loss)
        least = ratio(these, plain, _least_blind_loss)
        lines.append(
            {
                "lam": f"{lam:g}",
                "instances": str(len(these)),
                "loss": percent(by_seed(these, _loss)),
                "times that without": times(these, plain),
                "of it blindly": f"× {blind:.2f}",
                "of it later": f"× {whole - blind:.2f}",
                "anybody's, blindly": f"× {least:.2f}",
                f"× {MOST_FOR_DELAYS:g} is": _verdict(whole, least),
            }
        )
    return table(lines)


def _verdict(whole: float, least: float) -> str:
    """Return whether late rewards cost no more than was asked for, or cannot."""
    if whole <= MOST_FOR_DELAYS:
        return "kept"
    return "out of anybody's reach" if least > MOST_FOR_DELAYS else "missed"


def _blind_loss(row: Row) -> float:
    return row.blind_regret / row.optimum


def _least_blind_loss(row: Row) -> float:
    return row.least_blind_regret / row.optimum


def warm_table(rows: list[Row]) -> str:
    lines = []
    for lam in RATES:
        plain = chosen(rows, "main", lam=lam, lifetimes="geometric")
        these = chosen(rows, "warm", lam=lam)
        line = {"lam": f"{lam:g}", "instances": str(len(these))}
        line["loss"] = percent(by_seed(these, _loss))
        lines.append(line | {"times that without": times(these, plain)})
    return table(lines)


def text_of(rows: list[Row]) -> str:
    """Return the section of the page."""
    main = chosen(rows, "main")
    speed = 1e6 * sum(row.seconds for row in main) / sum(row.visits for row in main)
    arrivals = len({row.game.seed for row in chosen(rows, "arrivals")})
    screened = {row.game.policy for row in chosen(rows, "screen")}
    copies = len({row.game.seed for row in chosen(rows, "best")})
    return "\n\n".join(
        [
            (
                "Share of the optimum that is lost in all, in per cent, with 95 % intervals over"
                f" instances; 10,000 users, K = 5, nothing known. {speed:.1f} µs a visit, fits and"
                " the environment included."
            ),
            main_table(rows),
            (
                "The same where all 10,000 users are there from the start, so that for long nobody"
                f" is seen to leave; {arrivals} instances of each family, mean and worst run."
                " Told is nothing, or that users come 50 times on average. The optimum knows each"
                " user's last visit where lifetimes are fixed; the table does not, and nor can"
                " anybody who has not seen one leave:"
            ),
            arrivals_table(rows),
            "Regret of the first so many users, lifetimes geometric, and its log-log slope:",
            growth_table(rows),
            (
                f"Beside the best of {len(screened) // 2} policies for one audience, as copies for"
                " `each` user or `pooled`, all screened at every rate on few users, and the best"
                f" then measured on {copies} instances of each family (`each` on 100 users, who do"
                " not learn from one another):"
            ),
            advantage_table(rows),
            "More arms, and longer lives:",
            larger_table(rows),
            (
                "Rewards 1,000 visits late of which 10 % are lost: loss, and times that without;"
                " then what of it the first 1,000 visits cost, before any reward is known, and what"
                " all later ones. Who knows no reward cannot tell arms apart: averaged over all"
                " orders of the arms, no policy loses less in those visits than the last figure,"
                " even if it knew everything from then on. So whoever loses as little as this"
                " without delays has at least that ratio with them:"
            ),
            delays_table(rows),
            (
                "All visits after the first 1,000 cost less than a whole game without delays, at"
                " every rate: what is missed is lost where nobody knows a reward. The less a policy"
                " loses without delays, the larger this ratio is."
            ),
            "A warm start from 100,000 logged rows: loss, and times that without.",
            warm_table(rows),
            _asked(rows),
        ]
    )


def _asked(rows: list[Row]) -> str:
    """Return what was asked for, and what of it does not hold."""
    asked = (
        f"Asked for: at most {100 * MOST_LOST:g} % lost at every rate, and {100 * MOST_LOST_ONCE:g}"
        f" % in any run; a slope of at most {MOST_SLOPE:g}; at least {LEAST_ADVANTAGE:g} times less"
        f" regret than copies for lam of at least 0.1; at most {MOST_FOR_DELAYS:g} times the regret"
        f" with late and lost rewards, and {MOST_AFTER_WARM_START:g} times after a warm start."
    )
    missed = [f"- {each}" for each in failures(rows)]
    return "\n".join([f"{asked} What does not hold:", "", *missed] if missed else [asked])


def failures(rows: list[Row]) -> list[str]:
    """Return which bounds do not hold."""
    return [each for lam in RATES for each in _failures_at(rows, lam)]


def _failures_at(rows: list[Row], lam: float) -> Iterator[str]:
    for lifetimes in LIFETIMES:
        for arrivals, told in (("cohorts", False), *itertools.product(ARRIVALS, (True, False))):
            part = "main" if arrivals == "cohorts" else "arrivals"
            fields = {"lifetimes": lifetimes, "arrivals": arrivals, "told": told}
            these = chosen(rows, part, lam=lam, **fields)
            mean, worst = by_seed(these, _loss).mean(), max(row.loss for row in these)
            if mean > MOST_LOST or worst > MOST_LOST_ONCE:
                share = f"{100 * mean:.2f} % lost, at worst {100 * worst:.2f} %"
                how = f"arrivals {arrivals}, lifetimes {lifetimes}"
                known = ", told how often users come" if told else ""
                yield f"lam = {lam:g}, {how}{known}: {share}"
    plain = chosen(rows, "main", lam=lam, lifetimes="geometric")
    if growth := chosen(rows, "growth", lam=lam):
        regret = np.array([row.regret_at for row in growth])
        if (slope := slope_with_interval(growth[0].marks, regret)[0]) > MOST_SLOPE:
            yield f"lam = {lam:g}: slope {slope:.2f}"
    for part, most in (("delays", MOST_FOR_DELAYS), ("warm", MOST_AFTER_WARM_START)):
        these = chosen(rows, part, lam=lam)
        if these and (whole := ratio(these, plain)) > most:
            least = ratio(these, plain, _least_blind_loss)
            bound = f", {least:.2f} of them lost by whoever plays" if least else ""
            yield f"lam = {lam:g}, {part}: {whole:.2f} times the regret{bound}"
    for way in ("each", "pooled") if lam >= RATES[1] else ():
        name, theirs = best_copies(rows, way, lam)
        if (less := 1.0 / ratio(plain, theirs)) < LEAST_ADVANTAGE:
            yield f"lam = {lam:g}: only {less:.1f} times less than {name}"


def main() -> None:
    rows = saved()
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(replaced_between(text, BEGIN, END, text_of(rows)), encoding="utf-8")
    wrong = failures(rows)
    print("\n".join(wrong) or "all bounds hold")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
