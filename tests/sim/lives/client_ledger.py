"""What must be true of clients whatever happens, written down as it happens. The first violation is kept, with its name.

acknowledged stays    each acknowledged record is in the log, at the offset that was returned
none doubled          an idempotent producer writes each record at most once
order                 records of one producer are in the order of their sends, in each partition
told once             each delivery is reported exactly once
no gaps               a consumer hands out all records of a partition in order, from where it began
all are read          a group hands out every record that can be read
commits are earned    no offset is committed before all records below it were handed out
one owner             no partition is read by two members that the coordinator both knows
no busy loop          a client takes a bounded number of steps in a second
whole or not at all   of a transaction, all records can be read or none: all if it was committed, none if it was aborted
exactly once          what programs copy in transactions is there once, in the order of its source
nothing unexpected    clients raise the documented exceptions only, and lose none
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.client.errors import KafkaError, Purged
from ottla.client.types import RecordMetadata, TopicPartition

Told = RecordMetadata | KafkaError
PLAIN, COMMITTED, ABORTED, OPEN = "plain", "committed", "aborted", "open"
"""What became of the transaction of a record; `PLAIN` records have none."""
MARK = b"|"
"""Separates a copied value from the name of its copy."""


class Stored(NamedTuple):
    """A record in a log."""

    offset: int
    value: bytes
    fate: str

    @property
    def is_readable(self) -> bool:
        """Return whether readers of committed records get the record."""
        return self.fate in (PLAIN, COMMITTED)


@dataclass(slots=True)
class Transaction:
    """The records that were sent in a transaction, and the outcome that the program got."""

    values: list[bytes] = field(default_factory=list)
    outcome: str = OPEN


@dataclass(slots=True)
class Sent:
    """A record that a producer has accepted, and what was reported of it."""

    value: bytes
    where: TopicPartition
    told: list[Told] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Return the value without what makes it long."""
        return b"".join(self.value.split()).decode()


class Promises(NamedTuple):
    """What the settings of a producer promise of its records."""

    stays: bool
    once: bool
    ordered: bool


class Handed(NamedTuple):
    """A record that a consumer has handed out, at a time."""

    offset: int
    value: bytes | None
    at: int


@dataclass(slots=True)
class Share:
    """A partition in the hands of one member, from its assignment on. `handed` are the records that the member has handed out."""

    group_id: str
    member: str
    where: TopicPartition
    handed: list[Handed] = field(default_factory=list)


class Committed(NamedTuple):
    """An offset that a coordinator had stored for a group, at a time."""

    group_id: str
    where: TopicPartition
    offset: int
    at: int


class ClientLedger:
    """Everything that was observed. The module's docstring names the violations."""

    def __init__(self) -> None:
        self.violation = ""
        self.acknowledged = 0
        self.failed = 0
        self.sent: dict[str, list[Sent]] = {}
        self.promises: dict[str, Promises] = {}
        self.shares: list[Share] = []
        self.commits: dict[Committed, None] = {}
        self.killed: set[str] = set()
        """The producers whose processes were killed: nothing more is reported to them."""
        self.transactions: list[Transaction] = []
        self.seen: dict[str, set[tuple[TopicPartition, int]]] = {}
        """Group -> the partitions and offsets of all records that were handed out."""
        self.lost: dict[TopicPartition, set[tuple[int, bytes]]] = {}
        """The offsets and values that power cuts removed. Consumers may have read them, as `docs/durability.md` says."""
        self.reads_all: set[str] = set()
        """The groups that read records of open and aborted transactions, too."""
        self._last: dict[tuple[str, TopicPartition], int] = {}

    def violate(self, name: str, sentence: str) -> None:
        """Keep the first violation."""
        self.violation = self.violation or f"{name}: {sentence}"

    # --- what happens

    def begins(self, producer: str, promises: Promises) -> None:
        self.sent[producer] = []
        self.promises[producer] = promises

    def accepted(self, producer: str, value: bytes, where: TopicPartition) -> Sent:
        """Note a record that `send` has returned a delivery for."""
        sent = Sent(value, where)
        self.sent[producer].append(sent)
        return sent

    def told(self, sent: Sent, outcome: Told) -> None:
        """Note a report about a record."""
        sent.told.append(outcome)
        if isinstance(outcome, KafkaError):
            self.failed += 1
        else:
            self.acknowledged += 1
        if len(sent.told) > 1:
            self.violate("told once", f"{sent.name} was reported {len(sent.told)} times")

    def handed_out(self, share: Share, handed: Handed) -> None:
        """Note a record that a member has handed out."""
        share.handed.append(handed)
        self.seen.setdefault(share.group_id, set()).add((share.where, handed.offset))

    def committed(self, found: Committed) -> None:
        """Note a stored offset, the first time that it is seen."""
        key = (found.group_id, found.where)
        if self._last.get(key) != found.offset:
            self._last[key] = found.offset
            self.commits[found] = None

    def lose(self, where: TopicPartition, before: list[Stored], after: list[Stored]) -> None:
        """Note the records that a power cut removed from a partition."""
        left = {(record.offset, record.value) for record in after}
        self.lost.setdefault(where, set()).update((each.offset, each.value) for each in before)
        self.lost[where] -= left

    def lost_reads(self, group_id: str, where: TopicPartition) -> set[tuple[int, bytes]]:
        """Return the lost records that members of a group had read."""
        shares = [share for share in self.shares if (share.group_id, share.where) == (group_id, where)]
        return {(each.offset, each.value or b"") for share in shares for each in share.handed} & self.lost.get(where, set())

    # --- what must be true in the end

    def check_producers(self, logs: dict[TopicPartition, list[Stored]]) -> None:
        """Check all records that were sent against the logs."""
        places: dict[bytes, list[tuple[TopicPartition, int]]] = {}
        for where, records in logs.items():
            for record in records:
                places.setdefault(record.value, []).append((where, record.offset))
        for producer, all_sent in self.sent.items():
            promises = self.promises[producer]
            last: dict[TopicPartition, int] = {}
            for sent in all_sent:
                if sent.told or producer not in self.killed:
                    self._check_sent(sent, promises, places.get(sent.value, []))
                outcome = sent.told[0] if sent.told else None
                found = places.get(sent.value)
                if promises.ordered and found and isinstance(outcome, RecordMetadata):
                    if found[0][1] <= last.get(sent.where, -1):
                        self.violate("order", f"{sent.name} is at {found[0][1]}, after one that was sent later")
                    last[sent.where] = found[0][1]

    def _check_sent(self, sent: Sent, promises: Promises, found: list[tuple[TopicPartition, int]]) -> None:
        if not sent.told:
            self.violate("told once", f"{sent.name} was never reported")
            return
        outcome = sent.told[0]
        if isinstance(outcome, RecordMetadata) and promises.stays:
            place = (TopicPartition(outcome.topic, outcome.partition), outcome.offset)
            if place[0] != sent.where or place not in found:
                self.violate("acknowledged stays", f"{sent.name} was acknowledged at {place}, and is at {found}")
        if promises.once and len(found) > 1:
            self.violate("none doubled", f"{sent.name} is at {found}")
        if isinstance(outcome, Purged) and found:
            self.violate("told once", f"{sent.name} was purged, and is at {found}")

    def check_transactions(self, logs: dict[TopicPartition, list[Stored]], *, is_over: bool = True) -> None:
        """Check that the records of each transaction can be read as its outcome says. If all `is_over`, none may be open."""
        readable = {record.value for records in logs.values() for record in records if record.is_readable}
        left = [record.value for records in logs.values() for record in records if record.fate == OPEN]
        if left and is_over:
            self.violate("whole or not at all", f"{left[:3]} are in a transaction that has not ended")
        for transaction in self.transactions:
            there = [value for value in transaction.values if value in readable]
            whole = len(there) == len(transaction.values)
            if (
                (there and not whole)
                or (transaction.outcome == COMMITTED and not whole)
                or (transaction.outcome == ABORTED and there)
            ):
                missing = [value for value in transaction.values if value not in readable]
                self.violate("whole or not at all", f"{transaction.outcome}: {there[:3]} can be read, {missing[:3]} cannot")

    def check_copies(self, source: list[Stored], copy: list[Stored], lost: set[tuple[int, bytes]]) -> None:
        """Check that a partition was copied exactly once. `lost` are read records that a power cut removed from the source.

        A lost record may be copied. It may also be skipped over what got its offset.
        """
        instead = {record.value for record in source if record.offset in {offset for offset, _ in lost}}
        passed = instead | {value for _, value in lost}
        wanted = [record.value for record in source if record.is_readable and record.value not in passed]
        found = [value for record in copy if record.is_readable and (value := record.value.rpartition(MARK)[0]) not in passed]
        if found != wanted:
            at = next(
                (at for at, (one, other) in enumerate(zip(found, wanted, strict=False)) if one != other),
                min(len(found), len(wanted)),
            )
            self.violate("exactly once", f"from {at} on there is {found[at : at + 4]} instead of {wanted[at : at + 4]}")

    def check_consumers(self, logs: dict[TopicPartition, list[Stored]], *, is_over: bool = True) -> None:
        """Check all records that were handed out, and all commits, against the records that can be read. If all `is_over`, each
        group must have read everything.
        """
        first: dict[tuple[str, TopicPartition], dict[int, int]] = {}
        visible = {where: [record for record in records if record.is_readable] for where, records in logs.items()}
        for share in self.shares:
            self._check_share(share, (logs if share.group_id in self.reads_all else visible)[share.where])
            times = first.setdefault((share.group_id, share.where), {})
            for handed in share.handed:
                times[handed.offset] = min(times.get(handed.offset, handed.at), handed.at)
        for commit in self.commits:
            times = first.get(commit[:2], {})
            below = (record.offset for record in visible[commit.where] if record.offset < commit.offset)
            late = [offset for offset in below if times.get(offset, commit.at + 1) > commit.at]
            if late:
                self.violate("commits are earned", f"{commit} came before {late[:5]} were handed out")
        for group_id, topic in {(share.group_id, share.where.topic): None for share in self.shares if is_over}:
            for where, records in visible.items():
                times = first.get((group_id, where), {})
                missing = [record.offset for record in records if record.offset not in times]
                if missing and where.topic == topic:
                    self.violate("all are read", f"{where} of {group_id} has {missing[:5]}, which no member handed out")

    def _check_share(self, share: Share, records: list[Stored]) -> None:
        values = {record.offset: record.value for record in records}
        offsets = [record.offset for record in records]
        for part in self._parts(share):
            handed = [each.offset for each in part]
            expected = [offset for offset in offsets if handed[0] <= offset <= handed[-1]]
            if handed != expected:
                self.violate("no gaps", f"{share.member} handed out {handed[:9]}… of {share.where}, where {expected[:9]}… are")
            for each in part:
                if each.offset in values and values[each.offset] != each.value:
                    name = (each.value or b"").strip()
                    self.violate("no gaps", f"{share.member} handed out {name!r} as offset {each.offset} of {share.where}")

    def _parts(self, share: Share) -> list[list[Handed]]:
        """Return the records that were handed out, without lost ones. After a lost one, a member may go on elsewhere."""
        lost = self.lost.get(share.where, set())
        parts: list[list[Handed]] = [[]]
        for each in share.handed:
            if (each.offset, each.value or b"") in lost:
                parts.append([])
            else:
                parts[-1].append(each)
        return [part for part in parts if part]
