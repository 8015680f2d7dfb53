"""What a broker of this process holds of the system while it lives, and that it lets go of it however it ends."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

import ottla
from ottla.broker.broker import BrokerMachine
from ottla.broker.settings import BrokerSettings
from ottla.log.checkpoints import CLEAN_SHUTDOWN
from ottla.net.server import server as server_module
from ottla.net.server.exception_boundary import BrokerFailed
from ottla.net.server.listeners import CannotListen, Listen
from ottla.net.startup.data_directory import DataDirectoryError
from ottla.net.startup.start import start
from ottla.ports import Now, Steps, StorageFailed
from ottla.records.batches.builder import build
from ottla.records.batches.header import read_header
from ottla.registry.generations import DIRECTORIES
from ottla.testing.process import BrokerProcess
from ottla.wire.errors import NONE


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


def test_a_name_that_no_host_can_have_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CannotListen, match=r"Cannot listen on a\.\.b:9"):
        ottla.Broker(str(tmp_path), host="a..b", port=9).start()


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


def test_what_the_disk_tells_once_the_logs_are_closed_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction and retention would go on in logs that are marked as closed in order."""
    told: list[StorageFailed | None] = []
    begun: list[Now] = []

    async def live() -> None:
        running = await start(str(tmp_path), [Listen("127.0.0.1", 0)], BrokerSettings.parse({}))
        broker = running.server.broker

        def synced(failure: StorageFailed | None) -> None:
            told.append(failure)
            broker.scheduler.at("what comes next", 0, begun.append)

        def close_logs() -> bool:
            is_clean = close()
            broker.disk.sync_soon([broker.disk.directory("")], synced)  # no earlier, as a quick disk ends it at once
            return is_clean

        close = broker.close
        monkeypatch.setattr(broker, "close", close_logs)
        await running.stop()
        for _ in range(10):
            await asyncio.sleep(0)

    asyncio.run(live())
    assert told == [None]
    assert begun == []


def test_a_sync_that_ends_once_the_logs_are_closed_has_nothing_appended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the marker of a transaction would be. The next start took such a partition offline, as if it was damaged."""
    monkeypatch.setattr(server_module, "WRITE_OUT_S", 0)  # as if the disk was slow

    async def live() -> str | None:
        running = await start(str(tmp_path), [Listen("127.0.0.1", 0)], BrokerSettings())
        now, batch = running.broker.clock.now(), build(None, [b"v"], 0)
        partition = running.broker.partitions.get("t", 0)
        assert partition is not None
        offline = partition.offline

        def append(error_code: int = NONE) -> None:
            """Append what has the next sync call this again, so that one is always under way."""
            if not partition.append(bytearray(batch), (read_header(batch),), now).error_code:
                partition.when_synced(partition.log.log_end_offset, append)

        running.server.complete(append)
        await running.stop()
        return offline

    with ottla.Broker(str(tmp_path)) as broker:
        write(broker)
    assert [asyncio.run(live()) for _ in range(2)] == [None, None]


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


def test_a_failed_start_leaves_nothing_on_the_loop(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path)) as broker:
        write(broker)
    for directory in DIRECTORIES:
        for path in (tmp_path / directory).iterdir():
            path.write_bytes(b"no registry, and long enough to be looked at" * 100)

    async def begin() -> tuple[int, object]:
        loop = asyncio.get_running_loop()
        with pytest.raises(DataDirectoryError):
            await start(str(tmp_path), [Listen("127.0.0.1", 0)], BrokerSettings.parse({}))
        timers = [handle for handle in loop._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]  # asyncio's own
        return len(timers), loop.get_exception_handler()

    assert asyncio.run(begin()) == (0, None)


def test_a_start_that_the_machine_refuses_leaves_nothing_on_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise StorageFailed("read", "t-0")

    monkeypatch.setattr(BrokerMachine, "start", refuse)

    async def begin() -> tuple[int, object]:
        loop = asyncio.get_running_loop()
        with pytest.raises(DataDirectoryError):
            await start(str(tmp_path), [Listen("127.0.0.1", 0)], BrokerSettings.parse({}))
        timers = [handle for handle in loop._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]  # asyncio's own
        return len(timers), loop.get_exception_handler()

    assert asyncio.run(begin()) == (0, None)


def test_a_forked_child_leaves_the_broker_of_its_parent_alone() -> None:
    program = """
import os, ottla
with ottla.Broker() as broker, ottla.Producer(broker.address) as producer:
    producer.send("t", b"1").result(20)
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
        assert os.path.isdir(broker.data_dir)
        producer.send("t", b"2").result(20)
        print("whole")
    else:
        try:
            producer.send("t", b"3")
        except ottla.Closed:
            pass
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["whole"], done.stderr


def test_threads_start_and_stop_one_broker_in_turn(tmp_path: Path) -> None:
    broker = ottla.Broker(str(tmp_path))
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            assert len({each.address for each in pool.map(lambda _: broker.start(), range(4))}) == 1
            list(pool.map(lambda _: broker.stop(), range(4)))
    assert held(tmp_path) == []


def test_two_embedded_brokers_live_side_by_side() -> None:
    with ottla.Broker() as one, ottla.Broker() as other:
        write(one)
        with ottla.Admin(other.address) as admin:
            assert "t" not in admin.list_topics()
        one.stop()
        write(other)


def test_a_broker_process_has_an_address_of_ipv6_that_clients_take(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", host="::1") as broker:
        assert broker.address == f"[::1]:{broker.port}"
        with ottla.Producer(broker.address) as producer:
            assert producer.send("t", b"v").result(20).offset == 0
        broker.restart()
        assert broker.address == f"[::1]:{broker.port}"


@pytest.mark.expects_errors("met a bug in Ottla")
def test_a_broker_that_fails_while_it_hands_over_stops_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody calls back any more once a mistake has ended it."""
    given = {"ottla.registry.directory": str(tmp_path / "registry"), "node.id": "1"}

    async def live() -> None:
        running = await start(str(tmp_path / "data"), [Listen("127.0.0.1", 0)], BrokerSettings.parse(given))
        monkeypatch.setattr(running.broker, "transfer_leadership", lambda over: None)
        stop = asyncio.create_task(running.stop())
        await asyncio.sleep(0)
        running.server.door.fail(RuntimeError("planted"), "a test")
        await asyncio.wait_for(stop, 20)
        with pytest.raises(BrokerFailed):
            running.check()

    asyncio.run(live())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_broker_that_is_told_to_stop_while_it_starts_ends_though_signals_are_ignored(number: int) -> None:
    """As process 1 of a container nothing ends it by default, and a recovery may take minutes."""
    program = """
import time
from ottla.broker.settings import BrokerSettings
from ottla.net.process import serve
async def recover(*_):
    print("recovering", flush=True)
    while True:
        time.sleep(0.01)
serve.start = recover
serve.serve("d", [], BrokerSettings(), print)
"""
    ignore = partial(signal.signal, number, signal.SIG_IGN)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, preexec_fn=ignore) as child:
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == b"recovering\n"
            child.send_signal(number)
            assert child.wait(20) == 128 + number
        finally:
            child.kill()


@pytest.mark.parametrize(
    ("positional", "keywords", "kind", "sentence"),
    [
        (({"num.partitions": "5"},), {}, TypeError, "settings are keyword arguments"),
        ((5,), {}, TypeError, "data_dir is a path"),
        ((), {"port": "x"}, ottla.SettingError, "port is a whole number"),
        ((), {"port": 1 << 20}, ottla.SettingError, "port is a whole number"),
        ((), {"assignors": "uniform"}, TypeError, "assignors is a list"),
    ],
)
def test_a_broker_with_misplaced_arguments_is_refused_before_it_begins(
    positional: tuple[Any, ...], keywords: dict[str, Any], kind: type[Exception], sentence: str
) -> None:
    with pytest.raises(kind, match=sentence):
        ottla.Broker(*positional, **keywords)
