"""Groups of the consumer protocol (KIP-848): the coordinator assigns partitions, and members read, commit, leave and return."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Literal, TypedDict

import pytest

import ottla
from ottla.client.keywords import ConsumerKeywords
from ottla.net.client.consumer.membership_driver import MembershipDriver
from tests.client.test_producer_consumer import drain, fill, reader
from tests.support.peers import Peer, start_peer
from tests.support.waiting import eventually

pytestmark = pytest.mark.since("4.0", "the consumer protocol (KIP-848)")

Protocol = Literal["classic", "consumer", "auto"]


@pytest.fixture(scope="module")
def broker(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """A broker whose members send heartbeats often."""
    quick: dict[str, object] = {"group.consumer.heartbeat.interval.ms": "100", "group.consumer.min.heartbeat.interval.ms": "100"}
    with start_peer(peer_name, tmp_path_factory.mktemp("broker"), quick) as peer:
        yield peer


@pytest.fixture
def group(unique: Callable[[str], str]) -> str:
    return unique("group")


def test_members_share_topics_and_the_one_that_stays_takes_over(broker: Peer, topic: str, group: str) -> None:
    revoked: list[ottla.TopicPartition] = []
    fill(broker, topic, 30)
    with reader(broker, topic, group_id=group, group_protocol="consumer", on_revoked=revoked.extend) as one:
        found = drain(one, 30)
        with reader(broker, topic, group_id=group, group_protocol="consumer") as two:
            eventually(lambda: one.poll(50) + two.poll(50) or sorted((len(one.assignment()), len(two.assignment()))) == [1, 2])
            assert not one.assignment() & two.assignment()
            fill(broker, topic, 70)
            while len(found) < 100:
                found += one.poll(50) + two.poll(50)
            assert len(revoked) in (1, 2), "partitions that stay with a member are not revoked"
        eventually(lambda: one.poll(50) or len(one.assignment()) == 3, what="the first member to take over")
        assert one.poll(300) == []
    assert sorted(int(record.value or b"") for record in found) == sorted([*range(30), *range(70)])


def test_a_group_goes_on_where_it_committed_and_keeps_partitions_without_news(
    broker: Peer, topic: str, group: str, admin: ottla.Admin
) -> None:
    fill(broker, topic, 10)
    with reader(broker, topic, group_id=group, group_protocol="consumer", enable_auto_commit=False) as consumer:
        drain(consumer, 10)
        consumer.commit()
        described = admin.describe_group(group)
        assert (described.state, len(described.members)) == ("Stable", 1)
        assert consumer.group_metadata().generation_id > 0
    fill(broker, topic, 3)
    with reader(broker, topic, group_id=group, group_protocol="consumer") as consumer:
        assert len(drain(consumer, 3)) == 3
        assert consumer.poll(200) == []


def test_a_transaction_commits_offsets_of_a_member(broker: Peer, topic: str, group: str) -> None:
    fill(broker, topic, 10)
    source = reader(broker, topic, group_id=group, group_protocol="consumer", enable_auto_commit=False)
    with source, ottla.Producer(broker.address, transactional_id=group) as producer:
        drain(source, 10)
        with producer.transaction():
            producer.send_offsets(source.positions(), source)
        assert sum(offset.offset for where in source.assignment() if (offset := source.committed(where))) == 10


def test_a_static_member_returns_to_its_partitions(broker: Peer, topic: str, group: str) -> None:
    fill(broker, topic, 3)
    with reader(broker, topic, group_id=group, group_protocol="consumer", group_instance_id="a") as one:
        drain(one, 3)
        with reader(broker, topic, group_id=group, group_protocol="consumer", group_instance_id="b") as two:
            eventually(lambda: one.poll(50) + two.poll(50) or len(two.assignment()) in (1, 2))
            eventually(lambda: one.poll(50) + two.poll(50) or len(one.assignment() | two.assignment()) == 3)
            kept, before = one.assignment(), two.assignment()
        with reader(broker, topic, group_id=group, group_protocol="consumer", group_instance_id="b") as two:
            eventually(lambda: one.poll(50) + two.poll(50) or two.assignment())
            assert (one.assignment(), two.assignment()) == (kept, before)


def test_a_topic_that_is_created_later_is_read(broker: Peer, group: str, admin: ottla.Admin, unique: Callable[[str], str]) -> None:
    early, late = unique("early"), unique("late")
    admin.create_topic(early, 1, 1)
    fill(broker, early, 2)
    with reader(broker, early, late, group_id=group, group_protocol="consumer", allow_auto_create_topics=False) as consumer:
        drain(consumer, 2)
        admin.create_topic(late, 1, 1)
        fill(broker, late, 2)
        assert [record.topic for record in drain(consumer, 2)] == [late, late]


@pytest.mark.parametrize(("protocol", "other"), [("classic", "consumer"), ("consumer", "classic"), ("consumer", "auto")])
@pytest.mark.rows(1, seconds=3)
def test_members_of_both_protocols_share_a_group(broker: Peer, topic: str, group: str, protocol: Protocol, other: Protocol) -> None:
    """An upgrade, one member after the other, and back."""
    fill(broker, topic, 30)
    with reader(broker, topic, group_id=group, group_protocol=protocol) as one:
        found = drain(one, 30)
        with reader(broker, topic, group_id=group, group_protocol=other) as two:
            eventually(lambda: one.poll(50) + two.poll(50) or sorted((len(one.assignment()), len(two.assignment()))) == [1, 2])
            fill(broker, topic, 30)
            while len(found) < 60:
                found += one.poll(50) + two.poll(50)
    assert len(found) == 60


class Start(TypedDict):
    bootstrap_servers: str
    auto_offset_reset: Literal["earliest"]


def of(broker: ottla.Broker) -> Start:
    return {"bootstrap_servers": broker.address, "auto_offset_reset": "earliest"}


def test_a_broker_without_the_protocol_is_named_and_auto_takes_the_classic_one() -> None:
    with ottla.Broker(release="3.6") as broker, ottla.Producer(broker.address) as producer:
        producer.send("t", b"1").result(20)
        with ottla.Consumer("t", group_protocol="auto", group_id="g", **of(broker)) as consumer:
            assert len(eventually(lambda: consumer.poll(200))) == 1
        with (
            ottla.Consumer("t", group_protocol="consumer", group_id="g", **of(broker)) as consumer,
            pytest.raises(ottla.NotSupported, match=r"group_protocol=consumer needs Kafka 4\.0 or newer"),
        ):
            consumer.poll(5_000)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"group_protocol": "consumer", "session_timeout_ms": 6_000}, "session_timeout_ms with group_protocol=consumer"),
        ({"group_protocol": "consumer", "partition_assignment_strategy": "range"}, "partition_assignment_strategy with"),
        ({"group_remote_assignor": "uniform"}, "group_remote_assignor is for group_protocol=consumer"),
        ({"group_protocol": "new"}, "group_protocol"),
    ],
)
def test_settings_of_the_other_protocol_are_refused(settings: ConsumerKeywords, message: str) -> None:
    with pytest.raises(ottla.SettingError, match=message):
        ottla.Consumer("t", **settings)


@pytest.mark.parametrize(("owned", "error"), [(True, None), (False, ottla.CommitFailed)])
def test_a_commit_with_an_outdated_epoch_is_repeated_for_owned_partitions_alone(owned: bool, error: type[Exception] | None) -> None:
    """A member whose epoch has risen between two heartbeats still owns its partitions; others can have new owners."""

    async def run() -> None:
        with ottla.Broker() as broker:
            async with ottla.AsyncProducer(broker.address) as producer:
                await (await producer.send("t", b"1"))
            consumer = ottla.AsyncConsumer("t", group_protocol="consumer", group_id="g", enable_auto_commit=False, **of(broker))
            async with consumer:
                (record,) = await consumer.poll(10_000)
                driver = consumer._member
                assert isinstance(driver, MembershipDriver)
                actual = driver.group_metadata
                outdated = actual()._replace(generation_id=actual().generation_id - 1)
                answers = [outdated]
                driver.group_metadata = lambda: answers.pop() if answers else actual()  # type: ignore[method-assign]  # an epoch ago
                if not owned:
                    answers.append(outdated)
                    driver.machine.owned = []
                where = record.topic, record.partition
                with nullcontext() if error is None else pytest.raises(error):
                    await consumer.commit({where: 1})
                driver.group_metadata = actual  # type: ignore[method-assign]  # as it was
                assert await consumer.committed(where) == (ottla.OffsetAndMetadata(1) if owned else None)

    asyncio.run(run())
