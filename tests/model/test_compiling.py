"""Compiling: what is cached on disk goes stale with everything compiled into it."""

import ast
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from bdes_framework import compiled, play_round

numba = pytest.importorskip("numba")

PACKAGE = {
    "__init__": "",
    "constants": "OFFSET = 0.0\nTABLE = (1.0, 2.0)\n",
    "deep": """
        from bdes_framework import compiled
        @compiled
        def deep(x):
            return x + 1.0
        """,
    "callee": """
        from bdes_framework import compiled
        from cached_package.deep import deep
        @compiled
        def callee(x):
            return deep(x) + 10.0
        """,
    "caller": """
        import bdes_framework as bdes
        import cached_package.callee as named_by_module
        from cached_package.constants import OFFSET, TABLE
        @bdes.compiled
        def caller(x):
            return defined_below(x) + OFFSET + TABLE[1] - 2.0
        @bdes.compiled
        def defined_below(x):
            return named_by_module.callee(x)
        """,
}
# Python trusts bytecode of a source of the same size, written in the same second.
NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}
# Runs as of new processes, in one: most of a process's time is numba's import.
RUNS = """
import importlib, sys
import cached_package
from pathlib import Path
folder = Path(cached_package.__file__).parent
def replace(module, old, new):
    file = folder / f"{module}.py"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
def damage(kind, content):
    for file in folder.rglob(f"caller.caller*.{kind}"):
        file.write_bytes(content)
def run(deep=None):
    for name in [name for name in sys.modules if name.startswith("cached_package")]:
        del sys.modules[name]
    importlib.invalidate_caches()
    caller = importlib.import_module("cached_package.caller").caller
    if deep is not None:
        sys.modules["cached_package.callee"].deep = deep
    print(caller(100.0), sum(caller.stats.cache_misses.values()))
"""
RUN = RUNS + "run()"


class Package:
    """A package on disk whose compiled functions are run in processes of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "cached_package"
        self.folder.mkdir()
        for module, source in PACKAGE.items():
            lines = source.splitlines()
            text = "\n".join(line.removeprefix(" " * 8) for line in lines) + "\n"
            (self.folder / f"{module}.py").write_text(text)

    def run(self, code: str = RUN, **variables: str) -> list[float]:
        found = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            env={**os.environ, **NO_BYTECODE, "PYTHONPATH": str(self.folder.parent), **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert found.returncode == 0, found.stderr
        return [float(word) for word in found.stdout.split()]

    def cached(self) -> dict[str, int]:
        return {f.name: f.stat().st_mtime_ns for f in self.folder.rglob("*.nb[ci]")}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "0")
    return Package(tmp_path)


def test_a_changed_callee_or_constant_recompiles(package: Package) -> None:
    assert package.run() == [111.0, 1]
    before = package.cached()
    assert before
    assert package.run() == [111.0, 0], "unchanged code is taken from the disk"
    assert package.cached() == before, "and nothing is written"
    # Two calls away, in files that the caller's own file says nothing about.
    edits = (
        "replace('deep', 'x + 1.0', 'x + 2.0'); run()\n"
        "replace('callee', '10.0', '20.0'); run()\n"
        "replace('constants', 'OFFSET = 0.0', 'OFFSET = 0.5'); run()\n"
        "replace('constants', '2.0', '3.0'); run()\n"
    )
    assert package.run(RUNS + edits) == [112.0, 1, 122.0, 1, 122.5, 1, 123.5, 1]
    assert package.run() == [123.5, 0]


def test_a_damaged_cache_is_made_anew(package: Package) -> None:
    # A pickle that names a class of a package that is not here.
    stranger = pickle.dumps(numba.__version__) + b"cno_such_module\nThing\n."
    damages = f"run()\ndamage('nbc', b'not a pickle'); run()\ndamage('nbi', {stranger!r}); run()\n"
    assert package.run(RUNS + damages) == [111.0, 1] * 3
    assert package.run() == [111.0, 0]


def test_compiled_without_jit_returns_the_function(package: Package) -> None:
    code = RUN.replace("sum(caller.stats.cache_misses.values())", "int(hasattr(caller, 'stats'))")
    assert package.run(code, NUMBA_DISABLE_JIT="1") == [111.0, 0]


def test_functions_without_a_file_are_not_cached(package: Package) -> None:
    typed = "from bdes_framework import compiled\n@compiled\ndef twice(x): return 2 * x\n"
    assert package.run(f"{typed}print(twice(3))\nexec({typed!r})\nprint(twice(3))") == [6.0, 6.0]


def test_callers_of_such_functions_are_not_cached(package: Package) -> None:
    code = """
replace("callee", "from cached_package.deep import deep", "deep = None")
from bdes_framework import compiled, play_round
for found in (5.0, 6.0):
    namespace = {"compiled": compiled}
    exec(f"@compiled\\ndef deep(x): return x + {found}", namespace)
    run(namespace["deep"])
"""
    assert package.run(RUNS + code) == [115.0, 1, 116.0, 1]


def test_nowhere_to_write_means_no_cache(package: Package) -> None:
    # A file stands where each of numba's cache folders would be; root may write anywhere else.
    for place in ("__pycache__", "home"):
        (package.folder / place).write_text("in the way")
    home = str(package.folder / "home")
    assert package.run(HOME=home, XDG_CACHE_HOME=home) == [111.0, 1]
    assert package.cached() == {}


def test_an_unknown_kind_of_cache_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    class Strange:
        def __init__(self, function: object) -> None:
            pass

    monkeypatch.setattr(numba.core.dispatcher, "FunctionCache", Strange)

    @compiled
    def twice(x: float) -> float:
        return 2 * x

    assert twice(3) == 6


def test_compiled_code_lets_other_threads_run() -> None:
    """Else Ctrl-C is heard only when a loop is over."""
    options = getattr(play_round, "targetoptions", None)  # None without numba
    assert options is None or options["nogil"]


def compiled_functions() -> list[tuple[str, ast.FunctionDef]]:
    """Return every compiled function of the framework and its plugins, and the file it is in."""
    root = Path(__file__).parents[2]
    files = [*(root / "bdes_framework").rglob("*.py"), *(root / "plugins").rglob("*.py")]
    return [
        (file.name, node)
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(mark).split(".")[-1] == "compiled" for mark in node.decorator_list)
    ]


def is_slow_to_compile(node: ast.AST) -> bool:
    """Return whether numba compiles seconds for it: sorting, and copying slices (not filling)."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).split(".")[-1] in ("argsort", "sort")
    if not isinstance(node, ast.Assign | ast.AugAssign) or isinstance(node.value, ast.Constant):
        return False
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    filled = isinstance(node.value, ast.Name) and node.value.id in ("q0", "_UNKNOWN")
    return not filled and any(
        isinstance(part, ast.Slice)
        for target in targets
        if isinstance(target, ast.Subscript)
        for part in ast.walk(target.slice)
    )


def test_no_loop_is_slow_to_compile() -> None:
    functions = compiled_functions()
    assert len(functions) > 100
    slow = [
        f"{file}: {function.name}: {ast.unparse(node)}"
        for file, function in functions
        for node in ast.walk(function)
        if is_slow_to_compile(node)
    ]
    assert not slow, "write a loop instead"
    assert is_slow_to_compile(ast.parse("x[:n] = y[:n]").body[0])
