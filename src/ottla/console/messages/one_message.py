"""One message of a partition, read whole, or the reason why there is none at its offset."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from ottla.client.errors import KafkaError, TimedOut, broker_error
from ottla.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from ottla.console.messages.fetcher import TopicFetcher
from ottla.console.messages.found_messages import FoundMessage, found_message, read_batches
from ottla.console.messages.topic_reading import QueriedCluster, is_out_of_range
from ottla.wire.errors import LEADER_NOT_AVAILABLE

DEADLINE_S: Final = 10.0
"""The time, in s, for which a page waits for one message, which can be large."""
WHOLE_BYTES: Final = 1 << 30
FETCHES: Final = 3


class NeighbouringMessage(NamedTuple):
    """The offsets before and after a message, as far as the partition has any; a sentence if there is no message."""

    previous: int | None
    following: int | None
    sentence: str


async def read_one(
    cluster: QueriedCluster, topic: str, partition: int, offset: int
) -> tuple[FoundMessage | None, NeighbouringMessage]:
    """Return the message at an offset with its neighbours. Raises `KafkaError`."""
    where = TopicPartition(topic, partition)
    if not 0 <= offset < 1 << 62 or not 0 <= partition < 1 << 31:
        return None, NeighbouringMessage(None, None, "There is no such place: partitions and offsets count from 0.")
    starts = await cluster.query(lambda admin: admin.list_offsets({where: EARLIEST_TIMESTAMP}))
    ends = await cluster.query(lambda admin: admin.list_offsets({where: LATEST_TIMESTAMP}))
    start, end = starts[where].offset, ends[where].offset
    if not start <= offset < end:
        what = f"has the offsets {start} to {end - 1}" if end > start else f"is empty; the next message gets offset {end}"
        sides = NeighbouringMessage(end - 1 if offset >= end > start else None, start if offset < start < end else None, "")
        return None, sides._replace(sentence=f"There is no message at offset {offset}: partition {partition} of {topic} {what}.")
    fetcher = TopicFetcher(cluster.settings, topic)
    try:
        async with asyncio.timeout(DEADLINE_S):
            found, following = await _read(fetcher, partition, offset)
    except TimeoutError as error:
        if isinstance(error, KafkaError):
            raise
        raise TimedOut(f"The message was not read within {DEADLINE_S:g} s: try again.") from None
    finally:
        await fetcher.close()
    previous = offset - 1 if offset > start else None
    if found is not None:
        return found, NeighbouringMessage(previous, offset + 1 if offset + 1 < end else None, "")
    reason = "compaction has removed it, or a transaction's marker was there"
    after = following if following is not None and following < end else None
    return None, NeighbouringMessage(previous, after, f"There is no message at offset {offset}: {reason}.")


async def _read(fetcher: TopicFetcher, partition: int, offset: int) -> tuple[FoundMessage | None, int | None]:
    """Return the message, or None and the offset of the next one."""
    for _ in range(FETCHES):
        # What lies above the last stable offset is not returned with read_committed, and is open.
        for read_committed in (True, False):
            for answer in await fetcher.fetch({partition: offset}, read_committed=read_committed, wait_ms=0):
                if is_out_of_range(answer):
                    return None, answer.log_start_offset
                aborted = answer.aborted if read_committed else None
                for batch in read_batches(answer.records, answer.where, aborted, offset, 1 << 62):
                    if batch.trouble:
                        raise KafkaError(batch.trouble)
                    for record in batch.records:
                        return (
                            (found_message(record, batch, WHOLE_BYTES), None) if record.offset == offset else (None, record.offset)
                        )
    raise broker_error(LEADER_NOT_AVAILABLE, f"Reading partition {partition}")
