"""Memory over all connections: what is announced, what is read and waits, what nobody reads. Others are served all the while."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Sequence

import pytest

import ottla
from ottla.broker.long_checks import MOST_HELD_BY_LARGE_BYTES, Claim, Memory
from ottla.net.server import buffer_pool as module
from ottla.net.server import server as server_module
from ottla.net.server.buffer_pool import SMALL_BYTES, STALLED_BYTES, STALLED_MS, FramePool
from ottla.net.server.outbox import Outbox
from ottla.net.server.server import Server
from ottla.ports import Part
from tests.support.frames import FETCH, METADATA, PRODUCE, Batch, Raw, array, fetch_v4, metadata_v1, produce_v7, request, string
from tests.support.waiting import eventually

MB = 1 << 20


class Arriving:
    """A request of which `arrived` was read; `events` has what the pool said to whom."""

    def __init__(self, name: str, pool: FramePool, events: list[str], size: int) -> None:
        self.name, self.pool, self.events, self.size = name, pool, events, size
        self.arrived: int | None = 0

    def claim(self) -> bool:
        return self.pool.claim(self, self.size)

    def on_grant(self, size: int) -> None:
        assert size == self.size
        self.events.append(f"{self.name} granted")

    def cut_off(self) -> None:
        self.events.append(f"{self.name} given up")
        self.arrived = None
        self.end()

    def finish(self) -> None:
        """All of it has arrived."""
        self.arrived = None
        self.pool.whole(self, self.size)

    def end(self) -> None:
        self.pool.whole(self, self.size)
        self.pool.release(self.size)


class Requests:
    def __init__(self, limit_bytes: int) -> None:
        self.memory = Memory(MOST_HELD_BY_LARGE_BYTES, Claim.notify)
        self.pool = FramePool(limit_bytes, self.memory)
        self.events: list[str] = []

    def arriving(self, name: str, size: int) -> Arriving:
        return Arriving(name, self.pool, self.events, size)


def test_requests_wait_for_memory_and_are_served_in_their_order() -> None:
    requests = Requests(64 * MB)
    first, second, third = (requests.arriving(name, 40 * MB) for name in ("first", "second", "third"))
    assert first.claim()
    assert not second.claim()
    assert not third.claim()
    assert requests.pool.used == 40 * MB
    requests.pool.release(40 * MB)
    assert requests.events == ["second granted"]
    requests.pool.release(40 * MB)
    assert requests.events == ["second granted", "third granted"]
    requests.pool.release(40 * MB)
    assert requests.pool.used == 0


def test_unfinished_giants_keep_no_small_request_waiting() -> None:
    requests = Requests(64 * MB)
    assert requests.arriving("giant", 95 * MB).claim(), "one larger than its share has it alone"
    assert not requests.arriving("another", 2 * MB).claim()
    for number in range(15):
        assert requests.arriving(f"small {number}", MB).claim()


def test_requests_of_a_few_bytes_wait_for_nothing() -> None:
    requests = Requests(MB)
    while requests.arriving("small", SMALL_BYTES).claim():
        pass
    assert requests.arriving("tiny", module.FREE_BYTES).claim()


def test_without_a_limit_nobody_waits() -> None:
    requests = Requests(-1)
    assert all(requests.arriving("giant", 100 * MB).claim() for _ in range(100))


def test_what_has_stopped_arriving_is_given_up_only_while_others_wait() -> None:
    requests = Requests(64 * MB)
    stalled, moving = requests.arriving("stalled", 20 * MB), requests.arriving("moving", 20 * MB)
    assert stalled.claim()
    assert moving.claim()
    for second in range(60):
        moving.arrived = (moving.arrived or 0) + STALLED_BYTES
        requests.pool.cut_stalled(second * 1000)
    assert requests.events == []
    assert not requests.arriving("waiting", 20 * MB).claim()
    moving.arrived = (moving.arrived or 0) + STALLED_BYTES
    requests.pool.cut_stalled(60_000)
    assert requests.events == ["stalled given up", "waiting granted"]


def test_a_request_that_is_whole_is_not_given_up() -> None:
    requests = Requests(64 * MB)
    served = requests.arriving("served", 40 * MB)
    assert served.claim()
    served.finish()
    assert not requests.arriving("waiting", 40 * MB).claim()
    for second in range(3 * STALLED_MS // 1000):
        requests.pool.cut_stalled(second * 1000)
    assert requests.events == []


def test_who_goes_away_waits_no_longer() -> None:
    requests = Requests(64 * MB)
    first, gone, last = (requests.arriving(name, 40 * MB) for name in ("first", "gone", "last"))
    assert [first.claim(), gone.claim(), last.claim()] == [True, False, False]
    requests.pool.forget(gone)
    requests.pool.release(40 * MB)
    assert requests.events == ["last granted"]


def test_giants_that_arrive_and_giants_that_are_opened_take_turns() -> None:
    """Together they never hold more than the largest of either."""
    requests = Requests(64 * MB)
    giant, next_giant = requests.arriving("giant", 95 * MB), requests.arriving("next giant", 95 * MB)
    assert giant.claim()
    opened = requests.memory.claim(120 * MB)
    assert not opened.is_granted
    assert requests.memory.claim(MB).size == MB, "which waits behind it"
    giant.finish()
    assert opened.is_granted
    giant.end()
    assert not next_giant.claim()
    assert requests.pool.waiting == 1
    requests.memory.release(opened)
    assert requests.events == ["next giant granted"]
    next_giant.end()
    assert requests.pool.used == requests.pool.waiting == 0
    assert requests.memory.free_bytes == MOST_HELD_BY_LARGE_BYTES - MB


def test_a_large_request_that_goes_away_while_batches_are_opened_leaves_nothing_behind() -> None:
    requests = Requests(64 * MB)
    opened = requests.memory.claim(120 * MB)
    gone, last = requests.arriving("gone", 40 * MB), requests.arriving("last", 40 * MB)
    assert not gone.claim()
    assert not last.claim()
    requests.pool.forget(gone)
    requests.memory.release(opened)
    assert requests.events == ["last granted"]
    last.end()
    assert (requests.pool.used, requests.memory.free_bytes) == (0, MOST_HELD_BY_LARGE_BYTES)


def test_ordinary_requests_wait_for_no_batch() -> None:
    requests = Requests(64 * MB)
    requests.memory.claim(MOST_HELD_BY_LARGE_BYTES)
    assert requests.arriving("ordinary", MB).claim()


def test_a_giant_that_trickles_is_given_up_while_a_batch_waits_to_be_opened() -> None:
    requests = Requests(64 * MB)
    giant = requests.arriving("giant", 95 * MB)
    assert giant.claim()
    for second in range(60):
        giant.arrived = (giant.arrived or 0) + STALLED_BYTES
        requests.pool.cut_stalled(second * 1000)
    assert requests.events == []
    opened = requests.memory.claim(120 * MB)
    requests.pool.cut_stalled(60_000)
    assert requests.events == ["giant given up"]
    assert opened.is_granted


def test_a_request_beyond_all_memory_has_it_alone() -> None:
    requests = Requests(1 << 40)
    assert requests.arriving("huge", 200 * MB).claim()
    assert not requests.arriving("large", 2 * MB).claim()


def server_of(broker: ottla.Broker) -> Server:
    assert broker._running is not None
    return broker._running.server


@pytest.mark.full(seconds=8)
def test_announced_requests_are_read_only_while_there_is_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of each of four requests arrives. Small ones of others are served, and large ones once those were cut."""
    monkeypatch.setattr(module, "STALLED_MS", 500)
    with ottla.Broker(queued_max_request_bytes=8 * MB) as broker, contextlib.ExitStack() as held:
        server = server_of(broker)
        for _ in range(4):
            stalled = held.enter_context(Raw(broker.address))
            stalled.socket.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                stalled.socket.send(struct.pack(">i", 5 * MB) + bytes(2 * MB))
        eventually(lambda: server.pool.waiting)
        assert server.pool.used <= 8 * MB
        with Raw(broker.address) as good:
            assert good.create_topic("t", 1, {"max.message.bytes": "4000000"}) == 0
            small, large = (Batch((bytes(size),)).encode() for size in (900_000, 3_000_000))
            eventually(lambda: good.produce("t", small)[0] == 0)
            assert server.pool.waiting, "a small request waits for no giant"
            assert good.produce("t", large)[0] == 0
            assert server.pool.used <= 8 * MB
    assert server.pool.used == 0
    assert server.backlogs.bytes == 0


def test_memory_of_a_request_is_given_back_when_its_reply_is_ready() -> None:
    with ottla.Broker(queued_max_request_bytes=8 * MB) as broker, Raw(broker.address) as raw:
        assert raw.create_topic("t", 1) == 0
        batch = Batch((bytes(900_000),)).encode()
        eventually(lambda: raw.produce("t", batch)[0] == 0)
        raw.send(b"".join(request(PRODUCE, 7, number, produce_v7("t", 0, batch)) for number in range(30)))
        for number in range(30):
            assert struct.unpack_from(">i", raw.frame()) == (number,)
        eventually(lambda: server_of(broker).pool.used == 0)
        raw.send(struct.pack(">i", 5 * MB) + bytes(MB))
        eventually(lambda: server_of(broker).pool.used > 5 * MB)
        raw.socket.shutdown(socket.SHUT_WR)
        eventually(lambda: server_of(broker).pool.used == 0)


@pytest.mark.rows(1, seconds=2)
@pytest.mark.parametrize("limit", [MB, 1])
def test_replies_that_nobody_reads_are_bounded_over_all_connections(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(server_module, "LARGEST_UNSENT_BYTES", 4 * MB)
    monkeypatch.setattr(server_module, "UNSENT_BYTES", 2 * MB)
    with ottla.Broker() as broker, contextlib.ExitStack() as held, Raw(broker.address) as good:
        server, most = server_of(broker), 0
        server.unsent.limit_bytes = limit
        wanted = request(METADATA, 1, 1, metadata_v1(*(f"{number:0240}" + "!" for number in range(400))))
        for _ in range(40):
            deaf = held.enter_context(Raw(broker.address, receive_buffer=4096))
            deaf.socket.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                deaf.socket.send(wanted * 40)
            good.send(wanted)
            assert good.frame()
            most = max(most, server.unsent.bytes)
        assert most > limit, "the bound was reached"
        assert most <= 4 * MB + 2 * len(wanted)
    assert server.unsent.bytes == 0


def test_backlogs_are_bounded_over_all_connections() -> None:
    """Behind a fetch that waits, other requests are read, but not without end."""
    with ottla.Broker() as broker, contextlib.ExitStack() as held, Raw(broker.address) as good:
        assert good.create_topic("t", 1) == 0
        eventually(lambda: good.produce("t", Batch().encode())[0] == 0)
        server = server_of(broker)
        server.backlogs.limit_bytes = MB
        for _ in range(30):
            waiting = held.enter_context(Raw(broker.address))
            waiting.send(request(FETCH, 4, 1, fetch_v4("t", 0, 1, max_wait_ms=60_000)))
            waiting.socket.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.socket.send(request(METADATA, 1, 1, metadata_v1("t")) * 10_000)
        eventually(lambda: server.backlogs.is_crowded)
        assert server.backlogs.bytes <= MB + 30 * 4096 + server_module.SCRATCH_BYTES
        assert good.is_served()
    assert server.backlogs.bytes == 0


def test_copies_of_requests_that_are_served_in_slices_count_as_backlogs() -> None:
    """Each of these fetches names so many partitions that it is served from a copy, and waits for records."""
    with ottla.Broker() as broker, contextlib.ExitStack() as held, Raw(broker.address) as good:
        assert good.create_topic("t", 1) == 0
        eventually(lambda: good.produce("t", Batch().encode())[0] == 0)
        server = server_of(broker)
        server.backlogs.limit_bytes = MB // 4
        asked = struct.pack(">iqi", 0, 1, 1 << 20) * 2000
        body = struct.pack(">iiiib", -1, 60_000, 1, 1 << 20, 0) + array(string("t") + struct.pack(">i", 2000) + asked)
        for _ in range(30):
            waiting = held.enter_context(Raw(broker.address))
            waiting.socket.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.socket.send(request(FETCH, 4, 1, body))
        eventually(lambda: server.backlogs.is_crowded)
        assert good.is_served()
        assert server.backlogs.bytes <= MB // 4 + server_module.SCRATCH_BYTES + 30 * 4096
    assert server.backlogs.bytes == 0
    assert server.pool.used == 0


def test_a_large_reply_is_sent_before_the_next_request_is_begun() -> None:
    """Of fetches that ask for megabytes each, one is served at a time, however many more the peer sends and does not read."""
    with ottla.Broker() as broker, Raw(broker.address) as client:
        assert client.create_topic("t", 1) == 0
        eventually(lambda: client.produce("t", Batch((bytes(900_000),)).encode())[0] == 0)
        assert all(client.produce("t", Batch((bytes(900_000),)).encode())[0] == 0 for _ in range(3))
        server = server_of(broker)
        most: list[int] = []
        put = Outbox.put

        def noted(outbox: Outbox, parts: Sequence[Part]) -> None:
            put(outbox, parts)
            most.append(outbox._size)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Outbox, "put", noted)
            client.send(request(FETCH, 4, 1, fetch_v4("t", 0, 0, max_bytes=8 * MB)) * 20)
            for _ in range(20):
                assert len(client.frame()) > 3_600_000
        assert max(most) < 5_000_000
        assert all(one._outbox.is_empty for one in server._connections)
