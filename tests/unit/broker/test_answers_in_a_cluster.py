"""What clients are answered by a broker of a cluster where a lone one has nothing to say, or says it at once."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.cluster.layout import consumer_offset_path
from ottla.wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.errors import (
    LEADER_NOT_AVAILABLE,
    NONE,
    OFFSET_METADATA_TOO_LARGE,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.support.cluster_machine import ClusterMachine, told

METADATA, OFFSET_COMMIT, OFFSET_FETCH, DESCRIBE_TOPIC_PARTITIONS = 3, 8, 9, 75


# Offsets in the registry, as releases before 0.8.2 keep them


def committed(machine: ClusterMachine, offset: int, *, topic: str = "t", metadata: str = "") -> int:
    part = OffsetCommitRequest.OffsetCommitRequestPartition(committed_offset=offset, committed_metadata=metadata)
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[part])]
    answer = machine.ask(OFFSET_COMMIT, 0, OffsetCommitRequest(group_id="g", topics=topics))
    return int(answer.topics[0].partitions[0].error_code)


def fetched(machine: ClusterMachine, topic: str = "t") -> tuple[int, int]:
    topics = [OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
    part = machine.ask(OFFSET_FETCH, 0, OffsetFetchRequest(group_id="g", topics=topics)).topics[0].partitions[0]
    return part.error_code, part.committed_offset


@pytest.fixture
def machine() -> ClusterMachine:
    machine = ClusterMachine()
    machine.tell_brokers(1, 2, 3)
    machine.tell_topic(told(0, 2))
    return machine


def test_offsets_of_version_0_are_where_consumers_of_old_look_for_them(machine: ClusterMachine) -> None:
    assert fetched(machine) == (UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert committed(machine, 42, metadata="dropped") == NONE
    assert fetched(machine) == (NONE, 42)
    path = consumer_offset_path("g", "t", 0)
    assert path is not None
    entry = machine.shared.entries.get(path)
    assert entry is not None
    assert entry.value == b"42"
    assert committed(machine, 43) == NONE
    assert fetched(machine) == (NONE, 43)


def test_offsets_of_version_0_are_refused_where_they_cannot_be_kept(machine: ClusterMachine) -> None:
    assert committed(machine, 1, topic="nowhere") == UNKNOWN_TOPIC_OR_PARTITION
    assert fetched(machine, "nowhere") == (UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert committed(machine, 1, metadata="m" * 4097) == OFFSET_METADATA_TOO_LARGE
    machine.shared.is_away = True
    assert committed(machine, 1) == UNKNOWN_SERVER_ERROR
    assert fetched(machine) == (UNKNOWN_SERVER_ERROR, -1)


# A leader that is no more


def described(machine: ClusterMachine, key: int) -> list[Any]:
    if key == METADATA:
        asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
        parts = machine.ask(METADATA, 9, asked).topics[0].partitions
    else:
        wanted = [DescribeTopicPartitionsRequest.TopicRequest(name="t")]
        parts = machine.ask(key, 0, DescribeTopicPartitionsRequest(topics=wanted)).topics[0].partitions
    return [(part.error_code, part.leader_id, part.leader_epoch) for part in parts]


@pytest.mark.parametrize("key", [METADATA, DESCRIBE_TOPIC_PARTITIONS])
def test_a_leader_that_is_not_alive_is_told_as_none(machine: ClusterMachine, key: int) -> None:
    assert described(machine, key) == [(NONE, 2, 3)]
    machine.tell_brokers(1, 3)
    assert described(machine, key) == [(LEADER_NOT_AVAILABLE, -1, 3)]
    machine.tell_brokers(1, 2, 3)
    assert described(machine, key) == [(NONE, 2, 3)]
