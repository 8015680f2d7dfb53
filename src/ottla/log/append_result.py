"""The outcome of an append: offsets, an error code, or a batch that the producer had already written."""

from __future__ import annotations

from typing import NamedTuple

from ottla.log.producer_state.producers import ProducerBatch
from ottla.wire.errors import NONE

NO_OFFSET = -1
NO_TIMESTAMP = -1


class Appended(NamedTuple):
    """The outcome of an append: offsets are -1 if `error_code` is not 0.

    `duplicate` is True if the log already contained the batch.
    """

    error_code: int
    base_offset: int
    last_offset: int
    log_append_time_ms: int
    duplicate: bool


def refusal(why: int | ProducerBatch) -> Appended:
    """Return the outcome for a batch that is not written.

    `why` is an error code, or the already written batch that this one repeats.
    """
    if isinstance(why, ProducerBatch):
        return Appended(NONE, why.base_offset, why.last_offset, why.timestamp, True)
    return Appended(why, NO_OFFSET, NO_OFFSET, NO_TIMESTAMP, False)
