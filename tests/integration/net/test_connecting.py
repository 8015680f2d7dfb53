"""Who may connect: as many as the settings and the open files allow. Those beyond are closed at once, and nobody else is hurt."""

from __future__ import annotations

import contextlib
import resource
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ottla
from ottla.broker.settings import BrokerSettings, SettingsInForce
from ottla.broker.settings.kinds import LARGEST_INT
from ottla.broker.settings.setting_sources import DEFAULT_CONFIG, described_broker
from ottla.net.server import server as server_module
from ottla.net.server.connection import ServerConnection
from ottla.net.server.connection_limits import ConnectionLimits
from ottla.net.startup.open_files import FEWEST, MOST_CONNECTIONS, divide
from ottla.testing import BrokerProcess
from tests.support.frames import API_VERSIONS, FETCH, Batch, Raw, fetch_v4, request
from tests.support.waiting import eventually


def connect(address: str, count: int) -> list[socket.socket]:
    host, _, port = address.rpartition(":")
    return [socket.create_connection((host, int(port)), timeout=10) for _ in range(count)]


def is_open(one: socket.socket) -> bool:
    """Whether the broker answers on it."""
    try:
        one.sendall(request(API_VERSIONS, 0, 1))
        return bool(one.recv(1 << 16))
    except OSError:
        return False


@contextlib.contextmanager
def closing(many: list[socket.socket]) -> Iterator[list[socket.socket]]:
    try:
        yield many
    finally:
        for one in many:
            one.close()


@pytest.mark.parametrize("limit", [64, 256, 1024, 20_000, 1 << 20])
@pytest.mark.parametrize("max_open_files", [16, 512, 100_000])
def test_connections_never_take_the_descriptors_of_logs(limit: int, max_open_files: int) -> None:
    held = 12
    share = divide(limit, held, max_open_files)
    assert share.files >= min(max_open_files, FEWEST)
    assert share.connections >= FEWEST
    assert held + share.files + share.connections < limit
    assert share.files <= max_open_files
    assert limit < 256 or share.files >= min(max_open_files, limit * 2 // 5), "logs get about half where they can use it"


def test_more_connections_than_the_files_allow_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    settings = SettingsInForce(BrokerSettings({"max.connections": "500"}))
    limits = ConnectionLimits(settings, 20, lambda: False, {}, lambda: 0)
    limits._read()
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "max.connections is 500, and the open files of this process leave room for 20: allow more open files (ulimit -n)"
    ]
    assert sum(limits.enter("10.0.0.1") for _ in range(30)) == 20


def test_many_who_leave_at_once_are_closed_some_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "CLOSED_AT_ONCE", 3)
    turns: list[int] = []
    close_some = server_module.Server._close_some

    def counted(server: server_module.Server) -> None:
        before = len(server._left)
        close_some(server)
        turns.append(before - len(server._left))

    monkeypatch.setattr(server_module.Server, "_close_some", counted)
    with ottla.Broker() as broker, Raw(broker.address) as other:
        assert broker._running is not None
        server = broker._running.server
        with closing(connect(broker.address, 40)) as many:
            eventually(lambda: len(server._connections) == 41)
            ours = {one.getsockname() for one in many}
            theirs = [peer for peer in sockets_of(server) if peer.getpeername() in ours]
            with held(server):
                for one in many:
                    one.close()
                eventually(lambda: all(map(has_heard_all, theirs)))
        eventually(lambda: len(server._connections) == 1)
        assert turns == [3] * 13 + [1]
        assert other.is_served()


def sockets_of(server: server_module.Server) -> list[socket.socket]:
    return [one._transport.get_extra_info("socket") for one in server._connections]


def has_heard_all(peer: socket.socket) -> bool:
    """Whether the system knows that the other side has left."""
    poll = select.poll()
    poll.register(peer.fileno(), select.POLLRDHUP)
    return bool(poll.poll(0))


@contextlib.contextmanager
def held(server: server_module.Server) -> Iterator[None]:
    """The server's loop stands still: whatever happens meanwhile it meets in one turn."""
    is_held, may_go_on = threading.Event(), threading.Event()

    def hold() -> None:
        is_held.set()
        may_go_on.wait()

    server._loop.call_soon_threadsafe(hold)
    try:
        assert is_held.wait(20)
        yield
    finally:
        may_go_on.set()


def test_kafkas_own_default_sets_no_limit_and_gives_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    limits = ConnectionLimits(
        SettingsInForce(BrokerSettings({"max.connections": str(LARGEST_INT)})), 20, lambda: False, {}, lambda: 0
    )
    limits._read()
    assert caplog.records == []
    assert sum(limits.enter("10.0.0.1") for _ in range(30)) == 19, "one part in sixteen is for others"
    assert sum(limits.enter("10.0.0.2") for _ in range(30)) == 1


def test_connections_beyond_the_limit_are_closed_at_once_and_others_served() -> None:
    with ottla.Broker(max_connections=5) as broker, closing(connect(broker.address, 12)) as many:
        assert sum(is_open(one) for one in many) == 5
        for one in many:
            one.close()
        eventually(lambda: len(connections_of(broker)) == 0)
        with Raw(broker.address) as later:
            assert later.is_served()


def connections_of(broker: ottla.Broker) -> set[object]:
    assert broker._running is not None
    return set(broker._running.server._connections)


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        ({"max_connections_per_ip": 3}, 3),
        ({"max_connections_per_ip": 3, "max_connections_per_ip_overrides": "127.0.0.1:6"}, 6),
        ({"max_connections_per_ip": 0, "max_connections_per_ip_overrides": "localhost:2,10.0.0.1:9"}, 2),
        ({"max_connections_per_ip_overrides": "10.0.0.1:1"}, 10),
    ],
)
def test_one_address_has_so_many_connections_and_no_more(settings: dict[str, object], most: int) -> None:
    with ottla.Broker(**settings) as broker, closing(connect(broker.address, 10)) as many:  # type: ignore[arg-type]  # their names are those of settings
        assert sum(is_open(one) for one in many) == most


def test_connections_that_said_nothing_for_long_make_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "IDLE_WHEN_FULL_MS", -1)
    monkeypatch.setattr(server_module, "MOST_CLOSED", 2)
    with ottla.Broker(max_connections=4) as broker, closing(connect(broker.address, 4)) as many:
        assert all(is_open(one) for one in many)
        with Raw(broker.address) as later:
            assert later.is_served()
        assert sum(is_open(one) for one in many) == 2


def test_a_reader_that_takes_its_reply_slowly_is_not_idle() -> None:
    with ottla.Broker(max_connections=2) as broker, Raw(broker.address, receive_buffer=4096) as reader:
        assert reader.create_topic("t") == 0
        for _ in range(8):
            assert reader.produce("t", Batch((bytes(1000_000),)).encode())[0] == 0
        with Raw(broker.address) as idle:
            assert idle.is_served()
            reader.send(request(FETCH, 4, 7, fetch_v4("t", 0, 0, max_bytes=8 << 20)))
            (size,) = struct.unpack(">i", reader.read(4))
            for connection in connections_of(broker):
                assert isinstance(connection, ServerConnection)
                connection.active_ms -= 60_000
                if not connection.unsent:
                    connection.moved_ms -= 60_000
            with Raw(broker.address) as later:
                assert later.is_served()
                assert idle.is_closed()
                assert len(reader.read(size)) == size > 7 << 20


def few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))


def test_too_many_connections_for_the_system_end_nothing(tmp_path: Path) -> None:
    """Whoever is connected is served, partitions stay online, and others are taken in once there is room again."""
    with BrokerProcess(tmp_path / "data", prepare=few_files) as broker, Raw(broker.address) as first:
        assert first.create_topic("t", 8) == 0
        eventually(lambda: first.produce("t", Batch().encode(), partition=7)[0] == 0)
        with closing(connect(broker.address, 200)):
            eventually(lambda: "refused a connection" in broker.log)
            codes = [first.produce("t", Batch().encode(), partition=partition)[0] for partition in range(8)]
            assert codes == [0] * 8
            assert broker.log.count("refused a connection") < 20
        eventually(lambda: is_served(broker.address))
        assert "offline" not in broker.log
        assert broker.stop() == 0
        assert "Traceback" not in broker.log


def is_served(address: str) -> bool:
    with closing(connect(address, 1)) as (one,):
        return is_open(one)


def test_without_a_descriptor_left_newcomers_are_closed_without_a_flood_of_lines(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker, Raw(broker.address) as first:
        assert first.is_served()
        limit = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (3, limit[1]))
        with closing(connect(broker.address, 200)):
            eventually(lambda: "could not be accepted" in broker.log)
            assert first.is_served()
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, limit)
        eventually(lambda: is_served(broker.address))
        assert broker.log.count("could not be accepted") < 20
        assert broker.stop() == 0


def test_a_broker_of_its_own_opens_as_many_files_as_the_system_lets_it(tmp_path: Path) -> None:
    def soft() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 2048))

    with BrokerProcess(tmp_path / "data", prepare=soft) as broker:
        assert resource.prlimit(broker.pid, resource.RLIMIT_NOFILE) == (2048, 2048)


def test_an_embedded_broker_leaves_its_host_the_limits_it_has() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ottla.Broker():
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_what_the_system_allows_is_described_as_the_default() -> None:
    with ottla.Broker() as broker:
        assert broker._running is not None
        settings = broker._running.broker.settings
        (described,) = (one for one in described_broker(settings) if one.name == "max.connections")
        assert described.source == DEFAULT_CONFIG
        assert described.value == str(settings.max_connections)
        assert FEWEST <= settings.max_connections <= MOST_CONNECTIONS
        assert settings.with_dynamic({"max.connections": "7"}, {}).max_connections == 7
        assert settings.with_dynamic({}, {}).max_connections == settings.max_connections


def test_what_looks_at_connections_each_second_looks_only_at_those_that_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[ServerConnection] = []
    monkeypatch.setattr(ServerConnection, "check_peer", looked_at.append)
    with ottla.Broker() as broker, closing(connect(broker.address, 20)) as many:
        assert all(is_open(one) for one in many)
        server = server_of(broker)
        on_its_thread(broker, server._check_periodically)
        assert looked_at == []
        assert len(server._connections) == 20


@pytest.mark.full(seconds=10)
def test_many_idle_connections_are_closed_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SWEPT_AT_ONCE", 3)
    left: list[int] = []
    close_some = server_module.Server._close_some_idle

    def counted(server: server_module.Server, some: list[ServerConnection]) -> None:
        left.append(len(some))
        close_some(server, some)

    monkeypatch.setattr(server_module.Server, "_close_some_idle", counted)
    with ottla.Broker(connections_max_idle_ms=0) as broker, closing(connect(broker.address, 10)) as many:
        assert all(is_open(one) for one in many)
        on_its_thread(broker, server_of(broker)._close_idle)
        eventually(lambda: not connections_of(broker))
    assert left[:4] == [10, 7, 4, 1]


def server_of(broker: ottla.Broker) -> server_module.Server:
    running = broker._running
    assert running is not None
    return running.server


def on_its_thread(broker: ottla.Broker, call: Callable[[], None]) -> None:
    """Call something on the broker's thread, and wait until that is done."""
    done = threading.Event()

    def called() -> None:
        call()
        done.set()

    assert broker._background is not None
    broker._background.call(called)
    assert done.wait(20)
