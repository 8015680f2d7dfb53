"""Ready batches written over blocking links, idempotently: what a Spark task uses to write.

Knows sockets through `blocking_cluster`; order, sequences and repetitions are the business of `ottla.client.sender`.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from types import TracebackType
from typing import Protocol, Self

from ottla.client.errors import KafkaError, raise_for
from ottla.client.lane import Identity, Outgoing
from ottla.client.sender import Send, Sender, SendSettings
from ottla.client.types import RecordMetadata, TopicPartition
from ottla.client.versions import INIT_PRODUCER_ID, PRODUCE
from ottla.net.client.blocking_cluster import Addressed, BlockingCluster
from ottla.net.client.blocking_link import BlockingLink
from ottla.ports import Buffer
from ottla.records.batch import read_header
from ottla.wire.api.init_producer_id import InitProducerIdRequest

MOST_WAITING = 16
PAUSE_S = 0.05


class WriteSettings(Addressed, Protocol):
    """The settings of a writer."""

    @property
    def acks(self) -> int: ...
    @property
    def enable_idempotence(self) -> bool: ...
    @property
    def max_request_size(self) -> int: ...
    @property
    def delivery_timeout_ms(self) -> int: ...


def _now_ms() -> int:
    return int(time.monotonic() * 1000)


class RangeProducer:
    """Writes whole v2 batches (base offset 0, no producer id). For one thread; a context manager whose end waits for all answers.

    The first error of any batch is raised by the next `send` or `flush`.
    """

    def __init__(self, settings: WriteSettings) -> None:
        self._cluster = BlockingCluster(settings)
        self._settings = settings
        self._sender = Sender(
            self._cluster.metadata,
            SendSettings(
                acks=settings.acks,
                enable_idempotence=settings.enable_idempotence and settings.acks == -1,
                max_request_size=settings.max_request_size,
                request_timeout_ms=settings.request_timeout_ms,
                delivery_timeout_ms=settings.delivery_timeout_ms,
            ),
        )
        self._under_way: list[tuple[Send, BlockingLink, object]] = []
        self._waiting = 0
        self._error: KafkaError | None = None
        self._written: list[RecordMetadata] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self._cluster.close()

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has; it is created first if it does not exist and the broker creates topics by itself."""
        known = self._cluster.metadata.partition_count(topic)
        return known or self._cluster.retried(lambda: self._look_up(topic))

    def _look_up(self, topic: str) -> int:
        self._cluster.refresh([topic], create=True)
        self._cluster.metadata.check([topic])
        return self._cluster.metadata.partition_count(topic)

    def send(self, topic: str, partition: int, batch: Buffer) -> None:
        """Queue one batch; waits while many are unanswered.

        Raises the `KafkaError` of an earlier batch that could not be written.
        """
        self.partition_count(topic)
        data = batch if isinstance(batch, bytearray) else bytearray(batch)
        deadline_ms = _now_ms() + self._settings.delivery_timeout_ms
        outgoing = Outgoing(TopicPartition(topic, partition), data, read_header(data).record_count, deadline_ms, self._done)
        self._waiting += 1
        self._sender.add(outgoing)
        self._advance()
        while self._waiting >= MOST_WAITING:
            self._step()
        self._raise_error()

    def flush(self) -> list[RecordMetadata]:
        """Wait until every batch is acknowledged; the place of each batch written since the last flush. Raises the first error."""
        while not self._sender.idle:
            self._step()
        self._raise_error()
        written, self._written = self._written, []
        return written

    def _done(self, batch: Outgoing) -> None:
        self._waiting -= 1
        self._error = self._error or batch.error
        if batch.error is None:
            self._written.append(RecordMetadata(*batch.where, batch.base_offset, batch.log_append_time_ms))

    def _raise_error(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _step(self) -> None:
        self._advance()
        if self._under_way:
            self._settle(*self._under_way.pop(0))
        elif not self._sender.idle:
            time.sleep(PAUSE_S)

    def _advance(self) -> None:
        """Send what can leave, and get what is missing for the rest."""
        sender = self._sender
        sender.expire(_now_ms())
        for send in sender.requests(_now_ms()):
            self._dispatch(send)
        if sender.wants_metadata:
            topics = sorted(sender.wants_metadata)
            sender.wants_metadata.clear()
            self._best_effort(topics)
        if sender.wants_identity:
            sender.identified(self._identity())
            self._advance()

    def _best_effort(self, topics: Collection[str]) -> None:
        try:
            self._cluster.refresh(topics)
        except KafkaError as error:
            if not error.retriable:
                raise

    def _identity(self) -> Identity:
        def ask() -> Identity:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=self._settings.request_timeout_ms)
            answer = self._cluster.any_link().ask(INIT_PRODUCER_ID, request)
            raise_for(answer.error_code, "Getting a producer id")
            return Identity(answer.producer_id, answer.producer_epoch)

        return self._cluster.retried(ask)

    def _dispatch(self, send: Send) -> None:
        try:
            link = self._cluster.link(send.node_id)
            token = link.send(PRODUCE, send.request, expect=self._settings.acks != 0)
        except KafkaError as error:
            self._sender.broken(send, error, _now_ms())
            return
        if self._settings.acks == 0:
            self._sender.sent_unanswered(send)
        else:
            self._under_way.append((send, link, token))

    def _settle(self, send: Send, link: BlockingLink, token: object) -> None:
        try:
            answer = link.wait(token)
        except KafkaError as error:
            self._sender.broken(send, error, _now_ms())
        else:
            self._sender.answered(send, answer, _now_ms())
