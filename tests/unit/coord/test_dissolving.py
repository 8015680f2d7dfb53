"""A coordinator that has left forgets what it knew in pieces, however its offsets are spread over groups and topics."""

from __future__ import annotations

import pytest

from ottla.coord.offsets import Offsets
from ottla.coord.records import NO_TIMESTAMP, NO_TOPIC_ID, OffsetCommitted
from ottla.coord.runtime.machine import DISSOLVED_AT_ONCE


@pytest.mark.parametrize(("groups", "topics", "partitions"), [(5_000, 1, 1), (1, 5_000, 1), (1, 1, 5_000), (70, 7, 10)])
def test_offsets_are_forgotten_some_at_a_time(groups: int, topics: int, partitions: int) -> None:
    offsets = Offsets()
    for group in range(groups):
        for topic in range(topics):
            for index in range(partitions):
                offsets.apply(OffsetCommitted(f"g{group}", f"t{topic}", index, 5, -1, "", 0, NO_TIMESTAMP, NO_TOPIC_ID))
    assert len(offsets) == groups * topics * partitions
    pauses = sum(1 for _ in offsets.dissolve())
    assert pauses >= groups * topics * partitions // DISSOLVED_AT_ONCE
    assert len(offsets) == 0
