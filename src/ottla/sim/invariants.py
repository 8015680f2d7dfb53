"""The invariants of a log as functions. Each takes an open `Log`, and returns a sentence for each violation.

The module uses logs and records, and injects no faults.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import pairwise
from struct import Struct

from ottla.log.log import Log
from ottla.log.names import INDEX
from ottla.log.producer_state.producers import Producers
from ottla.log.segments.scan import headers
from ottla.log.segments.transaction_index import Aborted, read_marker
from ottla.ports import Disk
from ottla.records.batches.columns import Record, open_batches
from ottla.records.batches.header import HEADER_BYTES, BatchHeader, batches, read_header

READ_BYTES = 1 << 20
INDEX_ENTRY = Struct(">ii")


def stored_batches(log: Log, offset: int = 0) -> Iterator[memoryview]:
    """Yield every batch, as fetches return them, from `offset` (by default the log's start) to the log's end."""
    offset = max(offset, log.log_start_offset)
    while (part := log.read(offset, READ_BYTES, until_offset=log.log_end_offset, min_one_batch=True)) is not None:
        view = memoryview(part.read())
        for position, header in batches(view):
            offset = header.next_offset
            yield view[position : position + header.size]


def stored_records(log: Log) -> list[Record]:
    """Return every record from the log's start to its end, as consumers receive them."""
    found: list[Record] = []
    for batch in stored_batches(log):
        found += open_batches(batch, from_offset=log.log_start_offset, check_crcs=True).records()
    return found


def acknowledged_records_are_readable(log: Log, acknowledged: Sequence[Record]) -> list[str]:
    """Check that the log contains exactly the records of `acknowledged`, which are in the order of their offsets."""
    stored = {record.offset: record for record in stored_records(log)}
    start = log.log_start_offset
    lost = [record.offset for record in acknowledged if record.offset >= start and stored.pop(record.offset, None) != record]
    faults = [f"the record at offset {offset} is lost or changed" for offset in lost]
    return faults + [f"nobody wrote a record at offset {offset}" for offset in stored if offset >= start]


def newest_of_every_key_is_kept(
    log: Log, acknowledged: Sequence[Record], compacted_to: int, aborted: Container[int] = ()
) -> list[str]:
    """Check that compaction changed no record, and removed only records that it may remove.

    These are, below `compacted_to`, tombstones and older records of a key. `aborted` contains the offsets of records of aborted
    transactions. These records may be removed, and replace no older record.
    """
    newest = {record.key: record.offset for record in acknowledged if record.offset not in aborted}
    stored = {record.offset: record for record in stored_records(log)}
    faults = []
    for record in acknowledged:
        found = stored.pop(record.offset, None)
        may_go = record.offset < compacted_to and (newest.get(record.key) != record.offset or record.value is None)
        if found != record and not (found is None and (may_go or record.offset < log.log_start_offset)):
            faults.append(f"the record at offset {record.offset} is lost or changed")
    return faults + [f"nobody wrote a record at offset {offset}" for offset in stored]


def removed_records_stay_removed(log: Log, gone: Mapping[bytes | None, int]) -> list[str]:
    """Check that no compacted record reappears. `gone` has, for each key, the offset below which the key's records were removed."""
    return [
        f"the record at offset {record.offset} had been compacted away"
        for record in stored_records(log)
        if record.offset < gone.get(record.key, 0)
    ]


def offsets_grow(log: Log) -> list[str]:
    """Check that offsets of batches increase, within segments and across them, up to the end of the log."""
    found = list(_headers(log))
    faults = [
        f"the batch of offset {after.base_offset} follows one that ends at {before.last_offset}"
        for before, after in pairwise(found)
        if after.base_offset <= before.last_offset
    ]
    if found and found[-1].next_offset > log.log_end_offset:
        faults.append(f"a batch ends at {found[-1].last_offset}, beyond the end of the log, {log.log_end_offset}")
    return faults


def offsets_are_dense(log: Log) -> list[str]:
    """Check that no offset is missing. This holds for a log that was never compacted."""
    found = [read_header(batch) for batch in stored_batches(log)]
    gaps = [
        f"offsets {a.next_offset} to {b.base_offset - 1} are missing" for a, b in pairwise(found) if a.next_offset != b.base_offset
    ]
    if found and found[-1].next_offset != log.log_end_offset:
        gaps.append(f"offsets from {found[-1].next_offset} on are missing")
    return gaps


def indexes_point_at_batches(log: Log, disk: Disk) -> list[str]:
    """Check that each entry of an offset index has the position of a batch and this batch's last offset."""
    faults = []
    for segment in log.segments:
        segment.flush_indexes()
        path = segment.path(INDEX)
        data = disk.read_file(path) if disk.exists(path) else b""
        whole = len(data) - len(data) % INDEX_ENTRY.size  # opening the file cuts off a torn entry at its end
        for relative, position in INDEX_ENTRY.iter_unpack(data[:whole]):
            head = segment.file.read(position, HEADER_BYTES)
            if len(head) < HEADER_BYTES or read_header(head).last_offset != segment.base_offset + relative:
                faults.append(f"{path} says that a batch at {position} ends with offset {segment.base_offset + relative}")
    return faults


def sizes_add_up(log: Log) -> list[str]:
    """Check that the log's size, as used for retention, equals the size of its files."""
    total = sum(segment.file.size for segment in log.segments if segment.size)
    return [] if log.size_bytes == total else [f"size_bytes is {log.size_bytes}, the segments have {total}"]


def producers_equal_a_replay(log: Log) -> list[str]:
    """Check that the state of each producer in the log equals the producer's last batch. Return a sentence for each difference."""
    replayed = Producers()
    for header in _headers(log):
        if header.producer_id >= 0:
            replayed.note(header, header.base_offset)
    faults = []
    for producer_id, producer in replayed.by_id.items():
        known = log.producers.by_id.get(producer_id)
        last = producer.batches[-1][:4] if producer.batches else None  # a snapshot has the producer's timestamp, not the batch's
        if last and (known is None or known.epoch != producer.epoch or not known.batches or known.batches[-1][:4] != last):
            faults.append(f"producer {producer_id} is not remembered as its batches say")
    return faults


def leader_epochs_fit_the_batches(log: Log) -> list[str]:
    """Check that leader epochs and their start offsets increase, and that each batch has the epoch of its offset (KIP-101)."""
    entries = log.epochs.entries
    faults = [
        f"epoch {after[0]} at offset {after[1]} follows epoch {before[0]} at offset {before[1]}"
        for before, after in pairwise(entries)
        if not (before[0] < after[0] and before[1] < after[1])
    ]
    for batch in stored_batches(log):
        header = read_header(batch)
        at = bisect_right(entries, max(header.base_offset, log.log_start_offset), key=lambda entry: entry[1])
        noted = entries[at - 1][0] if at else None
        if noted != header.leader_epoch:
            faults.append(f"the batch of offset {header.base_offset} is of epoch {header.leader_epoch}, not {noted}")
    return faults


def transactions_equal_a_replay(log: Log) -> list[str]:
    """Check open and aborted transactions against the batches (KIP-98). This holds for a log that was never compacted."""
    replayed, aborted = Producers(), dict[tuple[int, int], int]()
    for segment in log.segments:
        for position, header in headers(segment.file, 0, segment.size):
            found = _replay(replayed, header, segment.file.read(position, header.size)) if header.producer_id >= 0 else None
            if found is not None:
                aborted[found.producer_id, found.last_offset] = found.first_offset
    first = log.segments[0].base_offset
    known_open = log.producers.open_transactions
    faults = [
        f"the transaction that producer {producer_id} began at offset {offset} is not known to be open"
        for producer_id, offset in replayed.open_transactions.items()
        if known_open.get(producer_id, offset + 1) != offset and not known_open.get(producer_id, first) < first
    ]
    known = {
        (entry.producer_id, entry.last_offset): entry.first_offset for entry in log.aborted_transactions(first, log.log_end_offset)
    }
    for entry, offset in aborted.items():
        if entry[1] >= log.log_start_offset and known.get(entry, offset + 1) != offset and not known.get(entry, first) < first:
            faults.append(f"the transaction of producer {entry[0]} that ends at offset {entry[1]} is not known to be aborted")
    wrong = [entry for entry in known.keys() - aborted.keys() if known[entry] >= first]
    return faults + [f"the transaction of producer {entry[0]} that ends at offset {entry[1]} was not aborted" for entry in wrong]


def _replay(producers: Producers, header: BatchHeader, batch: bytes) -> Aborted | None:
    marker = read_marker(batch) if header.is_control else None
    if marker is not None:
        return producers.end_transaction(header, header.base_offset, marker)
    producers.note(header, header.base_offset)
    return None


def _headers(log: Log) -> Iterator[BatchHeader]:
    for segment in log.segments:
        for _, header in headers(segment.file, 0, segment.size):
            yield header
