"""Sessions of brokers that are killed: they end at once, and not after their timeout, which is an hour here."""

from __future__ import annotations

import signal
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ottla.net.zookeeper.address import ZooKeeperAddress
from ottla.net.zookeeper.will import LEAST_S, LastWill
from ottla.testing import BrokerProcess
from tests.support.zookeeper import ZooKeeper, started

pytest.importorskip("kazoo", reason="kazoo is absent: pip install 'ottla[zookeeper]'")
from kazoo.client import KazooClient

pytestmark = [pytest.mark.java]
HOUR_MS = 3_600_000
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with started(tmp_path_factory.mktemp("zookeeper"), {"maxSessionTimeout": HOUR_MS}) as server:
        yield server


@pytest.fixture
def client(zookeeper: ZooKeeper) -> Iterator[KazooClient]:
    client = KazooClient(zookeeper.address)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def broker(zookeeper: ZooKeeper, tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = {"zookeeper.session.timeout.ms": HOUR_MS}
    arguments = ["--registry", f"zookeeper://{zookeeper.address}/{tmp_path.name}", "--node-id", "1"]
    with BrokerProcess(tmp_path / "1", settings, arguments=arguments) as broker:
        yield broker


def wait_gone(client: KazooClient, path: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while client.exists(path):
        assert time.monotonic() < until, f"{path} is still there"
        time.sleep(0.01)


def test_the_session_of_a_broker_that_is_killed_ends_at_once(client: KazooClient, broker: BrokerProcess, tmp_path: Path) -> None:
    assert client.exists(f"/{tmp_path.name}/brokers/ids/1")
    broker.kill()
    wait_gone(client, f"/{tmp_path.name}/brokers/ids/1")
    broker.start()
    assert client.exists(f"/{tmp_path.name}/brokers/ids/1")


def test_a_broker_that_is_paused_keeps_its_session(client: KazooClient, broker: BrokerProcess, tmp_path: Path) -> None:
    (_, before) = client.get(f"/{tmp_path.name}/brokers/ids/1")
    broker.pause()
    client.sync("/")
    broker.resume()
    (_, after) = client.get(f"/{tmp_path.name}/brokers/ids/1")
    assert after.ephemeralOwner == before.ephemeralOwner


def test_a_process_that_takes_little_memory_waits_for_the_end_of_a_broker(broker: BrokerProcess) -> None:
    beside = psutil.Process(broker.pid).children(recursive=True)
    assert len(beside) == 1
    assert beside[0].memory_info().rss < 4_000_000


def test_a_broker_that_is_stopped_leaves_no_process_behind(broker: BrokerProcess) -> None:
    beside = psutil.Process(broker.pid).children(recursive=True)
    assert broker.stop() == 0
    psutil.wait_procs(beside, PATIENCE_S)
    assert not [process for process in beside if process.is_running()]


def test_a_process_beside_a_broker_that_ends_is_started_again_and_does_its_work() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        will = LastWill(ZooKeeperAddress.parse(f"zookeeper://127.0.0.1:{server.getsockname()[1]}"), {})
        will.restart()  # before the first session
        will.write((4711, b"secret"), HOUR_MS)
        first = will._executor
        assert first is not None
        for _ in range(2):
            ended = will._executor
            assert ended is not None
            will.restart()
            assert will._executor is ended
            ended.kill()
            ended.wait(PATIENCE_S)
            will._begun_s -= LEAST_S
            will.restart()
        last = will._executor
        assert last not in (None, first)
        assert last is not None
        assert last.stdin is not None
        last.stdin.close()
        connection, _ = server.accept()
        with connection:
            connection.settimeout(PATIENCE_S)
            assert struct.pack("!iq", HOUR_MS, 4711) in connection.recv(4096)
        assert last.wait(PATIENCE_S) == 0


def test_what_interrupts_a_terminal_does_not_end_the_process_beside_a_broker(
    client: KazooClient, broker: BrokerProcess, tmp_path: Path
) -> None:
    (beside,) = psutil.Process(broker.pid).children(recursive=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        beside.send_signal(number)
    assert client.exists(f"/{tmp_path.name}/brokers/ids/1")
    broker.kill()
    wait_gone(client, f"/{tmp_path.name}/brokers/ids/1")
