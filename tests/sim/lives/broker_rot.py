"""Bit rot in a simulated broker's life: one bit of a file at rest is flipped, and put right a while later, as from a copy.

nothing rots unseen   what is read is what was sent, or an error, and the log names the partition; others are read as before;
                      in the registry it is mended from the other half by the next start, which names the file

Knows the disk's files and the ledger only. Whoever puts the bit right checks that everything is there again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

from ottla.log.check.check import partitions
from ottla.log.journal.format import FILES, INCARNATION, JOURNAL
from ottla.log.name_places import joined
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import BadBatch
from ottla.records.batches.record import Record
from ottla.records.compression.codecs import CodecFailed
from ottla.registry.count import COUNT
from ottla.registry.generations import DIRECTORIES, journal_name, numbers
from ottla.sim.disk import SimDisk
from ottla.sim.host import Host
from ottla.wire import errors as codes
from ottla.wire.api.fetch import FetchRequest
from tests.sim.lives.broker_clients import FETCH, FETCH_BYTES, FETCH_VERSION, PEER, each
from tests.sim.lives.broker_ledger import PartitionLedger
from tests.sim.lives.broker_topics import SimTopic
from tests.sim.seeds import Violation

REFUSALS = codes.CORRUPT_MESSAGE, codes.KAFKA_STORAGE_ERROR
ROTTING = (".log", ".index")


def flip_in_registry(disk: SimDisk, random: Random) -> str:
    """Flip a bit of one of the files that the next start relies on; returns its path. No broker may run."""
    journals = [f"{directory}/{journal_name(numbers(disk, directory)[-1])}" for directory in DIRECTORIES]
    path = random.choice((*journals, COUNT))
    used = len(disk.read_file(path).rstrip(b"\0")) + 1
    disk.flip_bit(path, random.randrange(8 * min(used, disk.size(path))))
    return path


def flip_in_journals(disk: SimDisk, log_dirs: Sequence[str], random: Random) -> None:
    """Flip a bit of a file of a journal. No broker may run, and the logs must have everything that it has."""
    names = [joined(directory, f"{JOURNAL}/{name}") for directory in ("", *log_dirs) for name in (*FILES, INCARNATION)]
    paths = [name for name in names if disk.exists(name)]
    if paths:
        path = random.choice(paths)
        disk.flip_bit(path, random.randrange(8 * disk.size(path)))


class BitRot:
    """One flipped bit. `said` tells what the broker logged in this life."""

    def __init__(self, host: Host, topic: SimTopic, index: int, said: Callable[[], Sequence[str]]) -> None:
        self._host = host
        self._topic = topic
        self._index = index
        self._said = said
        self._name = f"{topic.name}-{index}"
        self._path = ""
        self._bit = -1
        self._rotten = 0

    def begin(self) -> str | None:
        """Flip a bit of one of the partition's files; its path, or None where there is nothing to flip."""
        disk, random = self._host.disk, self._host.world.random
        homes = [path for path in partitions(disk, self._host.log_dirs) if path.rpartition("/")[2] == self._name]
        paths = [f"{home}/{name}" for home in homes for name in disk.list(home) if name.endswith(ROTTING)]
        paths = [path for path in paths if disk.size(path)]
        if not paths:
            return None
        self._path = random.choice(paths)
        self._bit = random.randrange(8 * disk.size(self._path))
        disk.flip_bit(self._path, self._bit)
        self._rotten = self._byte()
        return self._path

    def end(self) -> None:
        """Put the bit right, if the file is still there as it was."""
        if self._host.disk.exists(self._path) and self._byte() == self._rotten:
            self._host.disk.flip_bit(self._path, self._bit)

    def _byte(self) -> int:
        data = self._host.disk.read_file(self._path)
        return data[self._bit // 8] if self._bit // 8 < len(data) else -1

    def look(self, topics: Iterable[SimTopic]) -> None:
        """Read everything. Raises `Violation`."""
        for topic, index in each(topics):
            broker = self._host.broker
            found = None if broker is None or topic.is_leaving else broker.partitions.get(topic.name, index)
            if found is None or found.topic_id != topic.topic_id:
                continue
            name = f"{topic.name}-{index}"
            if name != self._name and found.offline is not None:
                raise Violation(f"nothing rots unseen: {name} is offline, and {self._path} is damaged: {found.offline}")
            if found.offline is None:
                self._read(topic, index, found.log.log_start_offset)
            else:
                self._must_be_said()

    def _must_be_said(self) -> None:
        if not any(self._name in entry for entry in self._said()):
            raise Violation(f"nothing rots unseen: {self._name} can't be read, and the log says nothing of it")

    def _read(self, topic: SimTopic, index: int, offset: int) -> None:
        """Read from `offset` to the end, and beyond what can't be read."""
        past = topic.pasts[index]
        wanted = sorted(each for each in past.told if each >= offset)
        found: dict[int, Record] = {}
        refused: set[int] = set()
        while offset < past.end:
            part = self._fetched(topic, index, offset)
            if part.error_code:
                if past.name != self._name or part.error_code not in REFUSALS:
                    error = codes.error_name(part.error_code)
                    raise Violation(f"nothing rots unseen: {past.name} answers {error}, and {self._path} is damaged")
                self._must_be_said()
                refused.add(offset)
                offset = next((each for each in wanted if each > offset), past.end)
                continue
            following = self._take(past.name, bytes(part.records or b""), offset, found)
            if following <= offset:
                raise Violation(f"nothing rots unseen: nothing is read of {past.name} from {offset} on; {self._path} is damaged")
            offset = following
        for record in found.values():
            self._must_be_sent(past, record)
        lost = [each for each in wanted if each not in found and each not in refused]
        if lost and not past.compacted:
            raise Violation(f"nothing rots unseen: offsets {lost[:5]} of {past.name} are passed over; {self._path} is damaged")

    def _must_be_sent(self, past: PartitionLedger, record: Record) -> None:
        try:
            past.sender(record)
        except Violation as violation:
            raise Violation(f"nothing rots unseen: {violation}, and {self._path} is damaged") from violation

    def _take(self, name: str, data: bytes, offset: int, found: dict[int, Record]) -> int:
        try:
            columns = open_batches(memoryview(data), from_offset=offset, check_crcs=True)
        except (BadBatch, CodecFailed) as bad:
            raise Violation(f"nothing rots unseen: what is read of {name} from {offset} on is damaged: {bad}") from bad
        found.update((record.offset, record) for record in columns.records())
        return columns.next_offset

    def _fetched(self, topic: SimTopic, index: int, offset: int) -> Any:
        answers: list[Any] = []
        wanted = FetchRequest.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        body = FetchRequest(max_bytes=FETCH_BYTES, topics=[FetchRequest.FetchTopic(topic=topic.name, partitions=[wanted])])
        self._host.receive(FETCH, FETCH_VERSION, body, PEER, answers.append)
        if not answers or answers[0] is None:
            raise Violation(f"nothing rots unseen: a fetch of {topic.name}-{index} at {offset} is not answered")
        return answers[0].responses[0].partitions[0]
