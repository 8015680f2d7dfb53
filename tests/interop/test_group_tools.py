"""Apache Kafka's tools for groups and confluent-kafka's admin client: offsets reset in every way, deleted, listed, described."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.clients.confluent import Confluent
from tests.support.clients.face import Row
from tests.support.peers import GROUPS_STAY, Peer, start_peer
from tests.support.toolbox import Toolbox
from tests.support.waiting import eventually

Unique = Callable[[str], str]
COUNT, OLD, COMMITTED = 20, 12, 10
HOUR_MS = 3_600_000


Groups = Callable[..., str]


class Read(NamedTuple):
    """A topic of one partition: the first records are two hours old, a second apart, the others of now."""

    broker: Peer
    topic: str
    oldest_ms: int

    def commit(self, group: str, offset: int = COMMITTED) -> None:
        consumer = Consumer({"bootstrap.servers": self.broker.address, "group.id": group, "log_level": 0})
        try:
            (done,) = consumer.commit(offsets=[TopicPartition(self.topic, 0, offset)], asynchronous=False)
            assert done.error is None
        finally:
            consumer.close()

    def committed(self, group: str) -> int | None:
        return Confluent(self.broker.address).committed(self.topic, group, 1).get(0)


@pytest.fixture(scope="module")
def read(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Read]:
    with start_peer(peer_name, tmp_path_factory.mktemp("tools"), GROUPS_STAY) as broker:
        client, oldest_ms = Confluent(broker.address), int(time.time() * 1000) - 2 * HOUR_MS
        topic = f"tools-{oldest_ms}"
        times = [oldest_ms + number * 1000 + (2 * HOUR_MS if number >= OLD else 0) for number in range(COUNT)]
        client.create_topic(topic)
        client.produce(topic, [Row(None, b"%d" % number, (), at, 0) for number, at in enumerate(times)])
        yield Read(broker, topic, oldest_ms)


@pytest.fixture
def groups(read: Read, toolbox: Toolbox) -> Groups:
    """Runs kafka-consumer-groups, and returns what it said."""
    return partial(toolbox.at(read.broker.address), "consumer-groups")


def moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


RESETS: dict[str, tuple[Callable[[Read, Path], list[str]], int]] = {
    "to-earliest": (lambda read, home: ["--to-earliest"], 0),
    "to-latest": (lambda read, home: ["--to-latest"], COUNT),
    "to-offset": (lambda read, home: ["--to-offset", "5"], 5),
    "to-offset-beyond-the-end": (lambda read, home: ["--to-offset", "500"], COUNT),
    "shift-back": (lambda read, home: ["--shift-by", "-3"], COMMITTED - 3),
    "shift-on": (lambda read, home: ["--shift-by", "4"], COMMITTED + 4),
    "to-current": (lambda read, home: ["--to-current"], COMMITTED),
    "to-datetime": (lambda read, home: ["--to-datetime", moment(read.oldest_ms + 8_000)], 8),
    "by-duration": (lambda read, home: ["--by-duration", "PT1H"], OLD),
    "from-file": (lambda read, home: ["--from-file", plan(read, home)], 3),
}


def plan(read: Read, home: Path) -> str:
    """A file as `--reset-offsets --export` writes it."""
    path = home / "plan.csv"
    path.write_text(f"{read.topic},0,3\n")
    return str(path)


@pytest.mark.java
@pytest.mark.parametrize("kind", RESETS)
@pytest.mark.rows(2, seconds=2)
def test_offsets_are_reset_in_every_way(read: Read, groups: Groups, unique: Unique, tmp_path: Path, kind: str) -> None:
    group, (arguments, expected) = unique(f"reset-{kind}"), RESETS[kind]
    read.commit(group)
    scope = [] if kind == "from-file" else ["--topic", read.topic]
    said = groups("--reset-offsets", "--group", group, *scope, *arguments(read, tmp_path), "--execute")
    assert re.search(rf"{read.topic}\s+0\s+{expected}\b", said)
    assert read.committed(group) == expected


@pytest.mark.java
def test_offsets_and_groups_are_deleted(read: Read, groups: Groups, unique: Unique) -> None:
    group = unique("deleted")
    read.commit(group)
    assert "Successful" in groups("--delete-offsets", "--group", group, "--topic", read.topic)
    assert read.committed(group) is None
    assert "successful" in groups("--delete", "--group", group)
    assert group not in groups("--list").split()


@pytest.fixture
def living(read: Read, unique: Unique) -> Iterator[str]:
    """A group with a member that has its partition."""
    group = unique("living")
    member = Confluent(read.broker.address).join(read.topic, group)
    eventually(lambda: member.assigned == {0}, timeout_s=60)
    eventually(lambda: len(member.messages) == COUNT, timeout_s=60)
    member.commit_now()
    yield group
    member.leave()


@pytest.mark.java
def test_a_living_group_is_described_and_kept_from_harm(read: Read, groups: Groups, living: str) -> None:
    described = groups("--describe", "--group", living, "--offsets")
    assert re.search(rf"{living}\s+{read.topic}\s+0\s+{COUNT}\s+{COUNT}\s+0\s+rdkafka", described)
    assert re.search(rf"{living}\s+rdkafka\S+\s+\S+\s+rdkafka\s+1\b", groups("--describe", "--group", living, "--members"))
    assert re.search(rf"{living}\s+\S+\s.*range\s+Stable\s+1", groups("--describe", "--group", living, "--state"))
    assert re.search(rf"{living}\s+Stable", groups("--list", "--state", "Stable"))
    said = groups("--reset-offsets", "--group", living, "--topic", read.topic, "--to-earliest", "--execute")
    assert "inactive" in said
    assert read.committed(living) == COUNT


@pytest.mark.java
def test_groups_of_every_kind_are_listed(read: Read, toolbox: Toolbox, living: str, unique: Unique) -> None:
    simple = unique("simple")
    read.commit(simple)

    def listed(*arguments: str) -> dict[str, list[str]]:
        said = toolbox.at(read.broker.address)("groups", "--list", *arguments)
        return {words[0]: words[1:] for words in map(str.split, said.splitlines()) if words}

    assert listed()[living][:2] == ["Classic", "consumer"]
    assert {living, simple} <= listed("--group-type", "classic").keys()
    assert living in listed("--consumer")
    assert living not in listed("--group-type", "consumer")


def admin(read: Read) -> Any:
    return AdminClient({"bootstrap.servers": read.broker.address, "log_level": 0})


def test_the_admin_client_lists_and_describes_groups(read: Read, living: str) -> None:
    client = admin(read)
    found = {group.group_id: group for group in client.list_consumer_groups().result(30).valid}
    assert found[living].state == ConsumerGroupState.STABLE
    stable = client.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(30).valid
    assert living in {group.group_id for group in stable}
    described = client.describe_consumer_groups([living])[living].result(30)
    assert described.partition_assignor == "range"
    (member,) = described.members
    assert [(part.topic, part.partition) for part in member.assignment.topic_partitions] == [(read.topic, 0)]


def test_the_admin_client_reads_alters_and_deletes_offsets(read: Read, unique: Unique) -> None:
    client, group = admin(read), unique("altered")
    read.commit(group)
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(read.topic, 0, 4)])
    (altered,) = client.alter_consumer_group_offsets([wanted])[group].result(30).topic_partitions
    assert altered.error is None
    asked = [ConsumerGroupTopicPartitions(group)]
    (held,) = client.list_consumer_group_offsets(asked, require_stable=True)[group].result(30).topic_partitions
    assert (held.topic, held.partition, held.offset) == (read.topic, 0, 4)
    client.delete_consumer_groups([group])[group].result(30)
    assert read.committed(group) is None


def test_a_living_group_is_not_deleted(read: Read, living: str) -> None:
    client = admin(read)  # the last reference to it would take its answers along
    with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
        client.delete_consumer_groups([living])[living].result(30)
