"""The search for batches whose leader epoch was changed on disk. No CRC covers the epoch: it is compared with the checkpoint.

A checkpoint is trusted only if its seal is right, and only for offsets that it covers. After a power cut it can be older than the
log, so newer batches at the log's end are not reported. Lower epochs at the log's end are reported only after a kill. Otherwise
they are accepted, as at a start and in every read, because a broker that took over another's log once wrote some.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ottla.log.checkpoints import is_sealed
from ottla.log.epochs import LeaderEpochs
from ottla.log.names import LEADER_EPOCHS, LOG, file_name
from ottla.log.recovery.recovery import good_batches
from ottla.log.segments.scan import headers
from ottla.ports import Disk
from ottla.records.batches.header import MAGIC, BatchHeader

EPOCH_FROM = 12
"""The position of the leader epoch in a batch; it has 4 bytes."""


class ChangedEpoch(NamedTuple):
    """A batch whose header has `leader_epoch`, although the epoch checkpoint has `noted_epoch` for its offset.

    The batch begins at byte `position` of the segment with base offset `segment_offset`.
    """

    segment_offset: int
    position: int
    size: int
    base_offset: int
    leader_epoch: int
    noted_epoch: int


def find_changed_epochs(
    disk: Disk, path: str, bases: Sequence[int], recovery_point: int, *, was_killed: bool
) -> list[ChangedEpoch]:
    """Compare the segments that begin at `bases` with the checkpoint of epochs, which is synced up to the recovery point.

    `was_killed`: the broker's process ended, but the machine did not fail, so that the checkpoint is as new as the log. Raises
    `StorageFailed`.
    """
    name = f"{path}/{LEADER_EPOCHS}"
    data = disk.read_file(name) if disk.exists(name) else b""
    epochs = LeaderEpochs.decode(data) if is_sealed(data) else None
    if epochs is None:
        return []
    found: list[ChangedEpoch] = []
    settled = 0
    for base_offset in bases:
        for position, header in _batches(disk, path, base_offset):
            noted = epochs.at(header.base_offset, header.leader_epoch)
            if noted == header.leader_epoch:
                settled = len(found)  # epochs only grow: batches before this one are not newer than the checkpoint
            elif _is_whole(disk, path, base_offset, position, header):
                place = base_offset, position, header.size, header.base_offset
                found.append(ChangedEpoch(*place, header.leader_epoch, noted))
    if was_killed:
        return found
    last = found[settled:]
    is_older = any(each.base_offset >= recovery_point and each.leader_epoch > epochs.latest for each in last)
    synced = [each for each in last if not (is_older and each.base_offset >= recovery_point)]
    return found[:settled] + [each for each in synced if not -1 <= each.leader_epoch <= epochs.latest]


def write_noted_epochs(disk: Disk, path: str, segment_offset: int, found: Sequence[ChangedEpoch]) -> None:
    """Write the checkpoint's leader epochs into the headers of the batches `found` in one segment; durable on return.

    Raises `StorageFailed`.
    """
    file = disk.open(f"{path}/{file_name(segment_offset, LOG)}")
    for each in found:
        file.write(each.position + EPOCH_FROM, each.noted_epoch.to_bytes(4, "big", signed=True))
    file.sync()
    file.close()


def _batches(disk: Disk, path: str, segment_offset: int) -> Iterator[tuple[int, BatchHeader]]:
    file = disk.open(f"{path}/{file_name(segment_offset, LOG)}")
    for position, header in headers(file, 0, file.size):
        if header.magic != MAGIC:
            break
        yield position, header
    file.close()


def _is_whole(disk: Disk, path: str, segment_offset: int, position: int, header: BatchHeader) -> bool:
    """Return whether the CRC of the batch is right, so that at most its leader epoch is wrong."""
    file = disk.open(f"{path}/{file_name(segment_offset, LOG)}")
    is_whole = next(good_batches(file, position, position + header.size, header.base_offset), None) is not None
    file.close()
    return is_whole
