"""Errors of clients cross the border of a process, as in a pool of workers, with all that they have."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

import ottla
from ottla.client import errors
from ottla.wire.errors import TOPIC_ALREADY_EXISTS, UNKNOWN_TOPIC_OR_PARTITION


class Picky(Exception):
    """The exception of a deserializer that cannot be unpickled, because its `args` are not what its `__init__` takes."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}")


RECORD = ottla.ConsumerRecord(7, 0, 0, b"k", b"v", (), ("t", 1))
REFUSED = errors.broker_error(TOPIC_ALREADY_EXISTS, "Creating topic t")
REFUSED.results = {"t": REFUSED}
EXAMPLES = [
    ottla.KafkaError("text"),
    REFUSED,
    errors.broker_error(UNKNOWN_TOPIC_OR_PARTITION, "t"),
    errors.ConnectionFailed("text"),
    errors.TimedOut("text"),
    errors.FlushTimedOut("text", {"t": 3}),
    errors.AuthenticationFailed("text", 58),
    errors.SerializationFailed("t", "key", 3, ValueError("no")),
    errors.DeserializationFailed(RECORD, "value", Picky("here", "no")),
    errors.DeliveryFailed({"t": 1}, "1 record of topic t", REFUSED),
    errors.TransactionAbortable("text", REFUSED),
    errors.ProducerFenced("text"),
    errors.Closed(),
    ottla.SettingError("text"),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("again", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy], ids=["pickle", "copy"])
def test_an_error_is_the_same_after_pickling(
    error: ottla.KafkaError, again: Callable[[ottla.KafkaError], ottla.KafkaError]
) -> None:
    found = again(error)
    assert type(found) is type(error)
    assert (str(found), found.code, found.retriable) == (str(error), error.code, error.retriable)
    for name in [name for name in vars(error) if name != "results" and not name.startswith("_")]:
        assert getattr(found, name) == getattr(error, name)
    assert (found.results is None) == (error.results is None)
