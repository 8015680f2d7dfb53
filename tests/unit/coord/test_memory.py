"""What a group costs that does nothing: less than four kilobytes, with what it has committed."""

from __future__ import annotations

import tracemalloc

import pytest

from ottla.coord.classic.subscription import subscribed_topics
from ottla.coord.group_machine import GroupMachine
from ottla.coord.offset_reader import OffsetReader
from ottla.coord.records import GroupStored, OffsetCommitted, Stored, StoredMember, encode_record
from ottla.coord.settings import GroupSettings

GROUPS = 500
LIMIT_BYTES = 4_096
OFFSETS = 6
SUBSCRIPTION = b"\0\1\0\0\0\1\0\x05topic\xff\xff\xff\xff\0\0\0\0"
ASSIGNMENT = b"\0\1\0\0\0\1\0\x05topic\0\0\0\6" + b"".join(n.to_bytes(4) for n in range(OFFSETS)) + b"\xff\xff\xff\xff"


def records(number: int, *, stable: bool) -> list[Stored]:
    """A group as its coordinator reads it back, at rest or with one member."""
    group_id, member_id = f"group-{number}", f"consumer-{number}-00000000-0000-0000-0000-000000000000"
    member = StoredMember(member_id, None, "consumer-1", "/127.0.0.1", 300_000, 45_000, SUBSCRIPTION, ASSIGNMENT)
    stored = GroupStored(group_id, "consumer", 1, "range", member_id, number, (member,))
    if not stable:
        stored = GroupStored(group_id, "consumer", 2, None, None, number, ())
    return [
        stored,
        *(OffsetCommitted(group_id, "topic", p, number * 100 + p, 0, "", number, topic_id=b"1" * 16) for p in range(OFFSETS)),
    ]


@pytest.mark.parametrize("stable", [False, True], ids=["empty", "one member"])
def test_an_idle_group_takes_less_than_four_kilobytes(stable: bool) -> None:
    stored = [encode_record(record) for number in range(GROUPS) for record in records(number, stable=stable)]
    machine, reader = GroupMachine(GroupSettings(), lambda: "id"), OffsetReader()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for key, value in stored:
            record = reader.read(key, value)
            assert record is not None
            machine.apply(record)
        del reader, record
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(machine.classic.groups) == GROUPS
    assert taken / GROUPS < LIMIT_BYTES


def test_groups_that_read_the_same_few_topics_share_their_names() -> None:
    first, second = subscribed_topics([SUBSCRIPTION]), subscribed_topics([bytes(SUBSCRIPTION)])
    assert first == frozenset({"topic"})
    assert second is first
