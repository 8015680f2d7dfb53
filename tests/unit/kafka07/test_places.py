"""Which partition of the target each partition of a Kafka 0.7 goes to: one of its own, and always the same."""

from __future__ import annotations

import pytest

from ottla.client.types import OffsetAndMetadata, TopicPartition
from ottla.kafka07.client.partitions import BrokerPartition
from ottla.kafka07.pipelines.mirror import Places
from ottla.pipelines.errors import PipelineError


def source(name: str, topic: str = "dogs") -> TopicPartition:
    broker_id, _, partition = name.partition("-")
    return TopicPartition(topic, BrokerPartition(int(broker_id), int(partition)).number)


def test_partitions_are_counted_through_by_broker_and_number() -> None:
    places = Places("g", "", {})
    places.assign([source("3-0"), source("0-1"), source("0-0"), source("0-0", "cats")])
    there = [places.there(source(name)) for name in ("0-0", "0-1", "3-0")]
    assert there == [TopicPartition("dogs", 0), TopicPartition("dogs", 1), TopicPartition("dogs", 2)]
    assert places.counts() == {"dogs": 3, "cats": 1}


def test_what_is_committed_tells_a_later_mirror_where_everything_goes_on() -> None:
    first = Places("g", "old.", {})
    first.assign([source("3-0"), source("3-1")])
    committed = first.commits({source("3-1"): 70, source("3-0"): 29})
    assert committed[TopicPartition("old.dogs", 1)] == OffsetAndMetadata(70, "kafka-0.7 3-1")
    later = Places("g", "old.", committed)
    later.assign([source("0-0"), source("3-0"), source("3-1"), source("3-2")])
    names = ("3-0", "3-1", "0-0", "3-2")
    assert [later.there(source(name)) for name in names] == [TopicPartition("old.dogs", at) for at in range(4)]
    assert [later.position(source(name)) for name in names] == [29, 70, None, None]


def test_positions_of_topics_with_another_prefix_are_left_alone() -> None:
    places = Places("g", "old.", {TopicPartition("new.dogs", 0): OffsetAndMetadata(5, "kafka-0.7 0-0")})
    places.assign([source("0-0")])
    assert places.there(source("0-0")) == TopicPartition("old.dogs", 0)
    assert places.position(source("0-0")) is None


@pytest.mark.parametrize("metadata", ["", "kafka-0.7 ", "kafka-0.7 1", "kafka-0.7 a-1", "1-0", "kafka-0.7 1-x"])
def test_offsets_that_no_mirror_committed_are_refused(metadata: str) -> None:
    with pytest.raises(PipelineError, match="Group g has committed 7 for dogs-0 at the target, which no mirror did"):
        Places("g", "", {TopicPartition("dogs", 0): OffsetAndMetadata(7, metadata)})
