"""Replicas that move between log directories while they are used, and crashes at every moment of that."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest

from ottla.broker.partitions.partition import Partition
from ottla.broker.serving.purgatory import DelayedReply
from ottla.ports import Steps, StorageFailed
from ottla.records.batches.builder import build
from ottla.records.batches.columns import Record, open_batches
from ottla.records.batches.header import batches
from ottla.sim.power import FaultyDisk, PowerCut
from ottla.wire.api.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from ottla.wire.api.delete_records import DeleteRecordsRequest
from ottla.wire.api.describe_log_dirs import DescribeLogDirsRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.api.write_txn_markers import WriteTxnMarkersRequest
from ottla.wire.errors import INVALID_REPLICA_ASSIGNMENT, KAFKA_STORAGE_ERROR, LOG_DIR_NOT_FOUND, NONE, UNKNOWN_TOPIC_OR_PARTITION
from tests.support.machine import Machine
from tests.support.producing import PRODUCE, create, delete, fetch, produce, request, values

DELETE_RECORDS, WRITE_TXN_MARKERS, ALTER_LOG_DIRS, DESCRIBE_LOG_DIRS = 21, 27, 34, 35
DIRECTORIES = {"": "/data", "d2": "d2", "d3": "d3"}
PRODUCER = 4000


class MovingMachine(Machine):
    """A broker with the directories DIR, d2 and d3. While it is `slow`, no sync ends by itself."""

    _log_dirs = ("d2", "d3")
    disk: FaultyDisk
    slow = False

    def __init__(self, **settings: object) -> None:
        settings |= {"log_cleaner_backoff_ms": 50, "log_segment_delete_delay_ms": 40}
        super().__init__(log_dirs="/data,d2,d3", transaction_partition_verification_enable="false", **settings)
        self.disk.__class__ = FaultyDisk

    def settle(self) -> None:
        if self.slow:
            self.broker.finish_bundle(self.clock.now())
        else:
            super().settle()

    def sync(self) -> None:
        self.disk.run_syncs()
        self.broker.finish_bundle(self.clock.now())

    def move(self, directory: str, name: str = "t", index: int = 0) -> int:
        return self.broker.replica_moves.alter(name, index, DIRECTORIES.get(directory, directory))

    def partition(self, name: str = "t") -> Partition:
        held = self.broker.partitions.get(name, 0)
        assert held is not None
        return held

    def present(self) -> dict[str, list[str]]:
        """Directory of logs -> names of topics' directories there."""
        held = {path: [name for name in self.disk.list(path) if name[:2] in ("t-", "c-")] for path in DIRECTORIES}
        return {path: names for path, names in held.items() if names}

    def stored(self, name: str = "t") -> list[Record]:
        """All records of a topic; a fetch returns those of one segment."""
        log, found = self.partition(name).log, list[Record]()
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            error_code, data = fetch(self, name, 0, offset)
            assert (error_code, bool(data)) == (NONE, True)
            found += open_batches(memoryview(data), from_offset=offset).records()
            offset = list(batches(data))[-1][1].next_offset
        return found


@pytest.fixture
def machine() -> MovingMachine:
    return MovingMachine()


def test_a_replica_moves_and_goes_on(machine: MovingMachine) -> None:
    create(machine, "t")
    produce(machine, b"1", b"2")
    for number, (directory, other) in enumerate([("d2", ""), ("d3", "d2"), ("", "d3")]):
        assert machine.present() == {other: ["t-0"]}
        assert machine.move(directory) == NONE
        machine.pass_time(100)
        assert machine.present() == {directory: ["t-0"]}
        produce(machine, b"more")
        assert values(machine) == [b"1", b"2"] + [b"more"] * (number + 1)
        assert machine.disk.read_file(f"{directory}/t-0/moves-checkpoint".lstrip("/")) == b"%d\n" % (number + 1)
    for again in (machine.restart, machine.kill, lambda: machine.cut_power(1)):
        again()
        assert values(machine) == [b"1", b"2", b"more", b"more", b"more"]
        assert machine.present() == {"": ["t-0"]}
    delete(machine, "t")
    assert machine.present() == {}


def test_remains_in_several_directories_do_not_keep_a_broker_from_starting(machine: MovingMachine) -> None:
    """Removals whose names a power cut has brought back: none of the remains has a number of moves."""
    create(machine, "t")
    produce(machine, b"1")
    assert machine.move("d3") == NONE
    machine.pass_time(100)
    machine.disk.put("t-0", "")  # so that paths mean directories as they stand
    for path in ("t-0", "d2/t-0"):
        machine.disk.make_dir(path)
        machine.disk.sync_dir(path.rpartition("/")[0])
    machine.kill()
    assert values(machine) == [b"1"]
    assert machine.present() == {"d3": ["t-0"]}


def test_the_codes_are_kafkas(machine: MovingMachine) -> None:
    create(machine, "t", 2)
    assert machine.move("/nowhere") == LOG_DIR_NOT_FOUND
    assert machine.move("d2", index=7) == UNKNOWN_TOPIC_OR_PARTITION
    assert (machine.move(""), machine.present()) == (NONE, {"": ["t-0"], "d2": ["t-1"]})
    machine.partition().offline = "it is damaged"
    assert machine.move("d3") == KAFKA_STORAGE_ERROR


def test_requests_begin_moves_and_describe_future_replicas() -> None:
    machine = MovingMachine(replica_alter_log_dirs_io_max_bytes_per_second=1000)
    create(machine, "t", 2)
    produce(machine, bytes(5000))
    topics = [AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name="t", partitions=[0, 1, 5])]
    wanted = AlterReplicaLogDirsRequest.AlterReplicaLogDir(path="d3", topics=topics)
    missing = AlterReplicaLogDirsRequest.AlterReplicaLogDir(
        path="d4", topics=[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name="u", partitions=[0])]
    )
    for version in (1, 2):
        (topic, other) = machine.ask(ALTER_LOG_DIRS, version, AlterReplicaLogDirsRequest(dirs=[wanted, missing])).results
        codes = [(part.partition_index, part.error_code) for part in topic.partitions]
        assert (topic.topic_name, codes) == ("t", [(0, NONE), (1, NONE), (5, UNKNOWN_TOPIC_OR_PARTITION)])
        assert (other.topic_name, other.partitions[0].error_code) == ("u", LOG_DIR_NOT_FOUND)
    asked = DescribeLogDirsRequest.DescribableLogDirTopic(topic="t", partitions=[0])
    for some in (None, [asked]):
        results = machine.ask(DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=some)).results
        found = {
            (one.log_dir, part.partition_index): (part.is_future_key, part.offset_lag)
            for one in results
            for each in one.topics
            for part in each.partitions
        }
        assert found.pop(("/data", 0)) == (False, 0)
        assert found.pop(("d3", 0)) == (True, 1)
        assert found == ({("d2", 1): (False, 0), ("d3", 1): (True, 0)} if some is None else {})


def test_a_replica_that_is_yet_to_come_is_put_where_it_is_wanted(machine: MovingMachine) -> None:
    assert [machine.move("d3", index=index) for index in range(3)] == [UNKNOWN_TOPIC_OR_PARTITION] * 3
    create(machine, "t", 3)
    assert machine.present() == {"d3": ["t-0", "t-1", "t-2"]}


def test_a_move_keeps_the_rate_and_can_be_given_up(machine: MovingMachine) -> None:
    machine = MovingMachine(replica_alter_log_dirs_io_max_bytes_per_second=100_000)
    create(machine, "t")
    for _ in range(40):
        produce(machine, bytes(10_000))
    assert machine.move("d2") == NONE
    machine.pass_time(900)
    (move,) = machine.broker.replica_moves.of("d2")
    assert 0 < move.size_bytes < 400_000
    assert move.offset_lag == 40
    (name,) = machine.disk.list("d2")
    assert (name[:4], name[-7:]) == ("t-0.", "-future")
    assert machine.move("d3") == NONE, "another target takes the place of the first"
    assert (machine.disk.list("d2"), len(machine.disk.list("d3"))) == ([], 1)
    assert machine.move("") == NONE, "where it is: nothing moves any more"
    assert machine.present() == {"": ["t-0"]}
    machine.move("d2")
    began_ms = machine.clock.now().mono_ms
    while machine.broker.replica_moves.of("d2"):
        machine.pass_time(50)
    assert 2900 < machine.clock.now().mono_ms - began_ms < 5000
    assert (machine.present(), len(values(machine))) == ({"d2": ["t-0"]}, 40)


def test_no_more_replicas_move_at_once_than_wanted() -> None:
    machine = MovingMachine(num_replica_alter_log_dirs_threads=1, replica_alter_log_dirs_io_max_bytes_per_second=1000)
    create(machine, "t", 3)
    for index in range(3):
        produce(machine, bytes(10_000), index=index)
        machine.move("d3", index=index)
    assert [len([name for name in machine.disk.list(path) if name.startswith("t-")]) for path in ("d2", "d3")] == [1, 2]
    assert [move.copy is not None for move in machine.broker.replica_moves.of("d3")] == [True, False]


@pytest.mark.expects_errors("it could not be moved|former directory remains")
def test_a_replica_remains_where_it_is_when_its_target_fails(machine: MovingMachine) -> None:
    create(machine, "t")
    produce(machine, b"1")
    for after in range(0, 300, 7):
        machine.disk.fail(after)
        machine.move("d2")
        machine.pass_time(200)
        machine.disk.heal()
        machine.kill()
        produce(machine, b"2")
        assert values(machine)[0] == b"1"
        (where,) = machine.present()
        if where:
            break
    else:
        raise AssertionError("a move takes fewer than 300 operations")


def test_a_cordoned_directory_gets_no_replicas_and_keeps_those_that_it_has() -> None:
    machine = MovingMachine(cordoned_log_dirs="/data,d3")
    create(machine, "t")
    refused = [machine.move("d3"), machine.move(""), machine.move("d3", "absent")]
    assert refused == [INVALID_REPLICA_ASSIGNMENT] * 3
    assert (machine.move("d2"), machine.present()) == (NONE, {"d2": ["t-0"]})


class ClingingDisk(FaultyDisk):
    """A disk on which former directories cannot be renamed, as on a file system that has become read-only."""

    def may(self, operation: str, path: str, size: int = 0) -> None:
        if (operation, path) == ("rename", "t-0"):
            raise StorageFailed(path, "Read-only file system")
        super().may(operation, path, size)


@pytest.mark.expects_errors("Read-only file system|directory from before the last move is still there")
def test_a_move_ends_while_the_directory_before_the_last_one_remains(machine: MovingMachine) -> None:
    create(machine, "t")
    produce(machine, b"1")
    machine.disk.__class__ = ClingingDisk
    machine.move("d2")
    machine.pass_time(200)
    assert machine.broker.log_directories.place_of("t-0") == "d2"
    machine.move("d3")
    machine.pass_time(200)
    assert (machine.broker.replica_moves.of("d3"), values(machine)) == ([], [b"1"])
    machine.disk.__class__ = FaultyDisk
    machine.move("d3")
    machine.pass_time(200)
    assert (machine.present(), values(machine)) == ({"d3": ["t-0"]}, [b"1"])


@pytest.mark.parametrize("moved", [True, False])
def test_a_deleted_topic_takes_its_copies_along(machine: MovingMachine, moved: bool) -> None:
    create(machine, "t")
    produce(machine, b"1")
    machine.slow = True
    machine.move("d2")
    while moved and machine.broker.log_directories.place_of("t-0") == "":
        machine.sync()
    machine.slow = False
    assert len(machine.present()) == 2
    delete(machine, "t")
    assert machine.present() == {}
    create(machine, "t")
    assert (values(machine), [*chain(*machine.present().values())]) == ([], ["t-0"])


def deleted_after_a_move(seed: int, cut_at: int | None) -> int:
    """Delete a topic right after the move of its replica, and cut the power. Return the number of operations, or -1 at a cut."""
    machine = MovingMachine()
    create(machine, "t")
    produce(machine, b"1")
    machine.move("d2")
    machine.pass_time(200)
    machine.move("d3")
    for _ in range(100):
        if machine.broker.log_directories.place_of("t-0") == "d3":
            break
        machine.pass_time(1)
    machine.settle()
    assert machine.broker.log_directories.place_of("t-0") == "d3"
    began = machine.disk.operations
    machine.disk.cut_at = -1 if cut_at is None else began + cut_at
    try:
        delete(machine, "t")
        count = machine.disk.operations - began
    except PowerCut:
        count = -1
    machine.disk.cut_at = -1
    machine.cut_power(seed)
    machine.settle()
    machine.pass_time(200)
    assert sum(len(names) for names in machine.present().values()) <= (0 if cut_at is None else 1)
    return count


SEEDS = 60


def test_a_power_cut_while_a_topic_is_deleted_right_after_a_move_stops_no_start() -> None:
    count = deleted_after_a_move(0, None)
    assert count >= 2
    for cut_at in range(count):
        for seed in range(SEEDS):
            assert deleted_after_a_move(seed, cut_at) == -1


def named(body: ProduceRequest) -> ProduceRequest:
    """A request that may have batches of transactions."""
    body.transactional_id = "moving"
    return body


def test_a_cut_during_a_move_is_copied(machine: MovingMachine) -> None:
    create(machine, "t")
    for number in range(5):
        produce(machine, b"old %d" % number)
    machine.slow = True
    machine.move("d2")
    assert machine.broker.log_directories.place_of("t-0") == "", "the copy waits for its sync"
    partition = machine.partition()
    partition.log.truncate_to(2)
    partition.high_watermark = 2
    machine.slow = False
    for number in range(5):
        produce(machine, b"new %d" % number)
    machine.pass_time(500)
    assert machine.present() == {"d2": ["t-0"]}
    assert [record.value for record in machine.stored()] == [b"old 0", b"old 1", *(b"new %d" % number for number in range(5))]


class Topic:
    """What a topic was given: `sent` in the order of offsets, and how much of it was promised."""

    def __init__(self) -> None:
        self.sent: list[bytes | None] = []
        self.cut: list[bytes | None] = []
        self.promised = self.answered = self.start = 0
        self.is_going = self.is_coming = False
        self.twice: tuple[bytes, int] | None = None


class Story:
    """What happens to a topic while its replica moves: the same for the same seed."""

    def __init__(self, machine: MovingMachine, seed: int) -> None:
        self.machine = machine
        self.chance = random.Random(seed)
        self.topic = Topic()
        self.keys: dict[bytes, tuple[int, int]] = {}
        self.count = self.sequence = 0
        self.waiting: list[tuple[DelayedReply, Callable[[Any], None]]] = []
        self._create("t", internal_segment_bytes=600, index_interval_bytes=0)
        self._create("c", internal_segment_bytes=400, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
        for _ in range(5):
            self.produce(-1)
            self.overwrite()
        machine.slow = True

    def _create(self, name: str, **configs: object) -> None:
        create(self.machine, name, 1, **configs)

    def tell(self, steps: int) -> None:
        acts: list[tuple[float, Callable[[], object]]] = [
            (4, lambda: self.produce(-1)),
            (2, lambda: self.produce(1)),
            (2, self.transact),
            (3, self.overwrite),
            (6, self.machine.sync),
            (5, lambda: self.machine.pass_time(self.chance.choice((1, 20, 60)))),
            (2, self.move),
            (0.6, self.cut),
            (0.6, self.trim),
            (0.3, self.delete),
        ]
        weights = [weight for weight, _ in acts]
        self.move()
        for _ in range(steps):
            self.chance.choices([act for _, act in acts], weights)[0]()
            self._hear()

    def _hear(self) -> None:
        for one in [one for one in self.waiting if one[0].done]:
            self.waiting.remove(one)
            one[1](one[0])

    def _send(self, key: int, version: int, body: Any, done: Callable[[], None]) -> None:
        def answered(answer: Any) -> None:
            found = self.machine.finish(key, version, answer) if isinstance(answer, DelayedReply) else answer
            assert "error_code=" not in repr(found), found
            done()

        answer = self.machine.begin(key, version, body)
        if isinstance(answer, DelayedReply):
            self.waiting.append((answer, answered))
        else:
            answered(answer)

    def produce(self, acks: int) -> None:
        self.count += 1
        self._append(build(None, [b"%d" % self.count], self.machine.clock.now().wall_ms), acks, [b"%d" % self.count])

    def _append(self, batch: bytearray, acks: int, sent: list[bytes | None]) -> None:
        topic = self.topic
        topic.sent += sent
        end = len(topic.sent)

        def done() -> None:
            topic.answered = max(topic.answered, end)
            if acks == -1:
                topic.promised = max(topic.promised, end)

        self._send(PRODUCE, 9, named(request(batch, acks=acks)), done)

    def transact(self) -> None:
        """A batch of a transaction and its marker. The batch is sent again after a crash: it must be known then."""
        self.count += 1
        value, now = b"%d" % self.count, self.machine.clock.now().wall_ms
        sequence = self.sequence
        batch = build(None, [value], now, producer_id=PRODUCER, producer_epoch=0, base_sequence=sequence, transactional=True)
        self.sequence += 1
        topic, offset = self.topic, len(self.topic.sent)
        self._append(bytearray(batch), -1, [value])
        topic.twice = bytes(batch), offset
        marker = WriteTxnMarkersRequest.WritableTxnMarker(
            producer_id=PRODUCER,
            producer_epoch=0,
            transaction_result=self.chance.random() < 0.5,
            topics=[WriteTxnMarkersRequest.WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        )
        topic.sent.append(None)
        end = len(topic.sent)

        def done() -> None:
            topic.promised = topic.answered = max(topic.promised, end)

        self._send(WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest(markers=[marker]), done)

    def overwrite(self) -> None:
        self.count += 1
        key, number = b"k%d" % self.chance.randrange(4), self.count
        self.keys[key] = self.keys.get(key, (0, 0))[0], number

        def done() -> None:
            self.keys[key] = max(number, self.keys[key][0]), self.keys[key][1]

        batch = build([key], [b"%d" % number], self.machine.clock.now().wall_ms)
        self._send(PRODUCE, 9, request(batch, "c"), done)

    def move(self) -> None:
        for name in ("t", "c"):
            if self.machine.broker.partitions.get(name, 0) is not None:
                self.machine.move(self.chance.choice(tuple(DIRECTORIES)), name)

    def cut(self) -> None:
        """Truncate the log, as a follower does whose leader has other records."""
        while self.waiting:
            self.machine.sync()
            self.machine.pass_time(5)
            self._hear()
        partition, topic = self.machine.partition(), self.topic
        offset = self.chance.randrange(max(topic.start, len(topic.sent) - 4), len(topic.sent) + 1)
        topic.cut, topic.sent = topic.sent, topic.sent[:offset]
        topic.promised, topic.answered = min(topic.promised, offset), min(topic.answered, offset)
        partitions, done = self.machine.broker.partitions, list[None]()

        def truncated() -> Steps[None]:
            yield from partitions.before_cut(partition, offset, partition.log.log_start_offset)
            partition.high_watermark = min(partition.high_watermark, offset)
            partition.log.truncate_to(offset)
            partitions.checkpoints.was_cut(partition)

        self.machine.broker.scheduler.begin("cut", truncated(), done.append)
        while not done:
            self.machine.sync()
            self.machine.pass_time(5)
        topic.cut, topic.twice = [], None
        state = partition.log.producers.by_id.get(PRODUCER)
        self.sequence = 0 if state is None or not state.batches else state.batches[-1].last_sequence + 1

    def trim(self) -> None:
        """DeleteRecords, after which whole segments are removed."""
        topic = self.topic
        offset = self.chance.randint(topic.start, topic.answered)
        topic.start = max(topic.start, offset)
        part = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)
        topics = [DeleteRecordsRequest.DeleteRecordsTopic(name="t", partitions=[part])]
        self._send(DELETE_RECORDS, 2, DeleteRecordsRequest(topics=topics, timeout_ms=1000), lambda: None)
        self.machine.broker.scheduler.begin("retention", self.machine.broker.partitions.retain(self.machine.clock.now()))

    def delete(self) -> None:
        self.waiting.clear()
        self.topic.is_going = True
        self.machine.slow = False
        delete(self.machine, "t")
        self.topic = Topic()
        self.topic.is_coming = True
        self._create("t", internal_segment_bytes=600, index_interval_bytes=0)
        self.topic.is_coming = False
        self.sequence = 0
        self.machine.slow = True

    def check(self, *, power_cut: bool) -> None:
        """Nothing that was promised is missing, and each replica is in one place."""
        machine, topic = self.machine, self.topic
        machine.slow = False
        machine.settle()
        assert machine.broker.partitions.are_all_online
        held = sorted(f"{partition}" for partition in machine.broker.partitions if partition.topic in ("t", "c"))
        assert sorted([*chain(*machine.present().values())]) == held
        assert held == ["c-0", "t-0"] or ((topic.is_going or topic.is_coming) and held == ["c-0"])
        for path, names in machine.present().items():
            assert all(machine.broker.log_directories.place_of(name) == path for name in names)
        if "t-0" in held and not topic.is_going:
            self._check_log(topic.promised if power_cut else topic.answered)
        stored = {record.key: int(record.value) for record in machine.stored("c") if record.key and record.value}
        for key, (promised, last) in self.keys.items():
            assert promised <= stored.get(key, 0) <= last

    def _check_log(self, least: int) -> None:
        topic, log = self.topic, self.machine.partition().log
        assert least <= log.log_end_offset <= max(len(topic.sent), len(topic.cut))
        assert log.log_start_offset <= topic.start
        found = {record.offset: record.value for record in self.machine.stored()}
        whole = [dict(enumerate(sent)) for sent in (topic.sent, topic.cut)]
        wanted = [{offset: value for offset, value in one.items() if value is not None} for one in whole]
        for one in wanted:
            kept = {offset: one.get(offset) for offset in range(log.log_start_offset, log.log_end_offset) if one.get(offset)}
            if found == kept:
                break
        else:
            raise AssertionError(f"{found} is neither of {wanted}")
        if topic.twice is not None and topic.start <= topic.twice[1] and topic.twice[1] + 2 <= least:
            again = self.machine.ask(PRODUCE, 9, named(request(topic.twice[0])))
            (part,) = again.responses[0].partition_responses
            assert (part.error_code, part.base_offset) == (NONE, topic.twice[1]), "a batch that is sent again is known"


def run(seed: int, steps: int, cut_at: int | None, *, power_cut: bool) -> int:
    """Tell the story with a crash before the operation `cut_at`, and check. Return the number of operations, or -1 at a crash."""
    slowly = {"replica_alter_log_dirs_io_max_bytes_per_second": 20_000} if seed % 2 else {}
    machine = MovingMachine(**slowly)
    story = Story(machine, seed)
    began = machine.disk.operations
    if cut_at is not None:
        machine.disk.cut_at = began + cut_at
    try:
        story.tell(steps)
        machine.disk.cut_at = -1
        count = machine.disk.operations - began
    except PowerCut:
        count = -1
    if power_cut:
        machine.cut_power(seed + (cut_at or 0))
    else:
        machine.kill()
    story.check(power_cut=power_cut)
    story.waiting.clear()
    machine.move("d2" if "t-0" not in machine.present().get("d2", []) else "d3")
    while any(machine.broker.replica_moves.of(path) for path in DIRECTORIES):
        machine.pass_time(100)
    machine.pass_time(500)
    story.check(power_cut=power_cut)
    return count


@pytest.mark.parametrize("power_cut", [False, True], ids=["killed", "power cut"])
def test_a_crash_at_an_operation_of_a_move_loses_nothing(power_cut: bool) -> None:
    count = run(0, 60, None, power_cut=power_cut)
    for cut_at in range(0, count, 211):
        assert run(0, 60, cut_at, power_cut=power_cut) == -1


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("power_cut", [False, True], ids=["killed", "power cut"])
def test_a_crash_at_every_operation_of_a_move_loses_nothing(seed: int, power_cut: bool) -> None:
    count = run(seed, 60, None, power_cut=power_cut)
    for cut_at in range(count):
        assert run(seed, 60, cut_at, power_cut=power_cut) == -1
