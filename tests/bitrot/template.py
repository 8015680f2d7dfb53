"""A data directory with one of everything, as an orderly stop leaves it and as a kill does, and what was acknowledged in it."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ottla.log.checkpoints import RECOVERY_POINTS, parse_checkpoint
from ottla.log.segments.transaction_index import ABORT, COMMIT
from ottla.net.disk.disk import RealDisk
from ottla.net.startup.old_registry import open_registry
from ottla.ports import Change
from ottla.records.batches.builder import build
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import batches
from ottla.sim.clock import SimClock
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.delete_records import DeleteRecordsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.produce import ProduceRequest
from tests.bitrot import damage
from tests.bitrot.life import Life
from tests.bitrot.looks import BROKER, GROUP, TOPIC, Kept, Key, Look, Wanted, look

PRODUCE, OFFSET_COMMIT, FIND_COORDINATOR, CREATE, DELETE, DELETE_RECORDS, ALTER = 0, 8, 10, 19, 20, 21, 44
MINUTE_MS = 60_000
SMALL: dict[str, object] = {"internal.segment.bytes": 400, "index.interval.bytes": 1}
DOOMED = "doomed"
RELAXED = "relaxed"
"""Written with acks=1: the last records are in the partition's own file alone, and not in the journal."""
TOPICS: dict[str, dict[str, object]] = {
    "plain": {},
    "rolled": SMALL,
    "compacted": {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01},
    "idempotent": SMALL,
    "epochs": SMALL,
    "transactional": SMALL,
    "trimmed": SMALL,
    "configured": {"retention.ms": 3_600_000, "max.message.bytes": 5000, "index.interval.bytes": 1},
    "packed": {},
    "silent": {},
    RELAXED: {},
}
PARTITIONS = {"configured": 2}
PRODUCER_ID, TXN_PRODUCER_ID = 1000, 2000
TRANSACTIONAL = ("transactional", 0)
CODECS = (0, 1, 3, 4)
EPOCHS = (1, 2)
"""Those that are over: the last one grows, and after a restart the first is that of the leader again."""
GROUPS = ("readers", "other readers")
RESOURCES = ((TOPIC, "configured"), (TOPIC, "compacted"), (BROKER, ""), (BROKER, "1"), (GROUP, "readers"))


@dataclass
class Acknowledged:
    """What one partition was acknowledged to hold; `sequence` is the next one of its idempotent producer, `last` its last batch."""

    records: dict[int, Kept] = field(default_factory=dict)
    end: int = 0
    sequence: int = 0
    last: bytes = b""
    last_offset: int = -1


class Template(NamedTuple):
    """A data directory, what clients saw of it last, what was acknowledged, and up to where each partition is known as synced."""

    stop: str
    path: Path
    seen: Look
    acknowledged: dict[Key, Acknowledged]
    synced: dict[Key, int]
    wanted: Wanted
    wall_ms: int


class Author:
    """Writes a broker's data directory."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.acknowledged: dict[Key, Acknowledged] = {}
        self._txn_sequence = 0

    def write(self) -> None:
        """One of everything. Time passes in between: compaction and checkpoints have been there before the last records."""
        for name, configs in [*TOPICS.items(), (DOOMED, {})]:
            self._create(name, configs)
        for number in range(8):
            self._write_some(number)
        self._commit(3)
        self._configure()
        self._delete_records("trimmed", 10)
        self.life.keep_house(5 * MINUTE_MS)
        for number in range(8, 12):
            self._write_some(number)
        self._commit(5)
        self._end_transaction(ABORT)
        self._transact(b"open")

    def _write_some(self, number: int) -> None:
        self.life.pass_time(1000)
        for topic in ("plain", "rolled", "trimmed", "epochs", RELAXED, DOOMED):
            if topic == "epochs":
                partition = self.life.broker.partitions.get(topic, 0)
                assert partition is not None
                partition.leader_epoch = number // 3
            self.produce(topic, values=[b"%s %d.%d" % (topic.encode(), number, each) for each in range(3)])
        for index in range(2):
            self.produce("configured", index, values=[b"configured %d" % number] * 4)
        self.produce("packed", values=[b"packed %d " % number * 20] * 5, codec=CODECS[number % len(CODECS)])
        self.produce("compacted", keys=[b"k%d" % (number % 3), b"once %d" % number], values=[b"compacted %d" % number * 5] * 2)
        self.produce_idempotently(number)
        self._transact(b"%d" % number)
        if number % 3 != 2:
            self._end_transaction(COMMIT if number % 2 else ABORT)

    def produce(self, topic: str, index: int = 0, *, values: list[bytes], keys: list[bytes] | None = None, **named: Any) -> int:
        """Append one batch of the present time; its base offset."""
        batch = build(keys, values, self.life.clock.now().wall_ms, **named)
        code, offset = self.send((topic, index), batch)
        assert not code, f"{topic}-{index} took no records: error {code}"
        return offset

    def send(self, key: Key, batch: bytes | bytearray) -> tuple[int, int]:
        """(error code, base offset); what is acknowledged is noted."""
        code, offset = send(self.life, key, batch, 1 if key[0] == RELAXED else -1)
        if not code:
            noted = self.acknowledged.setdefault(key, Acknowledged())
            note(noted, bytes(batch), offset)
        return code, offset

    def produce_idempotently(self, number: int) -> None:
        key = ("idempotent", 0)
        noted = self.acknowledged.setdefault(key, Acknowledged())
        self.send(key, idempotent(noted, self.life.clock.now().wall_ms, number))

    def _transact(self, word: bytes) -> None:
        batch = build(
            None,
            [b"transactional " + word] * 2,
            self.life.clock.now().wall_ms,
            producer_id=TXN_PRODUCER_ID,
            producer_epoch=0,
            base_sequence=self._txn_sequence,
            transactional=True,
        )
        self._txn_sequence += 2
        note(self.acknowledged.setdefault(TRANSACTIONAL, Acknowledged()), bytes(batch), self._append(batch, origin_client=True))

    def _end_transaction(self, kind: int) -> None:
        """Append a marker, as a coordinator does."""
        key, value = b"\0\0" + kind.to_bytes(2, "big"), b"\0\0\0\0\0\0"
        wall_ms = self.life.clock.now().wall_ms
        batch = build([key], [value], wall_ms, producer_id=TXN_PRODUCER_ID, producer_epoch=0, transactional=True, control=True)
        self.acknowledged[TRANSACTIONAL].end = self._append(batch, origin_client=False) + 1

    def _append(self, batch: bytearray, *, origin_client: bool) -> int:
        """Append past the handlers, which take no transactions; the base offset."""
        partition = self.life.broker.partitions.get(*TRANSACTIONAL)
        assert partition is not None
        headers = [header for _, header in batches(batch)]
        appended = partition.append(batch, headers, self.life.clock.now(), origin_client=origin_client)
        assert not appended.error_code
        self.life.settle()
        return appended.base_offset

    def _create(self, name: str, configs: dict[str, object]) -> None:
        given = [CreateTopicsRequest.CreatableTopicConfig(name=key, value=str(value)) for key, value in configs.items()]
        count = PARTITIONS.get(name, 1)
        topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=count, replication_factor=1, configs=given)
        answer = self.life.ask(CREATE, 7, CreateTopicsRequest(topics=[topic]))
        assert [one.error_code for one in answer.topics] == [0], name

    def _commit(self, offset: int) -> None:
        answer = self.life.ask(FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=list(GROUPS)))
        assert [one.error_code for one in answer.coordinators] == [0, 0]
        for group in GROUPS:
            for topic in ("plain", "rolled"):
                assert commit(self.life, group, topic, offset) == 0

    def _configure(self) -> None:
        """Settings that the registry alone holds."""
        wanted = {
            (TOPIC, "configured"): ("retention.ms", "86400000"),
            (BROKER, ""): ("message.max.bytes", "900000"),
            (GROUP, "readers"): ("consumer.session.timeout.ms", "46000"),
        }
        for (kind, name), (setting, value) in wanted.items():
            config = IncrementalAlterConfigsRequest.AlterableConfig(name=setting, config_operation=0, value=value)
            resource = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
            answer = self.life.ask(ALTER, 1, IncrementalAlterConfigsRequest(resources=[resource]))
            assert [one.error_code for one in answer.responses] == [0], answer.responses[0].error_message

    def _delete_records(self, topic: str, offset: int) -> None:
        part = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)
        body = DeleteRecordsRequest(topics=[DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[part])])
        assert self.life.ask(DELETE_RECORDS, 2, body).topics[0].partitions[0].error_code == 0
        noted = self.acknowledged[topic, 0]
        noted.records = {at: record for at, record in noted.records.items() if at >= offset}

    def delete_topic(self, name: str) -> None:
        body = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name=name)])
        assert self.life.ask(DELETE, 6, body).responses[0].error_code == 0
        self.acknowledged.pop((name, 0))


def note(noted: Acknowledged, batch: bytes, offset: int) -> None:
    """Note an acknowledged batch."""
    for record in open_batches(batch).records():
        noted.records[offset + record.offset] = Kept(record.timestamp, record.key, record.value)
        noted.end = offset + record.offset + 1
    noted.last, noted.last_offset = batch, offset


def idempotent(noted: Acknowledged, wall_ms: int, number: int) -> bytes:
    """The next batch of the idempotent producer."""
    values: list[bytes] = [b"idempotent %d.%d" % (number, each) for each in range(2)]
    batch = build(None, values, wall_ms, producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=noted.sequence)
    noted.sequence += 2
    return bytes(batch)


def send(life: Life, key: Key, batch: bytes | bytearray, acks: int = -1) -> tuple[int, int]:
    """Produce a batch: (error code, base offset)."""
    data = ProduceRequest.PartitionProduceData(index=key[1], records=bytearray(batch))
    topic = ProduceRequest.TopicProduceData(name=key[0], partition_data=[data])
    answer = life.ask(PRODUCE, 9, ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic]))
    part = answer.responses[0].partition_responses[0]
    return part.error_code, part.base_offset


def commit(life: Life, group: str, topic: str, offset: int) -> int:
    """Commit an offset for partition 0 of a topic; the error code."""
    part = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="m")
    body = OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[part])])
    code: int = life.ask(OFFSET_COMMIT, 8, body).topics[0].partitions[0].error_code
    return code


def make(root: Path) -> list[Template]:
    """Write a data directory, and keep it as it is while the broker runs, and once more when it has stopped."""
    clock = SimClock()
    path, doomed, killed = root / "data", root / DOOMED, root / "killed"
    life = Life(str(path), clock)
    author = Author(life)
    author.write()
    damage.copy(path / f"{DOOMED}-0", doomed)
    life.disk.remove_tree_soon = lambda path: None  # type: ignore[method-assign]  # what a kill may leave
    author.delete_topic(DOOMED)
    now_ms = clock.now().wall_ms
    wanted = Wanted((now_ms - 7 * MINUTE_MS, now_ms - 2000, now_ms + 1), EPOCHS, RESOURCES, GROUPS, (TRANSACTIONAL,))
    seen = look(life, wanted, {})
    _must_be_whole(seen, author.acknowledged)
    damage.copy(path, killed)
    _doom(killed, doomed)
    synced = _recovery_points(killed)
    life.stop()
    assert not life.entries.traces
    _doom(path, doomed)
    return [
        Template("kill", killed, seen, author.acknowledged, synced, wanted, now_ms),
        Template("clean", path, seen, author.acknowledged, _recovery_points(path), wanted, now_ms),
    ]


def _doom(path: Path, doomed: Path) -> None:
    """Leave the directory of a deleted topic, and the request of its deletion, as a broker that was killed amid it.

    Nothing runs there: a controller at work would remove the request, as the topic has no entry any more.
    """
    with closing(RealDisk(str(path), lambda call: call())) as disk, closing(open_registry(str(path), disk)) as registry:
        registry.commit([Change(f"/admin/delete_topics/{DOOMED}", b"")])
    shutil.copytree(doomed, path / f"{DOOMED}-0")


def _recovery_points(path: Path) -> dict[Key, int]:
    lines = parse_checkpoint((path / RECOVERY_POINTS).read_bytes())
    assert lines is not None
    return {(topic, int(index)): int(offset) for topic, index, offset in lines}


def _must_be_whole(seen: Look, acknowledged: dict[Key, Acknowledged]) -> None:
    """Hold what is read of the undamaged broker against what it acknowledged."""
    for key, noted in acknowledged.items():
        part = seen.partitions[key]
        assert not part.errors, f"{key}: {part.errors}"
        assert not part.wrong, f"{key}: {part.wrong}"
        assert part.end == noted.end, f"{key} ends at {part.end}, not at {noted.end}"
        newest = {record.key: offset for offset, record in noted.records.items()} if key[0] == "compacted" else None
        for offset, record in noted.records.items():
            if newest is None or newest[record.key] == offset:
                assert part.records.get(offset) == record, f"{key} does not hold offset {offset}"
