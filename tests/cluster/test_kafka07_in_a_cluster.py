"""Clients of Kafka 0.7 at brokers of a cluster: what one makes is on it alone, and none serves what others have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from ottla.broker.settings import BrokerSettings
from ottla.kafka07.records.messages import message_set
from ottla.net.server.listeners import Listen
from ottla.net.startup.start import Running, start
from tests.support.client07 import Client07

HELLO = message_set([b"hello"])
NOT_SERVED = (-1, b"")


async def started(home: Path, node_id: int) -> Running:
    """A broker with a listener of today and one of 0.7; topics of the others have two replicas by default."""
    given = {
        "ottla.registry.directory": str(home / "registry"),
        "node.id": str(node_id),
        "num.partitions": "2",
        "default.replication.factor": "2",
        "controlled.shutdown.retry.backoff.ms": "200",
    }
    listen = [Listen.parse("127.0.0.1:0"), Listen.parse("127.0.0.1:0,release=0.7")]
    return await start(str(home / str(node_id)), listen, BrokerSettings.parse(given))


def test_a_topic_that_a_client_of_0_7_makes_is_on_the_broker_that_it_asked(tmp_path: Path) -> None:
    def use(first: str, second: str) -> None:
        with Client07(first) as client:
            for partition in range(2):
                client.produce("t", HELLO, partition)
                assert client.read("t", partition=partition) == HELLO
        with Client07(second) as client:
            assert client.fetch("t") == NOT_SERVED
            client.produce("t", HELLO)
            assert client.is_hung_up_on()
        with Client07(second) as client:
            client.produce("other", HELLO, -1)
            assert len(client.read("other") + client.read("other", partition=1)) == len(HELLO)

    asyncio.run(with_two(tmp_path, use))


async def with_two(home: Path, use: Callable[[str, str], None]) -> None:
    """Have two brokers used, by the addresses at which clients of 0.7 reach them."""
    running = [await started(home, 1), await started(home, 2)]
    try:
        await asyncio.to_thread(use, *(str(each.addresses[1]) for each in running))
    finally:
        for each in reversed(running):
            await each.stop()
