"""`Record`, one record as an object: a compiled class where the kernel is compiled, and a NamedTuple elsewhere.

Both have the fields, and what a NamedTuple can do: to unpack, index, compare, sort, hash and pickle. The compiled one is no tuple,
and three times faster to make: the garbage collector does not follow it, and its numbers are C's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.records import kernel_record

if TYPE_CHECKING or not kernel_record.COMPILED:

    class Record(NamedTuple):
        """One record. `timestamp` is in milliseconds since 1970; type 0 is the producer's time, 1 the broker's."""

        offset: int
        timestamp: int
        timestamp_type: int
        key: bytes | None
        value: bytes | None
        headers: tuple[tuple[str, bytes | None], ...] = ()

else:
    Record = kernel_record.Record
