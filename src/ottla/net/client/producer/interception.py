"""The calls of a producer's interceptors around `send`. The `send` of a producer without interceptors does not check for them."""

from __future__ import annotations

from functools import partial

from ottla.client.errors import KafkaError
from ottla.client.interceptors import ProducerInterceptors, ProducerRecord
from ottla.net.client.producer.delivery import Delivery


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

    def refuse(self, record: ProducerRecord, error: KafkaError) -> None:
        """Pass on the error of a record that was not queued."""
        self._interceptors.on_acknowledgement(record, None, error)

    def close(self) -> None:
        self._interceptors.close()
