"""The face that every client gets, and the thread that a member of a group lives in."""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar, NamedTuple

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class GivenUp(AssertionError):
    """The client says that it will never be of use again: a new one is needed."""


class Message(NamedTuple):
    """What a consumer saw, in Kafka's own units."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int = -1


def seen(records: Mapping[Any, Sequence[Any]]) -> list[Message]:
    """What kafka-python and aiokafka call records, by partition, as messages."""
    return [
        Message(part.partition, record.offset, record.key, record.value, tuple(record.headers), record.timestamp)
        for part, found in records.items()
        for record in found
    ]


class Row(NamedTuple):
    """What a producer is to send."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int = 1_700_000_000_000
    partition: int = 0


def member_settings(address: str, group: str, **more: Any) -> dict[str, Any]:
    """How a member of a group is set up by every client that names its settings as Python does: to hear of changes soon."""
    return {
        "bootstrap_servers": address,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": 10_000,
        "heartbeat_interval_ms": 300,
        **more,
    }


class Member(ABC):
    """A consumer in a group, polled by a thread of its own, because a group moves on only while all of its members poll.

    `assigned` and `messages` may be read from any thread; everything else is done by the member's own thread.
    """

    _settings: dict[str, Any]

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.assigned: frozenset[int] = frozenset()
        self._orders: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def be_static(self, instance: str) -> None:
        """To be called before it is opened."""
        self._settings["group.instance.id" if "group.id" in self._settings else "group_instance_id"] = instance

    def start(self) -> Member:
        self._thread.start()
        return self

    @abstractmethod
    def open(self) -> None: ...

    @abstractmethod
    def poll(self) -> list[Message]:
        """Wait a little for messages; also brings `assigned` up to date."""

    @abstractmethod
    def commit(self) -> None:
        """Commit the positions after all messages seen; called by the member's thread."""

    @abstractmethod
    def close(self) -> None: ...

    def _run(self) -> None:
        try:
            self.open()
            while (order := self._next_order()) is not None:
                if isinstance(order, tuple):
                    self._obey(*order)
                self.messages += self.poll()
            self.close()
        except BaseException as failure:
            self._failure = failure

    def _next_order(self) -> tuple[Callable[[], Any], Future[Any]] | bool | None:
        try:
            return self._orders.get_nowait()
        except queue.Empty:
            return True

    @staticmethod
    def _obey(order: Callable[[], Any], done: Future[Any]) -> None:
        try:
            done.set_result(order())
        except BaseException as failure:
            done.set_exception(failure)

    def commit_now(self) -> int:
        """Commit what was seen so far, and say how many messages that were."""

        def order() -> int:
            self.commit()
            return len(self.messages)

        done: Future[int] = Future()
        self._orders.put((order, done))
        return done.result(30)

    def leave(self) -> None:
        """Leave the group, and raise what went wrong in the member's thread."""
        self._orders.put(None)
        self._thread.join(30)
        if self._failure is not None:
            raise AssertionError("the member failed") from self._failure
        assert not self._thread.is_alive(), "the member did not end in 30 s"


class Client(ABC):
    """One client library."""

    name: ClassVar[str]

    def __init__(self, address: str) -> None:
        self.address = address

    @abstractmethod
    def create_topic(self, topic: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None: ...

    @abstractmethod
    def partitions(self, topic: str) -> int:
        """How many partitions the topic's metadata shows."""

    @abstractmethod
    def produce(self, topic: str, rows: Sequence[Row], *, codec: str = "none", idempotent: bool = False) -> list[int]:
        """Send all with acks=all, wait, and return the offsets that the broker gave."""

    @abstractmethod
    def consume(self, topic: str, count: int) -> list[Message]:
        """`count` messages of the topic from the beginning, without a group, in the order of arrival."""

    @abstractmethod
    def join(self, topic: str, group: str) -> Member: ...

    @abstractmethod
    def committed(self, topic: str, group: str, partitions: int) -> dict[int, int]:
        """The offsets that the group has committed; partitions without one are left out."""
