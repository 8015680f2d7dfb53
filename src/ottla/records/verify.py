"""The second look at a produced batch, for who wants it: its records opened and counted.

`batch.check` looks at the header and the CRC-32C only, which no honest client gets wrong without the records being wrong too. This
finds a header that lies about its records: the same on a compiled and an uncompiled kernel, at a very different price.
"""

from __future__ import annotations

from ottla.records import codecs, kernel
from ottla.records.batch import BadBatch
from ottla.records.codecs import CodecFailed
from ottla.records.columns import open_batches
from ottla.wire.errors import CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, NONE


def check_records(
    view: memoryview,
    *,
    compacted: bool = False,
    earliest_ms: int | None = None,
    latest_ms: int | None = None,
    limit_bytes: int = codecs.DEFAULT_LIMIT_BYTES,
) -> int:
    """Kafka's verdict on the records of one batch that `batch.check` has passed, before its offsets are stamped.

    - CORRUPT_MESSAGE: the codec cannot open them within `limit_bytes`.
    - INVALID_RECORD: more or fewer records than the header says, a broken one, offset deltas other than 0, 1, 2 …, or a null key
      on a compacted topic.
    - INVALID_TIMESTAMP: a time, other than none (-1), before `earliest_ms` or after `latest_ms`.
    """
    try:
        columns = open_batches(view, limit_bytes=limit_bytes)
    except CodecFailed:
        return CORRUPT_MESSAGE
    except BadBatch:
        return INVALID_RECORD
    if list(columns.offsets) != list(range(len(columns))):
        return INVALID_RECORD
    if compacted and min(columns.span_column(kernel.KEY_SIZE)) < 0:
        return INVALID_RECORD
    times = [time for time in columns.timestamps if time != -1] if earliest_ms is not None or latest_ms is not None else []
    if times and (min(times) < (earliest_ms or 0) or (latest_ms is not None and max(times) > latest_ms)):
        return INVALID_TIMESTAMP
    return NONE
