"""The reader of slices of a log, which also finds its damage. Of the settings it uses only whether gaps are allowed.

Bytes that were not read since the start are checked first, for about a millisecond at a time. Damage is recorded, logged once, and
skipped: everything before it and behind it is readable.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from ottla.log.epochs import LeaderEpochs
from ottla.log.errors import Astray, Damaged, Unfinished
from ottla.log.names import LOG, file_name
from ottla.log.segments import scan
from ottla.log.segments.segment import Segment
from ottla.log.segments.soundness import (
    ANY_EPOCH,
    ENDLESS,
    SEARCHED_BYTES,
    Bounds,
    DamagedRange,
    Place,
    Unproven,
    Walked,
    find_sound,
    is_sound_batch,
    walk,
)
from ottla.log.segments.transaction_index import Aborted
from ottla.ports import FileSlice

log = logging.getLogger("ottla.log")

T = TypeVar("T")

NO_OFFSET = -1
PLACES = 32
"""The most (offset, position) pairs cached for clients that continue to read where their last fetch ended."""

ANCHORS = 8
"""The most wrong index entries after which a segment is checked from its beginning."""

ATTEMPTS = 100
"""The most damaged places that one call skips."""

CHECKED, PAUSED, REBUILT = range(3)
"""The outcomes of a check. `REBUILT`: the indexes are wrong, and are being rebuilt."""

CHECK_COST, BYTES_COST = 50, 1024
"""The cost of a check: 50 for the check itself, 1 for each batch, and 1 for every 1024 bytes. 1000 is half a millisecond."""

MOST_COST = 1000
"""The most cost of checks in one call."""


class FirstPart(FileSlice):
    """The first part of a requested slice of a log, up to where the CRC checks paused. Another read continues the checks.

    The slice is empty if none of the requested batches is checked yet.
    """

    __slots__ = ()


class LogReader:
    """The reader that finds a log's batches by offset. `holes` are ranges of offsets between segments that no file contains.

    `segments` is the log's own list. `places` are cached positions of offsets that are likely to be read next, and must be cleared
    when segments are replaced or truncated. `check_cost` is the cost of all checks so far.
    """

    __slots__ = ("_epochs", "_path", "check_cost", "holes", "places", "segments")

    def __init__(self, path: str, segments: list[Segment], epochs: LeaderEpochs) -> None:
        self.segments = segments
        self.holes: list[tuple[DamagedRange, Damaged]] = []
        self._path = path
        self._epochs = epochs
        self.places: dict[int, tuple[Segment, int]] = {}
        self.check_cost = 0

    def read(
        self, offset: int, max_bytes: int, until_offset: int, log_end_offset: int, *, min_one_batch: bool, may_check: bool
    ) -> FileSlice | None:
        """Return the result of `Log.read`, but raise `Unfinished` instead of returning a slice without batches.

        Raises `Damaged` and `StorageFailed`.
        """
        if self.holes:
            self._check_holes(offset)
        place = self.places.get(offset)
        if place is None or (
            place[0] is not self.segments[-1] and place[1] >= place[0].records_end
        ):  # the next segment has the following records
            place = self.locate(offset, until_offset, log_end_offset)
        segment, start = place
        sound, following = ENDLESS, NO_OFFSET
        if segment.unproven is not None:
            segment, start, sound, following = self._proven(
                offset, place, max_bytes, until_offset, log_end_offset, may_check=may_check
            )
        if until_offset >= log_end_offset or until_offset >= self.end_offset(segment, log_end_offset):
            end, next_offset = segment.size, self.end_offset(segment, log_end_offset)
            if next_offset < until_offset and start < segment.records_end < end:
                end, next_offset = segment.records_end, NO_OFFSET  # clients do not expect a reply of only empty batches
        else:
            end, next_offset = self._position_of(until_offset, segment, log_end_offset), until_offset
        is_part = sound < end
        if is_part:
            end, next_offset = sound, following
        if end - start > max_bytes:
            is_part = False
            end, next_offset = self._boundary(segment, start, start + max_bytes, min_one_batch=min_one_batch)
        if end <= start:
            return FirstPart(segment.file, start, 0) if is_part else None
        if next_offset != NO_OFFSET:
            self.remember(next_offset, segment, end)
        return (FirstPart if is_part else FileSlice)(segment.file, start, end - start)

    def in_parts(self, look: Callable[[], T]) -> T:
        """Call `look` until it returns a result. When it raises `Unfinished`, do the work of that exception first.

        Raises `Unfinished` if the work exceeds a cost of `MOST_COST`.
        """
        most = self.check_cost + MOST_COST
        while True:
            try:
                return look()
            except Unfinished as unfinished:
                if self.check_cost >= most:
                    raise
                self.check_cost += unfinished.cost
                unfinished.go_on()

    def number(self, offset: int) -> int:
        """Return the index in `segments` of the segment whose range contains `offset`; the first one for an earlier offset."""
        return max(0, bisect_right(self.segments, offset, key=_base_offset) - 1)

    def end_offset(self, segment: Segment, log_end_offset: int) -> int:
        """Return the base offset of the segment after `segment`, or `log_end_offset` after the last one."""
        if segment is self.segments[-1]:
            return log_end_offset
        return self.segments[self.number(segment.base_offset) + 1].base_offset

    def locate(self, offset: int, until_offset: int, log_end_offset: int) -> tuple[Segment, int]:
        """Find the segment and position of the batch with `offset`, or of the next one in a compacted log.

        Empty batches at a segment's end are found only if no other batches below `until_offset` follow, so that readers can
        advance beyond them.
        """
        empty: tuple[Segment, int] | None = None
        active = self.segments[-1]
        for segment in self.segments[self.number(offset) :]:
            if segment.base_offset >= until_offset:
                break
            position = self.locate_in(segment, offset, log_end_offset) if segment.size else 0
            if position < (segment.size if segment is active else self._records_end(segment, log_end_offset)):
                return segment, position
            if empty is None and position < segment.size:
                empty = segment, position
        return empty or (active, active.size)

    def remember(self, offset: int, segment: Segment, position: int) -> None:
        """Cache the position of `offset`, which is likely to be read next. Do nothing at the end of a sealed segment."""
        if position == segment.size and segment is not self.segments[-1]:
            return
        places = self.places
        if len(places) >= PLACES and offset not in places:
            del places[next(iter(places))]
        places[offset] = (segment, position)

    def aborted_transactions(self, offset: int, until_offset: int) -> list[Aborted]:
        """Return the aborted transactions with records from `offset` on and below `until_offset`."""
        found: list[Aborted] = []
        for segment in self.segments[self.number(offset) :]:
            for entry in segment.transactions.entries.ended_from(offset):
                if entry.first_offset < until_offset:
                    found.append(entry)
                if entry.last_stable_offset >= until_offset:
                    return found
        return found

    def check_whole(self, log_start_offset: int) -> None:
        """Raise `Damaged` if segments, or batches within a segment, are missing after the log's start."""
        for missing, damaged in self.holes:
            if missing.end_offset > log_start_offset:
                raise Damaged(self._path, damaged.file, damaged.position, damaged.sentence)
        for segment in self.segments:
            for gone in segment.unproven.damage if segment.unproven is not None else ():
                if gone.position == gone.resume and gone.end_offset > log_start_offset:
                    raise self._damage_at(segment, gone.position)

    def offset_at(self, segment: Segment, position: int, log_end_offset: int) -> int:
        """Return the offset that follows the batch which ends at a position. Raises `Damaged`, and `Unfinished`."""
        try:
            return segment.offset_at(position)
        except Damaged as damaged:
            raise self._pause(partial(self._diagnose, segment, damaged, log_end_offset)) from damaged

    def cut(self, end_offset: int) -> None:
        """Remove cached positions, and the known missing ranges of offsets beyond `end_offset`, after a truncation of the log."""
        self.places.clear()
        self.holes = [(missing, damaged) for missing, damaged in self.holes if missing.first_offset < end_offset]

    # Checks of unread bytes

    def is_proven(self, segment: Segment, start: int, end: int, log_end_offset: int) -> bool:
        """Check some bytes of a segment from `start` to `end`. Return whether all of them are now checked and valid.

        Raises `Damaged`.
        """
        unproven = segment.unproven
        if unproven is None or unproven.is_sound(start, end):
            return True
        try:
            self._check(segment, unproven.sound_until(start)[0], end, log_end_offset)
        except Unfinished as unfinished:
            unfinished.go_on()
        if segment.unproven is not None and (position := unproven.damage_from(start)) < min(end, unproven.size):
            raise self._damage_at(segment, position)
        return segment.unproven is None or unproven.is_sound(start, end)

    def behind_damage(self, offset: int, log_end_offset: int) -> int:
        """Return the first offset after the damage or gap that contains `offset`; the log's end if there is none."""
        damage = [missing for missing, _ in self.holes]
        segment = self.segments[self.number(offset)]
        if segment.unproven is not None:
            damage += segment.unproven.damage
        found = [each.end_offset for each in damage if each.first_offset <= offset < each.end_offset]
        return max(found, default=log_end_offset)

    def _records_end(self, segment: Segment, log_end_offset: int) -> int:
        """Return the end of a sealed segment's last batch with records, after a check of the batches without records behind it.

        Raises `Damaged`, and `Unfinished`.
        """
        end = segment.records_end
        if end < segment.size and not self.is_proven(segment, end, segment.size, log_end_offset):
            raise self._pause(lambda: None)
        return end

    def is_sound_at_end(self, segment: Segment, log_end_offset: int) -> bool:
        """Check a segment's last batches and return whether they are valid. Record and log damage."""
        while segment.unproven is not None and self._check(segment, segment.size - 1, segment.size, log_end_offset) == PAUSED:
            pass
        return segment.unproven is None or segment.unproven.is_sound(segment.size - 1, segment.size)

    def diagnose(self, damaged: Damaged, log_end_offset: int) -> None:
        """Find out whether an index or a batch has caused `damaged`. Rebuild a wrong index, or record the damaged batch.

        Raises `damaged` if neither is wrong, and `Unfinished` if more must be read.
        """
        for segment in self.segments:
            if segment.size and damaged.file == file_name(segment.base_offset, LOG):
                self._diagnose(segment, damaged, log_end_offset)

    def _proven(
        self,
        offset: int,
        place: tuple[Segment, int],
        max_bytes: int,
        until_offset: int,
        log_end_offset: int,
        *,
        may_check: bool,
    ) -> tuple[Segment, int, int, int]:
        """Check the batches to be read. Return (segment, start, end of the valid bytes, the offset after them).

        Raises `Damaged`, and `Unfinished`.
        """
        for _ in range(ATTEMPTS):
            segment, start = place
            unproven = segment.unproven
            if unproven is None or start >= segment.size:
                return segment, start, ENDLESS, NO_OFFSET
            if unproven.damage and (damage := unproven.damage_at(offset)) is not None:
                raise self._damage_at(segment, damage.position)
            end, following = unproven.sound_until(start)
            if end < min(start + max(1, max_bytes), segment.size):
                is_paused = not may_check
                if may_check:
                    is_paused = self._check(segment, end, start + max(1, max_bytes), log_end_offset) == PAUSED
                end, following = unproven.sound_until(start)
                if is_paused and end <= start:
                    return segment, start, start, NO_OFFSET
            if end > start:
                return segment, start, end, following
            place = self.locate(offset, until_offset, log_end_offset)
        raise scan.damaged_at(segment.file, start)

    def _has_unproven_gap(self, segment: Segment, unproven: Unproven, offset: int, start: int, log_end_offset: int) -> bool:
        """Check the batch before `start`. Return whether it is damaged, so that the search for `offset` possibly skipped batches.

        Raises `Unfinished`.
        """
        if not start or unproven.is_sound(start - 1, start):
            return False
        if start < segment.size and scan.base_offset(segment.file, start) <= offset:
            return False
        before = len(unproven.damage)
        if self._check(segment, start - 1, start, log_end_offset) != CHECKED:
            raise self._pause(lambda: None)
        return len(unproven.damage) > before

    def locate_in(self, segment: Segment, offset: int, log_end_offset: int) -> int:
        """Return the position in a segment of the first batch with `offset` or a later one, after a check of the bytes before it.

        Raises `Damaged`, and `Unfinished`.
        """
        for _ in range(ATTEMPTS):
            unproven = segment.unproven
            damage = unproven.damage_at(offset) if unproven is not None else None
            if damage is not None:
                raise self._damage_at(segment, damage.position)
            try:
                position = segment.locate(offset)
            except Damaged as damaged:
                raise self._pause(partial(self._diagnose, segment, damaged, log_end_offset)) from damaged
            if unproven is None or not self._has_unproven_gap(segment, unproven, offset, position, log_end_offset):
                return position
        raise scan.damaged_at(segment.file, 0)

    def _diagnose(self, segment: Segment, damaged: Damaged, log_end_offset: int) -> None:
        """Find out whether the index or a batch of `segment` is wrong. Rebuild a wrong index, or record the damaged batch.

        Raises `damaged` if neither is wrong, and `Unfinished` if more must be read.
        """
        if segment.unproven is None:
            segment.unproven = Unproven(segment.size)  # the files have changed since the start
        unproven = segment.unproven
        before = len(unproven.damage)
        if isinstance(damaged, Astray):
            unproven.distrust(damaged.position)
        outcome = self._check(segment, damaged.position, damaged.position + 1, log_end_offset)
        if outcome == PAUSED:
            raise self._pause(partial(self._diagnose, segment, damaged, log_end_offset))
        if len(unproven.damage) == before and outcome != REBUILT:
            if not isinstance(damaged, Astray):
                raise damaged
            segment.reindex()

    def _pause(self, go_on: Callable[[], None]) -> Unfinished:
        return Unfinished(self._path, go_on)

    def _check(self, segment: Segment, position: int, end: int, log_end_offset: int) -> int:
        """Check batches from `position` to about `end`, for at most a millisecond, and record the result.

        Return `PAUSED` if the check did not reach `position`, `REBUILT` if the indexes are wrong, and `CHECKED` otherwise.
        """
        unproven, position = segment.unproven, min(position, segment.size - 1)
        if unproven is None or any(each.position <= position < each.resume for each in unproven.damage):
            return CHECKED
        end = min(max(end, position + 1), segment.size, unproven.damage_from(position))
        bounds = self._bounds(segment, log_end_offset)
        is_astray = False
        for place in self._anchors(segment, unproven, position):
            walked = walk(segment.file, place, end, segment.size, bounds, unproven.partial)
            if walked.bad is None or walked.position > place.position:
                break
            is_astray = True
        else:
            is_astray = False
        self.check_cost += CHECK_COST + walked.batches + (walked.position - place.position) // BYTES_COST
        unproven.prove(place.position, walked.position, walked.next_offset)
        is_paused = walked.bad is None and walked.position <= position
        if walked.bad is not None:
            self._note(segment, unproven, walked, bounds)
        elif is_astray and not is_paused:
            segment.reindex()
        if unproven.is_all_sound:
            segment.unproven = None
        return PAUSED if is_paused else REBUILT if is_astray else CHECKED

    def _anchors(self, segment: Segment, unproven: Unproven, position: int) -> Iterator[Place]:
        """Yield places before `position` at which batches begin, to check from there. The nearest is first, and can be wrong.

        The last place does not come from the index, and is certain.
        """
        certain = unproven.known_before(position, segment.base_offset)
        at = position
        for _ in range(ANCHORS):
            entry = segment.index.floor_second(at)
            if entry is None or not certain.position < entry[1] <= at:
                break
            yield Place(entry[1], segment.base_offset, segment.base_offset + entry[0])
            at = entry[1] - 1
        yield certain

    def _bounds(self, segment: Segment, log_end_offset: int) -> Bounds:
        latest = self._epochs.latest if self._epochs.entries else ANY_EPOCH
        return Bounds(self.end_offset(segment, log_end_offset), latest)

    def _note(self, segment: Segment, unproven: Unproven, walked: Walked, bounds: Bounds) -> None:
        """Find the end of the damage that begins at `walked`; record and log the damaged range."""
        assert walked.bad is not None, "there is no damage"
        size, file = segment.size, segment.file
        found = find_sound(file, walked.position, size, walked.next_offset, bounds) or self._find_by_index(segment, walked, bounds)
        place = found or Place(size, bounds.until_offset)
        damage = DamagedRange(walked.next_offset, place.next_offset, walked.position, place.position, walked.bad)
        unproven.add_damage(damage)
        log.error("%s", self._damage_at(segment, damage.position))

    def _find_by_index(self, segment: Segment, walked: Walked, bounds: Bounds) -> Place | None:
        """Search for a valid batch farther on, by the entries of the index. Raises `Unfinished` while the index is rebuilt."""
        segment.need_indexes()
        for position in range(walked.position + SEARCHED_BYTES, segment.size + SEARCHED_BYTES, SEARCHED_BYTES):
            entry = segment.index.floor_second(min(position, segment.size))
            if entry is None or entry[1] <= walked.position:
                continue
            if is_sound_batch(segment.file, entry[1], segment.size, walked.next_offset, bounds):
                return Place(entry[1], int.from_bytes(segment.file.read(entry[1], 8), "big"))
        return None

    def _damage_at(self, segment: Segment, position: int) -> Damaged:
        """Return the error for the damaged range that begins at `position`."""
        assert segment.unproven is not None, "it is damaged"
        found = next(each for each in segment.unproven.damage if each.position == position)
        lost = f"offsets {found.first_offset} to {found.end_offset - 1} cannot be read"
        if found.first_offset == found.end_offset:
            lost = "no offset is missing"
        return Damaged(self._path, file_name(segment.base_offset, LOG), position, f"{found.sentence[:-1]}: {lost}.")

    def _check_holes(self, offset: int) -> None:
        for missing, damaged in self.holes:
            if missing.first_offset <= offset < missing.end_offset:
                raise Damaged(self._path, damaged.file, damaged.position, damaged.sentence)

    def _position_of(self, offset: int, segment: Segment, log_end_offset: int) -> int:
        place = self.places.get(offset)
        if place is not None and place[0] is segment:
            return place[1]
        return self.locate_in(segment, offset, log_end_offset)

    def _boundary(self, segment: Segment, start: int, limit: int, *, min_one_batch: bool) -> tuple[int, int]:
        """Return (end, next offset) of the whole batches between `start` and `limit`.

        With `min_one_batch`, the first batch is included whatever its size. The next offset is -1 if it is unknown.
        """
        try:
            end, next_offset = segment.boundary(start, limit)
        except Astray:
            segment.reindex()
            raise self._pause(lambda: None) from None
        if end == start and min_one_batch:
            return start + segment.batch_size(start), NO_OFFSET
        return end, next_offset


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
