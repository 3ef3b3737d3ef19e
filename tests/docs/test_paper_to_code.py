"""Paper to code: no row of the table points at nothing, and no item of the paper has no row."""

import ast
import re
from collections import Counter
from itertools import chain
from operator import attrgetter

import pytest
from attrs import frozen

import bdes_framework as bdes
import bdes_policies
from tests.support import REPOSITORY

PAGE = (REPOSITORY / "docs" / "paper-to-code.md").read_text(encoding="utf-8")
ERRATA = (REPOSITORY / "docs" / "errata.md").read_text(encoding="utf-8")
NUMBERED = {
    "Lemma": "3.2 3.3 3.4 3.5 3.7 3.8 3.9 4.2 5.2 5.3 5.4 B.1 B.2 B.4 B.5 "
    "E.1 E.3 E.4 E.5 E.6 E.7 E.8",
    "Theorem": "3.1 4.1 5.1 6.1 6.2 B.3 E.2 E.9",
    "Proposition": "2.1",
    "Corollary": "3.6",
    "Algorithm": "1 2 3 4 5 6 7 8",
    "Figure": "1 2",
    "Table": "1",
}

UNNUMBERED = [
    "arms (r, b)",
    "eq. (1)",
    "q0 = 1",
    "learning protocol",
    "OPT",
    "DES regret",
    "external regret",
    "translation to ads",
    "translation to recommender systems",
    "Section 2.1: U(t)",
    "exact dynamic program",
    "remark: complexity of the dynamic program",
    "assumption: a known replenishing arm",
    "thought experiments",
    "remark: unknown replenishing arm",
    "remark: extreme values",
    "λ = 0",
    "remark: interpretation",
    "remark: EXP3.P versus UCB",
    "example: A, B and C",
    "example: naive ABA-CCC, unsmart switching",
    "meta-arms",
    "noise-perturbed model",
    "regret with noise",
    "assumption (A1)",
    "assumption (A2)",
    "λ = Θ(1/T)",
    "λ given as an untrusted prediction",
    "contextual or multi-dimensional state",
    "A: proof",
    "D: proof",
    "E.1, Parts I to III",
]
"""Definitions, assumptions, examples, remarks and open questions, in the paper's order."""


@frozen
class Row:
    """One line of a table of the page."""

    paper: str
    where: str
    shown_by: str
    notes: str


def rows() -> list[Row]:
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [Row(*row) for row in cells if row[0] != "paper"]


def collected() -> Counter[str]:
    """Return every test function below tests/, by name."""
    files = (REPOSITORY / "tests").rglob("test_*.py")
    nodes = chain.from_iterable(ast.parse(file.read_text(encoding="utf-8")).body for file in files)
    functions = (node for node in nodes if isinstance(node, ast.FunctionDef))
    return Counter(node.name for node in functions if node.name.startswith("test_"))


TESTS = collected()


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.paper)
def test_row_points_at_tests_and_names_that_exist(row: Row) -> None:
    named = re.findall(r"`(\w+)`", row.shown_by)
    assert named, "a row without a test"
    assert [name for name in named if TESTS[name] != 1] == []
    for name in re.findall(r"\]\[bdes_framework\.([\w.]+)\]", row.where):
        attrgetter(name)(bdes)
    for name in re.findall(r"`bdes_policies\.(\w+)`", row.where):
        assert hasattr(bdes_policies, name)
    for path in re.findall(r"`([\w/]+\.py)`", row.where):
        assert (REPOSITORY / path).is_file()


PLUGINS_OF_A_ROW = re.compile(r"(policy|policies|planner|environment) ((?:\[?`[\w-]+`(?:, )?)+)")


def test_plugins_of_the_rows_are_installed() -> None:
    known = {(entry.kind, entry.name) for entry in bdes.load_plugins().entries()}
    named = {
        ({"policies": "policy"}.get(kind, kind), name)
        for row in rows()
        for kind, names in PLUGINS_OF_A_ROW.findall(row.where)
        for name in re.findall(r"`([\w-]+)`", names)
    }
    assert len(named) > 12
    assert named <= known


def test_every_numbered_item_of_the_paper_has_one_row() -> None:
    found = [re.match(r"\w+ (?:[\dBE]\.)?\d\b", row.paper) for row in rows()]
    counts = Counter(match.group() for match in found if match)
    wanted = {f"{kind} {n}" for kind, numbers in NUMBERED.items() for n in numbers.split()}
    assert [item for item in wanted if counts[item] != 1] == []


@pytest.mark.parametrize("item", UNNUMBERED)
def test_every_other_item_has_one_row(item: str) -> None:
    assert len([row for row in rows() if row.paper.startswith(item)]) == 1


def test_every_erratum_is_named_by_a_row() -> None:
    numbers = set(re.findall(r"\{#(erratum-\d+)\}", ERRATA))
    named = {name for row in rows() for name in re.findall(r"#(erratum-\d+)", row.notes)}
    assert named == numbers
