"""The header of a journal: what the numbers of a live learner depend on, and its secret."""

import hashlib
import json
import secrets
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from bdes_framework._internal.files import parse_json
from bdes_framework._internal.text import quoted
from bdes_framework.errors import ConfigError, JournalError, Mistake
from bdes_framework.interfaces import Reference
from bdes_framework.live.config import LiveSetup
from bdes_framework.model.instance import CrowdProblem

_FORMAT = "bdes live 1"
_NUMBERS = ("seed", "visits", "visits_per_user", "lam", "q0")


@frozen
class Header:
    """What the numbers of a live learner depend on, as its journal says."""

    name: str
    arms: tuple[str, ...]
    """The first ones."""
    policy: Mapping[str, object]
    files: Mapping[str, str]
    """SHA-256 of each file that the policy names."""
    seed: int
    visits: int
    visits_per_user: float | None
    lam: float | None
    q0: float
    secret: bytes
    """What ids of decisions are marked with."""

    @classmethod
    def new(cls, setup: LiveSetup) -> "Header":
        """Return the header of a journal that is made now."""
        config = setup.config
        return cls(
            name=config.name,
            arms=config.arms,
            policy=_table(config.policy),
            files=_digests(setup.policy),
            seed=config.seed,
            visits=config.visits,
            visits_per_user=config.visits_per_user,
            lam=config.lam,
            q0=config.q0,
            secret=secrets.token_bytes(32),
        )

    @classmethod
    def read(cls, text: str) -> "Header":
        """Return the header that a journal holds."""
        try:
            found = parse_json(text)
            if found.pop("format") != _FORMAT:
                raise ValueError("is of another format")
            found["secret"] = bytes.fromhex(str(found["secret"]))
            found["arms"] = tuple(map(str, found["arms"]))  # type: ignore[call-overload]
            return cls(**found)  # type: ignore[arg-type]
        except (ValueError, KeyError, TypeError) as error:
            raise JournalError(f"the journal's header {error}") from None

    @property
    def text(self) -> str:
        """The header as the journal holds it."""
        content = {name: getattr(self, name) for name in ("name", *_NUMBERS)}
        content |= {"format": _FORMAT, "arms": list(self.arms), "policy": dict(self.policy)}
        content |= {"files": dict(self.files), "secret": self.secret.hex()}
        return json.dumps(content, sort_keys=True)

    @property
    def problem(self) -> CrowdProblem:
        """What the policy was told."""
        return CrowdProblem(
            len(self.arms), self.visits, self.visits_per_user, lam=self.lam, q0=self.q0
        )

    def check(self, setup: LiveSetup) -> None:
        """Raise ConfigError if the file asks for other numbers than the journal has."""
        now, file = Header.new(setup), setup.folder / "live.toml"
        mistakes = [
            Mistake(name, _changed(getattr(self, name), getattr(now, name)))
            for name in (*_NUMBERS, "policy")
            if getattr(self, name) != getattr(now, name)
        ]
        if self.arms != now.arms:
            what = _changed(list(self.arms), list(now.arms))
            hint = "; arms are added and retired while it runs"
            mistakes.append(Mistake("arms", what + hint))
        if not mistakes and self.files != now.files:
            mistakes.append(Mistake("policy", "a file that it names is not what it was"))
        if mistakes:
            raise ConfigError(mistakes, str(file))


def _changed(was: object, now: object) -> str:
    return (
        f"was {quoted(was)} when the journal was made, and is {quoted(now)}: what was decided"
        " depends on it; start another journal, or put it back"
    )


def _table(reference: Reference) -> dict[str, object]:
    """Return a reference as the table that a file has."""
    if isinstance(reference, str):
        return {"use": reference}
    assert isinstance(reference, Mapping)  # a file has no config objects
    content: dict[str, object] = json.loads(json.dumps(dict(reference), default=str))
    return content


def _digests(policy: Reference) -> dict[str, str]:
    """Return SHA-256 of each file that a policy's config names."""
    found = {}
    for name in getattr(policy, "__attrs_attrs__", ()):
        value = getattr(policy, name.name)
        if isinstance(value, Path) and value.is_file():
            with value.open("rb") as file:
                found[name.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found
