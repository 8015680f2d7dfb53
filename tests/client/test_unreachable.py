"""Brokers that cannot be reached: they are tried again after pauses, and they keep no other broker waiting."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket

import pytest

import ottla
from ottla.client.consumer.list_offsets import list_offsets_request, read_list_offsets
from ottla.client.settings.clients import ConsumerSettings, parse
from ottla.client.types import EARLIEST_TIMESTAMP, Node, OffsetAndTimestamp, TopicPartition
from ottla.net.client.cluster import ClusterLinks
from ottla.net.client.leaders import request_leaders


def test_bootstrap_servers_that_end_connections_are_tried_again_after_longer_and_longer_pauses() -> None:
    connections = 0

    def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.close()

    async def run() -> None:
        async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
            address = "{}:{}".format(*server.sockets[0].getsockname())
            consumer = await ottla.AsyncConsumer(
                bootstrap_servers=address, default_api_timeout_ms=2_000, retry_backoff_ms=1, reconnect_backoff_ms=50
            ).start()
            with pytest.raises(ottla.KafkaError):
                await consumer.partitions_for("t")
            await consumer.close()

    asyncio.run(run())
    assert 2 <= connections <= 9  # 0, 50, 150, 350, 750, 1550 ms, a fifth earlier or later each


def test_the_pauses_between_the_tries_of_a_call_grow() -> None:
    tries = 0

    async def fail() -> None:
        nonlocal tries
        tries += 1
        raise ottla.ConnectionFailed("gone")

    async def run() -> None:
        settings = {"bootstrap_servers": "127.0.0.1:1", "retry_backoff_ms": 1}
        cluster = ClusterLinks(parse(ConsumerSettings, settings))
        with pytest.raises(ottla.ConnectionFailed):
            await cluster.retry(fail, timeout_ms=300)
        await cluster.close()

    asyncio.run(run())
    assert 2 <= tries <= 20  # after 1, 2, 4 … ms, not each ms


def test_a_connection_that_fails_after_its_caller_has_gone_is_no_error_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []
    monkeypatch.setattr(logging.getLogger("ottla.client"), "disabled", True)  # kept records would keep the error's task

    async def give_up(server: socket.socket) -> None:
        cluster = ClusterLinks(parse(ConsumerSettings, {"bootstrap_servers": "{}:{}".format(*server.getsockname())}))
        waiting = asyncio.create_task(cluster.any_link())
        accepted, _ = await asyncio.to_thread(server.accept)
        waiting.cancel()
        await asyncio.wait([waiting])
        accepted.close()
        await asyncio.wait([task for task in asyncio.all_tasks() if "_open_first" in repr(task)])

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["message"]))
        with socket.create_server(("127.0.0.1", 0)) as server:
            await asyncio.create_task(give_up(server))
        gc.collect()

    asyncio.run(run())
    assert reported == []


def test_a_leader_that_does_not_answer_keeps_no_answer_of_another_waiting() -> None:
    async def run(silent_port: int) -> list[TopicPartition]:
        with ottla.Broker() as broker:
            async with ottla.AsyncAdmin(broker.address) as admin:
                await admin.create_topic("t", 3, 1)
            settings = parse(ConsumerSettings, {"bootstrap_servers": broker.address, "request_timeout_ms": 30_000})
            cluster = ClusterLinks(settings)
            await cluster.refresh(["t"])
            partitions = cluster.metadata.topics["t"].partitions
            cluster.metadata.nodes[2] = Node(2, "127.0.0.1", silent_port)
            partitions[0] = partitions[0]._replace(leader=2)
            found: list[TopicPartition] = []

            def received(where: TopicPartition, _: OffsetAndTimestamp) -> None:
                found.append(where)

            wanted = dict.fromkeys((TopicPartition("t", index) for index in range(3)), EARLIEST_TIMESTAMP)
            with pytest.raises(ottla.KafkaError):
                await request_leaders(
                    cluster,
                    wanted,
                    lambda part: list_offsets_request(part, read_committed=False, timeout_ms=300),
                    read_list_offsets,
                    "Offsets of",
                    received=received,
                    timeout_ms=1_000,
                )
            await cluster.close()
            return found

    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert asyncio.run(run(silent.getsockname()[1])) == [TopicPartition("t", 1), TopicPartition("t", 2)]
