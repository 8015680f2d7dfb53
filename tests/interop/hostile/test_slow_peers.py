"""Clients that stop reading, stop writing, or only connect: they cost the broker little, and the others nothing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import pytest

from tests.support.frames import FETCH, METADATA, PRODUCE, Batch, Raw, fetch_v4, metadata_v1, produce_v7, request
from tests.support.memory import resident_mb
from tests.support.peers import Peer

GROWTH_MB = 48
Unique = Callable[[str], str]


@pytest.fixture(autouse=True)
def _only_ottla(peer_name: str) -> None:
    if peer_name != "ottla":
        pytest.skip(
            "a JVM's memory is its own affair, and Apache Kafka 4.3 runs out of it when 200 clients only announce large frames"
        )


@pytest.fixture
def topic(own_broker: Peer) -> str:
    """A topic of 32 MB."""
    with Raw(own_broker.address) as raw:
        assert raw.create_topic("big", 1, {"max.message.bytes": "2000000"}) == 0
        for _ in range(32):
            while raw.produce("big", Batch((bytes(1_000_000),)).encode())[0]:
                time.sleep(0.05)
    return "big"


def push(raw: Raw, frame: Callable[[int], bytes], count: int) -> int:
    """Send frames for as long as the broker takes them within a second; how many were taken."""
    raw.socket.settimeout(1.0)
    for number in range(count):
        try:
            raw.send(frame(number))
        except (TimeoutError, BrokenPipeError, ConnectionResetError):
            return number
    return count


def serves_others(broker: Peer) -> bool:
    with Raw(broker.address, timeout_s=5.0) as good:
        return good.is_served()


def fetches(topic: str) -> Callable[[int], bytes]:
    return lambda number: request(FETCH, 4, number, fetch_v4(topic, 0, 0, max_bytes=30_000_000))


def metadata(topic: str) -> Callable[[int], bytes]:
    return lambda number: request(METADATA, 1, number, metadata_v1(*[topic] * 200))


def produces(topic: str) -> Callable[[int], bytes]:
    return lambda number: request(PRODUCE, 7, number, produce_v7(topic, 0, Batch((bytes(900_000),)).encode(), acks=1))


@pytest.mark.rows(1, seconds=5)
@pytest.mark.parametrize("kind", [fetches, metadata, produces], ids=lambda kind: kind.__name__)
def test_a_client_that_never_reads_does_not_grow_memory(
    own_broker: Peer, topic: str, kind: Callable[[str], Callable[[int], bytes]]
) -> None:
    before = resident_mb(own_broker.pid)
    count = {fetches: 3000, metadata: 20_000, produces: 60}[kind]  # type: ignore[index]  # the keys are the parameters themselves
    with Raw(own_broker.address, receive_buffer=4096) as deaf:
        push(deaf, kind(topic), count)
        for _ in range(10):
            assert serves_others(own_broker)
            assert resident_mb(own_broker.pid) < before + GROWTH_MB
            time.sleep(0.1)


def test_many_half_sent_frames_do_not_grow_memory(own_broker: Peer) -> None:
    before = resident_mb(own_broker.pid)
    with contextlib.ExitStack() as connections:
        for _ in range(200):
            raw = connections.enter_context(Raw(own_broker.address))
            raw.send(b"\x06\x00\x00\x00" + bytes(50))  # says 100 MB, sends 50 bytes
        assert serves_others(own_broker)
        assert resident_mb(own_broker.pid) < before + GROWTH_MB


@pytest.fixture
def idle(own_broker: Peer) -> Iterator[list[Raw]]:
    with contextlib.ExitStack() as connections:
        yield [connections.enter_context(Raw(own_broker.address)) for _ in range(500)]


def test_hundreds_of_idle_connections_cost_little(own_broker: Peer, idle: list[Raw]) -> None:
    assert all(raw.is_served() for raw in idle)
    assert serves_others(own_broker)


def test_a_client_that_vanishes_in_a_long_poll_is_forgotten(own_broker: Peer, topic: str) -> None:
    with Raw(own_broker.address) as end:
        latest = end.latest_offset(topic)
    for number in range(300):
        with Raw(own_broker.address) as raw:
            raw.send(request(FETCH, 4, number, fetch_v4(topic, 0, latest, max_wait_ms=60_000)))
    assert serves_others(own_broker)
