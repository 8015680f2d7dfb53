"""Byte for byte the same as kio and kafka-python, for every message and version that they know.

What we encode, the peer decodes and encodes again; the bytes must be ours. There is no difference in bytes; where a peer cannot
hold a value, the lists below say so and why.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.wire import encode
from ottla.wire.api.api_versions import ApiVersionsResponse
from ottla.wire.schema import Field, Message
from tests.unit.wire import peers
from tests.unit.wire.values import EVERY, Values

KAFKA_PYTHON_TAKES_LESS = {
    "ApiVersionsResponse.error_code": "any but 0 makes it read the rest as version 0, which is what brokers answer with then",
}
"""Fields in which kafka-python holds fewer values than the wire, and the cause."""
KIO_TAKES_LESS = {
    "error_code": "an enumeration: only codes that it knows",
    "_ms, _time, timestamp of 64 bits": "durations and dates of Python's: from 1970 to 9999",
}
"""Fields, by the end of their name, in which kio holds fewer values than the wire, and the cause."""

_QUICK = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))


class KioValues(Values):
    """Values that kio can hold."""

    def scalar(self, f: Field) -> st.SearchStrategy[Any]:
        if "error_code" in f.name:
            from kio.schema.errors import ErrorCode

            return st.sampled_from([code.value for code in ErrorCode])
        if f.kind == "q" and (f.name.endswith(("_ms", "_time")) or "timestamp" in f.name):
            return st.sampled_from([0, 1_700_000_000_000, 253_402_300_799_000])
        return super().scalar(f)


class KafkaPythonValues(Values):
    """Values that kafka-python can hold."""

    def of(self, cls: type[Message]) -> st.SearchStrategy[Any]:
        def without_error(msg: Message) -> Message:
            if isinstance(msg, ApiVersionsResponse):
                msg.error_code = 0
            return msg

        return super().of(cls).map(without_error)


def known_to(package: str, peer: Callable[[type[Message], int], Any]) -> list[Any]:
    """The messages that a peer has a codec for, as parameters."""
    if importlib.util.find_spec(package) is None:
        return [pytest.param(Message, marks=pytest.mark.skip(reason=f"{package} is not installed"))]
    return [cls for cls in EVERY if any(peer(cls, version) for version in cls.WIRE.valid)]


def check_identity(cls: type[Message], values: type[Values], peer: Any) -> None:
    known = {version: rewrite for version in cls.WIRE.valid if (rewrite := peer(cls, version))}

    @given(st.data())
    @_QUICK
    def check(data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(sorted(known)))
        ours = encode(data.draw(values(version).of(cls)), version)
        assert known[version](ours) == ours

    check()


@pytest.mark.parametrize("cls", known_to("kio", peers.kio), ids=lambda cls: cls.__name__)
def test_bytes_are_those_of_kio(cls: type[Message]) -> None:
    check_identity(cls, KioValues, peers.kio)


@pytest.mark.parametrize("cls", known_to("kafka", peers.kafka_python), ids=lambda cls: cls.__name__)
def test_bytes_are_those_of_kafka_python(cls: type[Message]) -> None:
    check_identity(cls, KafkaPythonValues, peers.kafka_python)


@pytest.mark.parametrize(("package", "peer", "least"), [("kio", peers.kio, 188), ("kafka", peers.kafka_python, 104)])
def test_the_peers_know_most_messages(package: str, peer: Any, least: int) -> None:
    pytest.importorskip(package)
    assert len(known_to(package, peer)) >= least
