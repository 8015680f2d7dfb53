"""`ottla log dump` on what brokers keep for themselves: groups, offsets, transactions and their ends, by their fields."""

from __future__ import annotations

from typing import Any

from ottla.coord.records import GroupStored, OffsetCommitted, StoredMember, encode_record
from ottla.coord.share_state.inputs import SharePartitionKey
from ottla.coord.share_state.records import ShareSnapshot, ShareUpdate, Tombstone
from ottla.coord.share_state.records import encode_record as encode_state
from ottla.log.check.dump import dump
from ottla.log.log import Log, LogConfig
from ottla.records.batches.builder import build
from ottla.sim.disk import SimDisk
from ottla.wire import encode
from ottla.wire.data.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.data.transaction_log import TransactionLogKey, TransactionLogValue
from tests.unit.log.batches import NOW, append

FILE = "t-0/00000000000000000000.log"


def dumped(topic: str, *records: tuple[bytes | None, bytes | None], control: bool = False) -> list[dict[str, Any]]:
    """The rows of these records, each in a batch of its own, as those of a topic."""
    disk = SimDisk()
    log = Log.open(disk, "t-0", LogConfig(), NOW)
    for key, value in records:
        producer = {"producer_id": 1, "producer_epoch": 0, "transactional": True, "control": True} if control else {}
        append(log, build([key], [value], NOW.wall_ms, **producer), origin_client=False)  # type: ignore[arg-type]  # one of two sets
    return [row for batch in dump(disk, FILE, deep=True, topic=topic) for row in batch["records"]]


def test_a_committed_offset_and_its_tombstone() -> None:
    key, value = encode_record(OffsetCommitted("group", "topic", 3, 42, 7, "note", 1_700_000_000_000))
    stored, gone = dumped("__consumer_offsets", (key, value), (key, None))
    assert stored["key"] == {"message": "OffsetCommitKey", "group": "group", "topic": "topic", "partition": 3}
    assert stored["value"] | {"offset": 42, "leader_epoch": 7, "metadata": "note"} == stored["value"]
    assert stored["value"]["message"] == "OffsetCommitValue"
    assert (gone["key"], gone["value"]) == (stored["key"], None)


def test_a_group_with_what_its_members_subscribed_to() -> None:
    subscription = b"\0\0" + encode(ConsumerProtocolSubscription(topics=["a", "b"], user_data=None), 0)
    member = StoredMember("m", None, "client", "/127.0.0.1", 1000, 2000, subscription, b"no assignment")
    [row] = dumped("__consumer_offsets", encode_record(GroupStored("g", "consumer", 5, "range", "m", 1_700_000_000_000, (member,))))
    assert row["key"] == {"message": "GroupMetadataKey", "group": "g"}
    assert (row["value"]["generation"], row["value"]["protocol"]) == (5, "range")
    [shown] = row["value"]["members"]
    assert shown["subscription"] == {"topics": ["a", "b"], "user_data": None}
    assert shown["assignment"] == "no assignment"


def test_the_state_of_a_transaction() -> None:
    value = TransactionLogValue(
        producer_id=7,
        producer_epoch=1,
        transaction_timeout_ms=60_000,
        transaction_status=4,
        transaction_partitions=[TransactionLogValue.PartitionsSchema(topic="t", partition_ids=[0, 3])],
        transaction_last_update_timestamp_ms=2,
        transaction_start_timestamp_ms=1,
        client_transaction_version=0,
    )
    [row] = dumped(
        "__transaction_state", (b"\0\0" + encode(TransactionLogKey(transactional_id="id"), 0), b"\0\1" + encode(value, 1))
    )
    assert row["key"] == {"message": "TransactionLogKey", "transactional_id": "id"}
    assert (row["value"]["version"], row["value"]["producer_id"], row["value"]["transaction_status"]) == (1, 7, 4)
    assert row["value"]["transaction_partitions"] == [{"topic": "t", "partition_ids": [0, 3]}]


def test_the_state_of_a_share_partition() -> None:
    key = SharePartitionKey("g", bytes(16), 3)
    snapshot = ShareSnapshot(key, 1, 2, 3, 4, 5, 6, 7, ((8, 9, 2, 1),))
    records = (snapshot, ShareUpdate(key, 1, 3, 4, -1, ()), Tombstone(key))
    rows = dumped("__share_group_state", *[encode_state(record) for record in records])
    place = {"group_id": "g", "topic_id": "A" * 22, "partition": 3}
    assert rows[0]["key"] == {"message": "ShareSnapshotKey", **place}
    assert rows[0]["value"]["state_batches"] == [{"first_offset": 8, "last_offset": 9, "delivery_state": 2, "delivery_count": 1}]
    assert rows[0]["value"] | {"snapshot_epoch": 1, "state_epoch": 2, "delivery_complete_count": 5} == rows[0]["value"]
    assert (rows[1]["key"], rows[1]["value"]["leader_epoch"]) == ({"message": "ShareUpdateKey", **place}, 3)
    assert (rows[2]["key"], rows[2]["value"]) == (rows[0]["key"], None)


def test_the_end_of_a_transaction() -> None:
    ends = [(b"\0\0\0" + bytes([kind]), b"\0\0\0\0\0\5") for kind in (0, 1)]
    rows = dumped("t", *ends, control=True)
    assert [(row["control"], row["coordinator_epoch"]) for row in rows] == [("ABORT", 5), ("COMMIT", 5)]


def test_what_is_not_known_is_shown_as_it_is() -> None:
    rows = dumped("__consumer_offsets", (b"\x7f\0x", b"y"), (b"\0\1", b"\0\1"), (None, b"\xff"))
    assert [row["value"] for row in rows] == ["y", {"hex": "0001"}, {"hex": "ff"}]
    key, value = encode_record(OffsetCommitted("g", "t", 0, 1, 0, "", 1))
    [row] = dumped("users", (key, value))
    assert row["key"] == {"hex": key.hex()}
