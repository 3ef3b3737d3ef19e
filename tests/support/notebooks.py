"""Notebooks run as a reader would, cell by cell, without any notebook software.

``python -m tests.support.notebooks FILE...`` runs them and writes their outputs anew.
"""

import ast
import contextlib
import io
import itertools
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

NAME = "bdes_notebook"
"""The module whose names the cells share."""


def load(path: Path) -> dict[str, Any]:
    """Return a notebook as it is stored."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cells that have code, in order."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run_cells(notebook: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Run the cells in the working directory; yield what each prints, and its last value."""
    module = ModuleType(NAME)
    sys.modules[NAME] = module
    try:
        for number, cell in enumerate(code_cells(notebook), start=1):
            tree = ast.parse("".join(cell["source"]), f"cell {number}")
            last = tree.body[-1] if tree.body else None
            shown = ast.Expression(last.value) if isinstance(last, ast.Expr) else None
            body = ast.Module(tree.body[: len(tree.body) - (shown is not None)], [])
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(body, f"cell {number}", "exec"), module.__dict__)
                value = (
                    None
                    if shown is None
                    else eval(compile(shown, f"cell {number}", "eval"), module.__dict__)
                )
            yield printed.getvalue(), value
    finally:
        del sys.modules[NAME]


def shown_text(value: object) -> str:
    """Return what a terminal shows of a value; of a chart, its class."""
    return f"{type(value).__name__}(...)" if _is_chart(value) else repr(value)


def _is_chart(value: object) -> bool:
    return type(value).__module__.startswith("altair.")


def stored_text(cell: dict[str, Any]) -> str:
    """Return what a cell's stored outputs say: what was printed, and the text of its value."""
    texts = [output.get("text") or output["data"]["text/plain"] for output in cell["outputs"]]
    return "".join(itertools.chain.from_iterable(texts))


def refresh(path: Path) -> None:
    """Run a notebook in a folder of its own, and store its outputs in it."""
    notebook = load(path)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        cells = code_cells(notebook)
        for count, (printed, value) in enumerate(run_cells(notebook), start=1):
            outputs = list(_outputs(printed, value, count))
            cells[count - 1].update(execution_count=count, outputs=outputs)
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")


def _outputs(printed: str, value: object, count: int) -> Iterator[dict[str, Any]]:
    if printed:
        yield {"name": "stdout", "output_type": "stream", "text": _lines(printed)}
    if value is None:
        return
    data = {"text/plain": _lines(shown_text(value))}
    if _is_chart(value):
        data["image/svg+xml"] = _lines(_svg(value))
    elif hasattr(value, "_repr_html_"):
        data["text/html"] = _lines(value._repr_html_())
    yield {
        "data": data,
        "execution_count": count,
        "metadata": {},
        "output_type": "execute_result",
    }


def _svg(chart: Any) -> str:
    svg = io.StringIO()
    chart.save(svg, format="svg")
    return svg.getvalue()


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        refresh(Path(name).resolve())
