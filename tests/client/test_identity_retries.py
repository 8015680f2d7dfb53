"""Batches that wait for a producer id while no broker can be reached."""

from __future__ import annotations

import asyncio

from bench.apache_kafka import free_port
from ottla.client.errors import TimedOut
from ottla.client.producer.partition_queue import Outgoing
from ottla.client.settings.clients import ProducerSettings
from ottla.net.client.cluster import ClusterLinks, now_ms
from ottla.net.client.producer.batch_sender import BatchSender
from ottla.net.client.tasks import Tasks
from tests.unit.client.test_sender import outgoing


def test_a_batch_has_its_whole_time_although_requests_for_a_producer_id_fail_earlier() -> None:
    """The requests can have begun for an earlier batch, whose time ends before."""

    async def run() -> tuple[Outgoing, int]:
        settings = ProducerSettings(bootstrap_servers=f"127.0.0.1:{free_port()}", delivery_timeout_ms=1)
        tasks = Tasks(lambda error: None)
        cluster = ClusterLinks(settings, tasks)
        sender = BatchSender(cluster, settings, tasks, lambda: sender.send_ready(now_ms()))
        done = asyncio.Event()
        batch = outgoing(1, deadline_ms=now_ms() + 400)
        batch.when_done = lambda _: done.set()
        sender.machine.add(batch)
        sender.send_ready(now_ms())
        await done.wait()
        ended_ms = now_ms()
        await tasks.cancel()
        await cluster.close()
        return batch, ended_ms

    batch, ended_ms = asyncio.run(run())
    assert isinstance(batch.error, TimedOut)
    assert "delivery_timeout_ms" in str(batch.error)
    assert ended_ms >= batch.deadline_ms
