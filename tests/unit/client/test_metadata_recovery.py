"""When a client goes back to its bootstrap servers, on a clock of the test's own."""

from __future__ import annotations

from ottla.client.connection.metadata import Metadata
from ottla.client.connection.metadata_recovery import NONE, REBOOTSTRAP, MetadataRecovery
from ottla.client.types import Node
from ottla.wire.api.metadata import MetadataResponse

BOOTSTRAP = [("bootstrap", 9092)]
KNOWN = [Node(1, "one", 9093), Node(2, "bootstrap", 9092)]
Topic = MetadataResponse.MetadataResponseTopic
Partition = MetadataResponse.MetadataResponsePartition


def test_bootstrap_servers_stay_among_the_addresses_unless_the_strategy_is_none() -> None:
    recovering, staying = MetadataRecovery(BOOTSTRAP, REBOOTSTRAP, 100), MetadataRecovery(BOOTSTRAP, NONE, 100)
    assert recovering.addresses([]) == staying.addresses([]) == BOOTSTRAP
    assert recovering.addresses(KNOWN) == [("bootstrap", 9092), ("one", 9093)]
    assert staying.addresses(KNOWN[:1]) == [("one", 9093)]


def test_brokers_are_forgotten_once_metadata_requests_have_failed_for_the_time_given() -> None:
    made = MetadataRecovery(BOOTSTRAP, REBOOTSTRAP, 100)
    assert not made.is_due(10_000), "an idle client asks for nothing"
    made.record_failure(10_000)
    made.record_failure(10_090)
    assert [made.is_due(now_ms) for now_ms in (10_099, 10_100)] == [False, True]
    made.record_answer()
    assert not made.is_due(20_000)
    made.record_failure(20_000)
    assert [made.is_due(now_ms) for now_ms in (20_099, 20_100)] == [False, True]


def test_with_none_brokers_are_never_forgotten() -> None:
    made = MetadataRecovery(BOOTSTRAP, NONE, 0)
    made.record_failure(0)
    assert not made.is_due(1_000_000)


def test_metadata_without_brokers_believes_the_next_answer_though_its_epochs_are_older() -> None:
    made = Metadata()

    def describe(epoch: int) -> MetadataResponse:
        partition = Partition(partition_index=0, leader_id=1, leader_epoch=epoch)
        broker = MetadataResponse.MetadataResponseBroker(node_id=1, host="one", port=1)
        return MetadataResponse(brokers=[broker], topics=[Topic(name="t", partitions=[partition])])

    made.update(describe(7))
    made.update(describe(5))
    assert made.leader_epoch("t", 0) == 7
    made.forget_brokers()
    assert (made.nodes, made.leader("t", 0), made.partition_count("t")) == ({}, -1, 1)
    made.update(describe(5))
    assert (made.leader("t", 0), made.leader_epoch("t", 0)) == (1, 5)
