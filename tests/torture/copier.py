"""One copier, a process: `python -m tests.torture.copier ADDRESS NOTES LIFE TRANSACTIONAL_ID INSTANCE PROTOCOL SOURCE TARGETS`.

Copies what it polls to every topic of TARGETS (of which several, with commas), a transaction for each poll with the offsets inside,
and aborts one in five of its own accord. Each record that it writes says of which transaction it is, which of how many records, and
what it is a copy of. Before it commits it notes that it will, and afterwards that it has; a kill may come at any moment.
`tests/interop/java/Copier.java` does the same.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

GROUP = "copiers"
BATCH = 40
ABORTS = 0.2
TRANSACTION_TIMEOUT_MS = 10_000
CALL_TIMEOUT_S = 20.0
ATTEMPTS = 10
HANGS_S = 3 * CALL_TIMEOUT_S
"""Of a call that was given `CALL_TIMEOUT_S`: whatever brokers do, a client that goes on for so long has lost its way."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copier wrote: its life, the number of the transaction, which record of how many, and what it is a copy of."""

    life: str
    transaction: int
    index: int
    count: int
    partition: int
    offset: int
    value: bytes

    @classmethod
    def read(cls, data: bytes) -> Self:
        life, transaction, index, count, partition, offset, value = data.split(b" ", 6)
        return cls(life.decode(), int(transaction), int(index), int(count), int(partition), int(offset), value)

    def written(self) -> bytes:
        numbers = (self.transaction, self.index, self.count, self.partition, self.offset)
        return b" ".join([self.life.encode(), *(b"%d" % number for number in numbers), self.value])


def common(address: str) -> dict[str, Any]:
    """Settings of every client. librdkafka 2.16 forgets its brokers when none is there: it is told to keep them."""
    patience = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "metadata.recovery.strategy": "none"}
    return {"bootstrap.servers": address, **patience, "log_level": 0}


def insist(call: Callable[..., Any], *arguments: Any) -> Any:
    """The call's result; what can be tried again is. Raises KafkaException."""
    for _ in range(ATTEMPTS):
        try:
            return call(*arguments, CALL_TIMEOUT_S)
        except KafkaException as refused:
            if not refused.args[0].retriable():
                raise
    return call(*arguments, CALL_TIMEOUT_S)


def stretches(messages: list[Any]) -> str:
    """Of each partition the first and last offset, in the order that they came: "0:40-79 2:17-17"."""
    found: dict[int, list[int]] = {}
    for message in messages:
        found.setdefault(message.partition(), []).append(message.offset())
    return " ".join(f"{index}:{offsets[0]}-{offsets[-1]}" for index, offsets in found.items())


class Copier:
    """A consumer of the group and a producer of its own transactions."""

    def __init__(self, address: str, notes: str, life: str, transactional_id: str, instance: str, protocol: str) -> None:
        self._notes = os.open(notes, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        self._life, self._transaction, self._rebalanced = life, 0, False
        self._next: dict[int, int] = {}
        """Of each partition the offset of the record that comes next."""
        ids = {"transactional.id": transactional_id, "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}
        self._producer = Producer({**common(address), **ids, "linger.ms": 0})
        member: dict[str, Any] = {"group.id": GROUP, "group.protocol": protocol, "isolation.level": "read_committed"}
        if instance != "-":
            member["group.instance.id"] = instance
        if protocol == "classic":
            member |= {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}
        self._consumer = Consumer(
            {
                **common(address),
                **member,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.partition.eof": False,
            }
        )

    def note(self, line: str) -> None:
        os.write(self._notes, line.replace("\n", " ").encode() + b"\n")

    def serve(self, source: str, targets: list[str]) -> None:
        """Copy until told to stop. Raises KafkaException when this copier is of no more use, as when it is fenced."""
        going = [True]
        signal.signal(signal.SIGTERM, lambda number, frame: going.clear())
        insist(self._producer.init_transactions)
        self._consumer.subscribe([source], on_assign=self._note_rebalance, on_revoke=self._note_rebalance)
        while going:
            messages = [message for message in self._consumer.consume(BATCH, 0.2) if message.error() is None]
            if self._rebalanced:
                self._rebalanced = False
                self._rewind()
            elif messages and not (self._follow_on(messages) and self._copied(messages, targets)):
                self._rewind()
        self._consumer.close()

    def _follow_on(self, messages: list[Any]) -> bool:
        """Whether these begin where the last ones ended, or where this copier went back to; the source's offsets have no gaps.

        librdkafka may drop records of a batch, or go on from where it was, if its consumer is moved while leaders change.
        """
        for message in messages:
            index, offset = message.partition(), message.offset()
            if self._next.setdefault(index, offset) != offset:
                self.note(f"jumped {index}:{self._next[index]}-{offset}")
                return False
            self._next[index] = offset + 1
        return True

    def _note_rebalance(self, consumer: Any, partitions: Any) -> None:
        """What was polled before is dropped: some of it may be another's by now."""
        self._rebalanced = True

    def _copied(self, messages: list[Any], targets: list[str]) -> bool:
        """Whether a transaction with copies was committed. Raises KafkaException."""
        number, self._transaction = self._transaction, self._transaction + 1
        self._producer.begin_transaction()
        try:
            ends = self._write(messages, targets, number)
            insist(self._offsets_sent, ends, self._consumer.consumer_group_metadata())
            if random.random() < ABORTS:
                self._producer.flush(CALL_TIMEOUT_S)
                return self._abort(number, messages)
            self.note(f"commit {number} {len(messages) * len(targets)} {stretches(messages)}")
            insist(self._producer.commit_transaction)
        except KafkaException as refused:
            self.note(f"refused {refused.args[0].name()} {refused.args[0].str()}")
            if not refused.args[0].txn_requires_abort():
                raise
            return self._abort(number, messages)
        self.note(f"committed {number}")
        return True

    def _offsets_sent(self, ends: list[TopicPartition], member: Any, timeout_s: float) -> None:
        """Send them, or end this life. Raises KafkaException.

        Where the group's coordinator dies and is left out of the metadata, librdkafka 2.16 waits for it whatever the timeout, also
        once there is another one (https://github.com/confluentinc/librdkafka/issues/5511, 5456).
        """
        hanging = threading.Timer(HANGS_S, self._end_at_once)
        hanging.daemon = True
        hanging.start()
        try:
            self._producer.send_offsets_to_transaction(ends, member, timeout_s)
        finally:
            hanging.cancel()

    def _end_at_once(self) -> None:
        self.note("hung")
        os._exit(1)

    def _write(self, messages: list[Any], targets: list[str], number: int) -> list[TopicPartition]:
        """The positions after all that is copied."""
        ends: dict[int, TopicPartition] = {}
        index, count = 0, len(messages) * len(targets)
        for message in messages:
            for target in targets:
                copied = Copied(self._life, number, index, count, message.partition(), message.offset(), message.value())
                self._producer.produce(target, copied.written(), partition=message.partition())
                index += 1
            ends[message.partition()] = TopicPartition(message.topic(), message.partition(), message.offset() + 1)
        return list(ends.values())

    def _abort(self, number: int, messages: list[Any]) -> bool:
        self.note(f"abort {number} {stretches(messages)}")
        insist(self._producer.abort_transaction)
        self.note(f"aborted {number}")
        return False

    def _rewind(self) -> None:
        """To where the group has committed. A partition that is not fetched yet cannot be moved: again in the next turn."""
        self._next.clear()
        for place in insist(self._consumer.committed, self._consumer.assignment()):
            self.note(f"rewound {place.partition}:{place.offset}")
            self._next[place.partition] = max(place.offset, 0)
            try:
                self._consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))
            except KafkaException as refused:
                self.note(f"refused {refused.args[0].name()} {refused.args[0].str()}")
                self._rebalanced = True


def main() -> None:
    *who, source, targets = sys.argv[1:]
    address, notes, life, transactional_id, instance, protocol = who
    Copier(address, notes, life, transactional_id, instance, protocol).serve(source, targets.split(","))


if __name__ == "__main__":
    main()
