"""A broker on real files in this process, from one start to its stop: no socket, and time passes only when it is told to.

It starts as `ottla serve` does, by `ottla.net.startup.start`, so that a refused start is refused in the same words.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any
from unittest.mock import patch

from ottla.broker.broker import BrokerMachine
from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Close, Peer, Throttled
from ottla.broker.settings import BrokerSettings
from ottla.net.startup import start as starting
from ottla.ports import StorageFailed
from ottla.sim.clock import SimClock
from ottla.wire.framing import FrameHeader, decode_response, encode_request

SETTINGS = BrokerSettings.parse(
    {
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "2",
        "num.partitions": "1",
        "auto.create.topics.enable": "false",
        "log.retention.check.interval.ms": "60000",
        "log.cleaner.backoff.ms": "15000",
        "log.flush.offset.checkpoint.interval.ms": "60000",
        "ottla.journal.bytes": str(1 << 18),
    }
)
PATIENCE_TURNS = 4000
SLICES = 10


class Stuck(BaseException):
    """The broker does not come to an end with something. No `Exception`: nothing in the broker may catch it."""


class Entries(logging.Handler):
    """What the broker's log says, from `level` on. `traces` are entries with a traceback, or worse."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []
        self.warnings: list[str] = []
        self.traces: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        line = f"{record.levelname} {record.getMessage()}"
        self.lines.append(line)
        if record.levelno >= logging.WARNING:
            self.warnings.append(line)
        if record.exc_info or record.levelno >= logging.CRITICAL:
            self.traces.append(self.format(record))


class Life:
    """One life of a broker. Raises `DataDirectoryError` where the start is refused."""

    def __init__(self, path: str, clock: SimClock) -> None:
        self.clock = clock
        self.entries = Entries()
        self._syncs = 0
        self._correlation_id = 0
        self._peer = Peer(1, "127.0.0.1", 50000, "127.0.0.1", 9092)
        self._logger = logging.getLogger("ottla")
        self._propagates, self._logger.propagate = self._logger.propagate, False
        self._logger.addHandler(self.entries)
        self._loop = asyncio.new_event_loop()
        try:
            with patch.object(starting, "RealClock", lambda: clock):
                self._running = self._loop.run_until_complete(starting.start(path, [], SETTINGS))
        except BaseException:
            self._end()
            raise
        self.disk = self._running.broker.disk
        self._count_syncs()
        self.settle()

    @property
    def broker(self) -> BrokerMachine:
        return self._running.broker

    @property
    def failure(self) -> Exception | None:
        """The mistake that ended the broker."""
        return self._running.server.door.failure

    def ask(self, key: int, version: int, body: Any) -> Any:
        """Send one request; the response, or a `Close`."""
        self._correlation_id += 1
        parts = encode_request(FrameHeader(key, version, self._correlation_id, "bitrot"), body)
        frame = memoryview(bytearray(b"".join(parts)))[4:]
        answer = self._running.server.door.receive(frame, self._peer, self.clock.now())
        self.settle()
        for _ in range(PATIENCE_TURNS):
            if not isinstance(answer, DelayedReply):
                break
            if answer.done:
                answer = answer.answer
                break
            self.pass_time(1)
        else:
            raise Stuck(f"API {key} version {version} was not answered in {PATIENCE_TURNS} ms")
        if answer is None or isinstance(answer, Close):
            return answer
        assert not isinstance(answer, Throttled), "no quotas are set here"
        data = b"".join(bytes(part) if isinstance(part, bytes | bytearray | memoryview) else part.read() for part in answer)
        return decode_response(key, version, data[4:])[1]

    def pass_time(self, ms: int) -> None:
        """Move the clock, and do what is due by then."""
        self.clock.advance(ms)
        door = self._running.server.door
        with door:
            self.broker.run_timers(self.clock.now())
        self.settle()

    def settle(self) -> None:
        """Let the disk finish what was asked of it, and the broker what hangs on it."""
        with self._running.server.door:
            self.broker.finish_bundle(self.clock.now())
        self._turn()
        for _ in range(PATIENCE_TURNS):
            if not self._syncs:
                return
            self._loop.run_until_complete(asyncio.sleep(0.0001))
        raise Stuck("the disk is not done with its syncs")

    def _turn(self) -> None:
        self._loop.run_until_complete(asyncio.sleep(0))

    def keep_house(self, ms: int, step_ms: int = 30_000) -> None:
        """Let simulated time pass, step by step, with time for work that goes on in slices."""
        for _ in range(ms // step_ms):
            self.pass_time(step_ms)
            for _ in range(SLICES):
                self.pass_time(2)

    def stop(self) -> None:
        """Stop in order."""
        try:
            self._loop.run_until_complete(self._running.stop())
        finally:
            self._end()

    def _end(self) -> None:
        self._logger.removeHandler(self.entries)
        self._logger.propagate = self._propagates
        self._loop.close()

    def _count_syncs(self) -> None:
        """Know how many syncs are under way: they are made on another thread."""
        sync_soon = self.disk.sync_soon

        def counted(files: Iterable[Any], done: Callable[[StorageFailed | None], None]) -> None:
            def finished(failure: StorageFailed | None) -> None:
                self._syncs -= 1
                done(failure)

            sync_soon(files, finished)
            self._syncs += 1

        self.disk.sync_soon = counted  # type: ignore[method-assign]  # the same, and counted
