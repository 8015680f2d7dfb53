"""Patterns of topics in RE2's syntax that the coordinator of a group resolves (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import pytest

import ottla
from ottla.client.keywords import ConsumerKeywords
from tests.client.test_producer_consumer import drain, fill, reader
from tests.support.peers import Peer, start_peer
from tests.support.waiting import eventually


def poll_on(consumer: ottla.Consumer) -> None:
    """Poll until that raises an error, or ten seconds have passed."""
    for _ in range(100):
        consumer.poll(100)


ON_GROUPS = pytest.mark.since("4.0", "patterns that the coordinator resolves")


@pytest.fixture(scope="module")
def broker(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """A broker whose members send heartbeats often, so that new topics are soon found."""
    quick: dict[str, object] = {"group.consumer.heartbeat.interval.ms": "100", "group.consumer.min.heartbeat.interval.ms": "100"}
    with start_peer(peer_name, tmp_path_factory.mktemp("broker"), quick) as peer:
        yield peer


@pytest.fixture
def stem(unique: Callable[[str], str]) -> str:
    return unique("stem")


@ON_GROUPS
@pytest.mark.parametrize("protocol", ["consumer", "auto"])
def test_topics_that_match_are_read(broker: Peer, admin: ottla.Admin, stem: str, protocol: Literal["consumer", "auto"]) -> None:
    names = [f"{stem}-0", f"other-{stem}-0"]
    for name in names:
        admin.create_topic(name, 1, 1)
        fill(broker, name, 3)
    with reader(broker, group_id=stem, group_protocol=protocol) as consumer:
        consumer.subscribe(ottla.SubscriptionPattern(f"{stem}-[0-9]"))
        assert {record.topic for record in drain(consumer, 3)} == {names[0]}
        assert consumer.subscription() == {names[0]}


@ON_GROUPS
@pytest.mark.full(seconds=15)
def test_a_topic_that_is_made_later_is_read_within_seconds(broker: Peer, admin: ottla.Admin, stem: str) -> None:
    """Coordinators match new topics every ten seconds at most."""
    with reader(broker, group_id=stem, group_protocol="consumer") as consumer:
        consumer.subscribe(ottla.SubscriptionPattern(f"{stem}.*"))
        assert consumer.poll(500) == []
        admin.create_topic(stem, 1, 1)
        fill(broker, stem, 2)
        assert eventually(lambda: consumer.poll(500), timeout_s=60)[0].value == b"0"
        assert consumer.subscription() == {stem}


@ON_GROUPS
def test_a_member_changes_from_a_pattern_to_names_and_back(broker: Peer, admin: ottla.Admin, stem: str) -> None:
    names = [f"{stem}-a", f"{stem}-b"]
    for name in names:
        admin.create_topic(name, 1, 1)
    with reader(broker, group_id=stem, group_protocol="consumer") as consumer:

        def assigned_topics() -> set[str]:
            consumer.poll(50)
            return {where.topic for where in consumer.assignment()}

        consumer.subscribe(ottla.SubscriptionPattern(f"{stem}-.*"))
        eventually(lambda: assigned_topics() == set(names))
        consumer.subscribe(names[0])
        eventually(lambda: assigned_topics() == {names[0]})
        consumer.subscribe(ottla.SubscriptionPattern(f".*{stem}-b"))
        eventually(lambda: assigned_topics() == {names[1]})
        consumer.unsubscribe()
        assert consumer.subscription() == set()


@ON_GROUPS
def test_a_pattern_that_is_no_expression_of_re2_is_refused_in_one_sentence(broker: Peer, topic: str, stem: str) -> None:
    with reader(broker, group_id=stem, group_protocol="consumer") as consumer:
        consumer.subscribe(ottla.SubscriptionPattern(f"{topic}(?=x)"))
        with pytest.raises(ottla.BrokerError, match=r"SubscriptionPattern\('client-.*\): INVALID_REGULAR_EXPRESSION: ") as raised:
            poll_on(consumer)
        assert not raised.value.retriable
        fill(broker, topic, 1)
        consumer.subscribe(ottla.SubscriptionPattern(topic))
        assert len(drain(consumer, 1)) == 1


def test_groups_of_the_classic_protocol_and_consumers_without_a_group_refuse_it_before_anything_is_sent(broker: Peer) -> None:
    for settings in (ConsumerKeywords(group_id="g"), ConsumerKeywords(), ConsumerKeywords(group_protocol="consumer")):
        with reader(broker, **settings) as consumer:
            with pytest.raises(ottla.SettingError, match=r"group_protocol='consumer', which needs Kafka 4\.0 .* give pattern='…'"):
                consumer.subscribe(ottla.SubscriptionPattern(".*"))
            assert consumer.subscription() == set()


@pytest.mark.parametrize("release", ["2.8", "3.9"])
@pytest.mark.parametrize("protocol", ["consumer", "auto"])
def test_a_broker_that_cannot_resolve_patterns_is_named(release: str, protocol: Literal["consumer", "auto"]) -> None:
    with (
        ottla.Broker(release=release) as emulated,
        ottla.Consumer(bootstrap_servers=emulated.address, group_id="g", group_protocol=protocol) as consumer,
    ):
        consumer.subscribe(ottla.SubscriptionPattern(".*"))
        with pytest.raises(ottla.NotSupported, match=r"Kafka 4\.0 or newer"):
            poll_on(consumer)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((ottla.SubscriptionPattern("a"), "t"), "one SubscriptionPattern and nothing else"),
        (("t", ottla.SubscriptionPattern("a")), "one SubscriptionPattern and nothing else"),
        ((ottla.SubscriptionPattern(""),), "is empty"),
    ],
)
def test_a_pattern_stands_alone(arguments: tuple[str, ...], message: str, broker: Peer) -> None:
    with reader(broker, group_id="g", group_protocol="consumer") as consumer, pytest.raises(ottla.SettingError, match=message):
        consumer.subscribe(*arguments)
