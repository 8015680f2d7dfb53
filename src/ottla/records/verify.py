"""The records of a produced batch, looked at one by one on arrival: framing, count, offset deltas, timestamps and keys.

`batch.check` has passed the header and the CRC-32C before. Knows what a topic may demand of its records; may not know topics.
Refuses what Apache Kafka 4.3 refuses, and a little more, so that no log holds records that a reader cannot open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.records import codecs, kernel
from ottla.records.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    read_header,
    set_max_timestamp,
)
from ottla.records.codecs import CodecFailed
from ottla.wire.errors import INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE

ANY_TIME: Final = (-(1 << 63), (1 << 63) - 1)
MOST_MS: Final = 1 << 62
MOST_OPENED_BYTES: Final = 128 * 1024 * 1024
"""What a compressed batch may open to. Apache Kafka has no such limit."""

MOST_RECORD_ERRORS: Final = 1000
_LOOK_AGAIN: Final = CODEC_MASK | TIMESTAMP_TYPE_BIT


class Demands(NamedTuple):
    """What a topic asks of its records: a key, and a time from `before_ms` ago to `after_ms` ahead, -1 (none) excepted.

    `append_time`: the broker gives them its own time, and theirs may be any.
    """

    keyed: bool = False
    before_ms: int = MOST_MS
    after_ms: int = MOST_MS
    append_time: bool = False


class Refused(NamedTuple):
    """Why a batch is not taken: the code, a sentence, and (index, sentence) of records at fault, the first thousand (KIP-467)."""

    error_code: int
    sentence: str
    records: tuple[tuple[int, str], ...] = ()


Verdict = tuple[BatchHeader, Refused | None]


def check_records(
    view: memoryview, header: BatchHeader, demands: Demands, now_ms: int, *, limit_bytes: int = MOST_OPENED_BYTES
) -> Verdict:
    """(header, None) for a batch that may be appended, or (header, why not). The batch fills `view`.

    A greatest timestamp that is not that of the records, or a timestamp type that is the broker's, is put right in place, as
    Kafka does: the header returned is that of the batch now.

    - INVALID_RECORD: more or fewer records than the header says, a broken one, offset deltas other than 0, 1, 2 …, bytes that
      the codec cannot open, or a null key on a compacted topic.
    - INVALID_TIMESTAMP: a time that the topic does not allow.
    - MESSAGE_TOO_LARGE: it opens to more than `limit_bytes`; producers that know how to split a batch do, and send it again.
    """
    if not header[5] & _LOOK_AGAIN:
        earliest, latest = now_ms - demands.before_ms, now_ms + demands.after_ms
        if kernel.walk(view, HEADER_BYTES, header[12], header[7], earliest, latest, demands.keyed) == header[8]:
            return header, None
    return _look_again(view, header, demands, now_ms, limit_bytes)


def _look_again(view: memoryview, header: BatchHeader, demands: Demands, now_ms: int, limit_bytes: int) -> Verdict:
    """The same for any batch, with words for what is wrong."""
    data, pos = view, HEADER_BYTES
    if header.codec:
        try:
            data, pos = memoryview(codecs.decompress(header.codec, view[HEADER_BYTES:], limit_bytes=limit_bytes)), 0
        except CodecFailed as failure:
            return header, _unopened(failure)
    allowed = ANY_TIME if demands.append_time else (now_ms - demands.before_ms, now_ms + demands.after_ms)
    one_time = bool(header.attributes & TIMESTAMP_TYPE_BIT)
    earliest, latest = ANY_TIME if one_time else allowed
    newest = kernel.walk(data, pos, header.record_count, header.base_timestamp, earliest, latest, demands.keyed)
    if newest == kernel.BROKEN:
        return header, Refused(INVALID_RECORD, f"The batch does not hold its {header.record_count} records in order and whole.")
    if one_time and not (newest == kernel.DOUBTFUL and demands.keyed):
        return _of_one_time(view, header, demands, allowed)
    if newest == kernel.DOUBTFUL:
        return header, _doubted(data, pos, header, (earliest, latest), demands.keyed)
    return (header, None) if demands.append_time else (_put_right(view, header, newest), None)


def _unopened(failure: CodecFailed) -> Refused:
    if failure.over_limit:
        return Refused(MESSAGE_TOO_LARGE, f"The batch must be smaller: {failure}")
    return Refused(INVALID_RECORD, f"The batch cannot be opened: {failure}")


def _put_right(view: memoryview, header: BatchHeader, newest: int) -> BatchHeader:
    """The header with the records' greatest timestamp and the producer's type of time, written into the batch where it differs."""
    attributes = header.attributes & ~TIMESTAMP_TYPE_BIT
    if newest == header.max_timestamp and attributes == header.attributes:
        return header
    set_max_timestamp(view, 0, header.size, newest, attributes)
    return read_header(view)


def _of_one_time(view: memoryview, header: BatchHeader, demands: Demands, allowed: tuple[int, int]) -> Verdict:
    """The producer claims that the times are the broker's: all records then have the greatest one, if that is allowed at all."""
    newest = header.max_timestamp
    if demands.append_time:
        why = "Only the broker may say that a timestamp is its own (LogAppendTime)."
    elif newest == NO_TIMESTAMP or allowed[0] <= newest <= allowed[1]:
        return _put_right(view, header, newest), None
    else:
        why = _out_of_range(newest, allowed)
    faults = ((index, why) for index in range(header.record_count))
    return header, _refused_for(INVALID_TIMESTAMP, faults)


def _doubted(data: memoryview, pos: int, header: BatchHeader, allowed: tuple[int, int], keyed: bool) -> Refused:
    """Which records `walk` doubted, and why: a missing key counts before a time, and a time decides the code."""
    found: list[tuple[int, str]] = []
    error_code, index, count = INVALID_RECORD, 0, header.record_count
    while index < count and len(found) < MOST_RECORD_ERRORS:
        index, pos, time, has_key = kernel.next_doubtful(data, pos, index, count, header.base_timestamp, *allowed, keyed)
        if index < count and keyed and not has_key:
            found.append((index, "A record of a compacted topic needs a key."))
        elif index < count:
            error_code = INVALID_TIMESTAMP
            found.append((index, _out_of_range(time, allowed)))
        index += 1
    return _refused_for(error_code, iter(found))


def _refused_for(error_code: int, faults: Iterator[tuple[int, str]]) -> Refused:
    found = tuple(fault for _, fault in zip(range(MOST_RECORD_ERRORS), faults, strict=False))
    return Refused(error_code, f"Record {found[0][0]} of the batch, and maybe others, cannot be taken: {found[0][1]}", found)


def _out_of_range(time: int, allowed: tuple[int, int]) -> str:
    return f"The timestamp {time} is outside {allowed[0]} to {allowed[1]}, which the topic accepts now."
