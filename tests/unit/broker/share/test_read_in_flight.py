"""Records in flight as a broker reads them: of the queries' groups and topics, of failed loads, and after a bug in a read."""

from __future__ import annotations

import logging

import pytest

from ottla.broker.share import in_flight
from ottla.broker.share.in_flight import read_in_flight
from ottla.share.in_flight_rows import GroupInFlight, InFlightQuery, InFlightReader
from ottla.wire.errors import COORDINATOR_NOT_AVAILABLE
from tests.support.machine import Machine
from tests.support.producing import create, produce
from tests.support.share_members import ACCEPT, PlayedMember, initialize


def read(machine: Machine, *queries: InFlightQuery) -> dict[str, GroupInFlight]:
    """Read as a job of the scheduler does."""
    found = list[dict[str, GroupInFlight]]()
    steps = read_in_flight(machine.broker.shares, queries, machine.clock.now().mono_ms)
    machine.broker.scheduler.begin("read", steps, found.append)
    while not found:
        machine.pass_time(1)
    return found[0]


def asked(group_id: str = "g", *topics: str) -> InFlightQuery:
    return InFlightQuery(group_id, frozenset(topics or ("t",)))


@pytest.fixture
def machine() -> Machine:
    machine = Machine()
    create(machine, "t", 2)
    initialize(machine)
    produce(machine, *[b"x"] * 5)
    member = PlayedMember(machine, "m", "g", ("t", 0), ("t", 1))
    member.fetch(max_wait_ms=1000)
    member.acknowledge(("t", 0, [(1, 1, [ACCEPT])]))
    return machine


def test_rows_of_the_groups_and_topics_of_a_query_are_read(machine: Machine) -> None:
    found = read(machine, asked(), asked("other"))
    rows = [(row.topic, row.partition, row.first_offset, row.last_offset, row.state, row.member_id) for row in found["g"].rows]
    assert rows == [("t", 0, 0, 0, "acquired", "m"), ("t", 0, 1, 1, "acknowledged", ""), ("t", 0, 2, 4, "acquired", "m")]
    assert found["g"].acquired == {("t", 0): 4, ("t", 1): 0}
    assert found["other"].rows == []
    assert read(machine, asked("g", "u"))["g"].acquired == {}, "a topic that the visitor may not describe"


def test_a_dropped_share_partition_is_left_out(machine: Machine) -> None:
    machine.broker.on_disconnect(machine.peer)
    machine.pass_time(100)
    assert read(machine, asked())["g"].acquired == {}


def test_a_share_partition_that_could_not_be_loaded_has_the_name_of_its_error(machine: Machine) -> None:
    led = machine.broker.shares.get("g", machine.broker.image.topics["t"].topic_id, 1)
    assert led is not None
    led.failure = COORDINATOR_NOT_AVAILABLE, None
    found = read(machine, asked())["g"]
    assert (found.failures, found.acquired) == ({("t", 1): "COORDINATOR_NOT_AVAILABLE"}, {("t", 0): 4})


@pytest.mark.expects_errors("could not be read")
def test_a_bug_in_a_read_costs_that_read_alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class BrokenReader(InFlightReader):
        def read(self, topic: object, partition: object) -> object:  # type: ignore[override]  # it is broken
            raise IndexError("a bug")

    monkeypatch.setattr(in_flight, "InFlightReader", BrokenReader)
    with caplog.at_level(logging.ERROR):
        assert read(machine, asked()) == {}
    assert "please report these lines" in caplog.text
    monkeypatch.undo()
    assert read(machine, asked())["g"].held == {"m": 4}
