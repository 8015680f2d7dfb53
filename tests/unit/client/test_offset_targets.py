"""The offsets of targets that people name, for the command and the console."""

from __future__ import annotations

import pytest

from ottla.client.admin.offset_targets import END, OFFSET, SHIFT, START, TIME, NothingCommitted, target_offsets
from ottla.client.types import OffsetAndMetadata, TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def offsets(target: str, value: int = 0, *, committed: dict[TopicPartition, int] | None = None) -> list[int]:
    known = {where: OffsetAndMetadata(offset) for where, offset in (committed or {A: 50, B: 5}).items()}
    found = target_offsets(
        target, value, [A, B], committed=known, starts={A: 10, B: 0}, ends={A: 100, B: 7}, at_time={A: 30, B: -1}
    )
    return [found[A], found[B]]


@pytest.mark.parametrize(
    ("target", "value", "expected"),
    [
        (START, 0, [10, 0]),
        (END, 0, [100, 7]),
        (TIME, 0, [30, 7]),
        (OFFSET, 20, [20, 7]),
        (OFFSET, 3, [10, 3]),
        (SHIFT, 1, [51, 6]),
        (SHIFT, -1000, [10, 0]),
        (SHIFT, 1000, [100, 7]),
    ],
)
def test_a_target_is_an_offset_within_each_partition(target: str, value: int, expected: list[int]) -> None:
    assert offsets(target, value) == expected


def test_a_shift_needs_a_committed_offset() -> None:
    with pytest.raises(NothingCommitted, match=r"^t-1 has no committed offset to count from$"):
        offsets(SHIFT, 1, committed={A: 50})
    assert offsets(OFFSET, 5, committed={A: 50}) == [10, 5]
