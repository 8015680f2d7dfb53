"""Ottla and Apache Kafka in one cluster over ZooKeeper: what either of them decides, writes or is told, the other goes by.

`--kafka-release=2.8.2` puts that release beside Ottla instead of 3.9.1; `make full` runs the long ones of these tests, too.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from ottla.client.admin.transactions import ActiveProducer
from ottla.cluster.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.wire.errors import (
    INVALID_TXN_STATE,
    MESSAGE_TOO_LARGE,
    NONE,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    NOT_LEADER_OR_FOLLOWER,
    REQUEST_TIMED_OUT,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTION_COORDINATOR_FENCED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.support.frames import Batch
from tests.support.pair import COORDINATED, KAFKA, METADATA, OTHER, OTTLA, PATIENCE_S, SIDES, Pair, rack, started_pair
from tests.support.waiting import eventually
from tests.torture.cluster_loads import batches

pytest.importorskip("kazoo", reason="kazoo is absent: pip install 'ottla[zookeeper]'")

pytestmark = [pytest.mark.java, pytest.mark.slow]

PRODUCE, FETCH, CREATE_TOPICS, DELETE_TOPICS, INIT_PRODUCER_ID, WRITE_TXN_MARKERS = 0, 1, 19, 20, 22, 27
CREATE_ACLS, DELETE_ACLS, CREATE_PARTITIONS, ALTER_CONFIGS, ALTER_QUOTAS = 30, 31, 37, 44, 49
TOPIC, LITERAL, ANY_OPERATION_ON_TOPICS, WRITE, DENY, CONFIG_OF_TOPIC = 2, 3, 2, 4, 2, 2
TRANSACTIONAL = 0x10
COORDINATOR_MOVED = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError._UNSUPPORTED_FEATURE)
"""The last where librdkafka is not connected to the next coordinator yet, and so does not know what it can do."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Pair]:
    with started_pair(tmp_path_factory.mktemp("pair"), pytestconfig.getoption("--kafka-release") or "3.9.1") as pair:
        yield pair


def settings(pair: Pair, **others: Any) -> dict[str, Any]:
    return {"bootstrap.servers": pair.cluster.address, "reconnect.backoff.max.ms": 200, "log_level": 0, **others}


def produced(pair: Pair, node_id: int, topic: str, batch: Batch, index: int = 0, **others: Any) -> Any:
    """One broker's answer of a partition, and for how long it holds the client back."""
    data = [{"name": topic, "partition_data": [{"index": index, "records": memoryview(batch.encode())}]}]
    return pair.ask(node_id, PRODUCE, 8, acks=-1, timeout_ms=30_000, topic_data=data, **others)


def error_of(response: Any) -> int:
    [topic] = response.responses
    [part] = topic.partition_responses
    return int(part.error_code)


@pytest.mark.full(seconds=20)
@pytest.mark.parametrize("controller", SIDES)
def test_what_the_controller_of_either_side_does_is_done_on_both(pair: Pair, controller: int) -> None:
    pair.control(controller)
    topic = f"controlled-by-{controller}"
    pair.create(topic, [OTTLA, KAFKA], [KAFKA, OTTLA])
    pair.wait(lambda: pair.led(topic, OTTLA, 0) and pair.led(topic, KAFKA, 1), f"not both know {topic}")
    for leader in (KAFKA, OTTLA):
        pair.lead(topic, leader)
        assert_takes_records(pair, leader, topic, 0)
    for replicas in ([KAFKA], [OTTLA], [OTTLA, KAFKA]):
        with pair.cluster.admin() as admin:
            admin.alter_partition_reassignments({(topic, 1): replicas})
            pair.wait(lambda: not admin.list_partition_reassignments(), f"{topic}-1 does not move to {replicas}")
        assert_takes_records(pair, replicas[0], topic, 1)
    with pair.cluster.admin() as admin:
        admin.create_partitions({topic: 4})
    pair.cluster.wait_in_sync(topic, timeout_s=PATIENCE_S)
    wait_until_alike(pair, topic, 4)
    with pair.cluster.admin() as admin:
        admin.delete_topics(topic)
    pair.wait(lambda: not directories(pair, topic), f"the directories of {topic} are not deleted")


def directories(pair: Pair, topic: str) -> list[str]:
    """Those of partitions of a topic at either broker. They may go while they are looked for."""
    return [name for _, names, _ in os.walk(pair.home) for name in names if name.rpartition("-")[0] == topic]


def assert_takes_records(pair: Pair, leader: int, topic: str, index: int) -> None:
    """As soon as it has heard that it leads."""
    pair.wait(lambda: error_of(produced(pair, leader, topic, Batch(), index)) == NONE, f"{topic}-{index} takes no records")


def wait_until_alike(pair: Pair, topic: str, partitions: int) -> None:
    """Until both have the same bytes: a follower may not have the last of them yet, such as ends of transactions."""

    def logs() -> list[list[bytes]]:
        return [[batches(pair.home / str(node_id), topic, index) for node_id in (OTTLA, KAFKA)] for index in range(partitions)]

    def told() -> str:
        return f"{topic}: the bytes of its partitions are {[list(map(len, each)) for each in logs()]}, and not alike"

    pair.cluster.wait_until(lambda: all(ours == theirs for ours, theirs in logs()), told, PATIENCE_S)
    assert any(ours for ours, _ in logs())


def committed(consumer: Consumer, place: TopicPartition) -> int:
    """What the group has committed. While a coordinator moves, this client tells of that instead of asking the next one."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return int(consumer.committed([place], PATIENCE_S)[0].offset)
        except KafkaException as moved:
            if moved.args[0].code() not in COORDINATOR_MOVED or time.monotonic() > until:
                raise


ACROSS = [(OTTLA, KAFKA), (KAFKA, OTTLA)]
ALIKE = [pytest.param(side, side, marks=pytest.mark.full(seconds=20)) for side in (OTTLA, KAFKA)]


@pytest.mark.rows(1, seconds=3)
@pytest.mark.parametrize(("ends_at", "groups_at"), [*ACROSS, *ALIKE])
def test_transactions_are_whole_whoever_coordinates_them_and_their_group(pair: Pair, ends_at: int, groups_at: int) -> None:
    topic = f"whole-{ends_at}-{groups_at}"
    pair.create(topic, [OTTLA, KAFKA], [KAFKA, OTTLA])
    group = pair.name_at(groups_at, OFFSETS_TOPIC, topic)
    producer = Producer(settings(pair, **{"transactional.id": pair.name_at(ends_at, TRANSACTIONS_TOPIC, topic)}))
    consumer = Consumer(settings(pair, **{"group.id": group, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}))
    try:
        producer.init_transactions(PATIENCE_S)
        for offset, end in ((3, producer.abort_transaction), (5, producer.commit_transaction), (7, producer.abort_transaction)):
            producer.begin_transaction()
            for index in (0, 1):
                producer.produce(topic, b"%d" % offset, partition=index)
            producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), PATIENCE_S)
            producer.flush(PATIENCE_S)
            end(PATIENCE_S)
        assert committed(consumer, TopicPartition(topic, 0)) == 5
        consumer.assign([TopicPartition(topic, index, 0) for index in (0, 1)])
        found = consumer.consume(2, PATIENCE_S)
        assert sorted((message.partition(), message.value()) for message in found) == [(0, b"5"), (1, b"5")]
        assert not consumer.consume(1, 1)
    finally:
        consumer.close()
    wait_until_alike(pair, topic, 2)


@pytest.mark.parametrize("leader", SIDES)
def test_ends_of_transactions_that_a_former_coordinator_sends_are_refused(pair: Pair, leader: int) -> None:
    topic = f"fenced-{leader}"
    pair.create(topic, [leader, OTHER[leader]])
    producer = Producer(settings(pair, **{"transactional.id": topic}))
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"one", partition=0)
    producer.commit_transaction(PATIENCE_S)
    with pair.cluster.admin() as admin:

        def ended() -> list[ActiveProducer]:
            producers = [one for active in admin.describe_producers([(topic, 0)]).values() for one in active]
            return [one for one in producers if one.coordinator_epoch is not None]

        [found] = eventually(ended)  # the commit is answered before its marker is written
    assert found.coordinator_epoch is not None
    stale = {
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "transaction_result": False,
        "coordinator_epoch": found.coordinator_epoch - 1,
        "topics": [{"name": topic, "partition_indexes": [0]}],
    }
    response = pair.ask(leader, WRITE_TXN_MARKERS, 0, markers=[stale])
    codes = [part.error_code for marker in response.markers for told in marker.topics for part in told.partitions]
    assert codes == [TRANSACTION_COORDINATOR_FENCED]


@pytest.mark.parametrize("leader", SIDES)
@pytest.mark.rows(1, seconds=3)
def test_a_leader_asks_the_other_side_whether_records_belong_to_a_transaction(pair: Pair, leader: int) -> None:
    if pair.release.startswith("2."):
        pytest.skip("brokers verify nothing before protocol version 3.5")
    topic = f"verified-{leader}"
    pair.create(topic, [leader, OTHER[leader]])
    name = pair.name_at(OTHER[leader], TRANSACTIONS_TOPIC, topic)

    def begun() -> Any:
        return pair.ask(OTHER[leader], INIT_PRODUCER_ID, 4, transactional_id=name, transaction_timeout_ms=60_000)

    pair.wait(lambda: not begun().error_code, "no producer id")
    producer = begun()
    batch = Batch(
        attributes=TRANSACTIONAL, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, base_sequence=0
    )
    assert error_of(produced(pair, leader, topic, batch, transactional_id=name)) == INVALID_TXN_STATE


@pytest.mark.parametrize("asked", SIDES)
def test_a_setting_changed_at_one_side_holds_on_the_other(pair: Pair, asked: int) -> None:
    topic = f"set-at-{asked}"
    pair.create(topic, [OTHER[asked], asked])
    change = {"name": "max.message.bytes", "config_operation": 0, "value": "1000"}
    resource = {"resource_type": CONFIG_OF_TOPIC, "resource_name": topic, "configs": [change]}
    assert pair.ask(asked, ALTER_CONFIGS, 1, resources=[resource]).responses[0].error_code == NONE
    large = Batch((b"x" * 2000,))
    pair.wait(lambda: error_of(produced(pair, OTHER[asked], topic, large)) == MESSAGE_TOO_LARGE, "the setting is not heard of")


@pytest.mark.parametrize("asked", SIDES)
def test_a_rule_of_access_made_at_one_side_holds_on_the_other_until_it_is_deleted(pair: Pair, asked: int) -> None:
    topic = f"walled-at-{asked}"
    pair.create(topic, [OTHER[asked], asked])
    rule = {"resource_type": TOPIC, "resource_name": topic, "resource_pattern_type": LITERAL, "principal": "User:ANONYMOUS"}
    rule |= {"host": "*", "operation": WRITE, "permission_type": DENY}
    assert pair.ask(asked, CREATE_ACLS, 2, creations=[rule]).results[0].error_code == NONE

    def told() -> int:
        return error_of(produced(pair, OTHER[asked], topic, Batch()))

    pair.wait(lambda: told() == TOPIC_AUTHORIZATION_FAILED, "the rule is not heard of")
    named = {"resource_type_filter": TOPIC, "resource_name_filter": topic, "pattern_type_filter": LITERAL, "host_filter": "*"}
    named |= {"principal_filter": "User:ANONYMOUS", "operation": WRITE, "permission_type": DENY}
    assert pair.ask(OTHER[asked], DELETE_ACLS, 2, filters=[named]).filter_results[0].error_code == NONE
    pair.wait(lambda: told() == NONE, "it is not heard of that the rule is no more")


@pytest.mark.parametrize("asked", SIDES)
def test_a_quota_set_at_one_side_holds_back_clients_of_the_other(pair: Pair, asked: int) -> None:
    topic = f"slow-at-{asked}"
    pair.create(topic, [OTHER[asked], asked])

    def quota(remove: bool) -> int:
        entry = {
            "entity": [{"entity_type": "client-id", "entity_name": "test"}],
            "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": remove}],
        }
        return int(pair.ask(asked, ALTER_QUOTAS, 0, entries=[entry]).entries[0].error_code)

    assert quota(remove=False) == NONE
    try:
        large = Batch((b"x" * 50_000,))
        pair.wait(lambda: produced(pair, OTHER[asked], topic, large).throttle_time_ms > 0, "the quota is not heard of")
    finally:
        pair.wait(lambda: quota(remove=True) == NONE, "the quota is not lifted")  # a busy machine may cost Kafka its session


@pytest.mark.parametrize("asked", SIDES)
@pytest.mark.rows(1, seconds=6)
def test_a_user_made_at_one_side_logs_in_on_the_other(pair: Pair, asked: int) -> None:
    pair.control(asked)
    name = f"user-of-{asked}"
    with pair.cluster.admin() as admin:
        admin.set_user_password(name, "secret")
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": name,
        "sasl.password": "secret",
    }

    def logged_in() -> bool:
        consumer = Consumer(settings(pair, **login, **{"group.id": "any", "bootstrap.servers": pair.login_address(OTHER[asked])}))
        try:
            return bool(consumer.list_topics(timeout=5).topics)
        except KafkaException:
            return False
        finally:
            consumer.close()

    pair.wait(logged_in, f"{name} can't log in at broker {OTHER[asked]}")
    login["sasl.password"] = "another"
    assert not logged_in()


@pytest.mark.rows(1, seconds=3)
@pytest.mark.parametrize("leader", SIDES)
def test_a_consumer_reads_from_the_replica_in_its_rack(pair: Pair, leader: int) -> None:
    topic, follower = f"near-{leader}", OTHER[leader]
    pair.create(topic, [leader, follower])
    read_from: set[int] = set()

    def heard(text: str) -> None:
        parts = json.loads(text)["topics"].get(topic, {"partitions": {}})["partitions"]
        read_from.update(part["broker"] for name, part in parts.items() if name == "0")

    near = {"client.rack": rack(follower), "statistics.interval.ms": 100, "stats_cb": heard, "group.id": "near"}
    consumer = Consumer(settings(pair, **near, **{"auto.offset.reset": "earliest"}))
    producer = Producer(settings(pair))
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[bytes | None] = []
        until = time.monotonic() + PATIENCE_S
        number = 0
        while follower not in read_from or len(found) < 10:
            assert time.monotonic() < until, f"read from {read_from}"
            producer.produce(topic, b"%d" % number)
            producer.flush(PATIENCE_S)
            number += 1
            found += [message.value() for message in consumer.consume(100, 0.1)]
        while len(found) < number and time.monotonic() < until:
            found += [message.value() for message in consumer.consume(100, 0.1)]
        assert found == [b"%d" % each for each in range(number)]
    finally:
        consumer.close()


@pytest.mark.full(seconds=20)
def test_coordinators_change_sides_with_what_they_hold(pair: Pair) -> None:
    topic, group = "handed", "handed"
    pair.create(topic, [OTTLA, KAFKA])
    place = TopicPartition(topic, 0, 0)
    producer = Producer(settings(pair, **{"transactional.id": "handed"}))
    producer.init_transactions(PATIENCE_S)
    consumer = Consumer(settings(pair, **{"group.id": group}))
    try:
        for number, leader in enumerate((OTTLA, KAFKA, OTTLA, KAFKA), 1):
            producer.begin_transaction()
            producer.produce(topic, b"%d" % number, partition=0)
            offsets = [TopicPartition(topic, 0, number)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), PATIENCE_S)
            for internal in COORDINATED:
                for index in (0, 1):
                    pair.lead(internal, leader, index)
            producer.commit_transaction(PATIENCE_S)
            assert committed(consumer, place) == number
    finally:
        consumer.close()
        for internal in COORDINATED:
            pair.lead(internal, OTTLA, 0)
            pair.lead(internal, KAFKA, 1)


@pytest.mark.full(seconds=20)
@pytest.mark.parametrize("side", SIDES)
def test_a_leader_that_stood_still_is_fenced_and_has_what_its_successor_took(pair: Pair, side: int) -> None:
    topic, other = f"still-{side}", OTHER[side]
    pair.control(side)
    pair.create(topic, [side, other])
    pair.lead(topic, side)
    assert_takes_records(pair, side, topic, 0)
    pair.cluster.pause(side)
    try:
        pair.wait(lambda: leader_at(pair, other, topic) == other, f"broker {other} does not take over")
        assert_takes_records(pair, other, topic, 0)
    finally:
        pair.cluster.resume(side)
    told = {error_of(produced(pair, side, topic, Batch((b"stale",))))}
    pair.cluster.wait_in_sync(topic, *COORDINATED, timeout_s=PATIENCE_S)
    assert told <= {NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND}
    wait_until_alike(pair, topic, 1)
    assert b"stale" not in batches(pair.home / str(side), topic, 0)
    assert pair.cluster.controller() == other


@pytest.mark.full(seconds=20)
@pytest.mark.parametrize("side", SIDES)
def test_a_controller_and_leader_that_is_killed_is_replaced_by_the_other_side_and_joins_again(pair: Pair, side: int) -> None:
    topic, other = f"killed-{side}", OTHER[side]
    pair.control(side)
    pair.create(topic, [side, other])
    assert_takes_records(pair, side, topic, 0)
    pair.cluster.kill(side)
    try:
        pair.wait(lambda: leader_at(pair, other, topic) == other, f"broker {other} does not take over")
        assert_takes_records(pair, other, topic, 0)
    finally:
        pair.cluster.start(side)
    pair.cluster.wait_in_sync(topic, *COORDINATED, timeout_s=PATIENCE_S)
    pair.lead(topic, side)
    assert_takes_records(pair, side, topic, 0)
    wait_until_alike(pair, topic, 1)
    assert batches(pair.home / str(side), topic, 0).count(b"value") == 3


def leader_at(pair: Pair, node_id: int, topic: str) -> int:
    """Who leads the first partition, as one broker says."""
    [found] = pair.ask(node_id, METADATA, 4, topics=[{"name": topic}]).topics
    return next((part.leader_id for part in found.partitions if part.partition_index == 0), -1)
