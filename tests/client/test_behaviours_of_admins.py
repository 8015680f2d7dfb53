"""Behaviours of admin clients that the test suites of other clients check (docs/client-behaviours.md), each in a few lines."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import ottla
from ottla.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP
from tests.client.test_producer_consumer import drain, reader
from tests.support.peers import Peer


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda a, t: a.create_topic(t), "TOPIC_ALREADY_EXISTS"),
        (lambda a, t: a.create_topic("new", 0), "INVALID_PARTITIONS"),
        (lambda a, t: a.create_topic("new", 1, 99), "INVALID_REPLICATION_FACTOR"),
        (lambda a, t: a.create_topic("new", configs={"retention.ms": "soon"}), "INVALID_CONFIG"),
        (lambda a, t: a.create_topic("new", configs={"no.such.setting": "1"}), "INVALID_CONFIG"),
        (lambda a, t: a.create_partitions({t: 1}), "INVALID_PARTITIONS"),
        (lambda a, t: a.create_partitions({"no-such": 5}), "UNKNOWN_TOPIC_OR_PARTITION"),
        (lambda a, t: a.delete_topics("no-such"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (lambda a, t: a.describe_topics("no-such"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (lambda a, t: a.delete_records({(t, 0): 5}), "OFFSET_OUT_OF_RANGE"),
        (lambda a, t: a.delete_groups("no-such"), "GROUP_ID_NOT_FOUND"),
        (lambda a, t: a.alter_configs(ottla.ConfigResource.topic(t), set={"retention.ms": "soon"}), "INVALID_CONFIG"),
        (lambda a, t: a.describe_configs(ottla.ConfigResource.topic("no-such")), "UNKNOWN_TOPIC_OR_PARTITION"),
        (lambda a, t: a.describe_transactions("no-such"), "TRANSACTIONAL_ID_NOT_FOUND"),
    ],
)
def test_a_refusal_has_kafkas_name(call: Callable[[ottla.Admin, str], object], name: str, admin: ottla.Admin, topic: str) -> None:
    with pytest.raises(ottla.BrokerError) as raised:
        call(admin, topic)
    assert raised.value.name == name
    assert raised.value.code > 0


@pytest.mark.parametrize(
    "call",
    [
        lambda a: a.list_topics(),
        lambda a: a.create_topic("x"),
        lambda a: a.describe_cluster(),
        lambda a: a.list_groups(),
        lambda a: a.describe_topic_configs("x"),
        lambda a: a.list_acls(),
    ],
)
def test_every_call_of_a_closed_admin_raises_closed(call: Callable[[ottla.Admin], object], broker: Peer) -> None:
    with ottla.Admin(broker.address) as admin:
        admin.list_topics()
    admin.close()
    with pytest.raises(ottla.Closed):
        call(admin)


@pytest.mark.parametrize(
    "call",
    [
        lambda a: a.create_topics([]),
        lambda a: a.create_partitions({}),
        lambda a: a.delete_records({}),
        lambda a: a.list_offsets({}),
        lambda a: a.describe_topics(),
        lambda a: a.describe_groups(),
        lambda a: a.list_offsets_of_groups(),
        lambda a: a.describe_transactions(),
        lambda a: a.describe_producers([]),
        lambda a: a.alter_replica_log_dirs(a.describe_cluster().controller_id, {}),
    ],
)
def test_a_call_about_nothing_changes_and_raises_nothing(call: Callable[[ottla.Admin], object], admin: ottla.Admin) -> None:
    before = admin.list_topics()
    assert not call(admin)
    assert admin.list_topics() == before


@pytest.mark.parametrize(("timestamp", "offset"), [(EARLIEST_TIMESTAMP, 0), (LATEST_TIMESTAMP, 3), (MAX_TIMESTAMP, 1), (1500, 1)])
def test_offsets_are_listed_by_kafkas_constants(timestamp: int, offset: int, broker: Peer, admin: ottla.Admin, topic: str) -> None:
    admin.alter_configs(ottla.ConfigResource.topic(topic), set={"retention.ms": -1})
    with ottla.Producer(broker.address) as producer:
        for timestamp_ms in (1000, 3000, 2000):
            producer.send(topic, b"v", partition=0, timestamp_ms=timestamp_ms)
    assert admin.list_offsets({(topic, 0): timestamp})[ottla.TopicPartition(topic, 0)].offset == offset


def test_groups_are_filtered_by_state_and_type(broker: Peer, admin: ottla.Admin, topic: str, unique: Callable[[str], str]) -> None:
    group = unique("group")
    with ottla.Producer(broker.address) as producer:
        producer.send(topic, b"v", partition=0)
    with reader(broker, topic, group_id=group) as consumer:
        drain(consumer, 1)
        assert group in {each.group_id for each in admin.list_groups(states=["Stable"], types=["classic"])}
        assert group not in {each.group_id for each in admin.list_groups(states=["Empty"])}
        with pytest.raises(ottla.BrokerError, match="NON_EMPTY_GROUP"):
            admin.delete_groups(group)
        with pytest.raises(ottla.BrokerError, match="UNKNOWN_MEMBER_ID"):
            admin.alter_group_offsets(group, {(topic, 0): 0})
    assert group in {each.group_id for each in admin.list_groups(states=["Empty"])}
    assert group not in {each.group_id for each in admin.list_groups(types=["consumer"])}
    admin.alter_group_offsets(group, {(topic, 0): 0, (topic, 1): 5})
    offsets = {place.partition: found.offset for place, found in admin.list_group_offsets(group).items()}
    assert (offsets[0], offsets[1]) == (0, 5)
    admin.delete_groups(group)
    assert admin.list_group_offsets(group) == {}


def test_topics_are_created_and_deleted_together(admin: ottla.Admin, unique: Callable[[str], str]) -> None:
    names = [unique("client") for _ in range(3)]
    admin.create_topics([ottla.NewTopic(name, 2, 1) for name in names], validate_only=True)
    assert not {*names} & {*admin.list_topics()}
    admin.create_topics([ottla.NewTopic(name, 2, 1) for name in names])
    described = admin.describe_topics(*names)
    assert [(topic.name, len(topic.partitions), topic.is_internal) for topic in described.values()] == [
        (name, 2, False) for name in names
    ]
    assert all(
        partition.leader >= 0 and partition.isr == partition.replicas for partition in described[names[0]].partitions.values()
    )
    assert len({topic.topic_id for topic in described.values()}) == 3
    admin.delete_topics(*names)
    assert not {*names} & {*admin.list_topics()}
