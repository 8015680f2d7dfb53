"""A lone broker in a real ZooKeeper, as clients of Kafka 0.7 look for it there: from when it listens until it stops."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.kafka07.net.registration import CONNECT
from ottla.kafka07.records.messages import message_set
from tests.support.client07 import Client07
from tests.support.zookeeper import ZooKeeper, started

pytest.importorskip("kazoo", reason="kazoo is absent: pip install 'ottla[zookeeper]'")
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

pytestmark = [pytest.mark.java]
PATIENCE_S = 60
SESSION_MS = 2_000
CHROOTS = count(1)
HELLO = message_set([b"hello"])


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with started(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


class Tree:
    """What a client of 0.7 sees in its ZooKeeper, HOST:PORT/PATH."""

    def __init__(self, connect: str) -> None:
        self.connect = connect
        address, slash, path = connect.partition("/")
        self._root = slash + path
        self._client = KazooClient(address)
        self._client.start(PATIENCE_S)

    def close(self) -> None:
        self._client.stop()
        self._client.close()

    def get(self, path: str) -> str | None:
        try:
            value: bytes | None = self._client.get(self._root + path)[0]
        except NoNodeError:
            return None
        return (value or b"").decode()

    def owner(self, path: str) -> int:
        """The session that made an ephemeral entry; 0 where there is none."""
        found: Any = self._client.exists(self._root + path)
        return 0 if found is None else found.ephemeralOwner

    def put(self, path: str, value: bytes) -> None:
        self._client.create(self._root + path, value, makepath=True)

    def remove(self, path: str) -> None:
        self._client.delete(self._root + path)


@pytest.fixture
def tree(zookeeper: ZooKeeper) -> Iterator[Tree]:
    tree = Tree(f"{zookeeper.address}/old/{next(CHROOTS)}")
    yield tree
    tree.close()


def comes_about(what: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while not what() and time.monotonic() < deadline:
        time.sleep(0.02)
    return what()


def old_broker(connect: str, data_dir: Path | None = None, **settings: Any) -> ottla.Broker:
    given = {CONNECT.replace(".", "_"): connect, "zookeeper_session_timeout_ms": SESSION_MS, **settings}
    return ottla.Broker(None if data_dir is None else str(data_dir), release="0.7.2", **given)


def test_a_broker_and_its_topics_are_found_until_it_stops(tree: Tree) -> None:
    with old_broker(tree.connect, num_partitions=3) as broker:
        assert comes_about(lambda: tree.get("/brokers/ids/1") is not None)
        creator, _, address = str(tree.get("/brokers/ids/1")).partition(":")
        assert address == broker.address
        assert creator.startswith("127.0.0.1-")
        with Client07(broker.address) as client:
            client.produce("flights", HELLO)
            assert comes_about(lambda: tree.get("/brokers/topics/flights/1") == "3")
        assert tree.owner("/brokers/ids/1") == tree.owner("/brokers/topics/flights/1") != 0
        assert tree.owner("/brokers/topics/flights") == 0
    assert tree.get("/brokers/ids/1") is None
    assert tree.get("/brokers/topics/flights/1") is None
    assert tree.get("/brokers/topics/flights") == ""


def test_topics_of_before_are_told_at_the_next_start(tree: Tree, tmp_path: Path) -> None:
    with old_broker(tree.connect, tmp_path) as broker, Client07(broker.address) as client:
        client.produce("flights", HELLO)
        assert client.fetch("flights") == (0, HELLO)
    with old_broker(tree.connect, tmp_path, advertised_listeners="PLAINTEXT://kafka.example:9093"):
        assert comes_about(lambda: tree.get("/brokers/topics/flights/1") == "1")
        assert str(tree.get("/brokers/ids/1")).endswith(":kafka.example:9093")


def seen(server: ZooKeeper, chroot: str, path: str) -> tuple[str | None, int]:
    """(value, the session that made it) of an entry, as a new client finds it."""
    tree = Tree(f"{server.address}{chroot}")
    try:
        return tree.get(path), tree.owner(path)
    finally:
        tree.close()


def test_a_broker_serves_while_its_zookeeper_is_away_and_registers_in_each_session(tmp_path: Path) -> None:
    with started(tmp_path) as server:
        server.kill()
        with old_broker(f"{server.address}/old") as broker, Client07(broker.address) as client:
            client.produce("flights", HELLO)
            assert client.fetch("flights") == (0, HELLO)
            server.start()
            assert comes_about(lambda: seen(server, "/old", "/brokers/topics/flights/1")[0] == "1")
            _, first = seen(server, "/old", "/brokers/ids/1")
            server.kill()
            shutil.rmtree(tmp_path / "data")  # with what is in it the session is over
            client.produce("more", HELLO)
            assert client.fetch("more") == (0, HELLO)
            server.start()
            assert comes_about(lambda: seen(server, "/old", "/brokers/topics/more/1")[0] == "1")
            assert seen(server, "/old", "/brokers/topics/flights/1")[0] == "1"
            value, second = seen(server, "/old", "/brokers/ids/1")
            assert str(value).endswith(broker.address)
            assert second not in (0, first)


@pytest.mark.expects_errors("already registered")
def test_an_id_that_is_taken_is_waited_for(tree: Tree, caplog: pytest.LogCaptureFixture) -> None:
    tree.put("/brokers/ids/1", b"other-1:other:9092")
    with old_broker(tree.connect) as broker:
        assert comes_about(lambda: "already registered" in caplog.text)
        with Client07(broker.address) as client:
            client.produce("flights", HELLO)
            assert client.fetch("flights") == (0, HELLO), "it serves those who have its address"
        assert tree.get("/brokers/topics/flights/1") is None
        tree.remove("/brokers/ids/1")
        assert comes_about(lambda: str(tree.get("/brokers/ids/1")).endswith(broker.address))
        assert comes_about(lambda: tree.get("/brokers/topics/flights/1") == "1")
