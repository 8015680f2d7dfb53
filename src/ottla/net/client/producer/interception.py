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

    def refuse(self, record: ProducerRecord, error: BaseException) -> None:
        """Pass on the exception of a `send` that returned no delivery, as a `KafkaError`, so that what began with it can end."""
        if not isinstance(error, KafkaError):
            cause, error = error, KafkaError(f"send() raised {type(error).__name__}: {error}")
            error.__cause__ = cause
        self._interceptors.on_acknowledgement(record, None, error)

    def close(self) -> None:
        self._interceptors.close()
