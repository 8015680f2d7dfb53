"""The programs that use transactions in a simulated world: who copies, who writes, who looks on, and what becomes of them.

Some programs copy the topic `in` to `mid`, others `mid` to `out`, each record once, and some write transactions of their own.
Several processes may have the same transactional id at a time. Knows clients and links; knows no broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from ottla.client.types import TopicPartition
from ottla.records.batches.builder import build
from ottla.sim.network import RequestLink
from ottla.sim.world import World
from ottla.wire.api.produce import ProduceRequest
from tests.sim.lives.transaction_copiers import CopyTask, SimCopier, SimMemberCopier
from tests.sim.lives.transaction_ledger import SEPARATOR, Observed, SeenRecord, TransactionLedger
from tests.sim.lives.transaction_members import SimClassicCopier
from tests.sim.lives.transaction_producer import NEWER, OLDER, ProducerWish, SimProducerProcess, SimWriter
from tests.sim.lives.transaction_readers import OffsetWatcher, SimLateReader, SimReader, read_all
from tests.sim.lives.transaction_two_phase import OutsideDecision, SimPreparingWriter

PRODUCE, PRODUCE_VERSION = 0, 9
TIMEOUTS_MS = (2_000, 6_000, 20_000)
MOST_ALIVE = 3
SOURCE, MIDDLE, TARGET = "in", "mid", "out"
TOPICS = (SOURCE, MIDDLE, TARGET)
STAGES = (("to-mid", SOURCE, MIDDLE), ("to-out", MIDDLE, TARGET))
"""Who copies what: group id, source, target."""
BATCH = 3
"""So many records of `in` are written at a time."""


class ProgramsPlan(Protocol):
    """How many programs there are, of which kinds.

    `records` are in each partition of `in`. `by_group`: those who copy are members of a group, of the protocols that `members`
    names. `prepares`: writers have outside coordinators.
    """

    @property
    def copiers(self) -> int: ...
    @property
    def writers(self) -> int: ...
    @property
    def partitions(self) -> int: ...
    @property
    def records(self) -> int: ...
    @property
    def protocol(self) -> str: ...
    @property
    def by_group(self) -> bool: ...
    @property
    def members(self) -> str: ...
    @property
    def prepares(self) -> bool: ...


Shared = tuple[World, Callable[[], RequestLink], TransactionLedger, ProducerWish]
"""What every process gets."""


class Slot:
    """A transactional id, and the processes that have it; the last of them is the right one."""

    def __init__(self, transactional_id: str, task: CopyTask | None, decision: OutsideDecision | None = None) -> None:
        self.transactional_id = transactional_id
        self.task = task
        self.decision = decision
        self.count = 0
        self.processes: list[SimProducerProcess] = []
        self.is_awaited = False

    @property
    def is_done(self) -> bool:
        """Whether its newest process has come to its end."""
        return bool(self.processes) and not self.processes[-1].alive and not self.processes[-1].ended_by


class SimPrograms:
    """All programs. `began` counts the processes that there were."""

    def __init__(
        self,
        world: World,
        connect: Callable[[], RequestLink],
        ledger: TransactionLedger,
        plan: ProgramsPlan,
        topic_ids: Mapping[str, bytes],
        say: Callable[[str], None],
        *,
        brief: TopicPartition | None = None,
        has_read: Callable[[], None] = lambda: None,
        timeouts_ms: Sequence[int] = TIMEOUTS_MS,
    ) -> None:
        """`brief`: a partition into which writers write, too, and from which records are deleted.

        `has_read()` is called whenever a reader has got anything new. `timeouts_ms`: how long transactions may be open.
        """
        self.world = world
        self.began = 0
        self._connect = connect
        self._ledger = ledger
        self._plan = plan
        self._topic_ids = topic_ids
        self._say = say
        self._brief = brief
        self._timeouts_ms = timeouts_ms
        self.slots = self._slots()
        self.readers = [SimReader(world, connect, ledger, place, has_read) for place in self.places(MIDDLE) + self.places(TARGET)]
        if brief is not None:
            SimLateReader(world, connect, ledger, brief, has_read)
        self.watchers = [OffsetWatcher(world, connect, ledger, group_id, self.places(source)) for group_id, source, _ in STAGES]

    def places(self, topic: str) -> tuple[TopicPartition, ...]:
        """The partitions of one of the topics."""
        return tuple(TopicPartition(topic, index) for index in range(self._plan.partitions))

    def _slots(self) -> list[Slot]:
        slots = []
        for group_id, source, target in STAGES:
            for number in range(self._plan.copiers):
                sources = self.places(source) if self._plan.by_group else self.places(source)[number :: self._plan.copiers]
                slots.append(Slot(f"{group_id}-{number}", CopyTask(group_id, sources, self.places(target))))
        for number in range(self._plan.writers):
            decision = OutsideDecision() if self._plan.prepares else None
            slots.append(Slot(f"writer-{number}", None, decision))
        return slots

    # Processes

    def begin_all(self) -> None:
        """Let the programs start, soon."""
        for slot in self.slots:
            self.world.after(self.world.random.randrange(2_000), partial(self._begin, slot))

    def _begin(self, slot: Slot) -> None:
        """Start a process, whatever others of its id do."""
        slot.is_awaited = False
        slot.count += 1
        self.began += 1
        chance = self.world.random
        protocol = {"older": OLDER, "newer": NEWER}.get(self._plan.protocol) or chance.choice((OLDER, NEWER))
        if slot.decision is not None:
            protocol = NEWER
        wish = ProducerWish(slot.transactional_id, slot.count, chance.choice(self._timeouts_ms), protocol)
        shared: Shared = (self.world, self._connect, self._ledger, wish)
        process: SimProducerProcess
        if slot.task is not None:
            process = self._copier(shared, slot.task)
        else:
            places = (*self.places(MIDDLE), *self.places(TARGET))
            if self._brief is not None:
                places = (*chance.sample(places, min(2, len(places))), self._brief)
            most = chance.randrange(2, 12)
            if slot.decision is None:
                process = SimWriter(*shared, places, most)
            else:
                process = SimPreparingWriter(*shared, places, most, slot.decision)
        slot.processes = [each for each in slot.processes if each.alive] + [process]
        self._say(f"{process.name} begins with the {'newer' if protocol.epochs else 'older'} protocol")

    def _copier(self, shared: Shared, task: CopyTask) -> SimCopier:
        if not self._plan.by_group:
            return SimCopier(*shared, task)
        if self._plan.members == "classic" or (self._plan.members == "both" and self.world.chance(0.5)):
            return SimClassicCopier(*shared, task)
        return SimMemberCopier(*shared, task, self._topic_ids[task.sources[0].topic])

    def mind(self) -> None:
        """Start a process in the place of each that has ended before it was done."""
        for slot in self.slots:
            gone = bool(slot.processes) and not slot.processes[-1].alive and not slot.is_done
            if gone and not slot.is_awaited:
                self._say(f"{slot.processes[-1].name} has ended: {slot.processes[-1].ended_by or 'it died'}")
                slot.is_awaited = True
                self.world.after(self.world.random.randrange(100, 1_500), partial(self._begin, slot))

    def _somebody(self) -> SimProducerProcess | None:
        alive = [process for slot in self.slots for process in slot.processes if process.alive]
        return self.world.random.choice(alive) if alive else None

    def somebody_dies(self) -> None:
        """Let a process end without a word."""
        process = self._somebody()
        if process is not None:
            process.ended_by = "it died"
            process.die()

    def somebody_stands_still(self) -> None:
        """Let a process do nothing for a while."""
        process = self._somebody()
        if process is not None:
            ms = self.world.random.choice((200, 1_500, 4_000, 10_000))
            self._say(f"{process.name} stands still for {ms} ms")
            process.stand_still(ms)

    def somebody_is_replaced(self) -> None:
        """Start another process beside a live one, which becomes a zombie and may stand still for a while."""
        slot = self.world.random.choice(self.slots)
        alive = [process for process in slot.processes if process.alive]
        if alive and len(alive) < MOST_ALIVE and not slot.is_done:
            if self.world.chance(0.7):
                alive[-1].stand_still(self.world.random.choice((500, 3_000, 8_000)))
            self._begin(slot)

    def go_on(self) -> None:
        """Let nobody stand still any more. Zombies go on until they are told."""
        for slot in self.slots:
            for process in slot.processes:
                process.stand_still(0)

    # In the end

    def undone(self, brokers: Observed) -> list[str]:
        """What is left to be done: writers that write, and records that nobody has copied."""
        waiting = [slot.transactional_id for slot in self.slots if slot.task is None and not slot.is_done]
        ends = {place: partition.last_stable_offset for place, partition in brokers.partitions().items()}
        last = {place: ends.get(place, self._plan.records) for place in self.places(SOURCE)}
        for reader in self.readers:
            last[reader.place] = reader.records[-1].offset + 1 if reader.records else 0
            if reader.place not in ends:
                waiting.append(f"{reader.name}, which has no leader")
            elif reader.position < ends[reader.place]:
                waiting.append(f"{reader.name} at {reader.position} of {ends[reader.place]}")
        for watcher in self.watchers:
            for place in watcher.places:
                offset = watcher.offsets.get(place, -1)
                if max(0, offset) < last[place]:
                    waiting.append(f"{watcher.group_id} at {offset} of {last[place]} in {place.topic}-{place.partition}")
        return waiting

    def check(self, link: Callable[[], RequestLink]) -> None:
        """Hold what is there for good against what was written. `link()` opens a good connection."""
        ledger = self._ledger
        ledger.check_logs()
        found = {place: read_all(self.world, link(), place) for topic in (MIDDLE, TARGET) for place in self.places(topic)}
        ledger.check_whole(found)
        for reader in self.readers:
            ledger.check_kept(reader.place, reader.records, found[reader.place])
        sources = {place: read_all(self.world, link(), place) for place in self.places(SOURCE)}
        ledger.check_copied(sources, self._of(MIDDLE, found))
        ledger.check_copied({place: found[place] for place in self.places(MIDDLE)}, self._of(TARGET, found))
        for watcher in self.watchers:
            ledger.check_offsets(watcher.group_id, watcher.offsets)

    def _of(self, topic: str, found: Mapping[TopicPartition, list[SeenRecord]]) -> list[SeenRecord]:
        return [record for place in self.places(topic) for record in found[place]]


def source_batches(plan: ProgramsPlan, wall_ms: int) -> list[ProduceRequest]:
    """What there is to copy, in the order in which it is written."""
    values = [f"in.0.{number}{SEPARATOR}own".encode() for number in range(plan.records)]
    asks: list[Any] = []
    for index in range(plan.partitions):
        for at in range(0, len(values), BATCH):
            batch = memoryview(build(None, values[at : at + BATCH], wall_ms))
            data = ProduceRequest.PartitionProduceData(index=index, records=batch)
            whole = ProduceRequest.TopicProduceData(name=SOURCE, partition_data=[data])
            asks.append(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[whole]))
    return asks
