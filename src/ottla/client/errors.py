"""The exceptions of clients: what failed, Kafka's error code where there is one, and whether trying again can help.

    KafkaError
    ├── BrokerError             a broker answered with an error code
    │   ├── OffsetOutOfRange    … OFFSET_OUT_OF_RANGE: the records asked for are gone or not written yet
    │   └── UnknownTopic        … UNKNOWN_TOPIC_OR_PARTITION
    ├── ConnectionFailed        no broker could be reached, or the connection broke (retriable; also a ConnectionError)
    ├── TimedOut                no answer within the time allowed (retriable; also a TimeoutError)
    ├── AuthenticationFailed    TLS or a login failed: broker and client do not trust each other
    ├── NotSupported            the broker is too old, or too new, for a request
    ├── SettingError            a setting is unknown or has a wrong value (also a ValueError)
    ├── CommitFailed            the group has moved on: another member owns the partitions
    ├── DeliveryFailed          flush() or close(): records were not written, and nobody has asked for their results
    ├── TransactionError        a call that fits no transaction, such as a send() outside of one
    │   ├── TransactionAbortable   the transaction must be aborted, or was; the producer goes on with the next
    │   └── TransactionFailed      the producer cannot go on: close it
    │       └── ProducerFenced     … because a newer one has its transactional id, or its transaction took too long
    └── Closed                  the client was closed, or ended by an error

Knows the error table of `ottla.wire.errors`, and no requests. All of them are exported by `ottla`.
"""

from __future__ import annotations

from ottla.errors import UNKNOWN_SERVER_ERROR, KafkaError, SettingError
from ottla.wire import errors as table

__all__ = [
    "UNKNOWN_SERVER_ERROR",
    "AuthenticationFailed",
    "BrokerError",
    "Closed",
    "CommitFailed",
    "ConnectionFailed",
    "DeliveryFailed",
    "KafkaError",
    "NotSupported",
    "OffsetOutOfRange",
    "ProducerFenced",
    "SettingError",
    "TimedOut",
    "TransactionAbortable",
    "TransactionError",
    "TransactionFailed",
    "UnknownTopic",
    "broker_error",
    "pause_ms",
    "raise_for",
]

CONCURRENT_BACKOFF_MS = 20


class BrokerError(KafkaError):
    """A broker answered with an error code; `name` is Kafka's name for it, such as TOPIC_ALREADY_EXISTS."""

    def __init__(self, code: int, context: str = "", message: str | None = None) -> None:
        known = table.ERRORS.get(code)
        self.code = code
        self.name = known.name if known else f"ERROR_{code}"
        self.retriable = known.retriable if known else False
        sentence = message or (known.sentence if known else "The broker answered with an error this client does not know.")
        super().__init__(f"{context}: {self.name}: {sentence}" if context else f"{self.name}: {sentence}")


class OffsetOutOfRange(BrokerError):
    """The records asked for are gone, or not written yet."""


class UnknownTopic(BrokerError):
    """The topic or partition does not exist, or this client may not see it."""


class ConnectionFailed(KafkaError, ConnectionError):
    """No broker could be reached, or the connection broke before the answer came."""

    retriable = True


class TimedOut(KafkaError, TimeoutError):
    """There was no answer within the time allowed."""

    retriable = True


class AuthenticationFailed(KafkaError):
    """The broker refused the login or the client's certificate, or the client refused the broker's; trying again does not help."""

    def __init__(self, sentence: str, code: int = UNKNOWN_SERVER_ERROR) -> None:
        super().__init__(sentence)
        self.code = code


class NotSupported(KafkaError):
    """Broker and client share no version of a request."""


class CommitFailed(KafkaError):
    """Offsets were not committed: the group has moved on and assigned the partitions to other members."""


class DeliveryFailed(KafkaError):
    """Records were not written, and nobody has asked for their results.

    `topics` has their number by topic; the cause is the first error.
    """

    def __init__(self, topics: dict[str, int], counted: str, cause: KafkaError) -> None:
        super().__init__(f"Not written: {counted}. The first error: {cause}")
        self.topics = topics
        self.__cause__ = cause
        self.code = cause.code


class TransactionError(KafkaError):
    """A call that does not fit the state of the producer's transactions. `code` is that of the cause, or -1."""

    def __init__(self, sentence: str, cause: KafkaError | None = None) -> None:
        super().__init__(f"{sentence} The cause: {cause}" if cause is not None else sentence)
        self.__cause__ = cause
        if cause is not None:
            self.code = cause.code


class TransactionAbortable(TransactionError):
    """The transaction cannot be committed, or was aborted: abort it unless that is done, and begin it again (KIP-1050)."""


class TransactionFailed(TransactionError):
    """The producer cannot go on: close it. What it had not committed is aborted when another one with its id begins."""


class ProducerFenced(TransactionFailed):
    """Another producer with the transactional id has begun, or a transaction was open for too long: close this one (KIP-98)."""


class Closed(KafkaError):
    """The client was closed, or ended by an error, which is the cause then."""


_OWN_CLASS: dict[int, type[BrokerError]] = {
    table.OFFSET_OUT_OF_RANGE: OffsetOutOfRange,
    table.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopic,
}


def broker_error(code: int, context: str = "", message: str | None = None) -> BrokerError:
    """The exception for an error code. `context` says what was tried; `message` is the broker's own text."""
    return _OWN_CLASS.get(code, BrokerError)(code, context, message)


def raise_for(code: int, context: str = "", message: str | None = None) -> None:
    """Raise unless `code` is NONE."""
    if code:
        raise broker_error(code, context, message)


def pause_ms(error: KafkaError, retry_backoff_ms: int) -> int:
    """How long to wait before a request that met `error` is sent again: the end of a transaction is never far."""
    return min(CONCURRENT_BACKOFF_MS, retry_backoff_ms) if error.code == table.CONCURRENT_TRANSACTIONS else retry_backoff_ms
