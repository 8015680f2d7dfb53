"""Calls that a newcomer gets wrong: a sentence at once, nothing sent, and a client that goes on working."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ottla
from tests.support.peers import Peer

WHERE = ottla.TopicPartition("nowhere", 0)
Call = Callable[[Any], object]


@pytest.fixture
def consumer(broker: Peer, topic: str) -> Iterator[ottla.Consumer]:
    with ottla.Consumer(bootstrap_servers=broker.address, group_id="mistaken", auto_offset_reset="earliest") as made:
        made.assign([(topic, 0)])
        yield made


@pytest.fixture
def producer(broker: Peer) -> Iterator[ottla.Producer]:
    with ottla.Producer(broker.address) as made:
        yield made


ADDRESS = "127.0.0.1:9092"
PRODUCER: Any = ottla.Producer
CONSUMER: Any = ottla.Consumer
ADMIN: Any = ottla.Admin
BROKER: Any = ottla.Broker


@pytest.mark.parametrize(
    ("make", "kind", "sentence"),
    [
        (lambda: PRODUCER({"bootstrap.servers": ADDRESS}), ottla.SettingError, "not a dict: give settings as keywords"),
        (lambda: ADMIN({"bootstrap.servers": ADDRESS}), ottla.SettingError, "not a dict: give settings as keywords"),
        (lambda: PRODUCER([ADDRESS, 1]), ottla.SettingError, "not 1 among them"),
        (lambda: PRODUCER(b"127.0.0.1:9092"), ottla.SettingError, "a string or several"),
        (lambda: CONSUMER("x", ADDRESS), ottla.SettingError, "bootstrap_servers='127.0.0.1:9092'"),
        (lambda: CONSUMER(["x"]), TypeError, "one by one"),
        (lambda: CONSUMER({"group.id": "g"}), TypeError, "settings are keyword arguments"),
        (lambda: CONSUMER(None), TypeError, "not None"),
        (lambda: CONSUMER("x", on_assigned=5), TypeError, "on_assigned is a function"),
        (lambda: BROKER(users=["alice"]), TypeError, "mapping of names to passwords"),
        (lambda: BROKER(users={"alice": 5}), TypeError, "these are strings"),
        (lambda: BROKER(users={"alice": ""}), ottla.SettingError, "set both"),
    ],
)  # fmt: skip
def test_a_client_with_misplaced_settings_is_refused_before_it_begins(
    make: Callable[[], object], kind: type[Exception], sentence: str
) -> None:
    with pytest.raises(kind, match=sentence):
        make()


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (lambda c: c.subscribe(["t"]), TypeError, "one by one"),
        (lambda c: c.subscribe(None), TypeError, "not None"),
        (lambda c: c.subscribe(), ottla.SettingError, "a topic or a pattern"),
        (lambda c: c.subscribe("t", pattern="t"), ottla.SettingError, "not both"),
        (lambda c: c.subscribe(pattern="("), ottla.SettingError, "not a regular expression"),
        (lambda c: c.subscribe(pattern=5), TypeError, "pattern is a string"),
        (lambda c: c.subscribe("t"), ottla.SettingError, r"unsubscribe\(\) first"),
        (lambda c: c.poll("5"), TypeError, "timeout_ms is a whole number, not '5'"),
        (lambda c: c.poll(0.5), TypeError, "timeout_ms"),
        (lambda c: c.poll(-1), ottla.SettingError, "timeout_ms"),
        (lambda c: c.poll(0, 0), ottla.SettingError, "max_records"),
        (lambda c: list(c.records("5")), TypeError, "timeout_ms"),
        (lambda c: list(c.batches("5")), TypeError, "timeout_ms"),
        (lambda c: c.assign("x"), TypeError, "A partition is"),
        (lambda c: c.assign(["x"]), TypeError, "A partition is"),
        (lambda c: c.assign(WHERE), TypeError, "a list of these"),
        (lambda c: c.assign([("x", "0")]), TypeError, "number of a partition"),
        (lambda c: c.assign([("x", -1)]), ottla.SettingError, "number of a partition"),
        (lambda c: c.seek(WHERE, -7), ottla.SettingError, r"not -7; seek_to_beginning\(\)"),
        (lambda c: c.seek(WHERE, 1 << 63), ottla.SettingError, "offset"),
        (lambda c: c.seek(WHERE, "7"), TypeError, "offset"),
        (lambda c: c.seek("x", 7), TypeError, "A partition is"),
        (lambda c: c.assign([["x"]]), TypeError, "A partition is"),
        (lambda c: c.pause([WHERE]), TypeError, "A partition is"),
        (lambda c: c.position("x"), TypeError, "A partition is"),
        (lambda c: c.commit("x"), TypeError, "offsets is a dict"),
        (lambda c: c.commit({"x": 5}), TypeError, "A partition is"),
        (lambda c: c.commit({WHERE: "5"}), TypeError, "An offset is"),
        (lambda c: c.commit({WHERE: -5}), ottla.SettingError, "An offset is"),
        (lambda c: c.offsets_for_times({WHERE: "now"}), TypeError, "A timestamp is"),
        (lambda c: c.end_offsets("x"), TypeError, "A partition is"),
        (lambda c: c.partitions_for(["x"]), TypeError, "A topic's name"),
    ],
)  # fmt: skip
def test_a_consumer_refuses_what_means_nothing_and_reads_on(
    call: Call, kind: type[Exception], sentence: str, broker: Peer, consumer: ottla.Consumer, topic: str
) -> None:
    with ottla.Producer(broker.address) as producer:
        producer.send(topic, b"v", partition=0)
    with pytest.raises(kind, match=sentence):
        call(consumer)
    assert [record.value for record in consumer.poll(20_000)] == [b"v"]


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (lambda p, t: p.send(None, b"v"), TypeError, "A topic's name is a string, not None"),
        (lambda p, t: p.send([t], b"v"), TypeError, "one by one"),
        (lambda p, t: p.send(t, b"v", partition="0"), TypeError, "partition"),
        (lambda p, t: p.send(t, b"v", partition=0.0), TypeError, "partition"),
        (lambda p, t: p.send(t, b"v", partition=-1), ottla.SettingError, "partition"),
        (lambda p, t: p.send(t, b"v", headers={"a": b"b"}), TypeError, "headers are a list"),
        (lambda p, t: p.send(t, b"v", headers="ab"), TypeError, "headers are a list"),
        (lambda p, t: p.send(t, b"v", headers=[("\ud800", b"")]), ottla.SettingError, "UTF-8"),
        (lambda p, t: p.flush("5"), TypeError, "timeout_ms"),
        (lambda p, t: p.close("5"), TypeError, "timeout_ms"),
        (lambda p, t: p.send(t, b"w").result("5"), TypeError, "timeout is a number"),
        (lambda p, t: p.partitions_for(5), TypeError, "A topic's name"),
    ],
)  # fmt: skip
def test_a_producer_refuses_what_means_nothing_and_writes_on(
    call: Callable[[Any, str], object], kind: type[Exception], sentence: str, producer: ottla.Producer, topic: str
) -> None:
    with pytest.raises(kind, match=sentence):
        call(producer, topic)
    assert producer.send(topic, b"v", partition=0).result(20).offset >= 0


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (lambda a: a.describe_configs("adm"), TypeError, "ConfigResource"),
        (lambda a: a.describe_broker_configs("x"), TypeError, "node_id"),
        (lambda a: a.describe_topic_configs(["x"]), TypeError, "A topic's name"),
        (lambda a: a.alter_configs("adm", set={}), TypeError, "ConfigResource"),
        (lambda a: a.alter_configs(ottla.ConfigResource.topic("x"), set="retention.ms"), TypeError, "a dict"),
        (lambda a: a.alter_configs(ottla.ConfigResource.topic("x"), delete="retention.ms"), TypeError, "delete is a list"),
        (lambda a: a.alter_configs(ottla.ConfigResource.topic("x"), set={"cleanup.policy": ["a"]}), TypeError, "'a,b'"),
        (lambda a: a.create_topic(None), TypeError, "A topic's name"),
        (lambda a: a.create_topic("x", configs=["a"]), TypeError, "configs is a dict"),
        (lambda a: a.create_topics("x"), TypeError, "a list of NewTopic"),
        (lambda a: a.create_topics(ottla.NewTopic("x")), TypeError, "a list of NewTopic"),
        (lambda a: a.create_partitions("x"), TypeError, "counts is a dict"),
        (lambda a: a.delete_topics(["x"]), TypeError, "one by one"),
        (lambda a: a.describe_topics(["x"]), TypeError, "one by one"),
        (lambda a: a.delete_records({"x": 1}), TypeError, "A partition is"),
        (lambda a: a.describe_group(None), TypeError, "A group's id"),
        (lambda a: a.describe_groups(["g"]), TypeError, "one by one"),
        (lambda a: a.list_groups(states="Stable"), TypeError, "states is a list"),
        (lambda a: a.list_offsets_of_groups(["g"]), TypeError, "one by one"),
        (lambda a: a.remove_members("g", "m"), TypeError, "members is a list"),
        (lambda a: a.delete_group_offsets("g", WHERE), TypeError, "a list of these"),
        (lambda a: a.delete_groups(["g"]), TypeError, "one by one"),
        (lambda a: a.alter_group_offsets("g", {WHERE: -5}), ottla.SettingError, "An offset is"),
        (lambda a: a.list_transactions(states="Ongoing"), TypeError, "states is a list"),
        (lambda a: a.describe_transactions(["x"]), TypeError, "one by one"),
        (lambda a: a.describe_producers(WHERE), TypeError, "a list of these"),
        (lambda a: a.find_hanging_transactions("x"), TypeError, "topics is a list"),
        (lambda a: a.abort_transaction("x", "0", 5, 6), TypeError, "number of a partition"),
        (lambda a: a.fence_producers(["x"]), TypeError, "one by one"),
        (lambda a: a.alter_partition_reassignments({WHERE: 1}), TypeError, "replicas"),
        (lambda a: a.elect_leaders("x"), TypeError, "a list of these"),
        (lambda a: a.describe_log_dirs("1"), TypeError, "node_ids is a list"),
        (lambda a: a.update_features("x"), TypeError, "levels is a dict"),
        (lambda a: a.alter_quotas("x"), TypeError, "quotas is a dict"),
        (lambda a: a.list_users(["x"]), TypeError, "one by one"),
        (lambda a: a.create_acls("x"), TypeError, "a list of AclRule"),
    ],
)  # fmt: skip
def test_an_admin_refuses_what_means_nothing(call: Call, kind: type[Exception], sentence: str, admin: ottla.Admin) -> None:
    with pytest.raises(kind, match=sentence):
        call(admin)


def test_a_buffer_that_is_used_again_after_send_does_not_change_the_record(
    producer: ottla.Producer, broker: Peer, topic: str
) -> None:
    send: Any = producer.send  # as whoever is not checked for types calls it
    key, value, headers = bytearray(b"key"), bytearray(b"value"), [("a", bytearray(b"b"))]
    send(topic, memoryview(value), key=key, partition=0, headers=headers)
    key[:], value[:], headers[0][1][:] = b"?", b"?????", b"?"
    headers.append(("c", bytearray()))
    send(topic, b"w", partition=0, headers=iter([("d", b"e")]))
    producer.flush()
    with ottla.Consumer(bootstrap_servers=broker.address, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        one, other = consumer.poll(20_000)
    assert (one.key, one.value, one.headers) == (b"key", b"value", (("a", b"b"),))
    assert other.headers == (("d", b"e"),)


def test_numbers_serve_as_settings_of_a_new_topic(admin: ottla.Admin, unique: Callable[[str], str]) -> None:
    name = unique("numbers")
    admin.create_topic(name, 1, 1, configs={"retention.ms": 86_400_000, "preallocate": False})
    assert admin.describe_topic_configs(name)["retention.ms"].value == "86400000"


def test_a_callback_cannot_close_its_client_and_the_client_works_on(producer: ottla.Producer, topic: str) -> None:
    refused: list[Exception] = []

    def close(delivery: ottla.Delivery) -> None:
        try:
            producer.close()
        except ottla.KafkaError as error:
            refused.append(error)

    delivery = producer.send(topic, b"v")
    delivery.add_done_callback(close)
    delivery.result(20)
    producer.flush()
    assert "on another thread" in str(refused[0])
    assert producer.send(topic, b"w").result(20).offset >= 0
