"""What clients know of a broker's topics, written down as it happens: what was sent, what was acknowledged, what may go.

nothing is lost       what was acknowledged is there, once, as it was sent; after a power cut, what acks=all acknowledged
nobody else writes    whatever is there was sent
offsets never go back the end of a partition, and its start, but for what a power cut may take
the young stay        retention takes no record younger than retention.ms, and leaves retention.bytes
newest of a key       compaction leaves out older records of a key only, and tombstones after delete.retention.ms

Knows no broker: what is seen of one is handed in. A violation raises `Violation` with its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.records.batches.header import HEADER_BYTES
from ottla.records.batches.record import Record
from tests.sim.seeds import Violation

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
LENGTHS_BYTES = 32
"""More than the numbers in a record take."""


class CleanupRules(NamedTuple):
    """A topic's settings that say what may be deleted. -1: no limit."""

    deletes: bool
    compacts: bool
    retention_ms: int
    retention_bytes: int
    delete_retention_ms: int

    @classmethod
    def of(cls, configs: Mapping[str, str]) -> CleanupRules:
        """Parse what was set for a topic, over Kafka's defaults."""
        policy = configs.get("cleanup.policy", "delete")
        return cls(
            "delete" in policy,
            "compact" in policy,
            int(configs.get("retention.ms", WEEK_MS)),
            int(configs.get("retention.bytes", -1)),
            int(configs.get("delete.retention.ms", DAY_MS)),
        )


class SentRecord:
    """One record sent at `wall_ms`. `times_ms` are the timestamps it may have in the log; `offset` is the answered one.

    `age_ms` is the time that retention counts from: that of the write, for formats without timestamps.
    """

    __slots__ = ("age_ms", "key", "offset", "times_ms", "value", "wall_ms")

    def __init__(self, key: bytes, value: bytes | None, time_ms: int, wall_ms: int) -> None:
        self.key = key
        self.value = value
        self.times_ms = [time_ms]
        self.wall_ms = wall_ms
        self.age_ms = time_ms if time_ms >= 0 else wall_ms
        self.offset: int | None = None

    @property
    def most_bytes(self) -> int:
        """What it takes in a log at most: alone in its batch, and not compressed."""
        return HEADER_BYTES + LENGTHS_BYTES + len(self.key) + len(self.value or b"")


class ObservedPartition(NamedTuple):
    """A partition as the broker has it; `highest_wall_ms` is the latest time its clock showed since the last look."""

    start: int
    end: int
    size_bytes: int
    highest_wall_ms: int


class PartitionLedger:
    """What is known of one partition. Everything below `durable` is durable."""

    def __init__(self, name: str, rules: CleanupRules) -> None:
        self.name = name
        self.rules = [rules]
        """The rules in force since the last look, the present ones last."""
        self.compacted = rules.compacts
        self.start = self.end = self.durable = 0
        self.deleted = self.asked_to_delete = 0
        self._most_bytes = self._sent_bytes = self._lost_bytes = 0
        self.told: dict[int, SentRecord] = {}
        self._sent: dict[bytes, SentRecord] = {}
        self._tombstones: dict[bytes, list[SentRecord]] = {}
        self._lost_power = False

    def change_rules(self, rules: CleanupRules) -> None:
        self.rules.append(rules)
        self.compacted |= rules.compacts

    # What clients do

    def send(self, records: Iterable[SentRecord]) -> None:
        """Note records that were sent: from now on they may be in the log."""
        for sent in records:
            self._most_bytes = max(self._most_bytes, sent.most_bytes)
            self._sent_bytes += sent.most_bytes
            if sent.value is None:
                self._tombstones.setdefault(sent.key, []).append(sent)
            else:
                self._sent[sent.value] = sent

    def acknowledge(self, records: Sequence[SentRecord], base_offset: int, *, durable: bool) -> None:
        """Note records that were acknowledged at this offset."""
        for offset, sent in enumerate(records, base_offset):
            other = self.told.get(offset)
            if other is not None and other is not sent:
                raise Violation(f"nothing is lost: offset {offset} of {self.name} was answered for two records")
            sent.offset = offset
            self.told[offset] = sent
        self.end = max(self.end, base_offset + len(records))
        if durable:
            self.durable = max(self.durable, base_offset + len(records))

    def delete(self, offset: int) -> None:
        """Note a request to delete the records below `offset`."""
        self.asked_to_delete = max(self.asked_to_delete, offset)

    def has_deleted(self, offset: int) -> None:
        self.deleted = max(self.deleted, offset)

    # What becomes of the broker

    def lost_power(self) -> None:
        """Note a power cut: what was not durable may be gone, in any part."""
        self._lost_power = True

    def keep_all(self, end: int) -> None:
        """Note that everything below `end` is durable."""
        self.durable = max(self.durable, end)

    # What is seen

    def look(self, seen: ObservedPartition) -> None:
        """Check where the partition begins and ends now."""
        if self._lost_power:
            self._look_after_power_cut(seen)
        if seen.end < self.end:
            raise Violation(f"offsets never go back: {self.name} ends at {seen.end}, and had {self.end}")
        if seen.start < max(self.start, self.deleted):
            raise Violation(f"offsets never go back: {self.name} begins at {seen.start}, and had {max(self.start, self.deleted)}")
        floor = max(self.start, min(self.asked_to_delete, seen.end))
        if seen.start > floor:
            self._check_retention(floor, seen)
        self.start, self.end = seen.start, seen.end
        self._sent_bytes = self._lost_bytes = 0
        del self.rules[:-1]

    def _look_after_power_cut(self, seen: ObservedPartition) -> None:
        """Note that deleted segments may be back, and that records nobody synced may be gone."""
        self._lost_power = False
        if seen.end < self.durable:
            raise Violation(f"nothing is lost: {self.name} ends at {seen.end}, and had {self.durable} on stable storage")
        self.start = max(self.deleted, min(self.start, seen.start))
        self._lost_bytes = self._sent_bytes + max(0, self.end - seen.end) * self._most_bytes
        self.end = min(self.end, seen.end)
        for offset in [offset for offset in self.told if offset >= (self.durable if self.compacted else seen.end)]:
            self.told.pop(offset).offset = None

    def _check_retention(self, floor: int, seen: ObservedPartition) -> None:
        """Check a start that moved beyond `floor` without a request."""
        held = [rules for rules in self.rules if rules.deletes]
        ages = [rules.retention_ms for rules in held if rules.retention_ms >= 0]
        sizes = [rules.retention_bytes for rules in held if rules.retention_bytes >= 0]
        if sizes and self.compacted:
            return
        gone = {offset: sent for offset, sent in self.told.items() if floor <= offset < seen.start}
        if self.compacted:  # what a newer record made superfluous may be gone already
            newest = {sent.key: sent for _, sent in sorted(self.told.items())}
            gone = {offset: sent for offset, sent in gone.items() if newest[sent.key] is sent and sent.value is not None}
        young_ms = seen.highest_wall_ms - min(ages) if ages else 0
        young = max((at for at, sent in gone.items() if sent.age_ms >= young_ms), default=-1) if ages else seen.start - 1
        # Size takes segments from the front while enough stays; then age may take some of what stayed for its size, and a power
        # cut some more.
        behind = (seen.start - 1 - young) * self._most_bytes + self._lost_bytes
        if young >= 0 and not (sizes and seen.size_bytes + behind >= min(sizes)):
            raise Violation(
                f"the young stay: {self.name} began at {floor} and begins at {seen.start}, with {seen.size_bytes} bytes; "
                f"the record at {young} is younger than {young_ms}, the time was {seen.highest_wall_ms} at most, "
                f"its rules were {self.rules}"
            )

    def read(self, records: Sequence[Record], highest_wall_ms: int) -> None:
        """Check all records of the partition; `highest_wall_ms` is the latest time the clock has ever shown."""
        found: dict[int, SentRecord] = {}
        values: set[bytes] = set()
        for record in records:
            sent = self.sender(record)
            if record.value is not None and bytes(record.value) in values:
                raise Violation(f"nothing is lost: what is at offset {record.offset} of {self.name} is there twice")
            values.add(bytes(record.value or b""))
            found[record.offset] = sent
        lost = [sent for offset, sent in self.told.items() if offset >= self.start and found.get(offset) is not sent]
        if lost:
            newest = {sent.key: offset for offset, sent in found.items()}
            for sent in lost:
                self._check_compacted(sent, newest.get(sent.key, -1), highest_wall_ms)

    def sender(self, record: Record) -> SentRecord:
        """Return the record as it was sent."""
        key, value = bytes(record.key or b""), None if record.value is None else bytes(record.value)
        told = self.told.get(record.offset)
        sent = told if value is None else self._sent.get(value)
        if value is None and (told is None or told.value is not None):
            unanswered = (each for each in self._tombstones.get(key, ()) if each.offset is None)
            sent = next((each for each in unanswered if record.timestamp in each.times_ms), None)
        if sent is None or sent.key != key:
            raise Violation(f"nobody else writes: nobody sent what is at offset {record.offset} of {self.name}")
        if told not in (None, sent) or (sent.offset is not None and sent.offset != record.offset):
            raise Violation(f"nothing is lost: offset {record.offset} of {self.name} holds what is of offset {sent.offset}")
        if record.timestamp not in sent.times_ms:
            raise Violation(
                f"nothing is lost: the record at offset {record.offset} of {self.name} has the time {record.timestamp}, "
                f"and was sent with {sent.times_ms}"
            )
        return sent

    def _check_compacted(self, sent: SentRecord, newest: int, highest_wall_ms: int) -> None:
        """Check an acknowledged record that is missing: a newer one of its key must have made it superfluous."""
        assert sent.offset is not None, "it was acknowledged"
        tombstones = self._tombstones.get(sent.key, [])
        buried = newest > sent.offset or any(each.offset is None or each.offset > sent.offset for each in tombstones)
        expired = sent.value is None and highest_wall_ms - sent.wall_ms >= min(rules.delete_retention_ms for rules in self.rules)
        if not (self.compacted and (buried or expired)):
            name = "newest of a key" if self.compacted else "nothing is lost"
            raise Violation(f"{name}: the record at offset {sent.offset} of {self.name} is lost, of {self.start} to {self.end}")
