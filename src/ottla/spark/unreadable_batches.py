"""The text of the error for a batch that cannot be decoded. Pure."""

from __future__ import annotations

from ottla.records.batches.header import BadBatch, BatchHeader
from ottla.records.compression.codecs import CodecFailed
from ottla.spark.errors import UnreadableBatch


def unreadable(topic: str, partition: int, header: BatchHeader, error: BadBatch | CodecFailed, limit_bytes: int) -> UnreadableBatch:
    """Return a sentence that names the batch, what is wrong with it, and what to do."""
    which = f"The batch of topic {topic}, partition {partition}, offsets {header.base_offset} to {header.last_offset}"
    past = f'start behind it with startingOffsets = {{"{topic}": {{"{partition}": {header.next_offset}}}}}'
    if isinstance(error, CodecFailed) and error.over_limit:
        return UnreadableBatch(f"{which}, opens to more than maxOpenedBytes = {limit_bytes}: raise that option, or {past}.")
    return UnreadableBatch(f"{which}, is damaged ({str(error).rstrip('.')}): have its broker check it, or {past}.")
