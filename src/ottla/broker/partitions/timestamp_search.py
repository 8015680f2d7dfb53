"""The search for the offset of a time in a partition's log: in steps, with large batches decompressed by workers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ottla.broker.long_checks import LongChecks
from ottla.broker.partitions.partition import Partition
from ottla.log.errors import Unfinished
from ottla.log.segments.timestamps import Answer, Found, Further, Sought
from ottla.ports import Steps, StorageFailed


def find_timestamp(partition: Partition, timestamp: int | None, checks: LongChecks) -> Steps[Found | None]:
    """Return (timestamp, offset) of the first record at or after a time, in ms, or of the largest timestamp if `timestamp` is None.

    Return None if there is no such record. Raises `StorageFailed`.
    """
    log = partition.log
    look_up = log.max_timestamp_offset if timestamp is None else partial(log.offset_for_timestamp, timestamp)
    found = yield from _in_parts(partition, look_up)
    while isinstance(found, Sought):
        in_batch = yield from checks.run(found.search())
        following = partial(log.offset_for_timestamp, found.timestamp, found.next_offset)
        found = in_batch or (yield from _in_parts(partition, following))
    return found


def _in_parts(partition: Partition, look_up: Callable[[], Answer]) -> Steps[Found | Sought | None]:
    """Call `look_up`, and continue its search with pauses until it is complete. Return the search's result."""
    while partition.offline is None:
        try:
            found = look_up()
        except Unfinished:
            yield None
            continue
        if not isinstance(found, Further):
            return found
        look_up = partial(partition.log.continue_search, found)
        yield None
    raise StorageFailed(str(partition), "it went offline meanwhile")
