"""PLAIN (RFC 4616): a name and a password in clear text. It is only safe on connections with TLS."""

from __future__ import annotations

from collections.abc import Callable

from ottla.sasl.mechanism import Authenticated, Rejected, SaslFailed, Step

NAME = "PLAIN"


class PlainServer:
    """The server's side. `verify(name, password)` returns whether they match. It must take as long for names that do not exist."""

    def __init__(self, verify: Callable[[str, str], bool]) -> None:
        self._verify = verify

    def step(self, data: bytes, wall_ms: int) -> Step:
        try:
            acts_as, name, password = data.decode().split("\0")
        except UnicodeDecodeError:
            return Rejected("its PLAIN message is not UTF-8")
        except ValueError:
            return Rejected("its PLAIN message is not an identity, a name and a password with a zero byte between each")
        if not name or not password:
            return Rejected("its PLAIN message has no name or no password", "The name or the password is empty: give both.")
        if not self._verify(name, password):
            return Rejected("the name or the password is wrong", "The name or the password is wrong.")
        if acts_as not in ("", name):
            return Rejected("its authorization id is not its user", "The authorization id is not the user's name: leave it empty.")
        return Authenticated(name)


class PlainClient:
    """The client's side. The constructor raises `SaslFailed` if the name or password is empty or contains a zero byte."""

    def __init__(self, username: str, password: str) -> None:
        if not username or not password or "\0" in username + password:
            raise SaslFailed("PLAIN needs a name and a password without zero bytes: set sasl_username and sasl_password.")
        self._message: bytes | None = f"\0{username}\0{password}".encode()

    def step(self, challenge: bytes) -> bytes | None:
        message, self._message = self._message, None
        return message
