"""The exceptions that broker and client share."""

from __future__ import annotations

UNKNOWN_SERVER_ERROR = -1


class KafkaError(Exception):
    """What clients raise. `code` is Kafka's error code, or -1; `retriable` says whether the same call may succeed later."""

    code: int = UNKNOWN_SERVER_ERROR
    retriable: bool = False


class SettingError(KafkaError, ValueError):
    """A setting of a client, a broker, a topic or a group is unknown, or its value is not one it can have."""
