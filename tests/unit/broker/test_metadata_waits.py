"""A broker that has just joined a cluster knows nothing of it: librdkafka forgets every broker that an answer does not name."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.serving.purgatory import DelayedReply
from ottla.wire.api.describe_cluster import DescribeClusterRequest
from ottla.wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.errors import LEADER_NOT_AVAILABLE, NONE
from tests.support.cluster_machine import ClusterMachine, told

METADATA, DESCRIBE_CLUSTER, DESCRIBE_TOPIC_PARTITIONS = 3, 60, 75

QUESTIONS: dict[str, tuple[int, int, Any]] = {
    "Metadata of a topic": (METADATA, 12, MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")])),
    "Metadata of all": (METADATA, 12, MetadataRequest(topics=None)),
    "DescribeCluster": (DESCRIBE_CLUSTER, 1, DescribeClusterRequest()),
    "DescribeTopicPartitions": (
        DESCRIBE_TOPIC_PARTITIONS,
        0,
        DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequest.TopicRequest(name="t")]),
    ),
}


def seen(answer: Any) -> Any:
    """The brokers and topics in it."""
    brokers = [getattr(one, "node_id", None) or one.broker_id for one in getattr(answer, "brokers", [])]
    return brokers, [(topic.name, topic.error_code, len(topic.partitions)) for topic in getattr(answer, "topics", [])]


@pytest.mark.parametrize("question", QUESTIONS)
def test_who_asks_what_there_is_waits_until_the_controller_has_told_it(question: str) -> None:
    machine = ClusterMachine()
    key, version, body = QUESTIONS[question]
    waiting = machine.begin(key, version, body)
    assert isinstance(waiting, DelayedReply)
    machine.pass_time(1000)
    assert not waiting.done
    machine.tell_topic(told(0, 2), brokers=(1, 2, 3))
    brokers, topics = seen(machine.finish(key, version, waiting))
    assert brokers == ([] if key == DESCRIBE_TOPIC_PARTITIONS else [1, 2, 3])
    assert topics == ([] if key == DESCRIBE_CLUSTER else [("t", NONE, 1)])
    assert not isinstance(machine.begin(key, version, body), DelayedReply)


def test_nothing_is_asked_in_vain_for_ever_and_no_topic_is_said_not_to_exist() -> None:
    machine = ClusterMachine(broker_rack="r1")
    key, version, body = QUESTIONS["Metadata of a topic"]
    answer = machine.ask(key, version, body)
    assert seen(answer) == ([1], [("t", LEADER_NOT_AVAILABLE, 0)])
    assert [(one.host, one.port, one.rack) for one in answer.brokers] == [("127.0.0.1", 9092, "r1")]
    assert answer.controller_id == -1
    assert not machine.links.sent
    assert seen(machine.ask(*QUESTIONS["DescribeCluster"])) == ([1], [])
