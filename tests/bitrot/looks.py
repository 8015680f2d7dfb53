"""What clients see of a broker: everything there is to read, as one value that can be compared with another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import BadBatch, batches
from ottla.records.compression.codecs import CodecFailed
from ottla.wire.api.describe_configs import DescribeConfigsRequest
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.api.list_offsets import ListOffsetsRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from tests.bitrot.life import Life

FETCH, LIST_OFFSETS, METADATA, OFFSET_FETCH, EPOCHS, DESCRIBE = 1, 2, 3, 9, 23, 32
EARLIEST, LATEST, NEWEST = -2, -1, -3
STATIC_SOURCE, DEFAULT_SOURCE = 4, 5
TOPIC, BROKER, GROUP = 2, 4, 32
MOST_FETCHES = 400
MOST_EMPTY = 20
MOST_BYTES = 1 << 20

Key = tuple[str, int]
"""Topic and partition."""


class Kept(NamedTuple):
    """A record as it has to come back."""

    timestamp: int
    key: bytes | None
    value: bytes | None


@dataclass
class Partition:
    """What was read of one partition.

    `errors` are error codes by the offset that was asked for, `wrong` what no reader may ever see. `committed` are the offsets that
    a reader of committed records is shown.
    """

    start: int = 0
    end: int = 0
    stable: int = 0
    records: dict[int, Kept] = field(default_factory=dict)
    bases: list[int] = field(default_factory=list)
    errors: dict[int, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)
    epochs: dict[int, tuple[int, int]] = field(default_factory=dict)
    lookups: dict[int, tuple[int, int]] = field(default_factory=dict)


@dataclass
class Look:
    """Everything that clients can see."""

    topics: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    configs: dict[str, dict[str, str | None]] = field(default_factory=dict)
    partitions: dict[Key, Partition] = field(default_factory=dict)
    commits: dict[tuple[str, str, int], tuple[int, str | None]] = field(default_factory=dict)
    group_errors: dict[str, int] = field(default_factory=dict)


class Wanted(NamedTuple):
    """Where to look besides what metadata tells: timestamps and epochs, resources, groups, transactions."""

    timestamps: tuple[int, ...]
    epochs: tuple[int, ...]
    configs: tuple[tuple[int, str], ...]
    groups: tuple[str, ...]
    transactional: tuple[Key, ...]


def look(life: Life, wanted: Wanted, hints: Mapping[Key, Iterable[int]], closely: Iterable[Key] = ()) -> Look:
    """Read everything. `hints` are offsets at which batches of a partition begin; `closely` is read from each of them, too."""
    seen = Look()
    answer = life.ask(METADATA, 12, MetadataRequest(topics=None, allow_auto_topic_creation=False))
    seen.topics = {str(topic.name): (bytes(topic.topic_id), len(topic.partitions)) for topic in answer.topics}
    seen.configs = _configs(life, wanted)
    keys = [(name, index) for name, (_, count) in seen.topics.items() for index in range(count)]
    seen.partitions = {key: Partition() for key in keys}
    _look_up(life, seen, wanted)
    reader = _Reader(life, seen, hints)
    reader.read_all()
    for key in closely:
        if key in seen.partitions:
            reader.read_from_each(key, [*hints.get(key, ())])
    for key in {*closely, *wanted.transactional}:
        if key in seen.partitions:
            reader.read_committed(key)
    _commits(life, seen, wanted.groups)
    return seen


class _Reader:
    """Reads partitions to their ends, and beyond what cannot be read, as far as `hints` say where records would be."""

    def __init__(self, life: Life, seen: Look, hints: Mapping[Key, Iterable[int]]) -> None:
        self._life = life
        self._seen = seen
        self._empty: Counter[Key] = Counter()
        self._hints = {key: sorted(offsets) for key, offsets in hints.items()}

    def read_all(self) -> None:
        left = {key: part.start for key, part in self._seen.partitions.items()}
        for _ in range(MOST_FETCHES):
            if not left:
                return
            left = dict(self._step(left))
        for key in left:
            self._seen.partitions[key].wrong.append(f"it is not read to the end by {MOST_FETCHES} fetches")

    def _step(self, left: Mapping[Key, int]) -> Iterator[tuple[Key, int]]:
        """Fetch once; where to go on."""
        for key, part in self._fetched(left):
            seen, offset = self._seen.partitions[key], left[key]
            if part.error_code:
                seen.errors[offset] = part.error_code
                following = self._after(key, offset)
            else:
                seen.end, seen.stable = part.high_watermark, part.last_stable_offset
                following = self._take(key, offset, bytes(part.records or b""))
                if offset >= seen.end:
                    continue
            if following is not None:
                yield key, following

    def _take(self, key: Key, offset: int, data: bytes) -> int | None:
        """Take in what one fetch brought; the offset to go on with, or None.

        A few answers may be empty, while the broker looks at what it has not looked at since it started.
        """
        seen = self._seen.partitions[key]
        if not data:
            self._empty[key] += 1
            if offset < seen.end and self._empty[key] < MOST_EMPTY:
                return offset
            if offset < seen.end:
                seen.wrong.append(f"nothing is read from {offset} on, and readers may see everything below {seen.end}")
            return None
        self._empty[key] = 0
        try:
            opened = open_batches(data, from_offset=offset, check_crcs=True)
            records, following = opened.records(), opened.next_offset
            seen.bases += [header.base_offset for _, header in batches(data)]
        except (BadBatch, CodecFailed) as bad:
            seen.wrong.append(f"what is read from {offset} on is damaged: {bad}")
            return None
        for record in records:
            if record.offset in seen.records:
                seen.wrong.append(f"offset {record.offset} is read twice")
            seen.records[record.offset] = Kept(record.timestamp, record.key, record.value)
        if following <= offset:
            seen.wrong.append(f"a reader at {offset} is sent to {following}: it never gets further")
            return None
        return following

    def read_from_each(self, key: Key, offsets: Iterable[int]) -> None:
        """Read from each of these offsets: what comes first has to be the record there, or what follows it."""
        seen = self._seen.partitions[key]
        for offset in offsets:
            if not seen.start <= offset < seen.end or any(error <= offset for error in seen.errors):
                continue
            for _ in range(MOST_EMPTY):  # while an index is built anew there is nothing to be had
                ((_, part),) = self._fetched({key: offset})
                if part.records or part.error_code:
                    break
            try:
                found = open_batches(bytes(part.records or b""), from_offset=offset, control=True, check_crcs=True).records()
            except (BadBatch, CodecFailed) as bad:
                seen.wrong.append(f"what is read from {offset} on is damaged: {bad}")
                continue
            if part.error_code:
                seen.errors[offset] = part.error_code
            known = [each for each in seen.records if each >= offset]
            if not part.error_code and known and (not found or min(one.offset for one in found) > min(known)):
                seen.wrong.append(f"a reader that begins at {offset} does not get the record at {min(known)}")

    def read_committed(self, key: Key) -> None:
        """Read as a consumer with isolation.level=read_committed does."""
        seen, offset = self._seen.partitions[key], self._seen.partitions[key].start
        if seen.errors or seen.wrong:
            return
        for _ in range(MOST_FETCHES):
            ((_, part),) = self._fetched({key: offset}, isolation_level=1)
            data = bytes(part.records or b"")
            if part.error_code:
                seen.errors[offset] = part.error_code
            if part.error_code or not data:
                return
            aborted = sorted((one.first_offset, one.producer_id) for one in part.aborted_transactions or ())
            following = _shown(data, offset, aborted, seen.committed)
            if following <= offset:
                return
            offset = following

    def _fetched(self, left: Mapping[Key, int], *, isolation_level: int = 0) -> Iterator[tuple[Key, Any]]:
        topics: dict[str, list[Any]] = {}
        for (topic, index), offset in left.items():
            part = FetchRequest.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=MOST_BYTES)
            topics.setdefault(topic, []).append(part)
        wanted = [FetchRequest.FetchTopic(topic=topic, partitions=parts) for topic, parts in topics.items()]
        answer = self._life.ask(FETCH, 11, FetchRequest(max_bytes=MOST_BYTES, isolation_level=isolation_level, topics=wanted))
        for topic in answer.responses:
            yield from (((topic.topic, part.partition_index), part) for part in topic.partitions)

    def _after(self, key: Key, offset: int) -> int | None:
        """Where there may be something beyond what can't be read at `offset`."""
        return next((hint for hint in self._hints.get(key, ()) if hint > offset), None)


def _shown(data: bytes, offset: int, aborted: list[tuple[int, int]], shown: list[int]) -> int:
    """Note the offsets that a reader of committed records is shown; where it goes on."""
    hidden: set[int] = set()
    following = offset
    for at, header in batches(data):
        while aborted and aborted[0][0] <= header.last_offset:
            hidden.add(aborted.pop(0)[1])
        following = header.next_offset
        if header.is_control:
            hidden.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in hidden):
            found = open_batches(data[at : at + header.size], from_offset=offset).records()
            shown += [record.offset for record in found]
    return following


def _look_up(life: Life, seen: Look, wanted: Wanted) -> None:
    """Where partitions begin, where records of a time are, and where epochs end."""
    for timestamp in (EARLIEST, NEWEST, *wanted.timestamps):
        for key, part in _listed(life, seen, timestamp):
            if timestamp == EARLIEST:
                seen.partitions[key].start = max(0, part.offset)
            if part.error_code:
                seen.partitions[key].errors[-1] = part.error_code
            else:
                seen.partitions[key].lookups[timestamp] = (part.offset, part.timestamp)
    for epoch in wanted.epochs:
        topics = [
            OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                topic=name,
                partitions=[
                    OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=index, leader_epoch=epoch)
                    for index in range(count)
                ],
            )
            for name, (_, count) in seen.topics.items()
        ]
        answer = life.ask(EPOCHS, 3, OffsetForLeaderEpochRequest(replica_id=-1, topics=topics))
        for topic in answer.topics:
            for part in topic.partitions:
                told = (part.leader_epoch, part.end_offset)
                seen.partitions[topic.topic, part.partition].epochs[epoch] = told


def _listed(life: Life, seen: Look, timestamp: int) -> Iterator[tuple[Key, Any]]:
    topics = [
        ListOffsetsRequest.ListOffsetsTopic(
            name=name,
            partitions=[
                ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in range(count)
            ],
        )
        for name, (_, count) in seen.topics.items()
    ]
    answer = life.ask(LIST_OFFSETS, 7, ListOffsetsRequest(replica_id=-1, topics=topics))
    for topic in answer.topics:
        yield from (((topic.name, part.partition_index), part) for part in topic.partitions)


def _configs(life: Life, wanted: Wanted) -> dict[str, dict[str, str | None]]:
    """What was set while the broker ran, of every resource."""
    resources = [
        DescribeConfigsRequest.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        for kind, name in wanted.configs
    ]
    answer = life.ask(DESCRIBE, 4, DescribeConfigsRequest(resources=resources))
    return {
        f"{one.resource_type}:{one.resource_name}": {
            config.name: config.value for config in one.configs if config.config_source not in (STATIC_SOURCE, DEFAULT_SOURCE)
        }
        for one in answer.results
    }


def _commits(life: Life, seen: Look, groups: Iterable[str]) -> None:
    asked = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
    answer = life.ask(OFFSET_FETCH, 8, OffsetFetchRequest(groups=asked))
    for group in answer.groups:
        if group.error_code:
            seen.group_errors[group.group_id] = group.error_code
        for topic in group.topics:
            for part in topic.partitions:
                seen.commits[group.group_id, topic.name, part.partition_index] = (part.committed_offset, part.metadata)
