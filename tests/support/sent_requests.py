"""The requests that clients of the test's process send, counted by address and API."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from ottla.net.client.link import Link
from ottla.wire.apis import API
from ottla.wire.schema import Message

SentRequests = Counter[tuple[str, str]]


def count_requests(monkeypatch: pytest.MonkeyPatch) -> SentRequests:
    """Count each request from now on."""
    counts: SentRequests = Counter()
    send = Link.send

    def count(link: Link, body: Message, most: int | None = None) -> asyncio.Future[Message]:
        counts[link.where, API[body.WIRE.key].name] += 1
        return send(link, body, most)

    monkeypatch.setattr(Link, "send", count)
    return counts
