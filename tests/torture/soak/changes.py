"""What is done to topics and groups meanwhile: records deleted by request, a topic made anew, groups that come and go."""

from __future__ import annotations

import math
import random
import threading
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.delete_records import DeleteRecordsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.errors import NONE, TOPIC_ALREADY_EXISTS, UNKNOWN_TOPIC_OR_PARTITION, error_name
from tests.torture.soak.clock import Clock
from tests.torture.soak.kinds import RENEWED, Goes
from tests.torture.soak.ledger import Ledger
from tests.torture.soak.wire import Away, Wire

OFFSET_COMMIT, OFFSET_FETCH, CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS, DELETE_GROUPS = 8, 9, 19, 20, 21, 42
TO_THE_END = -1
WAIT_S = 20
RECORDS = 50


class Refused(Exception):
    """The broker answered with an error, or a reader got nothing."""


class Change(threading.Thread):
    """Does one thing again and again until `stopping` is set. What is refused while the broker is away is counted."""

    pause_s = 2.0

    def __init__(self, address: str, choice: random.Random) -> None:
        super().__init__(name=type(self).__name__.lower(), daemon=True)
        self.address, self.choice = address, choice
        self.stopping = threading.Event()
        self.faults: list[str] = []
        self.refused: Counter[str] = Counter()
        self.count = 0
        self.wire = Wire(address)

    def run(self) -> None:
        while not self.stopping.wait(self.pause_s):
            try:
                self.change()
                self.count += 1
            except (Away, Refused, KafkaException) as refused:
                self.note(refused)
        self.wire.close()

    def note(self, refused: object) -> None:
        self.refused[f"{self.name}: {str(refused)[:100]}"] += 1

    @abstractmethod
    def change(self) -> None:
        """Raises `Away`, `Refused`, KafkaException."""

    def commit(self, group_id: str, topic: str, offset: int) -> None:
        """For partition 0, as nobody's member. Raises `Away`, `Refused`."""
        part = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        wanted = OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[part])
        answer = self.wire.ask(OFFSET_COMMIT, 7, OffsetCommitRequest(group_id=group_id, topics=[wanted]))
        check(answer.topics[0].partitions[0].error_code)

    def committed(self, group_id: str, topic: str) -> int:
        """What is committed for partition 0, or -1. Raises `Away`, `Refused`."""
        asked = OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[0])
        answer = self.wire.ask(OFFSET_FETCH, 7, OffsetFetchRequest(group_id=group_id, topics=[asked]))
        check(answer.error_code)
        return int(answer.topics[0].partitions[0].committed_offset)


def check(code: int) -> None:
    """Raises `Refused`."""
    if code != NONE:
        raise Refused(error_name(code))


class Cuts(Change):
    """DeleteRecords up to any offset, and to the end."""

    def __init__(self, address: str, choice: random.Random, ledger: Ledger) -> None:
        super().__init__(address, choice)
        self._parts = [part for part in ledger.partitions.values() if Goes.BY_REQUEST in part.kind.goes]

    def change(self) -> None:
        part = self.choice.choice(self._parts)
        offset = TO_THE_END if self.choice.random() < 0.3 else self.choice.randrange(max(1, part.position + 1))
        part.cut_to = math.inf if offset == TO_THE_END else max(part.cut_to, offset)
        asked = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=part.index, offset=offset)
        topic = DeleteRecordsRequest.DeleteRecordsTopic(name=part.kind.name, partitions=[asked])
        answer = self.wire.ask(DELETE_RECORDS, 2, DeleteRecordsRequest(topics=[topic], timeout_ms=10_000))
        (result,) = answer.topics[0].partitions
        check(result.error_code)
        if result.low_watermark < offset:
            self.faults.append(f"{part}: records were deleted up to {offset}, but it begins at {result.low_watermark}")
        part.cut_to = result.low_watermark


class Renewals(Change):
    """One topic, deleted and made anew: nothing of the former one is there, neither records nor committed offsets."""

    pause_s = 1.0
    group_id = "of-the-renewed"

    def __init__(self, address: str, choice: random.Random) -> None:
        super().__init__(address, choice)
        self._number = 0

    def change(self) -> None:
        self._number += 1
        delete = DeleteTopicsRequest(topic_names=[RENEWED], timeout_ms=10_000)
        self._again(DELETE_TOPICS, 5, delete, UNKNOWN_TOPIC_OR_PARTITION, lambda answer: answer.responses)
        self._again(CREATE_TOPICS, 5, self._wanted(), TOPIC_ALREADY_EXISTS, lambda answer: answer.topics)
        kept = self.committed(self.group_id, RENEWED)
        if kept >= 0:
            self.faults.append(f"{RENEWED} was made anew, but offset {kept} of the former one is still committed")
        values = self._write()
        self.commit(self.group_id, RENEWED, len(values))
        self._check(values)

    def _again(self, key: int, version: int, body: Any, fine: int, results: Callable[[Any], Any]) -> None:
        """Until it was done, or need not be: a broker that went away may have done it."""
        while not self.stopping.is_set():
            try:
                code = results(self.wire.ask(key, version, body))[0].error_code
                if code in (NONE, fine):
                    return
                raise Refused(error_name(code))
            except (Away, Refused) as refused:
                self.note(refused)
                time.sleep(0.2)

    def _wanted(self) -> CreateTopicsRequest:
        settings: dict[str, object] = {
            "segment.ms": self.choice.choice((200, 1000, 60_000)),
            "file.delete.delay.ms": 1000,
            "retention.ms": -1,
        }
        settings["cleanup.policy"] = self.choice.choice(("delete", "compact"))
        configs = [CreateTopicsRequest.CreatableTopicConfig(name=name, value=str(value)) for name, value in settings.items()]
        topic = CreateTopicsRequest.CreatableTopic(name=RENEWED, num_partitions=2, replication_factor=1, configs=configs)
        return CreateTopicsRequest(topics=[topic], timeout_ms=10_000)

    def _write(self) -> set[bytes]:
        """The values of the records that were acknowledged."""
        written: set[bytes] = set()
        settings = {"bootstrap.servers": self.address, "enable.idempotence": True, "message.timeout.ms": 60_000, "log_level": 0}
        producer = Producer({**settings, "reconnect.backoff.max.ms": 200})

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                written.add(message.value())

        for number in range(RECORDS):
            value = b"%d %d" % (self._number, number)
            producer.produce(RENEWED, value, b"key-%d-%d" % (self._number, number), number % 2, on_delivery=delivered)
        producer.flush(60)
        return written

    def _check(self, written: set[bytes]) -> None:
        settings = {"bootstrap.servers": self.address, "group.id": "none", "enable.auto.commit": False, "log_level": 0}
        reader = Consumer({**settings, "auto.offset.reset": "earliest"})
        try:
            found = self._read(reader)
        finally:
            reader.close()
        missing, strange = written - found, {value for value in found if int(value.split()[0]) != self._number}
        what = f"{RENEWED}, number {self._number}"
        if missing:
            self.faults.append(f"{what}: {len(missing)} acknowledged records are lost, such as {min(missing)!r}")
        if strange:
            self.faults.append(f"{what}: records of a former one are in it, such as {min(strange)!r}")

    def _read(self, reader: Any) -> set[bytes]:
        found: set[bytes] = set()
        for index in range(2):
            at, end = reader.get_watermark_offsets(TopicPartition(RENEWED, index), timeout=WAIT_S)
            reader.assign([TopicPartition(RENEWED, index, at)])
            while at < end:
                message = reader.poll(WAIT_S)
                if message is None:
                    raise Refused(f"nothing came for {WAIT_S} s")
                if message.error() is None:
                    found.add(message.value())
                    at = message.offset() + 1
        return found


class Passers(Change):
    """Groups with one member that stays a few seconds, commits and leaves; some are deleted then, the others' offsets expire."""

    pause_s = 1.0
    names = tuple(f"passing-{number}" for number in range(8))

    def change(self) -> None:
        name = self.choice.choice(self.names)
        settings = {"bootstrap.servers": self.address, "group.id": name, "auto.offset.reset": "earliest", "log_level": 0}
        settings |= {"session.timeout.ms": 6000, "enable.auto.commit": False, "reconnect.backoff.max.ms": 200}
        reader = Consumer(settings)
        reader.subscribe(["rare", "compacted"])
        deadline, count = time.monotonic() + WAIT_S, 0
        try:
            while not count and time.monotonic() < deadline:
                count = len(reader.consume(100, 0.5))
            if count:
                reader.commit(asynchronous=False)
        finally:
            reader.close()
        if self.choice.random() < 0.4:
            check(self.wire.ask(DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=[name])).results[0].error_code)


class Commits(Change):
    """Offsets committed by hand, by no member: each that is acknowledged is read again, kills or not, until it expires."""

    pause_s = 0.5
    group_id = "by-hand"

    def __init__(self, address: str, choice: random.Random, clock: Clock) -> None:
        super().__init__(address, choice)
        self._clock, self._moves = clock, clock.moves
        self._offset, self._told = 0, -1

    def change(self) -> None:
        self._look()
        self._offset += 1
        moves = self._clock.moves if self._clock.is_settled else -1
        self.commit(self.group_id, "plain", self._offset)
        self._told, self._moves = self._offset, moves
        self._look()

    def _look(self) -> None:
        found = self.committed(self.group_id, "plain")
        has_expired = found < 0 and self._clock.moves != self._moves  # a week has passed since
        if found < self._told and not has_expired:
            self.faults.append(f"group {self.group_id}: offset {self._told} was committed, but {found} is read")
