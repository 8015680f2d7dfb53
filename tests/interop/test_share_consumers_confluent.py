"""The share consumer of confluent-kafka (KIP-932), on Ottla as on Apache Kafka."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic

from tests.support.peers import Peer, start_peer

ShareConsumer = pytest.importorskip("confluent_kafka", reason="share consumers came with 2.15").ShareConsumer
AcknowledgeType = pytest.importorskip("confluent_kafka").AcknowledgeType

LOCK_MS = 1500
SETTINGS: dict[str, object] = {
    "group.share.assignment.interval.ms": 0,
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.heartbeat.interval.ms": 500,
    "group.share.min.heartbeat.interval.ms": 100,
    "offsets.topic.num.partitions": 3,
    "share.coordinator.state.topic.num.partitions": 3,
}
PATIENCE_S = 30.0


class Queue:
    """A topic, its share group, and the group's members."""

    def __init__(self, address: str, name: str) -> None:
        self._address, self.topic, self.group = address, f"{name}-topic", f"{name}-group"
        self._admin = AdminClient({"bootstrap.servers": address})
        for future in self._admin.create_topics([NewTopic(self.topic, 1, 1)]).values():
            future.result(30)
        self.configure("share.auto.offset.reset", "earliest")

    def configure(self, name: str, value: object) -> None:
        """Change a setting of the group."""
        entry = ConfigEntry(name, str(value), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.GROUP, self.group, incremental_configs=[entry])
        for future in self._admin.incremental_alter_configs([resource]).values():
            future.result(30)

    def produce(self, values: range) -> None:
        """Write numbers to the only partition."""
        producer = Producer({"bootstrap.servers": self._address, "linger.ms": 0})
        for value in values:
            producer.produce(self.topic, b"%d" % value, partition=0)
        assert producer.flush(30) == 0

    def member(self, mode: str = "explicit") -> Any:
        """Return a member that has subscribed to the topic."""
        consumer = ShareConsumer(
            {"bootstrap.servers": self._address, "group.id": self.group, "share.acknowledgement.mode": mode, "log_level": 0}
        )
        consumer.subscribe([self.topic])
        return consumer


def polled(member: Any, count: int, *, handle: Callable[[Any], None] | None = None) -> list[Any]:
    """Return so many messages, or those that there are until it is late."""
    found: list[Any] = []
    end_s = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < end_s:
        for message in member.poll(0.2):
            assert message.error() is None, message.error()
            found.append(message)
            if handle is not None:
                handle(message)
    return found


def number(message: Any) -> int:
    return int(message.value())


@pytest.fixture(scope="module")
def share_broker(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with start_peer(peer_name, tmp_path_factory.mktemp("shares"), SETTINGS) as broker:
        yield broker


@pytest.fixture
def queue(share_broker: Peer, unique: Callable[[str], str]) -> Queue:
    return Queue(share_broker.address, unique("confluent"))


@pytest.mark.timeout(120)
def test_members_without_acknowledgements_of_their_own_get_each_record_once(queue: Queue) -> None:
    queue.produce(range(100))
    members = [queue.member("implicit") for _ in range(2)]
    seen: Counter[int] = Counter()
    end_s = time.monotonic() + PATIENCE_S
    while len(seen) < 200 and time.monotonic() < end_s:
        for member in members:
            seen.update(map(number, member.poll(0.1)))
        if len(seen) == 100:
            queue.produce(range(100, 200))
    for member in members:
        member.close()
    assert seen == Counter(range(200))


@pytest.mark.timeout(120)
def test_records_are_accepted_released_and_rejected_one_by_one(queue: Queue) -> None:
    queue.produce(range(30))
    member = queue.member()
    deliveries: Counter[int] = Counter()

    def handle(message: Any) -> None:
        value = number(message)
        deliveries[value] += 1
        kind = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT)[value % 3]
        member.acknowledge(message, AcknowledgeType.ACCEPT if deliveries[value] > 1 else kind)

    polled(member, 40, handle=handle)
    results = member.commit_sync(10)
    assert set(results.values()) <= {None}
    assert deliveries == {value: 2 if value % 3 == 1 else 1 for value in range(30)}
    assert member.poll(1.0) == [] or not list(member.poll(0.5))
    member.close()


@pytest.mark.timeout(120)
def test_a_member_that_closes_releases_what_it_held(queue: Queue) -> None:
    queue.produce(range(10))
    first = queue.member()
    assert len(polled(first, 10)) == 10
    first.close()
    second = queue.member("implicit")
    assert sorted(map(number, polled(second, 10))) == list(range(10))
    second.close()


@pytest.mark.timeout(120)
def test_another_member_gets_what_was_not_acknowledged_before_its_lock_ended(queue: Queue) -> None:
    queue.configure("share.record.lock.duration.ms", LOCK_MS)
    queue.produce(range(10))
    first, second = queue.member(), queue.member()
    held = polled(first, 10)
    assert len(held) == 10
    began = time.monotonic()
    taken = polled(second, 10, handle=second.acknowledge)
    assert time.monotonic() - began > LOCK_MS / 1000 - 0.7
    assert sorted(map(number, taken)) == list(range(10))
    assert set(second.commit_sync(10).values()) == {None}
    for message in held:
        first.acknowledge(message)
    assert set(first.commit_sync(10).values()) == {None}  # the client knows that its lock has ended, and sends nothing
    assert not list(second.poll(1.0))
    first.close()
    second.close()


@pytest.mark.timeout(120)
def test_a_record_is_not_delivered_beyond_its_limit(queue: Queue) -> None:
    queue.configure("share.delivery.count.limit", 2)
    queue.produce(range(5))
    member = queue.member()
    found = polled(member, 10, handle=lambda message: member.acknowledge(message, AcknowledgeType.RELEASE))
    assert Counter(map(number, found)) == dict.fromkeys(range(5), 2)
    end_s = time.monotonic() + 1.5
    while time.monotonic() < end_s:
        assert not list(member.poll(0.2))
    member.close()


@pytest.mark.timeout(120)
def test_a_callback_is_called_with_the_acknowledged_offsets(queue: Queue) -> None:
    queue.produce(range(10))
    member, heard = queue.member(), set[int]()
    failures: list[Any] = []

    def called(offsets: dict[Any, set[int]], failure: Any) -> None:
        failures.append(failure)
        for found in offsets.values():
            heard.update(found)

    member.set_acknowledgement_commit_callback(called)
    polled(member, 10, handle=member.acknowledge)
    member.commit_async()
    end_s = time.monotonic() + PATIENCE_S
    while len(heard) < 10 and time.monotonic() < end_s:
        member.poll(0.1)
    member.close()
    assert heard == set(range(10))
    assert set(failures) == {None}
