"""Partitions as clients of Kafka 0.7 see them: what is shown when, and what is not served."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ottla.broker.partitions.partition import Partition
from ottla.kafka07.broker.views import Fetched07, View07, Views07
from ottla.kafka07.records.messages import message_set, messages
from ottla.kafka07.records.produced_messages import Terms07, arrive
from ottla.kafka07.records.renderer import Kind07
from ottla.records.compression import codecs
from ottla.records.pauses import finish
from tests.support.machine07 import Machine07
from tests.support.producing import create, delete, produce


class Reading:
    """A machine with one topic, `t`, and its view for clients of 0.7."""

    def __init__(self, segment_bytes: int = 1 << 30) -> None:
        self.segment_bytes = segment_bytes
        self.machine = Machine07()
        create(self.machine, "t")
        self.began()

    def began(self) -> None:
        broker, log = self.machine.broker, self.partition.log
        log.config = replace(log.config, segment_bytes=self.segment_bytes)
        self.views = Views07(broker.partitions, broker.scheduler, broker.checks, self.machine.disk)

    @property
    def partition(self) -> Partition:
        found = self.machine.broker.partitions.get("t", 0)
        assert found is not None
        return found

    def refusal(self) -> str:
        found = self.views.view(self.partition, Kind07.PLAIN1)
        return found if isinstance(found, str) else ""

    def view(self, plain: Kind07 = Kind07.PLAIN1) -> View07:
        found = self.views.view(self.partition, plain)
        assert isinstance(found, View07), found
        return found

    def run(self, steps: Any) -> Any:
        over: list[Any] = []
        self.machine.broker.scheduler.begin(object(), steps, over.append, urgent=True)
        for _ in range(1000):
            if over:
                return over[0]
            self.machine.pass_time(1)
        raise AssertionError("it is not over")

    def fetch(self, position: int, max_bytes: int = 1 << 20) -> Fetched07:
        found: Fetched07 = self.run(self.view().fetch(position, max_bytes))
        return found

    def offsets(self, time_ms: int = -1, most: int = 10) -> list[int]:
        found: list[int] = self.run(self.view().offsets(time_ms, most))
        return found

    def append(self, data: bytes) -> int:
        runs = finish(arrive(data, Terms07(self.machine.clock.now().wall_ms))).runs
        return self.view().append(runs, self.machine.clock.now())


def payloads(fetched: Fetched07) -> list[bytes]:
    assert fetched.error_code == 0
    return [message.payload for message in messages(fetched.data)]


def test_a_client_sees_at_once_what_it_has_produced_byte_for_byte() -> None:
    reading = Reading()
    sent = message_set([b"a", b"bc"], magic=0) + message_set([b"def"] * 3, codec=codecs.GZIP) + message_set([b"", b"g"])
    assert reading.append(sent) == 0
    assert reading.fetch(0) == Fetched07(0, sent)
    assert reading.fetch(len(sent)) == Fetched07(0, b"")
    assert reading.offsets() == [len(sent), 0]


def test_what_todays_producers_wrote_comes_between() -> None:
    reading = Reading()
    first, last = message_set([b"x"] * 2, codec=codecs.SNAPPY), message_set([b"y"], magic=0)
    reading.append(first)
    produce(reading.machine, b"from today", b"and more")
    reading.append(last)
    expected = first + message_set([b"from today", b"and more"]) + last
    assert reading.fetch(0) == Fetched07(0, expected)
    assert [reading.fetch(at, 5).data for at in range(0, len(expected), 5)] == [
        expected[at : at + 5] for at in range(0, len(expected), 5)
    ]


def test_what_was_there_before_anybody_asked_is_seen_as_plain_messages() -> None:
    reading = Reading()
    for number in range(40):
        produce(reading.machine, b"value %d" % number)
    assert payloads(reading.fetch(0)) == [b"value %d" % number for number in range(40)]
    assert reading.fetch(0, 25).data == message_set([b"value 0", b"value 1"])[:25]


def test_a_reader_of_0_6_gets_messages_of_format_0() -> None:
    reading = Reading()
    produce(reading.machine, b"one", b"two")
    found: Fetched07 = reading.run(reading.view(Kind07.PLAIN0).fetch(0, 1000))
    assert found.data == message_set([b"one", b"two"], magic=0)
    assert reading.fetch(0).data == found.data, "what was shown once stays as it is"


def test_positions_outside_are_out_of_range() -> None:
    reading = Reading()
    reading.append(message_set([b"a"]))
    assert [reading.fetch(position).error_code for position in (-1, 12, 1 << 62)] == [1, 1, 1]
    assert reading.fetch(11) == Fetched07(0, b"")


def test_a_partition_without_messages_is_empty_at_0() -> None:
    reading = Reading()
    assert (reading.fetch(0), reading.fetch(1), reading.offsets()) == (Fetched07(0, b""), Fetched07(1, b""), [0])


@pytest.mark.parametrize("end", ["restart", "kill", "cut_power"])
def test_positions_are_the_same_after_a_restart(end: str) -> None:
    reading = Reading(segment_bytes=2000)
    for number in range(30):
        reading.append(message_set([b"%d" % number * 20] * 3, codec=codecs.GZIP if number % 3 else 0))
        produce(reading.machine, b"today %d" % number)
    before, position = [], 0
    while data := reading.fetch(position).data:
        before.append((position, data))
        position += len(data)
    listed = reading.offsets()
    assert len(before) > 2, "there are several segments"
    if end == "cut_power":
        reading.machine.cut_power(7)
    else:
        getattr(reading.machine, end)()
    reading.began()
    assert [(at, reading.fetch(at).data) for at, _ in before] == before
    assert (reading.offsets(), listed[0]) == (listed, position)


def test_offsets_are_those_of_segments_by_the_time_of_their_last_write() -> None:
    reading = Reading(segment_bytes=1000)
    for number in range(4):
        reading.machine.disk.wall_ms = 1000 * (number + 1)
        reading.append(message_set([b"x" * 90] * 9))
    assert reading.offsets() == [3600, 2700, 1800, 900, 0]
    assert reading.offsets(most=2) == [3600, 2700]
    assert reading.offsets(-2) == [0]
    assert reading.offsets(3500) == [1800, 900, 0]
    assert reading.offsets(3000) == [1800, 900, 0]
    assert reading.offsets(999) == []
    assert reading.offsets(1 << 60) == [3600, 2700, 1800, 900, 0]
    assert reading.offsets(most=0) == []


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_compacted_topics_are_not_served_and_nothing_is_given_again_afterwards(policy: str) -> None:
    reading = Reading()
    reading.append(message_set([b"a"]))
    assert reading.fetch(0).error_code == 0
    reading.machine.set_topic("t", {"cleanup.policy": policy})
    assert "cleanup.policy=delete" in reading.refusal()
    reading.machine.set_topic("t", {"cleanup.policy": "delete"})
    assert payloads(reading.fetch(0)) == [b"a"]


def test_a_topic_that_was_deleted_and_made_again_begins_anew() -> None:
    reading = Reading()
    reading.append(message_set([b"old"]))
    assert reading.fetch(0).error_code == 0
    delete(reading.machine, "t")
    create(reading.machine, "t")
    reading.append(message_set([b"new"]))
    assert reading.fetch(0).data == message_set([b"new"])


def test_damage_ends_the_service_with_a_sentence_and_not_the_log() -> None:
    reading = Reading()
    reading.append(message_set([b"a"], codec=codecs.GZIP))
    reading.append(message_set([b"b"]))
    assert reading.fetch(0).error_code == 0
    reading.machine.restart()
    reading.machine.disk.flip_bit("t-0/00000000000000000000.positions07", 48 * 8 + 5)
    reading.began()
    assert reading.fetch(0).error_code == -1
    assert "remove all *.positions07" in reading.refusal()
    assert produce(reading.machine, b"goes on").error_code == 0


def test_nothing_is_kept_of_partitions_that_nobody_of_0_7_asked_for() -> None:
    reading = Reading()
    produce(reading.machine, b"a")
    assert not [name for name in reading.machine.disk.list("t-0") if "07" in name]


@pytest.mark.expects_errors("could not be written")
def test_a_disk_that_refuses_shows_nothing_and_goes_on_later() -> None:
    reading = Reading()
    reading.append(message_set([b"a"]))
    reading.machine.disk.capacity_bytes = reading.machine.disk.used_bytes
    failed = reading.fetch(0)
    reading.machine.disk.capacity_bytes = None
    assert failed == Fetched07(-1, b"")
    assert reading.fetch(0).data == message_set([b"a"])
