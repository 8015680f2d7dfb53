"""What producers with ids may append to a partition, by what they have written there before.

Each case has a producer of its own. Offsets are told relative to the producer's first batch, so that brokers can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import pack
from typing import Any, NamedTuple

from ottla.records.batches.builder import build
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.api.list_offsets import ListOffsetsRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.api.write_txn_markers import WriteTxnMarkersRequest
from ottla.wire.errors import NONE, error_name
from tests.support.transaction_cases import TOPIC, Producer, Transactions

PLAIN_STATES = ("new", "written", "written in the next epoch")
OPEN_STATES = ("ongoing", "ongoing with epochs")
ENDED_STATES = ("committed", "aborted", "committed with epochs", "aborted with epochs", "fenced")
KINDS = ("plain", "transactional", "control", "plain control")
EPOCHS = (-1, 0, 1)
SEQUENCES = (0, 1, 2, 3, 4, 2**31 - 1, -1)
"""Producers have written a batch of sequence 0, and one of the sequences 1 and 2."""
MARKERS = ("commit", "abort")
LATEST = -1
COORDINATOR_EPOCH = 7
WRITES = (1, 2)
"""How many records the batches hold that a producer has written."""


class Append(NamedTuple):
    """What a producer has done before, what it sends now, and with which epoch and sequence."""

    state: str
    kind: str
    epoch: int
    sequence: int
    version: int

    def __str__(self) -> str:
        return f"{self.state}: {self.kind} in Produce {self.version}, epoch {self.epoch:+}, sequence {self.sequence}"


class Marked(NamedTuple):
    """What a producer has done before, and the marker that somebody writes: with which epochs of producer and coordinator."""

    state: str
    kind: str
    epoch: int
    coordinator_epoch: int
    version: int

    def __str__(self) -> str:
        asked = f"{self.kind} in WriteTxnMarkers {self.version}"
        return f"{self.state}: {asked}, epoch {self.epoch:+}, coordinator {self.coordinator_epoch}"


def appends() -> Iterator[Append]:
    for state in (*PLAIN_STATES, *OPEN_STATES, *ENDED_STATES):
        for kind in KINDS:
            for version in (11, 12) if kind == "transactional" else (12,):
                for epoch in EPOCHS:
                    for sequence in SEQUENCES:
                        yield Append(state, kind, epoch, sequence, version)


def markers() -> Iterator[Marked]:
    for state in (*PLAIN_STATES, *OPEN_STATES, *ENDED_STATES):
        for kind in MARKERS:
            for version in (1, 2):
                for epoch in EPOCHS:
                    for coordinator_epoch in (-1, 0, COORDINATOR_EPOCH):
                        yield Marked(state, kind, epoch, coordinator_epoch, version)


class Appends(Transactions):
    """Brings producers into a state, and appends one batch for each."""

    def answer(self, case: Append | Marked) -> list[Any]:  # type: ignore[override]  # cases of its own
        """The error code; where the batch went, if it was taken; and how much longer the log is."""
        name = f"a-{self._run}-{next(self._numbers)}"
        self._first_offset = -1
        known = self.brought_to(case.state, name)
        before = self._end()
        if isinstance(case, Marked):
            answer: list[Any] = self._marked(case, known)
        else:
            answer = self._appended(name, case, known)
        return [*answer, self._end() - before]

    def brought_to(self, state: str, name: str) -> Producer:
        if state not in PLAIN_STATES:
            self.find(name)
            return super().brought_to(state, name)
        response = self.ask(InitProducerIdRequest(transactional_id=None), 4)
        assert response.error_code == NONE
        known = (response.producer_id, response.producer_epoch)
        if state == "new":
            return known
        self._write(None, known)
        if state == "written":
            return known
        known = (known[0], known[1] + 1)
        self._write(None, known)
        return known

    def _produced(self, name: str, who: Producer, version: int, index: int = 0, *, transactional: bool = True) -> int:
        return self._write(name, who)

    def _added(self, name: str, who: Producer, version: int, topics: list[Any] | None = None) -> list[int]:
        found = super()._added(name, who, version, topics)
        if found == [NONE]:
            assert self._write(name, who, version=11) == NONE
        return found

    def _write(self, name: str | None, who: Producer, version: int = 12) -> int:
        sequence = 0
        for count in WRITES:
            batch = self._batch(who, sequence, count, transactional=name is not None)
            error_code, offset = self._send(name, batch, version)
            if self._first_offset < 0:
                self._first_offset = offset
            sequence += count
            if error_code:
                return error_code
        return NONE

    def _appended(self, name: str, case: Append, known: Producer) -> list[Any]:
        batch = self._batch(
            (known[0], known[1] + case.epoch),
            case.sequence,
            2 if case.sequence == 1 else 1,
            transactional=case.kind in ("transactional", "control"),
            control=case.kind.endswith("control"),
        )
        error_code, offset = self._send(None if case.state in PLAIN_STATES and case.kind == "plain" else name, batch, case.version)
        return [error_name(error_code), offset - self._first_offset if offset >= 0 and self._first_offset >= 0 else min(offset, 0)]

    def _marked(self, case: Marked, known: Producer) -> list[Any]:
        topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])
        marker = WriteTxnMarkersRequest.WritableTxnMarker(
            producer_id=known[0],
            producer_epoch=known[1] + case.epoch,
            transaction_result=case.kind == "commit",
            topics=[topic],
            coordinator_epoch=case.coordinator_epoch,
            transaction_version=2 if case.version >= 2 else 0,
        )
        response = self.ask(WriteTxnMarkersRequest(markers=[marker]), case.version)
        return [error_name(part.error_code) for each in response.markers for topic in each.topics for part in topic.partitions]

    def _batch(self, who: Producer, sequence: int, count: int, *, transactional: bool, control: bool = False) -> bytes:
        keys = [pack(">hh", 0, 1)] * count if control else None
        values = [pack(">hi", 0, 0)] * count if control else [b"x"] * count
        return bytes(
            build(
                keys,
                values,
                1,
                producer_id=who[0],
                producer_epoch=who[1],
                base_sequence=sequence,
                transactional=transactional,
                control=control,
            )
        )

    def _send(self, name: str | None, records: bytes, version: int) -> tuple[int, int]:
        data = ProduceRequest.PartitionProduceData(index=0, records=records)
        topics = [ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[data])]
        body = ProduceRequest(transactional_id=name, acks=-1, timeout_ms=10_000, topic_data=topics)
        part = self.ask(body, version).responses[0].partition_responses[0]
        return part.error_code, part.base_offset

    def _end(self) -> int:
        part = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=LATEST)
        topic = ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=[part])
        return int(self.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 5).topics[0].partitions[0].offset)
