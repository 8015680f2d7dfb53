"""Produce over the wire: what a topic's settings ask of the records, and how a refusal names them."""

from __future__ import annotations

import pytest

from ottla.broker.handlers import produce_batches
from ottla.cluster.names import OFFSETS_TOPIC
from ottla.log.config import LogConfig
from ottla.records.batches.builder import build
from ottla.records.batches.header import check, read_header
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.produce import ProduceRequest, ProduceResponse
from ottla.wire.errors import INVALID_RECORD, INVALID_TIMESTAMP, INVALID_TOPIC_EXCEPTION, MESSAGE_TOO_LARGE, NONE
from tests.support.machine import Machine
from tests.support.producing import create
from tests.unit.records.making import edited

PRODUCE, HOUR = 0, 3_600_000
Answer = ProduceResponse.PartitionProduceResponse


@pytest.fixture
def machine() -> Machine:
    return Machine()


def topic(machine: Machine, **settings: str) -> str:
    create(machine, "t", **settings)
    return "t"


def produce(machine: Machine, topic: str, batch: bytes | bytearray, version: int = 9) -> Answer:
    of = ProduceRequest
    data = [of.TopicProduceData(name=topic, partition_data=[of.PartitionProduceData(index=0, records=batch)])]
    response = machine.ask(PRODUCE, version, ProduceRequest(acks=-1, timeout_ms=1000, topic_data=data))
    assert isinstance(response, ProduceResponse)
    (answer,) = response.responses[0].partition_responses
    return answer


def at(machine: Machine, *ages: int, keys: list[bytes | None] | None = None, codec: int = 0) -> bytearray:
    now_ms = machine.clock.now().wall_ms
    return build(keys, [b"v"] * len(ages), [now_ms + age for age in ages], codec=codec)


@pytest.mark.parametrize("codec", range(5))
def test_records_at_fault_are_named(machine: Machine, codec: int) -> None:
    name = topic(machine, cleanup_policy="compact", message_timestamp_before_max_ms=str(HOUR))
    answer = produce(machine, name, at(machine, 0, 0, -2 * HOUR, keys=[b"k", None, b"k"], codec=codec))
    assert (answer.error_code, answer.base_offset) == (INVALID_TIMESTAMP, -1)
    assert [fault.batch_index for fault in answer.record_errors] == [1, 2]
    assert "key" in (answer.record_errors[0].batch_index_error_message or "")
    assert "timestamp" in (answer.record_errors[1].batch_index_error_message or "")
    assert produce(machine, name, at(machine, 0, -HOUR, keys=[b"k"] * 2, codec=codec)).base_offset == 0


@pytest.mark.parametrize("records", [1, 40_000])
@pytest.mark.parametrize("version", [3, 9])
def test_what_coordinators_keep_is_written_by_them_alone(machine: Machine, version: int, records: int) -> None:
    """Kafka lets its own tools write there, by their client id."""
    machine.ask(10, 0, FindCoordinatorRequest(key="g"))
    partition = machine.broker.partitions.get(OFFSETS_TOPIC, 0)
    assert partition is not None
    batch = at(machine, *[0] * records, keys=[b"k"] * records)
    assert produce(machine, OFFSETS_TOPIC, batch, version).error_code == INVALID_TOPIC_EXCEPTION
    assert partition.log.log_end_offset == 0
    machine.client_id = "__admin_client"
    assert produce(machine, OFFSETS_TOPIC, batch, version).error_code == NONE
    assert partition.log.log_end_offset == records


def test_an_old_version_gets_the_code_alone(machine: Machine) -> None:
    name = topic(machine, cleanup_policy="compact")
    answer = produce(machine, name, at(machine, 0), version=7)
    assert (answer.error_code, answer.record_errors, answer.error_message) == (INVALID_RECORD, [], None)


def test_a_batch_is_measured_before_it_is_opened(machine: Machine) -> None:
    answer = produce(machine, topic(machine, max_message_bytes="100"), at(machine, *[0] * 1000, codec=4))
    assert answer.error_code == MESSAGE_TOO_LARGE
    assert "max.message.bytes" in (answer.error_message or "")


def test_times_are_judged_by_the_settings_of_the_topic_as_they_are_now(machine: Machine) -> None:
    name = topic(machine)
    assert produce(machine, name, at(machine, 0, 2 * HOUR)).error_code == INVALID_TIMESTAMP
    machine.broker.partitions.configure(name, 0, LogConfig(message_timestamp_after_max_ms=3 * HOUR), machine.clock.now())
    assert produce(machine, name, at(machine, 0, 2 * HOUR)).error_code == NONE


def test_the_brokers_time_stands_over_that_of_the_records(machine: Machine) -> None:
    answer = produce(machine, topic(machine, message_timestamp_type="LogAppendTime"), at(machine, 99 * HOUR))
    assert (answer.error_code, answer.log_append_time_ms) == (NONE, machine.clock.now().wall_ms)


def test_a_lie_about_the_greatest_timestamp_does_not_reach_the_log(machine: Machine) -> None:
    name, batch = topic(machine), at(machine, 0, 5)
    lying = read_header(batch)._replace(max_timestamp=2**50)
    assert produce(machine, name, edited(batch, **lying._asdict())).error_code == NONE
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    found = partition.log.max_timestamp_offset()
    assert found == (machine.clock.now().wall_ms + 5, 1)


def test_idempotent_producers_are_counted_by_address_or_principal_in_all_partitions(machine: Machine) -> None:
    name = topic(machine)
    batch = build([b"k"], [b"v"], machine.clock.now().wall_ms, producer_id=7, producer_epoch=0, base_sequence=0)
    assert produce(machine, name, batch).error_code == NONE
    producers = machine.broker.partitions.producers
    assert producers.count == 1
    assert list(producers._shares) == [machine.peer.host]
    machine.peer.principal = "User:alice"
    batch = build([b"k"], [b"v"], machine.clock.now().wall_ms, producer_id=8, producer_epoch=0, base_sequence=0)
    assert produce(machine, name, batch).error_code == NONE
    assert producers._shares["User:alice"].count == 1
    assert producers.most() == machine.broker.settings.ottla_max_producer_ids_per_broker
    machine.broker.partitions.drop(name, 0)
    assert producers.count == 0


@pytest.mark.parametrize("count", [4, 6])
def test_each_batch_of_a_large_request_is_checked_once(machine: Machine, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Four batches are a request of Kafka's default size, which is checked in one step. More are checked with pauses."""
    create(machine, "t", count)
    batch = bytes(build(None, [bytes(1000)] * 250, machine.clock.now().wall_ms))
    parts = [ProduceRequest.PartitionProduceData(index=number, records=memoryview(bytearray(batch))) for number in range(count)]
    data = [ProduceRequest.TopicProduceData(name="t", partition_data=parts)]
    checked: list[int] = []

    def counted(view: memoryview, version: int) -> object:
        checked.append(len(view))
        return check(view, version)

    monkeypatch.setattr(produce_batches, "check", counted)
    response = machine.ask(PRODUCE, 9, ProduceRequest(acks=1, timeout_ms=1000, topic_data=data))
    assert [part.error_code for part in response.responses[0].partition_responses] == [NONE] * count
    assert checked == [len(batch)] * count
