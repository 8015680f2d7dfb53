"""Messages read and written a block at a time are those that are read and written at once; damaged ones are refused."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest

from ottla.wire import Malformed
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.codec.blocks import BlockReader, BlockWriter, Path, level_of, pieces
from ottla.wire.codec.messages import decode, encode
from ottla.wire.schema import Message

pytestmark = pytest.mark.usefixtures("codecs")


def fetch(*counts: int) -> FetchRequest:
    """A request that names so many partitions of each topic."""
    part = FetchRequest.FetchPartition
    topics = [
        FetchRequest.FetchTopic(topic=f"t{number}", partitions=[part(partition=i, fetch_offset=i << 33) for i in range(count)])
        for number, count in enumerate(counts)
    ]
    return FetchRequest(max_wait_ms=7, min_bytes=1, topics=topics, rack_id="here")


def offset_fetch() -> OffsetFetchRequest:
    topic, group = OffsetFetchRequest.OffsetFetchRequestTopics, OffsetFetchRequest.OffsetFetchRequestGroup
    topics = [topic(name="a", partition_indexes=list(range(30))), topic(name="b", partition_indexes=[1, 2])]
    return OffsetFetchRequest(groups=[group(group_id="g", topics=topics), group(group_id="h")], require_stable=True)


def create() -> CreateTopicsRequest:
    topic, placed = CreateTopicsRequest.CreatableTopic, CreateTopicsRequest.CreatableReplicaAssignment
    places = [placed(partition_index=i, broker_ids=[1, 2]) for i in range(60)]
    return CreateTopicsRequest(topics=[topic(name=f"t{i}", assignments=places) for i in range(9)], validate_only=True)


CASES: list[tuple[Message, int, Path]] = [
    (fetch(3, 0, 25, 1, 1), 11, ("topics", "partitions")),
    (fetch(3, 0, 25, 1, 1), 12, ("topics", "partitions")),
    (fetch(), 12, ("topics", "partitions")),
    (offset_fetch(), 9, ("groups", "topics", "partition_indexes")),
    (create(), 4, ("topics",)),
    (create(), 7, ("topics",)),
    (DeleteTopicsRequest(topic_names=[f"name-{i}" for i in range(25)]), 5, ("topic_names",)),
]


def opened(message: Message, version: int, path: Path, data: bytes) -> BlockReader:
    level = level_of(type(message), version, path)
    assert level is not None
    reader = BlockReader(type(message), version, level, data, 0, 10)
    for _ in reader.open():
        pass
    return reader


def leaves(block: list[Any] | None, path: Path) -> list[Any]:
    """What the last array of a path holds; structs as bytes would show them."""
    if len(path) > 1:
        return [leaf for one in block or [] for leaf in leaves(getattr(one, path[1]), path[1:])]
    return [repr(one) for one in block or []]


@pytest.mark.parametrize(("message", "version", "path"), CASES)
def test_blocks_hold_together_what_the_message_holds(message: Message, version: int, path: Path, codecs: str) -> None:
    reader = opened(message, version, path, encode(message, version) + b"what nobody reads")
    expected = leaves(getattr(message, path[0]), path)
    for _ in range(2):
        blocks = list(reader.blocks())
        assert [leaf for block in blocks for leaf in leaves(block, path)] == expected
        assert codecs == "generated" or all(len(leaves(block, path)) <= 10 for block in blocks)
    whole = encode(message, version)
    assert len(encode(reader.part([]), version)) < len(whole) or not expected


@pytest.mark.parametrize("version", [11, 12])
def test_what_is_written_in_blocks_is_what_is_written_at_once(version: int) -> None:
    whole = encode(fetch(3, 0, 25, 1, 1), version)
    writer = BlockWriter(version, ("topics", "partitions"))
    reader = opened(fetch(), version, ("topics", "partitions"), whole)
    for block in reader.blocks():
        writer.add(reader.part(block))
    assert b"".join(writer.parts()) == whole


@pytest.mark.parametrize("counts", [(), (0,), (3, 0, 25, 1, 1), (21, 20), (1,) * 50])
@pytest.mark.parametrize(("version", "path"), [(11, ("topics", "partitions")), (11, ("topics",))])
def test_what_is_written_in_pieces_is_what_is_written_at_once(counts: tuple[int, ...], version: int, path: Path) -> None:
    message = fetch(*counts)
    whole = encode(message, version)
    writer = BlockWriter(version, path)
    for piece in pieces(message, path, 10):
        held = getattr(piece, path[0])
        assert len(held) <= 10
        assert len(path) == 1 or all(len(getattr(one, path[1])) <= 10 for one in held)
        writer.add(piece)
    assert b"".join(writer.parts()) == whole
    assert encode(message, version) == whole


def test_records_stay_parts_of_their_own() -> None:
    topic, part = FetchResponse.FetchableTopicResponse, FetchResponse.PartitionData
    parts = [part(partition_index=i, records=memoryview(b"r" * i)) for i in range(50)]
    whole = encode(FetchResponse(responses=[topic(topic="t", partitions=parts)]), 11)
    writer = BlockWriter(11, ("responses", "partitions"))
    for start in range(0, 50, 7):
        writer.add(FetchResponse(responses=[topic(topic="t", partitions=parts[start : start + 7])]))
    written = writer.parts()
    assert b"".join(written) == whole
    assert any(piece is parts[9].records for piece in written)


@pytest.mark.parametrize(("message", "version", "path"), CASES)
def test_damaged_messages_are_refused_or_read_as_they_are_at_once(message: Message, version: int, path: Path) -> None:
    data, dice = encode(message, version), random.Random(7)
    for _ in range(100):
        damaged = bytearray(data[: dice.randrange(len(data) + 1)] if dice.random() < 0.3 else data)
        for _ in range(dice.randrange(4)):
            if damaged:
                damaged[dice.randrange(len(damaged))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        with contextlib.suppress(Malformed):
            expected = leaves(getattr(decode(type(message), version, bytes(damaged)), path[0]), path)
            reader = opened(message, version, path, bytes(damaged))
            assert [leaf for block in reader.blocks() for leaf in leaves(block, path)] == expected
        with contextlib.suppress(Malformed):
            opened(message, version, path, bytes(damaged))
