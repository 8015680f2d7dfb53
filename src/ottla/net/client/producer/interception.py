"""The calls of a producer's interceptors around `send` and `send_rows`. A producer without interceptors does not check for them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import partial

from ottla.client.errors import KafkaError
from ottla.client.interceptors import ProducerInterceptors, ProducerRecord
from ottla.client.producer.intercepted_rows import RowGroup, group_records, records_of
from ottla.net.client.producer.delivery import Delivery, SentRows
from ottla.records.batches.rows import Rows, value_rows

NOT_QUEUED = "The record was not queued, because it or a record before it could not be queued: send it again."


class Interception:
    """The interceptors of a producer, which get records before `send` and their outcomes after it."""

    def __init__(self, interceptors: ProducerInterceptors) -> None:
        self._interceptors = interceptors

    def replace(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record that is sent in place of `record`."""
        return self._interceptors.on_send(record)

    def watch(self, record: ProducerRecord, delivery: Delivery) -> None:
        """Pass on the outcome of a record once it is written or has failed."""
        delivery.add_done_callback(partial(self._on_done, record))

    def _on_done(self, record: ProducerRecord, delivery: Delivery) -> None:
        error = delivery.error()
        self._interceptors.on_acknowledgement(record, delivery.result() if error is None else None, error)

    def refuse(self, record: ProducerRecord, error: BaseException) -> None:
        """Pass on the exception of a `send` that returned no delivery, as a `KafkaError`, so that what began with it can end."""
        if not isinstance(error, KafkaError):
            cause, error = error, KafkaError(f"send() raised {type(error).__name__}: {error}")
            error.__cause__ = cause
        self._interceptors.on_acknowledgement(record, None, error)

    def replace_rows(self, topic: str, rows: Rows, start: int, stop: int, partition: int | None) -> list[RowGroup]:
        """Return the rows that are sent in place of these. Raises the exceptions of `send` for a record that cannot be sent."""
        records = [self.replace(record) for record in records_of(topic, rows, start, stop, partition)]
        try:
            groups = group_records(records, start, time.time_ns() // 1_000_000)
        except BaseException as error:
            self._refuse_all(records, error)
            raise
        return groups or [RowGroup(topic, partition, [], start, value_rows([], 0))]  # which checks the topic and the producer

    def watch_rows(self, group: RowGroup, sent: Sequence[SentRows]) -> list[SentRows]:
        """Pass on the outcomes of a group's records, once they are written or have failed. Return their own numbers of rows."""
        queued: set[int] = set()
        for delivery, numbers in sent:
            queued.update(numbers)
            for index, number in enumerate(numbers, delivery.index):
                self.watch(group.records[number], Delivery(delivery.batch, index))
        self._refuse_all((record for number, record in enumerate(group.records) if number not in queued), KafkaError(NOT_QUEUED))
        return [SentRows(delivery, [group.first + number for number in numbers]) for delivery, numbers in sent]

    def refuse_rows(self, groups: Sequence[RowGroup], error: BaseException | None = None) -> None:
        """Pass on that the records of these groups were not queued."""
        self._refuse_all((record for group in groups for record in group.records), error or KafkaError(NOT_QUEUED))

    def _refuse_all(self, records: Iterable[ProducerRecord], error: BaseException) -> None:
        for record in records:
            self.refuse(record, error)

    def close(self) -> None:
        self._interceptors.close()
