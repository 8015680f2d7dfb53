"""The replay of a partition's entries into its log at a start: only what begins at the log's end is appended."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.log.errors import Damaged
from ottla.log.journal.contents import Damage
from ottla.log.journal.saved_entries import SavedEntries, SavedEntry
from ottla.log.log import Log
from ottla.log.names import LOG, file_name
from ottla.ports import Now
from ottla.records.batches.header import BadBatch, BatchHeader, batches


def replay(log: Log, entries: Sequence[SavedEntry], now: Now, damage: Damage | None = None, *, accepts_losses: bool = False) -> int:
    """Append the batches of the entries that the log lacks, and return their number. The caller syncs the log's files.

    Batches that the log has are skipped, without reading their entries. Raises `Damaged` if batches between the log's end and an
    entry are missing, or if the log then ends before the end of `damage`, unless it `accepts_losses`. Raises `StorageFailed`.
    """
    count = 0
    for entry in entries.beyond(log.log_end_offset) if isinstance(entries, SavedEntries) else entries:
        if entry.next_offset <= log.log_end_offset:
            continue
        if entry.base_offset > log.log_end_offset and not accepts_losses:
            sentence = f"the journal continues at offset {entry.base_offset}, and the records before it are missing."
            raise _damage_in(log, damage.sentence if damage else sentence)
        count += _append(log, entry, now)
    if damage is not None and not accepts_losses and log.log_end_offset < damage.next_offset:
        raise _damage_in(log, damage.sentence)
    return count


def _append(log: Log, entry: SavedEntry, now: Now) -> int:
    """Append the batches of an entry from the log's end on. Return their number."""
    data = memoryview(entry.read())
    try:
        found = list(batches(data))
    except BadBatch as error:
        raise _damage_in(log, f"{entry.data.file.path}: at byte {entry.data.position} of the journal: {error}") from error
    position, headers = _find_missing(log, found)
    if not headers or headers[-1].next_offset != entry.next_offset or position + sum(h.size for h in headers) != len(data):
        raise _damage_in(log, f"{entry.data.file.path}: the batches at byte {entry.data.position} are not those of its entry.")
    first, start = headers[0].base_offset, log.log_start_offset
    if first < log.log_end_offset:
        if first >= start or start < log.log_end_offset:
            raise _damage_in(log, f"the log ends within the journal's batch from offset {first} to {headers[0].last_offset}.")
        log.restart_at(first)
    log.append_as_follower(data[position:], headers, now)
    log.delete_records(start)
    return len(headers)


def _find_missing(log: Log, found: Sequence[tuple[int, BatchHeader]]) -> tuple[int, list[BatchHeader]]:
    """Return (the position of the first batch that ends after the log's end, the headers from there on)."""
    for number, (position, header) in enumerate(found):
        if header.next_offset > log.log_end_offset:
            return position, [header for _, header in found[number:]]
    return 0, []


def _damage_in(log: Log, sentence: str) -> Damaged:
    last = log.segments[-1]
    return Damaged(log.path, file_name(last.base_offset, LOG), last.size, sentence)
