"""The page without a browser: its words, its order, and what stays text."""

import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from bdes_framework import load_run
from bdes_framework.report.data import RunData, final_rows, gap_rows
from bdes_framework.report.page import Settings, report_page
from bdes_framework.report.slopes import fit_slopes
from bdes_framework.report.tables import typical
from tests.support.experiments import changed
from tests.support.reports import (
    EXPERIMENT,
    HOSTILE_ERROR,
    HOSTILE_NAME,
    HOSTILE_POLICY,
    PLAIN,
    make_run,
    totals,
)


class Page(HTMLParser):
    """Collects a page's tags, its visible text and the cells of its tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source = text
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.text = ""
        self._inside: list[str] = []
        self._rows: list[list[str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "img"):
            self._inside.append(tag)
        if tag == "table":
            self._rows = []
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._inside.pop() == tag, f"{tag} closes what it did not open"
        if tag == "caption":
            self.tables[self._caption] = self._rows

    def handle_data(self, data: str) -> None:
        if self._inside and self._inside[-1] in ("script", "style"):
            return
        self.text += data
        if "caption" in self._inside:
            self._caption = data
        elif self._rows and self._inside and {"td", "th"} & set(self._inside):
            self._rows[-1][-1] += data


def page_of(run: Path, paths: int = 60) -> Page:
    with load_run(run) as found:
        return Page(report_page(RunData(found), Settings(paths)))


@pytest.fixture(scope="module")
def plain_page(plain: Path) -> Page:
    return page_of(plain, paths=2)


def test_page_begins_with_the_table_of_the_terminal(study: Path, study_data: RunData) -> None:
    page, table = page_of(study, paths=0), study_data.table
    assert page.text.index(table.sentence) < page.text.index("Results")
    caption = table.legend[0]
    assert page.tables[caption[0].upper() + caption[1:]] == [table.headings, *table.texts()]
    # Pickers and panels name settings, never one of the instances.
    assert "arms.seed" not in page.source.partition('<h2 id="h-details">')[0]


def test_fold_has_a_row_per_environment(study: Path) -> None:
    page = page_of(study, paths=0)
    head, *rows = page.tables["Environments, with parameters as they are at the longest horizon"]
    assert head[-2:] == ["What varies", "Instances"]
    assert rows == [["bernoulli", "bernoulli", "r, b differ", "lam = 0.05, 0.3", "3"]]
    assert "arms.seed" not in page.text


def test_filter_has_a_ranked_table_for_every_choice(study: Path, study_data: RunData) -> None:
    page = page_of(study, paths=0)
    wheres = [a["data-where"] for tag, a in page.tags if "data-where" in a]
    assert wheres == ["-1 -1", "-1 0", "-1 1"]  # lam is split by, so its columns are enough
    short = study_data.run.table(horizon=50)
    assert short.sentence in page.text
    caption = short.legend[0]
    assert page.tables[caption[0].upper() + caption[1:]][1:] == list(short.texts())


def test_tables_show_every_setting_and_slopes(plain_page: Page, data: RunData) -> None:
    head, *rows = plain_page.tables["Every setting and policy"]
    assert head[:4] == ["Policy", "T", "Of OPT ± 95 %", "DES regret ± 95 %"]
    assert len(rows) == 6
    top = rows[0]
    assert top[:2] == ["etc", "4,000"]
    regret = data.pooled(data.settings()[0])["etc"].regret
    assert regret is not None
    assert top[3].startswith(f"{regret.mean:,.1f} ± ")
    assert top[-1] == "best"
    slopes = plain_page.tables["Log-log slopes of mean regret over horizons"][1:]
    fits = fit_slopes(data.regret_draws())
    assert [float(row[2]) for row in slopes] == [
        pytest.approx(fits["bernoulli", row[1]].slope, abs=0.005) for row in slopes
    ]
    assert {row[4] for row in slopes} == {"0.67"}


def test_sections_and_headings_are_in_order(plain_page: Page) -> None:
    ids = [attributes["id"] for tag, attributes in plain_page.tags if tag == "section"]
    assert ids == ["won", "share", "growth", "horizons", "paths", "details"]
    levels = [int(tag[1]) for tag, _ in plain_page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(later - earlier <= 1 for earlier, later in itertools.pairwise(levels))
    # Provenance and diagnostics are there, folded away.
    folds = {a["id"]: "open" in a for tag, a in plain_page.tags if a.get("class") == "fold"}
    assert folds == dict.fromkeys(["settings", "slopes", "run", "gap", "diagnostics"], False)


def test_headline_answers_and_counts(plain_page: Page, data: RunData) -> None:
    assert "etc earns 9" in plain_page.text
    assert "30 cells: 2 policies, 1 environment, 3 horizons, 5 replications" in plain_page.text
    (words,) = re.findall(r"OPT is proven to be within (\S+) % of the best", plain_page.text)[:1]
    widest = 100 * max(row["gap"] for row in gap_rows(data))
    assert float(words) == pytest.approx(max(widest, 1e-4), rel=0.05)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["0 · (0 1) × 3", "0 · (0 1) × 3"], "0 · (0 1) × 3"),
        ([[0.1234567, 2.0], [1.0]], "[0.1235, 2] (1 of 2 replications)"),
        ([2.5, "none", 2.5], "2.5 (2 of 3 replications)"),
        ([1000.0, 3000.0], "2,000 (1,000 to 3,000)"),
        ([True, True], "true"),
        ([[[0.5, 1.0], [0.5, 1.0], [0.25, 1.0]]], "3 × 2 numbers"),
        ([list(range(50))], "50 numbers"),
    ],
)
def test_diagnostics_are_words_and_short_numbers(values: list[object], words: str) -> None:
    assert typical(values) == words


def test_captions_say_what_there_is(tmp_path: Path) -> None:
    text = changed(PLAIN, ("replications = 5", "replications = 1"), ("[100, 1000, 4000]", "[50]"))
    with load_run(make_run(tmp_path, text)) as run:
        page = report_page(RunData(run), Settings(paths=2))
    assert "There is one replication, and so no interval." in page
    assert "Means with 95 % intervals" not in page
    assert "Above, the mean state" in page


def test_page_loads_nothing_from_elsewhere(plain_page: Page) -> None:
    (policy,) = [a["content"] for t, a in plain_page.tags if a.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "http" not in policy
    for tag, attributes in plain_page.tags:
        assert not [name for name in attributes if name in ("src", "style") or name[:2] == "on"]
        assert (attributes.get("href") or "#").startswith("#"), tag


def test_hostile_text_stays_text(hostile_page: Path) -> None:
    page = Page(hostile_page.read_text(encoding="utf-8"))
    assert (
        "64 cells (16 failed): 3 policies, 1 environment, 2 values of lam, 2 horizons" in page.text
    )
    assert "revealed to policieslam, replenishing arm" in page.text
    for words in (HOSTILE_NAME, HOSTILE_POLICY, HOSTILE_ERROR):
        assert words in page.text
        assert words not in page.source
    scripts = [attributes for tag, attributes in page.tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "report-data"}, {}, {}]
    assert "img" not in [tag for tag, _ in page.tags]
    block = page.source.partition('id="report-data">')[2].partition("</script>")[0]
    assert HOSTILE_POLICY[:39] in "".join(json.loads(block)["policies"])


def test_no_benchmark_shows_rewards_not_regret(tmp_path: Path) -> None:
    folder = make_run(tmp_path, PLAIN.replace("seed = 3", "seed = 3\nbenchmark = false"))
    with load_run(folder) as run:
        data = RunData(run)
        setting = data.settings()[0]
        assert (data.has_regret(setting), data.measure) == (False, "reward")
        mean = final_rows(data, setting, "reward")[0]["value"]
        assert mean == pytest.approx(np.mean(totals(data, "ucb1", 4000)) / 4000)
    page = page_of(folder, paths=0)
    assert "DES regret" not in page.tables["Every setting and policy"][0]
    assert "Regret before the horizon" not in page.text
    for words in ("This run has no benchmark", "Reward", "per round"):
        assert words in page.text


def test_run_of_failures_only_has_a_page(tmp_path: Path) -> None:
    begin, _, end = EXPERIMENT.partition("[[policies]]")
    page = page_of(make_run(tmp_path, begin + "[[policies]]" + end.rpartition("[[policies]]")[2]))
    assert "No cell has finished well yet." in page.text
    assert "16 of 16 cells failed" in page.text


def test_one_horizon_has_curves_but_no_slope(tmp_path: Path) -> None:
    page = page_of(make_run(tmp_path, PLAIN.replace("[100, 1000, 4000]", "[50]")), paths=1)
    assert "Log-log slopes of mean regret over horizons" not in page.tables
    block = page.source.partition('id="report-data">')[2].partition("</script>")[0]
    figures = json.loads(block)["figures"]
    labels = {name: [option["label"] for option in own] for name, own in figures.items()}
    assert labels == {
        "share": ["bernoulli, T = 50"],
        "regret": ["bernoulli, T = 50"],
        "loglog": [],
        "path": ["ucb1: bernoulli, T = 50"],
    }


def test_page_says_how_many_curves_are_left_out(
    plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bdes_framework.report.figures.MAX_CURVE_POINTS", 48)
    assert "1 more settings are left out" in page_of(plain, paths=0).text
