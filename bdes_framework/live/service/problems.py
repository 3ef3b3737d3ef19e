"""Errors as the service tells them: problem details for HTTP APIs (RFC 9457)."""

from http import HTTPStatus

import msgspec
from starlette.responses import Response

from bdes_framework._internal.text import one_line
from bdes_framework.errors import (
    BdesError,
    ContradictionError,
    InvalidValueError,
    JournalError,
    UnknownNameError,
)

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 1


class HttpError(Exception):
    """A request that is answered with an error: a status, what was wrong, what was allowed."""

    def __init__(self, status: int, detail: str, **headers: str) -> None:
        self.status, self.detail = status, one_line(detail, 2_000)
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            self.headers.setdefault("retry-after", str(RETRY_SECONDS))
        super().__init__(detail)

    def response(self) -> Response:
        """Return the answer."""
        content = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        return Response(msgspec.json.encode(content), self.status, self.headers, MEDIA_TYPE)


def http_error_of(error: BdesError) -> HttpError:
    """Return how an error of the session is told; paths and addresses are for the log alone."""
    match error:
        case UnknownNameError():
            return HttpError(404, str(error))
        case ContradictionError():
            return HttpError(409, str(error))
        case InvalidValueError():
            return HttpError(422, str(error))
        case JournalError(is_in_doubt=True):
            return HttpError(504, "the journal was lost: nobody knows yet whether this was noted")
        case JournalError(is_passing=True):
            return HttpError(503, "the journal cannot be written now; nothing was noted, try again")
    return HttpError(500, "the service needs its owner; its log says why")
