"""The image of the registry: what each entry means, and what happens to entries that mean nothing."""

from __future__ import annotations

import pytest

from ottla.cluster import layout
from ottla.cluster.image import NO_LEADER, BrokerImage, ClusterImage
from ottla.cluster.registry_entries import apply_entry, load
from ottla.ports import RegistryDamaged
from ottla.sim.registry import MemoryRegistry
from tests.support.broker_entry import broker_json
from tests.support.entries import make_entry

TOPIC_ID = bytes(range(16))


def test_a_broker_is_known_while_its_entry_is_there() -> None:
    image = ClusterImage()
    apply_entry(image, "/brokers/ids/3", broker_json("h", 9092, ["PLAINTEXT://h:9092", "SSL://[::1]:9093"], "r", 0))
    assert image.brokers == {3: BrokerImage(3, (("PLAINTEXT", "h", 9092), ("SSL", "::1", 9093)), "r")}
    apply_entry(image, "/brokers/ids/3", None)
    apply_entry(image, "/brokers/ids/3", None)
    assert image.brokers == {}


def test_the_controller_and_its_epoch_are_followed() -> None:
    image = ClusterImage()
    apply_entry(image, "/controller", layout.controller_json(3, 0))
    apply_entry(image, "/controller_epoch", b"7")
    assert (image.controller_id, image.controller_epoch) == (3, 7)
    apply_entry(image, "/controller", None)
    assert (image.controller_id, image.controller_epoch) == (-1, 7)


def test_a_partition_has_no_leader_until_its_state_is_known() -> None:
    image = ClusterImage()
    apply_entry(image, "/brokers/topics/t", layout.topic_json(TOPIC_ID, {0: (1, 2)}))
    (partition,) = image.topics["t"].partitions
    assert (partition.leader, partition.isr, partition.replicas) == (NO_LEADER, (), (1, 2))
    apply_entry(image, "/brokers/topics/t/partitions/0/state", layout.state_json(1, 2, 5, [2]))
    assert (partition.leader, partition.leader_epoch, partition.isr) == (2, 5, (2,))


def test_a_topic_that_was_made_anew_keeps_nothing_of_the_former_one() -> None:
    image = ClusterImage()
    apply_entry(image, "/brokers/topics/t", layout.topic_json(TOPIC_ID, {0: (1,), 1: (1,)}))
    apply_entry(image, "/config/topics/t", layout.config_json({"a": "b"}))
    apply_entry(image, "/brokers/topics/t", layout.topic_json(TOPIC_ID[::-1], {0: (2,)}))
    assert (len(image.topics["t"].partitions), image.topics["t"].configs) == (1, {})
    assert image.name_of(TOPIC_ID) is None
    assert image.topic_by_id(TOPIC_ID[::-1]) is image.topics["t"]


@pytest.mark.parametrize(
    "path",
    [
        "/brokers/topics/nobody/partitions/0/state",
        "/brokers/topics/t/partitions/7/state",
        "/consumers/g/offsets/t/0",
        "/admin/delete_topics/t",
    ],
)
def test_entries_of_what_is_not_there_or_means_nothing_are_passed_over(path: str) -> None:
    image = ClusterImage()
    apply_entry(image, "/brokers/topics/t", layout.topic_json(TOPIC_ID, {0: (1,)}))
    before = repr(image.topics)
    for value in (layout.state_json(1, 1, 1, [1]), None):
        apply_entry(image, path, value)
    assert repr(image.topics) == before


def test_configs_that_come_before_their_topic_are_kept_for_it() -> None:
    image = ClusterImage()
    apply_entry(image, "/config/topics/t", layout.config_json({"a": "b"}))
    assert not image.topics
    apply_entry(image, "/brokers/topics/t", layout.topic_json(TOPIC_ID, {0: (1,)}))
    assert (image.topics["t"].configs, image.configs_ahead) == ({"a": "b"}, {})
    apply_entry(image, "/config/topics/u", layout.config_json({"a": "b"}))
    apply_entry(image, "/config/topics/u", None)
    assert image.configs_ahead == {}


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"partitions":{"1":[1]}}',
        b'{"partitions":{"0":[1]},"topic_id":"short"}',
        b'{"partitions":7}',
        b"\xff",
    ],
)
def test_an_entry_that_cannot_be_understood_is_named_with_what_to_do(value: bytes) -> None:
    registry = MemoryRegistry()
    make_entry(registry, "/brokers/topics/t", value)
    with pytest.raises(RegistryDamaged, match=r"/brokers/topics/t .*restore"):
        load(ClusterImage(), registry)


def test_internal_topics_are_told_apart() -> None:
    image = ClusterImage()
    for name in ("__consumer_offsets", "__transaction_state", "__mine"):
        apply_entry(image, layout.topic_path(name), layout.topic_json(name.encode().ljust(16)[:16], {0: (1,)}))
    assert {name for name, topic in image.topics.items() if topic.is_internal} == {"__consumer_offsets", "__transaction_state"}
