"""Brokers' sessions with a real ZooKeeper, as tests use them: on a loop of the test's own."""

from __future__ import annotations

from typing import Any

from kazoo.client import KazooClient

from ottla.net.zookeeper.address import ZooKeeperAddress
from ottla.net.zookeeper.client import Access
from ottla.net.zookeeper.registry import ZooKeeperRegistry
from ottla.net.zookeeper.session import ZooKeeperSession
from tests.support.shared_users import PATIENCE_S, LoopUser


class RegistryUser(LoopUser):
    """One broker's session, and what it was told."""

    def __init__(self, address: str, timeout_ms: int, *, are_secured: bool = False, **access: Any) -> None:
        super().__init__()
        wanted = Access(ZooKeeperAddress.parse(address), timeout_ms, **access)
        self.session = ZooKeeperSession(wanted, self.loop, self.posts, are_secured=are_secured)
        self.registry = ZooKeeperRegistry(self.session)
        self.registry.on_session(self.events.append)
        self.session.start()


def end_elsewhere(session: ZooKeeperSession) -> None:
    """End a session by another connection, as nothing else does before its timeout."""
    client = session.client
    other = KazooClient(client.hosts[0][0] + f":{client.hosts[0][1]}", client_id=client.client_id)
    other.start(PATIENCE_S)
    other.stop()
    other.close()
