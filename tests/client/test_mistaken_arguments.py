"""Calls that a newcomer gets wrong: a sentence at once, nothing sent, and a client that goes on working."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ottla
from ottla.records.batches.rows import Rows, value_rows
from tests.support.peers import Peer

WHERE = ottla.TopicPartition("nowhere", 0)
Call = Callable[..., Any]
Row = tuple[Call, type[Exception], str]
"""A call, the exception that it raises, and a part of the sentence."""


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
        (lambda: PRODUCER({"bootstrap.servers": ADDRESS}), ottla.SettingError, r"not a dict: \w+\(bootstrap_servers=.127"),
        (lambda: ADMIN({"bootstrap.servers": ADDRESS}), ottla.SettingError, r"not a dict: \w+\(bootstrap_servers=.127"),
        (lambda: PRODUCER([ADDRESS, 1]), ottla.SettingError, "not 1 among them"),
        (lambda: PRODUCER(b"127.0.0.1:9092"), ottla.SettingError, "a string or several"),
        (lambda: CONSUMER("x", ADDRESS), ottla.SettingError, "bootstrap_servers='127.0.0.1:9092'"),
        (lambda: CONSUMER(["x"]), TypeError, "one by one"),
        (lambda: CONSUMER({"group.id": "g"}), ottla.SettingError, r"not a dict: Consumer\(group_id=.g.\)"),
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


def rest(items: Any) -> Any:
    """Return all items of an iterator, or a coroutine that does."""

    async def gather() -> list[object]:
        return [item async for item in items]

    return gather() if hasattr(items, "__aiter__") else list(items)


# fmt: off
OF_CONSUMERS: list[Row] = [
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
    (lambda c: rest(c.records("5")), TypeError, "timeout_ms"),
    (lambda c: rest(c.batches("5")), TypeError, "timeout_ms"),
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
    (lambda c: c.partitions_for("h:9092"), ottla.SettingError, "bootstrap_servers='h:9092'"),
    (lambda c: c.subscribe(""), ottla.SettingError, "'' is not a topic's name"),
    (lambda c: c.subscribe("a b"), ottla.SettingError, "'a b' is not a topic's name"),
    (lambda c: c.beginning_offsets("x"), TypeError, "A partition is"),
    (lambda c: rest(c.columns("5")), TypeError, "timeout_ms"),
    (lambda c: rest(c.records(until="x")), TypeError, "until is a dict"),
    (lambda c: rest(c.records(until={WHERE: -1})), ottla.SettingError, "An end is"),
    (lambda c: rest(c.columns(until={"x": 5})), TypeError, "A partition is"),
    (lambda c: c.commit_soon("x"), TypeError, "offsets is a dict"),
    (lambda c: c.commit_soon(on_commit=5), TypeError, "on_commit is a function"),
    (lambda c: c.committed([WHERE]), TypeError, "A partition is"),
    (lambda c: c.store_offsets("x"), TypeError, "offsets is a dict"),
    (lambda c: c.store_offsets({WHERE: 5}), ottla.KafkaError, "enable_auto_offset_store|not assigned"),
    (lambda c: c.client_instance_id("5"), TypeError, "timeout_ms is a whole number"),
    (lambda c: c.current_lag("x"), TypeError, "A partition is"),
    (lambda c: c.current_lag(WHERE), ottla.KafkaError, "nowhere-0 is not assigned"),
    (lambda c: c.incremental_assign("x"), TypeError, "A partition is"),
    (lambda c: c.incremental_assign([WHERE]), ottla.UnknownTopic, "nowhere"),
    (lambda c: c.incremental_unassign(WHERE), TypeError, "a list of these"),
    (lambda c: c.incremental_unassign([WHERE]), ottla.KafkaError, "nowhere-0 is not assigned"),
    (lambda c: c.resume([WHERE]), TypeError, "A partition is"),
    (lambda c: c.resume(WHERE), ottla.KafkaError, "nowhere-0 is not assigned"),
    (lambda c: c.seek_to_beginning("x"), TypeError, "A partition is"),
    (lambda c: c.seek_to_end([WHERE]), TypeError, "A partition is"),
    (lambda c: c.seek_to_end(WHERE), ottla.KafkaError, "nowhere-0 is not assigned"),
    (lambda c: c.seek_to_committed(["x"]), TypeError, "A partition is"),
    (lambda c: c.seek_to_time("now"), TypeError, "timestamp_ms is a whole number"),
    (lambda c: c.seek_to_time(1.5), TypeError, "timestamp_ms is a whole number"),
    (lambda c: c.seek_to_time(5, "x"), TypeError, "A partition is"),
]
# fmt: on


@pytest.mark.parametrize(("call", "kind", "sentence"), OF_CONSUMERS)
def test_a_consumer_refuses_what_means_nothing_and_reads_on(
    call: Call, kind: type[Exception], sentence: str, broker: Peer, consumer: ottla.Consumer, topic: str
) -> None:
    with ottla.Producer(broker.address) as producer:
        producer.send(topic, b"v", partition=0)
    with pytest.raises(kind, match=sentence):
        call(consumer)
    assert [record.value for record in consumer.poll(20_000)] == [b"v"]


def rows_beyond_their_bytes() -> Rows:
    rows = value_rows([b"v"], 0)
    rows.value_data = b""
    return rows


# fmt: off
OF_PRODUCERS: list[Row] = [
    (lambda p, t: p.send(None, b"v"), TypeError, "A topic's name is a string, not None"),
    (lambda p, t: p.send([t], b"v"), TypeError, "one by one"),
    (lambda p, t: p.send(t, b"v", partition="0"), TypeError, "partition"),
    (lambda p, t: p.send(t, b"v", partition=0.0), TypeError, "partition"),
    (lambda p, t: p.send(t, b"v", partition=-1), ottla.SettingError, "partition"),
    (lambda p, t: p.send(t, b"v", headers={"a": b"b"}), TypeError, "headers are a list"),
    (lambda p, t: p.send(t, b"v", headers="ab"), TypeError, "headers are a list"),
    (lambda p, t: p.send(t, b"v", headers=[("\ud800", b"")]), ottla.SettingError, "UTF-8"),
    (lambda p, t: p.flush("5"), TypeError, "timeout_ms"),
    (lambda p, t: p.poll(0.5), TypeError, "timeout_ms"),
    (lambda p, t: p.client_instance_id("5"), TypeError, "timeout_ms is a whole number"),
    (lambda p, t: p.close("5"), TypeError, "timeout_ms"),
    (lambda p, t: p.send(t, b"w").result("5"), TypeError, "timeout is a number"),
    (lambda p, t: p.partitions_for(5), TypeError, "A topic's name"),
    (lambda p, t: p.send("h:9092", b"v"), ottla.SettingError, "bootstrap_servers='h:9092'"),
    (lambda p, t: p.send("", b"v"), ottla.SettingError, "'' is not a topic's name"),
    (lambda p, t: p.send("..", b"v"), ottla.SettingError, "'..' is not a topic's name"),
    (lambda p, t: p.send("x" * 250, b"v"), ottla.SettingError, "249"),
    (lambda p, t: p.send(t, "text"), TypeError, "value is bytes or None, not str: encode it first"),
    (lambda p, t: p.send(t, b"v", key=5), TypeError, "key is bytes or None, not int"),
    (lambda p, t: p.send(t, b"v", partition=9), ottla.SettingError, "partitions 0 to 2, not 9"),
    (lambda p, t: p.send(t, b"v", timestamp_ms=1.5), TypeError, "timestamp_ms"),
    (lambda p, t: p.send(t, b"v", timestamp_ms=-5), ottla.SettingError, "timestamp_ms"),
    (lambda p, t: p.send(t, b"v", headers=[("a", "b")]), TypeError, "headers are pairs"),
    (lambda p, t: p.send(t, b"v", on_delivery=5), TypeError, "on_delivery is a function"),
    (lambda p, t: p.send_rows(t, [b"v"]), TypeError, "rows are made by"),
    (lambda p, t: p.send_rows(t, value_rows([b"v"], 0), 0, 9), ottla.SettingError, "There are 1 rows: .* not 0 and 9"),
    (lambda p, t: p.send_rows(t, value_rows([b"v"], 0), 2), ottla.SettingError, "not 2 and 1"),
    (lambda p, t: p.send_rows(t, value_rows([b"v"], 0), -1), ottla.SettingError, "start is a whole number"),
    (lambda p, t: p.send_rows(t, value_rows([b"v"], 0), 0, "1"), TypeError, "stop is a whole number"),
    (lambda p, t: p.send_rows(t, rows_beyond_their_bytes()), ValueError, "outside its data"),
    (lambda p, t: p.send_values(t, [b"v", "w"]), TypeError, "Values are a list of bytes"),
    (lambda p, t: p.send_values(t, None), TypeError, "Values are a list of bytes"),
    (lambda p, t: p.send_values([t], [b"v"]), TypeError, "one by one"),
    (lambda p, t: p.send_table(t, [b"v"]), TypeError, "a pyarrow.Table or RecordBatch"),
    (lambda p, t: p.send_offsets({}, "g"), ottla.SettingError, "set transactional_id"),
    (lambda p, t: p.begin_transaction(), ottla.SettingError, "set transactional_id"),
]
# fmt: on


@pytest.mark.parametrize(("call", "kind", "sentence"), OF_PRODUCERS)
def test_a_producer_refuses_what_means_nothing_and_writes_on(
    call: Call, kind: type[Exception], sentence: str, producer: ottla.Producer, topic: str
) -> None:
    with pytest.raises(kind, match=sentence):
        call(producer, topic)
    assert producer.send(topic, b"v", partition=0).result(20).offset >= 0


@pytest.mark.parametrize(
    ("argument", "column", "kind", "error", "sentence"),
    [
        ("timestamp", ["x"], None, TypeError, "cast it to int64"),
        ("timestamp", [1.5], None, TypeError, "cast it to int64"),
        ("timestamp", [-5], None, ottla.SettingError, "the timestamp -5: give times since 1970"),
        ("timestamp", [-5], "instants", ottla.SettingError, "timestamp 1969-12-31 .*: give times since 1970"),
        ("headers", ["x"], None, TypeError, "cast it to list<struct<name: string, value: binary>>"),
        ("headers", [[("a", b"b")]], "map", TypeError, "cast it to list"),
        ("headers", [[(None, b"b")]], "headers", ValueError, "its name is null"),
        ("headers", [[None]], "headers", ValueError, "its name is null"),
    ],
)
def test_a_column_that_fits_no_field_is_named(
    argument: str,
    column: list[object],
    kind: str | None,
    error: type[Exception],
    sentence: str,
    producer: ottla.Producer,
    topic: str,
) -> None:
    arrow = pytest.importorskip("pyarrow")
    kinds = {
        "map": arrow.map_(arrow.string(), arrow.binary()),
        "headers": arrow.list_(arrow.struct([("name", arrow.string()), ("value", arrow.binary())])),
        "instants": arrow.timestamp("ms"),
    }
    table = arrow.table({"value": [b"v"], "more": arrow.array(column, kind and kinds[kind])})
    given: dict[str, Any] = {argument: "more"}
    with pytest.raises(error, match=sentence):
        producer.send_table(topic, table, **given)


# fmt: off
OF_ADMINS: list[Row] = [
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
    (lambda a: a.describe_api_versions("1"), TypeError, "node_ids is a list"),
    (lambda a: a.update_features("x"), TypeError, "levels is a dict"),
    (lambda a: a.alter_quotas("x"), TypeError, "quotas is a dict"),
    (lambda a: a.list_users(["x"]), TypeError, "one by one"),
    (lambda a: a.create_acls("x"), TypeError, "a list of AclRule"),
    (lambda a: a.delete_acls([5]), TypeError, "a list of AclRule"),
    (lambda a: a.list_acls(5), TypeError, "principal is a string"),
    (lambda a: a.list_acls(resource="x"), ottla.SettingError, "choose one of topic, group"),
    (lambda a: a.create_topic("x", "6"), TypeError, "num_partitions is a whole number, not '6'"),
    (lambda a: a.create_topic("x", 6, "1"), TypeError, "replication_factor is a whole number"),
    (lambda a: a.create_topic("h:9092"), ottla.SettingError, "bootstrap_servers='h:9092'"),
    (lambda a: a.create_partitions({"x": "6"}), TypeError, "number of partitions is a whole number"),
    (lambda a: a.delete_topics_by_id("x"), ottla.SettingError, "not a topic's id"),
    (lambda a: a.describe_topics_by_id("x"), ottla.SettingError, "not a topic's id"),
    (lambda a: a.delete_records({WHERE: -2}), ottla.SettingError, "An offset is"),
    (lambda a: a.list_offsets([WHERE]), TypeError, "wanted is a dict"),
    (lambda a: a.list_offsets({WHERE: "latest"}), TypeError, "A timestamp is"),
    (lambda a: a.list_group_offsets(["g"]), TypeError, "A group's id"),
    (lambda a: a.list_share_group_offsets(["g"]), TypeError, "A group's id"),
    (lambda a: a.alter_share_group_offsets(None, {}), TypeError, "A group's id"),
    (lambda a: a.delete_share_group_offsets(None, "t"), TypeError, "A group's id"),
    (lambda a: a.alter_replica_log_dirs("0", {}), TypeError, "node_id"),
    (lambda a: a.alter_replica_log_dirs(0, ["x"]), TypeError, "directories is a dict"),
    (lambda a: a.list_partition_reassignments("x"), TypeError, "A partition is"),
    (lambda a: a.list_config_resources("topic"), TypeError, "whole number"),
    (lambda a: a.describe_quotas(user=5), TypeError, "user of a quota is a string"),
    (lambda a: a.update_features({"x": "5"}), TypeError, "level of a feature is a whole number"),
    (lambda a: a.abort_transaction("x", 0, "5", 6), TypeError, "producer_id is a whole number"),
    (lambda a: a.create_delegation_token(renewers="User:a"), TypeError, "renewers is a list"),
    (lambda a: a.create_delegation_token(max_lifetime_ms="5"), TypeError, "max_lifetime_ms"),
    (lambda a: a.describe_delegation_tokens(5), TypeError, "An owner is a string"),
    (lambda a: a.renew_delegation_token("x"), TypeError, "HMAC of a token is bytes"),
    (lambda a: a.expire_delegation_token(b"x", "5"), TypeError, "period_ms"),
    (lambda a: a.read_client_metrics("x"), TypeError, "PushingClient"),
    (lambda a: a.set_user_password("x", None), TypeError, "password is a string, not a NoneType"),
    (lambda a: a.set_user_password("x", "y", iterations="5"), TypeError, "iterations"),
    (lambda a: a.set_user_password("x", "y", mechanism="PLAIN"), ottla.SettingError, "SCRAM-SHA-256"),
    (lambda a: a.remove_user(None), TypeError, "A user's name"),
    (lambda a: a.supports_api("x"), TypeError, "api_key is a whole number"),
    (lambda a: a.unregister_broker("x"), TypeError, "node_id"),
    (lambda a: a.client_instance_id("5"), TypeError, "timeout_ms is a whole number"),
    (lambda a: a.unregister_controller("x"), TypeError, "node_id"),
    (lambda a: a.add_raft_voter(1, "x", {}), ottla.SettingError, "not a topic's id|not an id"),
    (lambda a: a.add_raft_voter(1, bytes(16), {"C": "host"}), ottla.SettingError, "write it as host:9093"),
    (lambda a: a.remove_raft_voter("1", bytes(16)), TypeError, "node_id"),
    (lambda a: a.describe_configs_of(["adm"]), TypeError, "a list of ConfigResource"),
    (lambda a: a.alter_configs_of({"adm": ottla.ConfigAlteration()}), TypeError, "ConfigResource"),
    (lambda a: a.alter_configs_of({ottla.ConfigResource.topic("x"): {}}), TypeError, "ConfigAlteration"),
    (lambda a: a.alter_quotas_of({"alice": {}}), TypeError, "QuotaOf"),
    (lambda a: a.describe_quotas(any_of=["users"]), ottla.SettingError, "choose one of user, client-id, ip"),
    (lambda a: a.set_user_passwords("x"), TypeError, "passwords is a dict"),
    (lambda a: a.remove_users(["x"]), TypeError, "one by one"),
    (lambda a: a.delete_matching_acls("x"), TypeError, "a list of AclRuleFilter"),
    (lambda a: a.delete_matching_acls(ottla.AclRuleFilter(operation="reed")), ottla.SettingError, "choose one of all, read"),
    (lambda a: a.list_acls(pattern="x"), ottla.SettingError, "choose one of literal, prefixed, match"),
    (lambda a: a.describe_replica_log_dirs([WHERE]), TypeError, "A replica is"),
    (lambda a: a.alter_log_dirs_of_replicas({WHERE: "/d"}), TypeError, "A replica is"),
    (lambda a: a.terminate_transaction(None), TypeError, "A transactional id"),
    (lambda a: a.describe_topics("x", chek=False), TypeError, "check and timeout_ms are"),
    (lambda a: a.describe_topics("x", check=0), TypeError, "check is True or False"),
    (lambda a: a.describe_topics("x", timeout_ms="5"), TypeError, "timeout_ms is a whole number"),
    (lambda a: a.create_topics([ottla.NewTopic("x"), ottla.NewTopic("x", 2)]), ottla.SettingError, "x is given twice"),
]
# fmt: on


@pytest.mark.parametrize(("call", "kind", "sentence"), OF_ADMINS)
def test_an_admin_refuses_what_means_nothing(call: Call, kind: type[Exception], sentence: str, admin: ottla.Admin) -> None:
    with pytest.raises(kind, match=sentence):
        call(admin)


NO_MISTAKES = {
    "close": "two flags, and a time limit that a row has",
    "list_topics": "a flag",
    "describe_all_topics": "a flag",
    "list_topic_ids": "a flag",
    "describe_cluster": "two flags",
}
ASYNC_PRODUCER = [row for row in OF_PRODUCERS if not {"poll", "result"} & {*row[0].__code__.co_names}]
"""The rows of an asynchronous producer, whose `send` is awaited for a delivery, and which has no `poll`."""
TABLES = [
    (ottla.Consumer, OF_CONSUMERS),
    (ottla.Producer, OF_PRODUCERS),
    (ottla.Admin, OF_ADMINS),
]


@pytest.mark.parametrize(("kind", "rows"), TABLES)
def test_every_public_method_with_arguments_is_in_a_table(kind: type, rows: list[Row]) -> None:
    called = {name for call, _, _ in rows for name in call.__code__.co_names}
    public = {name for name in dir(kind) if not name.startswith("_") and hasattr(kind, name)}
    with_arguments = {name for name in public if len(inspect.signature(getattr(kind, name)).parameters) > 1}
    assert with_arguments - called - NO_MISTAKES.keys() == set()


async def refused(rows: list[Row], *arguments: object) -> list[str]:
    """Return the rows whose call does not raise the exception that it must raise."""
    wrong = []
    for number, (call, kind, sentence) in enumerate(rows):
        try:
            result = call(*arguments)
            if inspect.isawaitable(result):
                result = await result
        except Exception as error:
            if not isinstance(error, kind) or not re.search(sentence, str(error)):
                wrong.append(f"row {number} ({sentence}): {error!r}")
        else:
            wrong.append(f"row {number} ({sentence}): {result!r}")
    return wrong


def test_asynchronous_clients_refuse_the_same(broker: Peer, topic: str) -> None:
    async def main() -> list[str]:
        async with ottla.AsyncConsumer(bootstrap_servers=broker.address, group_id="mistaken") as consumer:
            await consumer.assign([(topic, 0)])
            wrong = await refused(OF_CONSUMERS, consumer)
        async with ottla.AsyncProducer(broker.address) as producer:
            wrong += await refused(ASYNC_PRODUCER, producer, topic)
        async with ottla.AsyncAdmin(broker.address) as admin:
            return wrong + await refused(OF_ADMINS, admin)

    assert asyncio.run(main()) == []


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
