"""The readings of a session: how many there are, and what becomes of those that nobody views."""

from __future__ import annotations

import asyncio

import pytest

import ottla
from ottla.console.cluster_session import ClusterSession
from ottla.console.config import ConsoleConfig
from ottla.console.messages import session_readings, topic_reading
from ottla.console.messages.selection import Selection
from ottla.console.messages.session_readings import MOST_RUNS, SessionReadings


@pytest.fixture(scope="module")
def config() -> ConsoleConfig:
    return ConsoleConfig({"bootstrap_servers": "127.0.0.1:1"})


def test_a_session_has_some_readings_and_the_oldest_ends_first(config: ConsoleConfig) -> None:
    async def view() -> None:
        cluster = ClusterSession(config, config.client)
        readings = SessionReadings(cluster, "")
        ids = [(await readings.view(Selection("t", start="tail"), "", 0))[0] for _ in range(MOST_RUNS + 2)]
        assert [readings.has(each) for each in ids] == [False, False, *[True] * MOST_RUNS]
        again, run = await readings.view(Selection("t", start="tail"), ids[-1], 0)
        assert again == ids[-1]
        other, _ = await readings.view(Selection("other", start="tail"), ids[-1], 0)
        assert other != ids[-1], "an id belongs to one selection"
        await readings.close()
        assert not readings.has(again)
        assert run.is_finished
        await cluster.end()

    asyncio.run(view())


def test_a_reading_that_nobody_views_ends_and_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    async def view() -> None:
        with ottla.Broker() as broker:
            async with ottla.AsyncAdmin(broker.address) as admin:
                await admin.create_topic("t", 1)
            config = ConsoleConfig({"bootstrap_servers": broker.address})
            cluster = ClusterSession(config, config.client)
            readings = SessionReadings(cluster, "")
            run_id, run = await readings.view(Selection("t", start="tail"), "", 10)
            assert not run.is_finished
            for _ in range(400):
                if run.is_finished and not readings.has(run_id):
                    break
                await asyncio.sleep(0.05)
            assert run.is_finished
            assert not readings.has(run_id)
            await readings.close()
            await cluster.end()

    monkeypatch.setattr(topic_reading, "IDLE_S", 0.3)
    monkeypatch.setattr(session_readings, "IDLE_S", -0.5)
    asyncio.run(view())
