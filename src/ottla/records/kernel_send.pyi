from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar

Outcome = TypeVar("Outcome", covariant=True)
Failure = TypeVar("Failure", covariant=True)

COMPILED: bool

def note_fork() -> None: ...
def encode_headers(headers: object) -> bytes | None: ...

class RecordBuffer:
    out: bytearray
    end: int
    limit: int
    record_count: int
    base_timestamp: int
    max_timestamp: int
    is_open: bool
    @property
    def times(self) -> bytearray: ...
    def __init__(self, limit: int, out: bytearray | None = None) -> None: ...
    def reserve(self, size: int) -> None: ...
    def add(self, key: bytes | None, value: bytes | None, headers: bytes | None, timestamp: int) -> int: ...
    def note_time(self, timestamp: int) -> None: ...

class Delivery(Generic[Outcome, Failure]):
    """The future result of a record that is being sent. `index` is the record's position in its batch, counted from 0."""

    @property
    def batch(self) -> Any: ...
    @property
    def index(self) -> int: ...
    def __init__(self, batch: object, index: int) -> None: ...
    @property
    def topic(self) -> str:
        """Return the topic of the record."""

    @property
    def partition(self) -> int:
        """Return the partition of the record."""

    def done(self) -> bool:
        """Return whether the record was written or has failed."""

    def result(self, timeout: float | None = None) -> Outcome:
        """Return the record's metadata. Wait for it up to `timeout` seconds; None waits without limit.

        Raises `TimedOut`, or the `KafkaError` that prevented the writing of the record.
        """

    def error(self) -> Failure | None:
        """Return the error of a record that has failed, and None otherwise. Unlike `result`, this does not count as reading it."""

    def add_done_callback(self, callback: Callable[[Delivery[Outcome, Failure]], object]) -> None:
        """Call `callback(delivery)` once the record is written or has failed, on the client's thread or at once."""

    def __await__(self) -> Generator[None, None, Outcome]: ...

class RecordAppender:
    is_open: bool
    @property
    def pending_bytes(self) -> int: ...
    def __init__(
        self,
        clock: Callable[[], int],
        lock: AbstractContextManager[object],
        check: Callable[[], object] | None,
        *,
        partitions: bool,
        most_pending_bytes: int,
        most_record_bytes: int,
    ) -> None: ...
    def append(
        self, topic: object, value: object, key: object, partition: object, headers: object, timestamp_ms: object
    ) -> Delivery[Any, Any] | None: ...
    def add(self, batch: RecordBuffer, key: bytes | None, value: bytes | None, headers: bytes | None, timestamp: int) -> int: ...
    def count(self, more_bytes: int) -> None: ...
    def set_count(self, topic: str, count: int) -> None: ...
    def open(self, topic: str, partition: int, batch: RecordBuffer) -> None: ...
    def close(self, topic: str, partition: int, batch: RecordBuffer) -> None: ...
    def stick(self, topic: str, partition: int) -> None: ...
    def recount(self) -> None: ...
