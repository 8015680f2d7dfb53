"""Transactional ids whose markers are held back, and what may be asked of them there: the error codes that a broker answers.

The transaction of each has a partition that takes no marker: its leader is away. Knows Apache Kafka as two nodes, of which one is
away, and Ottla as a machine with a partition offline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.apache_kafka import ApacheKafka
from ottla.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.end_txn import EndTxnRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.errors import CONCURRENT_TRANSACTIONS, COORDINATOR_NOT_AVAILABLE, NONE
from ottla.wire.schema import Message
from tests.support.machine import Machine
from tests.support.transaction_cases import ASKED, PASSING, TOPIC, WHO, Case, Producer, Transactions

AWAY = "away"
"""The topic whose only partition takes no markers."""
HELD = (
    "committing",
    "aborting",
    "committing with epochs",
    "aborting with epochs",
    "fencing",
    "timing out",
)
LONG_MS = 3_600_000
HERE, THERE = 1, 2
TIMED_OUT_MS = 300


def held_cases() -> Iterator[Case]:
    for state in HELD:
        for asked in ASKED:
            for who in WHO:
                if who not in ("nobody", "half of nobody") or asked.startswith("InitProducerId"):
                    yield Case(state, asked, who)


class HeldTransactions(Transactions):
    """Transactional ids that are asked something while the markers of their last transaction are written."""

    is_ready = False

    def ready(self, group: str = "any") -> None:
        """Have coordinators of groups as well. What is answered from now on is meant, even if a client would try again."""
        self._patiently(
            lambda: int(self.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4).coordinators[0].error_code)
        )
        assert self._txnoffsetcommit(group, "TxnOffsetCommit 3", (1, 1), (1, 1)) == ["INVALID_PRODUCER_ID_MAPPING"]
        self.is_ready = True

    def _patiently(self, act: Callable[[], int], passing: tuple[int, ...] = PASSING) -> int:
        return super()._patiently(act, tuple(code for code in passing if code != COORDINATOR_NOT_AVAILABLE or not self.is_ready))

    def brought_to(self, state: str, name: str) -> Producer:
        if state == "timing out":
            return self._timing_out(name)
        if state not in HELD:
            return super().brought_to(state, name)
        self._init(name)
        known = self._init(name)
        self._hold(name, known)
        if state == "fencing":
            again = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
            assert self.ask(again, 4).error_code == CONCURRENT_TRANSACTIONS
            self._wait_for_the_other(name)
            return known
        version = 5 if state.endswith("with epochs") else 4
        body = EndTxnRequest(
            transactional_id=name, producer_id=known[0], producer_epoch=known[1], committed=state.startswith("committing")
        )
        response = self.ask(body, version)
        assert response.error_code == NONE
        self._wait_for_the_other(name)
        return (response.producer_id, response.producer_epoch) if version >= 5 else known

    def _hold(self, name: str, known: Producer) -> None:
        topics = [
            AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0]),
            AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=AWAY, partitions=[0]),
        ]
        assert self._added(name, known, 3, topics) == [NONE, NONE]

    def _timing_out(self, name: str) -> Producer:
        self._init(name)
        response = self.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TIMED_OUT_MS), 4)
        known = response.producer_id, response.producer_epoch
        self._hold(name, known)
        end_s = time.monotonic() + 30
        while self.described(name).transaction_state == "Ongoing":
            assert time.monotonic() < end_s, "it is over"
            self.rest()
        self._wait_for_the_other(name)
        return known

    def _wait_for_the_other(self, name: str) -> None:
        """Wait until the partition that is not held back has its marker: Kafka describes only those that have none yet."""
        end_s = time.monotonic() + 30
        while any(topic.topic == TOPIC for topic in self.described(name).topics):
            assert time.monotonic() < end_s, "nothing holds it back"
            time.sleep(0.002)

    def rest(self) -> None:
        """Let a little time pass."""
        time.sleep(0.02)

    def _wait_for_the_end(self, name: str) -> None:
        """Wait for nothing: the end does not come."""

    def _stands(self, name: str, known: Producer) -> list[Any]:
        """Leave the partitions out: Ottla describes them until all have their markers."""
        return super()._stands(name, known)[:-1]

    def create(self, topic: str, replicas: list[list[int]]) -> None:
        """Make a topic with these replicas of its partitions, and wait until it is known."""
        of = CreateTopicsRequest
        assigned = [of.CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in enumerate(replicas)]
        wanted = of.CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1, assignments=assigned)
        assert [each.error_code for each in self.ask(of(topics=[wanted]), 7).topics] == [NONE]
        end_s = time.monotonic() + 30
        while True:
            [found] = self.ask(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)]), 12).topics
            if not found.error_code and [each.leader_id for each in found.partitions] == [ids[0] for ids in replicas]:
                return
            assert time.monotonic() < end_s, "the topic is known"
            self.rest()


class InOneProcess(HeldTransactions):
    """The same of an Ottla in this process, whose time passes when it is asked."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        super().__init__("", "0")

    def connected(self, address: str) -> None:  # type: ignore[override]  # there is no network
        return None

    def close(self) -> None:
        """There is no connection."""

    def ask(self, body: Message, version: int) -> Any:
        return self._machine.ask(type(body).WIRE.key, version, body)

    def _wait_for_the_other(self, name: str) -> None:
        """It has its marker by now."""

    def rest(self) -> None:
        self._machine.pass_time(TIMED_OUT_MS)


@contextmanager
def held_ottla() -> Iterator[HeldTransactions]:
    """Ottla with a partition that is offline."""
    machine = Machine(
        transaction_state_log_num_partitions=3,
        offsets_topic_num_partitions=3,
        transaction_abort_timed_out_transaction_cleanup_interval_ms=200,
    )
    transactions = InOneProcess(machine)
    transactions.create(TOPIC, [[HERE], [HERE]])
    transactions.create(AWAY, [[HERE]])
    transactions.ready()
    away = machine.broker.partitions.get(AWAY, 0)
    assert away is not None
    away.fail_offline("held back")
    yield transactions


class Other(ApacheKafka):
    """A second node beside a first one: a broker that is no controller."""

    def __init__(self, first: ApacheKafka, home: Path) -> None:
        self._first = first
        super().__init__(home, first.settings)

    def configuration(self) -> dict[str, object]:
        return {
            **super().configuration(),
            "process.roles": "broker",
            "node.id": THERE,
            "controller.quorum.voters": self._first.configuration()["controller.quorum.voters"],
            "listeners": f"PLAINTEXT://{self.address}",
        }

    def format(self) -> None:
        """Make the data directory with the first one's cluster id."""
        self.home.mkdir(parents=True, exist_ok=True)
        properties = self.home / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self.configuration().items()))
        if not (self.home / "data").exists():
            known = (self._first.home / "data" / "meta.properties").read_text()
            identity = next(line.partition("=")[2] for line in known.splitlines() if line.startswith("cluster.id="))
            self._tool("kafka.tools.StorageTool", "format", "-t", identity, "-c", str(properties))


@contextmanager
def held_kafka(home: Path) -> Iterator[HeldTransactions]:
    """Apache Kafka with a partition whose leader was killed, and is not missed for an hour."""
    settings = {
        "broker.session.timeout.ms": LONG_MS,
        "replica.lag.time.max.ms": LONG_MS,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
        "transaction.state.log.num.partitions": 3,
        "offsets.topic.num.partitions": 3,
    }
    with ApacheKafka(home / "here", settings) as here:
        transactions = HeldTransactions(here.address, f"{time.time_ns():x}")
        transactions.create(TOPIC, [[HERE], [HERE]])
        transactions.ready()
        with Other(here, home / "there") as there:
            transactions.create(AWAY, [[THERE]])
            there.kill()
            yield transactions
        transactions.close()
