"""What must be true of transactions whatever happens, written down as it happens: a violation raises `Violation` with its name.

prepared stays          what an outside coordinator has decided to commit is committed, however long that takes (KIP-939)
whole or not at all     a transaction's records are all there for readers of committed records, in order and once, or none is
only what is committed  nobody reads a record, or an offset, of a transaction that nobody has asked to commit
what is read stays      readers of committed records find again what they have read, also after a power cut
stable for good         the last stable offset of a partition never goes back, nor does a committed offset
fenced for good         after a new producer was initialised, nothing is written by those before it
nothing comes late      no record stands behind the end of its own transaction, and no epoch behind that of a newer end
nothing hangs           what is open in a partition is open at its coordinator, or about to end
ended in time           no transaction is open for longer than its timeout, and none takes long to end
once each               what was read is written once, and committed offsets say so
ids once                no producer id is given to two transactional ids
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ottla.broker.partitions.partition import Partition
from ottla.client.types import TopicPartition
from ottla.coord.transactions.transaction import PREPARED, Status, Transaction
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import BatchHeader, batches
from ottla.sim.invariants import stored_batches
from ottla.sim.world import World
from ottla.wire.api.fetch import FetchResponse
from tests.sim.lives.given_ids import GivenIds
from tests.sim.seeds import Violation

LONGEST_END_MS = 5_000
"""So long may markers take once an end is decided: all partitions are on one broker that lives."""
SLACK_MS = 500
SEPARATOR = "|"

PartitionData = FetchResponse.PartitionData


class Observed(Protocol):
    """The broker, or the brokers, that a ledger looks at."""

    world: World

    def partitions(self) -> Mapping[TopicPartition, Partition]:
        """All partitions that are led and not offline, as their leaders have them."""
        ...

    def transactions(self) -> list[Transaction]:
        """All transactional ids that the coordinators know."""
        ...


@dataclass(slots=True, eq=False)
class SimTransaction:
    """A transaction as its producer sees it.

    `may_commit`: a broker was asked to; `is_committed`: it has said that it did; `is_prepared`: an outside coordinator has decided
    to commit it (KIP-939).
    """

    name: str
    sent: dict[TopicPartition, list[str]] = field(default_factory=dict)
    offsets: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)
    may_commit: bool = False
    is_committed: bool = False
    is_prepared: bool = False


class Fence(NamedTuple):
    """A producer that was initialised, and where the logs ended then."""

    producer: tuple[int, int]
    ends: Mapping[TopicPartition, int]


class SeenRecord(NamedTuple):
    """A record as a reader of committed records gets it. `transaction` is the name of the one that wrote it."""

    offset: int
    transaction: str
    value: str


def valued(transaction: SimTransaction, payload: str) -> str:
    """The value of a record: whose it is, and what it stands for."""
    return f"{transaction.name}{SEPARATOR}{payload}"


def committed_records(data: PartitionData) -> tuple[list[SeenRecord], int | None]:
    """What a client makes of a fetch with read_committed, and where its next fetch begins; None without any batch.

    Written once more, and otherwise than in `ottla.client`: a mistake must not be on both sides.
    """
    view = memoryview(data.records or b"")
    found: list[SeenRecord] = []
    next_offset = None
    aborted = [(entry.producer_id, entry.first_offset) for entry in data.aborted_transactions or ()]
    void: set[int] = set()
    for position, header in batches(view):
        next_offset = header.next_offset
        for entry in [entry for entry in aborted if entry[1] <= header.last_offset]:
            aborted.remove(entry)
            void.add(entry[0])
        if header.is_control:
            void.discard(header.producer_id)
        elif not header.is_transactional or header.producer_id not in void:
            batch = view[position : position + header.size]
            found += [_seen(record.offset, bytes(record.value or b"")) for record in open_batches(batch).records()]
    return found, next_offset


def _seen(offset: int, value: bytes) -> SeenRecord:
    text = value.decode()
    return SeenRecord(offset, text.partition(SEPARATOR)[0], text)


class TransactionLedger:
    """Everything that was observed. The module's docstring names the violations."""

    def __init__(
        self, brokers: Observed, interval_ms: int, ids: GivenIds | None = None, *, has_stale_answers: bool = False
    ) -> None:
        """`interval_ms`: the time between two of a broker's looks for what is open for too long. `ids` are shared with others.

        `has_stale_answers`: an answer may come from a leader or coordinator that does not know yet that there is another.
        """
        self._ids = ids or GivenIds()
        self._has_stale_answers = has_stale_answers
        self._brokers = brokers
        self._interval_ms = interval_ms
        self.transactions: dict[str, SimTransaction] = {}
        self._fences: dict[str, list[Fence]] = {}
        self._stable: dict[TopicPartition, int] = {}
        self._committed: dict[tuple[str, TopicPartition], int] = {}
        self._ending: dict[tuple[str, int, int], int] = {}
        self._began_ms = 0

    @property
    def commits(self) -> int:
        """How many transactions are known to be committed."""
        return sum(each.is_committed for each in self.transactions.values())

    def begin(self, name: str) -> SimTransaction:
        """Note a transaction that is about to begin."""
        transaction = self.transactions[name] = SimTransaction(name)
        return transaction

    def initialised(self, transactional_id: str, producer_id: int, producer_epoch: int) -> None:
        """Note a producer that the broker has initialised just now: all that had this transactional id before are fenced.

        One that has kept a transaction is not noted: where that is open, who began it may go on until it ends (KIP-939).
        """
        self._ids.give(producer_id, transactional_id)
        fences = self._fences.setdefault(transactional_id, [])
        ends = {place: partition.log.log_end_offset for place, partition in self._brokers.partitions().items()}
        fences.append(Fence((producer_id, producer_epoch), ends))

    def broker_started(self) -> None:
        """Note that the broker's timers begin anew."""
        self._began_ms = self._brokers.world.now_ms
        self._ending.clear()

    def clock_jumped(self) -> None:
        """Note that the wall clock has jumped: what is open for too long by it was not a moment ago."""
        self._began_ms = self._brokers.world.now_ms

    # While it happens

    def look(self) -> None:
        """Compare the coordinators with the logs, and with the time."""
        known = self._brokers.transactions()
        for place, partition in self._brokers.partitions().items():
            for producer_id in partition.log.producers.open_transactions:
                if not any(place in each.partitions and _may_write(each, producer_id) for each in known):
                    raise Violation(
                        f"nothing hangs: producer {producer_id} has an open transaction in {_named(place)}, unknown to all"
                    )
        self._look_at_time(known)

    def _look_at_time(self, known: Iterable[Transaction]) -> None:
        now = self._brokers.world.clock.now()
        up_ms = now.mono_ms - self._began_ms
        ending: dict[tuple[str, int, int], int] = {}
        for each in known:
            late_ms = now.wall_ms - each.started_ms - each.timeout_ms - self._interval_ms - SLACK_MS
            if each.status is Status.ONGOING and late_ms > 0 and up_ms > self._interval_ms + SLACK_MS:
                raise Violation(f"ended in time: {each.transactional_id} is open {late_ms} ms longer than it may be")
            if each.status in PREPARED:
                key = (each.transactional_id, each.producer_id, each.updated_ms)
                ending[key] = self._ending.get(key, now.mono_ms)
                if now.mono_ms - ending[key] > LONGEST_END_MS:
                    raise Violation(f"ended in time: the end of {each.transactional_id} takes more than {LONGEST_END_MS} ms")
        self._ending = ending

    def stable(self, place: TopicPartition, last_stable_offset: int) -> None:
        """Note a last stable offset that the broker has told."""
        before = self._stable.get(place, 0)
        if self._has_stale_answers:
            return
        if last_stable_offset < before:
            raise Violation(
                f"stable for good: the last stable offset of {_named(place)} went from {before} to {last_stable_offset}"
            )
        self._stable[place] = last_stable_offset

    def seen(self, place: TopicPartition, records: Iterable[SeenRecord]) -> None:
        """Note what a reader of committed records has got."""
        for record in records:
            transaction = self.transactions.get(record.transaction)
            if transaction is not None and not transaction.may_commit:
                raise Violation(f"only what is committed: {record.value} was read in {_named(place)}, and nobody has committed it")

    def offset_seen(self, group_id: str, place: TopicPartition, offset: int) -> None:
        """Note a committed offset that anybody was told; -1 for none."""
        key = (group_id, place)
        before = self._committed.get(key, -1)
        if offset < before and not self._has_stale_answers:
            raise Violation(f"stable for good: {group_id} had committed {before} for {_named(place)}, and now {offset}")
        self._committed[key] = max(before, offset)
        if offset > before and not any(each.may_commit and each.offsets.get(key) == offset for each in self.transactions.values()):
            raise Violation(f"only what is committed: {group_id} has {offset} for {_named(place)}, which nobody has committed")

    # In the end

    def check_whole(self, views: Mapping[TopicPartition, list[SeenRecord]]) -> None:
        """Compare what is there for good with what was written. `views` has all partitions from which nothing is deleted."""
        found: dict[tuple[str, TopicPartition], list[str]] = {}
        for place, records in views.items():
            self.seen(place, records)
            for record in records:
                found.setdefault((record.transaction, place), []).append(record.value)
        for name, transaction in self.transactions.items():
            there = {place: values for place in views if (values := found.get((name, place)))}
            sent = {place: values for place, values in transaction.sent.items() if place in views}
            if transaction.is_prepared and there != sent:
                raise Violation(f"prepared stays: of {name} there is {there}, and it was decided to commit {sent}")
            if there != sent and (there or transaction.is_committed):
                lost = [f"{_named(place)}: {there.get(place)} of {values}" for place, values in sent.items()]
                raise Violation(f"whole or not at all: of {name} ({transaction.is_committed=}) there is {'; '.join(lost)}")

    def check_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Compare what a group has committed in the end with all that was told before."""
        for place, offset in offsets.items():
            key = (group_id, place)
            known = [each.offsets[key] for each in self.transactions.values() if each.is_committed and key in each.offsets]
            most = max([self._committed.get(key, -1), *known])
            if offset < most:
                raise Violation(f"stable for good: {group_id} had committed {most} for {_named(place)}, and in the end {offset}")

    def check_kept(self, place: TopicPartition, read: list[SeenRecord], records: list[SeenRecord]) -> None:
        """Compare what a reader has read, one fetch after the other, with what is there for good."""
        if read != records[: len(read)]:
            odd = next((pair for pair in zip(read, records, strict=False) if pair[0] != pair[1]), (read[-1], None))
            raise Violation(f"what is read stays: in {_named(place)} a reader had {odd[0]}, and there is {odd[1]}")

    def check_copied(self, source: Mapping[TopicPartition, list[SeenRecord]], target: Iterable[SeenRecord]) -> None:
        """Compare what was read with what was written for it."""
        written = Counter(record.value.partition(SEPARATOR)[2] for record in target)
        for place, records in source.items():
            for record in records:
                count = written.pop(source_name(place, record), 0)
                if count != 1:
                    raise Violation(f"once each: {source_name(place, record)} was written {count} times")
        topics = {place.topic for place in source}
        for payload in written:
            if any(payload.startswith(f"{topic}-") for topic in topics):
                raise Violation(f"once each: {payload} was written, and nobody can have read it")

    def check_logs(self) -> None:
        """Look at every stored batch, whoever may read it."""
        for place, partition in self._brokers.partitions().items():
            if place.topic.startswith("__"):
                continue
            ends: dict[int, int] = {}
            ended: dict[int, set[str]] = {}
            writing: dict[int, set[str]] = {}
            for batch in stored_batches(partition.log):
                ((_, header),) = batches(batch)
                if header.is_control:
                    ends[header.producer_id] = header.producer_epoch
                    ended.setdefault(header.producer_id, set()).update(writing.pop(header.producer_id, ()))
                elif header.is_transactional:
                    self._check_in_time(place, header, ends.get(header.producer_id, -1))
                    names = {_seen(0, bytes(record.value or b"")).transaction for record in open_batches(batch).records()}
                    late = names & ended.get(header.producer_id, set())
                    if late:
                        raise Violation(f"nothing comes late: {late} has a record behind its end in {_named(place)}")
                    writing.setdefault(header.producer_id, set()).update(names)

    def _check_in_time(self, place: TopicPartition, header: BatchHeader, ended_epoch: int) -> None:
        producer = (header.producer_id, header.producer_epoch)
        if header.producer_epoch < ended_epoch:
            raise Violation(f"nothing comes late: {_named(place)} has {producer} behind an end of epoch {ended_epoch}")
        for transactional_id, fences in self._fences.items():
            order = [fence.producer for fence in fences]
            for fence in fences[_last_before(order, header) + 1 :] if any(each[0] == producer[0] for each in order) else ():
                if header.base_offset >= fence.ends.get(place, 1 << 62):
                    sentence = f"{_named(place)} has {producer} at {header.base_offset}, when {fence.producer} had taken over"
                    raise Violation(f"fenced for good: {sentence} {transactional_id}")


def source_name(place: TopicPartition, record: SeenRecord) -> str:
    """What stands in a copy of this record."""
    return f"{_named(place)}@{record.offset}#{record.transaction}"


def _may_write(known: Transaction, producer_id: int) -> bool:
    return known.status not in (Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT) and known.producer_id == producer_id


def _last_before(order: list[tuple[int, int]], header: BatchHeader) -> int:
    """The place of the last initialisation that had given this producer its id, with this epoch or an earlier one."""
    places = [
        place
        for place, (producer_id, epoch) in enumerate(order)
        if producer_id == header.producer_id and epoch <= header.producer_epoch
    ]
    return places[-1] if places else len(order)


def _named(place: TopicPartition) -> str:
    return f"{place.topic}-{place.partition}"
