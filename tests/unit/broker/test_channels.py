"""What a broker asks others, and itself: frames on links, numbers, addresses and lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ottla.broker.failures import Changes
from ottla.broker.interbroker.channels import Channels
from ottla.broker.interbroker.loopback import Answered, Within
from ottla.broker.scheduler import Scheduler
from ottla.broker.security.rights import ITSELF
from ottla.broker.serving.request import Peer
from ottla.broker.settings import BrokerSettings, SettingsInForce
from ottla.cluster.image import BrokerImage, ClusterImage
from ottla.ports import BrokerLink, Buffer, Now
from ottla.sim.clock import SimClock
from ottla.wire.api.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from ottla.wire.framing import decode_request, encode_response
from ottla.wire.schema import Message

ME, OTHER = 1, 2
KEY, VERSION = 7, 3


class Wire:
    """A link whose frames the test answers."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, Any, Callable[[memoryview | None], None]]] = []
        self.is_closed = False

    def send(self, frame: Sequence[Buffer], timeout_ms: int, answered: Callable[[memoryview | None], None]) -> None:
        whole = b"".join(frame)
        assert int.from_bytes(whole[:4], "big") == len(whole) - 4
        self.sent.append((*decode_request(whole[4:]), answered))

    def close(self) -> None:
        self.is_closed = True
        for _, _, answered in self.sent:
            answered(None)
        self.sent.clear()

    def answer(self, body: Any, number: int | None = None) -> None:
        header, _, answered = self.sent.pop(0)
        parts = encode_response(header.correlation_id if number is None else number, KEY, VERSION, body)
        answered(memoryview(b"".join(parts))[4:])


class Wires:
    def __init__(self) -> None:
        self.opened: list[tuple[str, int, Wire]] = []

    def open(self, host: str, port: int, receive_buffer_bytes: int) -> BrokerLink:
        self.opened.append((host, port, Wire()))
        return self.opened[-1][2]


class House:
    """A broker's channels with what they are made of. `serve` is its way in."""

    def __init__(self, **settings: str) -> None:
        self.clock = SimClock()
        self.scheduler = Scheduler(self.clock)
        self.wires = Wires()
        self.image = ClusterImage()
        self.image.brokers[OTHER] = BrokerImage(OTHER, (("CLIENTS", "outside", 1), ("PLAINTEXT", "inside", 2)))
        self.served: list[Any] = []
        self.is_mistaken = False
        self.waiting: list[Answered] = []
        self.within = Within(self.scheduler, Changes(), self._serve)
        in_force = SettingsInForce(BrokerSettings.parse({name.replace("_", "."): text for name, text in settings.items()}))
        self.channels = Channels(ME, self.wires, self.image, in_force, self.within)
        self.heard: list[Any] = []

    def _serve(self, message: Message, version: int, peer: Peer, now: Now, answered: Answered) -> None:
        assert peer is ITSELF
        if self.is_mistaken:
            raise LookupError
        self.served.append((message, version))
        self.waiting.append(answered)

    def ask(self, node_id: int, broker_id: int = 5, lane: str = "controller", **options: Any) -> None:
        request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=7)
        self.channels.request(node_id, request, VERSION, self.heard.append, lane=lane, timeout_ms=1000, **options)

    def run(self) -> None:
        while (due_ms := self.scheduler.next_ms()) is not None and due_ms <= self.clock.now().mono_ms:
            self.scheduler.run_due(self.clock.now())


def test_a_request_goes_to_the_listener_between_brokers_and_its_answer_comes_back() -> None:
    house = House()
    house.ask(OTHER)
    ((host, port, wire),) = house.wires.opened
    assert (host, port) == ("inside", 2)
    ((header, body, _),) = wire.sent
    assert (header.api_key, header.api_version, header.client_id) == (KEY, VERSION, "broker-1-controller")
    assert (body.broker_id, body.broker_epoch) == (5, 7)
    wire.answer(ControlledShutdownResponse(error_code=3))
    assert [heard.error_code for heard in house.heard] == [3]


def test_the_listener_between_brokers_is_the_one_of_the_settings() -> None:
    house = House(inter_broker_listener_name="clients")
    house.ask(OTHER)
    assert house.wires.opened[0][:2] == ("outside", 1)


def test_each_lane_has_a_connection_of_its_own_and_keeps_it() -> None:
    house = House()
    for lane in ("a", "b", "a"):
        house.ask(OTHER, lane=lane)
    assert [len(wire.sent) for _, _, wire in house.wires.opened] == [2, 1]
    numbers = [header.correlation_id for _, _, wire in house.wires.opened for header, _, _ in wire.sent]
    assert len(set(numbers)) == 3


def test_a_broker_that_moved_is_reached_at_its_new_address() -> None:
    house = House()
    house.ask(OTHER)
    house.image.brokers[OTHER] = BrokerImage(OTHER, (("PLAINTEXT", "moved", 3),))
    house.ask(OTHER)
    (_, _, old), (host, port, _) = house.wires.opened
    assert old.is_closed
    assert (host, port) == ("moved", 3)
    assert house.heard == [None]


def test_who_knows_a_broker_before_the_image_does_names_its_address() -> None:
    house = House()
    house.ask(9, address=("early", 4))
    assert house.wires.opened[0][:2] == ("early", 4)


def test_a_broker_that_is_not_known_is_not_reached_and_nobody_is_called_back_at_once() -> None:
    house = House()
    house.ask(9)
    assert house.heard == []
    house.run()
    assert house.heard == [None]


@pytest.mark.parametrize("answer", [b"", b"\0\0\0\1", b"\0\0\0\1\0\0\0\0"])
def test_an_answer_that_cannot_be_read_is_none(answer: bytes, caplog: pytest.LogCaptureFixture) -> None:
    house = House()
    house.ask(OTHER)
    house.wires.opened[0][2].sent[0][2](memoryview(answer))
    assert house.heard == [None]
    assert "inter.broker.protocol.version" in caplog.text


def test_an_answer_to_another_request_is_none() -> None:
    house = House()
    house.ask(OTHER)
    house.wires.opened[0][2].answer(ControlledShutdownResponse(), number=99)
    assert house.heard == [None]


def test_forgetting_a_broker_closes_its_connections_and_answers_who_waits() -> None:
    house = House()
    house.ask(OTHER, lane="a")
    house.ask(OTHER, lane="b")
    house.channels.forget(OTHER, "a")
    assert [wire.is_closed for _, _, wire in house.wires.opened] == [True, False]
    house.channels.close()
    assert house.heard == [None, None]


def test_a_request_to_this_broker_itself_needs_no_connection_and_no_bytes() -> None:
    house = House()
    house.ask(ME)
    assert house.served == [] == house.heard
    house.run()
    assert house.served == [(ControlledShutdownRequest(broker_id=5, broker_epoch=7), VERSION)]
    response = ControlledShutdownResponse()
    house.waiting.pop()(response)
    assert house.heard == []
    house.run()
    assert house.heard == [response]
    assert house.wires.opened == []


def test_requests_of_one_lane_to_this_broker_wait_for_each_other_and_those_of_others_do_not() -> None:
    house = House()
    for number, lane in enumerate(["a", "a", "b"]):
        house.ask(ME, number, lane)
    house.run()
    assert [body.broker_id for body, _ in house.served] == [0, 2]
    house.waiting.pop(0)(None)
    house.run()
    assert [body.broker_id for body, _ in house.served] == [0, 2, 1]
    assert house.heard == [None]


@pytest.mark.expects_errors("met a bug")
def test_a_mistake_in_serving_this_broker_itself_costs_that_request_alone(caplog: pytest.LogCaptureFixture) -> None:
    house = House()
    house.is_mistaken = True
    house.ask(ME)
    house.run()
    assert house.heard == [None]
    assert "met a bug" in caplog.text
    house.is_mistaken = False
    house.ask(ME)
    house.run()
    assert len(house.served) == 1
