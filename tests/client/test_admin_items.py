"""Calls of an admin client about many items: a result or an error for each, few requests, and partial results at a time limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

import ottla
from ottla.client.types import EARLIEST_PENDING_UPLOAD_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP
from ottla.net.client.cluster import ClusterLinks
from tests.support.peers import Peer
from tests.support.sent_requests import SentRequests, count_requests

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
Unique = Callable[[str], str]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> SentRequests:
    """The requests of all clients of the test's process, by address and API."""
    return count_requests(monkeypatch)


def test_one_bad_topic_among_a_hundred_hides_no_other(admin: ottla.Admin, unique: Unique) -> None:
    stem = unique("many")
    names = [f"{stem}-{number}" for number in range(100)]
    bad = names[50] = f"{stem}/50"
    made = admin.create_topics([ottla.NewTopic(name, 1) for name in names], check=False)
    assert list(made) == [name for name in names if name != bad]
    assert made[names[0]].num_partitions == 1
    assert {name: str(error.code) for name, error in made.errors.items()} == {bad: "17"}
    with pytest.raises(ottla.BrokerError, match="INVALID_TOPIC_EXCEPTION"):
        made[bad]
    with pytest.raises(ottla.BrokerError) as raised:
        admin.delete_topics(*names)
    results = raised.value.results
    assert isinstance(results, ottla.Results)
    assert len(results) == 99
    assert not {*names} & {*admin.list_topics()}


def test_a_thousand_names_take_few_requests(admin: ottla.Admin, unique: Unique, sent: SentRequests) -> None:
    names = [unique(f"none-{number}") for number in range(1_000)]
    described = admin.describe_topics(*names, check=False)
    assert (len(described), list(described.errors)) == (0, names)
    groups = admin.describe_groups(*names)
    assert {group.state for group in groups.values()} == {"Dead"}
    assert max(sent.values()) <= 3


def test_a_hundred_groups_take_one_request_of_each_kind(
    broker: Peer, admin: ottla.Admin, topic: str, unique: Unique, sent: SentRequests
) -> None:
    names = [unique(f"group-{number}") for number in range(100)]
    for name in names[:3]:
        admin.alter_group_offsets(name, {(topic, 0): 5})
    sent.clear()
    offsets = admin.list_offsets_of_groups(*names, partitions=[(topic, 0)])
    assert [found.offset for each in offsets.values() for found in each.values()] == [5, 5, 5]
    deleted = admin.delete_groups(*names, check=False)
    assert (list(deleted), list(deleted.errors)) == (names[:3], names[3:])
    assert {error.code for error in deleted.errors.values()} == {69}
    assert {name: count for (_, name), count in sent.items() if name in ("OffsetFetch", "DeleteGroups")} == {
        "OffsetFetch": 1,
        "DeleteGroups": 1,
    }


def test_nothing_and_the_same_name_twice_are_asked_once_or_not_at_all(admin: ottla.Admin, topic: str, sent: SentRequests) -> None:
    empty = (admin.describe_topics(), admin.describe_groups(), admin.delete_topics(), admin.create_acls([]))
    assert not any(empty)
    assert not sent
    assert list(admin.describe_topics(topic, topic)) == [topic]
    assert list(admin.describe_configs_of([ottla.ConfigResource.topic(topic)] * 2)) == [ottla.ConfigResource.topic(topic)]


def test_the_longest_name_and_one_beyond_it_have_outcomes_of_their_own(admin: ottla.Admin, unique: Unique) -> None:
    longest = unique("long").ljust(249, "x")
    made = admin.create_topics([ottla.NewTopic(longest, 1), ottla.NewTopic(longest + "x", 1)], check=False)
    assert (list(made), list(made.errors)) == ([longest], [longest + "x"])


def test_topics_are_described_and_deleted_by_id(admin: ottla.Admin, topic: str) -> None:
    topic_id = admin.list_topic_ids()[topic]
    described = admin.describe_topics_by_id(topic_id, bytes(15) + b"\1", check=False)
    assert (described[topic_id].name, len(described.errors)) == (topic, 1)
    assert described[topic_id].partitions.keys() == admin.describe_topics(topic)[topic].partitions.keys()
    admin.delete_topics_by_id(topic_id)
    assert topic not in admin.list_topics()


def test_partitions_that_do_not_exist_are_refused_at_once_beside_those_that_do(admin: ottla.Admin, topic: str) -> None:
    began = time.monotonic()
    found = admin.list_offsets({(topic, 0): LATEST_TIMESTAMP, (topic, 99): LATEST_TIMESTAMP, ("none", 0): 0}, check=False)
    assert (list(found), list(found.errors)) == ([(topic, 0)], [(topic, 99), ("none", 0)])
    assert admin.delete_records({(topic, 0): -1, (topic, 1): 7}, check=False).errors.keys() == {(topic, 1)}
    assert time.monotonic() - began < 30


def test_settings_of_several_resources_are_changed_and_described_together(admin: ottla.Admin, topic: str) -> None:
    known, unknown = ottla.ConfigResource.topic(topic), ottla.ConfigResource.topic(topic + "-not")
    change = ottla.ConfigAlteration(set={"retention.ms": 5_000}, append={"cleanup.policy": "compact"})
    altered = admin.alter_configs_of({known: change, unknown: change}, check=False)
    assert (list(altered), list(altered.errors)) == ([known], [unknown])
    node_id = admin.describe_cluster().nodes[0].node_id
    mine, absent = ottla.ConfigResource.broker(node_id), ottla.ConfigResource.broker(98)
    described = admin.describe_configs_of([known, unknown, mine, absent], check=False)
    assert described[known]["cleanup.policy"].value == "delete,compact"
    assert list(described.errors) == [unknown, absent]
    assert str(described.errors[absent]).startswith("There is no broker 98 now")


def test_replicas_have_directories_where_they_are(admin: ottla.Admin, topic: str) -> None:
    node_id = admin.describe_cluster().nodes[0].node_id
    found = admin.describe_replica_log_dirs([(topic, 0, node_id), (topic, 99, node_id), (topic, 0, 98)], check=False)
    assert list(found) == [(topic, 0, node_id)]
    assert found[ottla.TopicPartitionReplica(topic, 0, node_id)].path
    assert list(found.errors) == [(topic, 99, node_id), (topic, 0, 98)]


def logged_in(address: str, user: str, password: str) -> ottla.Admin:
    return ottla.Admin(
        address, security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_username=user, sasl_password=password
    )


def test_acls_are_found_by_host_and_operation_and_missing_rights_refuse_one_item_alone() -> None:
    user, passwords = "User:alice", {"root": "r", "alice": "a"}
    permitted = (("read", "*"), ("read", "1.2.3.4"), ("write", "*"))
    rules = [ottla.AclRule(user, word, "topic", "t", host=host) for word, host in permitted]
    with (
        ottla.Broker(users=passwords, authorizer_class_name=AUTHORIZER, super_users="User:root") as broker,
        logged_in(broker.address, "root", "r") as admin,
        logged_in(broker.address, "alice", "a") as alice,
    ):
        admin.create_topics([ottla.NewTopic("t", 1), ottla.NewTopic("u", 1)])
        assert list(admin.create_acls(rules)) == rules
        assert admin.list_acls(user, host="1.2.3.4") == [rules[1]]
        assert admin.list_acls(user, operation="write", permission="allow") == [rules[2]]
        assert admin.list_acls(user, resource="topic", name="t", pattern="match", host="*") == [rules[0], rules[2]]
        described = alice.describe_topics("u", "t", authorized_operations=True, check=False)
        assert described["t"].authorized_operations == frozenset({"read", "write", "describe"})
        assert {name: error.code for name, error in described.errors.items()} == {"u": 29}
        reading = ottla.AclRuleFilter(user, "read")
        assert admin.delete_matching_acls(reading) == {reading: rules[:2]}
        assert admin.delete_acls(rules) == rules[2:]


def test_quotas_and_users_change_together(admin: ottla.Admin, unique: Unique) -> None:
    first, second = unique("anna"), unique("ben")
    both = {ottla.QuotaOf(first): {"producer_byte_rate": 5.0}, ottla.QuotaOf(second, "app"): {"consumer_byte_rate": 6.0}}
    admin.alter_quotas_of(both)
    assert [quota.entity for quota in admin.describe_quotas(second, any_of=["client-id"], strict=True)] == [
        ottla.QuotaOf(second, "app")
    ]
    assert admin.describe_quotas(second, strict=True) == []
    admin.set_user_passwords({first: "one", second: "two"})
    assert admin.list_users(first, second).keys() == {first, second}
    removed = admin.remove_users(first, unique("nobody"), second, check=False)
    assert (list(removed), [error.code for error in removed.errors.values()]) == ([first, second], [91])


def test_two_admins_at_once_each_create_half(broker: Peer, unique: Unique) -> None:
    names = [unique(f"half-{number}") for number in range(20)]

    async def create() -> tuple[ottla.Results[str, object], ...]:
        async with ottla.AsyncAdmin(broker.address) as first, ottla.AsyncAdmin(broker.address) as second:
            new = [ottla.NewTopic(name, 1) for name in names]
            one, two = await asyncio.gather(first.create_topics(new, check=False), second.create_topics(new, check=False))
            return ottla.Results(one, one.errors), ottla.Results(two, two.errors)

    one, two = asyncio.run(create())
    assert sorted([*one, *two]) == sorted(names)
    assert {error.code for error in (*one.errors.values(), *two.errors.values())} == {36}


def test_a_call_about_an_unreachable_broker_keeps_the_results_of_others_at_its_time_limit(
    broker: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second broker is an address without a broker, which metadata names."""

    async def describe() -> ottla.Results[int, list[ottla.LogDir]]:
        async with ottla.AsyncAdmin(broker.address, reconnect_backoff_max_ms=50) as admin:
            [node] = (await admin.describe_cluster()).nodes
            refresh = ClusterLinks.refresh

            async def with_absent(cluster: ClusterLinks, topics: list[str] | None) -> None:
                await refresh(cluster, topics)
                cluster.metadata.nodes[77] = ottla.Node(77, "127.0.0.1", 1)

            monkeypatch.setattr(ClusterLinks, "refresh", with_absent)
            return await admin.describe_log_dirs([node.node_id, 77], check=False, timeout_ms=700)

    found = asyncio.run(describe())
    assert len(found) == 1
    assert list(found.errors) == [77]
    assert isinstance(found.errors[77], ottla.ConnectionFailed | ottla.TimedOut)


def test_values_in_place_of_timestamps_are_refused_by_older_brokers_in_a_sentence() -> None:
    from ottla.client.consumer.list_offsets import check_served

    assert "MAX_TIMESTAMP need Kafka 3.0" in str(check_served(MAX_TIMESTAMP, 6))
    assert "Kafka 4.2" in str(check_served(EARLIEST_PENDING_UPLOAD_TIMESTAMP, 10))
    assert check_served(LATEST_TIMESTAMP, 0) is check_served(5, 1) is check_served(MAX_TIMESTAMP, 7) is None


def test_share_groups_and_voters_are_refused_in_a_sentence_where_brokers_lack_them(admin: ottla.Admin) -> None:
    lacks = pytest.raises(ottla.NotSupported, match="share groups need")
    with ottla.Broker(release="4.0") as older, ottla.Admin(older.address) as theirs, lacks:
        theirs.alter_share_group_offsets("g", {("t", 0): 1})
    with pytest.raises(ottla.NotSupported, match="only KRaft clusters"):
        admin.add_raft_voter(3, bytes(16), {"CONTROLLER": "127.0.0.1:9093"})


def test_a_broker_that_dies_between_two_calls_gives_each_item_an_error() -> None:
    with ottla.Broker() as broker:
        admin = ottla.Admin(broker.address)
        admin.create_topic("t", 1)
    with admin:
        found = admin.describe_topics("t", "u", check=False, timeout_ms=500)
        assert (list(found), list(found.errors)) == ([], ["t", "u"])
        with pytest.raises(ottla.KafkaError):
            admin.describe_topics("t", timeout_ms=300)
