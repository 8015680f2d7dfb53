"""What a listener of Kafka 0.7 answers, and when it answers nothing or hangs up."""

from __future__ import annotations

import logging
import struct
from typing import Any

import pytest

from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Close, Peer
from ottla.cluster.acls import Operation, Resource
from ottla.kafka07.broker.views import Views07
from ottla.kafka07.records.messages import message_set
from ottla.kafka07.wire import (
    NONE,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN,
    WRONG_PARTITION,
    FetchRequest07,
    MultiFetchRequest07,
    MultiProduceRequest07,
    OffsetsRequest07,
    ProduceRequest07,
    encode_request,
)
from ottla.records.batches.builder import build
from tests.support.machine import Machine
from tests.support.machine07 import Machine07
from tests.support.messages import request
from tests.unit.broker.test_old_versions import PRODUCE, produced

HELLO = message_set([b"hello"])
METADATA, ALTER_QUOTAS = 3, 49
LATEST, EARLIEST = -1, -2


def topics(machine: Machine) -> dict[str, int]:
    return {topic.name: len(topic.partitions) for topic in machine.broker.image.topics.values()}


def test_what_was_produced_is_fetched_as_it_was_sent() -> None:
    machine = Machine07()
    assert machine.produce07("t", HELLO) is None
    assert machine.fetch07("t") == (NONE, HELLO)
    assert machine.produce07("t", message_set([b"of format 0"], magic=0)) is None
    assert machine.fetch07("t", len(HELLO)) == (NONE, message_set([b"of format 0"], magic=0))


def test_many_fetches_are_answered_together_each_with_its_error() -> None:
    machine = Machine07(num_partitions=2)
    machine.produce07("t", HELLO)
    asked = [
        ("t", 0, 0),
        ("t", 0, len(HELLO)),
        ("t", 0, len(HELLO) + 1),
        ("t", 1, 0),
        ("t", 2, 0),
        ("t", -1, 0),
        ("no", 1, 99),
        ("/", 0, 0),
    ]
    answer = machine.ask07(MultiFetchRequest07([FetchRequest07(*each, 1000) for each in asked]))
    found = [(each.error_code, bytes(each.messages)) for each in answer.responses]
    errors = [NONE, NONE, OFFSET_OUT_OF_RANGE, NONE, WRONG_PARTITION, WRONG_PARTITION, NONE, UNKNOWN]
    assert found == [(error, HELLO if at == 0 else b"") for at, error in enumerate(errors)]
    assert answer.error_code == NONE


def test_no_fetches_at_all_have_an_empty_answer() -> None:
    assert Machine07().send07(encode_request(MultiFetchRequest07([]))) == b"\0\0"


def test_a_fetch_of_nobody_knows_what_finds_nothing_since_0_7_and_no_offset_in_0_6() -> None:
    assert Machine07("0.7").fetch07("t", 5) == (NONE, b"")
    assert Machine07("0.6").fetch07("t", 0) == (NONE, b"")
    assert Machine07("0.6").fetch07("t", 5) == (OFFSET_OUT_OF_RANGE, b"")


@pytest.mark.parametrize("partition", [-1, 1])
def test_a_partition_that_cannot_be_is_wrong_whether_its_topic_is_known_or_not(partition: int) -> None:
    machine = Machine07()
    machine.produce07("t", HELLO)
    for topic in ("t", "unknown"):
        assert machine.fetch07(topic, 0, partition) == (WRONG_PARTITION, b"")


def test_no_bytes_may_be_asked_for_but_not_fewer() -> None:
    machine = Machine07()
    machine.produce07("t", HELLO)
    assert machine.fetch07("t", max_bytes=0) == (NONE, b"")
    assert machine.fetch07("t", max_bytes=7) == (NONE, HELLO[:7])
    negative = FetchRequest07("t", 0, 0, -1)
    assert isinstance(machine.ask07(negative), Close)
    assert isinstance(machine.ask07(MultiFetchRequest07([FetchRequest07("t", 0, 0, 10), negative])), Close)


def test_answers_have_no_more_than_all_may_share() -> None:
    machine = Machine07(fetch_max_bytes=2000)
    machine.produce07("t", message_set([bytes(500)] * 10))
    error_code, data = machine.fetch07("t")
    assert (error_code, len(data)) == (NONE, 2000)
    fetches = [FetchRequest07("t", 0, 0, 900)] * 5
    answer = machine.ask07(MultiFetchRequest07(fetches))
    assert sorted(len(each.messages) for each in answer.responses) == [0, 0, 0, 900, 900]


def test_offsets_before_a_time_are_those_of_segments() -> None:
    machine = Machine07()
    machine.produce07("t", HELLO)
    assert machine.offsets07("t", LATEST) == [len(HELLO), 0]
    assert machine.offsets07("t", LATEST, 1) == [len(HELLO)]
    assert machine.offsets07("t", EARLIEST) == [0]
    assert machine.offsets07("t", LATEST, 0) == []


def test_offsets_of_what_is_not_there_are_those_of_an_empty_log() -> None:
    machine = Machine07()
    assert machine.offsets07("t", LATEST) == machine.offsets07("t", EARLIEST) == [0]
    assert machine.offsets07("t", 1234) == []
    assert topics(machine) == {}


@pytest.mark.parametrize(("topic", "partition", "most"), [("t", 1, 1), ("t", -1, 1), ("/", 0, 1), ("t", 0, -1)])
def test_offsets_that_cannot_be_asked_for_end_the_connection(topic: str, partition: int, most: int) -> None:
    machine = Machine07()
    machine.produce07("t", HELLO)
    assert isinstance(machine.ask07(OffsetsRequest07(topic, partition, LATEST, most)), Close)


@pytest.mark.parametrize("messages", [HELLO, b""])
def test_the_first_produce_makes_the_topic_even_one_of_nothing(messages: bytes) -> None:
    machine = Machine07(num_partitions=3)
    assert machine.produce07("t", messages, 2) is None
    assert topics(machine) == {"t": 3}
    assert machine.fetch07("t", 0, 2) == (NONE, messages)


def test_a_bad_set_makes_the_topic_and_ends_the_connection() -> None:
    machine = Machine07()
    assert isinstance(machine.produce07("t", HELLO[:-1] + b"!"), Close)
    assert topics(machine) == {"t": 1}
    assert machine.fetch07("t") == (NONE, b"")


@pytest.mark.parametrize("topic", ["", ".", "a/b", "x" * 250, "with space", "__consumer_offsets"])
def test_a_topic_that_cannot_be_is_not_made(topic: str) -> None:
    machine = Machine07()
    assert isinstance(machine.produce07(topic, HELLO), Close)
    assert topics(machine) == {}


def test_no_topic_is_made_where_none_may_be() -> None:
    machine = Machine07(auto_create_topics_enable=False)
    assert "auto.create.topics.enable" in machine.produce07("t", HELLO).reason
    assert topics(machine) == {}


@pytest.mark.parametrize("partition", [-2, 2])
def test_messages_for_a_partition_that_cannot_be_end_the_connection(partition: int) -> None:
    machine = Machine07(num_partitions=2)
    assert isinstance(machine.produce07("t", HELLO, partition), Close)
    assert topics(machine) == {}
    machine.produce07("t", HELLO, 0)
    assert isinstance(machine.produce07("t", HELLO, partition), Close)


def test_messages_for_no_partition_in_particular_go_to_any() -> None:
    machine = Machine07(num_partitions=3)
    for _ in range(60):
        assert machine.produce07("t", HELLO, -1) is None
    found = [len(machine.read07("t", index)) for index in range(3)]
    assert sum(found) == 60 * len(HELLO)
    assert all(found)


def test_many_sets_are_appended_up_to_the_first_bad_one() -> None:
    machine = Machine07()
    good, bad = ProduceRequest07("a", 0, HELLO), ProduceRequest07("b", 0, b"\xff" * 20)
    assert isinstance(machine.ask07(MultiProduceRequest07([good, bad, ProduceRequest07("c", 0, HELLO)])), Close)
    assert topics(machine) == {"a": 1, "b": 1}
    assert machine.fetch07("a") == (NONE, HELLO)
    assert machine.ask07(MultiProduceRequest07([good, ProduceRequest07("c", 0, HELLO)])) is None
    assert machine.fetch07("c") == (NONE, HELLO)


def test_a_message_that_is_too_large_is_dropped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine07(message_max_bytes=100)
    large = message_set([b"small", bytes(101)])
    assert machine.ask07(MultiProduceRequest07([ProduceRequest07("t", 0, large), ProduceRequest07("t", 0, HELLO)])) is None
    assert machine.fetch07("t") == (NONE, HELLO)
    assert "a message of 101 bytes is too large" in caplog.text


def test_what_0_6_did_not_know_is_bad_there() -> None:
    machine = Machine07("0.6")
    assert isinstance(machine.produce07("t", HELLO), Close)
    assert machine.produce07("t", message_set([b"of format 0"], magic=0)) is None
    assert machine.fetch07("t") == (NONE, message_set([b"of format 0"], magic=0))


FETCH, PRODUCE07 = FetchRequest07("t", 0, 0, 9), ProduceRequest07("t", 0, HELLO)
MANY = MultiFetchRequest07([FETCH]), MultiProduceRequest07([PRODUCE07])
NOT_SOUND = [
    b"",
    b"\0",
    b"\0\5",
    b"\xff\xff",
    *(encode_request(each)[:-1] for each in (FETCH, PRODUCE07, OffsetsRequest07("t", 0, 0, 9), *MANY)),
    b"\0\2\xff\xff",
    b"\0\3\x7f\xff",
    struct.pack(">hh1sii", 0, 1, b"t", 0, -1),
    struct.pack(">hh1siqi", 1, 1, b"\xff", 0, 0, 9),
]


@pytest.mark.parametrize("frame", NOT_SOUND)
def test_a_frame_that_is_no_request_ends_the_connection_and_does_nothing(frame: bytes) -> None:
    machine = Machine07()
    assert isinstance(machine.send07(frame), Close)
    assert topics(machine) == {}


def test_bytes_after_a_request_mean_nothing() -> None:
    machine = Machine07()
    machine.produce07("t", HELLO)
    frame = encode_request(FetchRequest07("t", 0, 0, 1000)) + b"more"
    assert machine.send07(frame) == b"\0\0" + HELLO


def test_a_fetch_of_very_many_keeps_nobody_waiting() -> None:
    machine = Machine07()
    machine.produce07("t", HELLO)
    frame = encode_request(MultiFetchRequest07([FetchRequest07("t", 0, 0, 100)] * 32767))
    pending = machine.begin07(frame)
    assert isinstance(pending, DelayedReply)
    assert machine.fetch07("t") == (NONE, HELLO)
    assert not pending.done
    while not pending.done:
        machine.pass_time(1)
    assert len(b"".join(bytes(part) for part in pending.answer)) == 6 + 32767 * (6 + len(HELLO))


def test_a_frame_that_is_lent_may_be_overwritten_while_it_is_served() -> None:
    machine = Machine07()
    frame = bytearray(encode_request(MultiProduceRequest07([ProduceRequest07("t", 0, HELLO)] * 1000)))
    answer = machine.broker.receive(memoryview(frame), machine.peer07, machine.clock.now())
    frame[:] = bytes(len(frame))
    assert isinstance(answer, DelayedReply)
    while not answer.done:
        machine.pass_time(1)
    assert answer.answer is None
    assert machine.read07("t") == HELLO * 1000


def test_what_is_compacted_is_not_served(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine07(log_cleanup_policy="compact")
    assert isinstance(machine.produce07("t", HELLO), Close)
    assert machine.fetch07("t") == (UNKNOWN, b"")
    assert isinstance(machine.ask07(OffsetsRequest07("t", 0, LATEST, 1)), Close)
    assert "clients of Kafka 0.7 are not served from t-0" in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


class Allows:
    """Lets everybody do these things to the topic "t"."""

    def __init__(self, *operations: Operation) -> None:
        self._operations = operations

    def allows(self, peer: Peer, operation: Operation, resource: Resource, name: str) -> bool:
        return operation in self._operations and (resource, name) == (Resource.TOPIC, "t")


def test_who_may_not_write_is_hung_up_on() -> None:
    machine = Machine07(authorizer=Allows(Operation.READ, Operation.CREATE))
    assert "may not write" in machine.produce07("t", HELLO).reason
    assert topics(machine) == {}


def test_who_may_not_make_topics_makes_none() -> None:
    machine = Machine07(authorizer=Allows(Operation.WRITE))
    assert "may not create" in machine.produce07("t", HELLO).reason
    assert topics(machine) == {}


def test_who_may_not_read_is_told_that_something_failed() -> None:
    machine = Machine07(authorizer=Allows(Operation.WRITE, Operation.CREATE))
    assert machine.produce07("t", HELLO) is None
    assert machine.fetch07("t") == (UNKNOWN, b"")
    assert "may not describe" in machine.ask07(OffsetsRequest07("t", 0, LATEST, 1)).reason


def test_who_may_reads_and_writes() -> None:
    machine = Machine07(authorizer=Allows(Operation.WRITE, Operation.CREATE, Operation.READ, Operation.DESCRIBE))
    assert machine.produce07("t", HELLO) is None
    assert machine.fetch07("t") == (NONE, HELLO)
    assert machine.offsets07("t", LATEST) == [len(HELLO), 0]


def test_who_has_used_up_a_quota_rests() -> None:
    machine = Machine07()
    entity = {"entity_type": "user", "entity_name": None}
    for key in ("producer_byte_rate", "consumer_byte_rate"):
        entry = {"entity": [entity], "ops": [{"key": key, "value": 100.0, "remove": False}]}
        machine.ask(ALTER_QUOTAS, 1, request(ALTER_QUOTAS, 1, entries=[entry], validate_only=False))
    machine.produce07("t", message_set([bytes(5000)]))
    assert machine.rest_ms > 0
    assert machine.offsets07("t", EARLIEST) == [0]
    assert machine.rest_ms == 0
    assert len(machine.fetch07("t")[1]) > 5000
    assert machine.rest_ms > 0


@pytest.mark.expects_errors("met a bug in Ottla")
def test_a_mistake_costs_its_request_alone(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine07()
    machine.produce07("t", HELLO)

    def mistaken(*args: object) -> Any:
        raise IndexError("nobody foresaw it")

    with monkeypatch.context() as patch:
        patch.setattr(Views07, "view", mistaken)
        assert machine.fetch07("t") == (UNKNOWN, b"")
        assert isinstance(machine.ask07(OffsetsRequest07("t", 0, LATEST, 1)), Close)
        assert isinstance(machine.produce07("t", HELLO), Close)
    assert machine.broker.changes.mistakes == 3
    assert "nobody foresaw it" in caplog.text
    assert machine.fetch07("t") == (NONE, HELLO)


@pytest.mark.parametrize(("release", "magic"), [("0.6", 0), ("0.7", 1)])
def test_a_topic_of_today_is_read_from_its_beginning_in_the_format_of_the_release(release: str, magic: int) -> None:
    machine = Machine07(release)
    machine.ask(METADATA, 4, request(METADATA, 4, topics=[{"name": "t"}], allow_auto_topic_creation=True))
    machine.ask(PRODUCE, 9, produced("t", bytes(build(None, [b"hello"], 1)), version=9))
    assert machine.read07("t") == message_set([b"hello"], magic=magic)
