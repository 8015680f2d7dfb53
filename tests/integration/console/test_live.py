"""Live pages: what has changed is sent, a dead broker is shown, and the number of streams is limited."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import ottla
from ottla.console import live
from ottla.console.cluster_session import ClusterSession
from ottla.console.config import ConsoleConfig
from ottla.console.declarations import PageRefused
from ottla.console.live import LiveStreams, ViewedPage
from ottla.console.renderer import TOKEN
from ottla.console.sessions import BrowserSession
from ottla.testing import BrokerProcess, Cluster
from tests.integration.console.conftest import console_client
from tests.support.waiting import eventually

CONFIG = ConsoleConfig({"bootstrap_servers": "127.0.0.1:1"})


@contextmanager
def events(client: httpx.Client, path: str) -> Iterator[Iterator[Mapping[str, str]]]:
    """Open a stream of a page, and yield its events."""
    with client.stream("GET", "/live", params={"path": path}) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield (json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: "))


def read_until(found: Iterator[Mapping[str, str]], region: str, holds: Callable[[str], bool]) -> str:
    """Return the HTML of a region once it is as expected."""
    for event in found:
        if region in event and holds(event[region]):
            return event[region]
    raise AssertionError(f"the stream ended without {region}")


def test_a_page_follows_what_happens(broker: ottla.Broker, url: str) -> None:
    with httpx.Client(base_url=url, timeout=30) as client, events(client, "/topics?q=seen-live") as found:
        first = next(found)
        assert "topics" in first
        assert "No topic" in first["topics"]
        with ottla.Admin(broker.address) as admin:
            admin.create_topic("seen-live")
            assert 'href="/topics/seen-live"' in read_until(found, "topics", lambda html: "seen-live</a>" in html)
            admin.delete_topics("seen-live")


@pytest.mark.full(seconds=8)
def test_a_killed_broker_is_shown_and_the_page_recovers(tmp_path: Path) -> None:
    with (
        BrokerProcess(tmp_path) as process,
        console_client(ConsoleConfig({"bootstrap_servers": process.address})) as client,
        events(client, "/") as found,
    ):
        read_until(found, "brokers", lambda html: '<span class="good">answers</span>' in html)
        process.kill()
        read_until(found, "brokers", lambda html: '<span class="bad">silent</span>' in html)
        page = client.get("/topics").text
        assert 'role="alert"' in page or 'class="problem"' in page, "a page without any answer has one sentence"
        process.start()
        read_until(found, "brokers", lambda html: '<span class="good">answers</span>' in html)
        assert client.get("/api/topics").status_code == 200


def test_a_stream_has_the_token_of_its_session(broker: ottla.Broker, url: str) -> None:
    with httpx.Client(base_url=url, timeout=30) as client, events(client, "/transactions?hanging=true&minutes=0") as found:
        assert TOKEN not in str(next(found))


@pytest.mark.parametrize(
    ("path", "status"), [("/nope", 404), ("/users", 404), ("//evil.example/", 404), ("/static/console.css", 404)]
)
def test_only_live_pages_have_streams(url: str, path: str, status: int) -> None:
    answer = httpx.get(f"{url}/live", params={"path": path})
    assert answer.status_code == status
    assert answer.json()["error"].endswith(".")


def test_a_browser_has_a_limited_number_of_streams(broker: ottla.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_OF_SESSION", 2)
    config = ConsoleConfig({"bootstrap_servers": broker.address})
    with console_client(config) as client:
        client.get("/")
        with events(client, "/") as one:
            with events(client, "/topics") as two:
                next(one), next(two)
                refused = client.get("/live", params={"path": "/"})
                assert refused.status_code == 503
                assert "its maximum" in refused.json()["error"]
            for _ in range(200):  # the server notices the end of a stream at its next turn
                with client.stream("GET", "/live", params={"path": "/"}) as answer:
                    if answer.status_code == 200:
                        break
            assert answer.status_code == 200


def new_session() -> BrowserSession:
    return BrowserSession(ClusterSession(CONFIG, CONFIG.client))


def test_viewers_of_a_page_share_its_refresh_and_the_last_one_ends_it() -> None:
    made: list[str] = []

    async def refresh(cluster: ClusterSession, path: str) -> dict[str, str]:
        made.append(path)
        return {"count": f"<p>{len(made)}</p>", "still": "<p></p>"}

    async def run() -> None:
        streams, session = LiveStreams(refresh), new_session()
        assert session.cluster is not None
        viewed = ViewedPage(session.cluster, "/topics")
        views = [streams.stream(session, viewed, 0.01) for _ in range(5)]
        firsts = [await anext(each) for each in views]
        assert firsts == [{"count": "<p>1</p>", "still": "<p></p>"}] * 5
        assert await anext(views[0]) == {"count": "<p>2</p>"}
        assert (streams.count, session.streams) == (5, 5)
        for each in views:
            await each.aclose()  # type: ignore[attr-defined]  # an async generator
        assert (streams.count, session.streams) == (0, 0)
        before = len(made)
        await asyncio.sleep(0.05)
        assert len(made) == before

    asyncio.run(run())


def test_a_console_has_a_limited_number_of_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_STREAMS", 3)

    async def refresh(cluster: ClusterSession, path: str) -> dict[str, str]:
        return {"one": path}

    async def run() -> None:
        streams = LiveStreams(refresh)
        sessions = [new_session() for _ in range(3)]
        views: list[Any] = []
        for session in sessions:
            streams.check(session)
            assert session.cluster is not None
            views.append(streams.stream(session, ViewedPage(session.cluster, "/"), 60))
            await anext(views[-1])
        with pytest.raises(PageRefused, match="3 live pages open"):
            streams.check(new_session())
        await views[0].aclose()
        streams.check(new_session())
        await streams.close()

    asyncio.run(run())


def test_a_stream_ends_with_its_session() -> None:
    async def refresh(cluster: ClusterSession, path: str) -> dict[str, str]:
        return {"one": path}

    async def run() -> None:
        streams, session = LiveStreams(refresh), new_session()
        assert session.cluster is not None
        view = streams.stream(session, ViewedPage(session.cluster, "/"), 0.01)
        await anext(view)
        session.has_ended = True
        monkey = live.KEEP_ALIVE_S
        live.KEEP_ALIVE_S = 0.01
        try:
            assert [each async for each in view] in ([], [{}])
        finally:
            live.KEEP_ALIVE_S = monkey

    asyncio.run(run())


@pytest.mark.full(seconds=12)
def test_only_the_broker_that_is_frozen_is_silent() -> None:
    with (
        Cluster(brokers=3) as cluster,
        console_client(ConsoleConfig({"bootstrap_servers": cluster.address})) as client,
    ):

        def answering() -> list[int]:
            return [each["node_id"] for each in client.get("/api/brokers").json()["brokers"] if each["answers"]]

        eventually(lambda: answering() == [1, 2, 3], what="all answer")
        for node_id in (1, 2, 3):  # one of them is asked for the list of brokers
            cluster.pause(node_id)
            seen: list[list[int]] = []

            def is_shown(frozen: int = node_id, seen: list[list[int]] = seen) -> bool:
                seen.append(answering())
                return frozen not in seen[-1]

            eventually(is_shown, what=f"broker {node_id} is silent")
            assert len(seen[-1]) == 2, "the others answer"
            cluster.resume(node_id)
            eventually(lambda: answering() == [1, 2, 3], what="all answer again")
