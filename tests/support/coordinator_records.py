"""Records of `__consumer_offsets` of every kind and version, sound and damaged, and the state that a coordinator makes of them."""

from __future__ import annotations

from enum import Enum
from struct import pack
from typing import TypeGuard

from hypothesis import strategies as st

from ottla.coord.consumer import records as consumer
from ottla.coord.consumer.states import MemberState
from ottla.coord.group_machine import GroupMachine
from ottla.coord.offsets import Offsets
from ottla.coord.records import (
    BARE_V3,
    BARE_V4,
    STORED,
    GroupForgotten,
    GroupStored,
    OffsetCommitted,
    OffsetForgotten,
    Stored,
    StoredMember,
    encode_record,
)
from ottla.wire import encode
from ottla.wire.data.offset_commits import OffsetCommitKey, OffsetCommitValue

Pair = tuple[bytes | None, bytes | None]

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
IDS = st.sampled_from([bytes(16), b"1" * 16, b"2" * 16]) | st.binary(min_size=16, max_size=16)

FEW = st.sampled_from(["g", "gruppe-ä"])
GROUP_IDS = st.one_of(FEW, FEW, FEW, TEXTS)
TOPICS = st.one_of(FEW, FEW, FEW, TEXTS)
PARTITIONS = st.one_of(st.integers(0, 2), st.integers(0, 2), INT32)
MEMBER_IDS = st.sampled_from(["m", "n"])
METADATA = st.just("") | TEXTS
COMMITTED = st.builds(OffsetCommitted, GROUP_IDS, TOPICS, PARTITIONS, INT64, INT32, METADATA, INT64, st.just(-1) | INT64, IDS)

MEMBERS = st.builds(
    StoredMember, MEMBER_IDS, st.none() | TEXTS, TEXTS, TEXTS, INT32, INT32, st.binary(max_size=9), st.binary(max_size=9)
)
GROUPS = st.builds(
    GroupStored, GROUP_IDS, TEXTS, INT32, st.none() | TEXTS, st.none() | MEMBER_IDS, INT64, st.lists(MEMBERS, max_size=2).map(tuple)
)
HELD = st.dictionaries(IDS, st.dictionaries(PARTITIONS, INT32, max_size=2), max_size=2)
OTHERS = st.one_of(
    st.builds(OffsetForgotten, GROUP_IDS, TOPICS, PARTITIONS),
    GROUPS,
    st.builds(GroupForgotten, GROUP_IDS),
    st.builds(consumer.EpochStored, GROUP_IDS, INT32, INT64),
    st.builds(consumer.EpochForgotten, GROUP_IDS),
    st.builds(consumer.TargetEpochStored, GROUP_IDS, INT32, INT64),
    st.builds(
        consumer.TargetStored, GROUP_IDS, MEMBER_IDS, st.dictionaries(IDS, st.frozensets(PARTITIONS, max_size=2), max_size=2)
    ),
    st.builds(consumer.CurrentStored, GROUP_IDS, MEMBER_IDS, INT32, INT32, st.sampled_from(MemberState), HELD, HELD),
    st.builds(consumer.MemberForgotten, GROUP_IDS, MEMBER_IDS),
)


def older(kind: int, version: int, record: OffsetCommitted) -> Pair:
    """An offset as any release wrote it: with a key of this kind (0 or 1), and a value of this version."""
    key = OffsetCommitKey(group=record.group_id, topic=record.topic, partition=record.partition)
    value = OffsetCommitValue(
        offset=record.offset,
        leader_epoch=record.leader_epoch,
        metadata=record.metadata,
        commit_timestamp=record.commit_timestamp_ms,
        expire_timestamp=record.expire_timestamp_ms,
        topic_id=record.topic_id,
    )
    return pack(">h", kind) + encode(key, 0), pack(">h", version) + encode(value, version)


def damaged(pair: Pair, at: float, by: int, which: int) -> Pair:
    """With one bit or more of one byte turned over, of the key or of the value."""
    parts = [None if part is None else bytearray(part) for part in pair]
    part = parts[which]
    if part:
        part[int(at * (len(part) - 1))] ^= by
    key, value = (None if part is None else bytes(part) for part in parts)
    return key, value


OFFSETS: st.SearchStrategy[Pair] = COMMITTED.map(encode_record)
OLDER: st.SearchStrategy[Pair] = st.builds(older, st.integers(0, 1), st.integers(0, 4), COMMITTED)
ANY: st.SearchStrategy[Pair] = st.tuples(st.none() | st.binary(max_size=30), st.none() | st.binary(max_size=50))
KEY = b"\0\1\0\1g\0\1t\0\0\0\0"
NEAR_KEYS = [
    KEY,
    b"\0\0" + KEY[2:],  # of the older kind
    b"\0\2" + KEY[2:],  # of a group
    b"\xff\xff" + KEY[2:],
    KEY[:-1],
    KEY + b"\0",
    b"\0\1\0\1\xff\0\1t\0\0\0\0",  # no UTF-8
    b"\0\1\0\1g\0\1\xff\0\0\0\0",
    b"\0\1\0\2g\0\1t\0\0\0\0",
    b"\0\1\0\1g\0\2t\0\0\0\0",
    b"\0\1\0\1g\0\0t\0\0\0\0",
    b"\0\1\xff\xffg\0\1t\0\0\0\0",
    b"\0\1\0\1g\xff\xfft\0\0\0\0",
    b"\0\1",
]
NEAR_VALUES = [
    *(BARE_V3.pack(version, 5, 0, length, 7) for version, length in ((3, 0), (2, 0), (4, 0), (3, 1), (3, -1))),
    *(
        BARE_V4.pack(version, 5, 0, length, 7, *tag, b"1" * 16)
        for version, length, tag in (
            (4, 1, (1, 0, 16)),
            (3, 1, (1, 0, 16)),
            (3, 0, (1, 0, 16)),
            (5, 1, (1, 0, 16)),
            (4, 0, (1, 0, 16)),
            (4, 2, (1, 0, 16)),
            (4, 1, (0, 0, 16)),
            (4, 1, (2, 0, 16)),
            (4, 1, (1, 1, 16)),
            (4, 1, (1, 0, 15)),
        )
    ),
]
"""The usual shapes of offsets, and what differs from them in one thing."""
NEAR: st.SearchStrategy[Pair] = st.tuples(
    st.sampled_from([KEY] * len(NEAR_KEYS) + NEAR_KEYS), st.sampled_from(NEAR_VALUES[:1] * 5 + NEAR_VALUES)
)
SOUND: st.SearchStrategy[Pair] = st.one_of(OFFSETS, OFFSETS, OLDER, OTHERS.map(encode_record))
DAMAGED: st.SearchStrategy[Pair] = st.builds(damaged, SOUND, st.floats(0, 1), st.integers(1, 255), st.integers(0, 1))
PAIRS: st.SearchStrategy[Pair] = st.one_of(SOUND, SOUND, SOUND, NEAR, DAMAGED, ANY)
"""A key and a value as they may lie in the log: mostly sound, of few groups and topics, so that they have to do with each other."""


def is_stored(record: object) -> TypeGuard[Stored]:
    """Whether `__consumer_offsets` keeps it; other records are volatile events."""
    return type(record) in STORED


def everything(offsets: Offsets) -> list[OffsetCommitted]:
    """Every committed offset, as it is stored."""
    return [
        OffsetCommitted(group_id, topic, partition, *committed)
        for group_id in offsets.group_ids()
        for topic, partitions in offsets.of(group_id).items()
        for partition, committed in partitions.items()
    ]


def state(machine: GroupMachine) -> object:
    """All that a coordinator knows of groups and offsets, in its order, as something that can be compared."""
    return _known([machine.classic.groups, machine.consumers.groups, machine.offsets])


def _known(value: object) -> object:
    if isinstance(value, dict):
        return [(key, _known(held)) for key, held in value.items()]
    if isinstance(value, list | tuple):
        return [type(value), *map(_known, value)]
    if type(value).__module__.startswith("ottla.") and not isinstance(value, Enum):
        names = getattr(type(value), "__slots__", None) or vars(value)
        return [type(value), *((name, _known(getattr(value, name))) for name in names)]
    return value
