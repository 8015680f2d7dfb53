"""The valid and the damaged parts of a segment, by headers and CRC-32C. No batch is opened.

Bytes that this process wrote or recovered are valid; all other bytes are checked before they are read for the first time. The CRC
does not cover a batch's base offset and leader epoch, so the offset is compared with the batches before and after, and the epoch
with the log's latest.
"""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct
from typing import NamedTuple

from ottla.log.segments.scan import LENGTH_FROM, SHORTEST
from ottla.ports import File
from ottla.records.batches.header import CRC_FROM, HEADER_BYTES, MAGIC, MAGIC_POSITION
from ottla.records.checksum import crc32c
from ottla.records.kernel_sound import sound

HEAD = Struct(">qiibI2xi")
"""base_offset, batch_length, leader_epoch, magic, crc, last_offset_delta"""

Head = tuple[int, int, int, int, int, int]

CHUNK_BYTES = 124 << 10
"""The bytes read at once. They fit into the processor's cache for the second use, and need no mapping, as 128 KB would."""

MOST_BYTES, MOST_BATCHES = 1 << 20, 1000
"""The most bytes and batches checked in one call, in less than a millisecond as long as no batch is larger."""

PIECE_BYTES = 4 << 20
"""The bytes of a large batch checked in one call. The batch is returned only when all of it is checked."""

SEARCHED_BYTES = 4 << 20
"""The distance in bytes behind a bad batch within which the next valid batch is searched, byte by byte."""

ENDLESS = 2**63 - 1
ANY_EPOCH = 2**31 - 1
UNFINISHED, NO_CRC_AT_ALL = -1, -2

MOST_INTERVALS = 64
"""The most ranges of a segment that are recorded as valid. Beyond it, the shortest range except the newest is dropped."""

NO_CRC = "no whole batch with the right CRC-32C begins here, though it had been written."
GONE = "batches are gone."
NO_OFFSET = "the offset of this batch does not fit those beside it."
UNKNOWN_EPOCH = "the leader epoch of this batch is unknown to the log."


class Bounds(NamedTuple):
    """The limits for valid batches in a segment: all end before `until_offset`, and no leader epoch is above `latest_epoch`."""

    until_offset: int
    latest_epoch: int


class Walked(NamedTuple):
    """The result of checking batches up to `position`, where a batch with `next_offset` or later must follow.

    `bad` is the fault of the batch there, or None. `batches` is the number of checked batches; 0 if one is bad.
    """

    position: int
    next_offset: int
    bad: str | None = None
    batches: int = 0


class Place(NamedTuple):
    """A position in a segment's file at which a batch begins, whose offset is `next_offset` or later.

    `last_offset` is the last offset of that batch, or -1 if it is unknown.
    """

    position: int
    next_offset: int
    last_offset: int = -1


class Partial:
    """An unfinished check of the large batch at `position`: the first `checked` bytes have the CRC-32C `crc`."""

    __slots__ = ("checked", "crc", "position")

    def __init__(self) -> None:
        self.position, self.checked, self.crc = -1, 0, 0


class DamagedRange(NamedTuple):
    """Offsets from `first_offset` to below `end_offset` that cannot be read: the bytes from `position` to below `resume`.

    If `position` equals `resume`, the batches with these offsets are missing.
    """

    first_offset: int
    end_offset: int
    position: int
    resume: int
    sentence: str


class Unproven:
    """The results of CRC checks of a segment that was found on disk: its valid and its damaged ranges, in order.

    Bytes from `size` on were appended by this process, and are valid.
    """

    __slots__ = ("_ends", "_starts", "damage", "partial", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.partial = Partial()
        self.damage: list[DamagedRange] = []
        self._starts: list[int] = []
        self._ends: list[tuple[int, int]] = []  # (end, offset that follows)

    def is_sound(self, start: int, end: int) -> bool:
        """Return whether all bytes from `start` to `end` have been checked and are valid."""
        if start >= self.size:
            return True
        at = bisect_right(self._starts, start) - 1
        return at >= 0 and min(end, self.size) <= self._ends[at][0]

    @property
    def is_all_sound(self) -> bool:
        return not self.damage and self.is_sound(0, self.size)

    def sound_until(self, position: int) -> tuple[int, int]:
        """Return the end of the valid range that contains `position`, and the offset after that range, or -1 if unknown.

        The end is `position` if no range contains it, and `ENDLESS` if everything from `position` on is valid.
        """
        if position >= self.size:
            return ENDLESS, -1
        at = bisect_right(self._starts, position) - 1
        if at < 0 or self._ends[at][0] <= position:
            return position, -1
        return self._ends[at] if self._ends[at][0] < self.size else (ENDLESS, -1)

    def known_before(self, position: int, base_offset: int) -> Place:
        """Return the last place up to `position` where a batch certainly begins: the end of a valid or a damaged range."""
        found = Place(0, base_offset)
        at = bisect_right(self._starts, position) - 1
        if at >= 0:
            found = Place(*self._ends[at])
        behind = max((each for each in self.damage if each.resume <= position), default=None, key=lambda each: each.resume)
        if behind is not None and (behind.resume > found.position):
            return Place(behind.resume, behind.end_offset)
        return found

    def distrust(self, position: int) -> None:
        """Drop the valid range that contains `position`, so that its bytes are checked again."""
        at = bisect_right(self._starts, position) - 1
        if at >= 0 and self._ends[at][0] > position:
            self.partial = Partial()
            del self._starts[at], self._ends[at]

    def prove(self, start: int, end: int, next_offset: int) -> None:
        """Record that the bytes from `start` to `end` are valid, and that `next_offset` follows them."""
        for each in self.damage:
            if start < each.position == each.resume < end:  # offsets are missing there, but no bytes
                self.prove(start, each.position, each.first_offset)
                start = each.position
        if end <= start:
            return
        first = bisect_right(self._starts, start)
        if first and self._ends[first - 1][0] >= start + self._is_edge(start):
            first -= 1
            start = self._starts[first]
        last = first
        while last < len(self._starts) and self._starts[last] <= end and not (self._starts[last] == end and self._is_edge(end)):
            if self._ends[last][0] > end:
                end, next_offset = self._ends[last]
            last += 1
        self._starts[first:last] = [start]
        self._ends[first:last] = [(end, next_offset)]
        if len(self._starts) > MOST_INTERVALS:
            others = (at for at in range(len(self._starts)) if at != first)  # the caller needs the range just added
            shortest = min(others, key=lambda at: self._ends[at][0] - self._starts[at])
            del self._starts[shortest], self._ends[shortest]

    def _is_edge(self, position: int) -> bool:
        """Return whether offsets are missing between the batches at `position`, where every valid range ends."""
        return any(each.position == each.resume == position for each in self.damage)

    def cut(self, size: int) -> None:
        """Shorten the range of bytes to check to `size`, where a batch ends, because this process writes all later bytes."""
        self.size = min(self.size, size)
        self.partial = Partial()
        kept = [at for at, (end, _) in enumerate(self._ends) if end <= size]
        self._starts, self._ends = [self._starts[at] for at in kept], [self._ends[at] for at in kept]
        self.damage = [each for each in self.damage if each.position < size]

    def add_damage(self, found: DamagedRange) -> None:
        self.damage.append(found)
        self.damage.sort()

    def damage_at(self, offset: int) -> DamagedRange | None:
        """Return the damaged range that contains `offset`, or None."""
        return next((each for each in self.damage if each.first_offset <= offset < each.end_offset), None)

    def resume_for(self, offset: int) -> int:
        """Return the byte position after all damaged ranges that end at or before `offset`; 0 if there is no such range."""
        return max((each.resume for each in self.damage if each.end_offset <= offset), default=0)

    def damage_from(self, position: int) -> int:
        """Return the position of the first damaged range that ends after `position`; the size if there is none."""
        return next((each.position for each in self.damage if each.resume > position), self.size)


def walk(file: File, place: Place, end: int, size: int, bounds: Bounds, partial: Partial | None = None) -> Walked:
    """Check batch after batch from `place` to `end`, or until `MOST_BYTES` or `MOST_BATCHES` are checked.

    `size` is where the segment ends. With `partial`, a batch larger than `PIECE_BYTES` is checked in pieces, one in each call.
    Until its last piece is checked, the returned position is where the batch begins. Raises `StorageFailed`.
    """
    begun = position = place.position
    next_offset, wanted_last = place.next_offset, place.last_offset
    before = Walked(position, next_offset)
    is_joined, left = True, MOST_BATCHES
    while position < end and left > 0 and position - begun < MOST_BYTES:
        chunk = memoryview(file.read(position, min(CHUNK_BYTES, size - position)))
        at = 0
        while position + at < end and left > 0 and len(chunk) - at >= HEADER_BYTES:
            until = min(end - position, MOST_BYTES - (position - begun))
            if wanted_last < 0 and (passed := sound(chunk, at, until, left, next_offset, *bounds))[0] > at:
                at, next_offset, left = passed[:3]
                before, is_joined = Walked(position + passed[3], passed[4]), passed[4] == passed[5]
                continue
            head = HEAD.unpack_from(chunk, at)
            base_offset, total, last_offset = head[0], head[1] + LENGTH_FROM, head[0] + head[5]
            if (bad := _refusal(head, size - position - at, next_offset, wanted_last, bounds)) is not None:
                if bad == NO_OFFSET and not is_joined and before.next_offset <= base_offset < next_offset:
                    return before._replace(bad=bad)  # the batch before has the wrong offset, not this one
                return Walked(position + at, next_offset, bad)
            if total > len(chunk) - at and at:
                break
            found = _crc(file, position, total, partial, chunk) if total > len(chunk) else crc32c(chunk[at + CRC_FROM : at + total])
            if found != head[4]:
                return Walked(position + at, next_offset, None if found == UNFINISHED else NO_CRC)
            before, is_joined = Walked(position + at, next_offset), base_offset == next_offset or wanted_last >= 0
            next_offset, wanted_last = last_offset + 1, -1
            at += total
            left -= 1
        if not at:
            return Walked(position, next_offset, NO_CRC)
        position += at
    if not is_joined and _overlaps(file, position, size, before.next_offset, next_offset):
        return before._replace(bad=NO_OFFSET)
    return Walked(position, next_offset, batches=MOST_BATCHES - left)


def _refusal(head: Head, room: int, next_offset: int, wanted_last: int, bounds: Bounds) -> str | None:
    """Return the fault in the header of a batch, or None. `room` is the number of bytes from the batch to the segment's end."""
    base_offset, length, epoch, magic, _, delta = head
    if magic != MAGIC or length < SHORTEST or delta < 0 or length > room - LENGTH_FROM:
        return NO_CRC
    last_offset = base_offset + delta
    if not (next_offset <= base_offset and last_offset < bounds.until_offset):
        return NO_OFFSET
    if not -1 <= epoch <= bounds.latest_epoch:
        return UNKNOWN_EPOCH
    return None if wanted_last in (-1, last_offset) else NO_OFFSET


def _overlaps(file: File, position: int, size: int, first_offset: int, next_offset: int) -> bool:
    """Return whether the batch at `position` begins before `next_offset`, but not before `first_offset`."""
    if size - position < HEADER_BYTES:
        return False
    return bool(first_offset <= int.from_bytes(file.read(position, 8), "big", signed=True) < next_offset)


def _crc(file: File, position: int, size: int, partial: Partial | None, begun: memoryview) -> int:
    """Return the CRC-32C of a large batch, read in chunks. `begun` are the batch's first bytes.

    With `partial`, read only `PIECE_BYTES` more in each call, and return `UNFINISHED` before the batch's end.
    """
    most = PIECE_BYTES if partial is not None else size
    partial = partial or Partial()
    if partial.position != position:
        partial.position, partial.checked, partial.crc = position, len(begun), crc32c(begun[CRC_FROM:])
        most -= len(begun)
    until = min(size, partial.checked + most)
    while partial.checked < until:
        piece = file.read(position + partial.checked, min(CHUNK_BYTES, until - partial.checked))
        if not piece:
            return NO_CRC_AT_ALL
        partial.crc = crc32c(piece, partial.crc)
        partial.checked += len(piece)
    if until < size:
        return UNFINISHED
    partial.position = -1
    return partial.crc


def is_sound_batch(file: File, position: int, size: int, next_offset: int, bounds: Bounds) -> bool:
    """Return whether a whole batch within these bounds begins at `position`."""
    if position < 0 or size - position < HEADER_BYTES:
        return False
    return walk(file, Place(position, next_offset), position + 1, size, bounds).bad is None


def find_sound(file: File, position: int, size: int, next_offset: int, bounds: Bounds) -> Place | None:
    """Search, byte by byte, for the first valid batch behind `position`; None if there is none within `SEARCHED_BYTES`."""
    end = min(size, position + SEARCHED_BYTES)
    position += 1
    while end - position >= HEADER_BYTES:
        chunk = file.read(position, min(CHUNK_BYTES, end - position))
        at = chunk.find(MAGIC, MAGIC_POSITION)
        while 0 <= at <= len(chunk) - (HEADER_BYTES - MAGIC_POSITION):
            start = at - MAGIC_POSITION
            base_offset, length, epoch, _, _, delta = HEAD.unpack_from(chunk, start)
            fits = next_offset <= base_offset < bounds.until_offset - delta and -1 <= epoch <= bounds.latest_epoch
            is_plausible = fits and delta >= 0 and SHORTEST <= length <= size - position - start - LENGTH_FROM
            if is_plausible and is_sound_batch(file, position + start, size, next_offset, bounds):
                return Place(position + start, base_offset)
            at = chunk.find(MAGIC, at + 1)
        position += max(1, len(chunk) - HEADER_BYTES + 1)
    return None
