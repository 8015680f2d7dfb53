"""An entry of a segment's index of aborted transactions."""

from __future__ import annotations

from ottla.wire.schema import Message, i64, since


class AbortedTxn(Message, valid="0"):
    """The offsets of a producer's aborted transaction."""

    producer_id: i64 = since()
    first_offset: i64 = since()
    last_offset: i64 = since()
    last_stable_offset: i64 = since()
