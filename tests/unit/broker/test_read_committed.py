"""Fetch with isolation_level read_committed: no record of an open transaction, and which ones were aborted."""

from __future__ import annotations

from ottla.records.batches.builder import build
from ottla.records.batches.header import batches
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from tests.support.machine import Machine

VERSION = 12


def append(machine: Machine, batch: bytearray) -> None:
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    headers = [header for _, header in batches(batch)]
    assert partition.append(batch, headers, machine.clock.now(), origin_client=not headers[0].is_control).error_code == 0


def fetch(machine: Machine, isolation_level: int) -> FetchResponse.PartitionData:
    part = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    body = FetchRequest(
        max_bytes=1 << 20, isolation_level=isolation_level, topics=[FetchRequest.FetchTopic(topic="t", partitions=[part])]
    )
    answer: FetchResponse = machine.ask(1, VERSION, body)
    return answer.responses[0].partitions[0]


def offsets(data: FetchResponse.PartitionData) -> list[int]:
    return [header.base_offset for _, header in batches(bytes(data.records or b""))]


def test_readers_of_committed_records_stop_at_an_open_transaction_and_learn_which_were_aborted() -> None:
    machine = Machine()
    topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    machine.ask(19, 7, CreateTopicsRequest(topics=[topic]))
    now_ms = machine.clock.now().wall_ms
    for producer_id in (1, 2):
        append(machine, build(None, [b"v"], now_ms, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True))
    data = fetch(machine, 1)
    assert (offsets(data), data.last_stable_offset, data.aborted_transactions) == ([], 0, [])
    assert offsets(fetch(machine, 0)) == [0, 1]
    abort = build([b"\0\0\0\0"], [bytes(6)], now_ms, producer_id=1, producer_epoch=0, transactional=True, control=True)
    append(machine, abort)
    data = fetch(machine, 1)
    assert (offsets(data), data.last_stable_offset) == ([0], 1)
    assert [(one.producer_id, one.first_offset) for one in data.aborted_transactions or []] == [(1, 0)]
    assert fetch(machine, 0).aborted_transactions is None
