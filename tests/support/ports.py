"""Free ports of this machine for brokers that take several."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest


def ports_in_a_row() -> int:
    """Return the first of two free ports in a row."""
    for _ in range(50):
        with ExitStack() as held, socket.create_server(("127.0.0.1", 0)) as first:
            port: int = first.getsockname()[1]
            try:
                held.enter_context(socket.create_server(("127.0.0.1", port + 1)))
            except OSError:
                continue
            return port
    pytest.fail("no two free ports in a row")
