"""What must be true of copies, whatever was killed meanwhile: the anomalies that Jepsen's workload for Kafka looks for.

Pure: takes what the copiers noted, what readers saw while it all went on, and what is there in the end.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.torture.copier import Copied

Place = tuple[str, int]
"""Topic and partition."""

Records = Mapping[Place, Mapping[int, bytes]]
"""Of each partition the values by offset, in order."""

Transaction = tuple[str, int]
"""A copier's life, and the number that it gave the transaction."""


@dataclass
class History:
    """`written` are the source's values, of each partition by offset. `committed` says how many records each transaction had that a
    copier was told is committed; `maybe` are those whose copier asked for that and heard nothing, `aborted` the aborted ones.
    `given_back` has of each partition the source's offsets that were in aborted transactions.

    Apache Kafka's coordinators of groups in ZooKeeper mode note the end of a transaction later than they tell it. If the next one
    of that producer has committed offsets by then and is aborted, its offsets count: the group goes on behind records that nobody
    has copied. Where `ends_are_late`, as such a broker may coordinate the group, records that were given back may be missing.
    """

    written: Mapping[int, Mapping[int, bytes]]
    committed: dict[Transaction, int] = field(default_factory=dict)
    maybe: set[Transaction] = field(default_factory=set)
    aborted: set[Transaction] = field(default_factory=set)
    given_back: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    ends_are_late: bool = False

    def add(self, life: str, notes: Iterable[str]) -> None:
        """What one copier noted."""
        asked: dict[Transaction, int] = {}
        for line in notes:
            words = line.split()
            if words[:1] == ["commit"] and len(words) >= 3:
                asked[life, int(words[1])] = int(words[2])
            elif words[:1] == ["abort"]:
                for index, first, last in map(_stretch, words[2:]):
                    self.given_back[index].update(range(first, last + 1))
            elif words[:1] == ["committed"] and len(words) == 2:
                self.committed[life, int(words[1])] = asked[life, int(words[1])]
            elif words[:1] == ["aborted"] and len(words) == 2:
                self.aborted.add((life, int(words[1])))
        self.maybe |= asked.keys() - self.committed.keys() - self.aborted


def _stretch(text: str) -> tuple[int, int, int]:
    """Partition, first and last offset, as copiers note them: "2:40-79"."""
    index, _, offsets = text.partition(":")
    first, _, last = offsets.partition("-")
    return int(index), int(first), int(last)


def anomalies(history: History, final: Records, live: Records) -> list[str]:
    """One sentence for each kind in each partition: with how many there are, and the first."""
    copies = {place: [Copied.read(value) for value in records.values()] for place, records in final.items()}
    return [
        *_aborted_reads(history, copies),
        *_lost_writes(history, copies),
        *_fractured(copies),
        *_duplicates(copies),
        *_out_of_order(copies),
        *_changed(final, live),
    ]


def _told(what: str, found: list[str]) -> Iterator[str]:
    if found:
        yield f"{what}: {len(found)}, such as {found[0]}"


def _aborted_reads(history: History, copies: Mapping[Place, list[Copied]]) -> Iterator[str]:
    """G1a: what was aborted, or what nobody ever asked to commit."""
    readable = history.committed.keys() | history.maybe
    for place, records in copies.items():
        yield from _told(f"aborted reads in {place}", [str(it) for it in records if (it.life, it.transaction) not in readable])


def _lost_writes(history: History, copies: Mapping[Place, list[Copied]]) -> Iterator[str]:
    """Transactions that were acknowledged and are not there whole, and records of the source that were never copied."""
    found = Counter((it.life, it.transaction) for records in copies.values() for it in records)
    lost = [f"{name}: {found[name]} of {count} records" for name, count in history.committed.items() if found[name] < count]
    yield from _told("lost transactions", lost)
    for (topic, index), records in copies.items():
        there = {it.offset: it.value for it in records if it.partition == index}
        excused = history.given_back[index] - there.keys() if history.ends_are_late else set()
        written = history.written.get(index, {})
        missing = [f"offset {at}" for at, value in written.items() if there.get(at) != value and at not in excused]
        yield from _told(f"records of partition {index} that were not copied to {topic}", missing)


def _fractured(copies: Mapping[Place, list[Copied]]) -> Iterator[str]:
    """Transactions of which a part can be read."""
    found: dict[Transaction, set[int]] = defaultdict(set)
    counts: dict[Transaction, int] = {}
    for records in copies.values():
        for it in records:
            found[it.life, it.transaction].add(it.index)
            counts[it.life, it.transaction] = it.count
    parts = [f"{name}: {len(found[name])} of {count} records" for name, count in counts.items() if len(found[name]) != count]
    yield from _told("fractured reads", parts)


def _duplicates(copies: Mapping[Place, list[Copied]]) -> Iterator[str]:
    for place, records in copies.items():
        counted = Counter((it.partition, it.offset) for it in records)
        yield from _told(f"duplicates in {place}", [f"copies of {source}" for source, count in counted.items() if count > 1])


def _out_of_order(copies: Mapping[Place, list[Copied]]) -> Iterator[str]:
    for place, records in copies.items():
        pairs = itertools.pairwise(records)
        yield from _told(f"out of order in {place}", [f"{b} behind {a}" for a, b in pairs if b.offset < a.offset])


def _changed(final: Records, live: Records) -> Iterator[str]:
    """Whoever read while all this went on has read a part of the same history, without a gap up to where it came."""
    for place, seen in live.items():
        there = final.get(place, {})
        reached = max(seen, default=-1)
        gone = [f"offset {offset}" for offset, value in seen.items() if there.get(offset) != value]
        yield from _told(f"reads in {place} of what is not there any more", gone)
        skipped = [f"offset {offset}" for offset in there if offset <= reached and offset not in seen]
        yield from _told(f"reads in {place} that passed over what came later", skipped)
