"""One member of a group, a process: `python -m tests.torture.groups_member KIND ADDRESS NOTES [TOPIC GROUP [INSTANCE]]`.

Notes each run of records that it has in hand (`got partition first last`), and only then commits; a kill may come at any moment.
What its client refuses (a commit after it lost its partitions, a broker that is away) is noted and tried again with the next poll.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable

from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor as KafkaPythonRange

from tests.support.clients.aio import AioKafkaMember
from tests.support.clients.confluent import ConfluentMember
from tests.support.clients.face import GivenUp, Member, Message
from tests.support.clients.kafka_python import KafkaPythonMember
from tests.support.clients.own import OwnMember

TOPIC = "shared"
GROUP = "tortured"
SESSION_MS = 6_000
PAUSE_S = 0.2


class AioKafka(AioKafkaMember):
    """As all others, it shares by ranges."""

    def open(self) -> None:
        self._settings |= {"partition_assignment_strategy": (RangePartitionAssignor,), "session_timeout_ms": SESSION_MS}
        super().open()


class KafkaPython(KafkaPythonMember):
    def open(self) -> None:
        self._settings |= {"partition_assignment_strategy": [KafkaPythonRange], "session_timeout_ms": SESSION_MS}
        self._settings |= {"metadata_max_age_ms": 5_000}
        super().open()


class Confluent(ConfluentMember):
    def open(self) -> None:
        self._settings |= {"partition.assignment.strategy": "range", "session.timeout.ms": SESSION_MS, "log_level": 0}
        super().open()


class ConfluentConsumer(ConfluentMember):
    """Of the consumer group protocol (KIP-848), where the broker shares out and says how often it wants to hear of members."""

    def open(self) -> None:
        del self._settings["session.timeout.ms"], self._settings["heartbeat.interval.ms"]
        self._settings |= {"group.protocol": "consumer", "log_level": 0}
        super().open()


class Own(OwnMember):
    def open(self) -> None:
        self._settings |= {"partition_assignment_strategy": "range", "session_timeout_ms": SESSION_MS}
        super().open()


KINDS: dict[str, Callable[[str, str, str], Member]] = {
    "confluent-kafka": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": AioKafka,
    "ottla": Own,
    "confluent-kafka-consumer": ConfluentConsumer,
}


def runs(messages: Iterable[Message]) -> list[tuple[int, int, int]]:
    """(partition, first offset, last offset) of records that follow each other without a gap."""
    found: list[tuple[int, int, int]] = []
    for message in messages:
        if found and found[-1][0] == message.partition and found[-1][2] + 1 == message.offset:
            found[-1] = (message.partition, found[-1][1], message.offset)
        else:
            found.append((message.partition, message.offset, message.offset))
    return found


def opened(kind: str, address: str, notes: int, topic: str = TOPIC, group: str = GROUP, instance: str = "") -> Member:
    """A member, a static one if `instance` names it; some clients do not begin while the broker is away."""
    while True:
        member = KINDS[kind](address, topic, group)
        if instance:
            member.be_static(instance)
        try:
            member.open()
            return member
        except Exception as refused:
            note_refusal(notes, refused)


def note_refusal(notes: int, refused: Exception) -> None:
    os.write(notes, f"refused {type(refused).__name__} {refused}".replace("\n", " ").encode() + b"\n")
    time.sleep(PAUSE_S)


def serve(member: Member, notes: int) -> None:
    """Poll, note, commit, until told to stop. Raises `GivenUp`."""
    going = [True]
    signal.signal(signal.SIGTERM, lambda number, frame: going.clear())
    while going:
        try:
            messages = member.poll()
            if messages:
                os.write(notes, b"".join(b"got %d %d %d\n" % run for run in runs(messages)))
                member.commit()
        except GivenUp:
            raise  # such as a static member that was away for too long and then committed without its id: somebody starts it anew
        except Exception as refused:
            note_refusal(notes, refused)


def main() -> None:
    kind, address, path, *what = sys.argv[1:]
    notes = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    member = opened(kind, address, notes, *what)
    serve(member, notes)
    member.close()


if __name__ == "__main__":
    main()
