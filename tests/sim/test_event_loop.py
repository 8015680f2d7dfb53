"""The simulated event loop: its time is the world's, a process can stand still and end, and streams break as ordered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.client.errors import TimedOut
from ottla.net.client.link import Link
from ottla.sim.event_loop import SimEventLoop
from ottla.sim.host import Host
from ottla.sim.streams import StreamFaults, StreamNetwork
from ottla.sim.world import World
from ottla.wire.api.metadata import MetadataRequest


class Heard(asyncio.BufferedProtocol):
    """Notes how its connection ends."""

    def __init__(self) -> None:
        self.ends: list[Exception | None] = []

    def connection_lost(self, exc: Exception | None) -> None:
        self.ends.append(exc)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport


def loop_in(world: World, faults: StreamFaults | None = None) -> tuple[SimEventLoop, StreamNetwork, list[dict[str, Any]]]:
    errors: list[dict[str, Any]] = []
    network = StreamNetwork(world, faults or StreamFaults())
    return SimEventLoop(world, network, errors.append), network, errors


def test_sleeps_take_the_worlds_time_and_no_other() -> None:
    world = World(1)
    loop, _, errors = loop_in(world)

    async def program() -> list[float]:
        began = asyncio.get_running_loop().time()
        await asyncio.gather(asyncio.sleep(3_600), asyncio.sleep(0.0005))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(7):
                await asyncio.Event().wait()
        assert await asyncio.to_thread(lambda: 5) == 5
        return [began, asyncio.get_running_loop().time()]

    done = loop.spawn(program())
    world.run(10_000_000, until=done.done)
    assert done.result() == [0, 3_607]
    assert world.now_ms == 3_607_000
    assert not errors


def test_a_paused_process_goes_on_later_and_an_ended_one_never() -> None:
    world = World(1)
    loop, _, _ = loop_in(world)
    ticks: list[int] = []

    async def tick() -> None:
        while True:
            ticks.append(world.now_ms)
            await asyncio.sleep(1)

    loop.spawn(tick())
    world.run(2_500)
    loop.pause(3_000)
    world.run(4_000)
    assert ticks == [0, 1_000, 2_000, 5_500, 6_500]
    loop.end()
    world.run(10_000)
    loop.clear()
    assert len(ticks) == 5


def test_an_error_that_no_task_awaits_is_reported() -> None:
    world = World(1)
    loop, _, errors = loop_in(world)
    loop.call_later(1, lambda: 1 // 0)
    world.run(2_000)
    assert [type(each["exception"]) for each in errors] == [ZeroDivisionError]


def test_an_answer_that_is_late_to_the_last_bit_of_its_time_ends_a_link_at_once() -> None:
    world = World(1)
    loop, network, _ = loop_in(world)
    network.listen("broker", 9092, Host(world, {}))
    opening = loop.spawn(Link.open("broker", 9092, "client", 1_000, release="4.3"))
    world.run(100, until=opening.done)
    world.run(100 - world.now_ms)
    network.silence_all()
    outcomes: list[BaseException | None] = []
    assert 0.1 + 0.2 > 0.3, "the time at which the answer is late is no time that a clock in milliseconds shows"
    loop.call_soon(opening.result().call_back, MetadataRequest(), 200, lambda answer, error: outcomes.append(error))
    world.run(1_000, until=lambda: bool(outcomes) or loop.callbacks > 1_000)
    assert [type(each) for each in outcomes] == [TimedOut]
    assert world.now_ms == 300


@pytest.mark.parametrize(("power_cut", "ends"), [(False, [ConnectionResetError]), (True, [])])
def test_streams_to_a_broker_that_ends_are_reset_unless_its_power_fails(power_cut: bool, ends: list[type]) -> None:
    world = World(1)
    loop, network, _ = loop_in(world)
    host = Host(world, {})
    network.listen("broker", 9092, host)
    heard = Heard()
    connecting = loop.spawn(loop.create_connection(lambda: heard, "broker", 9092))
    world.run(1_000, until=connecting.done)
    assert connecting.result()[0] is heard.transport
    host.die(power_cut=power_cut)
    refused = loop.spawn(loop.create_connection(Heard, "broker", 9092))
    world.run(1_000)
    assert isinstance(refused.exception(), ConnectionRefusedError)
    assert [type(each) for each in heard.ends] == ends
