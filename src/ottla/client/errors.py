"""What a client can meet, as exceptions: whose fault it is, Kafka's code where there is one, and whether trying again can help.

    KafkaError
    ├── BrokerError             a broker answered with an error code
    │   ├── OffsetOutOfRange    … with OFFSET_OUT_OF_RANGE: the records asked for are gone or not there yet
    │   └── UnknownTopic        … with UNKNOWN_TOPIC_OR_PARTITION
    ├── ConnectionFailed        no broker could be reached, or the connection broke (retriable; an OSError too)
    ├── TimedOut                no answer in the time allowed (retriable; a TimeoutError too)
    ├── NotSupported            broker and client share no version of a request
    ├── SettingError            a setting is unknown or has a wrong value (a ValueError too)
    ├── CommitFailed            the group has moved on: another member owns the partitions
    └── Closed                  the client was closed

Knows the error table of `ottla.wire.errors`; nothing of requests.
"""

from __future__ import annotations

from ottla.errors import UNKNOWN_SERVER_ERROR, KafkaError, SettingError
from ottla.wire import errors as table

__all__ = [
    "UNKNOWN_SERVER_ERROR",
    "BrokerError",
    "Closed",
    "CommitFailed",
    "ConnectionFailed",
    "KafkaError",
    "NotSupported",
    "OffsetOutOfRange",
    "SettingError",
    "TimedOut",
    "UnknownTopic",
    "broker_error",
    "raise_for",
]


class BrokerError(KafkaError):
    """A broker answered with an error code. `name` is Kafka's name of it."""

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
    """There is no such topic or partition, or this client may not see it."""


class ConnectionFailed(KafkaError, ConnectionError):
    """No broker could be reached, or the connection broke before the answer came."""

    retriable = True


class TimedOut(KafkaError, TimeoutError):
    """No answer in the time allowed."""

    retriable = True


class NotSupported(KafkaError):
    """Broker and client share no version of a request."""


class CommitFailed(KafkaError):
    """Offsets could not be committed, because the group has given the partitions to others."""


class Closed(KafkaError):
    """The client was closed."""


_OWN_CLASS: dict[int, type[BrokerError]] = {
    table.OFFSET_OUT_OF_RANGE: OffsetOutOfRange,
    table.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopic,
}


def broker_error(code: int, context: str = "", message: str | None = None) -> BrokerError:
    """The exception for an error code; `context` says what was tried, `message` is the broker's own word."""
    return _OWN_CLASS.get(code, BrokerError)(code, context, message)


def raise_for(code: int, context: str = "", message: str | None = None) -> None:
    """Raise unless `code` is NONE."""
    if code:
        raise broker_error(code, context, message)
