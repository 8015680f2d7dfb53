"""Clients that have used up their quota: answered at once, then not heard until they have rested. Others are."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable, Iterator

import pytest

import ottla
from ottla.cluster.quotas import QuotaEntity
from ottla.net.server.server import Server
from ottla.wire.api.alter_client_quotas import AlterClientQuotasRequest
from tests.support.fetching import talk
from tests.support.frames import METADATA, PRODUCE, Batch, Raw, metadata_v1, produce_v7, request
from tests.support.waiting import eventually

ALTER_CLIENT_QUOTAS = 49
FOR_EVER_MS = 3_600_000


class Rests:
    """The rests that a broker has clients take. None ends by itself: `end` ends the first of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun: list[tuple[int, Callable[[], None]]] = []
        self.timers: list[asyncio.TimerHandle] = []
        self._server: Server
        later = Server.later

        def held(server: Server, ms: int, call: Callable[[], None]) -> asyncio.TimerHandle:
            self._server = server
            self.begun.append((ms, call))
            self.timers.append(later(server, FOR_EVER_MS, call))
            return self.timers[-1]

        monkeypatch.setattr(Server, "later", held)

    def end(self) -> None:
        _, call = self.begun.pop(0)
        self._server._loop.call_soon_threadsafe(call)


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> Rests:
    return Rests(monkeypatch)


@pytest.fixture
def broker(rests: Rests) -> Iterator[ottla.Broker]:
    with ottla.Broker() as broker:
        with Raw(broker.address) as raw:
            raw.create_topic("t")
        limit(broker.address, "raw", producer_byte_rate=1000)
        yield broker


def limit(address: str, client_id: str, **quotas: float) -> None:
    made = AlterClientQuotasRequest
    ops = [made.OpData(key=key, value=value, remove=False) for key, value in quotas.items()]
    entity = [made.EntityData(entity_type="client-id", entity_name=client_id)]
    with Raw(address) as raw:
        (entry,) = talk(raw)(ALTER_CLIENT_QUOTAS, 1, made(entries=[made.EntryData(entity=entity, ops=ops)])).entries
    assert entry.error_code == 0


def is_heard(raw: Raw, broker: ottla.Broker) -> bool:
    """Whether a request that was sent is answered by the time that one sent later, by another client, is."""
    with Raw(broker.address) as other:
        assert other.is_served()
        assert other.is_served()
    return bool(select.select([raw.socket], [], [], 0)[0])


def test_a_client_is_answered_at_once_and_not_heard_until_it_has_rested(broker: ottla.Broker, rests: Rests) -> None:
    with Raw(broker.address) as raw:
        assert raw.produce("t", Batch((b"x" * 10_000,)).encode())[0] == 0
        assert [ms for ms, _ in rests.begun] == [pytest.approx(10_000, abs=200)]
        raw.send(request(METADATA, 1, 99, metadata_v1("t")))
        assert not is_heard(raw, broker)
        rests.end()
        assert raw.frame()[:4] == (99).to_bytes(4, "big")


def test_what_was_sent_behind_it_is_answered_in_order_after_the_rest(broker: ottla.Broker, rests: Rests) -> None:
    big = request(PRODUCE, 7, 1, produce_v7("t", 0, Batch((b"x" * 10_000,)).encode()))
    with Raw(broker.address) as raw:
        raw.send(big + request(METADATA, 1, 2, metadata_v1("t")) + request(METADATA, 1, 3, metadata_v1("t")))
        numbers = [int.from_bytes(raw.frame()[:4], "big")]
        for _ in range(2):
            if rests.begun:
                rests.end()
            numbers.append(int.from_bytes(raw.frame()[:4], "big"))
    assert numbers == [1, 2, 3]


def test_a_release_before_2_has_its_client_wait_for_the_answer_instead(rests: Rests) -> None:
    with ottla.Broker(release="1.1") as broker:
        with Raw(broker.address) as raw:
            raw.create_topic("t")
        limited(broker)
        with Raw(broker.address) as raw:
            raw.send(request(PRODUCE, 5, 7, produce_v7("t", 0, Batch((b"x" * 10_000,)).encode())))
            eventually(lambda: bool(rests.begun))
            assert not is_heard(raw, broker)
            rests.end()
            assert raw.frame()[:4] == (7).to_bytes(4, "big")


def test_a_release_before_2_answers_in_order_what_was_sent_together(rests: Rests) -> None:
    """The answers wait for the disk together, and each for its client's rest; what was waited counts for the next."""
    with ottla.Broker(release="1.1") as broker:
        with Raw(broker.address) as raw:
            raw.create_topic("t")
        limited(broker)
        records = produce_v7("t", 0, Batch((b"x" * 10_000,)).encode())
        with Raw(broker.address) as raw:
            raw.send(
                b"".join(request(PRODUCE, 5, number, records) for number in (1, 2, 3)) + request(METADATA, 1, 4, metadata_v1("t"))
            )
            eventually(lambda: bool(rests.begun))
            assert not is_heard(raw, broker)
            numbers: list[int] = []
            while rests.begun:
                assert len(rests.begun) == 1, "one rest at a time"
                rests.end()
                numbers.append(int.from_bytes(raw.frame()[:4], "big"))
            numbers += [int.from_bytes(raw.frame()[:4], "big") for _ in range(4 - len(numbers))]
    assert numbers == [1, 2, 3, 4]


def limited(broker: ottla.Broker) -> None:
    """Limit writers, on the broker's own thread: its release knows no request for it."""
    running = broker._running
    assert running is not None
    machine = running.broker

    async def load() -> None:
        machine.image.quotas[QuotaEntity(client_id="raw")] = {"producer_byte_rate": 1000.0}
        machine.quotas.load()

    assert broker._background is not None
    broker._background.run(load())


def test_a_client_that_leaves_while_it_rests_is_let_go(broker: ottla.Broker, rests: Rests) -> None:
    with Raw(broker.address) as raw:
        assert raw.produce("t", Batch((b"x" * 10_000,)).encode())[0] == 0
    eventually(lambda: rests.timers[0].cancelled())


def test_the_time_of_requests_counts_where_it_is_limited(broker: ottla.Broker, rests: Rests) -> None:
    limit(broker.address, "raw", request_percentage=0.001)
    with Raw(broker.address) as raw:
        asked = 0
        while not rests.begun:
            assert asked < 1000
            raw.ask(METADATA, 1, metadata_v1("t"))
            asked += 1
    assert 0 < rests.begun[0][0] <= 1000
