"""The service's log: one JSON object a line, without personal data unless asked for."""

import hashlib
import json
import logging
import secrets
import threading
import traceback
from datetime import UTC, datetime
from pathlib import PurePath
from typing import TextIO

_AS_JSON = json.JSONEncoder(default=str).encode
_MAX_TEXT = 500
_MAX_FRAMES = 20


class EventLog:
    """Writes what happens to a stream, for people and programs.

    Users appear as keyed hashes: the same user has the same hash until the service ends, and nobody
    can find out who it is, as the key is drawn at its start and kept nowhere. Everything is ASCII
    on one line, whatever a request brought.

    Parameters
    ----------
    stream : TextIO
        Where to write; if it cannot be written, the line is lost and nothing else.
    show_ids : bool
        Whether to write the users themselves, and messages of errors, which may quote them.
    """

    def __init__(self, stream: TextIO, *, show_ids: bool = False) -> None:
        self._stream = stream
        self._show_ids = show_ids
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()

    def user(self, name: str) -> str:
        """Return what stands for a user."""
        if self._show_ids:
            return name
        content = name.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(content, key=self._key, digest_size=9).hexdigest()

    def write(self, event: str, /, **fields: object) -> None:
        """Write one line: the time, what happened, its level ("info" if none is given), fields."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {"time": now, "level": "info", "event": event}
        line |= {key: _short(value) for key, value in fields.items()}
        text = _AS_JSON(line).replace("\x7f", "\\u007f") + "\n"
        with self._lock:
            try:
                self._stream.write(text)
                self._stream.flush()
            except (OSError, ValueError):
                return

    def failure(self, event: str, error: BaseException, **fields: object) -> None:
        """Write what was raised and where."""
        frames = traceback.extract_tb(error.__traceback__)[-_MAX_FRAMES:]
        at = [f"{PurePath(f.filename).name}:{f.lineno} {f.name}" for f in frames]
        message = {"message": str(error)} if self._show_ids else {}
        self.write(event, level="error", error=type(error).__name__, at=at, **message, **fields)


class LogHandler(logging.Handler):
    """Brings what libraries log into the service's log."""

    def __init__(self, log: EventLog) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        if record.exc_info and record.exc_info[1] is not None:
            self._log.failure("message", record.exc_info[1], logger=record.name)
            return
        text = record.getMessage()
        self._log.write("message", level=record.levelname.lower(), logger=record.name, text=text)


def _short(value: object) -> object:
    if isinstance(value, str) and len(value) > _MAX_TEXT:
        return value[:_MAX_TEXT] + "…"
    return value
