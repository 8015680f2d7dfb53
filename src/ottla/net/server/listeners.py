"""The addresses on which a broker listens, with their protocols. The module uses no sockets."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from ipaddress import ip_address

from ottla.broker.releases import TODAY, Release, find
from ottla.broker.settings import SecurityProtocol

PLAINTEXT = SecurityProtocol.PLAINTEXT.value
OPTIONS = ("release", "name", "security")


class CannotListen(Exception):
    """The broker cannot listen on an address. The message says which address, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Listen:
    """A listener: host, port (0 means any free port), name, Kafka release and security protocol.

    If the security protocol is None, `listener.security.protocol.map` gives the protocol for the listener's name.
    """

    host: str
    port: int
    name: str = PLAINTEXT
    release: Release = TODAY
    security: SecurityProtocol | None = None

    @classmethod
    def parse(cls, text: str) -> Listen:
        """Parse "host:port" or "[ipv6]:port", optionally with ",release=0.9.0", ",security=SASL_SSL" and ",name=OLD".

        Raises ValueError with a message for the user.
        """
        address, *options = text.split(",")
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdecimal() or int(port) > 65535:
            raise ValueError(f"{address!r} is not a listener's address: write HOST:PORT, such as 127.0.0.1:9092.")
        given = dict(option.partition("=")[::2] for option in options)
        if not given.keys() <= set(OPTIONS) or not all(given.values()):
            raise ValueError(
                f"{text!r} is not a listener: write HOST:PORT, then optionally ,release=RELEASE, ,security=PROTOCOL and ,name=NAME."
            )
        release = find(given["release"]) if "release" in given else TODAY
        security = SecurityProtocol.find(given["security"]) if "security" in given else None
        if not re.fullmatch("[A-Za-z0-9_.-]+", given.get("name", PLAINTEXT)):
            raise ValueError(f"{given['name']!r} is not a listener's name: choose one of letters and digits.")
        old = f"RELEASE_{release}".replace(".", "_") if release.name else PLAINTEXT
        name = given.get("name", old if security in (None, SecurityProtocol.PLAINTEXT) else security.value)
        return cls(host.removeprefix("[").removesuffix("]"), int(port), name.upper(), release, security)

    @property
    def spoken(self) -> SecurityProtocol:
        """Return the security protocol, or PLAINTEXT while none is set."""
        return self.security or SecurityProtocol.PLAINTEXT

    @property
    def advertised_host(self) -> str:
        """Return the host name that clients see and a certificate can name; "" if the host is an IP address."""
        try:
            ip_address(self.host.partition("%")[0])
        except ValueError:
            return self.host
        return ""

    @property
    def text(self) -> str:
        """Return the listener as text that `parse` accepts."""
        release = f",release={self.release}" if self.release.name else ""
        security = f",security={self.security.value}" if self.security else ""
        return f"{self},name={self.name}{release}{security}"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def cannot_listen(where: Listen, error: OSError | UnicodeError) -> CannotListen:
    """Return the exception for an address on which the broker cannot listen. A UnicodeError means an impossible host name."""
    code = (error.errno or 0) if isinstance(error, OSError) else 0
    known = error.strerror if isinstance(error, OSError) else None
    reason = os.strerror(code) if code > 0 else known or error  # asyncio replaces the operating system's message
    remedy = (
        "stop the process that uses it, or choose another port" if code == errno.EADDRINUSE else "choose an address of this machine"
    )
    return CannotListen(f"Cannot listen on {where}: {reason}; {remedy} with --listen.")
