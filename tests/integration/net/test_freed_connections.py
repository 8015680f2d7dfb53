"""What a connection held is free when it is over, though no collector looks: a broker's spares what has lived for long."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections import Counter
from collections.abc import Iterator

import pytest

import ottla
from ottla.net.client.link import Link
from ottla.net.server.connection import ServerConnection
from ottla.net.server.garbage_collector import release
from tests.support.waiting import eventually


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def kept() -> Counter[str]:
    """How many of what connections consist of there are."""
    kinds = (ServerConnection, Link, asyncio.Transport)
    return Counter(type(each).__name__ for each in gc.get_objects() if isinstance(each, kinds))


@pytest.mark.usefixtures("uncollected")
def test_a_broker_keeps_nothing_of_connections_that_are_over() -> None:
    with ottla.Broker() as broker:
        host, _, port = broker.address.rpartition(":")
        before = kept()
        connections = [socket.create_connection((host, int(port))) for _ in range(5)]
        assert eventually(lambda: (kept() - before).total() >= 10, what="all are accepted")
        for connection in connections:
            connection.close()
        assert eventually(lambda: kept() == before, what="nothing of them is left")


@pytest.mark.full(seconds=8)
@pytest.mark.usefixtures("uncollected")
def test_a_link_to_a_broker_keeps_nothing_when_it_is_over() -> None:
    async def opened_and_closed(address: str) -> None:
        host, _, port = address.rpartition(":")
        before = kept()
        for _ in range(3):
            link = await Link.open(host, int(port), "test", 20_000)
            assert kept() != before
            link.close()
            del link
        # The broker of this process ends its side on a thread of its own.
        assert await asyncio.to_thread(eventually, lambda: kept() == before, what="nothing of them is left")

    with ottla.Broker() as broker:
        asyncio.run(opened_and_closed(broker.address))


def test_a_transport_that_holds_nothing_of_itself_is_let_go_as_it_is() -> None:
    transport = asyncio.BaseTransport({"peername": "somebody"})
    release(transport)
    assert transport.get_extra_info("peername") == "somebody"
