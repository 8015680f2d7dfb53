"""What Ottla's admin client changed, as other clients see it; on Apache Kafka too."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

import ottla
from tests.interop.test_consumer_groups import NewMember
from tests.support.peers import Peer
from tests.support.waiting import eventually

Unique = Callable[[str], str]


@pytest.fixture
def admin(broker: Peer) -> Iterator[ottla.Admin]:
    with ottla.Admin(broker.address) as client:
        yield client


def test_another_client_sees_the_settings_that_were_altered(broker: Peer, admin: ottla.Admin, unique: Unique) -> None:
    topic = unique("altered")
    admin.create_topic(topic, 1, 1, {"delete.retention.ms": "1234567"})
    resource = ottla.ConfigResource.topic(topic)
    admin.alter_configs(
        resource, set={"segment.bytes": 1_048_576}, delete=["delete.retention.ms"], append={"cleanup.policy": "compact"}
    )
    client = AdminClient({"bootstrap.servers": broker.address})
    [described] = client.describe_configs([ConfigResource("topic", topic)]).values()
    seen = described.result(60)
    mine = admin.describe_configs(resource)
    assert seen["segment.bytes"].value == "1048576"
    assert seen["cleanup.policy"].value == "delete,compact"
    assert seen["delete.retention.ms"].is_default
    assert {name: entry.value for name, entry in mine.items()} == {name: entry.value for name, entry in seen.items()}


def test_records_are_deleted_up_to_an_offset(broker: Peer, admin: ottla.Admin, unique: Unique) -> None:
    topic = unique("deleted")
    admin.create_topic(topic, 2, 1)
    with ottla.Producer(broker.address) as producer:
        for number in range(20):
            producer.send(topic, b"v", partition=number % 2)
    assert admin.delete_records({(topic, 0): 4, (topic, 1): -1}) == {(topic, 0): 4, (topic, 1): 10}
    with pytest.raises(ottla.OffsetOutOfRange):
        admin.delete_records({(topic, 0): 11})


def test_a_group_of_the_consumer_protocol_is_described_with_its_assignment(
    broker: Peer, admin: ottla.Admin, unique: Unique
) -> None:
    """The group has a committed offset: one without offsets goes with its last member, at the broker's next look."""
    topic, group = unique("described"), unique("new")
    admin.create_topic(topic, 2, 1)
    with ottla.Producer(broker.address) as producer:
        producer.send(topic, b"v", partition=0)
    member = NewMember(broker.address, topic, group)
    member.start()
    eventually(lambda: member.assigned == {0, 1} and member.messages, timeout_s=60, what="the member has all")
    member.commit_now()
    eventually(lambda: admin.describe_group(group).state == "Stable", timeout_s=60)
    described = admin.describe_group(group)
    assert (described.protocol_type, described.protocol) == ("consumer", "uniform")
    assert sorted(described.members[0].assignment) == [(topic, 0), (topic, 1)]
    [listed] = [found for found in admin.list_groups() if found.group_id == group]
    assert listed == ottla.GroupListing(group, "consumer", "Stable", "consumer")
    member.leave()
    eventually(lambda: admin.describe_group(group).state == "Empty", timeout_s=60)
    admin.delete_groups(group)
    assert admin.describe_group(group).state == "Dead"


def test_items_have_outcomes_of_their_own_on_every_broker(broker: Peer, admin: ottla.Admin, unique: Unique) -> None:
    topic, missing = unique("items"), unique("missing")
    made = admin.create_topics([ottla.NewTopic(topic, 2, 1), ottla.NewTopic("b/d", 1, 1)], check=False)
    assert (list(made), list(made.errors)) == ([topic], ["b/d"])
    eventually(lambda: topic in admin.describe_topics(topic, missing, check=False), timeout_s=60)
    assert list(admin.describe_topics(topic, missing, check=False).errors) == [missing]
    found = admin.list_offsets({(topic, 0): -1, (topic, 9): -2}, check=False)
    assert (list(found), list(found.errors)) == ([(topic, 0)], [(topic, 9)])
    groups = [unique(f"group-{number}") for number in range(5)]
    admin.alter_group_offsets(groups[0], {(topic, 0): 0})
    assert {group.state for group in admin.describe_groups(*groups).values()} == {"Empty", "Dead"}
    assert list(admin.delete_groups(*groups, check=False).errors) == groups[1:]
    resources = [ottla.ConfigResource.topic(topic), ottla.ConfigResource.topic(missing)]
    assert list(admin.describe_configs_of(resources, check=False).errors) == resources[1:]
    topic_id = admin.list_topic_ids()[topic]
    assert admin.describe_topics_by_id(topic_id)[topic_id].name == topic


def test_start_offsets_of_share_groups_are_set_listed_and_deleted(broker: Peer, admin: ottla.Admin, unique: Unique) -> None:
    topic, group = unique("shared"), unique("share")
    admin.create_topic(topic, 1, 1)
    try:
        admin.alter_share_group_offsets(group, {(topic, 0): 0})
    except ottla.NotSupported as error:
        pytest.skip(str(error))
    assert admin.list_share_group_offsets(group)[group][ottla.TopicPartition(topic, 0)].start_offset == 0
    assert admin.describe_group(group).group_type == "share"
    assert list(admin.delete_share_group_offsets(group, topic)) == [topic]
    admin.delete_groups(group)
