"""The sessions of browsers are bounded, and programs without cookies begin none."""

from __future__ import annotations

import asyncio

import httpx
import pytest

import ottla
from ottla.console import sessions as sessions_module
from ottla.console.app import Console, make_app
from ottla.console.config import ConsoleConfig
from ottla.console.sessions import BrowserSessions

SECRET = "a-very-secret-word"


def test_requests_of_programs_without_cookies_begin_no_sessions(broker: ottla.Broker) -> None:
    app = make_app(ConsoleConfig({"bootstrap_servers": broker.address}))
    console: Console = app.state.console

    async def call() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            for _ in range(20):
                answer = await client.get("/api/openapi.json")
                assert (answer.status_code, answer.headers.get("set-cookie")) == (200, None)
            created = await client.post("/api/topics", json={"name": "without-cookies", "partitions": 1})
            assert (created.status_code, created.headers.get("set-cookie")) == (200, None)
            assert (await client.post("/api/logout", json={})).status_code == 200
            assert (await client.get("/api/topics")).status_code == 200, "a program does not log the others out"
            assert len(console.sessions) == 0
            assert "ottla_console" in (await client.get("/topics")).headers["set-cookie"]
            assert len(console.sessions) == 1
        await console.close()

    asyncio.run(call())


def test_a_further_session_ends_the_oldest_of_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "MOST_SESSIONS", 2)

    async def fill() -> None:
        with ottla.Broker(users={"alice": SECRET}) as broker:
            settings = {"bootstrap_servers": broker.address, "security_protocol": "SASL_PLAINTEXT"}
            sessions = BrowserSessions(ConsoleConfig(settings))
            login = await sessions.log_in("PLAIN", "alice", SECRET)
            begun = [sessions.begin() for _ in range(100)]
            assert len(sessions) == 3
            assert [sessions.find(each.key) for each in begun[-3:]] == [None, *begun[-2:]]
            assert sessions.find(login.key) is login, "sessions without a login end no login"
            others = [await sessions.log_in("PLAIN", "alice", SECRET) for _ in range(2)]
            assert [sessions.find(each.key) for each in (login, *others)] == [None, *others]
            assert sessions.find(begun[-1].key) is begun[-1], "logins end no session of a login page"
            await sessions.close()

    asyncio.run(fill())
