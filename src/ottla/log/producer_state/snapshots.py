"""Producer snapshots on disk, and the state replayed from them. It uses `Producers` and segments, and decides no append."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar, cast

from ottla.log.names import LOG, SNAPSHOT, file_name
from ottla.log.producer_state.producers import REMEMBERED, ProducerBatch, Producers
from ottla.log.segments.scan import headers
from ottla.log.segments.segment import Segment
from ottla.log.segments.transaction_index import Aborted, read_marker
from ottla.ports import Disk, Pauses, StorageFailed
from ottla.records.batches.header import BatchHeader

log = logging.getLogger("ottla.log")

T = TypeVar("T")

Span = tuple[Segment, int]
"""A segment, and the position at which the log ends in it."""

AT_ONCE = 250
"""Batches processed between two pauses."""

MOST_KEPT = 32
"""The approximate limit of snapshots within the newest segments that a start keeps."""

NOT_KNOWN = -1
REFILL_BYTES = 2 << 20
"""The bytes at the end of the log in which `_refill` searches for batches that a snapshot lacks."""


def write_snapshot(disk: Disk, path: str, offset: int, producers: Producers) -> None:
    """Write a snapshot of the state at `offset`, without a sync: after a crash a lost or torn snapshot is replayed from the log."""
    disk.write_file(f"{path}/{file_name(offset, SNAPSHOT)}", producers.encode(), sync=False)


def remove_snapshots(disk: Disk, path: str, offsets: list[int], *, unwanted: Sequence[int]) -> None:
    """Remove the `unwanted` snapshots from the disk and from `offsets`. A snapshot that cannot be removed stays in `offsets`."""
    for offset in unwanted:
        name = f"{path}/{file_name(offset, SNAPSHOT)}"
        try:
            disk.remove(name)
        except StorageFailed as failure:
            if disk.exists(name):
                log.warning("a snapshot could not be removed: %s", failure)
                continue
        offsets.remove(offset)


def forget_snapshot(disk: Disk, path: str, offsets: list[int], offset: int) -> None:
    """Delete the producer snapshot at `offset` without waiting. If the deletion fails, the next start of the broker repeats it."""
    with suppress(StorageFailed):
        disk.remove_soon(f"{path}/{file_name(offset, SNAPSHOT)}")
    offsets.remove(offset)


def thin(offsets: Sequence[int], begin: int, end: int) -> list[int]:
    """Return some of `offsets`, from `begin` on, at distances of at least (`end` - `begin`) / `MOST_KEPT`.

    Without this, the snapshots of many broker starts would accumulate.
    """
    kept: list[int] = []
    for offset in offsets:
        if offset >= begin and (not kept or offset - kept[-1] >= (end - begin) // MOST_KEPT):
            kept.append(offset)
    return kept


def drop_outlived(disk: Disk, path: str, offsets: list[int], first_offset: int) -> None:
    """Drop the snapshots before the first segment, because the batches after them are deleted."""
    remove_snapshots(disk, path, offsets, unwanted=[offset for offset in offsets if offset < first_offset])
    offsets[:] = [offset for offset in offsets if offset >= first_offset]


def load_producers(
    disk: Disk,
    path: str,
    offsets: list[int],
    segments: Sequence[Segment],
    end_offset: int,
    most: int,
    names: Collection[str] | None = None,
) -> Producers:
    """Restore the state at the log's end from the newest valid snapshot and the headers of the batches after the snapshot.

    The replay applies the limit of `most` producers, as the appends did. Unusable snapshots (torn, or beyond `end_offset`) are
    removed. `names` are the directory's files, if they are known. Raises `StorageFailed`.
    """
    beyond = [offset for offset in offsets if offset > end_offset]
    if beyond:
        remove_snapshots(disk, path, offsets, unwanted=beyond)
        disk.sync_dir(path)  # or a crash could bring one back that describes batches written since
        if any(offset > end_offset for offset in offsets):
            raise StorageFailed(path, "snapshots of producers beyond the end of the log cannot be removed; repair the disk.")
    for offset in reversed(list(offsets)):
        loaded = Producers.decode(disk.read_file(f"{path}/{file_name(offset, SNAPSHOT)}"))
        if loaded is not None:
            loaded.most = most
            replay(disk, loaded, segments, offset, names)
            run_to_end(_refill(loaded, [(segment, segment.size) for segment in segments]))
            return loaded
        log.warning("%s/%s is incomplete; the producers' state is replayed from the log", path, file_name(offset, SNAPSHOT))
        remove_snapshots(disk, path, offsets, unwanted=[offset])
    producers = Producers(most)
    replay(disk, producers, segments, 0, names)
    return producers


def replay(
    disk: Disk, producers: Producers, segments: Sequence[Segment], from_offset: int, names: Collection[str] | None = None
) -> None:
    """Apply every batch from `from_offset` on, by its header, and rebuild the index of aborted transactions.

    A producer's last write counts as old as the segment's file: the timestamps of its records can be much older.
    """
    for segment in segments[_first(segments, from_offset) :]:
        if not segment.size:
            segment.forget_transactions(names)
            continue
        replace_aborted(segment, from_offset, run_to_end(_replay_segment(disk, producers, segment, from_offset, segment.size)))


def producers_at(disk: Disk, path: str, offsets: Sequence[int], spans: Sequence[Span], most: int) -> Pauses[Producers]:
    """Restore the state at the end of the last of these spans, where the log is about to be cut. Write nothing to disk.

    The replay applies the limit of `most` producers. Raises `StorageFailed`.
    """
    end_offset = spans[-1][0].offset_at(spans[-1][1])
    producers, begin = _newest(disk, path, [offset for offset in offsets if offset <= end_offset])
    producers.most = most
    for segment, size in spans[_first([segment for segment, _ in spans], begin) :]:
        if size:
            yield from _replay_segment(disk, producers, segment, begin, size)
    if begin:
        yield from _refill(producers, spans)
    return producers


def _newest(disk: Disk, path: str, offsets: Sequence[int]) -> tuple[Producers, int]:
    """Return the state and the offset of the newest valid snapshot among `offsets`; an empty state and 0 if none is valid."""
    for offset in reversed(offsets):
        loaded = Producers.decode(disk.read_file(f"{path}/{file_name(offset, SNAPSHOT)}"))
        if loaded is not None:
            return loaded, offset
    return Producers(), 0


def _first(segments: Sequence[Segment], offset: int) -> int:
    return max(0, bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1)


def _replay_segment(disk: Disk, producers: Producers, segment: Segment, from_offset: int, end: int) -> Pauses[list[Aborted]]:
    """Apply a segment's batches from an offset up to the position `end`, and return the aborted transactions among them."""
    found: list[Aborted] = []
    written_ms = NOT_KNOWN
    for number, (position, header) in enumerate(headers(segment.file, segment.locate(from_offset), end), 1):
        if not number % AT_ONCE:
            yield
        if header.producer_id < 0:
            continue
        if written_ms == NOT_KNOWN:
            written_ms = disk.modified_ms(segment.path(LOG))
        aborted = _apply(producers, segment, position, header, written_ms)
        if aborted is not None:
            found.append(aborted)
    return found


def run_to_end(steps: Pauses[T]) -> T:
    """Run the generator `steps` to its end at once, ignoring its pauses, and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as over:
            return cast("T", over.value)


def rebuild_aborted(disk: Disk, path: str, offsets: Sequence[int], segments: Sequence[Segment], most: int) -> None:
    """Rebuild the index of aborted transactions of the last of these segments: replay from the newest valid snapshot before it.

    The indexes of the segments between are rebuilt, too. Raises `StorageFailed`.
    """
    producers, begin = _newest(disk, path, [offset for offset in offsets if offset <= segments[-1].base_offset])
    producers.most = most
    replay(disk, producers, segments, begin)


def _apply(producers: Producers, segment: Segment, position: int, header: BatchHeader, written_ms: int) -> Aborted | None:
    if header.is_control and header.record_count:
        marker = read_marker(segment.file.read(position, header.size))
        if marker is not None:
            return producers.end_transaction(header, header.base_offset, marker, written_ms)
    producers.note(header, header.base_offset, written_ms)
    return None


def replace_aborted(segment: Segment, from_offset: int, found: Sequence[Aborted]) -> None:
    """Replace the entries of a segment's index of aborted transactions from `from_offset` on by `found`.

    If the write fails, the failure is logged, and the entries in memory are still replaced.
    """
    try:
        segment.transactions.replace_from(from_offset, found)
    except StorageFailed as failure:
        log.warning("the index of aborted transactions could not be written: %s", failure)


def _refill(producers: Producers, spans: Sequence[Span]) -> Pauses[None]:
    """Add each producer's recent batches, which the producer can still retry. A snapshot has only a producer's last batch."""
    if not producers.by_id:
        return
    seen: dict[int, list[ProducerBatch]] = {}
    for number, header in enumerate(_last_headers(spans), 1):
        if not number % AT_ONCE:
            yield
        producer = producers.by_id.get(header.producer_id)
        if producer is not None and header.producer_epoch == producer.epoch and not header.is_control:
            batch = ProducerBatch(
                header.base_sequence, header.last_sequence, header.base_offset, header.last_offset, header.max_timestamp
            )
            seen.setdefault(header.producer_id, []).append(batch)
    for producer_id, batches in seen.items():
        producer = producers.by_id[producer_id]
        if producer.batches and len(batches) >= len(producer.batches) and _is_same(batches[-1], producer.batches[-1]):
            producer.batches = batches[-REMEMBERED:]


def _is_same(batch: ProducerBatch, loaded: ProducerBatch) -> bool:
    """Return whether two batches are equal except for the timestamp, which in a snapshot is that of the producer's last write."""
    return batch._replace(timestamp=loaded.timestamp) == loaded


def _last_headers(spans: Sequence[Span]) -> Iterator[BatchHeader]:
    """Yield the headers of the batches in about the last `REFILL_BYTES` of the log, from one or more segments."""
    tail: list[tuple[Segment, int, int]] = []
    left = REFILL_BYTES
    for segment, size in reversed(spans):
        tail.append((segment, max(0, size - left), size))
        left -= size
        if left <= 0:
            break
    for segment, position, size in reversed(tail):
        if size:
            entry = segment.index.floor_second(position)
            for _, header in headers(segment.file, entry[1] if entry else 0, size):
                yield header
