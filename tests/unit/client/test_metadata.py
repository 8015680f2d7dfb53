"""What a client knows of the cluster, from answers of every kind."""

from __future__ import annotations

import pytest

from ottla.client.connection.metadata import Metadata
from ottla.client.errors import BrokerError, UnknownTopic
from ottla.client.types import Node
from ottla.wire import errors as codes
from ottla.wire.api.metadata import MetadataResponse

Topic = MetadataResponse.MetadataResponseTopic
Partition = MetadataResponse.MetadataResponsePartition


def test_a_topic_that_was_left_out_is_unknown_and_one_without_partitions_cannot_be_used_yet() -> None:
    made = Metadata()
    with pytest.raises(UnknownTopic, match="Topic t"):
        made.check(["t"])
    made.update(MetadataResponse(topics=[Topic(name="t")]))
    with pytest.raises(BrokerError, match="LEADER_NOT_AVAILABLE") as raised:
        made.check(["t"])
    assert raised.value.retriable
    made.update(MetadataResponse(topics=[Topic(name="t", partitions=[Partition(partition_index=0, leader_id=-1)])]))
    made.check(["t"])
    assert made.leader("t", 0) == -1


def test_why_a_partition_has_no_leader() -> None:
    made = Metadata()
    assert made.partition_error("t", 0) == codes.NONE
    lost = Partition(partition_index=0, leader_id=-1, error_code=codes.LEADER_NOT_AVAILABLE)
    made.update(MetadataResponse(topics=[Topic(name="t", partitions=[lost])]))
    assert made.partition_error("t", 0) == codes.LEADER_NOT_AVAILABLE
    assert made.partition_error("t", 1) == codes.UNKNOWN_TOPIC_OR_PARTITION
    made.update(MetadataResponse(topics=[Topic(name="t", error_code=codes.INVALID_TOPIC_EXCEPTION)]))
    assert made.partition_error("t", 0) == codes.INVALID_TOPIC_EXCEPTION


def test_a_recreated_topic_without_an_id_gets_leaders_although_its_epochs_are_older() -> None:
    def answer(leader_epoch: int) -> MetadataResponse:
        partition = Partition(partition_index=0, leader_id=1, leader_epoch=leader_epoch)
        return MetadataResponse(
            brokers=[MetadataResponse.MetadataResponseBroker(node_id=1, host="h", port=1)],
            topics=[Topic(name="t", partitions=[partition])],
        )

    made = Metadata()
    made.update(answer(5))
    made.update(answer(0))
    assert made.leader_epoch("t", 0) == 5, "the answer of a broker that lags behind"
    made.forget_leader("t", 0)
    made.update(answer(0))
    assert (made.leader("t", 0), made.leader_epoch("t", 0)) == (1, 0)


def test_the_address_of_a_coordinator_replaces_an_older_one_and_keeps_the_rack() -> None:
    made = Metadata()
    made.update(MetadataResponse(brokers=[MetadataResponse.MetadataResponseBroker(node_id=1, host="old", port=1, rack="r")]))
    made.set_address(1, "new", 2)
    made.set_address(2, "other", 3)
    assert made.nodes == {1: Node(1, "new", 2, "r"), 2: Node(2, "other", 3)}


def test_a_leader_that_a_broker_names_is_taken_if_it_is_newer_and_has_an_address() -> None:
    made = Metadata()
    assert not made.set_leader("t", 0, 1, 1)
    partition = Partition(partition_index=0, leader_id=1, leader_epoch=3)
    broker = MetadataResponse.MetadataResponseBroker
    made.update(
        MetadataResponse(
            brokers=[broker(node_id=1, host="h", port=1), broker(node_id=2, host="h", port=2)],
            topics=[Topic(name="t", partitions=[partition])],
        )
    )
    assert not made.set_leader("t", 0, 2, 3)
    assert not made.set_leader("t", 0, 9, 4)
    assert not made.set_leader("t", 1, 2, 4)
    assert made.leader("t", 0) == 1
    assert made.set_leader("t", 0, 2, 4)
    assert (made.leader("t", 0), made.leader_epoch("t", 0)) == (2, 4)


def test_an_answer_of_another_cluster_is_noticed_once() -> None:
    made, own, foreign = (
        Metadata(),
        MetadataResponse(cluster_id="A"),
        MetadataResponse(cluster_id="B", brokers=[MetadataResponse.MetadataResponseBroker(node_id=1, host="h", port=9092)]),
    )
    assert made.describe_other_cluster(own) is None
    made.update(own)
    assert made.describe_other_cluster(own) is None
    assert made.describe_other_cluster(MetadataResponse()) is None
    assert "at h:9092 belong to cluster B, and those before to cluster A" in str(made.describe_other_cluster(foreign))
    made.update(foreign)
    assert made.describe_other_cluster(foreign) is None
