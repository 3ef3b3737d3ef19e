"""The endpoints of the service: from requests to the session, and back."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router

from bdes_framework.errors import InvalidValueError
from bdes_framework.live.config import check_arm_name
from bdes_framework.live.ids import check_user
from bdes_framework.live.service import messages as ms
from bdes_framework.live.service.answers import Answers, Decisions
from bdes_framework.live.service.gate import Gate, Rules
from bdes_framework.live.service.log import EventLog
from bdes_framework.live.service.numbers import RequestNumbers, metrics_text, session_metrics
from bdes_framework.live.service.problems import HttpError
from bdes_framework.live.service.schema import openapi
from bdes_framework.live.session import LiveSession

T = TypeVar("T")


class _TextConvertor(Convertor[str]):
    """The rest of an address, whatever it has: Starlette's own ``path`` ends at a new line."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("text", _TextConvertor())

_DECIDE = msgspec.json.Decoder(ms.DecideRequest)
_REWARD = msgspec.json.Decoder(ms.RewardRequest)
_ARMS = msgspec.json.Decoder(ms.ArmsRequest)


class Service:
    """What serves a session over HTTP; the session may come later than the first request.

    Attributes
    ----------
    session : LiveSession or None
        What decides, once it is open.
    stopping : asyncio.Event
        Set when the service is asked to stop: answers without an end, such as streams of events,
        end then.
    """

    def __init__(self, log: EventLog, max_body: int = 2**20) -> None:
        self.session: LiveSession | None = None
        self.stopping = asyncio.Event()
        self.log = log
        self.numbers = RequestNumbers()
        self._max_body = max_body
        self._answers: Answers | None = None
        self._decisions: Decisions | None = None

    def application(self, rules: Rules, more: Sequence[BaseRoute] = ()) -> Gate:
        """Return the ASGI application; ``more`` are routes besides those of the API."""
        routes = [
            Route("/decide", self._decide, methods=["POST"]),
            Route("/reward", self._reward, methods=["POST"]),
            Route("/arms", self._arms, methods=["GET", "POST"]),
            Route("/estimates", self._estimates),
            Route("/table", self._table),
            Route("/users/{user:text}", self._forget, methods=["DELETE"]),
            Route("/health", self._health),
            Route("/ready", self._ready),
            Route("/metrics", self._metrics),
            Route("/schema", self._schema),
        ]
        return Gate(Router([*routes, *more], redirect_slashes=False), rules, self.log, self.numbers)

    def ready_session(self) -> LiveSession:
        """Return the session; raise an HttpError with status 503 as long as it cannot decide."""
        session = self.session
        if session is None or not session.is_ready:
            raise HttpError(503, "the service starts: its model is not loaded yet; try again")
        return session

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Return what a call gives that may wait for disk or writer; the loop goes on meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(None, work)

    @property
    def answers(self) -> Answers:
        """What waits for futures of the session in this event loop."""
        if self._answers is None:
            self._answers = Answers()
        return self._answers

    # -- deciding and rewards ----------------------------------------------------------------------

    async def _decide(self, request: Request) -> Response:
        users, is_batch = (await ms.read(request, _DECIDE, self._max_body)).all()
        for user in users:
            check_user(user)
        session = self.ready_session()
        if self._decisions is None:
            self._decisions = Decisions(session)
        found = await self._decisions.of(users)
        answers = [ms.DecisionAnswer(d.id, d.arm, d.probability, d.model) for d in found]
        if is_batch:
            _note(request, batch=len(users))
            return ms.answer(ms.DecisionsAnswer(answers))
        _note(request, user=self.log.user(users[0]), decision=answers[0].id)
        return ms.answer(answers[0])

    async def _reward(self, request: Request) -> Response:
        rewards, is_batch = (await ms.read(request, _REWARD, self._max_body)).all()
        answers = await self.answers.of(self.ready_session().submit_reward(rewards))
        if is_batch:
            _note(request, batch=len(rewards))
            return ms.answer(ms.AllNotedAnswer(answers))
        _note(request, decision=rewards[0][0])
        return ms.answer(ms.NotedAnswer(answers[0]))

    # -- arms, estimates, users --------------------------------------------------------------------

    async def _arms(self, request: Request) -> Response:
        if request.method == "POST":
            return await self._change_arms(request)
        arms = await self.in_thread(self.ready_session().arms)
        return ms.answer(ms.ArmsAnswer([ms.arm_answer(arm) for arm in arms]))

    async def _change_arms(self, request: Request) -> Response:
        name, is_new = (await ms.read(request, _ARMS, self._max_body)).change()
        session = self.ready_session()

        def change() -> int:
            check_arm_name(name)
            try:
                if is_new:
                    return session.add_arm(name)
                session.retire_arm(name)
            except InvalidValueError as error:  # the name is right, but not with the arms there are
                raise HttpError(409, str(error)) from None
            return next(arm.number for arm in session.arms() if arm.name == name)

        number = await self.in_thread(change)
        _note(request, arm=name, change="added" if is_new else "retired")
        return ms.answer(ms.ChangedArmAnswer(number, name), 201 if is_new else 200)

    async def _estimates(self, _: Request) -> Response:
        session = self.ready_session()
        found, arms = await self.in_thread(lambda: (session.estimates(), session.arms()))
        if found is None:
            return ms.answer(ms.EstimatesAnswer(None))
        names = [arm.name for arm in arms]
        return ms.answer(ms.EstimatesAnswer(ms.estimates_answer(found, names)))

    async def _table(self, _: Request) -> Response:
        session = self.ready_session()
        found = await self.in_thread(session.table)
        return ms.answer(ms.TableAnswer(None if found is None else ms.table_answer(found)))

    async def _forget(self, request: Request) -> Response:
        user = request.path_params["user"]
        session = self.ready_session()
        _note(request, user=self.log.user(user))
        return ms.answer(ms.ForgottenAnswer(await self.in_thread(lambda: session.forget(user))))

    # -- about the service -------------------------------------------------------------------------

    async def _health(self, _: Request) -> Response:
        return ms.answer(ms.StateAnswer("ok"))

    async def _ready(self, _: Request) -> Response:
        self.ready_session()
        return ms.answer(ms.StateAnswer("ready"))

    async def _metrics(self, _: Request) -> Response:
        session = self.session
        found = [*self.numbers.metrics()]  # here: they belong to this thread
        if session is not None and session.is_ready:
            found += await self.in_thread(lambda: [*session_metrics(session)])
        return Response(metrics_text(found), media_type=CONTENT_TYPE_LATEST)

    async def _schema(self, _: Request) -> Response:
        return Response(openapi(self._max_body), media_type="application/json")


def _note(request: Request, **fields: object) -> None:
    """Add to the line that the log gets of this request."""
    request.scope["noted"].update(fields)
