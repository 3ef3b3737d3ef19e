"""Where a service may listen, and which tokens will do."""

from pathlib import Path

import pytest

import bdes_framework as bdes
from bdes_framework.live.serve_config import TOKEN_VARIABLE, ServeConfig

TOKEN = "0123456789abcdef"


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("169.254.0.1", False),
    ],
)
def test_others_than_this_machine_need_a_token(
    host: str, is_loopback: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ServeConfig(host=host)
    assert config.is_loopback == is_loopback
    if is_loopback:
        assert config.token(tmp_path) is None
    else:
        with pytest.raises(bdes.InvalidValueError, match="there must be a token"):
            config.token(tmp_path)
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    assert config.token(tmp_path) == TOKEN


@pytest.mark.parametrize("token", ["", TOKEN[1:], TOKEN + "\x01", TOKEN + "ä", TOKEN + " x"])
def test_weak_tokens_are_refused(
    token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, token)
    with pytest.raises(bdes.InvalidValueError, match="at least 16") as raised:
        ServeConfig().token(tmp_path)
    assert not token or token not in str(raised.value)


def test_token_may_come_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = ServeConfig(host="0.0.0.0", token_file=Path("token"))
    with pytest.raises(bdes.InvalidValueError, match="cannot be read"):
        config.token(tmp_path)
    (tmp_path / "token").write_text(TOKEN + "\n")
    assert config.token(tmp_path) == TOKEN
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN[::-1])
    assert config.token(tmp_path) == TOKEN[::-1]


@pytest.mark.parametrize("host", ["", "shop.example", "127.0.0.1:80", "300.1.1.1", "a\nb"])
def test_host_is_an_address(host: str) -> None:
    with pytest.raises(bdes.InvalidValueError, match="IP address"):
        ServeConfig(host=host)


@pytest.mark.parametrize(
    "wrong", [{"port": -1}, {"port": 65_536}, {"max_body": 1}, {"max_waiting": 0}]
)
def test_limits_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ServeConfig(**wrong)  # type: ignore[arg-type]
