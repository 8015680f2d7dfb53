"""Groups of ottla's own consumers on a live broker: sharing, handing over, committing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import ottla
from ottla.client.consumer.assignors import StrategyName
from ottla.client.keywords import ConsumerKeywords
from tests.client.test_producer_consumer import drain, fill, reader
from tests.support.peers import Peer
from tests.support.waiting import eventually


@pytest.fixture
def group(unique: Callable[[str], str]) -> str:
    return unique("group")


def test_a_group_goes_on_where_it_committed(broker: Peer, topic: str, group: str) -> None:
    fill(broker, topic, 100)
    with reader(broker, topic, group_id=group, enable_auto_commit=False) as consumer:
        first = drain(consumer, 40)
        consumer.commit()
        drain(consumer, 30)
    with reader(broker, topic, group_id=group) as consumer:
        rest = drain(consumer, 60)
        assert consumer.poll(300) == []
    assert sorted(int(record.value or b"") for record in [*first, *rest]) == list(range(100))


def test_leaving_a_loop_commits_what_was_worked_on_and_an_error_in_it_does_not(broker: Peer, topic: str, group: str) -> None:
    with ottla.Producer(broker.address) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=0)
    with reader(broker, topic, group_id=group) as consumer:
        for record in consumer:
            if record.offset == 3:
                break
    with pytest.raises(ZeroDivisionError), reader(broker, topic, group_id=group) as consumer:
        work_until_it_fails(consumer)
    with reader(broker, topic, group_id=group) as consumer:
        assert [record.offset for record in drain(consumer, 4)] == [6, 7, 8, 9]


def work_until_it_fails(consumer: ottla.Consumer) -> None:
    for record in consumer:
        assert record.offset >= 4
        if record.offset == 6:
            raise ZeroDivisionError


def test_committing_in_a_loop_counts_the_record_in_hand(broker: Peer, topic: str, group: str) -> None:
    with ottla.Producer(broker.address) as producer:
        for number in range(5):
            producer.send(topic, b"%d" % number, partition=1)
    with reader(broker, topic, group_id=group, enable_auto_commit=False) as consumer:
        assert consumer.committed((topic, 1)) is None
        for record in consumer:
            consumer.commit()
            assert consumer.committed((topic, 1)) == ottla.OffsetAndMetadata(record.offset + 1)
            if record.offset == 4:
                break
        consumer.commit({(topic, 1): 2})
        assert consumer.committed((topic, 1)) == ottla.OffsetAndMetadata(2)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_two_members_share_and_the_one_that_stays_takes_over(broker: Peer, topic: str, group: str, strategy: StrategyName) -> None:
    heard: list[tuple[str, frozenset[ottla.TopicPartition]]] = []
    settings: ConsumerKeywords = {"group_id": group, "partition_assignment_strategy": strategy, "heartbeat_interval_ms": 100}
    with reader(
        broker,
        topic,
        on_assigned=lambda new: heard.append(("new", frozenset(new))),
        on_revoked=lambda gone: heard.append(("gone", frozenset(gone))),
        **settings,
    ) as one:
        eventually(lambda: len(one.assignment()) == 3 or not one.poll(100), what="all partitions for the first member")
        eventually(lambda: len(one.assignment()) == 3)
        with reader(broker, topic, **settings) as two:
            eventually(lambda: sorted((len(one.assignment()), len(two.assignment()))) == [1, 2], what="partitions shared")
            assert not one.assignment() & two.assignment()
            fill(broker, topic, 70)
            found: list[ottla.ConsumerRecord] = []
            while len(found) < 70:
                found += one.poll(50) + two.poll(50)
        assert one.poll() == []
        eventually(lambda: len(one.assignment()) == 3, what="the first member to take over")
        assert one.poll(300) == []
    assert sorted(int(record.value or b"") for record in found) == list(range(70))
    gone = [where for word, partitions in heard if word == "gone" for where in partitions]
    assert len(gone) in ((1, 2, 4, 5) if strategy == "cooperative-sticky" else range(3, 10))


def test_a_member_that_works_too_long_gives_way_and_comes_back(broker: Peer, topic: str, group: str) -> None:
    settings: ConsumerKeywords = {
        "group_id": group,
        "enable_auto_commit": False,
        "max_poll_interval_ms": 1_000,
        "session_timeout_ms": 6_000,
        "heartbeat_interval_ms": 100,
    }
    fill(broker, topic, 10)
    with reader(broker, topic, **settings) as slow:
        assert drain(slow, 10)
        with reader(broker, topic, **settings) as quick:
            found = eventually(lambda: len(drain(quick, 10)) == 10, what="the records that the slow member holds")
            assert found
            with pytest.raises(ottla.CommitFailed):
                slow.commit({(topic, 0): 1})
        eventually(lambda: slow.poll(500) or slow.assignment(), what="the slow member to be back")


def test_what_is_in_hand_is_finished_and_committed_before_its_partition_goes(broker: Peer, topic: str, group: str) -> None:
    """A rebalance in the middle of a loop repeats nothing, wherever the partitions go."""
    settings: ConsumerKeywords = {"group_id": group, "heartbeat_interval_ms": 50}
    with reader(broker, topic, **settings) as one, ottla.Producer(broker.address) as producer:
        for number in range(600):
            producer.send(topic, b"%d" % number, partition=number % 3)
        producer.flush()
        found = [record.value for _, record in zip(range(5), one, strict=False)]
        with reader(broker, topic, **settings) as two:
            while len(found) < 600:
                found += [record.value for record in two.poll(20, max_records=7)]
                found += [record.value for record in one.poll(20, max_records=7)]
            assert two.assignment()
            assert one.assignment()
    assert sorted(found, key=lambda value: int(value or b"")) == [b"%d" % number for number in range(600)]


def test_groups_can_be_looked_at_and_deleted(broker: Peer, topic: str, group: str, admin: ottla.Admin) -> None:
    fill(broker, topic, 10)
    with reader(broker, topic, group_id=group) as consumer:
        drain(consumer, 10)
        described = admin.describe_group(group)
        assert (described.state, described.protocol, len(described.members)) == ("Stable", "range", 1)
    assert sum(offset.offset for offset in admin.list_group_offsets(group).values()) == 10
    assert group in [listed.group_id for listed in admin.list_groups()]
    admin.delete_groups(group)
    assert group not in [listed.group_id for listed in admin.list_groups()]
