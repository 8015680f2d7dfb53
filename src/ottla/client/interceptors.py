"""Interceptors of producers and consumers: objects of the user that get records and can replace them, in the order given.

An exception of an interceptor is logged, and the next interceptor gets the unchanged records.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from ottla.client.errors import KafkaError, SettingError
from ottla.client.types import ConsumerRecord, OffsetAndMetadata, RecordMetadata, TopicPartition

log = logging.getLogger("ottla.client")


class ProducerRecord(NamedTuple):
    """A record to send, with the arguments of `send`. `_replace` returns a changed copy."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    headers: Sequence[tuple[str, bytes | None]] | None = None
    timestamp_ms: int | None = None


class OnSend(Protocol):
    """An interceptor that gets each record before serializers do, on the thread of `send`, and returns the record to send."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord: ...


class OnAcknowledgement(Protocol):
    """An interceptor that gets the outcome of each record on the client's thread: its metadata or its error.

    `record` is the record that the last `on_send` returned. For a record that `send` refused, the call is on the thread of `send`.
    """

    def on_acknowledgement(self, record: ProducerRecord, metadata: RecordMetadata | None, error: KafkaError | None) -> None: ...


class OnConsume(Protocol):
    """An interceptor that gets records before the user does, and returns the records that the user gets.

    The records are of one partition: all that one `poll` takes from it, or one at a time in an iteration. `batches` and `columns`
    pass records of bytes, of which some can be left out, and none replaced.
    """

    def on_consume(self, records: list[ConsumerRecord[Any, Any]]) -> list[ConsumerRecord[Any, Any]]: ...


class OnCommit(Protocol):
    """An interceptor that gets offsets after they were committed, on the client's thread."""

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None: ...


ProducerInterceptor: TypeAlias = OnSend | OnAcknowledgement
"""An object with `on_send`, `on_acknowledgement` or both, and perhaps `close`, which is called when the producer is closed."""
ConsumerInterceptor: TypeAlias = OnConsume | OnCommit
"""An object with `on_consume`, `on_commit` or both, and perhaps `close`, which is called when the consumer is closed."""

PRODUCER_METHODS = ("on_send", "on_acknowledgement")
CONSUMER_METHODS = ("on_consume", "on_commit")


def check_interceptors(name: str, value: object, methods: Sequence[str]) -> tuple[Any, ...]:
    """Return interceptors that each have one of these methods. Raises `SettingError`."""
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise SettingError(f"{name} must be a list of objects with {' or '.join(methods)}, not {value!r}.")
    found = tuple(value)
    for each in found:
        if isinstance(each, type):
            raise SettingError(f"{name} must be objects, not the class {each.__name__}: create one.")
        if not any(callable(getattr(each, method, None)) for method in methods):
            raise SettingError(f"{name} must be objects with {' or '.join(methods)}, which {type(each).__name__} does not have.")
    return found


class InterceptorChain:
    """The interceptors of one client, called one after the other."""

    def __init__(self, interceptors: Iterable[object]) -> None:
        self._interceptors = tuple(interceptors)
        self._failures: dict[tuple[int, str], int] = {}

    def _with_method(self, method: str) -> list[Any]:
        return [each for each in self._interceptors if callable(getattr(each, method, None))]

    def _log_failure(self, interceptor: object, method: str, error: Exception) -> None:
        """Log a failure of a method: the first with its traceback, and then each whose number is a power of two."""
        key = (id(interceptor), method)
        count = self._failures[key] = self._failures.get(key, 0) + 1
        if count & (count - 1) == 0:
            name = f"{type(interceptor).__name__}.{method}"
            log.error("interceptor %s failed %d times: %s", name, count, error, exc_info=error if count == 1 else None)

    def close(self) -> None:
        """Call `close` of the interceptors that have it."""
        for each in self._with_method("close"):
            try:
                each.close()
            except Exception as error:
                self._log_failure(each, "close", error)


class ProducerInterceptors(InterceptorChain):
    """The interceptors of a producer."""

    def __init__(self, interceptors: Iterable[object]) -> None:
        super().__init__(interceptors)
        self._senders = self._with_method("on_send")
        self._watchers = self._with_method("on_acknowledgement")

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to send in place of `record`."""
        for each in self._senders:
            try:
                made = each.on_send(record)
                if not isinstance(made, ProducerRecord):
                    raise TypeError(f"it returned a {type(made).__name__}, not a ProducerRecord")
                record = made
            except Exception as error:
                self._log_failure(each, "on_send", error)
        return record

    def on_acknowledgement(self, record: ProducerRecord, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        """Pass on the outcome of a record."""
        for each in self._watchers:
            try:
                each.on_acknowledgement(record, metadata, error)
            except Exception as failed:
                self._log_failure(each, "on_acknowledgement", failed)


class ConsumerInterceptors(InterceptorChain):
    """The interceptors of a consumer."""

    def __init__(self, interceptors: Iterable[object]) -> None:
        super().__init__(interceptors)
        self._consumers = self._with_method("on_consume")
        self._committers = self._with_method("on_commit")

    def on_consume(self, records: list[ConsumerRecord[Any, Any]]) -> list[ConsumerRecord[Any, Any]]:
        """Return the records that the user gets in place of `records`."""
        for each in self._consumers:
            try:
                records = list(each.on_consume(records))
            except Exception as error:
                self._log_failure(each, "on_consume", error)
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Pass on committed offsets."""
        for each in self._committers:
            try:
                each.on_commit(dict(offsets))
            except Exception as error:
                self._log_failure(each, "on_commit", error)
