"""Fetch: slices of logs to clients, at once or when there is enough. Opens no batch and copies none, but for versions before 4."""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.down_conversion import down_converted
from ottla.broker.partitions import Partition
from ottla.broker.request import Handlers, Reply, Request, Waiting
from ottla.ports import Now, StorageFailed
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.errors import (
    FENCED_LEADER_EPOCH,
    FETCH_SESSION_ID_NOT_FOUND,
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_LEADER_EPOCH,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_COMPRESSION_TYPE,
)

BATCHES_FROM = 4
STORAGE_ERROR_FROM = 6
ZSTD_FROM = 10
TOPIC_IDS_FROM = 13
READ_COMMITTED = 1
NO_LEADER_EPOCH = -1
UNTOLD = -1

TopicResponse = FetchResponse.FetchableTopicResponse
PartitionData = FetchResponse.PartitionData
AbortedTransaction = FetchResponse.AbortedTransaction
FetchPartition = FetchRequest.FetchPartition


def handle_fetch(broker: Broker, request: Request) -> Reply:
    """Answer with what is there once it is `min_bytes` or an error; until then, and for `max_wait_ms` at most, the reply waits."""
    body: FetchRequest = request.body
    if body.session_id:
        return FetchResponse(error_code=FETCH_SESSION_ID_NOT_FOUND)
    fetch = _Fetch(broker, request)
    response = fetch.read()
    if fetch.enough or body.max_wait_ms <= 0:
        return fetch.answer(response)

    def retry(now: Now, expired: bool) -> Reply | None:
        response = fetch.read()
        return fetch.answer(response) if expired or fetch.enough else None

    return Waiting(fetch.keys(), request.now.mono_ms + body.max_wait_ms, retry)


class _Fetch:
    """One fetch request, read as often as it takes. `enough` says whether the last reading may be answered at once."""

    __slots__ = ("_left", "body", "broker", "enough", "size", "stable_offset_for_all", "version")

    def __init__(self, broker: Broker, request: Request) -> None:
        self.broker = broker
        self.body: FetchRequest = request.body
        self.version = request.version
        self.stable_offset_for_all = request.release.stable_offset_for_all
        self.enough = False
        self.size = 0
        self._left = 0

    def keys(self) -> tuple[tuple[str, str, int], ...]:
        """What to wait on: every partition asked for."""
        return tuple(
            ("partition", self._name(topic) or "", part.partition) for topic in self.body.topics for part in topic.partitions
        )

    def read(self) -> FetchResponse:
        """Read every partition in the request's order, within `max_bytes`; the first with data gives a whole batch (KIP-74)."""
        self._left = min(self.body.max_bytes, self.broker.settings.fetch_max_bytes)
        self.size = 0
        self.enough = self.body.min_bytes <= 0
        topics = [self._topic(topic) for topic in self.body.topics]
        if self.size >= self.body.min_bytes:
            self.enough = True
        return FetchResponse(responses=topics)

    def answer(self, response: FetchResponse) -> Reply:
        """What was read, in a format that the version knows."""
        if self.version >= BATCHES_FROM:
            return response
        return self.broker.slices.reply(down_converted(self.broker, self.body, self.version, response))

    def _name(self, topic: FetchRequest.FetchTopic) -> str | None:
        return topic.topic if self.version < TOPIC_IDS_FROM else self.broker.topics.name_of(topic.topic_id)

    def _topic(self, topic: FetchRequest.FetchTopic) -> TopicResponse:
        name = self._name(topic)
        if name is None:
            parts = [self._failed(part, UNKNOWN_TOPIC_ID) for part in topic.partitions]
        else:
            parts = [self._partition(name, part) for part in topic.partitions]
        return TopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=parts)

    def _partition(self, topic: str, part: FetchPartition) -> PartitionData:
        partition = self.broker.partitions.get(topic, part.partition)
        if partition is None:
            return self._failed(part, UNKNOWN_TOPIC_OR_PARTITION)
        if partition.offline is not None:
            return self._failed(part, KAFKA_STORAGE_ERROR)
        error_code = epoch_error(partition, part.current_leader_epoch)
        if self.version < ZSTD_FROM and partition.config.compression_type == "zstd":
            error_code = UNSUPPORTED_COMPRESSION_TYPE  # KIP-110: whatever codec the batches at hand have
        if part.partition_max_bytes < 0:
            error_code = UNKNOWN_SERVER_ERROR
        if not error_code and not partition.log.log_start_offset <= part.fetch_offset <= partition.log.log_end_offset:
            error_code = OFFSET_OUT_OF_RANGE
        if error_code:
            return self._failed(part, error_code)
        return self._records(partition, part)

    def _records(self, partition: Partition, part: FetchPartition) -> PartitionData:
        committed = self.body.isolation_level == READ_COMMITTED
        until = partition.last_stable_offset if committed else partition.high_watermark
        data = PartitionData(
            partition_index=part.partition,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset if committed or self.stable_offset_for_all else UNTOLD,
            log_start_offset=partition.log.log_start_offset,
            aborted_transactions=[] if committed else None,
            records=b"",
        )
        max_bytes = min(part.partition_max_bytes, self._left)
        if part.fetch_offset < until and (max_bytes > 0 or not self.size or self.version < BATCHES_FROM):
            self._slice(partition, part, data, max_bytes, until)
        return data

    def _slice(self, partition: Partition, part: FetchPartition, data: PartitionData, max_bytes: int, until: int) -> None:
        min_one_batch = not self.size or self.version < BATCHES_FROM  # what is converted is cut afterwards
        try:
            found = partition.log.read(part.fetch_offset, max_bytes, until_offset=until, min_one_batch=min_one_batch)
        except StorageFailed:
            data.error_code = self._known(KAFKA_STORAGE_ERROR)
            self.enough = True
            return
        if found is not None and found.size:
            data.records = found
            if self.body.isolation_level == READ_COMMITTED:
                data.aborted_transactions = [
                    AbortedTransaction(producer_id=entry.producer_id, first_offset=entry.first_offset)
                    for entry in partition.log.aborted_transactions(part.fetch_offset, until)
                ]
            self.size += found.size
            self._left -= found.size

    def _failed(self, part: FetchPartition, error_code: int) -> PartitionData:
        self.enough = True
        return PartitionData(partition_index=part.partition, error_code=self._known(error_code), high_watermark=-1, records=b"")

    def _known(self, error_code: int) -> int:
        """Older clients know no storage error (KIP-112): another leader is what they are to look for."""
        return NOT_LEADER_OR_FOLLOWER if error_code == KAFKA_STORAGE_ERROR and self.version < STORAGE_ERROR_FROM else error_code


def epoch_error(partition: Partition, current_leader_epoch: int) -> int:
    """What a client's idea of the leader epoch says about its metadata (KIP-320); -1 asks for no check."""
    if current_leader_epoch in (NO_LEADER_EPOCH, partition.leader_epoch):
        return NONE
    return FENCED_LEADER_EPOCH if current_leader_epoch < partition.leader_epoch else UNKNOWN_LEADER_EPOCH


HANDLERS: Handlers = {1: (range(19), handle_fetch)}
