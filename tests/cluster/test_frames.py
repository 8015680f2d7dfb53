"""What brokers of Apache Kafka 2.8.2 and 3.9.1 said to each other, caught between them, is read and written here to the byte.

`frames/recorded.txt` holds the frames without their size: inter.broker.protocol.version, API, version, request or response, what is
special about it, and the bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ottla.wire.apis import API
from ottla.wire.errors import FENCED_LEADER_EPOCH, STALE_CONTROLLER_EPOCH
from ottla.wire.framing import decode_request, decode_response, encode_request, encode_response

KEYS = {api.name: api.key for api in API.values()}
NO_LEADER_WHILE_DELETED = -2
NO_BROKER_EPOCH = -1


class Recorded(NamedTuple):
    protocol: str
    api: str
    version: int
    kind: str
    special: str
    data: bytes


def recorded() -> list[Recorded]:
    lines = (Path(__file__).parent / "frames" / "recorded.txt").read_text(encoding="ascii").splitlines()
    fields = (line.split() for line in lines)
    return [
        Recorded(protocol, api, int(version), kind, special, bytes.fromhex(data))
        for protocol, api, version, kind, special, data in fields
    ]


FRAMES = recorded()


def body(protocol: str, api: str, kind: str, special: str = "plain") -> Any:
    [found] = [
        frame for frame in FRAMES if (frame.protocol, frame.api, frame.kind, frame.special) == (protocol, api, kind, special)
    ]
    if kind == "request":
        return decode_request(memoryview(found.data))[1]
    return decode_response(KEYS[api], found.version, memoryview(found.data))[1]


@pytest.mark.parametrize(
    "frame", FRAMES, ids=lambda frame: f"{frame.protocol}-{frame.api}-{frame.version}-{frame.kind}-{frame.special}"
)
def test_a_frame_of_apache_kafka_is_read_and_written_to_the_byte(frame: Recorded) -> None:
    if frame.kind == "request":
        header, message = decode_request(memoryview(frame.data))
        assert (header.api_key, header.api_version) == (KEYS[frame.api], frame.version)
        written = encode_request(header, message)
    else:
        correlation_id, message = decode_response(KEYS[frame.api], frame.version, memoryview(frame.data))
        written = encode_response(correlation_id, KEYS[frame.api], frame.version, message)
    assert b"".join(written)[4:] == frame.data


def test_the_partition_epoch_is_the_version_of_the_state_entry_and_a_replica_being_made_is_new() -> None:
    for protocol in ("2.8", "3.9"):
        moving = body(protocol, "LeaderAndIsr", "request", "moving-new").topic_states[0].partition_states[0]
        assert (moving.replicas, moving.adding_replicas, moving.removing_replicas) == ([2, 3, 1], [3], [1])
        assert (moving.leader_epoch, moving.partition_epoch, moving.isr, moving.is_new) == (1, 1, [1, 2], True)


def test_a_state_that_is_not_newer_is_answered_by_an_error_of_that_partition_alone() -> None:
    stale = body("3.9", "LeaderAndIsr", "response", "stale")
    assert stale.error_code == 0
    errors = {found.error_code for topic in stale.topics for found in topic.partition_errors}
    assert STALE_CONTROLLER_EPOCH in errors
    assert errors <= {0, STALE_CONTROLLER_EPOCH}


def test_brokers_hear_that_a_topic_is_being_deleted_by_a_leader_that_nobody_is() -> None:
    for protocol in ("2.8", "3.9"):
        state = body(protocol, "UpdateMetadata", "request", "deleting").topic_states[0].partition_states[0]
        assert state.leader == NO_LEADER_WHILE_DELETED
        stopped = body(protocol, "StopReplica", "request", "delete").topic_states[0].partition_states[0]
        assert stopped.delete_partition


def test_a_leader_of_3_9_names_no_broker_epochs_when_it_alters_the_replicas_in_sync() -> None:
    [epochs] = {
        tuple(sorted({state.broker_epoch for state in partition.new_isr_with_epochs}))
        for topic in body("3.9", "AlterPartition", "request").topics
        for partition in topic.partitions
    }
    assert epochs == (NO_BROKER_EPOCH,)


def test_a_follower_of_an_old_epoch_is_told_the_leader_and_one_with_another_history_where_to_truncate() -> None:
    fenced = [part for topic in body("3.9", "Fetch", "response", "fenced").responses for part in topic.partitions]
    assert any(part.error_code == FENCED_LEADER_EPOCH and part.current_leader.leader_epoch > 0 for part in fenced)
    for protocol in ("2.8", "3.9"):
        told = [part for topic in body(protocol, "Fetch", "response", "diverging").responses for part in topic.partitions]
        assert any(part.diverging_epoch and part.diverging_epoch.end_offset >= 0 and not part.records for part in told)


def test_a_leader_asks_the_coordinator_about_a_transaction_without_adding_to_it() -> None:
    [asked] = body("3.9", "AddPartitionsToTxn", "request").transactions
    assert asked.verify_only
