"""The search for intact files that belong to another log: producer snapshots, and the metadata of another topic.

Only a contradiction between a snapshot and batches is reported. A producer that the snapshot lacks can have expired, and batches
that compaction removed prove nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.log.names import LOG, PARTITION_METADATA, file_name
from ottla.log.partition_metadata import encode_topic_id, parse_metadata
from ottla.log.producer_state.producers import NO_OFFSET, ProducerBatch, Producers, ProducerState
from ottla.log.segments.scan import headers
from ottla.ports import Disk
from ottla.records.batches.header import BatchHeader

TOPIC_ID_BYTES = 16


class Snapshot(NamedTuple):
    """A producer snapshot: the producers' state of the log below `offset`."""

    offset: int
    producers: Producers


def foreign_snapshots(disk: Disk, path: str, bases: Sequence[int], snapshots: Iterable[Snapshot]) -> Iterator[tuple[int, str]]:
    """Yield (offset of a snapshot, message) for each snapshot that contradicts the batches about a producer.

    All headers of the log are read. The caller has checked that its batches are valid. Raises `StorageFailed`.
    """
    waiting = sorted(snapshots, key=lambda snapshot: snapshot.offset)
    wanted = {producer_id for snapshot in waiting for producer_id in snapshot.producers.by_id}
    if not wanted:
        return
    replay = _Replay(waiting)
    for header in _all_headers(disk, path, bases):
        while waiting and waiting[0].offset <= header.base_offset:
            yield from replay.find_contradiction(waiting.pop(0))
        replay.add(header, is_wanted=header.producer_id in wanted)
    for snapshot in waiting:
        yield from replay.find_contradiction(snapshot)


class _Replay:
    """A replay of the log's batch headers. It keeps each producer's state, to compare it with the producer snapshots."""

    def __init__(self, snapshots: Iterable[Snapshot]) -> None:
        self._producers = Producers()
        self._writers: dict[int, int] = {}
        stored = (state for snapshot in snapshots for state in snapshot.producers.by_id.values())
        self._left = sorted({offset for state in stored for offset in _offsets(state)}, reverse=True)

    def add(self, header: BatchHeader, *, is_wanted: bool) -> None:
        """Advance the replay by one batch. `is_wanted`: a snapshot contains the batch's producer."""
        while self._left and self._left[-1] <= header.last_offset:
            offset = self._left.pop()
            if offset >= header.base_offset:
                self._writers[offset] = header.producer_id
        if is_wanted:
            self._producers.note(header, header.base_offset)

    def find_contradiction(self, snapshot: Snapshot) -> Iterator[tuple[int, str]]:
        """Yield (offset of the snapshot, message) if the snapshot contradicts the batches before its offset."""
        for producer_id, state in snapshot.producers.by_id.items():
            sentence = self._fault(snapshot.offset, producer_id, state)
            if sentence:
                yield snapshot.offset, sentence
                return

    def _fault(self, end_offset: int, producer_id: int, stored: ProducerState) -> str:
        for offset in _offsets(stored):
            if offset >= end_offset:
                return f"it contains a write of producer {producer_id} at offset {offset}, which did not exist yet."
            if self._writers.get(offset, producer_id) != producer_id:
                return f"it names producer {producer_id} for offset {offset}, which another producer wrote."
        real = self._producers.by_id.get(producer_id)
        if real is None or not real.batches or not stored.batches:
            return ""
        newest, last = real.batches[-1], stored.batches[-1]
        if newest.last_offset > last.last_offset:
            return f"it lacks the write of producer {producer_id} at offset {newest.last_offset}."
        if newest.last_offset == last.last_offset and (real.epoch, *_place(newest)) != (stored.epoch, *_place(last)):
            return f"it has another epoch, sequence or size for the write of producer {producer_id} at offset {last.last_offset}."
        return ""


def _place(batch: ProducerBatch) -> tuple[int, ...]:
    return batch.first_sequence, batch.last_sequence, batch.base_offset


def _offsets(state: ProducerState) -> list[int]:
    """Return the offsets of a producer's batches according to a snapshot. Compaction can have removed these batches."""
    begun = [] if state.txn_first_offset == NO_OFFSET else [state.txn_first_offset]
    return begun + [batch.last_offset for batch in state.batches]


def _all_headers(disk: Disk, path: str, bases: Sequence[int]) -> Iterator[BatchHeader]:
    for base_offset in bases:
        file = disk.open(f"{path}/{file_name(base_offset, LOG)}")
        for _, header in headers(file, 0, file.size):
            yield header
        file.close()


def foreign_metadata(disk: Disk, path: str, topic_id: bytes) -> str:
    """Return a message if `partition.metadata` in a directory has another topic id; "" if it has none. Raises `StorageFailed`."""
    found = _metadata_id(disk, path)
    wanted = encode_topic_id(topic_id)
    if found is None or wanted.startswith(found.rstrip("\0")):  # after a power cut only a part of the id can be on disk
        return ""
    return (
        f"the directory belongs to the topic with id {found}, and the registry's topic of that name has id {wanted}: put the right "
        "directory back, or delete the topic; a broker leaves this one alone."
    )


def metadata_topic_id(disk: Disk, path: str) -> bytes | None:
    """Return the topic id in a directory's `partition.metadata`; None without a whole one. Raises `StorageFailed`."""
    found = _metadata_id(disk, path) if disk.exists(f"{path}/{PARTITION_METADATA}") else None
    try:
        topic_id = base64.urlsafe_b64decode(f"{found or ''}==")
    except ValueError:
        return None
    return topic_id if len(topic_id) == TOPIC_ID_BYTES else None


def _metadata_id(disk: Disk, path: str) -> str | None:
    return parse_metadata(disk.read_file(f"{path}/{PARTITION_METADATA}")).get("topic_id")
