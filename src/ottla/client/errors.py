"""The exceptions of clients: what failed, Kafka's error code if there is one, and whether a retry can succeed.

    KafkaError
    ├── BrokerError             a broker answered with an error code
    │   ├── OffsetOutOfRange    … OFFSET_OUT_OF_RANGE: the requested records are deleted or not written yet
    │   └── UnknownTopic        … UNKNOWN_TOPIC_OR_PARTITION
    ├── ConnectionFailed        no broker could be reached, or the connection broke (retriable; also a ConnectionError)
    ├── TimedOut                no answer within the time allowed (retriable; also a TimeoutError)
    │   └── FlushTimedOut       … because flush() or close() ended before all records were written
    ├── Purged                  purge() dropped the record before it was sent
    ├── AuthenticationFailed    TLS or SASL failed: broker and client do not trust each other
    ├── NotSupported            the broker is too old, or too new, for a request
    ├── SettingError            a setting is unknown or has a wrong value (also a ValueError)
    ├── CommitFailed            the group has assigned the partitions to other members
    ├── AcknowledgeFailed       commit() of a share consumer: leaders refused acknowledgements of records
    ├── WokenUp                 wakeup() ended the wait of a consumer
    ├── SerializationFailed     send(): a serializer refused a key or a value
    ├── DeserializationFailed   a deserializer cannot read the key or the value of a fetched record
    ├── DeliveryFailed          flush() or close(): records were not written, and no caller has read their errors
    ├── TransactionError        a call that does not fit the transaction's state, such as a send() outside of one
    │   ├── TransactionAbortable   the transaction must be aborted, or was; the producer can begin the next
    │   └── TransactionFailed      the producer cannot continue: close it
    │       └── ProducerFenced     … because a newer producer has its transactional id, or its transaction timed out
    └── Closed                  the client was closed, or ended by an error

The module depends on the error table of `ottla.wire.errors` and on records, not on requests. `ottla` exports all exceptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ottla.errors import UNKNOWN_SERVER_ERROR, KafkaError, SettingError
from ottla.records.batches.record import ConsumerRecord
from ottla.wire import errors as table

__all__ = [
    "UNKNOWN_SERVER_ERROR",
    "AcknowledgeFailed",
    "AuthenticationFailed",
    "BrokerError",
    "Closed",
    "CommitFailed",
    "ConnectionFailed",
    "DeliveryFailed",
    "DeserializationFailed",
    "FlushTimedOut",
    "KafkaError",
    "NotSupported",
    "OffsetOutOfRange",
    "ProducerFenced",
    "Purged",
    "SerializationFailed",
    "SettingError",
    "TimedOut",
    "TransactionAbortable",
    "TransactionError",
    "TransactionFailed",
    "UnknownTopic",
    "WokenUp",
    "broker_error",
    "pause_ms",
    "raise_for",
]

CONCURRENT_BACKOFF_MS = 20
CAUSE_CHARACTERS = 300
"""The number of characters that are shown of the message of a user's exception."""


class BrokerError(KafkaError):
    """A broker answered with an error code; `name` is Kafka's name for it, such as TOPIC_ALREADY_EXISTS."""

    def __init__(self, code: int, context: str = "", message: str | None = None) -> None:
        known = table.ERRORS.get(code)
        self.code = code
        self.name = known.name if known else f"ERROR_{code}"
        self.retriable = known.retriable if known else False
        sentence = message or (known.sentence if known else "The broker returned an error code that this client does not know.")
        super().__init__(f"{context}: {self.name}: {sentence}" if context else f"{self.name}: {sentence}")


class OffsetOutOfRange(BrokerError):
    """The requested records are deleted, or not written yet."""


class UnknownTopic(BrokerError):
    """The topic or partition does not exist, or this client is not authorized to describe it."""


class ConnectionFailed(KafkaError, ConnectionError):
    """No broker could be reached, or the connection broke before the answer arrived."""

    retriable = True


class TimedOut(KafkaError, TimeoutError):
    """No answer arrived within the time allowed."""

    retriable = True


class FlushTimedOut(TimedOut):
    """Raised if `flush` or `close` ended before all records were written.

    `topics` maps each topic to its number of records left.
    """

    def __init__(self, sentence: str, topics: dict[str, int]) -> None:
        super().__init__(sentence)
        self.topics = topics


class Purged(KafkaError):
    """The outcome of a record that `purge` dropped before it was sent."""


class WokenUp(KafkaError):
    """Another thread called `wakeup` of the consumer that waits for records. The consumer can go on."""


class AuthenticationFailed(KafkaError):
    """The broker refused the login or the client's certificate, or the client refused the broker's. A retry does not help."""

    def __init__(self, sentence: str, code: int = UNKNOWN_SERVER_ERROR) -> None:
        super().__init__(sentence)
        self.code = code


class NotSupported(KafkaError):
    """Client and broker have no version of a request in common."""


class CommitFailed(KafkaError):
    """Raised if offsets were not committed because the group has assigned the partitions to other members."""


class AcknowledgeFailed(KafkaError):
    """Raised if leaders refused acknowledgements of a share consumer, whose records the group may deliver again.

    `errors` maps each partition, as (topic, partition), to its first error.
    """

    def __init__(self, errors: Mapping[tuple[str, int], KafkaError]) -> None:
        first = next(iter(errors.values()))
        count = f" (and those of {len(errors) - 1} more partitions)" if len(errors) > 1 else ""
        super().__init__(f"Acknowledgements were refused{count}, and the group may deliver their records again. {first}")
        self.errors = dict(errors)
        self.__cause__ = first
        self.code = first.code


class SerializationFailed(KafkaError):
    """Raised by `send` if a serializer refused a key or a value. The record was not queued, and no other record is affected.

    `topic` is the record's topic, `field` is "key" or "value".
    """

    def __init__(self, topic: str, field: str, value: object, cause: Exception) -> None:
        super().__init__(
            f"A record for topic {topic} was not sent, because {field}_serializer refused a {field} of type "
            f"{type(value).__name__} ({_clause(cause)}): send what it accepts."
        )
        self.topic, self.field = topic, field


class DeserializationFailed(KafkaError):
    """Raised if a deserializer cannot read the key or the value of a record. The position stays at the record.

    `topic`, `partition` and `offset` are those of the record, and `field` is "key" or "value". `record` has key and value as bytes,
    and `data` the bytes that cannot be read.
    """

    def __init__(
        self,
        record: ConsumerRecord,
        field: str,
        cause: BaseException,
        reader: str | None = None,
        *,
        is_dead_letter: bool = False,
        is_shared: bool = False,
    ) -> None:
        """Create the error of a record. `reader` names what cannot read its `field`, by default a deserializer.

        With `is_dead_letter`, the record is in the dead-letter topic of the consumer, which copies it to no other. With
        `is_shared`, a share group has delivered the record.
        """
        where, self._reader = f"{record.topic}-{record.partition}", reader or f"{field}_deserializer"
        instead = "on_bad_record copies no record of the dead-letter topic itself" if is_dead_letter else "or set on_bad_record"
        advice = f"seek() to offset {record.offset + 1} to read on{';' if is_dead_letter else ','} {instead}"
        if is_shared:
            advice = "the record was released, so that the group delivers it again; on_bad_record='skip' rejects such records"
        super().__init__(
            f"The {field} at offset {record.offset} of {where} cannot be read by {self._reader} ({_clause(cause)}): {advice}."
        )
        self.__cause__ = cause  # no other attribute has it: it is not pickled, because not all exceptions can be unpickled
        self.topic, self.partition, self.offset = record.topic, record.partition, record.offset
        self.record, self.field = record, field
        self.data: bytes | None = record.key if field == "key" else record.value

    def of_dead_letter(self) -> DeserializationFailed:
        """Return this error for a consumer that reads the topic of its own dead letters."""
        cause = cast(BaseException, self.__cause__)
        return DeserializationFailed(self.record, self.field, cause, self._reader, is_dead_letter=True)

    def of_share_group(self) -> DeserializationFailed:
        """Return this error for a share consumer, which has released the record."""
        return DeserializationFailed(self.record, self.field, cast(BaseException, self.__cause__), self._reader, is_shared=True)


def _clause(cause: BaseException) -> str:
    """Return an exception's type and message, for use within a sentence."""
    return f"{type(cause).__name__}: {str(cause)[:CAUSE_CHARACTERS].rstrip('.')}"


class DeliveryFailed(KafkaError):
    """Raised if records were not written and no caller has read their errors.

    `topics` maps each topic to its number of lost records. The cause is the first error.
    """

    def __init__(self, topics: dict[str, int], counted: str, cause: KafkaError) -> None:
        super().__init__(f"Not written: {counted}. The first error: {cause}")
        self.topics = topics
        self.__cause__ = cause
        self.code = cause.code


class TransactionError(KafkaError):
    """Raised for a call that does not fit the state of the producer's transactions. `code` is the error code of its cause, or
    -1.
    """

    def __init__(self, sentence: str, cause: KafkaError | None = None) -> None:
        super().__init__(f"{sentence} The cause: {cause}" if cause is not None else sentence)
        self.__cause__ = cause
        if cause is not None:
            self.code = cause.code


class TransactionAbortable(TransactionError):
    """The transaction cannot be committed, or was aborted. Abort it unless that has happened, and begin it again (KIP-1050)."""


class TransactionFailed(TransactionError):
    """The producer cannot continue: close it. The next producer with the same transactional id aborts the open transaction."""


class ProducerFenced(TransactionFailed):
    """Another producer with the transactional id has begun, or a transaction exceeded its timeout: close this producer (KIP-98)."""


class Closed(KafkaError):
    """The client was closed, or ended by an error. In the second case, the error is this exception's cause."""

    def __init__(self, sentence: str = "The client is closed: create a new one.") -> None:
        super().__init__(sentence)


_OWN_CLASS: dict[int, type[BrokerError]] = {
    table.OFFSET_OUT_OF_RANGE: OffsetOutOfRange,
    table.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopic,
}


def broker_error(code: int, context: str = "", message: str | None = None) -> BrokerError:
    """Return the exception for an error code. `context` names the failed operation; `message` is the text that the broker sent."""
    return _OWN_CLASS.get(code, BrokerError)(code, context, message)


def raise_for(code: int, context: str = "", message: str | None = None) -> None:
    """Raise the exception for `code` unless it is NONE (0)."""
    if code:
        raise broker_error(code, context, message)


def pause_ms(error: KafkaError, retry_backoff_ms: int) -> int:
    """Return the pause, in ms, before a request that failed with `error` is sent again: `retry_backoff_ms` for most errors.

    The pause is short for CONCURRENT_TRANSACTIONS, because the end of a transaction takes little time.
    """
    return min(CONCURRENT_BACKOFF_MS, retry_backoff_ms) if error.code == table.CONCURRENT_TRANSACTIONS else retry_backoff_ms
