"""Ids of decisions, which nobody can make up, and the random numbers that belong to a decision."""

import hashlib
import hmac

from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError, UnknownNameError

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_MARK = 12
"""Hexadecimal digits of the mark: 2^48 guesses for one decision."""
_MAX_NUMBER_LENGTH = 13
"""Of a number below 2^63, in base 36."""
MAX_USER = 200
"""Characters of a user's name."""


def _base36(number: int) -> str:
    digits = ""
    while True:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
        if not number:
            return digits


class DecisionIds:
    """Ids of decisions: the number, and a mark that only who has the secret can make."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def id_of(self, number: int) -> str:
        """Return the id of a decision."""
        text = _base36(number)
        return f"{text}-{self._mark(text)}"

    def number_of(self, decision: str, where: str = "") -> int:
        """Return the number of a decision; raise UnknownNameError if this is no id of one."""
        number, _, mark = decision.partition("-") if isinstance(decision, str) else ("", "", "")
        if 0 < len(number) <= _MAX_NUMBER_LENGTH and mark.isascii():
            is_plain = all(digit in _DIGITS for digit in number)
            if is_plain and hmac.compare_digest(mark, self._mark(number)):
                return int(number, 36)
        raise unknown_decision(decision, where)

    def _mark(self, number: str) -> str:
        return hmac.digest(self._secret, number.encode(), "sha256").hex()[:_MARK]


def unknown_decision(decision: str, where: str = "") -> UnknownNameError:
    """Return the error that says that there was no such decision."""
    return UnknownNameError(f"{where}no decision has the id {quoted(decision)}")


def uniform_of(seed: int, number: int) -> float:
    """Return the uniform random number in [0, 1) of a decision."""
    text = f"{seed} {number}".encode()
    digest = hashlib.blake2b(text, digest_size=8, person=b"bdes live floor"[:16]).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53


def check_user(user: object) -> None:
    """Raise InvalidValueError unless this can be the name of a user."""
    if not isinstance(user, str):
        raise InvalidValueError(f"a user is a text, got {quoted(user)}")
    if not 1 <= len(user) <= MAX_USER:
        raise InvalidValueError(
            f"a user is a text of 1 to {MAX_USER} characters, got {len(user):,}"
        )
    for character in user:
        if character < " " or "\x7f" <= character <= "\x9f" or "\ud800" <= character <= "\udfff":
            raise InvalidValueError(
                f"a user has no control characters and no half characters, got {quoted(user)}"
            )
