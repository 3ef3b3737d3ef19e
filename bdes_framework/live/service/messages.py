"""What requests and answers of the service look like; requests are read strictly."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from bdes_framework._internal.arrays import FloatArray
from bdes_framework.interfaces import CrowdEstimates
from bdes_framework.live.config import MAX_NAME
from bdes_framework.live.decision import RewardAnswer
from bdes_framework.live.ids import MAX_USER
from bdes_framework.live.service.problems import HttpError
from bdes_framework.live.session import MAX_BATCH
from bdes_framework.live.status import ArmStatus
from bdes_framework.model.decision_table import DecisionTable

_BODY_SECONDS = 10
_MAX_ID = 64
_NO_CONTROLS = {"pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"}
_PRINTABLE = {"pattern": r"^[^\p{C}\p{Z}](([^\p{C}\p{Z}]| )*[^\p{C}\p{Z}])?$"}
"""For readers of the schema; the session itself checks this."""

T = TypeVar("T")

User: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=MAX_USER, extra_json_schema=_NO_CONTROLS)
]
DecisionId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=_MAX_ID)]
Reward: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
ArmName: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=MAX_NAME, extra_json_schema=_PRINTABLE)
]


class _Strict(Struct, forbid_unknown_fields=True):
    """A request: keys that it does not know are refused."""


class DecideRequest(_Strict):
    """Who is waiting: one user, or several."""

    user: User | UnsetType = UNSET
    users: Annotated[list[User], Meta(min_length=1, max_length=MAX_BATCH)] | UnsetType = UNSET

    def all(self) -> tuple[list[str], bool]:
        """Return the users, and whether they came as a batch."""
        if self.user is UNSET and self.users is not UNSET:
            return self.users, True
        if self.users is UNSET and self.user is not UNSET:
            return [self.user], False
        raise HttpError(422, "expected either 'user' or 'users'")


class RewardOf(_Strict):
    """What a decision earned."""

    id: DecisionId
    reward: Reward


class RewardRequest(_Strict):
    """What one decision earned, or several."""

    id: DecisionId | UnsetType = UNSET
    reward: Reward | UnsetType = UNSET
    rewards: Annotated[list[RewardOf], Meta(min_length=1, max_length=MAX_BATCH)] | UnsetType = UNSET

    def all(self) -> tuple[list[tuple[str, float]], bool]:
        """Return ids and rewards, and whether they came as a batch."""
        is_one = self.id is not UNSET or self.reward is not UNSET
        if self.rewards is not UNSET and not is_one:
            return [(each.id, each.reward) for each in self.rewards], True
        if self.rewards is UNSET and self.id is not UNSET and self.reward is not UNSET:
            return [(self.id, self.reward)], False
        raise HttpError(422, "expected either 'id' and 'reward', or 'rewards'")


class ArmsRequest(_Strict):
    """An arm to add, or to show no more."""

    add: ArmName | UnsetType = UNSET
    retire: ArmName | UnsetType = UNSET

    def change(self) -> tuple[str, bool]:
        """Return the arm's name, and whether it is a new one."""
        if self.retire is UNSET and self.add is not UNSET:
            return self.add, True
        if self.add is UNSET and self.retire is not UNSET:
            return self.retire, False
        raise HttpError(422, "expected either 'add' or 'retire'")


class DecisionAnswer(Struct):
    """What to show; its id goes with the reward."""

    id: str
    arm: str
    probability: float
    model: int


class DecisionsAnswer(Struct):
    """What to show each user, in their order."""

    decisions: list[DecisionAnswer]


class NotedAnswer(Struct):
    """What became of a reward."""

    answer: RewardAnswer


class AllNotedAnswer(Struct):
    """What became of each reward, in their order."""

    answers: list[RewardAnswer]


class ArmAnswer(Struct):
    """An arm, how often it was shown, and what it earned."""

    number: int
    name: str
    is_active: bool
    shown: int
    rewards: int
    defaults: int
    mean_reward: float | None


class ArmsAnswer(Struct):
    """All arms, by number."""

    arms: list[ArmAnswer]


class ChangedArmAnswer(Struct):
    """The arm that was added or retired."""

    number: int
    name: str


class Interval(Struct):
    """An estimate and its 95 % interval."""

    estimate: float
    low: float
    high: float


class EstimatedArm(Struct):
    """What an arm pays at state 1, and where it leads to."""

    number: int
    name: str
    r: Interval
    b: Interval


class Estimates(Struct):
    """What the newest model takes the arms for."""

    arms: list[EstimatedArm]
    lam: Interval
    q0: float
    continuation: float


class EstimatesAnswer(Struct):
    """The estimates; null where the policy makes none."""

    estimates: Estimates | None


class TableRow(Struct):
    """The arm to show from a state on."""

    start: float
    arm: str


class Table(Struct):
    """Which arm is best at which state, for the estimates."""

    rows: list[TableRow]
    q0: float
    continuation: float
    value: float
    upper_bound: float


class TableAnswer(Struct):
    """The decision table; null where the policy estimates nothing."""

    table: Table | None


class ForgottenAnswer(Struct):
    """Whether there was such a user."""

    forgotten: bool


class StateAnswer(Struct):
    """Whether the service is alive, or decides."""

    status: Literal["ok", "ready"]


async def read(request: Request, decoder: msgspec.json.Decoder[T], max_body: int) -> T:
    """Return the content of a request; raise an HttpError that says what is wrong with it."""
    kind = request.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != "application/json":
        raise HttpError(415, "the content type must be application/json")
    body = await _body(request, max_body)
    try:
        return decoder.decode(body)
    except RecursionError:
        raise HttpError(422, "the content is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HttpError(422, f"the content is wrong: {error}") from None


async def _body(request: Request, max_body: int) -> bytes:
    """Return the bytes of a request, or refuse them before more than allowed are kept."""
    try:
        announced = int(request.headers.get("content-length", "0"))
    except ValueError:
        announced = 0  # what comes is counted all the same
    if announced > max_body:
        raise _too_large(max_body)
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            parts, size = [], 0
            more = True
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise HttpError(408, "the caller left before the content was whole")
                part = message.get("body", b"")
                more = message.get("more_body", False)
                parts.append(part)
                size += len(part)
                if size > max_body:
                    raise _too_large(max_body)
    except TimeoutError:
        raise HttpError(408, f"the content took more than {_BODY_SECONDS} s") from None
    return b"".join(parts)


def _too_large(max_body: int) -> HttpError:
    return HttpError(413, f"a request may have {max_body:,} bytes and {MAX_BATCH:,} entries")


def arm_answer(arm: ArmStatus) -> ArmAnswer:
    """Return an arm as it is told."""
    return ArmAnswer(
        arm.number,
        arm.name,
        arm.is_active,
        arm.shown,
        arm.rewards,
        arm.defaults,
        arm.mean_reward,
    )


def estimates_answer(found: CrowdEstimates, names: Sequence[str]) -> Estimates:
    """Return estimates as they are told."""
    arms = [
        EstimatedArm(i, name, _interval(found.r[:, i]), _interval(found.b[:, i]))
        for i, name in enumerate(names[: found.r.shape[1]])
    ]
    return Estimates(arms, _interval(found.lam), found.q0, found.continuation)


def _interval(values: FloatArray) -> Interval:
    return Interval(*map(float, values))


def table_answer(table: DecisionTable) -> Table:
    """Return a decision table as it is told."""
    pairs = zip(table.starts.tolist(), table.arms.tolist(), strict=True)
    rows = [TableRow(start, table.names[arm]) for start, arm in pairs]
    q0, bound = float(table.instance.q0), float(table.upper_bound)
    return Table(rows, q0, float(table.continuation), float(table.value), bound)


def answer(content: Struct, status: int = 200) -> Response:
    """Return an answer in JSON."""
    return Response(msgspec.json.encode(content), status, media_type="application/json")
