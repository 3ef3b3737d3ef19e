"""The table ``[serve]`` of live.toml: where a service listens, to whom, and its limits."""

import os
from ipaddress import ip_address
from pathlib import Path

from attrs import Attribute, field, frozen, validators

from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.plugin.validators import validate_integer

TOKEN_VARIABLE = "BDES_LIVE_TOKEN"  # noqa: S105 (the name of a variable)
MIN_TOKEN = 16


def _validate_host(_: object, attribute: "Attribute[str]", value: str) -> None:
    if value != "localhost":
        try:
            ip_address(value)
        except ValueError:
            raise InvalidValueError(
                f"'{attribute.name}' must be an IP address or localhost: {quoted(value)}"
            ) from None


@frozen
class ServeConfig:
    """Where the service listens and what it accepts.

    Parameters
    ----------
    host : str
        The address to listen on. Any other than loopback asks for a token.
    port : int
        The port; 0 takes a free one and logs it.
    token_file : Path, optional
        A file with the token, if it is not in the environment variable BDES_LIVE_TOKEN.
    hosts : tuple[str, ...]
        Names by which browsers and clients may call the service, besides those of loopback; only
        asked for where there is no token. A page of a stranger, whose name leads to this machine,
        is refused by that.
    max_body : int
        How many bytes a request may have.
    max_waiting : int
        How many requests may wait for their answer at a time; more are asked to come back.
    drain_seconds : int
        How long requests that were accepted may take when the service is asked to stop.
    """

    host: str = field(default="127.0.0.1", validator=_validate_host)
    port: int = field(
        default=8000, validator=[validate_integer, validators.ge(0), validators.le(65_535)]
    )
    token_file: Path | None = None
    hosts: tuple[str, ...] = ()
    max_body: int = field(
        default=2**20, validator=[validate_integer, validators.ge(1_024), validators.le(2**26)]
    )
    max_waiting: int = field(default=2_000, validator=[validate_integer, validators.ge(1)])
    drain_seconds: int = field(default=30, validator=[validate_integer, validators.ge(1)])

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        return self.host == "localhost" or ip_address(self.host).is_loopback

    def token(self, folder: Path) -> str | None:
        """Return the token, from the environment or its file; None if there is none.

        Raises InvalidValueError if it is too short, or if it is missing and others than this
        machine could call.
        """
        token = os.environ.get(TOKEN_VARIABLE)
        source = f"the environment variable {TOKEN_VARIABLE}"
        if token is None and self.token_file is not None:
            path = folder / self.token_file
            source = f"the token file {path}"
            try:
                token = path.read_text(encoding="ascii").strip()
            except (OSError, ValueError) as error:
                raise InvalidValueError(f"{source} cannot be read: {error}") from None
        if token is None:
            if not self.is_loopback:
                raise InvalidValueError(
                    f"to listen on {self.host} there must be a token: set {TOKEN_VARIABLE}, or"
                    " token_file in [serve]; without one, listen on 127.0.0.1"
                )
            return None
        if len(token) < MIN_TOKEN or not (token.isascii() and token.isprintable()) or " " in token:
            raise InvalidValueError(
                f"{source} must have at least {MIN_TOKEN} printable ASCII characters and no blank;"
                " 'python -c \"import secrets; print(secrets.token_urlsafe())\"' makes one"
            )
        return token
