"""What is to become of a broker's session if the broker is killed: it ends at once, and its partitions get other leaders.

ZooKeeper itself waits for the session's timeout, because a client that it does not hear may be alive. A process beside the broker
knows better: its standard input ends with the broker, however that ends.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from subprocess import DEVNULL, PIPE
from typing import Final

from ottla.net.zookeeper.address import ZooKeeperAddress

log = logging.getLogger("ottla.net")

LEAVE_S: Final = 1.0
LEAST_S: Final = 1.0
"""An executor that ends is started again so late after its last start."""
WAITING: Final = """
trap '' INT TERM
while IFS= read -r line; do session=$line; done
[ -z "$session" ] || printf %s "$session" | "$@"
"""
"""Waits for the end of its input. A shell takes a tenth of the memory that Python does, for as long as the broker lives.

It ignores what is meant for the broker, which ends its session by itself. The last whole line counts, and an empty one says that
there is no session to be ended. No other user sees a line: it is no argument of a process.
"""
EXECUTOR: Final = ("/bin/sh", "-c", WAITING, "will", sys.executable, "-m", "ottla.net.zookeeper.executor")


class LastWill:
    """Told to a process of its own, which outlives this one and has nothing else to do. It begins with the first session.

    `tls` are the settings by which the server is reached, empty without TLS. Where that process is killed too, as with a whole
    container, the session ends after its timeout.
    """

    def __init__(self, address: ZooKeeperAddress, tls: Mapping[str, str]) -> None:
        self._server = {"hosts": address.hosts, "tls": dict(tls)}
        self._executor: subprocess.Popen[bytes] | None = None
        self._line = b""
        self._begun_s = 0.0
        """When the executor was started last, by the monotonic clock."""

    def write(self, session: tuple[int, bytes], timeout_ms: int) -> None:
        """This is the session from now on: its number and its password."""
        session_id, password = session
        told = self._server | {"id": session_id, "password": password.hex(), "timeout_ms": timeout_ms}
        self._line = json.dumps(told).encode()
        self._have_executed()

    def keep(self) -> None:
        """Start the executor again if it has ended, as where the system was short of memory."""
        executor = self._executor
        if self._line and executor is not None and executor.poll() is not None and time.monotonic() - self._begun_s > LEAST_S:
            log.info("the process that ends this broker's session if the broker is killed has ended, and is started again")
            self._have_executed()

    def _have_executed(self) -> None:
        """Give the last line to an executor that runs."""
        try:
            if self._executor is None or self._executor.poll() is not None:
                self._forget()
                self._begun_s = time.monotonic()
                self._executor = subprocess.Popen(EXECUTOR, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True)
            self._tell(self._executor, self._line)
        except OSError as failure:
            log.warning("this broker's session with ZooKeeper ends after its timeout only if the broker is killed: %s", failure)

    def _forget(self) -> None:
        """Close what is left of an executor that has ended."""
        executor, self._executor = self._executor, None
        if executor is not None and executor.stdin is not None:
            with suppress(OSError):
                executor.stdin.close()

    def revoke(self) -> None:
        """The session was ended in order."""
        self._line = b""
        executor, self._executor = self._executor, None
        if executor is not None and executor.stdin is not None:
            with suppress(OSError):
                self._tell(executor, b"")
                executor.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                executor.wait(LEAVE_S)

    def _tell(self, executor: subprocess.Popen[bytes], line: bytes) -> None:
        assert executor.stdin is not None, "it was asked for"
        executor.stdin.write(line + b"\n")
        executor.stdin.flush()
