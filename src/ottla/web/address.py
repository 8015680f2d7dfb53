"""The address of an HTTP server, and the rule that keeps unencrypted pages on this machine. No sockets here."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

MOST_PORT = 65_535


class CannotServe(Exception):
    """A server that cannot listen, or whose application cannot start. The message says why, and what to do."""


class ExposedAddress(ValueError):
    """An address that other machines can reach, without TLS. The message says what to do."""


@dataclass(frozen=True, slots=True)
class WebAddress:
    """The host and port of an HTTP server. Port 0 means any free port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> WebAddress:
        """Parse "host:port" or "[ipv6]:port". Raises ValueError with a sentence."""
        host, colon, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or not (port.isascii() and port.isdecimal()) or int(port) > MOST_PORT:
            raise ValueError(f"{text!r} is not an address: write HOST:PORT, such as 127.0.0.1:8080.")
        return cls(host, int(port))

    @property
    def is_loopback(self) -> bool:
        """Return whether this machine alone can reach the address. A name other than localhost can be any machine's."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_wildcard(self) -> bool:
        """Return whether the address means all interfaces of this machine."""
        try:
            return ip_address(self.host).is_unspecified
        except ValueError:
            return False

    def refuse_exposed(self, *, has_tls: bool, is_allowed: bool, option: str) -> None:
        """Raise `ExposedAddress` if others could read what is sent. `option` is the one by which a user allows it."""
        if not (self.is_loopback or has_tls or is_allowed):
            advice = f"give it a certificate with --tls-certificate, or write {option} if the network is trusted"
            raise ExposedAddress(f"{self} can be reached from other machines, and without TLS they can read passwords: {advice}.")

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
