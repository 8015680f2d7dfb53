"""One member of a share group, a process: `python -m tests.torture.shares_member KIND ADDRESS NOTES SEED`.

Notes what it was delivered (`got`), which acknowledgement it sends (`try`) and which was confirmed (`done`), each with the time of
the machine's clock, before anything else happens to the record; a kill may come at any moment. What its client refuses is noted.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from confluent_kafka import AcknowledgeType, ShareConsumer

import ottla

TOPIC, GROUP = "jobs", "workers"
KINDS_OF = ("accept", "release", "reject")
SHARES = (0.85, 0.11, 0.04)
"""How often each kind of acknowledgement is chosen."""
POLL_MS = 200
PAUSE_S = 0.1
CONFIRMED_S = 5.0


class Delivered(NamedTuple):
    """A record in hand, and what its client needs to acknowledge it."""

    partition: int
    offset: int
    delivery_count: int
    handle: Any


class ShareMember(Protocol):
    """A client of either library. `confirm` is called with (partition, offsets, error)."""

    def poll(self) -> list[Delivered]: ...
    def acknowledge(self, record: Delivered, kind: str) -> None: ...
    def commit(self) -> None: ...
    def close(self) -> None: ...


Confirm = Callable[[int, Iterable[int], Any], None]


class ConfluentShareMember:
    """A member of confluent-kafka."""

    def __init__(self, address: str, confirm: Confirm) -> None:
        settings = {"bootstrap.servers": address, "group.id": GROUP, "share.acknowledgement.mode": "explicit", "log_level": 0}
        self._confirm = confirm
        self._consumer = ShareConsumer({**settings, "reconnect.backoff.max.ms": 200, "metadata.recovery.strategy": "none"})
        self._consumer.set_acknowledgement_commit_callback(self._confirmed)
        self._consumer.subscribe([TOPIC])

    def _confirmed(self, offsets: Any, failure: Any) -> None:
        for place, found in offsets.items():
            self._confirm(place.partition, found, failure)

    def poll(self) -> list[Delivered]:
        messages = [message for message in self._consumer.poll(POLL_MS / 1000) if not message.error()]
        return [Delivered(each.partition() or 0, each.offset() or 0, each.delivery_count() or 0, each) for each in messages]

    def acknowledge(self, record: Delivered, kind: str) -> None:
        self._consumer.acknowledge(record.handle, getattr(AcknowledgeType, kind.upper()))

    def commit(self) -> None:
        self._consumer.commit_sync(20)

    def close(self) -> None:
        self._consumer.close()


class OwnShareMember:
    """A member of Ottla's own client."""

    def __init__(self, address: str, confirm: Confirm) -> None:
        self._confirm = confirm
        self._consumer = ottla.ShareConsumer(
            TOPIC,
            bootstrap_servers=address,
            group_id=GROUP,
            share_acknowledgement_mode="explicit",
            on_acknowledged=lambda place, offsets, error: confirm(place.partition, offsets, error),
        )

    def poll(self) -> list[Delivered]:
        return [Delivered(each.partition, each.offset, each.delivery_count or 0, each) for each in self._consumer.poll(POLL_MS)]

    def acknowledge(self, record: Delivered, kind: str) -> None:
        self._consumer.acknowledge(record.handle, kind)  # type: ignore[arg-type]  # a name of a kind

    def commit(self) -> None:
        self._consumer.commit(20_000)

    def close(self) -> None:
        self._consumer.close()


MEMBERS: dict[str, Callable[[str, Confirm], ShareMember]] = {"ottla": OwnShareMember, "confluent-kafka": ConfluentShareMember}


class Worker:
    """Polls, acknowledges and notes, until it is told to stop."""

    def __init__(self, kind: str, address: str, notes: int, seed: int) -> None:
        self._notes, self._choice = notes, random.Random(seed)
        self._decided: dict[tuple[int, int], str] = {}
        self._member = self._opened(kind, address)

    def _opened(self, kind: str, address: str) -> ShareMember:
        while True:
            try:
                return MEMBERS[kind](address, self._confirmed)
            except Exception as refused:  # whatever it is: a broker that is away lets nobody begin
                self._note_refusal(refused)

    def _confirmed(self, partition: int, offsets: Iterable[int], error: Any) -> None:
        now = time.monotonic_ns()
        word = "done" if error is None else "failed"
        lines = [f"{word} {partition} {offset} {self._decided.pop((partition, offset), '?')} {now}\n" for offset in offsets]
        os.write(self._notes, "".join(lines).encode())

    def _note_refusal(self, refused: Exception) -> None:
        os.write(self._notes, f"refused {type(refused).__name__} {refused}".replace("\n", " ").encode() + b"\n")
        time.sleep(PAUSE_S)

    def serve(self) -> None:
        """Poll, note, acknowledge, until SIGTERM."""
        going = [True]
        signal.signal(signal.SIGTERM, lambda number, frame: going.clear())
        while going:
            try:
                self._work()
            except Exception as refused:  # such as an acknowledgement after the lock ended: others have the record then
                self._note_refusal(refused)
        self._member.close()

    def _work(self) -> None:
        records = self._member.poll()
        if not records:
            return
        now = time.monotonic_ns()
        got = "".join(f"got {each.partition} {each.offset} {each.delivery_count} {now}\n" for each in records)
        os.write(self._notes, got.encode())
        kinds = self._choice.choices(KINDS_OF, SHARES, k=len(records))
        self._decided |= {(each.partition, each.offset): kind for each, kind in zip(records, kinds, strict=True)}
        tried = "".join(f"try {each.partition} {each.offset} {kind}\n" for each, kind in zip(records, kinds, strict=True))
        os.write(self._notes, tried.encode())
        for each, kind in zip(records, kinds, strict=True):
            self._member.acknowledge(each, kind)
        try:
            self._member.commit()
        finally:
            self._wait_for_confirmations()

    def _wait_for_confirmations(self) -> None:
        """Wait until each acknowledgement was confirmed or has failed: a client may call back on a thread of its own, later."""
        deadline = time.monotonic() + CONFIRMED_S
        while self._decided and time.monotonic() < deadline:
            time.sleep(0.002)
        self._decided.clear()


def main() -> None:
    kind, address, path, seed = sys.argv[1:]
    notes = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.write(notes, f"began {time.monotonic_ns()}\n".encode())
    Worker(kind, address, notes, int(seed)).serve()


if __name__ == "__main__":
    main()
