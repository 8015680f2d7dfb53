"""Answers about share and streams groups, which Ottla's broker does not serve."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.client.admin.groups import (
    DESCRIPTIONS,
    DescribedGroup,
    ShareOffset,
    StreamsMemberDetails,
    StreamsTasks,
    read_share_offsets,
    share_offsets_request,
)
from ottla.client.connection.older_brokers import fit
from ottla.client.consumer.committed_offsets import fetch_offsets_request
from ottla.client.errors import BrokerError, NotSupported
from ottla.wire import decode, encode
from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeResponse
from ottla.wire.api.describe_share_group_offsets import DescribeShareGroupOffsetsResponse
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.share_group_describe import ShareGroupDescribeResponse
from ottla.wire.api.streams_group_describe import StreamsGroupDescribeResponse
from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from ottla.wire.schema import Message

NOWHERE = bytes(16)


def read(answer: Message, version: int) -> Iterator[DescribedGroup]:
    """Return the groups of an answer that was encoded and decoded, by the reader for its request."""
    for request, reader in DESCRIPTIONS:
        asked: Any = request(["g"], True)
        if asked.WIRE.key == answer.WIRE.key:
            assert encode(asked, version)
            return reader(decode(type(answer), version, encode(answer, version)))
    raise LookupError(answer)


def test_a_share_group_has_members_with_partitions() -> None:
    response = ShareGroupDescribeResponse
    topic = ConsumerGroupDescribeResponse.TopicPartitions(topic_id=NOWHERE, topic_name="t", partitions=[0, 2])
    member = response.Member(
        member_id="m",
        rack_id="r",
        member_epoch=3,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=["t"],
        assignment=ConsumerGroupDescribeResponse.Assignment(topic_partitions=[topic]),
    )
    described = response.DescribedGroup(
        error_code=0,
        group_id="g",
        group_state="Stable",
        group_epoch=4,
        assignment_epoch=4,
        assignor_name="simple",
        members=[member],
    )
    [(code, _, group)] = read(response(groups=[described]), 1)
    assert (code, group.group_type, group.state, group.protocol, group.group_epoch) == (0, "share", "Stable", "simple", 4)
    [found] = group.members
    assert (found.assignment, found.rack_id, found.member_epoch, found.is_classic) == ([("t", 0), ("t", 2)], "r", 3, False)


def offsets(*some: tuple[str, int, int]) -> list[StreamsGroupHeartbeatRequest.TaskOffset]:
    """Return offsets of tasks, each from (subtopology, partition, offset)."""
    made = StreamsGroupHeartbeatRequest.TaskOffset
    return [made(subtopology_id=name, partition=index, offset=offset) for name, index, offset in some]


@pytest.mark.parametrize(("version", "assignor"), [(0, ""), (1, "sticky")])
def test_a_member_of_a_streams_group_reads_the_topics_of_its_active_tasks(version: int, assignor: str) -> None:
    response, task = StreamsGroupDescribeResponse, StreamsGroupHeartbeatRequest.TaskIds
    repartition = StreamsGroupHeartbeatRequest.TopicInfo(name="again", partitions=2, replication_factor=1, topic_configs=[])
    parts = [
        response.Subtopology(
            subtopology_id=name,
            source_topics=topics,
            repartition_sink_topics=[],
            state_changelog_topics=[],
            repartition_source_topics=sources,
        )
        for name, topics, sources in (("0", ["t", "u"], []), ("1", [], [repartition]))
    ]
    assignment = response.Assignment(
        active_tasks=[
            task(subtopology_id="0", partitions=[1]),
            task(subtopology_id="1", partitions=[0]),
            task(subtopology_id="9", partitions=[0]),
        ],
        standby_tasks=[task(subtopology_id="0", partitions=[0])],
        warmup_tasks=[],
    )
    nothing = response.Assignment(active_tasks=[], standby_tasks=[], warmup_tasks=[])
    member = response.Member(
        member_id="m", member_epoch=1, instance_id="i", client_id="c", client_host="/h", topology_epoch=0, process_id="p",
        client_tags=[StreamsGroupHeartbeatRequest.KeyValue(key="zone", value="north")],
        task_offsets=offsets(("0", 0, 7), ("0", 1, 9)),
        task_end_offsets=offsets(("0", 0, 9), ("0", 1, 8), ("1", 0, 5)), assignment=assignment, target_assignment=nothing,
        user_endpoint=StreamsGroupHeartbeatRequest.Endpoint(host="h", port=80), is_classic=False,
    )  # fmt: skip
    described = response.DescribedGroup(
        error_code=0, group_id="g", group_state="Stable", group_epoch=1, assignment_epoch=1, members=[member],
        topology=response.Topology(epoch=0, subtopologies=parts), assignor_name=assignor or None,
    )  # fmt: skip
    [(_, _, group)] = read(response(groups=[described]), version)
    assert (group.group_type, group.protocol, group.members[0].group_instance_id) == ("streams", assignor, "i")
    assert group.members[0].assignment == [("t", 1), ("u", 1), ("again", 0)]
    assert group.members[0].tasks == ({"0": [1], "1": [0], "9": [0]}, {"0": [0]}, {})
    lags = {("0", 0): 2, ("0", 1): 0}
    assert group.members[0].streams == StreamsMemberDetails("p", "h:80", {"zone": "north"}, 0, StreamsTasks({}, {}, {}), lags)
    assert [(part.subtopology_id, part.source_topics, part.repartition_source_topics) for part in group.topology] == [
        ("0", ["t", "u"], []),
        ("1", [], ["again"]),
    ]
    described.topology = None
    [(_, _, group)] = read(response(groups=[described]), version)
    assert group.members[0].assignment == []


@pytest.mark.parametrize(("version", "lag"), [(0, -1), (1, 5)])
def test_the_positions_of_share_groups_have_a_lag_since_kafka_4_2(version: int, lag: int) -> None:
    response = DescribeShareGroupOffsetsResponse
    assert encode(share_offsets_request(["g"]), version)
    part = response.DescribeShareGroupOffsetsResponsePartition(
        partition_index=1, start_offset=7, leader_epoch=2, lag=5, error_code=0
    )
    topic = response.DescribeShareGroupOffsetsResponseTopic(topic_name="t", topic_id=NOWHERE, partitions=[part])
    group = response.DescribeShareGroupOffsetsResponseGroup(group_id="g", topics=[topic], error_code=0)
    answer = decode(response, version, encode(response(groups=[group]), version))
    assert dict(read_share_offsets(answer)) == {"g": {("t", 1): ShareOffset(7, lag, 2)}}
    part.error_code = 3
    [(_, refused)] = read_share_offsets(response(groups=[group]))
    assert isinstance(refused, BrokerError)
    assert str(refused).startswith("Share group g in t-1: UNKNOWN_TOPIC_OR_PARTITION")


def test_filters_and_lists_of_all_offsets_are_said_as_old_versions_say_them() -> None:
    request = ListGroupsRequest(states_filter=["Stable"], types_filter=["classic"])
    assert fit(5, request) is request
    assert fit(4, request) == ListGroupsRequest(states_filter=["Stable"], types_filter=[])
    assert fit(3, request) == ListGroupsRequest(states_filter=[], types_filter=[])
    with pytest.raises(NotSupported, match=r"needs Kafka 0\.10\.2"):
        fit(1, fetch_offsets_request("g", None))
    assert encode(fit(2, fetch_offsets_request("g", None)), 2)
