"""The documentation says what is true: its code runs, and nothing public is left out."""

import ast
import inspect
import re
import shutil
import subprocess
from importlib import import_module
from pathlib import Path
from types import ModuleType

import attrs
import griffe
import pytest

import bdes_framework
import bdes_framework.live
import bdes_framework.testing
from bdes_framework import ExperimentConfig, PluginsConfig
from tests.support import REPOSITORY
from tests.support.snippets import PageRun, commands_of, fits, snippets_of

DOCS = REPOSITORY / "docs"
TEMPLATE = REPOSITORY / "examples" / "bdes-plugin-template"
PAGES = [REPOSITORY / "README.md", TEMPLATE / "README.md", *sorted(DOCS.rglob("*.md"))]
REFERENCE = "\n".join(page.read_text() for page in sorted((DOCS / "reference").glob("*.md")))
DIRECTIVES = {path.rpartition(".")[2]: path for path in re.findall(r"(?m)^::: (\S+)$", REFERENCE)}
HOOKS = [name for name in vars(bdes_framework.HookSpecs) if name.startswith("bdes_")]
MODULES = (bdes_framework, bdes_framework.live, bdes_framework.testing)
PUBLIC = [(module, name) for module in MODULES for name in module.__all__]


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if snippets_of(page)],
    ids=lambda page: str(page.relative_to(REPOSITORY)),
)
def test_page_runs_and_prints_what_it_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = tmp_path / "clone"
    unwanted = shutil.ignore_patterns("__pycache__", "runs", ".*")
    shutil.copytree(REPOSITORY / "examples", clone / "examples", ignore=unwanted)
    monkeypatch.chdir(clone)
    PageRun(page, clone).run()


# Nothing public is left out.
@pytest.fixture(scope="module")
def package() -> griffe.Module:
    loaded = griffe.load("bdes_framework", submodules=True)
    assert isinstance(loaded, griffe.Module)
    return loaded


@pytest.mark.parametrize(
    ("module", "name"), PUBLIC, ids=lambda value: getattr(value, "__name__", value)
)
def test_every_public_name_is_in_the_reference(
    module: ModuleType, name: str, package: griffe.Module
) -> None:
    path = DIRECTIVES.get(name)
    documented = False
    if path is not None:
        home, _, last = path.rpartition(".")
        assert getattr(import_module(home), last) is getattr(module, name), f"another {name}"
        documented = package[path.removeprefix("bdes_framework.")].docstring is not None
    in_words = re.search(rf"`(?:{module.__name__}\.)?{name}`", REFERENCE) is not None
    assert documented or in_words, f"{name} has no docstring in the reference and no words there"


def test_reference_names_no_module_path() -> None:
    homes = {path.rpartition(".")[0] for path in DIRECTIVES.values()}
    assert homes == {"bdes_framework", "bdes_framework.live", "bdes_framework.testing"}


@pytest.mark.parametrize("hook", HOOKS)
def test_hook_has_a_row_and_an_example_that_runs(hook: str) -> None:
    assert "HookSpecs" in DIRECTIVES
    guide = DOCS / "plugin-kinds.md"
    assert f"`{hook}(" in guide.read_text()
    code = "\n".join(s.text for s in snippets_of(guide) if s.language == "python")
    nodes = ast.walk(ast.parse(code))
    function = next(node for node in nodes if getattr(node, "name", None) == hook)
    assert isinstance(function, ast.FunctionDef)
    given = set(inspect.signature(getattr(bdes_framework.HookSpecs, hook)).parameters) - {"self"}
    assert {argument.arg for argument in function.args.args} <= given
    assert [ast.unparse(decorator) for decorator in function.decorator_list] == ["hookimpl"]


@pytest.mark.parametrize("config", [ExperimentConfig, PluginsConfig])
def test_every_key_of_the_config_file_has_a_row(config: type[attrs.AttrsInstance]) -> None:
    page = (DOCS / "experiments.md").read_text()
    missing = [f.name for f in attrs.fields(config) if f"\n| `{f.name}` |" not in page]
    assert missing == []


def test_every_page_is_in_the_navigation() -> None:
    navigation = (REPOSITORY / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = set(re.findall(r"([\w/-]+\.md)\n", navigation))
    assert listed == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}


# The runner notices.
def run_page(text: str, folder: Path) -> None:
    page = folder / "page.md"
    page.write_text(text)
    PageRun(page, folder).run()


@pytest.mark.parametrize(
    "wrong",
    [
        "```python\nassert False\n```\n",
        "```python\nprint(1)\n```\n\n```text\n2\n```\n",
        "```console\n$ bdes nonsense\n```\n",
        "```console\n$ bdes --version\n$ echo $?\n1\n```\n",
        "```console\n$ bdes --version\nbdes 0.0.0.0\n```\n",
        "```console\n$ rm something\n```\n",
        "```console\n$ cd nowhere\n```\n",
        "```console\n$ mv nothing something\n```\n",
        "```python\nnever closed",
    ],
)
def test_a_page_that_is_wrong_is_noticed(wrong: str, tmp_path: Path) -> None:
    with pytest.raises((AssertionError, OSError, subprocess.SubprocessError)):
        run_page(wrong, tmp_path)


SHARED_NAMES = """
- in a list, too:

  ```python
  three = 3
  ```

```toml title="sub/file.toml"
seed = 1
```

```python
print(three, "and more")
```

```text
3 ...
```

```console
$ bdes run sub/file.toml
bdes: error: ... name: is required but missing ...
$ echo $?
2
```
"""
NEW_PACKAGE = """
```toml title="here/pyproject.toml"
[project]
name = "some-plugins"
version = "1.5"

[project.entry-points.bdes_framework]
old = "old_name"
```

```python title="here/old_name.py"
from bdes_framework import Registrar, hookimpl

BDES_API_VERSION = 1


@hookimpl
def bdes_register(registrar: Registrar) -> None: ...
```

```console
$ cd here
$ mv old_name.py new_name.py
$ sed -i s/old/new/g *.toml
$ pip install -e .
$ bdes plugins
...
new  some-plugins 1.5  loaded
$ bdes --version > version.txt
```
"""


@pytest.mark.parametrize(
    ("text", "file", "start"),
    [(SHARED_NAMES, "sub/file.toml", "seed = 1\n"), (NEW_PACKAGE, "here/version.txt", "bdes ")],
    ids=["blocks share names, files and exit codes", "files change and a package is added"],
)
def test_a_page_runs_in_one_folder(text: str, file: str, start: str, tmp_path: Path) -> None:
    run_page(text, tmp_path)
    assert (tmp_path / file).read_text().startswith(start)


def test_output_fits_up_to_white_space_and_dots() -> None:
    assert fits("a ... d", "a\nb  c d")
    assert fits("...\nd", "a d")
    assert not fits("a ... d", "a b c")
    assert not fits("a", "a b")


def test_commands_of_a_console_block() -> None:
    text = "$ bdes run \\\n  x.toml\nout\n$ echo $?\n2\n$ bdes --help  # a remark\n"
    first, second = [(c.arguments, c.output, c.status) for c in commands_of(text)]
    assert first == (("bdes", "run", "x.toml"), "out", 2)
    assert second == (("bdes", "--help"), "", 0)
