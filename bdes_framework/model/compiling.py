"""Compile loops with numba, cached on disk under a stamp of all sources compiled into them.

Compiled code gives the same bits as interpreted code (without numba, or with
``NUMBA_DISABLE_JIT=1``): plain loops over arrays, scalar ``math`` functions, no fastmath.

numba stamps what it caches with the function's own file only, though the functions it calls
are compiled into it: https://github.com/numba/numba/issues/1833. Hence the stamp made here.
"""

import dis
import hashlib
import linecache
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar, cast

import numpy as np

F = TypeVar("F", bound=Callable[..., object])

try:
    import numba
except ImportError:  # no wheels for this Python: the same code, interpreted

    def compiled(function: F) -> F:
        """Return ``function`` itself: numba is not installed."""
        return function

    def on_compiling(changed: Callable[[bool], None]) -> AbstractContextManager[object]:
        """Do nothing: numba is not installed."""
        return nullcontext()
else:
    from numba.core.event import Listener, install_listener

    def compiled(function: F) -> F:
        """Compile ``function`` with numba, cached on disk; without numba it stays as it is.

        The cache goes stale with the source of every compiled function it calls, in any file.
        Where nothing can be cached (no source file, nowhere to write), it is compiled anew in
        every process. Other threads go on while it runs, so that Ctrl-C is heard.
        """
        try:
            dispatcher: Any = numba.njit(cache=True, nogil=True)(function)
            if dispatcher is not function:  # as it is under NUMBA_DISABLE_JIT
                dispatcher._cache = _Cache(dispatcher)
        # RuntimeError: numba found no place for a cache; OSError: it cannot read the source;
        # AttributeError: its cache is built differently. No cache is slow, a stale one wrong.
        except (RuntimeError, OSError, AttributeError):
            dispatcher = numba.njit(nogil=True)(function)
        return cast(F, dispatcher)

    def on_compiling(changed: Callable[[bool], None]) -> AbstractContextManager[object]:
        """Call ``changed`` when this process begins to compile functions, and when it ceases.

        Not where they come from the disk.
        """
        found: AbstractContextManager[object] = install_listener(
            "numba:compile", _CompileListener(changed)
        )
        return found

    class _CompileListener(Listener):
        """Tells when the outermost function begins to be compiled, and when it is done."""

        def __init__(self, changed: Callable[[bool], None]) -> None:
            self._changed = changed
            self._depth = 0

        def on_start(self, event: object) -> None:
            self._depth += 1
            if self._depth == 1:
                self._changed(True)

        def on_end(self, event: object) -> None:
            if self._depth == 1:
                self._changed(False)
            self._depth = max(self._depth - 1, 0)  # another thread may have begun before us


class CompileTimer:
    """Adds up how long this process compiles functions."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._since: float | None = None

    @property
    def is_running(self) -> bool:
        """Whether functions are compiled at the moment."""
        return self._since is not None

    def switch(self, is_compiling: bool) -> None:
        """Take note that functions begin, or cease, to be compiled."""
        now = time.perf_counter()
        if is_compiling:
            self._since = now
        elif self._since is not None:
            self.seconds += now - self._since
            self._since = None


class _Cache:
    """numba's disk cache of one function, stamped with all sources that were compiled into it.

    The stamp is made when first needed: by then everything the function calls is defined.
    """

    def __init__(self, dispatcher: Any) -> None:
        self._function: FunctionType = dispatcher.py_func
        self._inner = dispatcher._cache
        self._file = self._inner._cache_file
        self._own_stamp = self._file._source_stamp

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def load_overload(self, *arguments: Any) -> Any:
        """Return what is cached for a signature, or None."""
        if not self._stamp():
            return None
        try:
            return self._inner.load_overload(*arguments)
        # A damaged file, or one that names a class of some package that is not here.
        except Exception:
            with suppress(OSError):
                self._inner.flush()
            return None

    def save_overload(self, *arguments: Any) -> None:
        """Cache what was compiled for a signature; a full or locked disk is no reason to fail."""
        if self._stamp():
            with suppress(Exception):
                self._inner.save_overload(*arguments)

    def _stamp(self) -> bool:
        sources = _sources_stamp(self._function)
        self._file._source_stamp = (self._own_stamp, sources)
        return sources is not None


def _sources_stamp(function: FunctionType) -> str | None:
    """Hash all that is compiled into ``function``; None if some source cannot be read.

    That is the files of every compiled function it reaches, and the values of the global
    constants they use.
    """
    files: dict[str, str] = {}
    constants: set[str] = set()
    reached, waiting = {function}, [function]
    while waiting:
        current = waiting.pop()
        file = current.__code__.co_filename
        linecache.checkcache(file)
        files[file] = "".join(linecache.getlines(file, current.__globals__))
        for name, value in _used_values(current):
            inner = getattr(value, "py_func", None)
            if isinstance(inner, FunctionType) and inner not in reached:
                reached.add(inner)
                waiting.append(inner)
            elif isinstance(value, bool | int | float | complex | str | tuple | np.generic):
                constants.add(f"{current.__module__}.{name} {value!r}")
            elif isinstance(value, np.ndarray):
                content = hashlib.sha256(value.tobytes()).hexdigest()
                constants.add(f"{current.__module__}.{name} {value.dtype}{value.shape} {content}")
    if not all(files.values()):
        return None
    # Contents, not paths: a package that is moved is still the same.
    parts = ["nogil", *sorted(files.values()), *sorted(constants)]
    digests = [hashlib.sha256(part.encode("utf-8", "surrogatepass")).digest() for part in parts]
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _used_values(function: FunctionType) -> Iterator[tuple[str, object]]:
    """Yield the names a function uses from outside itself, and what they stand for."""
    known = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # an empty cell
            known[name] = cell.cell_contents
    for code in _with_inner(function.__code__):
        value: object = None
        for step in dis.get_instructions(code):
            if step.opname in ("LOAD_GLOBAL", "LOAD_DEREF"):
                value = known.get(step.argval)
            elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(value, ModuleType):
                value = getattr(value, step.argval, None)
            else:
                value = None
            yield str(step.argval), value


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_inner(constant)
