"""The exceptions that the broker and the client share."""

from __future__ import annotations

UNKNOWN_SERVER_ERROR = -1


class KafkaError(Exception):
    """An error that a client raises. `code` is Kafka's error code, or -1.

    `retriable` is whether the same call can succeed later. `results` has the results and the errors of all items of a call of
    `Admin` about several items, and is None for other errors.
    """

    code: int = UNKNOWN_SERVER_ERROR
    retriable: bool = False
    results: object = None

    def __reduce__(self) -> tuple[object, ...]:
        """Return how to pickle the error: a pool of processes raises it again. `__init__` takes other arguments than `args`."""
        return _unpickle, (type(self), self.args), self.__dict__


def _unpickle(kind: type[KafkaError], given: tuple[object, ...]) -> KafkaError:
    made = kind.__new__(kind, *given)
    made.args = given  # `OSError`, a base of some classes, leaves that to its `__init__`
    return made


class SettingError(KafkaError, ValueError):
    """A setting of a client, a broker, a topic or a group is unknown, or its value is not allowed."""
