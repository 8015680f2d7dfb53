"""A script that ends a broker's ZooKeeper session, which it reads from standard input.

The process of `LastWill` runs the script after the broker was killed. It implements only the few messages of ZooKeeper's protocol
that it needs.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

CONNECT_S = 3.0
CLOSE_SESSION = -11


def execute(session: str) -> None:
    """End a session at the first server that can be reached. `session` has the format that `LastWill` writes."""
    told = json.loads(session)
    secured = _tls_wrapper(told["tls"])
    for host, port in told["hosts"]:
        try:
            end(host, port, int(told["id"]), bytes.fromhex(told["password"]), int(told["timeout_ms"]), secured)
        except (OSError, EOFError):
            continue
        return


def end(host: str, port: int, session_id: int, password: bytes, timeout_ms: int, secured: Callable[..., object] | None) -> None:
    """Take over a session at a server, and end it. Raises OSError, and EOFError if the server closes the connection."""
    with socket.create_connection((host, port), CONNECT_S) as plain:
        connection: Any = plain if secured is None else secured(plain, server_hostname=host)
        connect = struct.pack("!iqiqi", 0, 0, timeout_ms, session_id, len(password)) + password + b"\0"
        connection.sendall(struct.pack("!i", len(connect)) + connect)
        answer = connection.makefile("rb")
        length = answer.read(4)
        if len(length) < 4:
            raise EOFError
        answer.read(struct.unpack("!i", length)[0])
        connection.sendall(struct.pack("!iii", 8, 1, CLOSE_SESSION))
        answer.read(1)  # no answer comes if the session had ended already


def _tls_wrapper(settings: dict[str, str]) -> Callable[..., object] | None:
    """Return the function that adds TLS to a connection, built from the broker's settings. Return None without TLS."""
    if not settings:
        return None
    from ottla.broker.settings import BrokerSettings
    from ottla.net.zookeeper.registry_factory import access_by

    access = access_by(BrokerSettings.parse(settings))
    return None if access.secure is None else access.secure().wrap_socket


if __name__ == "__main__":
    execute(sys.stdin.read())
