"""A leader that is played: batches in leader epochs, compacted and deleted as it likes, and its answers to a follower.

Knows offsets, epochs and the messages between brokers; has no disk. Another leader goes on from a part of what the last one had.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from ottla.log.epochs import LeaderEpochs
from ottla.log.segments.transaction_index import ABORT, COMMIT
from ottla.ports import BrokerLink, Buffer
from ottla.records.batches.builder import build
from ottla.records.batches.columns import Record, open_batches
from ottla.records.batches.header import read_header
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.api.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from ottla.wire.errors import NONE, NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE
from ottla.wire.framing import decode_request, encode_response

EARLIEST = -2
KEYS = 8
PRODUCERS = (1, 2, 3)
MOST_BATCHES = 6
"""How many batches go with one answer."""


class Written(NamedTuple):
    """A batch of one record, at an offset."""

    offset: int
    leader_epoch: int
    data: bytes

    @property
    def record(self) -> Record | None:
        """Its record; None if it is a marker."""
        return next(iter(open_batches(self.data).records()), None)


class PlayedLeader:
    """The log of whoever leads.

    `known` has each record that is, or was until it was compacted away, in this leader's log. `lost` has for each key the last
    offset of one that was below the high watermark, and that a later leader never had: older ones may have given way to it.
    """

    def __init__(self, random: Random, wall_ms: int) -> None:
        self.batches: list[Written] = []
        self._writers: dict[int, int] = {}
        self._aborted: dict[int, set[int]] = {}
        """By the offsets of markers."""
        self._voided: set[int] = set()
        self._history: list[dict[int, int]] = []
        """What was open behind each offset."""
        self.epochs = LeaderEpochs()
        self.known: dict[int, Record] = {}
        self.lost: dict[bytes | None, int] = {}
        self.leader_epoch = 1
        self.start = self.end = self.high_watermark = 0
        self.wall_ms = wall_ms
        self._random = random
        self.epochs.assign(1, 0)

    @property
    def begun(self) -> dict[int, int]:
        """Where each transaction began that is open, even if what it began with was deleted."""
        return dict(self._history[-1]) if self._history else {}

    @property
    def aborted(self) -> set[int]:
        """The offsets of records whose transaction was aborted, even if its end was lost since."""
        return self._voided.union(*self._aborted.values())

    def write(self) -> None:
        """Append a batch of any kind."""
        producer_id = self._random.choice((-1, -1, -1, PRODUCERS[0], *(self.begun or PRODUCERS)))
        is_transactional = producer_id >= 0 and producer_id != PRODUCERS[0]
        if producer_id in self.begun and self._random.random() < 0.7:
            self._end(producer_id)
            return
        key = b"key %d" % self._random.randrange(KEYS)
        value = None if self._random.random() < 0.1 else b"%d in epoch %d" % (self.end, self.leader_epoch)
        batch = build(
            [key],
            [value],
            self.wall_ms + self._random.randrange(1000),
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=self._sequence(producer_id) if producer_id >= 0 else -1,
            transactional=is_transactional,
        )
        self._append(batch)

    def _end(self, producer_id: int) -> None:
        kind = self._random.choice((ABORT, COMMIT))
        if kind == ABORT:
            begun = self.begun[producer_id]
            self._aborted[self.end] = {at for at, writer in self._writers.items() if writer == producer_id and at >= begun}
        key, value = b"\0\0" + kind.to_bytes(2, "big"), b"\0\0" + bytes(4)
        wall_ms = self.wall_ms + self.end
        self._append(build([key], [value], wall_ms, producer_id=producer_id, producer_epoch=0, transactional=True, control=True))

    def _sequence(self, producer_id: int) -> int:
        headers = (read_header(batch.data) for batch in reversed(self.batches))
        last = next((header for header in headers if header.producer_id == producer_id and not header.is_control), None)
        return 0 if last is None else last.last_sequence + 1

    def _append(self, batch: bytearray) -> None:
        batch[0:8] = self.end.to_bytes(8, "big")
        batch[12:16] = self.leader_epoch.to_bytes(4, "big")
        written = Written(self.end, self.leader_epoch, bytes(batch))
        self.batches.append(written)
        record = written.record
        if record is not None:
            self.known[self.end] = record
        header, begun = read_header(batch), self.begun
        if header.is_control:
            begun.pop(header.producer_id, None)
        elif header.is_transactional:
            begun.setdefault(header.producer_id, self.end)
            self._writers[self.end] = header.producer_id
        self._history.append(begun)
        self.end += 1

    def commit(self) -> None:
        """Let readers see more."""
        self.high_watermark = self._random.choice((self.end, self._random.randrange(self.high_watermark, self.end + 1)))

    def give_way(self, end: int) -> None:
        """Have another broker lead, which has nothing from `end` on. Like each of our logs, its log ends with a batch."""
        end = max((batch.offset + 1 for batch in self.batches if batch.offset < end), default=end)
        for offset, record in self.known.items():
            if end <= offset < self.high_watermark:
                self.lost[record.key] = max(offset, self.lost.get(record.key, offset))
        self.end = end
        del self._history[end:]
        self._writers = {offset: writer for offset, writer in self._writers.items() if offset < end}
        self._voided.update(*(offsets for marker, offsets in self._aborted.items() if marker >= end))
        self._aborted = {marker: offsets for marker, offsets in self._aborted.items() if marker < end}
        self.batches = [batch for batch in self.batches if batch.offset < end]
        self.known = {offset: record for offset, record in self.known.items() if offset < end}
        self.high_watermark = min(self.high_watermark, end)
        self.leader_epoch += self._random.choice((1, 1, 2))
        self.epochs.truncate_end(end)
        self.epochs.assign(self.leader_epoch, end)

    def compact(self) -> None:
        """Remove plain records below the high watermark that newer ones of their keys replace."""
        newest = {record.key: offset for offset, record in self.known.items() if offset < self.high_watermark}
        stable = min([self.high_watermark, *self.begun.values()])
        self.batches = [
            batch
            for batch in self.batches
            if batch.offset >= stable
            or read_header(batch.data).producer_id >= 0
            or (record := batch.record) is None
            or newest[record.key] == batch.offset
        ]

    def delete_before(self, offset: int) -> None:
        """Begin at a later offset, below the high watermark."""
        self.start = max(self.start, min(offset, self.high_watermark))
        self.batches = [batch for batch in self.batches if batch.offset >= self.start]
        self.epochs.truncate_start(self.start)

    # What it answers

    def fetched(self, partition: FetchRequest.FetchPartition) -> FetchResponse.PartitionData:
        """Answer a fetch of the one partition."""
        told = FetchResponse.PartitionData(
            partition_index=0, high_watermark=self.high_watermark, log_start_offset=self.start, records=memoryview(b"")
        )
        if partition.current_leader_epoch != self.leader_epoch:
            told.error_code = NOT_LEADER_OR_FOLLOWER
            return told
        if partition.last_fetched_epoch >= 0:
            epoch, end = self.epochs.end_offset(partition.last_fetched_epoch, self.end)
            if epoch >= 0 and end >= 0 and (epoch < partition.last_fetched_epoch or end < partition.fetch_offset):
                told.diverging_epoch = FetchResponse.EpochEndOffset(epoch=epoch, end_offset=end)
                return told
        if not self.start <= partition.fetch_offset <= self.end:
            told.error_code = OFFSET_OUT_OF_RANGE
            return told
        following = [batch.data for batch in self.batches if batch.offset >= partition.fetch_offset]
        told.records = memoryview(b"".join(following[: self._random.randrange(1, MOST_BATCHES + 1)]))
        return told

    def offset(self, timestamp: int) -> int:
        """Answer ListOffsets: the first or the next offset."""
        return self.start if timestamp == EARLIEST else self.end


class PlayedLink:
    """The link of a follower to its leader, which answers when the life lets it."""

    def __init__(self, leader: PlayedLeader) -> None:
        self.leader = leader
        self._asked: list[tuple[Any, Any, Any]] = []

    def open(self, host: str, port: int, receive_buffer_bytes: int) -> BrokerLink:
        """Be the link to any broker."""
        return self

    def send(self, frame: Sequence[Buffer], timeout_ms: int, answered: Any) -> None:
        self._asked.append((*decode_request(b"".join(frame)[4:]), answered))

    def close(self) -> None:
        """Break: nobody waits for answers any more."""
        self._asked.clear()

    def answer(self) -> bool:
        """Answer what was asked; False if nothing was."""
        asked, self._asked = self._asked, []
        for header, body, answered in asked:
            parts = encode_response(header.correlation_id, header.api_key, header.api_version, self._answer(body))
            answered(memoryview(b"".join(parts))[4:])
        return bool(asked)

    def _answer(self, body: Any) -> Any:
        if isinstance(body, FetchRequest):
            topics = [
                FetchResponse.FetchableTopicResponse(
                    topic=topic.topic, topic_id=topic.topic_id, partitions=[self.leader.fetched(part) for part in topic.partitions]
                )
                for topic in body.topics
            ]
            return FetchResponse(responses=topics)
        assert isinstance(body, ListOffsetsRequest), f"nobody expects {body!r}"
        of = ListOffsetsResponse
        found = [
            of.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    of.ListOffsetsPartitionResponse(partition_index=0, error_code=NONE, offset=self.leader.offset(part.timestamp))
                    for part in topic.partitions
                ],
            )
            for topic in body.topics
        ]
        return of(topics=found)
