"""One client of Ottla, a process: `python -m tests.torture.clients_process KIND ADDRESS NOTES NAME PROTOCOL`.

A `writer` writes numbers and notes which of them were acknowledged. A `member` of group NAME notes each record that it was handed
out, and only then commits. A `copier` copies each record in transactions that commit its offsets, too. A kill may come at any time.
What a client refuses while brokers and members are away is noted, and tried again.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import ottla

SOURCE, COPIES = "numbers", "copies"
PARTITIONS = 4
SESSION_MS = 3_000
PAUSE_S = 0.05
RATE = 300
"""The records that a writer sends in a second."""


def common(address: str) -> dict[str, Any]:
    return {"bootstrap_servers": address, "reconnect_backoff_max_ms": 200, "retry_backoff_ms": 50, "request_timeout_ms": 10_000}


class Notes:
    """What a process has noted. Each line is written at once, so that a kill leaves all that were noted before."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def note(self, *lines: str) -> None:
        os.write(self._file, "".join(f"{line}\n" for line in lines).encode())

    def refuse(self, error: Exception) -> None:
        """Note an error, and pause."""
        kind = error.name if isinstance(error, ottla.BrokerError) else type(error).__name__
        self.note(f"refused {kind} {error}".replace("\n", " "))
        time.sleep(PAUSE_S)


class Stopping:
    """Is true once the process was told to stop."""

    def __init__(self) -> None:
        self._told = False
        signal.signal(signal.SIGTERM, self._tell)

    def _tell(self, *_: object) -> None:
        self._told = True

    def __bool__(self) -> bool:
        return self._told


def runs(records: Sequence[ottla.ConsumerRecord]) -> list[str]:
    """Return a line for each run of records without a gap."""
    found: list[list[int]] = []
    for record in records:
        if found and found[-1][0] == record.partition and found[-1][2] + 1 == record.offset:
            found[-1][2] = record.offset
        else:
            found.append([record.partition, record.offset, record.offset])
    return [f"got {partition} {first} {last}" for partition, first, last in found]


def opened(kind: Callable[..., Any], notes: Notes, *arguments: object, **settings: Any) -> Any:
    """Return a client. Some do not begin while brokers are away."""
    while True:
        try:
            return kind(*arguments, **settings)
        except ottla.KafkaError as error:
            notes.refuse(error)


def write(address: str, notes: Notes, name: str, stopping: Stopping) -> None:
    def note(delivery: ottla.Delivery, partition: int, number: int) -> None:
        try:
            delivery.result(0)
        except ottla.KafkaError as error:
            notes.note(f"failed {partition} {number} {type(error).__name__} {error}")
        else:
            notes.note(f"ack {partition} {number}")

    with opened(ottla.Producer, notes, **common(address), delivery_timeout_ms=120_000) as producer:
        for number in itertools.count():
            if stopping:
                break
            partition = number % PARTITIONS
            value = f"{name} {number}".encode()
            try:
                producer.send(
                    SOURCE,
                    value,
                    partition=partition,
                    on_delivery=lambda done, partition=partition, number=number: note(done, partition, number),
                )
            except ottla.KafkaError as error:
                notes.note(f"unsent {number}")
                notes.refuse(error)
            producer.poll()
            time.sleep(1 / RATE)


def in_group(address: str, notes: Notes, group: str, protocol: str) -> ottla.Consumer:
    settings = {**common(address), "group_id": group, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    if protocol == "classic":
        settings |= {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": 300}
    made: ottla.Consumer = opened(ottla.Consumer, notes, SOURCE, group_protocol=protocol, **settings)
    return made


def read(address: str, notes: Notes, group: str, protocol: str, stopping: Stopping) -> None:
    with in_group(address, notes, group, protocol) as consumer:
        while not stopping:
            try:
                if records := consumer.poll(200):
                    notes.note(*runs(records))
                    consumer.commit()
            except ottla.KafkaError as error:
                notes.refuse(error)


class Copier:
    """Copies what its consumer is handed out, in transactions."""

    def __init__(self, address: str, notes: Notes, name: str, protocol: str) -> None:
        self._address, self._notes, self._name = address, notes, name
        self._consumer = in_group(address, notes, "copiers", protocol)
        self._producer = self._new_producer()
        self._is_open = False

    def _new_producer(self) -> ottla.Producer:
        settings = {**common(self._address), "transactional_id": self._name, "transaction_timeout_ms": 10_000}
        made: ottla.Producer = opened(ottla.Producer, self._notes, **settings)
        return made

    def copy(self, stopping: Stopping) -> None:
        while not stopping:
            try:
                if records := self._consumer.poll(200):
                    self._copy(records)
            except ottla.KafkaError as error:
                self._notes.refuse(error)
                self._begin_anew(error)
        self._consumer.close()
        self._producer.close()

    def _copy(self, records: Sequence[ottla.ConsumerRecord]) -> None:
        self._producer.begin_transaction()
        self._is_open = True
        for record in records:
            value = b"%d %d " % (record.partition, record.offset) + (record.value or b"")
            self._producer.send(COPIES, value, partition=record.partition)
        self._producer.send_offsets(self._consumer.positions(), self._consumer)
        while True:
            try:
                self._producer.commit_transaction()
            except (ottla.TimedOut, ottla.ConnectionFailed) as error:
                self._notes.refuse(error)  # it may be committed: only the same call says so
            else:
                break
        self._is_open = False
        self._notes.note(*(line.replace("got", "copied") for line in runs(records)))

    def _begin_anew(self, error: ottla.KafkaError) -> None:
        """End the transaction, with another producer if this one cannot continue, and go back to what is committed."""
        while True:
            try:
                if isinstance(error, ottla.TransactionFailed):
                    with suppress(ottla.KafkaError):
                        self._producer.close(timeout_ms=0)
                    self._producer = self._new_producer()
                elif self._is_open:
                    self._producer.abort_transaction()
                self._is_open = False
                self._consumer.seek_to_committed()
            except ottla.KafkaError as again:
                self._notes.refuse(again)
                error = again
            else:
                return


def main() -> None:
    kind, address, path, name, protocol = sys.argv[1:]
    notes, stopping = Notes(path), Stopping()
    if kind == "writer":
        write(address, notes, name, stopping)
    elif kind == "member":
        read(address, notes, name, protocol, stopping)
    else:
        Copier(address, notes, name, protocol).copy(stopping)


if __name__ == "__main__":
    main()
