"""Consumer groups of KIP-848 with other people's clients: librdkafka and Java, alone and mixed with classic ones in one group."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from tests.interop.test_python_clients import shared_evenly
from tests.support.clients.confluent import Confluent, ConfluentMember
from tests.support.clients.face import Member, Message, Row
from tests.support.clients.kafka_python import KafkaPython
from tests.support.peers import Peer, start_peer
from tests.support.waiting import eventually

Unique = Callable[[str], str]

QUICK: dict[str, object] = {
    "group.consumer.min.heartbeat.interval.ms": 300,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.min.session.timeout.ms": 4000,
    "group.consumer.session.timeout.ms": 4000,
}
"""Members are told when to send heartbeats; no test has the time of the defaults."""


class NewMember(ConfluentMember):
    """A member that speaks the consumer protocol; the broker sets its timeouts."""

    def __init__(self, address: str, topic: str, group: str, **settings: object) -> None:
        super().__init__(address, topic, group)
        for name in ("session.timeout.ms", "heartbeat.interval.ms"):
            del self._settings[name]
        self._settings |= {"group.protocol": "consumer"} | {name.replace("_", "."): value for name, value in settings.items()}


def join(broker: Peer, topic: str, group: str, **settings: object) -> NewMember:
    member = NewMember(broker.address, topic, group, **settings)
    member.start()
    return member


@pytest.fixture(scope="module")
def quick(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with start_peer(peer_name, tmp_path_factory.mktemp("quick"), QUICK) as peer:
        yield peer


@pytest.fixture
def quick_own(peer_name: str, tmp_path: Path) -> Iterator[Peer]:
    with start_peer(peer_name, tmp_path, QUICK) as peer:
        yield peer


def rows_of(count: int, partitions: int = 4) -> list[Row]:
    return [Row(None, f"row {number}".encode(), partition=number % partitions) for number in range(count)]


def filled(broker: Peer, topic: str, partitions: int = 4, count: int = 100) -> Confluent:
    client = Confluent(broker.address)
    client.create_topic(topic, partitions)
    if count:
        client.produce(topic, rows_of(count, partitions))
    return client


def places(*members: Member) -> list[tuple[int, int]]:
    read: list[Message] = [message for member in members for message in member.messages]
    return sorted((message.partition, message.offset) for message in read)


def test_two_members_share_and_give_back(quick: Peer, unique: Unique) -> None:
    topic, group = unique("new"), unique("pair")
    client = filled(quick, topic)
    first = join(quick, topic, group)
    eventually(lambda: first.assigned == {0, 1, 2, 3} and len(first.messages) == 100, what="the first member has all")
    first.commit_now()
    second = join(quick, topic, group)
    eventually(lambda: shared_evenly(first, second, 4), what="two each")
    client.produce(topic, rows_of(100))
    eventually(lambda: len(first.messages) + len(second.messages) == 200, what="the new rows, each once")
    assert len(set(places(first, second))) == 200
    first.commit_now()
    second.commit_now()
    first.leave()
    eventually(lambda: second.assigned == {0, 1, 2, 3}, what="the second member has all")
    second.leave()
    assert client.committed(topic, group, 4) == dict.fromkeys(range(4), 50)


def test_the_range_assignor_gives_neighbours(quick: Peer, unique: Unique) -> None:
    topic, group = unique("ranged"), unique("range")
    filled(quick, topic)
    settings = {"group.remote.assignor": "range"}
    members = [join(quick, topic, group, **settings), join(quick, topic, group, **settings)]
    eventually(lambda: shared_evenly(members[0], members[1], 4), what="two each")
    assert {frozenset(member.assigned) for member in members} == {frozenset({0, 1}), frozenset({2, 3})}
    for member in members:
        member.leave()


def test_partitions_that_are_added_are_assigned(quick: Peer, unique: Unique) -> None:
    topic, group = unique("growing"), unique("growing")
    filled(quick, topic, 2, 10)
    member = join(quick, topic, group)
    eventually(lambda: member.assigned == {0, 1})
    admin = AdminClient({"bootstrap.servers": quick.address})
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(15)
    eventually(lambda: len(member.assigned) == 5, what="five of them")
    assert member.assigned == {0, 1, 2, 3, 4}
    member.leave()


@pytest.mark.full(seconds=14)
def test_a_pattern_is_matched_by_the_broker(quick: Peer, unique: Unique) -> None:
    stem = unique("matched")
    client = filled(quick, f"{stem}-a", 2, 10)
    member = join(quick, f"^{stem}-[ab]", unique("pattern"))
    eventually(lambda: len(member.messages) == 10, what="the rows of the first topic")
    client.create_topic(f"{stem}-b", 1)
    client.create_topic(f"{stem}-c", 1)
    client.produce(f"{stem}-b", rows_of(7, 1))
    client.produce(f"{stem}-c", rows_of(3, 1))
    eventually(lambda: len(member.messages) >= 17, what="the rows of the topic that came later", timeout_s=40)
    member.leave()
    assert len(member.messages) == 17  # and none of the topic that does not match


def test_a_static_member_comes_back_to_its_partitions(quick: Peer, unique: Unique) -> None:
    topic, group = unique("static"), unique("static")
    filled(quick, topic)
    first, second = (join(quick, topic, group, group_instance_id=name) for name in ("one", "two"))
    eventually(lambda: shared_evenly(first, second, 4), what="two each")
    kept, others = second.assigned, first.assigned
    second.leave()
    back = join(quick, topic, group, group_instance_id="two")
    eventually(lambda: back.assigned == kept, what="what it had")
    assert first.assigned == others
    first.leave()
    back.leave()


PROCESS = """
import sys
from confluent_kafka import Consumer
address, topic, group = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": address, "group.id": group, "group.protocol": "consumer"})
consumer.subscribe([topic])
while True:
    consumer.poll(0.1)
    print(*sorted(part.partition for part in consumer.assignment()), flush=True)
"""


def test_a_member_that_is_killed_is_replaced(quick: Peer, unique: Unique) -> None:
    topic, group = unique("killed"), unique("killed")
    filled(quick, topic)
    member = join(quick, topic, group)
    eventually(lambda: member.assigned == {0, 1, 2, 3})
    other = subprocess.Popen([sys.executable, "-c", PROCESS, quick.address, topic, group], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        lines = other.stdout
        eventually(lambda: len(lines.readline().split()) == 2, what="two partitions for the other process")
        eventually(lambda: len(member.assigned) == 2)
    finally:
        other.kill()
        other.communicate()
    eventually(lambda: member.assigned == {0, 1, 2, 3}, what="all partitions again")
    member.leave()


@pytest.mark.parametrize("kill", [False, True], ids=["restart", "kill"])
@pytest.mark.rows(1)
def test_a_group_lives_through_the_end_of_its_broker(quick_own: Peer, kill: bool) -> None:
    client = filled(quick_own, "through", 2, 20)
    first, second = join(quick_own, "through", "pair"), join(quick_own, "through", "pair")
    eventually(lambda: shared_evenly(first, second, 2) and len(first.messages) + len(second.messages) >= 20)
    first.commit_now()
    second.commit_now()
    quick_own.restart(kill=kill)
    client.produce("through", rows_of(20, 2))
    expected = {(partition, offset) for partition in (0, 1) for offset in range(20)}
    eventually(lambda: set(places(first, second)) >= expected, timeout_s=60)
    eventually(lambda: shared_evenly(first, second, 2), what="one each again")
    first.leave()
    second.leave()
    assert set(places(first, second)) == expected


@pytest.mark.rows(1, seconds=3)
@pytest.mark.parametrize("library", [Confluent, KafkaPython], ids=lambda library: library.name)
def test_members_of_both_protocols_share_a_group(quick: Peer, unique: Unique, library: type[Confluent | KafkaPython]) -> None:
    topic, group = unique("mixed"), unique("mixed")
    client = filled(quick, topic)
    classic = library(quick.address).join(topic, group)
    eventually(lambda: classic.assigned == {0, 1, 2, 3} and len(classic.messages) == 100, what="the classic member has all")
    classic.commit_now()
    new = join(quick, topic, group)
    eventually(lambda: shared_evenly(classic, new, 4), what="two each", timeout_s=40)
    client.produce(topic, rows_of(40))
    eventually(lambda: len(set(places(classic, new))) == 140, what="the new rows")
    classic.commit_now()
    new.commit_now()
    new.leave()
    eventually(lambda: classic.assigned == {0, 1, 2, 3}, what="the classic member has all again", timeout_s=40)
    classic.leave()
    assert client.committed(topic, group, 4) == dict.fromkeys(range(4), 35)


def test_a_group_moves_to_the_consumer_protocol_member_by_member(quick: Peer, unique: Unique) -> None:
    """As people upgrade: one process after another, while rows come in."""
    topic, group = unique("upgraded"), unique("upgraded")
    client = filled(quick, topic, 4, 0)
    old = [client.join(topic, group) for _ in range(2)]
    eventually(lambda: shared_evenly(old[0], old[1], 4), what="two each", timeout_s=40)
    new = []
    for member in old:
        new.append(join(quick, topic, group))
        member.leave()
        client.produce(topic, rows_of(20))
    eventually(lambda: shared_evenly(new[0], new[1], 4), what="two each", timeout_s=40)
    eventually(lambda: len(set(places(*old, *new))) >= 40, what="all rows")
    for member in new:
        member.leave()
    assert len(set(places(*old, *new))) == 40
