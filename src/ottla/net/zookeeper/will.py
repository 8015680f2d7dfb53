"""The end of a broker's ZooKeeper session after the broker was killed. It comes at once, so that partitions get new leaders.

ZooKeeper itself waits for the session's timeout, because a silent client can be alive. A process beside the broker (the executor)
ends the session earlier: its standard input ends with the broker, however the broker ends.
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
"""The shortest time, in s, between two starts of the executor."""
WAITING: Final = """
trap '' INT TERM
while IFS= read -r line; do session=$line; done
[ -z "$session" ] || printf %s "$session" | "$@"
"""
"""The shell script that waits for the end of its input. For the broker's lifetime, a shell takes a tenth of Python's memory.

The script ignores signals that are meant for the broker, which then ends its session itself. The last whole line counts; an empty
line means that no session is to be ended. Other users cannot see the lines, because they are not process arguments.
"""
EXECUTOR: Final = ("/bin/sh", "-c", WAITING, "will", sys.executable, "-m", "ottla.net.zookeeper.executor")


class LastWill:
    """The writer of the session's data to the executor, a process that outlives this one.

    The executor starts with the first session. `tls` are the settings of the connection to the server; they are empty without TLS.
    If the executor is killed too, as with a whole container, the session ends after its timeout.
    """

    def __init__(self, address: ZooKeeperAddress, tls: Mapping[str, str]) -> None:
        self._server = {"hosts": address.hosts, "tls": dict(tls)}
        self._executor: subprocess.Popen[bytes] | None = None
        self._line = b""
        self._begun_s = 0.0
        """The monotonic time of the executor's last start, in s."""

    def write(self, session: tuple[int, bytes], timeout_ms: int) -> None:
        """Write a new session, which is (number, password), to the executor."""
        session_id, password = session
        told = self._server | {"id": session_id, "password": password.hex(), "timeout_ms": timeout_ms}
        self._line = json.dumps(told).encode()
        self._have_executed()

    def restart(self) -> None:
        """Start the executor again if it has ended, for example after a shortage of memory."""
        executor = self._executor
        if self._line and executor is not None and executor.poll() is not None and time.monotonic() - self._begun_s > LEAST_S:
            log.info("the process that closes this broker's session if the broker is killed has ended: restarting it")
            self._have_executed()

    def _have_executed(self) -> None:
        """Write the last line to the executor. Start the executor if it does not run."""
        try:
            if self._executor is None or self._executor.poll() is not None:
                self._close()
                self._begun_s = time.monotonic()
                self._executor = subprocess.Popen(EXECUTOR, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True)
            self._send(self._executor, self._line)
        except OSError as failure:
            log.warning("this broker's session with ZooKeeper ends after its timeout only if the broker is killed: %s", failure)

    def _close(self) -> None:
        """Close the pipe of an executor that has ended."""
        executor, self._executor = self._executor, None
        if executor is not None and executor.stdin is not None:
            with suppress(OSError):
                executor.stdin.close()

    def revoke(self) -> None:
        """Write to the executor that the session has ended, and wait for the executor's end."""
        self._line = b""
        executor, self._executor = self._executor, None
        if executor is not None and executor.stdin is not None:
            with suppress(OSError):
                self._send(executor, b"")
                executor.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                executor.wait(LEAVE_S)

    def _send(self, executor: subprocess.Popen[bytes], line: bytes) -> None:
        assert executor.stdin is not None, "it was asked for"
        executor.stdin.write(line + b"\n")
        executor.stdin.flush()
