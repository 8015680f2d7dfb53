"""The life of a log that clients of Kafka 0.7 read, too: work, power cuts and restarts, and what each of them has seen."""

from __future__ import annotations

from random import Random

from ottla.kafka07.log.check import check_positions
from ottla.kafka07.log.format import PositionsFormat07
from ottla.kafka07.log.positions import Positions07, Progress07, positions_of
from ottla.kafka07.log.reader import OpenedBatches07, Reader07
from ottla.kafka07.records.messages import message_set, messages
from ottla.kafka07.records.produced_messages import Terms07, arrive
from ottla.kafka07.records.renderer import Kind07
from ottla.log.log import Log, LogConfig
from ottla.ports import Disk, Now, StorageFailed, TryAgain
from ottla.records.batches.builder import build
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import batches, read_header
from ottla.records.compression import codecs
from ottla.records.pauses import finish
from ottla.sim.disk import IO_ERROR, NO_SPACE, TOO_MANY_FILES
from ottla.sim.power import CutDisk, PowerCut

START = Now(1_700_000_000_000, 0)
PATH = "t-0"


def sync(log: Log) -> None:
    end = log.log_end_offset
    for file in log.dirty_files():
        file.sync()
    log.mark_synced(end)


def produce(log: Log, values: list[bytes], *, codec: int = 0) -> None:
    """Append as a producer of today."""
    batch = build([b"k"] * len(values), list(values), START.wall_ms, codec=codec)
    log.append(batch, [header for _, header in batches(batch)], 0, START)


def produce07(log: Log, data: bytes) -> None:
    """Append as a producer of 0.7."""
    positions = positions_of(log, log._disk)
    for run in finish(arrive(data, Terms07(START.wall_ms))).runs:
        assert log.append(run.batch, (run.header,), 0, START).error_code == 0, "it was taken"
        positions.note(read_header(run.batch), run.kind, run.size, run.kept)


class OldClient:
    """A client of 0.7 of one log."""

    def __init__(self, log: Log, disk: Disk) -> None:
        self.log = log
        self.positions: Positions07 = positions_of(log, log._disk)
        self.reader = Reader07(self.positions, log, disk, OpenedBatches07(1 << 20))

    def show(self, plain: Kind07 = Kind07.PLAIN1) -> None:
        """Have everything shown."""
        self.positions.resume()
        end = self.log.log_end_offset
        refusals = 0
        while self.positions.shown.offset < end:
            before = self.positions.shown
            if self.positions.advance(end, plain) in (Progress07.SYNC, Progress07.DONE):
                sync(self.log)
                refusals += self.positions.shown == before
            if refusals > 10:
                raise StorageFailed(self.log.path, "nothing new is shown")

    def fetch(self, position: int, max_bytes: int = 1 << 20) -> bytes | None:
        found = finish(self.reader.read(position, max_bytes, 1 << 28))
        return None if found is None else bytes(found)

    def start(self) -> int:
        return finish(self.reader.start())

    @property
    def end(self) -> int:
        return self.positions.shown.position

    def offsets(self, time_ms: int = -1, most: int = 100, now_ms: int = START.wall_ms) -> list[int]:
        return finish(self.reader.elements(time_ms, most, now_ms))

    def bases(self) -> list[int]:
        return [sidecar.base_offset for sidecar in self.positions.sidecars]

    def everything(self, max_bytes: int = 1 << 20) -> list[tuple[int, bytes]]:
        """All there is, as (position, bytes), each from a fetch; gaps are passed over."""
        found, position = [], self.start()
        while position < self.end:
            data = self.fetch(position, max_bytes)
            if data is None:
                position += 1
                continue
            assert data, "there is something before the end"
            found.append((position, data))
            position += len(data)
        return found

    def values(self) -> list[bytes]:
        """Payloads of all messages."""
        joined: list[bytearray] = []
        end = -1
        for position, data in self.everything():
            if position != end:
                joined.append(bytearray())
            joined[-1] += data
            end = position + len(data)
        return [message.payload for data in joined for message in messages(data)]


def values_today(log: Log) -> list[bytes]:
    """What a consumer of today sees."""
    found: list[bytes] = []
    offset = log.log_start_offset
    while (part := log.read(offset, 1 << 20, until_offset=log.log_end_offset, min_one_batch=True)) is not None:
        data = part.read()
        for at, header in batches(data):
            if not header.is_control:
                records = open_batches(data[at : at + header.size]).records()
                found += [record.value or b"" for record in records if record.offset >= log.log_start_offset]
            offset = header.next_offset
    return found


class Life07:
    """One log, and every byte that was seen of it, by its position. Every choice comes from `random`."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.disk = CutDisk()
        self.now = START
        self.config = LogConfig(
            segment_bytes=random.choice([600, 2000, 9000]),
            index_interval_bytes=random.choice([0, 150, 1000]),
            file_delete_delay_ms=random.choice([0, 3000]),
            retention_bytes=random.choice([-1, 4000]),
        )
        self.seen: dict[int, int] = {}
        self.count = self.recovery_point = self.kept_start = 0
        self.log = self.open()

    def open(self, *, clean: bool = False, was_killed: bool = False) -> Log:
        log = Log.open(
            self.disk,
            PATH,
            self.config,
            self.now,
            clean=clean,
            was_killed=was_killed,
            recovery_point=self.recovery_point,
            log_start_offset=self.kept_start,
            is_noted=self.recovery_point > 0,
            sidecars=PositionsFormat07(),
        )
        self.reader = OldClient(log, self.disk)
        return log

    def value(self) -> bytes:
        self.count += 1
        return b"%d." % self.count + b"x" * self.random.randrange(40)

    def act(self) -> None:
        acts = [self.produce, self.produce07, self.produce07, self.read, self.read, self.sync, self.retain]
        acts += [self.checkpoint, self.delete_records, self.stop, self.kill, self.power_cut, self.roll, self.measure]
        acts += [self.meet_faults] * 2
        self.random.choice(acts)()

    def produce(self) -> None:
        produce(self.log, [self.value() for _ in range(self.random.randrange(1, 5))], codec=self.random.choice([0, 0, 3, 4]))

    def produce07(self) -> None:
        parts = []
        for _ in range(self.random.randrange(1, 4)):
            codec = self.random.choice([0, 0, codecs.GZIP, codecs.SNAPPY])
            magic = 1 if codec else self.random.randrange(2)
            parts.append(message_set([self.value() for _ in range(self.random.randrange(1, 4))], magic=magic, codec=codec))
        produce07(self.log, b"".join(parts))

    def measure(self) -> None:
        """Go on a little, as a client does that leaves before it is answered."""
        self.reader.positions.resume()
        for _ in range(self.random.randrange(3)):
            if self.reader.positions.advance(self.log.log_end_offset, Kind07.PLAIN1) is Progress07.SYNC:
                return

    def sync(self) -> None:
        sync(self.log)

    def roll(self) -> None:
        self.log.roll()

    def retain(self) -> None:
        self.now = Now(self.now.wall_ms + 2000, self.now.mono_ms + 2000)
        self.log.retain(self.now)

    def delete_records(self) -> None:
        if self.random.random() < 0.3:
            start, end = self.log.log_start_offset, self.log.log_end_offset
            self.sync()
            self.kept_start = max(self.kept_start, self.random.randrange(start, end + 1))
            self.log.delete_records(self.kept_start)

    def checkpoint(self) -> None:
        self.recovery_point = self.log.checkpoint()
        self.kept_start = max(self.kept_start, self.log.log_start_offset)

    def stop(self) -> None:
        self.log.close()
        self.checkpoint()
        self.disk.kill()
        self.log = self.open(clean=True)

    def kill(self) -> None:
        self.disk.kill()
        self.log = self.open(was_killed=True)

    def meet_faults(self) -> None:
        """Let the disk refuse something; after a sync that failed nobody goes on before a restart."""
        reason = self.random.choice([NO_SPACE, TOO_MANY_FILES, IO_ERROR])
        self.disk.fail(self.random.randrange(12), reason, count=self.random.choice([1, 1, 5]))
        act = self.random.choice([self.produce07, self.produce, self.read, self.sync, self.measure, self.roll, self.retain])
        try:
            act()
        except StorageFailed as failure:
            self.disk.heal()
            if not isinstance(failure, TryAgain) and act in (self.sync, self.read, self.roll, self.retain):
                self.kill()
        self.disk.heal()
        if self.disk.has_failed_names:
            self.kill()

    def power_cut(self) -> None:
        self.disk.crash(self.random)
        self.log = self.open()

    def read(self) -> None:
        """Read everything, in pieces of any size, and hold it against what was seen before and against what others see."""
        self.reader.show(self.random.choice([Kind07.PLAIN1, Kind07.PLAIN1, Kind07.PLAIN0]))
        for position, data in self.reader.everything(self.random.choice([1 << 20, 70, 7])):
            for at, byte in enumerate(data, position):
                assert self.seen.setdefault(at, byte) == byte, f"the byte at {at} was {self.seen[at]} once"

    def check(self) -> None:
        """`ottla log check` finds nothing wrong once the log is closed, but what the disk refused to remove."""
        self.log.close()
        faults = check_positions(self.disk, PATH, self.disk.list(PATH))
        assert [fault for fault in faults if not fault.is_torn] == []

    def compare(self) -> None:
        """Both kinds of reader see the same, unless a compressed message was cut, or a gap left out."""
        self.reader.show()
        ours, theirs = self.reader.values(), values_today(self.log)
        assert ours == theirs[len(theirs) - len(ours) :], "they see the same in the same order"


def live(seed: int, acts: int) -> None:
    """One life. It may be cut at any operation of the disk."""
    random = Random(seed)
    life = Life07(random)
    for _ in range(acts):
        if random.random() < 0.15:
            life.disk.cut_soon(30, random)
        try:
            life.act()
        except PowerCut:
            life.power_cut()
        life.disk.cut_at = -1
    life.read()
    life.compare()
    life.check()
