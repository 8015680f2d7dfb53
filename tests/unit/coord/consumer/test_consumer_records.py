"""Records of consumer groups as Kafka writes them: bytes from a log of Apache Kafka 4.3, and round trips."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coord.consumer.member import Classic
from ottla.coord.consumer.records import (
    ConsumerStored,
    CurrentForgotten,
    CurrentStored,
    EpochForgotten,
    EpochStored,
    MemberForgotten,
    MemberStored,
    OldMetadataForgotten,
    PatternForgotten,
    PatternStored,
    TargetEpochForgotten,
    TargetEpochStored,
    TargetForgotten,
    TargetStored,
)
from ottla.coord.consumer.states import MemberState
from ottla.coord.records import decode_record, encode_record

G = "g031827087"
TOPIC = bytes.fromhex("d6407fef344b42188b192e80c74c4f20")
KAFKAS: dict[str, tuple[str, str | None, ConsumerStored]] = {
    "member": (
        "0005000a6730333138323730383700026d31",
        "00000000047261770b2f3132372e302e302e31020b7430333138323730383701000075300001000100",
        MemberStored(G, "m1", None, None, "raw", "/127.0.0.1", frozenset({"t031827087"}), "", 30000, None, None),
    ),
    "epoch": (
        "0003000a67303331383237303837",
        "0000000000020100082578e26bad403024",
        EpochStored(G, 2, 2700156928704655396),
    ),
    "target": (
        "0007000a6730333138323730383700026d31",
        "000002d6407fef344b42188b192e80c74c4f2005000000000000000100000002000000030000",
        TargetStored(G, "m1", {TOPIC: frozenset({0, 1, 2, 3})}),
    ),
    "target epoch": (
        "0006000a67303331383237303837",
        "000000000002010008000001a1fd6ceb0d",
        TargetEpochStored(G, 2, 1795253136141),
    ),
    "current": (
        "0008000a6730333138323730383700026d31",
        "000000000002000000000002d6407fef344b42188b192e80c74c4f20050000000000000001000000020000000301001105000000020000000200000002"
        "000000020100",
        CurrentStored(G, "m1", 2, 0, MemberState.STABLE, {TOPIC: {0: 2, 1: 2, 2: 2, 3: 2}}, {}),
    ),
    "pattern": (
        "0010000b673033313832373038376100022e2a",
        "000004135f5f636f6e73756d65725f6f6666736574730b743033313832373038370b743233363533333034350000000000000136000001a1fd6ce4b700",
        PatternStored(G + "a", ".*", frozenset({"t236533045", "__consumer_offsets", "t031827087"}), 310, 1795253134519),
    ),
    "no member": ("0005000a6730333138323730383700026d7a", None, MemberForgotten(G, "mz")),
    "no target": ("0007000a6730333138323730383700026d7a", None, TargetForgotten(G, "mz")),
    "nothing current": ("0008000a6730333138323730383700026d7a", None, CurrentForgotten(G, "mz")),
    "no pattern": ("0010000b673033313832373038376100022e2a", None, PatternForgotten(G + "a", ".*")),
    "no epoch": ("0003000a67303331383237303837", None, EpochForgotten(G)),
    "no target epoch": ("0006000a67303331383237303837", None, TargetEpochForgotten(G)),
    "no old metadata": ("0004000a67303331383237303837", None, OldMetadataForgotten(G)),
}


@pytest.mark.parametrize("name", KAFKAS)
def test_what_kafka_wrote_is_read_and_written_alike(name: str) -> None:
    key, value, record = KAFKAS[name]
    stored = bytes.fromhex(key), None if value is None else bytes.fromhex(value)
    assert decode_record(*stored) == record
    assert encode_record(record) == stored


def test_partitions_without_epochs_of_their_own_have_the_members() -> None:
    """As before Kafka 4.3. A static member that is away has none that could serve."""
    key = bytes.fromhex(KAFKAS["current"][0])
    for epoch, serves in ((b"\0\0\0\x07", 7), (b"\xff\xff\xff\xfe", 0)):
        value = b"\0\0" + epoch + b"\0\0\0\x06\0\x02" + TOPIC + b"\x02\0\0\0\x03\0\x01\0"
        read = decode_record(key, value)
        assert isinstance(read, CurrentStored)
        assert read.assigned == {TOPIC: {3: serves}}


def test_a_state_of_a_newer_coordinator_is_kept_as_unknown() -> None:
    key, value, _ = KAFKAS["current"]
    assert value is not None
    damaged = bytearray.fromhex(value)
    damaged[10] = 9
    read = decode_record(bytes.fromhex(key), bytes(damaged))
    assert isinstance(read, CurrentStored)
    assert read.state is MemberState.UNKNOWN


NAMES = st.text(st.characters(codec="utf-8"), max_size=20)
SOME = st.none() | NAMES
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
IDS = st.binary(min_size=16, max_size=16)
TOPICS = st.frozensets(NAMES, max_size=3)
CLASSIC = st.builds(Classic, INT32, st.lists(st.tuples(NAMES, st.binary(max_size=9)), max_size=3).map(tuple))
HELD = st.dictionaries(IDS, st.dictionaries(INT32, INT32, max_size=3), max_size=3)
TARGETS = st.dictionaries(IDS, st.frozensets(INT32, max_size=3), max_size=3)
RECORDS = st.one_of(
    st.builds(EpochStored, NAMES, INT32, INT64),
    st.builds(MemberStored, NAMES, NAMES, SOME, SOME, NAMES, NAMES, TOPICS, NAMES, INT32, SOME, st.none() | CLASSIC),
    st.builds(TargetEpochStored, NAMES, INT32, INT64),
    st.builds(TargetStored, NAMES, NAMES, TARGETS),
    st.builds(CurrentStored, NAMES, NAMES, INT32, INT32, st.sampled_from(MemberState), HELD, HELD),
    st.builds(PatternStored, NAMES, NAMES, TOPICS, INT64, INT64),
    *(st.builds(kind, NAMES) for kind in (EpochForgotten, OldMetadataForgotten, TargetEpochForgotten)),
    *(st.builds(kind, NAMES, NAMES) for kind in (MemberForgotten, TargetForgotten, CurrentForgotten, PatternForgotten)),
)


@given(RECORDS)
def test_a_record_reads_back_as_it_was(record: ConsumerStored) -> None:
    read = decode_record(*encode_record(record))
    assert read == record
    assert type(read) is type(record)
