"""The exceptions that broker and client have in common. Knows nothing else."""

from __future__ import annotations

UNKNOWN_SERVER_ERROR = -1


class KafkaError(Exception):
    """`code`:

    Kafka's error code (-1 where none applies). `retriable`: whether the same call may succeed later. The text is one
    sentence.
    """

    code: int = UNKNOWN_SERVER_ERROR
    retriable: bool = False


class SettingError(KafkaError, ValueError):
    """A setting of a client, a broker, a topic or a group is unknown, or its value is not one it can have."""
