"""Transactional ids of which a decision is not durable yet, and what is asked of them meanwhile: what comes of it in the end.

Kafka answers CONCURRENT_TRANSACTIONS until replicas have the decision, or goes by what was before it; Ottla goes by the decision at
once, and keeps its answer back until that is durable.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import raw
from bench.apache_kafka import ApacheKafka
from ottla.broker.serving.purgatory import DelayedReply
from ottla.cluster.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.api.end_txn import EndTxnRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.framing import FrameHeader, decode_response, encode_request
from ottla.wire.schema import Message
from tests.support.held_cases import HERE, LONG_MS, THERE, HeldTransactions, InOneProcess, Other
from tests.support.machine import Machine
from tests.support.transaction_cases import ASKED, TIMEOUT_MS, TOPIC, WHO, Case, Producer

KEYS = {
    "InitProducerId": 22,
    "AddPartitionsToTxn": 24,
    "AddOffsetsToTxn": 25,
    "EndTxn": 26,
    "TxnOffsetCommit": 28,
    "Produce": 0,
}

UNDECIDED = {
    "initialising": "empty",
    "fencing": "ongoing",
    "beginning": "empty",
    "adding": "ongoing",
    "committing": "ongoing",
    "aborting": "ongoing",
    "committing with epochs": "ongoing with epochs",
    "aborting with epochs": "ongoing with epochs",
}
"""What is not durable yet, and in which state the id was before."""
RETRIED = (
    "CONCURRENT_TRANSACTIONS",
    "NOT_ENOUGH_REPLICAS",
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "NOT_COORDINATOR",
)


def pending_cases(state: str) -> list[Case]:
    """Every case of a state. Most of what others may ask is judged before anything else, whatever is pending."""
    return [
        Case(state, asked, who)
        for asked in ASKED
        for who in WHO
        if "nobody" not in who and who != "another producer" and not asked.endswith("plain batch")
    ]


def first_request(state: str, name: str, known: Producer) -> tuple[Message, int]:
    """The request whose decision is held back, and its version."""
    if state in ("initialising", "fencing"):
        return InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TIMEOUT_MS), 4
    if state in ("beginning", "adding"):
        topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0, 1])]
        body = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=known[0],
            v3_and_below_producer_epoch=known[1],
            v3_and_below_topics=topics,
        )
        return body, 3
    committed = state.startswith("committing")
    ended = EndTxnRequest(transactional_id=name, producer_id=known[0], producer_epoch=known[1], committed=committed)
    return ended, 5 if state.endswith("with epochs") else 4


def is_retried(answer: list[Any]) -> bool:
    """Return whether a client asks again after such an answer."""
    return any(code in RETRIED for code in answer)


class Waits(Exception):
    """There is no answer yet; `delayed` is the reply that will come."""

    def __init__(self, delayed: DelayedReply) -> None:
        super().__init__()
        self.delayed = delayed


class PendingTransactions(HeldTransactions, ABC):
    """Asks a broker that can make nothing durable for a while."""

    def answers(self, cases: list[Case], run: str, *, is_late: bool = False) -> dict[str, list[Any]]:
        """Return what comes of cases of one state: the answer in the end, and where the transactional id stands then.

        They are asked while nothing can be made durable, or, `is_late`, once all is.
        """
        names = {case: f"p-{run}-{number}" for number, case in enumerate(cases)}
        known = {case: self._brought(case, name) for case, name in names.items()}
        self.hold()
        for case, name in names.items():
            self.send(name, *first_request(case.state, name, known[case]))
        self.rest()
        met = {} if is_late else {case: self.met_now(case, name, known[case]) for case, name in names.items()}
        self.release()
        found = {}
        for case, name in names.items():
            self.answered(name)
            self._wait_for_the_end(name)
            answer = self.met_late(case, name, known[case], met[case]) if met else self.met(case, name, known[case])
            while is_retried(answer):
                self.rest()
                answer = self.met(case, name, known[case])
            found[str(case)] = [answer, self._stands(name, known[case])]
        return found

    def _brought(self, case: Case, name: str) -> Producer:
        self.find(name)
        return self.brought_to(UNDECIDED[case.state], name)

    def _wait_for_the_end(self, name: str) -> None:
        end_s = time.monotonic() + 30
        while self.described(name).transaction_state.startswith("Prepare"):
            assert time.monotonic() < end_s, "the markers are written"
            self.rest()

    @abstractmethod
    def hold(self) -> None:
        """Let nothing become durable from now on."""

    @abstractmethod
    def release(self) -> None:
        """Let all become durable."""

    @abstractmethod
    def send(self, name: str, body: Message, version: int) -> None:
        """Send a request, and wait for no answer."""

    @abstractmethod
    def answered(self, name: str) -> None:
        """Wait for the answer to what was sent about an id."""

    def met_now(self, case: Case, name: str, known: Producer) -> Any:
        """Return what is answered at once, or what is waited for."""
        return self.met(case, name, known)

    def met_late(self, case: Case, name: str, known: Producer, met: Any) -> list[Any]:
        """Return what is answered when all is durable."""
        answer: list[Any] = met
        return answer


class Stalled(Machine):
    """A broker whose disk syncs nothing while it `is_held`."""

    is_held = False

    def settle(self) -> None:
        if self.is_held:
            self.broker.finish_bundle(self.clock.now())
        else:
            super().settle()


class PendingInside(PendingTransactions, InOneProcess):
    """The same of an Ottla in this process."""

    def __init__(self) -> None:
        self._stalled = Stalled(transaction_state_log_num_partitions=3, offsets_topic_num_partitions=3)
        self._late: list[Any] = []
        InOneProcess.__init__(self, self._stalled)
        self.create(TOPIC, [[HERE], [HERE]])
        self.ready()

    def ask(self, body: Message, version: int) -> Any:
        if self._late:
            return self._late.pop()
        if not self._stalled.is_held:
            return super().ask(body, version)
        key = type(body).WIRE.key
        answer = self._stalled.begin(key, version, body)
        for _ in range(3):
            if isinstance(answer, DelayedReply) and not answer.done:
                self._stalled.pass_time(100)
        if isinstance(answer, DelayedReply) and not answer.done:
            raise Waits(answer)
        return self._stalled.finish(key, version, answer) if isinstance(answer, DelayedReply) else answer

    def hold(self) -> None:
        self._stalled.is_held = True

    def release(self) -> None:
        self._stalled.is_held = False
        for _ in range(20):
            self._stalled.pass_time(100)

    def send(self, name: str, body: Message, version: int) -> None:
        try:
            self.ask(body, version)
        except Waits:
            return
        raise AssertionError("it has to wait")

    def answered(self, name: str) -> None:
        """It is by now."""

    def met_now(self, case: Case, name: str, known: Producer) -> Any:
        try:
            return self.met(case, name, known)
        except Waits as waits:
            return waits

    def met_late(self, case: Case, name: str, known: Producer, met: Any) -> list[Any]:
        if not isinstance(met, Waits):
            answer: list[Any] = met
            return answer
        self._late.append(
            self._stalled.finish(KEYS[case.asked.split()[0]], int(case.asked.partition(",")[0].split()[1]), met.delayed)
        )
        return self.met(case, name, known)


class PendingKafka(PendingTransactions):
    """The same of an Apache Kafka whose log of transactions has another replica, which is stopped."""

    def __init__(self, address: str, other: ApacheKafka) -> None:
        self._address, self._other = address, other
        self._sent: dict[str, tuple[socket.socket, int, int]] = {}
        super().__init__(address, f"{time.time_ns():x}")

    def connected(self, address: str) -> socket.socket:
        """Make topics before the first question has internal ones made: the log of transactions is led here."""
        self._connection = super().connected(address)
        self.create(TRANSACTIONS_TOPIC, [[HERE, THERE]] * 3)
        self.create(OFFSETS_TOPIC, [[HERE]] * 3)
        self.create(TOPIC, [[HERE], [HERE]])
        return self._connection

    def hold(self) -> None:
        os.kill(self._other.pid, signal.SIGSTOP)

    def release(self) -> None:
        os.kill(self._other.pid, signal.SIGCONT)

    def send(self, name: str, body: Message, version: int) -> None:
        connection, key = raw.connect(self._address), type(body).WIRE.key
        connection.sendall(b"".join(encode_request(FrameHeader(key, version, 1, "raw"), body)))
        self._sent[name] = connection, key, version

    def answered(self, name: str) -> None:
        connection, key, version = self._sent.pop(name)
        decode_response(key, version, raw.reply(connection))
        connection.close()


@contextmanager
def pending_kafka(home: Path) -> Iterator[PendingTransactions]:
    settings = {
        "broker.session.timeout.ms": LONG_MS,
        "replica.lag.time.max.ms": LONG_MS,
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.num.partitions": 3,
    }
    with ApacheKafka(home / "here", settings) as here, Other(here, home / "there") as there:
        transactions = PendingKafka(here.address, there)
        transactions.ready()
        yield transactions
        transactions.close()
