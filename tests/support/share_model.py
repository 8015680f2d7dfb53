"""A share partition that keeps a state for each offset, as simple as possible: what the runs of the real one are compared with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from ottla.share.cells import ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE
from ottla.share.outcome import ShareLimits
from ottla.wire.errors import INVALID_RECORD_STATE, INVALID_REQUEST, NONE

TICK_MS = 10
STATES = (ARCHIVED, ACKNOWLEDGED, AVAILABLE, ARCHIVED)
RENEW = 4


@dataclass
class OffsetState:
    """The state of one record. `held`: how it was before the write with this token."""

    state: int
    count: int
    member: str = ""
    deadline: int = 0
    token: int = 0
    held: tuple[str, int] = ("", 0)
    unread: bool = False
    batch: tuple[int, int] = (0, 0)

    def put(self, state: int, count: int, member: str = "", deadline: int = 0) -> None:
        self.state, self.count, self.member, self.deadline, self.token, self.unread = state, count, member, deadline, 0, False

    @property
    def is_free(self) -> bool:
        return self.state == AVAILABLE and not self.token


@dataclass
class NaiveSharePartition:
    """Offset -> state, and Kafka's rules written down one record at a time."""

    limits: ShareLimits
    start: int = 0
    end: int = 0
    states: dict[int, OffsetState] = field(default_factory=dict)
    token: int = 0
    writes: dict[int, list[int]] = field(default_factory=dict)

    def load(self, start: int, batches: Iterable[tuple[int, int, int, int]]) -> None:
        self.start = self.end = start
        for first, last, state, count in batches:
            for offset in range(self.end if self.states else start, first):
                self.states[offset] = OffsetState(AVAILABLE, 0, unread=True, batch=(max(start, self.end), first - 1))
            for offset in range(first, last + 1):
                self.states[offset] = OffsetState(state, count, batch=(first, last))
            self.end = last + 1
        if self.states:
            self.end -= 1
        self.trim()

    def next_fetch(self) -> int:
        free = [offset for offset, each in sorted(self.states.items()) if each.is_free]
        return free[0] if free else self.end + bool(self.states)

    def complete_count(self) -> int:
        return sum(each.state in (ACKNOWLEDGED, ARCHIVED) for each in self.states.values())

    def trim(self) -> None:
        moved = False
        for offset in sorted(self.states):
            each = self.states[offset]
            if each.state not in (ACKNOWLEDGED, ARCHIVED) or each.token:
                self.start = offset if moved else self.start
                return
            del self.states[offset]
            moved = True
        if moved:
            self.start = self.end = self.end + 1

    def acquire(
        self,
        member: str,
        fetch: int,
        batches: Sequence[tuple[int, int]],
        most: int,
        size: int,
        limited: bool,
        aborted: Sequence[tuple[int, int]],
        now: int,
    ) -> list[tuple[int, int]]:
        """The acquired offsets with their delivery counts."""
        if most <= 0 or not batches or batches[-1][1] < self.start:
            return []
        base, last = batches[0][0], batches[-1][1]
        room = min(most, self.limits.max_record_locks - (self.end - self.start + 1 if self.states else 0))
        if room <= 0 and fetch <= self.end:
            room, last = min(most, self.end - fetch + 1), min(last, self.end)
        if room <= 0:
            return []
        archived = self._archive_stale(fetch, base)
        was_empty, end = not self.states, self.end
        taken = self._take_known(base, last, room, size, limited, batches)
        if taken is None:
            taken = []
        elif len(taken) < room and not self._throttled and (was_empty or end < last):
            taken += self._take_new(max(base, end + (not was_empty)), last, room - len(taken), size, limited, batches)
        acquired = []
        for offset in taken:
            each = self.states[offset]
            if any(first <= offset <= until for first, until in aborted):
                each.put(ARCHIVED, each.count + 1)
                archived = True
            else:
                deadline = -(-(now + self.limits.lock_duration_ms) // TICK_MS) * TICK_MS
                each.put(ACQUIRED, each.count + 1, member, deadline)
                acquired.append((offset, each.count))
        if archived:
            self.trim()
        return acquired

    def _archive_stale(self, fetch: int, base: int) -> bool:
        stale = [each for offset, each in self.states.items() if fetch <= offset < base and each.state == AVAILABLE]
        for each in stale:
            each.put(ARCHIVED, each.count)
        return bool(stale)

    _throttled = False

    def _take_known(
        self, base: int, last: int, room: int, size: int, limited: bool, batches: Sequence[tuple[int, int]]
    ) -> list[int]:
        taken: list[int] = []
        self._throttled = False
        floor = max(2, (self.limits.delivery_count_limit + 1) // 2)
        known = {each.batch for offset, each in self.states.items() if base <= offset <= last}
        for batch in sorted(known):
            inside = range(max(batch[0], base), min(batch[1], last) + 1)
            free = [offset for offset in inside if offset in self.states and self.states[offset].is_free]
            if len(taken) >= room or not free:
                continue
            if self.states[free[0]].unread:
                for part in contiguous(free):
                    if len(taken) < room:
                        taken += self._take_unread(part, batch, room - len(taken), size, limited, batches)
                continue
            throttled = max(self.states[offset].count for offset in free) >= floor
            if throttled and taken:
                self._throttled = True
                return taken
            taken += self._take_again(free, batch, room - len(taken), limited, floor)
            if throttled:
                self._throttled = True
                return taken
        return taken

    def _take_again(self, free: list[int], batch: tuple[int, int], room: int, limited: bool, floor: int) -> list[int]:
        taken: list[int] = []
        most = None
        limit = self.limits.delivery_count_limit
        for offset in free:
            count = self.states[offset].count
            if limit > 2 and count == limit - 1 and taken:
                break
            if count >= floor and most is None:
                most = max(1, (batch[1] - batch[0] + 1) >> (count - floor + 1))
            taken.append(offset)
            if limit > 2 and count + 1 == limit:
                break
            if limited and len(taken) == room:
                break
            if most is not None and len(taken) >= most:
                break
        return taken

    def _take_unread(
        self, part: list[int], batch: tuple[int, int], room: int, size: int, limited: bool, batches: Sequence[tuple[int, int]]
    ) -> list[int]:
        first, last = part[0], part[-1]
        if room < len(part):
            last = first + room - 1 if limited else min(last, aligned(batches, first + room - 1))
        ranges = [(first, last)] if limited else list(split(first, last, size, batches))
        for offset, each in self.states.items():
            if each.unread and batch[0] <= offset <= batch[1]:
                if offset < first:
                    each.batch = (each.batch[0], min(each.batch[1], first - 1))
                elif offset > last:
                    each.batch = (max(each.batch[0], last + 1), each.batch[1])
                else:
                    each.batch = next(one for one in ranges if one[0] <= offset <= one[1])
        return list(range(first, last + 1))

    def _take_new(
        self, first: int, last: int, room: int, size: int, limited: bool, batches: Sequence[tuple[int, int]]
    ) -> list[int]:
        if room < last - first + 1:
            last = aligned(batches, first + room - 1)
        if not self.states:
            self.start = first
        for begin, until in [(first, last)] if limited else split(first, last, size, batches):
            for offset in range(begin, until + 1):
                self.states[offset] = OffsetState(AVAILABLE, 0, batch=(begin, until))
        self.end = last
        return list(range(first, min(last, first + room - 1) + 1 if limited else last + 1))

    def acknowledge(self, member: str, batches: Sequence[tuple[int, int, Sequence[int]]], now: int) -> tuple[int, list[int]]:
        """The error code, and the offsets whose states are to be persisted."""
        changed: dict[int, int] = {}
        for first, last, types in batches:
            if not is_well_formed(first, last, types):
                return INVALID_REQUEST, []
            if last < self.start:
                continue
            fault = self._unknown(first, last)
            if fault:
                return fault, []
            for offset in range(max(first, self.start), last + 1):
                each = self.states.get(offset)
                if offset in changed:
                    return INVALID_RECORD_STATE, []
                changed[offset] = types[0] if len(types) == 1 else types[offset - first]
                if each is not None and (each.state != ACQUIRED or each.member != member):
                    return INVALID_RECORD_STATE, []
        return NONE, self._change(changed, now)

    def _change(self, changed: dict[int, int], now: int) -> list[int]:
        self.token += 1
        written = []
        for offset, kind in sorted(changed.items()):
            if offset not in self.states:
                continue
            if kind == RENEW:
                deadline = -(-(now + self.limits.lock_duration_ms) // TICK_MS) * TICK_MS
                self.states[offset].deadline = deadline
            else:
                self._begin(offset, STATES[kind])
                written.append(offset)
        return self._written(written)

    def _unknown(self, first: int, last: int) -> int:
        known = sorted(self.states)
        if not known or last < known[0] or self.start <= first < known[0]:
            return INVALID_RECORD_STATE
        return NONE if last in self.states else INVALID_REQUEST

    def release(self, member: str) -> list[int]:
        self.token += 1
        held = [offset for offset, each in sorted(self.states.items()) if each.state == ACQUIRED and each.member == member]
        for offset in held:
            self._begin(offset, AVAILABLE)
        return self._written(held)

    def expire(self, now: int) -> list[int]:
        self.token += 1
        due = [offset for offset, each in sorted(self.states.items()) if each.state == ACQUIRED and each.deadline <= now]
        for offset in due:
            self._give_up(self.states[offset])
        if due:
            self.writes[self.token] = []
        else:
            self.token -= 1
        return due

    def move_start(self, offset: int) -> int | None:
        """The number of complete records that is persisted with the new start; None if nothing is persisted."""
        if offset <= self.start:
            return None
        gone = [each for each in self.states if each < offset]
        holds = any(self.states[each].state == ACQUIRED or self.states[each].token for each in gone)
        for each in gone:
            del self.states[each]
        self.start = offset
        if not self.states:
            self.end = offset
        if holds:
            self.token += 1
            self.writes[self.token] = []
        complete = self.complete_count() if holds else None
        self.trim()
        return complete

    def end_write(self, token: int, is_stored: bool, now: int) -> None:
        for offset in self.writes.pop(token):
            each = self.states.get(offset)
            if each is None or each.token != token:
                continue
            if is_stored:
                each.put(each.state, each.count)
            else:
                member, count = each.held
                deadline = each.deadline
                each.put(ACQUIRED, count, member, deadline)
                if deadline <= now:
                    self._give_up(each)
        self.trim()

    def _begin(self, offset: int, state: int) -> None:
        each = self.states[offset]
        if state == AVAILABLE and each.count >= self.limits.delivery_count_limit:
            state = ARCHIVED
        each.held = (each.member, each.count)
        each.state, each.member, each.token = state, "", self.token

    def _give_up(self, each: OffsetState) -> None:
        each.put(AVAILABLE if each.count < self.limits.delivery_count_limit else ARCHIVED, each.count)

    def _written(self, offsets: list[int]) -> list[int]:
        if offsets:
            self.writes[self.token] = offsets
        else:
            self.token -= 1
        return offsets


def is_well_formed(first: int, last: int, types: Sequence[int]) -> bool:
    """Whether a batch of acknowledgements is one."""
    return first <= last and len(types) in {1, last - first + 1} - {0} and set(types) <= set(range(5))


def contiguous(offsets: Sequence[int]) -> Iterator[list[int]]:
    """The runs of neighbouring offsets."""
    for _, group in groupby(enumerate(offsets), lambda pair: pair[1] - pair[0]):
        yield [offset for _, offset in group]


def aligned(batches: Sequence[tuple[int, int]], offset: int) -> int:
    """The end of the log's batch with this offset."""
    return next((last for base, last in batches if base <= offset <= last), offset)


def split(first: int, last: int, size: int, batches: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """In-flight batches of at least this size, which begin where the log's batches begin."""
    begin = first
    if last - first + 1 > size:
        for base, _ in batches:
            if base <= last and base - begin >= size:
                yield begin, base - 1
                begin = base
    yield begin, last
