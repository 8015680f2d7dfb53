"""A transactional id in each of its states, and what may be asked of it there: the error codes that a broker answers.

Each case has a transactional id of its own. Ids and epochs are told relative to those of before, so that brokers can be compared.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, NamedTuple

from bench import raw
from ottla.records.batches.builder import build
from ottla.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.api.describe_transactions import DescribeTransactionsRequest
from ottla.wire.api.end_txn import EndTxnRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.api.txn_offset_commit import TxnOffsetCommitRequest
from ottla.wire.errors import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NONE,
    NOT_COORDINATOR,
    error_name,
)
from ottla.wire.framing import FrameHeader, decode_response, encode_request
from ottla.wire.schema import Message

TOPIC, GROUP = "known", "group"
TIMEOUT_MS = 60_000
WAIT_S = 30.0
PASSING = (COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR)

Producer = tuple[int, int]

STATES = (
    "unknown",
    "empty",
    "empty anew",
    "ongoing",
    "ongoing with epochs",
    "committed",
    "aborted",
    "committed with epochs",
    "aborted with epochs",
    "aborted without records",
    "fenced",
)
WHO: dict[str, Callable[[Producer], Producer]] = {
    "itself": lambda known: known,
    "an epoch before": lambda known: (known[0], known[1] - 1),
    "an epoch ahead": lambda known: (known[0], known[1] + 1),
    "another producer": lambda known: (known[0] + 1_000_000, known[1]),
    "nobody": lambda known: (-1, -1),
    "half of nobody": lambda known: (known[0], -1),
}
"""As whom it is asked, from the id and epoch that the producer had last."""

ASKED = (
    "InitProducerId 0",
    "InitProducerId 4",
    "InitProducerId 4, no timeout",
    "InitProducerId 4, endless timeout",
    "AddPartitionsToTxn 0",
    "AddPartitionsToTxn 3",
    "AddPartitionsToTxn 3, one unknown",
    "AddPartitionsToTxn 4, verified",
    "AddPartitionsToTxn 5, added",
    "AddOffsetsToTxn 0",
    "AddOffsetsToTxn 4",
    "EndTxn 0, commit",
    "EndTxn 0, abort",
    "EndTxn 4, commit",
    "EndTxn 4, abort",
    "EndTxn 5, commit",
    "EndTxn 5, abort",
    "TxnOffsetCommit 0",
    "TxnOffsetCommit 3",
    "TxnOffsetCommit 4",
    "TxnOffsetCommit 5",
    "Produce 7",
    "Produce 11",
    "Produce 12",
    "Produce 12, other partition",
    "Produce 12, plain batch",
)


class Case(NamedTuple):
    """The state, what is asked, and as whom."""

    state: str
    asked: str
    who: str

    def __str__(self) -> str:
        return f"{self.state}: {self.asked} as {self.who}"


def cases() -> Iterator[Case]:
    for state in STATES:
        for asked in ASKED:
            for who in WHO:
                if who in ("nobody", "half of nobody") and not asked.startswith("InitProducerId"):
                    continue
                if state == "unknown" and who not in ("itself", "nobody"):
                    continue
                yield Case(state, asked, who)


class Transactions:
    """Brings transactional ids into a state, and asks one thing of each."""

    def __init__(self, address: str, run: str) -> None:
        self._connection = self.connected(address)
        self._numbers = count()
        self._run = run
        for first in ("first", "second"):  # one after the other makes the topic and finds its coordinators ready
            self.find(f"{first}-{run}")
            self._init(f"{first}-{run}")

    def connected(self, address: str) -> socket.socket:
        return raw.connect(address)

    def close(self) -> None:
        self._connection.close()

    def ask(self, body: Message, version: int) -> Any:
        key = type(body).WIRE.key
        frame = b"".join(encode_request(FrameHeader(key, version, 1, "raw"), body))
        self._connection.sendall(frame)
        return decode_response(key, version, raw.reply(self._connection))[1]

    def answer(self, case: Case) -> list[Any]:
        """What comes of a case: the answer, and where the transactional id stands afterwards."""
        name = f"t-{self._run}-{next(self._numbers)}"
        self.find(name)
        known = self.brought_to(case.state, name)
        return [self.met(case, name, known), self._stands(name, known)]

    def met(self, case: Case, name: str, known: Producer) -> list[Any]:
        """What is answered to what a case asks."""
        answer: list[Any] = getattr(self, f"_{case.asked.split()[0].lower()}")(name, case.asked, WHO[case.who](known), known)
        return answer

    def ongoing(self, name: str, *, with_epochs: bool) -> Producer:
        """Begin a transaction under a transactional id that nobody has used."""
        self.find(name)
        return self.brought_to("ongoing with epochs" if with_epochs else "ongoing", name)

    def find(self, name: str) -> None:
        def found() -> int:
            coordinators = self.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[name]), 4).coordinators
            return int(coordinators[0].error_code)

        self._patiently(found)

    def _patiently(self, act: Callable[[], int], passing: tuple[int, ...] = PASSING) -> int:
        end_s = time.monotonic() + WAIT_S
        while (error_code := act()) in passing:
            if time.monotonic() > end_s:
                raise TimeoutError(f"still {error_name(error_code)} after {WAIT_S} s")
            time.sleep(0.005)
        return error_code

    def _init(self, name: str) -> Producer:
        got: list[Producer] = []

        def act() -> int:
            response = self.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TIMEOUT_MS), 4)
            got.append((response.producer_id, response.producer_epoch))
            return int(response.error_code)

        assert self._patiently(act, (*PASSING, CONCURRENT_TRANSACTIONS)) == NONE
        return got[-1]

    def brought_to(self, state: str, name: str) -> Producer:
        if state == "unknown":
            return 1, 1
        known = self._init(name)
        if state == "empty":
            return known
        known = self._init(name)
        if state == "empty anew":
            return known
        if state == "aborted without records":
            return self._ended(name, known, 5, committed=False)
        if state in ("ongoing with epochs", "committed with epochs", "aborted with epochs"):
            assert self._produced(name, known, 12) == NONE
        else:
            assert self._added(name, known, 3) == [NONE]
        if state.startswith("ongoing"):
            return known
        if state == "fenced":
            self.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TIMEOUT_MS), 4)
            self._wait_for_the_end(name)
            return known
        return self._ended(name, known, 5 if state.endswith("epochs") else 4, committed=state.startswith("committed"))

    def _ended(self, name: str, known: Producer, version: int, *, committed: bool) -> Producer:
        response = self.ask(
            EndTxnRequest(transactional_id=name, producer_id=known[0], producer_epoch=known[1], committed=committed), version
        )
        assert response.error_code == NONE
        self._wait_for_the_end(name)
        return (response.producer_id, response.producer_epoch) if version >= 5 else known

    def _wait_for_the_end(self, name: str) -> None:
        end_s = time.monotonic() + WAIT_S
        while self.described(name).transaction_state.startswith("Prepare"):
            assert time.monotonic() < end_s, "the markers are written"
            time.sleep(0.005)

    def described(self, name: str) -> Any:
        return self.ask(DescribeTransactionsRequest(transactional_ids=[name]), 0).transaction_states[0]

    def _stands(self, name: str, known: Producer) -> list[Any]:
        self._wait_for_the_end(name)
        state = self.described(name)
        if state.error_code:
            return [error_name(state.error_code)]
        topics = [[topic.topic, sorted(topic.partitions)] for topic in state.topics if topic.topic == TOPIC]
        began = state.transaction_start_time_ms > 0
        same = relative((state.producer_id, state.producer_epoch), known)
        return [state.transaction_state, *same, state.transaction_timeout_ms, began, topics]

    def _initproducerid(self, name: str, asked: str, who: Producer, known: Producer) -> list[Any]:
        timeout_ms = {"no timeout": 0, "endless timeout": 2**31 - 1}.get(asked.partition(", ")[2], TIMEOUT_MS)
        body = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=timeout_ms)
        version = _version(asked)
        if version >= 3:
            body.producer_id, body.producer_epoch = who
        response = self.ask(body, version)
        if response.error_code:
            return [error_name(response.error_code), response.producer_id, response.producer_epoch]
        return ["NONE", *relative((response.producer_id, response.producer_epoch), known)]

    def _addpartitionstotxn(self, name: str, asked: str, who: Producer, known: Producer) -> list[Any]:
        version = _version(asked)
        topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=TOPIC, partitions=[1])]
        if asked.endswith("one unknown"):
            topics[0].partitions.append(77)
        if version < 4:
            return sorted(error_name(code) for code in self._added(name, who, version, topics))
        transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=who[0],
            producer_epoch=who[1],
            verify_only=asked.endswith("verified"),
            topics=topics,
        )
        response = self.ask(AddPartitionsToTxnRequest(transactions=[transaction]), version)
        found = [error_name(response.error_code)]
        for result in response.results_by_transaction:
            found += [error_name(part.partition_error_code) for each in result.topic_results for part in each.results_by_partition]
        return found

    def _added(self, name: str, who: Producer, version: int, topics: list[Any] | None = None) -> list[int]:
        body = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=who[0],
            v3_and_below_producer_epoch=who[1],
            v3_and_below_topics=topics or [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
        )
        results = self.ask(body, version).results_by_topic_v3_and_below
        return [part.partition_error_code for each in results for part in each.results_by_partition]

    def _addoffsetstotxn(self, name: str, asked: str, who: Producer, known: Producer) -> list[Any]:
        body = AddOffsetsToTxnRequest(transactional_id=name, producer_id=who[0], producer_epoch=who[1], group_id=GROUP)
        return [error_name(self.ask(body, _version(asked)).error_code)]

    def _endtxn(self, name: str, asked: str, who: Producer, known: Producer) -> list[Any]:
        body = EndTxnRequest(transactional_id=name, producer_id=who[0], producer_epoch=who[1], committed=asked.endswith("commit"))
        response = self.ask(body, _version(asked))
        if response.error_code or _version(asked) < 5:
            return [error_name(response.error_code), response.producer_id, response.producer_epoch]
        return ["NONE", *relative((response.producer_id, response.producer_epoch), known)]

    def _txnoffsetcommit(self, name: str, asked: str, who: Producer, known: Producer) -> list[Any]:
        part = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        body = TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=f"{GROUP}-{name}",
            producer_id=who[0],
            producer_epoch=who[1],
            topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[part])],
        )
        found: list[int] = []

        def act() -> int:
            response = self.ask(body, _version(asked))
            found[:] = [part.error_code for topic in response.topics for part in topic.partitions]
            return found[0]

        self._patiently(act)
        return [error_name(code) for code in found]

    def _produce(self, name: str, asked: str, who: Producer, known: Producer) -> list[Any]:
        index = 1 if asked.endswith("other partition") else 0
        plain = asked.endswith("plain batch")
        return [error_name(self._produced(name, who, _version(asked), index, transactional=not plain))]

    def _produced(self, name: str, who: Producer, version: int, index: int = 0, *, transactional: bool = True) -> int:
        records = bytes(
            build(None, [b"x"], 1, producer_id=who[0], producer_epoch=who[1], base_sequence=0, transactional=transactional)
        )
        data = ProduceRequest.PartitionProduceData
        body = ProduceRequest(
            transactional_id=name,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[data(index=index, records=records)])],
        )
        response = self.ask(body, version)
        return int(response.responses[0].partition_responses[0].error_code)


def _version(asked: str) -> int:
    return int(asked.partition(",")[0].split()[1])


def relative(got: Producer, known: Producer) -> list[Any]:
    """The same id or another, and how far the epoch has moved."""
    if got[0] != known[0]:
        return ["another id", got[1]]
    return ["same id", got[1] - known[1]]
