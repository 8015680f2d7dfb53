"""The admin client against a live broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import ottla
from tests.support.peers import Peer
from tests.support.waiting import eventually


def test_topics_are_created_grown_described_and_deleted(admin: ottla.Admin, unique: Callable[[str], str]) -> None:
    name = unique("made")
    admin.create_topics([ottla.NewTopic(name, 2, configs={"retention.ms": "1234567"})])
    assert name in admin.list_topics()
    assert sorted(admin.describe_topics(name)[name].partitions) == [0, 1]
    assert admin.describe_topic_configs(name)["retention.ms"].value == "1234567"
    admin.create_partitions({name: 5})
    assert len(admin.describe_topics(name)[name].partitions) == 5
    admin.delete_topics(name)
    eventually(lambda: name not in admin.list_topics())


def test_seeing_whether_a_topic_could_be_made_makes_none(admin: ottla.Admin, unique: Callable[[str], str]) -> None:
    name = unique("tried")
    admin.create_topics([ottla.NewTopic(name, 2)], validate_only=True)
    assert name not in admin.list_topics()


def test_what_brokers_refuse_is_raised_with_kafkas_code(admin: ottla.Admin, topic: str) -> None:
    with pytest.raises(ottla.BrokerError, match="TOPIC_ALREADY_EXISTS") as raised:
        admin.create_topic(topic)
    assert (raised.value.code, raised.value.retriable) == (36, False)
    with pytest.raises(ottla.BrokerError, match="INVALID_PARTITIONS"):
        admin.create_partitions({topic: 1})
    with pytest.raises(ottla.UnknownTopic):
        admin.delete_topics(topic + "-not")
    with pytest.raises(ottla.UnknownTopic):
        admin.describe_topics(topic + "-not")


def test_the_cluster_says_where_its_brokers_are(admin: ottla.Admin, broker: Peer) -> None:
    described = admin.describe_cluster()
    assert described.cluster_id
    [node] = described.nodes
    assert f"{node.host}:{node.port}" == broker.address
    assert admin.describe_broker_configs(node.node_id)["num.partitions"].value
