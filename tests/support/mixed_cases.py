"""Requests that hold a batch for each of two partitions, of which not both belong to the same transaction.

Each case has a producer of its own. What is told of a case is the same on every broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

from ottla.records.batches.builder import build
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.api.list_offsets import ListOffsetsRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.errors import NONE, error_name
from tests.support.transaction_cases import TOPIC, Producer, Transactions

STATES = ("empty", "ongoing with epochs")
BATCHES = ("plain", "idempotent", "of the transaction", "of its next epoch", "of another transaction", "of its producer, plain")
NOBODY: Producer = (-1, -1)
LATEST = -1
VERSION = 12


class Mixed(NamedTuple):
    """What the producer has done before, and the batches for partitions 0 and 1."""

    state: str
    first: str
    second: str

    def __str__(self) -> str:
        return f"{self.state}: {self.first} and {self.second}"


def mixed() -> Iterator[Mixed]:
    for state, first, second in product(STATES, BATCHES, BATCHES):
        yield Mixed(state, first, second)


class MixedRequests(Transactions):
    """Brings producers into a state, and sends one request for each."""

    def answer(self, case: Mixed) -> list[Any]:  # type: ignore[override]  # cases of its own
        """The error codes of both partitions, how much longer each is, and where the transactional id stands."""
        name = f"m-{self._run}-{next(self._numbers)}"
        self.find(name)
        known = self.brought_to(case.state, name)
        before = self._ends()
        batches = [self._batch(kind, known, index) for index, kind in enumerate((case.first, case.second))]
        data = [ProduceRequest.PartitionProduceData(index=index, records=batch) for index, batch in enumerate(batches)]
        topics = [ProduceRequest.TopicProduceData(name=TOPIC, partition_data=data)]
        response = self.ask(ProduceRequest(transactional_id=name, acks=-1, timeout_ms=10_000, topic_data=topics), VERSION)
        found = {part.index: error_name(part.error_code) for part in response.responses[0].partition_responses}
        growth = [after - start for after, start in zip(self._ends(), before, strict=True)]
        return [[found[0], found[1]], growth, self._stands(name, known)]

    def _batch(self, kind: str, known: Producer, index: int) -> bytes:
        who = known
        if kind == "plain":
            who = NOBODY
        elif kind == "idempotent":
            response = self.ask(InitProducerIdRequest(transactional_id=None), 4)
            assert response.error_code == NONE
            who = (response.producer_id, response.producer_epoch)
        elif kind == "of its next epoch":
            who = (known[0], known[1] + 1)
        elif kind == "of another transaction":
            name = f"o-{self._run}-{next(self._numbers)}"
            self.find(name)
            who = self._init(name)
        # Producers that have written wrote one record, to partition 0.
        sequence = 1 if kind == "of the transaction" and index == 0 and self._has_written else 0
        return bytes(
            build(
                None,
                [b"x"],
                1,
                producer_id=who[0],
                producer_epoch=who[1],
                base_sequence=-1 if who == NOBODY else sequence,
                transactional=kind.startswith("of") and not kind.endswith("plain"),
            )
        )

    def brought_to(self, state: str, name: str) -> Producer:
        self._has_written = state == "ongoing with epochs"
        return super().brought_to(state, name)

    def _ends(self) -> list[int]:
        parts = [ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in (0, 1)]
        topic = ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=parts)
        found = self.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 5).topics[0].partitions
        ends = {part.partition_index: int(part.offset) for part in found}
        return [ends[0], ends[1]]
