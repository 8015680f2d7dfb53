"""What a broker of this process holds of the system while it lives, and that it lets go of it however it ends."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path

import psutil
import pytest

import ottla
from ottla.broker.scheduler import Steps
from ottla.broker.settings import BrokerSettings
from ottla.log.checkpoints import CLEAN_SHUTDOWN
from ottla.net import server as server_module
from ottla.net.datadir import DataDirectoryError
from ottla.net.listen import Listen
from ottla.net.start import CannotListen, start
from ottla.ports import Now, StorageFailed
from ottla.registry.generations import DIRECTORIES


def held(directory: Path) -> list[str]:
    """The files of a data directory that this process has open."""
    return [file.path for file in psutil.Process().open_files() if Path(file.path).is_relative_to(directory)]


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("ottla-")}


def write(broker: ottla.Broker) -> None:
    with ottla.Producer(broker.address) as producer:
        producer.send("t", b"v").result(20)


def test_a_stopped_broker_leaves_no_thread_and_no_file_open(tmp_path: Path) -> None:
    before = threads()
    with ottla.Broker(str(tmp_path)) as broker:
        write(broker)
        assert threads() > before
        assert held(tmp_path) != []
    assert threads() <= before
    assert held(tmp_path) == []


def test_a_broker_that_cannot_listen_stops_in_order(tmp_path: Path) -> None:
    """The next start need not look closely at its logs, and nobody else has them open."""
    before = threads()
    with ottla.Broker(str(tmp_path)) as broker:
        write(broker)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(CannotListen) as caught:
        ottla.Broker(str(tmp_path), port=taken.getsockname()[1]).start()
    assert "in use" in str(caught.value)
    assert (tmp_path / CLEAN_SHUTDOWN).exists()
    assert held(tmp_path) == []
    assert threads() <= before


def test_a_broker_that_cannot_start_lets_its_directory_go(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path)) as broker:
        write(broker)
    kept = {path: path.read_bytes() for directory in DIRECTORIES for path in (tmp_path / directory).iterdir()}
    for path in kept:
        path.write_bytes(b"no registry, and long enough to be looked at" * 100)
    with pytest.raises(DataDirectoryError) as caught:
        ottla.Broker(str(tmp_path)).start()
    assert all(str(path.relative_to(tmp_path)) in str(caught.value) for path in kept)
    assert held(tmp_path) == []
    for path, data in kept.items():
        path.write_bytes(data)
    with ottla.Broker(str(tmp_path)) as broker:
        write(broker)


def test_what_the_disk_tells_once_the_logs_are_closed_starts_nothing(tmp_path: Path) -> None:
    """Compaction and retention would go on in logs that are marked as closed in order."""
    told: list[StorageFailed | None] = []
    begun: list[Now] = []

    async def live() -> None:
        running = await start(str(tmp_path), [Listen("127.0.0.1", 0)], BrokerSettings.parse({}))
        broker = running.server.broker

        def synced(failure: StorageFailed | None) -> None:
            told.append(failure)
            broker.scheduler.at("what comes next", 0, begun.append)

        broker.disk.sync_soon([broker.disk.directory("")], synced)
        await running.stop()
        for _ in range(10):
            await asyncio.sleep(0)

    asyncio.run(live())
    assert told == [None]
    assert begun == []


def test_a_stop_is_woken_though_a_timer_was_armed_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancelled timer that still counted as armed let a stop wait for ever, or until it gave up."""
    monkeypatch.setattr(server_module, "WRITE_OUT_S", 2)
    written: list[bool] = []

    async def live() -> None:
        running = await start(str(tmp_path), [Listen("127.0.0.1", 0)], BrokerSettings())
        broker = running.broker

        def write_out() -> Steps[None]:
            for _ in range(3):
                yield broker.scheduler.rest(1)
            written.append(True)

        monkeypatch.setattr(broker.partitions, "write_out", write_out)
        now = broker.clock.now()
        broker.scheduler.at("soon", now.mono_ms + 1, lambda now: None)
        running.server._arm(now)
        await running.stop()

    asyncio.run(live())
    assert written
