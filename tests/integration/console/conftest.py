"""A broker with topics, and the console of it, in the test's process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

import ottla
from ottla.console.app import make_app
from ottla.console.config import ConsoleConfig
from ottla.web.address import WebAddress
from ottla.web.guard import RequestGuard, hosts_of
from ottla.web.server import WebServer

ANY_PORT = WebAddress("127.0.0.1", 0)
TOKEN = re.compile(r'name="token" value="([^"]+)"')
"""The token of a form, without which a post is refused."""


def console_server(config: ConsoleConfig) -> WebServer:
    """Return a console as the command serves it, not started yet."""
    return WebServer(RequestGuard(make_app(config), hosts=hosts_of(ANY_PORT)), ANY_PORT, name="console")


@contextmanager
def console_client(config: ConsoleConfig) -> Iterator[httpx.Client]:
    """Run a console, and return a context manager with a visitor of it, who keeps cookies."""
    with console_server(config) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    authorizer = "kafka.security.authorizer.AclAuthorizer"
    with ottla.Broker(authorizer_class_name=authorizer, super_users="User:ANONYMOUS") as broker:
        with ottla.Admin(broker.address) as admin:
            admin.create_topic("flights", 3)
        with ottla.Producer(broker.address) as producer:
            for number in range(30):
                producer.send("flights", key=b"%d" % number, value=b"late")
        yield broker


@pytest.fixture(scope="module")
def url(broker: ottla.Broker) -> Iterator[str]:
    with console_server(ConsoleConfig({"bootstrap_servers": broker.address})) as server:
        yield server.url
