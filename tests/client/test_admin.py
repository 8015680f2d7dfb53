"""The admin client against a live broker."""

from __future__ import annotations

from collections.abc import Callable

import confluent_kafka
import pytest

import ottla
from ottla.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
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


@pytest.mark.since("0.10.1", "ids of clusters")
def test_the_cluster_says_where_its_brokers_are(admin: ottla.Admin, broker: Peer) -> None:
    described = admin.describe_cluster()
    assert described.cluster_id
    [node] = described.nodes
    assert f"{node.host}:{node.port}" == broker.address
    assert admin.describe_broker_configs(node.node_id)["num.partitions"].value


def settings_of(admin: ottla.Admin, resource: ottla.ConfigResource, *names: str) -> list[str | None]:
    described = admin.describe_configs(resource)
    return [described[name].value for name in names]


def test_settings_of_a_topic_are_set_extended_and_restored_one_by_one(admin: ottla.Admin, topic: str) -> None:
    resource = ottla.ConfigResource.topic(topic)
    admin.alter_configs(resource, set={"delete.retention.ms": 1234567, "preallocate": True}, append={"cleanup.policy": "compact"})
    names = ("delete.retention.ms", "preallocate", "cleanup.policy")
    assert settings_of(admin, resource, *names) == ["1234567", "true", "delete,compact"]
    admin.alter_configs(resource, delete=["delete.retention.ms"], subtract={"cleanup.policy": "delete"})
    assert settings_of(admin, resource, *names) == ["86400000", "true", "compact"]
    described = admin.describe_configs(resource)
    assert described["delete.retention.ms"].is_default
    assert not described["preallocate"].is_default


@pytest.mark.since("4.0", "with ZooKeeper, brokers answer INVALID_REQUEST to a value of the wrong type")
def test_settings_that_are_only_validated_are_not_changed(admin: ottla.Admin, topic: str) -> None:
    resource = ottla.ConfigResource.topic(topic)
    admin.alter_configs(resource, set={"delete.retention.ms": 1}, validate_only=True)
    assert settings_of(admin, resource, "delete.retention.ms") == ["86400000"]
    with pytest.raises(ottla.BrokerError, match=r"delete\.retention\.ms") as raised:
        admin.alter_configs(resource, set={"delete.retention.ms": "long"}, validate_only=True)
    assert raised.value.name == "INVALID_CONFIG"
    with pytest.raises(ottla.UnknownTopic):
        admin.alter_configs(ottla.ConfigResource.topic(topic + "-not"), set={"delete.retention.ms": 1})


def test_one_brokers_settings_are_stronger_than_those_of_all(admin: ottla.Admin) -> None:
    [node] = admin.describe_cluster().nodes
    one, every = ottla.ConfigResource.broker(node.node_id), ottla.ConfigResource.all_brokers()
    admin.alter_configs(every, set={"log.cleaner.backoff.ms": 14_000})
    eventually(lambda: settings_of(admin, one, "log.cleaner.backoff.ms") == ["14000"])
    admin.alter_configs(one, set={"log.cleaner.backoff.ms": 13_000})
    eventually(lambda: settings_of(admin, one, "log.cleaner.backoff.ms") == ["13000"])
    assert settings_of(admin, every, "log.cleaner.backoff.ms") == ["14000"]
    for resource in (one, every):
        admin.alter_configs(resource, delete=["log.cleaner.backoff.ms"])


@pytest.mark.since("4.0", "settings of groups")
def test_a_group_has_settings_before_it_has_members(admin: ottla.Admin, unique: Callable[[str], str]) -> None:
    group = ottla.ConfigResource.group(unique("group"))
    admin.alter_configs(group, set={"consumer.session.timeout.ms": 50_000})
    eventually(lambda: settings_of(admin, group, "consumer.session.timeout.ms") == ["50000"])
    assert settings_of(admin, group, "consumer.session.timeout.ms") == ["50000"]


def test_records_are_deleted_up_to_an_offset(admin: ottla.Admin, broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address) as producer:
        for number in range(20):
            producer.send(topic, b"%d" % number, partition=number % 2)
    assert admin.delete_records({(topic, 0): 4, (topic, 1): -1}) == {(topic, 0): 4, (topic, 1): 10}
    with ottla.Consumer(topic, bootstrap_servers=broker.address, auto_offset_reset="earliest") as consumer:
        assert consumer.beginning_offsets([(topic, 0), (topic, 1)]) == {(topic, 0): 4, (topic, 1): 10}
    with pytest.raises(ottla.OffsetOutOfRange):
        admin.delete_records({(topic, 0): 11})
    with ottla.Admin(broker.address, default_api_timeout_ms=500) as hasty, pytest.raises(ottla.UnknownTopic):
        hasty.delete_records({(topic, 3): 1})


@pytest.mark.since("3.8", "types of groups in lists")
def test_a_group_is_listed_described_and_deleted(
    admin: ottla.Admin, broker: Peer, topic: str, unique: Callable[[str], str]
) -> None:
    group = unique("group")
    assert admin.describe_group(group).state == "Dead"
    with ottla.Consumer(topic, bootstrap_servers=broker.address, group_id=group, enable_auto_commit=False) as consumer:
        eventually(lambda: consumer.poll(10) or len(consumer.assignment()) == 3)
        eventually(lambda: admin.describe_group(group).state == "Stable")
        described = admin.describe_group(group)
        assert (described.protocol_type, described.protocol) == ("consumer", "range")
        [member] = described.members
        assert sorted(member.assignment) == [(topic, 0), (topic, 1), (topic, 2)]
        [listed] = [found for found in admin.list_groups() if found.group_id == group]
        assert listed == ottla.GroupListing(group, "consumer", "Stable", "classic")
        with pytest.raises(ottla.BrokerError, match="NON_EMPTY_GROUP"):
            admin.delete_groups(group)
        with pytest.raises(ottla.BrokerError, match="UNKNOWN_MEMBER_ID"):
            admin.alter_group_offsets(group, {(topic, 0): 3})
        consumer.commit({(topic, 0): 7})
    assert admin.list_group_offsets(group)[ottla.TopicPartition(topic, 0)].offset == 7
    admin.alter_group_offsets(group, {(topic, 0): 3, (topic, 1): ottla.OffsetAndMetadata(4, "again")})
    altered = admin.list_group_offsets(group)
    assert altered == {(topic, 0): ottla.OffsetAndMetadata(3), (topic, 1): ottla.OffsetAndMetadata(4, "again")}
    admin.delete_groups(group)
    assert admin.describe_group(group).state == "Dead"


@pytest.mark.since("4.0", "the consumer protocol")
def test_groups_of_both_kinds_are_described_together_and_their_offsets_deleted(
    admin: ottla.Admin, broker: Peer, topic: str, unique: Callable[[str], str]
) -> None:
    classic, new, missing = unique("classic"), unique("new"), unique("missing")
    settings = {"bootstrap.servers": broker.address, "group.id": new, "group.protocol": "consumer", "group.instance.id": "i"}
    member = confluent_kafka.Consumer(settings)
    member.subscribe([topic])
    with ottla.Consumer(topic, bootstrap_servers=broker.address, group_id=classic, enable_auto_commit=False) as consumer:
        eventually(
            lambda: consumer.poll(10) or member.poll(0.01) or (len(consumer.assignment()), len(member.assignment())) == (3, 3)
        )
        eventually(lambda: admin.describe_group(new).state == "Stable")
        found = admin.describe_groups(new, missing, classic)
        assert [(each.group_id, each.state, each.group_type) for each in found.values()] == [
            (new, "Stable", "consumer"),
            (missing, "Dead", "classic"),
            (classic, "Stable", "classic"),
        ]
        for each in (found[new], found[classic]):
            assert sorted(each.members[0].assignment) == [(topic, 0), (topic, 1), (topic, 2)]
        assert (found[new].members[0].group_instance_id, found[new].members[0].is_classic) == ("i", False)
        listed = {each.group_id for each in admin.list_groups(states=["Stable"], types=["consumer"])}
        assert (new in listed, classic in listed) == (True, False)
        assert new not in {each.group_id for each in admin.list_groups(states=["Empty"])}
        consumer.commit({(topic, 0): 7, (topic, 1): 8})
        with pytest.raises(ottla.BrokerError, match="GROUP_SUBSCRIBED_TO_TOPIC"):
            admin.delete_group_offsets(classic, [(topic, 0)])
        with pytest.raises(ottla.BrokerError, match="UNKNOWN_MEMBER_ID"):
            admin.remove_members(classic, ["nobody"])
        assert len(admin.describe_group(classic).members) == 1
    member.commit(offsets=[confluent_kafka.TopicPartition(topic, 2, 5)], asynchronous=False)
    assert [each.group_instance_id for each in admin.remove_members(new, ["i"])] == ["i"]
    assert not admin.describe_group(new).members
    member.close()
    assert admin.list_offsets_of_groups(classic, new, missing) == {
        classic: {(topic, 0): ottla.OffsetAndMetadata(7), (topic, 1): ottla.OffsetAndMetadata(8)},
        new: {(topic, 2): ottla.OffsetAndMetadata(5)},
        missing: {},
    }
    admin.delete_group_offsets(classic, [(topic, 0)])
    assert list(admin.list_group_offsets(classic)) == [(topic, 1)]


def test_all_members_of_a_group_are_removed(admin: ottla.Admin, broker: Peer, topic: str, unique: Callable[[str], str]) -> None:
    group = unique("removed")
    at = broker.address
    with (
        ottla.Consumer(topic, bootstrap_servers=at, group_id=group) as one,
        ottla.Consumer(topic, bootstrap_servers=at, group_id=group, group_instance_id="i") as other,
    ):
        eventually(lambda: one.poll(10) or other.poll(10) or len(admin.describe_group(group).members) == 2)
        eventually(lambda: one.poll(10) or other.poll(10) or admin.describe_group(group).state == "Stable")
        before = {member.member_id for member in admin.describe_group(group).members}
        assert {member.member_id for member in admin.remove_members(group, None)} == before
        assert not before & {member.member_id for member in admin.describe_group(group).members}


def test_a_group_that_does_not_exist_is_dead_on_a_broker_without_the_consumer_protocol() -> None:
    with ottla.Broker(group_coordinator_rebalance_protocols="classic") as broker, ottla.Admin(broker.address) as admin:
        assert admin.describe_group("missing").state == "Dead"


@pytest.mark.parametrize("release", ["0.10.0", "0.10.2", "2.3", "3.6"])
def test_groups_of_older_releases_are_listed_described_and_read(release: str) -> None:
    with ottla.Broker(release=release, num_partitions=2) as broker, ottla.Admin(broker.address) as admin:
        with ottla.Producer(broker.address, enable_idempotence=False) as producer:
            producer.send("t", b"made by its first record")
        admin.alter_group_offsets("g", {("t", 1): 3})
        with ottla.Consumer("t", bootstrap_servers=broker.address, group_id="h") as consumer:
            eventually(lambda: consumer.poll(10) or len(consumer.assignment()) == 2)
            found = admin.describe_groups("g", "h", "missing")
            assert [each.state for each in found.values()] == ["Empty", "Stable", "Dead"]
            assert [each.group_id for each in admin.list_groups(states=["Stable"], types=["classic"])] == ["h"]
            assert [member.member_id for member in admin.remove_members("h", None)] == [found["h"].members[0].member_id]
        assert admin.list_offsets_of_groups("g", "missing") == {"g": {("t", 1): ottla.OffsetAndMetadata(3)}, "missing": {}}


@pytest.mark.since("0.11.0", "requests for metadata that create no topic")
def test_offsets_are_listed_by_time_for_many_partitions_at_once(
    admin: ottla.Admin, broker: Peer, unique: Callable[[str], str]
) -> None:
    name = unique("by-time")
    admin.create_topic(name, 2, 1)
    with ottla.Producer(broker.address) as producer:
        for number in range(5):
            producer.send(name, b"x", partition=0, timestamp_ms=1000 + number)
    first, second = (name, 0), (name, 1)
    assert [found.offset for found in admin.list_offsets({first: LATEST_TIMESTAMP, second: LATEST_TIMESTAMP}).values()] == [5, 0]
    assert admin.list_offsets({first: 1003, second: 1003})[TopicPartition(*first)][:2] == (3, 1003)
    assert admin.list_offsets({first: 2000, second: EARLIEST_TIMESTAMP})[TopicPartition(*first)].offset == -1
    assert admin.list_offsets({}) == {}
    with pytest.raises(ottla.UnknownTopic):
        admin.list_offsets({("none", 0): 0})
    with pytest.raises(ottla.SettingError, match="A timestamp is a whole number of at least -6"):
        admin.list_offsets({first: -7})


def test_settings_have_synonyms_and_documentation_on_request(admin: ottla.Admin, topic: str) -> None:
    resource = ottla.ConfigResource.topic(topic)
    admin.alter_configs(resource, set={"segment.bytes": 77_000_000})
    eventually(lambda: settings_of(admin, resource, "segment.bytes") == ["77000000"])
    entry = admin.describe_configs(resource)["segment.bytes"]
    assert (entry.value, entry.source_name, entry.synonyms, entry.documentation) == ("77000000", "dynamic topic", (), "")
    entry = admin.describe_configs(resource, synonyms=True, documentation=True)["segment.bytes"]
    assert entry.documentation
    assert [(each.name, each.value, each.source_name) for each in entry.synonyms] == [
        ("segment.bytes", "77000000", "dynamic topic"),
        ("log.segment.bytes", "1073741824", "default"),
    ]


def test_a_delegation_token_needs_a_login_and_principals(admin: ottla.Admin) -> None:
    with pytest.raises(ottla.BrokerError, match="DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"):
        admin.create_delegation_token(renewers=["User:bob"])
    with pytest.raises(ottla.SettingError, match="'bob' is not a principal"):
        admin.describe_delegation_tokens("bob")


@pytest.mark.since("4.0", "levels of loggers, which are an UNKNOWN_SERVER_ERROR on the jars of older brokers")
def test_levels_of_loggers_change_and_return(admin: ottla.Admin, broker: Peer) -> None:
    loggers = ottla.ConfigResource.loggers(1)
    before = admin.describe_configs(loggers)["root"]
    assert before.source_name == "dynamic broker logger"
    admin.alter_configs(loggers, set={"root": "FATAL"})
    assert admin.describe_configs(loggers)["root"].value == "FATAL"
    with pytest.raises(ottla.BrokerError, match="INVALID_CONFIG"):
        admin.alter_configs(loggers, set={"root": "NOISY"})
    admin.alter_configs(loggers, set={"root": str(before.value)})
    assert admin.describe_configs(loggers)["root"].value == before.value


@pytest.mark.since("4.0", "a quorum, which brokers with ZooKeeper do not have")
def test_the_quorum_has_a_leader(admin: ottla.Admin) -> None:
    quorum = admin.describe_quorum()
    assert quorum.leader_id in [each.node_id for each in quorum.voters]
    assert quorum.leader_epoch >= 0
    assert quorum.high_watermark > 0
    with pytest.raises(ottla.BrokerError, match="BROKER_ID_NOT_REGISTERED"):
        admin.unregister_broker(77)


AT_ONCE = pytest.mark.timeout(40)
"""Fails a test that waits for `default_api_timeout_ms`, a minute."""


@AT_ONCE
@pytest.mark.since("0.11.0", "requests for metadata that create no topic")
def test_offsets_of_topics_that_do_not_exist_are_refused_at_once_and_none_is_committed(
    admin: ottla.Admin, topic: str, unique: Callable[[str], str]
) -> None:
    group, nobody = unique("group"), unique("nobody")
    for missing in ((nobody, 0), (topic, 9)):
        with pytest.raises(ottla.UnknownTopic, match=missing[0]):
            admin.alter_group_offsets(group, {(topic, 0): 3, missing: 1})
    assert admin.list_group_offsets(group) == {}


@AT_ONCE
@pytest.mark.since("1.0", "log directories")
def test_log_directories_of_a_broker_that_is_not_there_are_refused_at_once(admin: ottla.Admin) -> None:
    with pytest.raises(ottla.KafkaError, match=r"There is no broker 9 now: the cluster has 1\."):
        admin.describe_log_dirs([1, 9])
