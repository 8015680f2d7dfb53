"""`Record`, one record as an object, and `ConsumerRecord`, which also has the topic and partition of the record.

They are compiled classes where the kernel is compiled, and NamedTuples elsewhere. Both have the same fields and the operations of a
NamedTuple: unpacking, indexing, comparing, sorting, hashing and pickling. Compiled records are not tuples, and three times as fast
to create: the garbage collector does not track them, and their numbers are stored as numbers of C.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self

from ottla.records import kernel_record

Where = tuple[str, int]
"""A topic and a partition."""
Headers = tuple[tuple[str, bytes | None], ...]

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # type checkers have it; it need not be installed

    Key_co = TypeVar("Key_co", covariant=True, default=bytes)
    Value_co = TypeVar("Value_co", covariant=True, default=bytes)
else:
    from typing import TypeVar

    Key_co, Value_co = TypeVar("Key_co", covariant=True), TypeVar("Value_co", covariant=True)

if TYPE_CHECKING or not kernel_record.COMPILED:

    class Record(NamedTuple, Generic[Key_co, Value_co]):
        """One record. `timestamp` is in milliseconds since 1970; `timestamp_type` is 0 for CreateTime and 1 for LogAppendTime."""

        offset: int
        timestamp: int
        timestamp_type: int
        key: Key_co | None
        value: Value_co | None
        headers: Headers = ()

    class ConsumerRecord(Record[Key_co, Value_co]):
        """One record as a consumer returns it: the fields of `Record`, and its `topic` and `partition`.

        `where` is the pair of topic and partition, one object for all records of a partition. Comparisons ignore it. Key and value
        are None, or of the types `Key` and `Value`: bytes without deserializers, otherwise what these return.
        """

        where: Where

        def __new__(
            cls,
            offset: int,
            timestamp: int,
            timestamp_type: int,
            key: Key_co | None,
            value: Value_co | None,
            headers: Headers = (),
            where: Where = ("", -1),
        ) -> Self:
            made = tuple.__new__(cls, (offset, timestamp, timestamp_type, key, value, headers))
            made.where = where
            return made

        @property
        def topic(self) -> str:
            return self.where[0]

        @property
        def partition(self) -> int:
            return self.where[1]

        @property
        def delivery_count(self) -> int | None:
            """Return how often a share group has delivered the record, with this time; None for a record of a plain consumer."""
            return getattr(self.where, "delivery_count", None)

        def _replace(self, **fields: Any) -> Self:
            return type(self)(**{**self._asdict(), "where": self.where, **fields})

        def __repr__(self) -> str:
            place = f"{self.topic}-{self.partition}@{self.offset}"
            return f"{place}(timestamp={self.timestamp}, key={self.key!r}, value={self.value!r})"

        def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
            return type(self), (*self, self.where)

else:
    Record = kernel_record.CompiledRecord
    ConsumerRecord = kernel_record.CompiledConsumerRecord
