"""The check of a produced batch's records on arrival: framing, count, offset deltas, timestamps and keys.

`header.check` has checked header and CRC-32C before. The check refuses everything that Apache Kafka 4.3 refuses, and a little more,
so that no log contains records that a reader cannot open.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterator
from typing import Final, NamedTuple

from ottla.records import kernel
from ottla.records.batches.header import (
    CODEC_MASK,
    HEADER_BYTES,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    BadBatch,
    BatchHeader,
    read_header,
    set_max_timestamp,
)
from ottla.records.compression import lz4, snappy
from ottla.records.compression.codecs import MOST_EXPANSION, CodecFailed
from ottla.records.compression.decompression import AT_ONCE_BYTES, Unpacking, at_once
from ottla.records.compression.limits import PAUSE_BYTES
from ottla.records.kernel_common import AT, DIGITS, HAS_KEY, INDEX, NEWEST, STAGE, TIMESTAMP, WALK_STATES
from ottla.wire.errors import INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE

ANY_TIME: Final = (-(1 << 63), (1 << 63) - 1)
MOST_MS: Final = 1 << 62
MOST_OPENED_BYTES: Final = 128 * 1024 * 1024
"""The most bytes to which a compressed batch may decompress. Apache Kafka has no such limit."""

MOST_EXPANSIONS: Final = (1, MOST_EXPANSION, snappy.MOST_EXPANSION, lz4.MOST_EXPANSION, MOST_EXPANSION)
"""The most bytes to which one byte decompresses, by codec. zstd has no such bound, but its frames state their size."""

MOST_RECORD_ERRORS: Final = 1000


class Demands(NamedTuple):
    """What a topic requires of its records: a key if `keyed`, and a timestamp within a range around the present time.

    A timestamp must be from `before_ms` ago to `after_ms` ahead, or -1. With `append_time` the broker sets LogAppendTime, so any
    timestamp is accepted.
    """

    keyed: bool = False
    before_ms: int = MOST_MS
    after_ms: int = MOST_MS
    append_time: bool = False


class Refused(NamedTuple):
    """The rejection of a batch: the error code, a message, and (index, message) of each of the first 1000 bad records (KIP-467)."""

    error_code: int
    sentence: str
    records: tuple[tuple[int, str], ...] = ()


Verdict = tuple[BatchHeader, Refused | None]


def check_at_once(
    view: memoryview, header: BatchHeader, demands: Demands, now_ms: int, most_bytes: int = AT_ONCE_BYTES
) -> Verdict | None:
    """Return the result of `check_slowly` without pauses; None if the batch decompresses to more than `most_bytes`, or slowly."""
    data, pos = view, HEADER_BYTES
    if header[5] & CODEC_MASK:
        try:
            opened = at_once(header.codec, view[HEADER_BYTES:], most_bytes)
        except CodecFailed as failure:
            return header, refuse_unopened(failure)
        if opened is None:
            return None
        data, pos = opened, 0
    if not header[5] & TIMESTAMP_TYPE_BIT:
        earliest, latest = now_ms - demands.before_ms, now_ms + demands.after_ms
        newest = kernel.walk(data, pos, header[12], header[7], earliest, latest, demands.keyed)
        if newest == header[8]:
            return header, None
        if newest >= NO_TIMESTAMP:
            return (header, None) if demands.append_time else (_put_right(view, header, newest), None)
    look = RecordsCheck(view, header, demands, now_ms)
    look.over(data[pos:])
    return look.verdict()


def check_slowly(
    view: memoryview,
    header: BatchHeader,
    demands: Demands,
    now_ms: int,
    *,
    limit_bytes: int = MOST_OPENED_BYTES,
    taken: Callable[[memoryview], None] | None = None,
    keeps_all: bool = False,
) -> Generator[int, None, Verdict]:
    """Check the batch that fills `view`. Return (header, None) if it may be appended, otherwise (header, rejection).

    A wrong max_timestamp, and a timestamp type of LogAppendTime, are corrected in place, as in Kafka. The returned header is
    corrected, too.

    - INVALID_RECORD: more or fewer records than the header says, a broken record, offset deltas other than 0, 1, 2 …, bytes that
      the codec cannot decompress, or a null key on a compacted topic.
    - INVALID_TIMESTAMP: a timestamp that the topic does not allow.
    - MESSAGE_TOO_LARGE: the batch decompresses to more than `limit_bytes`. Producers that can split the batch send it in parts.

    The check pauses after each piece of about a millisecond, and yields the bytes of memory that it uses after the pause. The first
    pause comes before any memory is allocated. No piece is kept, but `taken` is called with each piece. If `taken` keeps the
    pieces (`keeps_all`), they count as memory.
    """
    look = RecordsCheck(view, header, demands, now_ms)
    unpacking = Unpacking(header.codec, view[HEADER_BYTES:], limit_bytes)
    try:
        room_bytes = unpacking.measure() if header.codec else 0
        if keeps_all:
            room_bytes = min(limit_bytes, room_bytes + MOST_EXPANSIONS[header.codec] * len(view))
        yield room_bytes
        for piece in unpacking.pieces():
            for start in range(0, len(piece) or 1, PAUSE_BYTES):
                part = piece[start : start + PAUSE_BYTES]
                if not look.over(part):
                    return look.verdict()
                if taken is not None:
                    taken(part)
                yield room_bytes
    except CodecFailed as failure:
        return header, refuse_unopened(failure)
    return look.verdict()


class RecordsCheck:
    """A check of the records of one batch, which gets the decompressed records piece by piece.

    Between two pieces it stores a few numbers, and no records.
    """

    __slots__ = (
        "_allowed",
        "_demands",
        "_digits",
        "_faults",
        "_header",
        "_is_broken",
        "_is_of_one_time",
        "_state",
        "_times",
        "_view",
    )

    def __init__(self, view: memoryview, header: BatchHeader, demands: Demands, now_ms: int) -> None:
        self._view = view
        self._header = header
        self._demands = demands
        self._allowed = ANY_TIME if demands.append_time else (now_ms - demands.before_ms, now_ms + demands.after_ms)
        self._is_of_one_time = bool(header.attributes & TIMESTAMP_TYPE_BIT)
        self._times = ANY_TIME if self._is_of_one_time else self._allowed
        self._state = array("q", bytes(8 * WALK_STATES))
        self._state[NEWEST] = NO_TIMESTAMP
        self._digits = bytearray(10)
        self._is_broken = False
        self._faults: list[tuple[int, int, bool]] = []
        """(index, timestamp, whether the key is present) of the first records that violate the topic's demands."""

    def over(self, piece: memoryview) -> bool:
        """Check the next decompressed piece of the records. Return False if later pieces cannot change the verdict."""
        state, header = self._state, self._header
        state[AT] = 0
        while not self._is_broken:
            hears = len(self._faults) < MOST_RECORD_ERRORS
            times, keyed = (self._times, self._demands.keyed) if hears else (ANY_TIME, False)
            found = kernel.walk_on(piece, state, self._digits, header.record_count, header.base_timestamp, *times, keyed)
            if not found:
                return True
            if found == kernel.DOUBTFUL:
                self._faults.append((state[INDEX] - 1, state[TIMESTAMP], bool(state[HAS_KEY])))
            self._is_broken = found == kernel.BROKEN
        return False

    def verdict(self) -> Verdict:
        """Return the result of the check of all pieces."""
        state, header, demands = self._state, self._header, self._demands
        if self._is_broken or state[INDEX] != header.record_count or state[STAGE] or state[DIGITS]:
            return header, Refused(
                INVALID_RECORD, f"The batch does not contain its {header.record_count} records, complete and in order."
            )
        if self._is_of_one_time and not self._faults:
            return _of_one_time(self._view, header, demands, self._allowed)
        if self._faults:
            return header, self._refuse()
        return (header, None) if demands.append_time else (_put_right(self._view, header, state[NEWEST]), None)

    def _refuse(self) -> Refused:
        """Return the rejection for records that violate the topic's demands.

        The error code is INVALID_TIMESTAMP if a timestamp is out of range, otherwise INVALID_RECORD.
        """
        found: list[tuple[int, str]] = []
        error_code = INVALID_RECORD
        for index, time, has_key in self._faults:
            if self._demands.keyed and not has_key:
                found.append((index, "A record of a compacted topic needs a key."))
            else:
                error_code = INVALID_TIMESTAMP
                found.append((index, _out_of_range(time, self._times)))
        return _refused_for(error_code, iter(found))


def refuse_unopened(failure: CodecFailed) -> Refused:
    """Return the rejection of a batch that cannot be decompressed, or only to more than the limit."""
    if failure.over_limit:
        return Refused(MESSAGE_TOO_LARGE, f"The batch must be smaller: {failure}")
    return Refused(INVALID_RECORD, f"The batch cannot be opened: {failure}")


def _put_right(view: memoryview, header: BatchHeader, newest: int) -> BatchHeader:
    """Correct the batch that fills `view`: set max_timestamp to `newest`, and the timestamp type to CreateTime.

    Return the new header.
    """
    attributes = header.attributes & ~TIMESTAMP_TYPE_BIT
    if newest == header.max_timestamp and attributes == header.attributes:
        return header
    set_max_timestamp(view, 0, header.size, newest, attributes)
    return read_header(view)


def first_at(view: memoryview, header: BatchHeader, timestamp: int) -> Generator[int, None, tuple[int, int] | None]:
    """Return (timestamp, offset) of the first record at or after `timestamp`, or None. The batch must have CreateTime and no gaps.

    No record is kept. As in `check_slowly`, each pause yields the bytes of memory in use. Raises `CodecFailed`, and `BadBatch` for
    broken records.
    """
    state, digits = array("q", bytes(8 * WALK_STATES)), bytearray(10)
    unpacking = Unpacking(header.codec, view[HEADER_BYTES:], MOST_OPENED_BYTES)
    room_bytes = unpacking.measure() if header.codec else 0
    yield room_bytes
    for piece in unpacking.pieces():
        for start in range(0, len(piece) or 1, PAUSE_BYTES):
            state[AT] = 0
            times = ANY_TIME[0], timestamp - 1
            part = piece[start : start + PAUSE_BYTES]
            found = kernel.walk_on(part, state, digits, header.record_count, header.base_timestamp, *times, False)
            if found == kernel.DOUBTFUL:
                return state[TIMESTAMP], header.base_offset + state[INDEX] - 1
            if found == kernel.BROKEN:
                raise BadBatch(0, f"a record of the batch at offset {header.base_offset} is broken.")
            yield room_bytes
    if state[INDEX] != header.record_count or state[STAGE] or state[DIGITS]:
        raise BadBatch(0, f"the batch at offset {header.base_offset} does not contain its {header.record_count} records.")
    return None


def _of_one_time(view: memoryview, header: BatchHeader, demands: Demands, allowed: tuple[int, int]) -> Verdict:
    """Return the verdict on a batch with LogAppendTime: a rejection if the topic has `append_time`, or for its max_timestamp."""
    newest = header.max_timestamp
    if demands.append_time:
        why = "Only the broker may give records the timestamp type LogAppendTime: send CreateTime."
    elif newest == NO_TIMESTAMP or allowed[0] <= newest <= allowed[1]:
        return _put_right(view, header, newest), None
    else:
        why = _out_of_range(newest, allowed)
    faults = ((index, why) for index in range(header.record_count))
    return header, _refused_for(INVALID_TIMESTAMP, faults)


def _refused_for(error_code: int, faults: Iterator[tuple[int, str]]) -> Refused:
    found = tuple(fault for _, fault in zip(range(MOST_RECORD_ERRORS), faults, strict=False))
    return Refused(error_code, f"Record {found[0][0]} of the batch, and maybe others, is invalid: {found[0][1]}", found)


def _out_of_range(time: int, allowed: tuple[int, int]) -> str:
    return f"The timestamp {time} is outside {allowed[0]} to {allowed[1]}, which the topic accepts."
