"""The service's log: one JSON object a line, whatever comes, and nobody's name."""

import io
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bdes_framework.live.service.log import EventLog, LogHandler

HOSTILE = (
    "a\nb",
    "a\r\nb",
    "\x1b[2Jgone",
    "\x9b31m",
    "\x7f",
    "\u2028",
    '"}\n{"level":"x"',
    "\ud800",
)


def lines_of(out: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.getvalue().split("\n")[:-1]]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_on_its_line(text: str) -> None:
    out = io.StringIO()
    EventLog(out, show_ids=True).write("request", user=text, decision=text)
    (line,) = lines_of(out)
    assert line["user"] == line["decision"] == text
    assert out.getvalue()[:-1].isascii()
    assert out.getvalue()[:-1].isprintable()


@given(st.text())
def test_any_text_is_one_printable_line(text: str) -> None:
    out = io.StringIO()
    EventLog(out).write("request", text=text)
    assert out.getvalue().count("\n") == 1
    assert out.getvalue()[:-1].isprintable()


def test_users_are_hashed_with_a_key_of_the_run() -> None:
    one, another = EventLog(io.StringIO()), EventLog(io.StringIO())
    assert one.user("anna") == one.user("anna") != one.user("bert")
    assert one.user("anna") != another.user("anna")
    assert len(one.user("anna")) == 18


def test_users_are_shown_if_asked_for() -> None:
    assert EventLog(io.StringIO(), show_ids=True).user("anna") == "anna"


def test_errors_are_told_without_their_words() -> None:
    out = io.StringIO()
    log = EventLog(out)
    try:
        raise ValueError("anna is unknown")
    except ValueError as error:
        log.failure("failure", error, route="/decide")
        EventLog(out, show_ids=True).failure("failure", error)
    hidden, shown = lines_of(out)
    assert hidden["error"] == "ValueError"
    assert hidden["level"] == "error"
    assert "anna" not in json.dumps(hidden)
    assert "test_log.py" in str(hidden["at"])
    assert shown["message"] == "anna is unknown"


def test_long_text_is_cut() -> None:
    out = io.StringIO()
    EventLog(out).write("request", text="x" * 100_000)
    assert len(out.getvalue()) < 1_000


class FullDisk(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


def test_a_log_that_cannot_be_written_stops_nothing() -> None:
    EventLog(FullDisk()).write("request")
    closed = io.StringIO()
    closed.close()
    EventLog(closed).write("request")


def test_libraries_log_through_it() -> None:
    out = io.StringIO()
    logger = logging.getLogger("a library")
    handler = LogHandler(EventLog(out))
    logger.addHandler(handler)
    try:
        logger.warning("Invalid HTTP request\n%s", "received")
        try:
            raise OSError("of anna")
        except OSError:
            logger.exception("anna")
    finally:
        logger.removeHandler(handler)
    warned, raised = lines_of(out)
    assert (warned["level"], warned["text"]) == ("warning", "Invalid HTTP request\nreceived")
    assert raised["error"] == "OSError"
    assert "anna" not in json.dumps(raised)
