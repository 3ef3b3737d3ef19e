"""Cells that need not be run again: found in other runs of the experiment, and why others are.

A cell is taken over if its key is the same. A cell of the same spec with another key was made
by other code: that is named.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from os import PathLike
from pathlib import Path

from bdes_framework._internal.text import ascii_controls, counted, quoted
from bdes_framework.errors import StoreError
from bdes_framework.experiment.cell import Cell
from bdes_framework.experiment.store import DATABASE, Store, open_store
from bdes_framework.plugin.fingerprint import describe_change

RUNS = "runs"

_Code = Mapping[str, str]


def list_runs(folder: str | PathLike[str] = RUNS) -> Iterator[Path]:
    """Yield the run folders below ``folder``, in the order of their names."""
    base = Path(folder)
    try:
        found = sorted(base.iterdir()) if base.is_dir() else []
    except OSError as error:
        raise StoreError(f"cannot read {quoted(str(base), 200)}: {error.strerror}") from None
    for path in found:
        with suppress(PermissionError):
            if (path / DATABASE).is_file():
                yield path


def reuse_cells(
    store: Store, folder: Path, name: str, missing: set[str], former: dict[str, dict[str, str]]
) -> list[str]:
    """Copy cells and benchmarks of runs beside ``folder`` that have the experiment's name.

    Copies the cells whose keys are ``missing`` and removes these keys from it; adds to ``former``
    the code that cells were made by, by their specs. Returns notes of what was found, a line each.
    """
    notes: list[str] = []
    owner = folder.stat().st_uid
    try:
        beside = list(list_runs(folder.resolve().parent))
    except StoreError:  # a folder that may be written to, but not listed
        beside = []
    for path in beside:
        try:
            # In a shared folder, results that somebody else has put there do not count.
            if path == folder.resolve() or path.stat().st_uid != owner:
                continue
            with closing(open_store(path, create=False, check=False)) as other:
                if other.meta("name") != name or not other.has_checksums:
                    continue
                found = missing & other.finished(failed=False)
                for spec, code in other.code_of_specs().items():
                    former.setdefault(spec, code)
                store.copy_benchmarks(other)
                store.copy_cells(other, found)  # last: if anything raises, no cell was copied
        except (StoreError, OSError) as error:
            notes.append(f"nothing is reused of {quoted(path.name)}: {error}")
            continue
        missing -= found
        if found:
            notes.append(f"{counted(len(found), 'cell')} reused from {ascii_controls(path.name)}")
    return notes


def changes(left: Sequence[Cell], former: Mapping[str, _Code], n_reused: int) -> Iterator[str]:
    """Yield whose change makes cells run again, a line each, with how many."""
    counts: Counter[str] = Counter()
    for cell in left:
        before = former.get(cell.spec)
        if before is not None:
            counts.update(code_changes(before, cell.code))
    for change, n in counts.items():
        yield f"{change}: {counted(n, 'cell')} to run again, {n_reused:,} reused"


def code_changes(before: _Code, after: _Code) -> Iterator[str]:
    """Yield how the code of two cells or runs differs, a line for each name."""
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield describe_change(ascii_controls(name), before.get(name), after.get(name))
