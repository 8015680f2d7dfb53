"""How often connections are taken in: of all listeners, of one, and of one address; and how many one listener has."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import pytest

import ottla
from ottla.broker.settings import BrokerSettings, SettingsInForce
from ottla.cluster.quotas import CONNECTION_CREATION_RATE, QuotaEntity
from ottla.net.server.acceptor import Acceptor
from ottla.net.server.connection import ServerConnection
from ottla.net.server.connection_limits import MOST_ADDRESSES, ConnectionLimits, ConnectionRates, ListenerLimits
from ottla.wire.api.alter_client_quotas import AlterClientQuotasRequest
from tests.support.fetching import talk
from tests.support.frames import Raw

HOST = "10.0.0.1"


class Door:
    """Limits with a clock that stands still until it is moved."""

    def __init__(self, quotas: Mapping[QuotaEntity, Mapping[str, float]] | None = None, **settings: object) -> None:
        self.now_ms = 0
        given = {name.replace("_", "."): str(value) for name, value in settings.items()}
        in_force = SettingsInForce(BrokerSettings(given))
        self.limits = ConnectionLimits(in_force, 10_000, lambda: False, quotas or {}, lambda: self.now_ms)

    def of(self, listener: str = "PLAINTEXT") -> ListenerLimits:
        return self.limits.of(listener)

    def taken(self, listener: ListenerLimits, tries: int, host: str = HOST) -> int:
        """How many of so many connections are taken in now."""
        count = 0
        for _ in range(tries):
            if listener.wait_ms():
                break
            count += listener.enter(host)
        return count


def rate_of(ip: str, rate: float) -> dict[QuotaEntity, dict[str, float]]:
    return {QuotaEntity(ip=ip): {CONNECTION_CREATION_RATE: rate}}


def test_an_address_that_connects_too_often_is_turned_away_after_a_while_and_others_are_not() -> None:
    door = Door(rate_of(HOST, 5), quota_window_num=2)
    one = door.of()
    assert [one.enter(HOST) for _ in range(6)] == [True] * 5 + [False]
    assert one.held_ms(HOST) == 200
    assert one.enter("10.0.0.2")
    door.now_ms = 200
    assert [one.enter(HOST) for _ in range(2)] == [True, False]


def test_the_rate_of_every_address_is_each_ones_own() -> None:
    door = Door(rate_of("", 2), quota_window_num=2)
    for host in ("10.0.0.1", "10.0.0.2"):
        assert door.taken(door.of(), 10, host) == 2
    assert door.of().held_ms("10.0.0.3") == 0


def test_over_a_minute_an_address_gets_its_rate() -> None:
    door = Door(rate_of(HOST, 7))
    one, count = door.of(), 0
    for door.now_ms in range(0, 60_000, 10):
        count += one.enter(HOST)
    assert count == pytest.approx(7 * 60 + 70, abs=2), "with what it may save up in ten windows"


def test_a_broker_and_each_listener_take_in_no_more_than_their_rate() -> None:
    door = Door(quota_window_num=2, listener_name_internal_max_connection_creation_rate=3, max_connection_creation_rate=10)
    internal, other = door.of("INTERNAL"), door.of()
    assert door.taken(internal, 20) == 3
    assert 300 < internal.wait_ms() < 400
    assert other.wait_ms() == 0
    assert door.taken(other, 20) == 7, "the rest of what the broker takes in"
    assert other.wait_ms() == 100


def test_a_rate_of_nothing_lets_nobody_in_and_asks_again_each_second() -> None:
    door = Door(max_connection_creation_rate=0)
    assert door.taken(door.of(), 5) <= 1
    assert door.of().wait_ms() == 1000


def test_a_listener_has_no_more_connections_than_it_may() -> None:
    door = Door(listener_name_internal_max_connections=2)
    internal = door.of("INTERNAL")
    assert door.taken(internal, 5) == 2
    assert door.taken(door.of(), 5) == 5
    internal.leave(HOST)
    assert door.taken(internal, 5) == 1


def test_one_address_does_not_lock_out_all_others() -> None:
    door = Door()
    assert door.taken(door.of(), 20_000) == 10_000 - 625
    assert door.taken(door.of(), 20_000, "10.0.0.2") == 625


def test_many_addresses_do_not_fill_the_memory() -> None:
    rates = ConnectionRates(SettingsInForce(BrokerSettings()), rate_of("", 1), lambda: 0)
    for number in range(2 * MOST_ADDRESSES + 10):
        rates.held_ms(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert rates.known_addresses <= MOST_ADDRESSES


def test_whoever_is_turned_away_hears_nothing_and_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    turned_away: list[str] = []
    turn_away = Acceptor._close_refused

    def counted(acceptor: Acceptor[ServerConnection], peer: socket.socket, host: str) -> None:
        turned_away.append(host)
        turn_away(acceptor, peer, host)

    monkeypatch.setattr(Acceptor, "_close_refused", counted)
    with ottla.Broker(quota_window_num=2) as broker:
        made = AlterClientQuotasRequest
        entry = made.EntryData(
            entity=[made.EntityData(entity_type="ip", entity_name=None)],
            ops=[made.OpData(key=CONNECTION_CREATION_RATE, value=2.0, remove=False)],
        )
        with Raw(broker.address) as raw:
            assert talk(raw)(49, 1, made(entries=[entry])).entries[0].error_code == 0
        served = 0
        while not turned_away:
            with Raw(broker.address) as raw:
                try:
                    served += raw.is_served()
                except EOFError:
                    break
        assert turned_away == ["127.0.0.1"]
        assert served >= 2
