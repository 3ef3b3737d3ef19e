"""The description of the service for programs: OpenAPI 3.1, made from the messages themselves."""

from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec

from bdes_framework._version import __version__
from bdes_framework.live.service import messages as ms
from bdes_framework.live.service.problems import MEDIA_TYPE

_Json = dict[str, Any]

_JSON = "application/json"
_ALTERNATIVES: dict[str, list[list[str]]] = {
    "DecideRequest": [["user"], ["users"]],
    "RewardRequest": [["id", "reward"], ["rewards"]],
    "ArmsRequest": [["add"], ["retire"]],
}
"""Which keys of a request stand together: exactly one of the lists."""
_PROBLEMS = {
    401: "The token is missing or wrong.",
    403: "A page of another site asked.",
    400: "The content has a length and comes in chunks.",
    404: "There is no such decision, arm or page; the detail says which.",
    405: "This cannot be asked of this address; Allow says what can.",
    408: "The content came too slowly.",
    409: "The decision has another reward already, which stays; or the arms do not allow it.",
    413: "The content is too large; the detail says what is allowed.",
    415: "The content must be application/json.",
    421: "The service was called by a name that is not its own.",
    422: "The content is wrong; the detail says where and what is allowed.",
    503: "The service starts, is full, or its disk is; nothing was noted. Try again.",
    504: "The journal's server was lost at the end: nobody knows whether this was noted.",
}
_ALWAYS = (401, 421)
_READY = (*_ALWAYS, 503, 504)
_WRITING = (*_READY, 403, 422)
_BODY = (*_WRITING, 400, 408, 413, 415)


@cache
def openapi(max_body: int) -> bytes:
    """Return the description, as JSON."""
    return msgspec.json.encode(_openapi(max_body))


def _openapi(max_body: int) -> _Json:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "bdes live",
            "version": __version__,
            "description": "Decides what to show to whom, and learns of the rewards."
            f" Requests have at most {max_body:,} bytes.",
        },
        "security": [{"bearer": []}, {"basic": []}, {}],
        "paths": _paths(),
        "components": {
            "schemas": _schemas(),
            "responses": {_problem_name(status): _problem(status) for status in _PROBLEMS},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "Any name; the password is the token.",
                },
            },
        },
    }


def _paths() -> _Json:
    return {
        "/decide": {
            "post": _operation(
                "decide",
                "Decide what to show one user, or each of several, and note it as shown.",
                {200: (ms.DecisionAnswer, ms.DecisionsAnswer)},
                _BODY,
                ms.DecideRequest,
                {"reward": {"id": "$response.body#/id", "reward": 1}},
            )
        },
        "/reward": {
            "post": _operation(
                "reward",
                "Tell what a decision earned, or several. The same again changes nothing.",
                {200: (ms.NotedAnswer, ms.AllNotedAnswer)},
                (*_BODY, 404, 409),
                ms.RewardRequest,
            )
        },
        "/arms": {
            "get": _operation("arms", "List the arms.", {200: (ms.ArmsAnswer,)}, _READY),
            "post": _operation(
                "changeArms",
                "Add an arm, or retire one.",
                {200: (ms.ChangedArmAnswer,), 201: (ms.ChangedArmAnswer,)},
                (*_BODY, 404, 409),
                ms.ArmsRequest,
            ),
        },
        "/estimates": {
            "get": _operation(
                "estimates",
                "What the newest model takes the arms for.",
                {200: (ms.EstimatesAnswer,)},
                _READY,
            )
        },
        "/table": {
            "get": _operation(
                "table", "Which arm is best at which state.", {200: (ms.TableAnswer,)}, _READY
            )
        },
        "/users/{user}": {
            "delete": {
                **_operation(
                    "forget",
                    "Remove a user's name; what was shown still counts.",
                    {200: (ms.ForgottenAnswer,)},
                    _WRITING,
                ),
                "parameters": [
                    {
                        "name": "user",
                        "in": "path",
                        "required": True,
                        "schema": msgspec.json.schema(ms.User),
                    }
                ],
            }
        },
        "/health": {
            "get": {
                **_operation("health", "Whether somebody listens.", {200: (ms.StateAnswer,)}, ()),
                "security": [],
            }
        },
        "/ready": {
            "get": _operation(
                "ready", "Whether the service decides now.", {200: (ms.StateAnswer,)}, _READY
            )
        },
        "/metrics": {
            "get": _text_operation("metrics", "Numbers for Prometheus.", "text/plain"),
        },
        "/schema": {
            "get": _text_operation("schema", "This description.", _JSON),
        },
    }


def _operation(
    name: str,
    summary: str,
    answers: dict[int, tuple[type[msgspec.Struct], ...]],
    problems: Iterable[int],
    request: type[msgspec.Struct] | None = None,
    next_requests: _Json | None = None,
) -> _Json:
    """Return an operation; ``next_requests`` are contents of others that its answer leads to."""
    responses: _Json = {}
    for status, kinds in answers.items():
        refs = [_ref(kind) for kind in kinds]
        schema = refs[0] if len(refs) == 1 else {"oneOf": refs}
        summaries = " ".join(kind.__doc__ or "" for kind in kinds)
        responses[str(status)] = {"description": summaries, "content": {_JSON: {"schema": schema}}}
        if next_requests is not None:
            responses[str(status)]["links"] = {
                name: {"operationId": name, "requestBody": content}
                for name, content in next_requests.items()
            }
    operation: _Json = {"operationId": name, "summary": summary}
    if request is not None:
        content = {_JSON: {"schema": _ref(request)}}
        operation["requestBody"] = {"required": True, "content": content}
    return {**operation, "responses": {**responses, **_problem_refs(problems)}}


def _text_operation(name: str, summary: str, media_type: str) -> _Json:
    answer = {"description": summary, "content": {media_type: {}}}
    responses = {"200": answer, **_problem_refs((*_ALWAYS, 503))}
    return {"operationId": name, "summary": summary, "responses": responses}


def _problem_refs(problems: Iterable[int]) -> _Json:
    refs = sorted(problems)
    return {str(n): {"$ref": f"#/components/responses/{_problem_name(n)}"} for n in refs}


def _problem_name(status: int) -> str:
    return f"Problem{status}"


def _problem(status: int) -> _Json:
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    answer: _Json = {"description": _PROBLEMS[status], "content": content}
    if status == 503:
        answer["headers"] = {
            "Retry-After": {"required": True, "schema": {"type": "integer", "minimum": 0}}
        }
    if status == 401:
        answer["headers"] = {"WWW-Authenticate": {"required": True, "schema": {"type": "string"}}}
    return answer


def _schemas() -> _Json:
    kinds = [
        ms.DecideRequest,
        ms.RewardRequest,
        ms.ArmsRequest,
        ms.DecisionAnswer,
        ms.DecisionsAnswer,
        ms.NotedAnswer,
        ms.AllNotedAnswer,
        ms.ArmsAnswer,
        ms.ChangedArmAnswer,
        ms.EstimatesAnswer,
        ms.TableAnswer,
        ms.ForgottenAnswer,
        ms.StateAnswer,
    ]
    template = "#/components/schemas/{name}"
    _, schemas = msgspec.json.schema_components(kinds, ref_template=template)
    for name, alternatives in _ALTERNATIVES.items():
        whole = schemas[name]
        schemas[name] = {
            "description": whole["description"],
            "oneOf": [
                {
                    "type": "object",
                    "properties": {key: whole["properties"][key] for key in keys},
                    "required": keys,
                    "additionalProperties": False,
                }
                for keys in alternatives
            ],
        }
    texts = {name: {"type": "string"} for name in ("type", "title", "detail")}
    schemas["Problem"] = {
        "description": "What was wrong, and what was allowed (RFC 9457).",
        "type": "object",
        "properties": {**texts, "status": {"type": "integer"}},
        "required": ["type", "title", "status", "detail"],
    }
    return dict(schemas)


def _ref(kind: type[msgspec.Struct]) -> _Json:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}
