"""`python -m tests.siege.innocent ADDRESS TOPIC FILE`: a client that means no harm, in a process of its own.

It sends one record with acks=1 fifty times a second over one blocking socket, and writes down each: when it was sent (by the clock
of `time.perf_counter`, which all processes of a machine share), how long the answer took, and the record's number. The latency
counts from the sending, not from the time that was planned for it: while one answer is awaited nothing else is sent, and what
would have been sent meanwhile counts as not sent.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from bench import raw
from tests.siege.processes import die_with_parent

EVERY_S = 0.02
TIMEOUT_S = 30.0
VALUE_BYTES = 100
LAYOUT = struct.Struct("<ddq")
FAILED = -1.0
NUMBER = struct.Struct(">q")


class Sample(NamedTuple):
    """One record. `took_s` is negative if no good answer came, and then it tells after how long that was known."""

    sent_at: float
    took_s: float
    number: int

    @property
    def is_good(self) -> bool:
        return self.took_s >= 0


def request(topic: str, number: int) -> bytes:
    return raw.produce_request(topic, raw.batch(NUMBER.pack(number).ljust(VALUE_BYTES)), acks=1)


def send_for_ever(address: str, topic: str, file: int) -> None:
    connection: socket.socket | None = None
    number = 0
    due = time.perf_counter()
    while True:
        time.sleep(max(0.0, due - time.perf_counter()))
        frame = request(topic, number)
        sent_at = time.perf_counter()
        try:
            connection = connection or open_connection(address)
            connection.sendall(frame)
            raw.check(raw.reply(connection), topic)
            took_s = time.perf_counter() - sent_at
        except (OSError, EOFError, RuntimeError):
            took_s = FAILED - (time.perf_counter() - sent_at)
            if connection is not None:
                connection.close()
            connection = None
        os.write(file, LAYOUT.pack(sent_at, took_s, number))
        number += 1
        due = max(due + EVERY_S, time.perf_counter())


def open_connection(address: str) -> socket.socket:
    connection = raw.connect(address)
    connection.settimeout(TIMEOUT_S)
    return connection


class Innocent:
    """The process, seen from the harness."""

    def __init__(self, address: str, topic: str, path: Path) -> None:
        self.topic = topic
        self._path = path
        self._command = [sys.executable, "-m", "tests.siege.innocent", address, topic, str(path)]
        self._process: subprocess.Popen[bytes] | None = None

    def samples(self) -> Iterator[Sample]:
        """All that is known so far, in the order of sending."""
        data = self._path.read_bytes() if self._path.exists() else b""
        whole = len(data) - len(data) % LAYOUT.size
        yield from (Sample(*fields) for fields in LAYOUT.iter_unpack(data[:whole]))

    def wait_until(self, sent_at: float, limit_s: float) -> bool:
        """Wait for the fate of a record sent at or after this time; False if it is not known `limit_s` later."""
        deadline = time.perf_counter() + limit_s
        while time.perf_counter() < deadline:
            if any(sample.sent_at >= sent_at and sample.is_good for sample in self.samples()):
                return True
            time.sleep(0.05)
        return False

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def main() -> None:
    die_with_parent()
    address, topic, path = sys.argv[1:]
    with suppress(KeyboardInterrupt):
        send_for_ever(address, topic, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND))


if __name__ == "__main__":
    main()
