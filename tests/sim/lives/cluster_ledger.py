"""What must be true of a cluster's partitions whatever happens, written down as it happens: a violation raises `Violation`.

one controller          two brokers are never controllers of the same epoch
one leader per epoch    two brokers never lead a partition in the same leader epoch
committed stays         what is below a high watermark is the same on every replica that has its own above it, for good
acknowledged stays      a record that was acknowledged with acks=all stays where it was acknowledged to be
once and in order       an idempotent producer's records are there once, in the order in which they were sent
what is read stays      readers find again what they have read
nothing from nowhere    no record is there that nobody has sent
ids once                no producer id is given twice (`given_ids`)
heals                   once faults stop, every partition has a leader and all its replicas in sync, with the same bytes
nothing at ERROR        no broker says anything at ERROR that the seed itself gave no reason for

Unclean elections are off except for topics that `may_lose`, records go only where an operator `deletes` them, and the last of an
in-sync set loses no power.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from ottla.broker.partitions.partition import LEADER, Partition
from ottla.client.types import TopicPartition
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import batches
from ottla.sim.cluster_host import ClusterHost
from ottla.sim.invariants import stored_batches
from tests.sim.seeds import Violation


class SentValue(NamedTuple):
    """Who sent a record, as which of its own, and whether it may be there more than once."""

    sender: str
    number: int
    is_idempotent: bool


class Verified(NamedTuple):
    """How far a replica's log was compared with what is committed, in which life of its host."""

    life: int
    offset: int


class ClusterLedger:
    """Everything that was observed. The module's docstring names the violations."""

    def __init__(self, hosts: Mapping[int, ClusterHost], ignored: Iterable[str] = ()) -> None:
        self._hosts = hosts
        self._sent: dict[TopicPartition, dict[str, SentValue]] = {}
        self._acknowledged: dict[TopicPartition, dict[int, str]] = {}
        self._leaders: dict[tuple[TopicPartition, int], int] = {}
        self._committed: dict[TopicPartition, dict[int, bytes]] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._verified: dict[tuple[int, TopicPartition], Verified] = {}
        self._ignored = frozenset(ignored)
        self._losing: set[str] = set()
        self._deleted: dict[TopicPartition, int] = {}
        self._unseen: dict[TopicPartition, int] = {}
        self._controllers: dict[int, int] = {}
        self.on_acknowledged: list[Callable[[TopicPartition, int], None]] = []
        """Who hears of what was acknowledged: the partition, and the offset behind it."""

    @property
    def acknowledged(self) -> int:
        """How many records were acknowledged."""
        return sum(map(len, self._acknowledged.values()))

    # What clients do

    def sends(self, place: TopicPartition, values: Sequence[str], sender: str, number: int, *, is_idempotent: bool) -> None:
        """Note records that are about to be sent, the `number`th and following ones of the sender in this partition."""
        sent = self._sent.setdefault(place, {})
        for at, value in enumerate(values):
            sent[value] = SentValue(sender, number + at, is_idempotent)

    def acknowledges(self, place: TopicPartition, base_offset: int, values: Sequence[str]) -> None:
        """Note that a broker has said that these records are stored there."""
        if place.topic in self._losing:
            return
        known = self._acknowledged.setdefault(place, {})
        for at, value in enumerate(values):
            before = known.setdefault(base_offset + at, value)
            if before != value:
                raise Violation(
                    f"acknowledged stays: {before} and {value} were both acknowledged at {_at(place, base_offset + at)}"
                )
        for told in self.on_acknowledged:
            told(place, base_offset + len(values))

    # What operators do

    def may_lose(self, topic: str) -> None:
        """Note that a topic elects leaders that are not in sync: what is committed there may be lost."""
        self._losing.add(topic)

    def loses(self, topic: str) -> bool:
        """Whether what is committed in this topic may be lost."""
        return topic in self._losing

    def deletes(self, place: TopicPartition, offset: int) -> None:
        """Note that records below an offset may be gone from now on."""
        self._deleted[place] = max(offset, self.deleted(place))

    def deleted(self, place: TopicPartition) -> int:
        """Records below this offset may be gone."""
        return self._deleted.get(place, 0)

    def committed_end(self, place: TopicPartition) -> int:
        """The highest high watermark that was seen."""
        return self._ends.get(place, 0)

    # While it happens

    def look(self) -> None:
        """Compare the replicas with each other."""
        with ExitStack() as stack:
            for host in self._hosts.values():
                stack.enter_context(host.disk.suspend_faults())
            for host in self._hosts.values():
                self._look_at_controller(host)
                for place, partition in self._replicas(host):
                    self._look_at_leader(host, place, partition)
            for host in self._hosts.values():
                for place, partition in self._replicas(host):
                    self._compare(host, place, partition)

    def _look_at_controller(self, host: ClusterHost) -> None:
        controller = None if host.broker is None else host.broker.controller
        epoch = None if controller is None else controller.epoch
        if epoch is not None and self._controllers.setdefault(epoch, host.node_id) != host.node_id:
            raise Violation(
                f"one controller: {self._controllers[epoch]} and {host.node_id} both are the controller of epoch {epoch}"
            )

    def _look_at_leader(self, host: ClusterHost, place: TopicPartition, partition: Partition) -> None:
        if partition.role is not LEADER:
            return
        known = self._leaders.setdefault((place, partition.leader_epoch), host.node_id)
        if known != host.node_id:
            raise Violation(
                f"one leader per epoch: {known} and {host.node_id} both lead {_named(place)} in epoch {partition.leader_epoch}"
            )
        if place.topic in self._losing:
            return
        committed, end = self._committed.setdefault(place, {}), self._ends.get(place, 0)
        start = partition.log.log_start_offset
        if start > max(end, self.deleted(place)):
            raise Violation(
                f"committed stays: {_named(place)} begins at offset {start} on {host.name}, and nobody has deleted that"
            )
        if start > end:
            self._unseen[place] = max(start, self._unseen.get(place, 0))
        if partition.high_watermark > end:
            for offset, batch in _batches(partition, end, partition.high_watermark):
                committed[offset] = batch
            self._ends[place] = partition.high_watermark

    def _compare(self, host: ClusterHost, place: TopicPartition, partition: Partition) -> None:
        """What this replica has below its high watermark is what is committed."""
        if place.topic in self._losing:
            return
        key, unseen = (host.node_id, place), self._unseen.get(place, 0)
        life, verified = self._verified.get(key, Verified(host.lives, 0))
        end = min(partition.high_watermark, self._ends.get(place, 0))
        begin = min(verified, end) if life == host.lives else 0
        committed = self._committed.get(place, {})
        for offset, batch in _batches(partition, begin, end):
            if committed.get(offset) != batch and (offset in committed or offset >= unseen):
                there = committed.get(offset)
                raise Violation(
                    f"committed stays: {host.name} has {_told(batch)} at {_at(place, offset)}, and committed was "
                    f"{'another batch' if there is None else _told(there)}"
                )
        self._verified[key] = Verified(host.lives, end)

    # In the end

    def check_replicas(self, wanted: Mapping[TopicPartition, int]) -> None:
        """All replicas of these partitions (so many each) are the same to the byte, from where all of them begin."""
        for place, count in wanted.items():
            held = {
                host.name: partition
                for host in self._hosts.values()
                for there, partition in self._replicas(host)
                if there == place and partition.replicas is not None
            }
            start = max((partition.log.log_start_offset for partition in held.values()), default=0)
            found = {name: [bytes(batch) for batch in stored_batches(each.log, start)] for name, each in held.items()}
            if len(found) != count or len({tuple(each) for each in found.values()}) != 1:
                sizes = {name: f"{len(each)} batches, {sum(map(len, each))} bytes" for name, each in found.items()}
                raise Violation(f"heals: the replicas of {_named(place)} are {sizes}")

    def check_log(self, place: TopicPartition, partition: Partition) -> None:
        """Hold what is there for good against what was sent and acknowledged."""
        if place.topic in self._losing:
            return
        self._check_committed(place, partition)
        there = dict(_values(partition))
        for offset, value in self._acknowledged.get(place, {}).items():
            if there.get(offset) != value and offset >= self.deleted(place):
                raise Violation(
                    f"acknowledged stays: {value} was acknowledged at {_at(place, offset)}, where {there.get(offset)} is"
                )
        sent = self._sent.get(place, {})
        last: dict[str, int] = {}
        for offset, value in sorted(there.items()):
            known = sent.get(value)
            if known is None:
                raise Violation(f"nothing from nowhere: {value} is at {_at(place, offset)}, and nobody has sent it")
            if known.is_idempotent:
                if known.number <= last.get(known.sender, -1):
                    raise Violation(
                        f"once and in order: {value} at {_at(place, offset)} is number {known.number} of {known.sender}, behind "
                        f"number {last[known.sender]}"
                    )
                last[known.sender] = known.number

    def _check_committed(self, place: TopicPartition, partition: Partition) -> None:
        """What was ever below a high watermark is there."""
        there = dict(_batches(partition, 0, partition.log.log_end_offset))
        start = max(partition.log.log_start_offset, self.deleted(place))
        for offset, batch in self._committed.get(place, {}).items():
            if offset >= start and there.get(offset) != batch:
                found = "nothing" if offset not in there else _told(there[offset])
                raise Violation(f"committed stays: {_told(batch)} was committed at {_at(place, offset)}, where {found} is")

    def check_read(self, place: TopicPartition, read: Mapping[int, str], partition: Partition) -> None:
        """Hold what a reader has got against what is there for good."""
        there = dict(_values(partition))
        for offset, value in read.items():
            if there.get(offset) != value and offset >= self.deleted(place):
                raise Violation(f"what is read stays: a reader had {value} at {_at(place, offset)}, where {there.get(offset)} is")

    def _replicas(self, host: ClusterHost) -> Iterator[tuple[TopicPartition, Partition]]:
        if host.broker is None:
            return
        for partition in host.broker.partitions:
            if partition.offline is None and partition.topic not in self._ignored:
                yield TopicPartition(partition.topic, partition.index), partition


def _batches(partition: Partition, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
    """(base offset, bytes) of the batches that begin in a range."""
    for batch in stored_batches(partition.log, begin):
        ((_, header),) = batches(batch)
        if header.base_offset >= end:
            return
        if header.base_offset >= begin:
            yield header.base_offset, bytes(batch)


def _values(partition: Partition) -> Iterator[tuple[int, str]]:
    for batch in stored_batches(partition.log):
        ((_, header),) = batches(batch)
        if not header.is_control:
            for record in open_batches(batch).records():
                yield record.offset, bytes(record.value or b"").decode()


def _told(batch: bytes) -> str:
    ((_, header),) = batches(memoryview(batch))
    return f"offsets {header.base_offset} to {header.last_offset} of epoch {header.leader_epoch} (CRC {header.crc:#x})"


def _named(place: TopicPartition) -> str:
    return f"{place.topic}-{place.partition}"


def _at(place: TopicPartition, offset: int) -> str:
    return f"offset {offset} of {_named(place)}"
