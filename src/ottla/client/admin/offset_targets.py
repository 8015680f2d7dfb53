"""The offsets to which the committed offsets of a group are set, by a target that a person names. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.client.types import OffsetAndMetadata, TopicPartition

    Offsets = Mapping[TopicPartition, int]

START, END, OFFSET, TIME, SHIFT = "start", "end", "offset", "time", "shift"


class NothingCommitted(LookupError):
    """Raised for a partition without a committed offset, if the target is relative to it. The message is a clause."""


def target_offsets(
    target: str,
    value: int,
    partitions: Iterable[TopicPartition],
    *,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    starts: Offsets,
    ends: Offsets,
    at_time: Offsets,
) -> dict[TopicPartition, int]:
    """Return the offset of a target in each partition, within the partition. Raises `NothingCommitted`.

    `target` is one of the names above; `value` is the offset, or the number of records from the committed offset. `at_time` has the
    offset of the first record since the time of target `TIME`, -1 where there is none, which means the end.
    """
    found = {}
    for where in partitions:
        if target == START:
            offset = starts[where]
        elif target == END or (target == TIME and at_time[where] < 0):
            offset = ends[where]
        elif target == TIME:
            offset = at_time[where]
        elif target == OFFSET:
            offset = value
        elif where in committed:
            offset = committed[where].offset + value
        else:
            raise NothingCommitted(f"{where.topic}-{where.partition} has no committed offset to count from")
        found[where] = min(max(offset, starts[where]), ends[where])
    return found
