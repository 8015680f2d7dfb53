"""confluent-kafka, kafka-python, aiokafka and Ottla's client on one broker: topics, codecs, groups, commits, restarts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.support.clients import CLIENTS, Client, Member, Message
from tests.support.clients.face import CODECS, Row
from tests.support.peers import Peer
from tests.support.waiting import eventually

Connect = Callable[[str], Client]
Unique = Callable[[str], str]


def rows_of(count: int, partitions: int = 1) -> list[Row]:
    """Rows that a codec can shrink, with nulls, empties and headers among them, in order within each partition."""
    rows = [Row(b"key-%d" % n, b"value %d " % n * 20, (), 1_700_000_000_000 + n, n % partitions) for n in range(count)]
    rows[0] = rows[0]._replace(key=None, headers=(("trace", b"\x00\xff"), ("empty", b"")))
    rows[1] = rows[1]._replace(value=b"")
    rows[2] = rows[2]._replace(value=None)
    return rows


def assert_same(messages: Sequence[Message], rows: Sequence[Row], partitions: int = 1) -> None:
    for partition in range(partitions):
        here = [message for message in messages if message.partition == partition]
        sent = [row for row in rows if row.partition == partition]
        assert [message.offset for message in here] == list(range(len(sent)))
        assert [(m.key, m.value, m.headers, m.timestamp_ms) for m in here] == [row[:4] for row in sent]


def test_a_created_topic_shows_its_partitions(broker: Peer, connect: Connect, unique: Unique) -> None:
    client, topic = connect(broker.address), unique("created")
    client.create_topic(topic, 5, {"retention.ms": "86400000"})
    assert client.partitions(topic) == 5


def test_a_topic_cannot_be_created_twice(broker: Peer, connect: Connect, unique: Unique) -> None:
    client, topic = connect(broker.address), unique("twice")
    client.create_topic(topic)
    with pytest.raises(Exception, match=r"(?i)already.?exists|36"):
        client.create_topic(topic)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.rows(5, seconds=0.5)
def test_what_was_produced_is_consumed_from_the_earliest(broker: Peer, connect: Connect, unique: Unique, codec: str) -> None:
    client, topic, rows = connect(broker.address), unique(f"codec-{codec}"), rows_of(300, partitions=3)
    client.create_topic(topic, 3)
    offsets = client.produce(topic, rows, codec=codec)
    assert offsets == [number // 3 for number in range(300)]
    assert_same(client.consume(topic, len(rows)), rows, partitions=3)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.rows(5, seconds=0.5)
def test_each_client_reads_what_another_wrote(broker: Peer, connect: Connect, unique: Unique, codec: str) -> None:
    writer, topic, rows = connect(broker.address), unique(f"others-{codec}"), rows_of(50)
    writer.create_topic(topic)
    writer.produce(topic, rows, codec=codec)
    for other in CLIENTS:
        assert_same(other(broker.address).consume(topic, len(rows)), rows)


def test_an_idempotent_producer_gets_every_row_in_once(broker: Peer, connect: Connect, unique: Unique) -> None:
    client, topic, rows = connect(broker.address), unique("idempotent"), rows_of(500)
    client.create_topic(topic)
    assert client.produce(topic, rows, idempotent=True) == list(range(500))
    assert_same(client.consume(topic, len(rows)), rows)


@pytest.mark.rows(2, seconds=1)
def test_a_group_of_two_shares_and_gives_back_its_partitions(broker: Peer, connect: Connect, unique: Unique) -> None:
    client, topic, group = connect(broker.address), unique("shared"), unique("pair")
    client.create_topic(topic, 4)
    client.produce(topic, rows_of(100, partitions=4))
    first = client.join(topic, group)
    eventually(lambda: first.assigned == {0, 1, 2, 3} and len(first.messages) == 100, what="the first member has all")
    first.commit_now()
    second = client.join(topic, group)
    eventually(lambda: shared_evenly(first, second, 4), what="two each")
    client.produce(topic, rows_of(100, partitions=4))
    eventually(lambda: len(first.messages) + len(second.messages) == 200, what="the new rows, each once")
    assert {message.partition for message in second.messages} == second.assigned
    first.leave()
    eventually(lambda: second.assigned == {0, 1, 2, 3}, what="the second member has all")
    second.leave()


def shared_evenly(first: Member, second: Member, partitions: int) -> bool:
    apart = not (first.assigned & second.assigned) and first.assigned | second.assigned == set(range(partitions))
    return apart and len(first.assigned) == len(second.assigned)


@pytest.mark.rows(1, seconds=3)
def test_committed_offsets_survive_a_restart(own_broker: Peer, connect: Connect) -> None:
    client = connect(own_broker.address)
    client.create_topic("kept", 2)
    client.produce("kept", rows_of(80, partitions=2))
    member = client.join("kept", "keepers")
    eventually(lambda: len(member.messages) == 80)
    member.commit_now()
    member.leave()
    own_broker.restart()
    # While Apache Kafka loads its groups, aiokafka takes "not yet" for "none".
    eventually(lambda: client.committed("kept", "keepers", 2) == {0: 40, 1: 40})
    client.produce("kept", rows_of(10, partitions=2))
    member = client.join("kept", "keepers")
    eventually(lambda: len(member.messages) >= 10)
    member.leave()
    assert sorted((m.partition, m.offset) for m in member.messages) == [(p, 40 + n) for p in (0, 1) for n in range(5)]


@pytest.mark.rows(1, seconds=2)
def test_acknowledged_rows_survive_a_kill(own_broker: Peer, connect: Connect) -> None:
    client, rows = connect(own_broker.address), rows_of(200, partitions=2)
    client.create_topic("survivors", 2)
    client.produce("survivors", rows)
    own_broker.restart(kill=True)
    assert_same(client.consume("survivors", len(rows)), rows, partitions=2)


@pytest.mark.rows(1, seconds=4)
def test_a_group_lives_through_a_restart(own_broker: Peer, connect: Connect) -> None:
    client = connect(own_broker.address)
    client.create_topic("through", 2)
    client.produce("through", rows_of(20, partitions=2))
    first, second = client.join("through", "pair"), client.join("through", "pair")
    eventually(lambda: shared_evenly(first, second, 2) and len(first.messages) + len(second.messages) >= 20)
    first.commit_now()
    second.commit_now()
    before = {(m.partition, m.offset) for m in first.messages + second.messages}
    own_broker.restart()
    client.produce("through", rows_of(20, partitions=2))
    expected = {(partition, offset) for partition in (0, 1) for offset in range(20)}

    def consumed() -> set[tuple[int, int]]:
        return before | {(m.partition, m.offset) for m in first.messages + second.messages}

    eventually(lambda: consumed() >= expected, timeout_s=60)
    assert consumed() == expected
    first.leave()
    second.leave()
