"""No dead links: every file and anchor that a page points to is there. Nothing is fetched."""

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import markdown
import pytest

from tests.support import REPOSITORY

IMAGES = REPOSITORY / "docs" / "img"
PLACES = (("", "*.md"), ("docs", "**/*.md"), ("examples", "**/README.md"))
PAGES = sorted(page for folder, name in PLACES for page in (REPOSITORY / folder).glob(name))
EXTENSIONS = ["attr_list", "def_list", "tables", "toc", "pymdownx.superfences"]


class Reader(HTMLParser):
    """Collects what a page points to, and what can be pointed to in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(markdown.markdown(text, extensions=EXTENSIONS))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is not None and (tag, name) in (("a", "href"), ("img", "src")):
                self.targets.append(value)
            elif value is not None and name == "id":
                self.anchors.add(value)


@cache
def read(page: Path) -> Reader:
    return Reader(page.read_text(encoding="utf-8"))


def problems(page: Path) -> list[str]:
    """Return what is wrong with a page's links."""
    found = {target: problem(page, target) for target in read(page).targets}
    return [f"{target}: {wrong}" for target, wrong in found.items() if wrong]


def problem(page: Path, target: str) -> str:
    """Return what is wrong with one link; empty if nothing is."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        good = parts.scheme == "https" and re.fullmatch(r"[\w-]+(\.[\w-]+)+", parts.netloc)
        return "" if good else "is no https address"
    file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not file.exists():
        return "no such file"
    if parts.fragment and file.suffix == ".md" and parts.fragment not in read(file).anchors:
        return "no such heading"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_no_link_of_a_page_is_dead(page: Path) -> None:
    assert problems(page) == []


def test_every_picture_is_shown_and_has_a_text() -> None:
    shown = {Path(urlsplit(target).path).name for page in PAGES for target in read(page).targets}
    assert {file.name for file in IMAGES.iterdir()} <= shown
    for page in PAGES:
        assert re.findall(r"!\[\s*\]\(", page.read_text(encoding="utf-8")) == [], page


@pytest.mark.parametrize(
    ("link", "wrong"),
    [
        ("[a](there.md)", ""),
        ("[a](there.md#a-heading)", ""),
        ("[a](#here)", ""),
        ("[a](https://example.org/x)", ""),
        ("[a](gone.md)", "no such file"),
        ("![a](gone.svg)", "no such file"),
        ("[a](there.md#another)", "no such heading"),
        ("[a](#nowhere)", "no such heading"),
        ("[a](http://example.org)", "is no https address"),
        ("[a](https://no-host)", "is no https address"),
    ],
)
def test_dead_links_are_noticed(link: str, wrong: str, tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A heading\n")
    page = tmp_path / "page.md"
    page.write_text(f"# Here\n\n{link}\n\n```\n[not a link](nowhere.md)\n```\n")
    assert [text.partition(": ")[2] for text in problems(page)] == ([wrong] if wrong else [])
