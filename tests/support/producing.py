"""Producing to and fetching from a `Machine`, in one line each."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.serving.purgatory import DelayedReply
from ottla.records.batches.builder import build
from ottla.records.batches.columns import Record, open_batches
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.api.produce import ProduceRequest, ProduceResponse
from tests.support.machine import Machine

PRODUCE, FETCH, CREATE, DELETE = 0, 1, 19, 20


def create(machine: Machine, name: str, partitions: int = 1, /, **configs: object) -> None:
    settings = [
        CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=str(value)) for key, value in configs.items()
    ]
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=settings)
    assert [seen.error_code for seen in machine.ask(CREATE, 7, CreateTopicsRequest(topics=[topic])).topics] == [0]


def delete(machine: Machine, name: str) -> None:
    assert [seen.error_code for seen in machine.ask(DELETE, 5, DeleteTopicsRequest(topic_names=[name])).responses] == [0]


def request(batch: bytes | bytearray, topic: str = "t", index: int = 0, *, acks: int = -1) -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(index=index, records=batch)
    return ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])]
    )


def begin(machine: Machine, *values: bytes, topic: str = "t", index: int = 0, acks: int = -1) -> Any:
    """Produce without letting the disk sync: the response, or a `DelayedReply` that waits for it."""
    batch = build(None, list(values), machine.clock.now().wall_ms)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine.disk, "run_syncs", lambda: 0)
        return machine.begin(PRODUCE, 9, request(batch, topic, index, acks=acks))


def produce(
    machine: Machine, *values: bytes, topic: str = "t", index: int = 0, acks: int = -1, batch: bytes | bytearray | None = None
) -> ProduceResponse.PartitionProduceResponse:
    """Produce one batch and return its part of the response."""
    made = batch if batch is not None else build(None, list(values), machine.clock.now().wall_ms)
    response = machine.ask(PRODUCE, 9, request(made, topic, index, acks=acks))
    assert not isinstance(response, DelayedReply)
    part: ProduceResponse.PartitionProduceResponse = response.responses[0].partition_responses[0]
    return part


def fetch(machine: Machine, topic: str = "t", index: int = 0, offset: int = 0) -> tuple[int, bytes]:
    """(error code, batches) of one partition."""
    wanted = FetchRequest.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
    body = FetchRequest(max_bytes=1 << 20, topics=[FetchRequest.FetchTopic(topic=topic, partitions=[wanted])])
    part = machine.ask(FETCH, 11, body).responses[0].partitions[0]
    return part.error_code, bytes(part.records or b"")


def values(machine: Machine, topic: str = "t", index: int = 0, offset: int = 0) -> list[bytes | None]:
    return [record.value for record in records(machine, topic, index, offset)]


def records(machine: Machine, topic: str = "t", index: int = 0, offset: int = 0) -> list[Record]:
    error_code, data = fetch(machine, topic, index, offset)
    assert error_code == 0
    return open_batches(memoryview(data), from_offset=offset).records()
