"""HeartSteps V1: ``python -m studies.heartsteps PATH`` writes the numbers and figures of its page.

PATH is a CSV file with the columns ``user``, ``t``, ``arm`` and ``walked``, one row per available
decision of the trial. It is not part of the repository; ``docs/heartsteps.md`` says where it is.
"""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

import altair as alt
import numpy as np
from attrs import frozen

import bdes_framework as bdes
from bdes_framework.fitting.drift import fit_drift
from studies.pages import chart_data, on_white, replaced_between, table

DOCS = Path(__file__).parent.parent / "docs"
BEGIN = "<!-- heartsteps: written by python -m studies.heartsteps PATH -->"
END = "<!-- end of heartsteps -->"
COLUMNS = bdes.Columns(arm="arm", reward="walked", user="user", order="t")
PERMUTATIONS = 999
REFITS = 300
PER_BIN = 20


@frozen(eq=False)
class Measured:
    """What the study finds in a log.

    Parameters
    ----------
    fit : Fit
        The fit of the whole log.
    test : RandomisationTest
        Whether what was shown earlier matters.
    ratio : float
        Twice the log-likelihood that unequal end states gain over one.
    null_ratios : FloatArray
        The same where arms were permuted within people.
    """

    fit: bdes.Fit
    test: bdes.RandomisationTest
    ratio: float
    null_ratios: bdes.FloatArray

    @property
    def ratio_p_value(self) -> float:
        """The p-value of the likelihood ratio by its permutations."""
        return (1 + int((self.null_ratios >= self.ratio).sum())) / (1 + self.null_ratios.size)


def measure(log: bdes.Log, permutations: int = PERMUTATIONS, refits: int = REFITS) -> Measured:
    """Fit a log, test it, and fit it again with arms permuted within people."""
    found = bdes.fit(log)
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(log.n_sequences), np.diff(log.starts, append=log.n_rows))
    null = []
    for _ in range(refits):
        order = np.lexsort((rng.random(log.n_rows), users))
        shuffled = bdes.Log(log.arms[order], log.rewards, log.starts, log.names)
        null.append(likelihood_ratio(shuffled, bdes.fit(shuffled)))
    test = bdes.randomisation_test(log, permutations=permutations)
    return Measured(found, test, likelihood_ratio(log, found), np.array(null))


def likelihood_ratio(log: bdes.Log, found: bdes.Fit) -> float:
    """Return twice what one end state per arm gains over a drift."""
    drift = fit_drift(log, None, 1.0, bounded=True)
    return 2 * (found.evolving.log_likelihood - drift.log_likelihood)


def rows_of(found: Measured) -> Iterator[Mapping[str, str]]:
    """Yield what is asked, the answer and how it was found."""
    fit = found.fit
    state = fit.evolving.bic - fit.stationary.bic
    drift = fit.evolving.bic - fit.drifting.bic
    freedom = fit.evolving.n_parameters - fit.drifting.n_parameters
    yield {
        "question": "Does a state explain the log better than none?",
        "answer": "it seems so" if state < 0 else "no",
        "how": f"BIC {state:+.1f}",
    }
    yield {
        "question": "Better than a drift, one end state for all arms?",
        "answer": "yes" if drift < 0 else "no",
        "how": f"BIC {drift:+.1f}; likelihood ratio {found.ratio:.1f} on {freedom}",
    }
    yield {
        "question": "... by the likelihood ratio's own null distribution?",
        "answer": "yes" if found.ratio_p_value < 0.05 else "no",
        "how": f"p = {found.ratio_p_value:.2f}: the log is fitted again with arms permuted within"
        f" people, {found.null_ratios.size} times; 95 % of ratios are below"
        f" {np.quantile(found.null_ratios, 0.95):.1f}",
    }
    yield {
        "question": "Does what was shown earlier matter at all?",
        "answer": "yes" if found.test.p_value < 0.05 else "no evidence",
        "how": f"randomisation test, {found.test}",
    }


def bins(log: bdes.Log, drift: bdes.Instance) -> Iterator[Mapping[str, object]]:
    """Yield the share that paid by arm and number of the decision, and what a drift predicts."""
    numbers = np.arange(log.n_rows) - np.repeat(log.starts, np.diff(log.starts, append=log.n_rows))
    for first in range(0, int(numbers.max()) + 1, PER_BIN):
        inside = (numbers >= first) & (numbers < first + PER_BIN) & log.known
        for arm, name in enumerate(log.names):
            some = inside & (log.arms == arm)
            if some.sum() < PER_BIN:
                continue
            kept = (1 - drift.lam) ** numbers[some]
            means = drift.r[arm] * (drift.b[arm] + (drift.q0 - drift.b[arm]) * kept)
            yield {
                "decision": first + PER_BIN // 2,
                "shown": name,
                "paid": float(log.rewards[some].mean()),
                "drift": float(means.mean()),
            }


def curve_chart(log: bdes.Log, drift: bdes.Instance) -> alt.TopLevelMixin:
    """Return how often people walked, and a drift's prediction."""
    base = chart_data(bins(log, drift)).encode(
        x=alt.X("decision:Q", title="number of the decision"),
        color=alt.Color("shown:N", title="suggested"),
    )
    scale = alt.Scale(zero=False)
    points = base.mark_point(filled=True, size=40).encode(
        y=alt.Y("paid:Q", title="share who walked", scale=scale)
    )
    lines = base.mark_line().encode(y=alt.Y("drift:Q", scale=scale))
    return on_white((lines + points).properties(width=460, height=240))


def null_chart(found: Measured) -> alt.TopLevelMixin:
    """Return the ratios of permuted logs, and the log's own."""
    values = chart_data({"ratio": float(ratio)} for ratio in found.null_ratios)
    bars = values.mark_bar(color="#9aa5b1").encode(
        x=alt.X("ratio:Q", bin=alt.Bin(maxbins=40), title="likelihood ratio, arms permuted"),
        y=alt.Y("count():Q", title="logs"),
    )
    own = chart_data([{"ratio": found.ratio}]).mark_rule(color="#b42318", size=2)
    return on_white((bars + own.encode(x="ratio:Q")).properties(width=460, height=200))


def write(
    path: Path,
    docs: Path = DOCS,
    permutations: int = PERMUTATIONS,
    refits: int = REFITS,
) -> None:
    """Write the numbers into the page and draw its figures."""
    log = bdes.read_log(path, COLUMNS)
    found = measure(log, permutations, refits)
    page = docs / "heartsteps.md"
    numbers = f"{table(rows_of(found))}\n\n```text\n{found.fit.summary()}\n```"
    page.write_text(replaced_between(page.read_text("utf-8"), BEGIN, END, numbers), "utf-8")
    curve_chart(log, found.fit.drift).save(docs / "img" / "heartsteps-curve.svg")
    null_chart(found).save(docs / "img" / "heartsteps-null.svg")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("path", type=Path)
    write(parser.parse_args().path)


if __name__ == "__main__":
    main()
