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

Peer = Callable[[type[Message], int], peers.Rewrite | None]

_QUICK = settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))


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


def versions_known(cls: type[Message], peer: Peer) -> dict[int, peers.Rewrite]:
    """The versions of a message that a peer has a codec for."""
    return {version: rewrite for version in cls.WIRE.valid if (rewrite := peer(cls, version))}


def known_to(package: str, peer: Callable[[type[Message], int], object]) -> list[Any]:
    """The messages that a peer has a codec for, as parameters. None is imported yet: kio has a module for each version of each."""
    if importlib.util.find_spec(package) is None:
        return [pytest.param(Message, marks=pytest.mark.skip(reason=f"{package} is not installed"))]
    return [cls for cls in EVERY if any(peer(cls, version) for version in cls.WIRE.valid)]


def check_identity(cls: type[Message], values: type[Values], peer: Peer) -> None:
    """Every version that both know, each with values of its own."""
    for version, rewrite in versions_known(cls, peer).items():
        assert compared(values(version).of(cls), version, rewrite) >= 1


def compared(messages: st.SearchStrategy[Message], version: int, rewrite: peers.Rewrite) -> int:
    """How many messages were held against what the peer makes of them."""
    count = 0

    @given(messages)
    @_QUICK
    def check(msg: Message) -> None:
        nonlocal count
        ours = encode(msg, version)
        assert rewrite(ours) == ours
        count += 1

    check()
    return count


@pytest.mark.rows(90, seconds=0.05)
@pytest.mark.slow
@pytest.mark.parametrize("cls", known_to("kio", peers.place_in_kio), ids=lambda cls: cls.__name__)
def test_bytes_are_those_of_kio(cls: type[Message]) -> None:
    check_identity(cls, KioValues, peers.kio)


@pytest.mark.rows(50, seconds=0.1)
@pytest.mark.slow
@pytest.mark.parametrize("cls", known_to("kafka", peers.kafka_python), ids=lambda cls: cls.__name__)
def test_bytes_are_those_of_kafka_python(cls: type[Message]) -> None:
    check_identity(cls, KafkaPythonValues, peers.kafka_python)


@pytest.mark.parametrize(
    ("package", "peer", "messages", "versions"), [("kio", peers.kio, 188, 621), ("kafka", peers.kafka_python, 104, 532)]
)
def test_the_peers_know_most_messages(package: str, peer: Peer, messages: int, versions: int) -> None:
    """So many are compared above: of 820 that there ever were, one or the other knows 667.

    Neither has what brokers only say to one another, what is stored in internal topics, and what is newer than they are.
    """
    pytest.importorskip(package)
    known = [len(versions_known(cls, peer)) for cls in EVERY]
    assert sum(1 for count in known if count) >= messages
    assert sum(known) >= versions
