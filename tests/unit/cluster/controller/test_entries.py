"""The registry's entries, as releases from 0.8 to 3.9 write them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from ottla.cluster import layout, topics
from ottla.cluster.controller_rules import entries, reassignments
from ottla.cluster.controller_rules.context import RECOVERING, Endpoint, LeaderAndIsr, ReplicaAssignment
from ottla.cluster.image import ClusterImage
from ottla.cluster.registry_entries import apply_entry
from ottla.ports import Entry
from tests.support.broker_entry import broker_json

TOPIC_ID = bytes(range(16))


def test_registrations_of_every_version_are_read() -> None:
    newest = (
        b'{"features":{"f":{"min_version":1,"max_version":3}},"listener_security_protocol_map":{"IN":"SASL_SSL"},'
        b'"endpoints":["IN://[::1]:9093"],"jmx_port":-1,"port":-1,"host":null,"version":5,"timestamp":"1","rack":"a"}'
    )
    read = entries.broker(3, Entry(newest, 1, 77))
    assert (read.node_id, read.epoch, read.rack, read.features) == (3, 77, "a", (("f", 1, 3),))
    assert read.endpoint("IN") == Endpoint("IN", "::1", 9093, 3)
    oldest = entries.broker(1, Entry(b'{"version":1,"host":"h","port":9092,"jmx_port":1,"timestamp":"1"}', 0, 5))
    assert oldest.endpoints == (Endpoint("PLAINTEXT", "h", 9092, 0),)


def test_topics_are_read_as_they_were_written() -> None:
    assignments = {0: ReplicaAssignment((1, 2)), 1: ReplicaAssignment((2, 3, 1), (3,), (1,))}
    assert entries.topic(Entry(entries.topic_value(TOPIC_ID, assignments), 4)) == (TOPIC_ID, assignments, 4)
    assert entries.topic(Entry(b'{"version":1,"partitions":{"0":[1]}}', 0)) == (None, {0: ReplicaAssignment((1,))}, 0)
    ours = entries.topic(Entry(layout.topic_json(TOPIC_ID, {0: (1, 2)}), 0))
    assert ours == (TOPIC_ID, {0: ReplicaAssignment((1, 2))}, 0)


def test_states_are_read_as_they_were_written() -> None:
    state = LeaderAndIsr(2, 5, (2, 3), RECOVERING, 9, 4)
    assert entries.state(Entry(entries.state_value(state), 4)) == state
    recovered = state._replace(leader_recovery_state=0)
    assert b"recovery" not in entries.state_value(recovered)
    assert entries.state(Entry(entries.state_value(recovered), 4)) == recovered


def test_notifications_are_read() -> None:
    assert entries.changed_isrs(b'{"version":1,"partitions":[{"topic":"t","partition":2}]}') == [("t", 2)]
    assert entries.failed_broker(b'{"version":1,"broker":4,"event":1}') == 4
    assert entries.controller(b'{"version":1,"brokerid":4,"timestamp":"1"}') == 4


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"partitions":{"x":[1]}}', b'{"partitions":[1]}', b"\xff"])
def test_what_can_not_be_understood_is_a_value_error(value: bytes) -> None:
    for understand in (entries.topic, entries.state, partial(entries.broker, 1)):
        with pytest.raises(ValueError, match=r"."):
            understand(Entry(value, 0))


def image_of(path: str, value: bytes) -> object:
    image = ClusterImage()
    apply_entry(image, "/brokers/topics/t", layout.topic_json(TOPIC_ID, {0: (1, 2)}))
    apply_entry(image, path, value)
    return image.topics, image.brokers, image.controller_id


READERS: list[tuple[Callable[[bytes], object], bytes]] = [
    (lambda value: entries.topic(Entry(value, 0)), entries.topic_value(TOPIC_ID, {0: ReplicaAssignment((2, 3, 1), (3,), (1,))})),
    (lambda value: topics.parse_stored("t", Entry(value, 0)), layout.topic_json(TOPIC_ID, {0: (1, 2), 1: (2, 1)})),
    (lambda value: entries.state(Entry(value, 0)), entries.state_value(LeaderAndIsr(2, 5, (2, 3), RECOVERING, 9, 4))),
    (
        lambda value: entries.broker(3, Entry(value, 0)),
        layout.member_json([("IN", "h", 9093, "PLAINTEXT")], "a", 1, 5, {"group.version": 1}),
    ),
    (entries.changed_isrs, entries.changed_isrs_value([("t", 2)])),
    (entries.failed_broker, entries.failed_broker_value(4)),
    (entries.controller, layout.controller_json(4, 1)),
    (reassignments.moves_wanted, reassignments.value_of({("t", 0): [1, 2]})),
    (reassignments.elections_wanted, reassignments.value_of({("t", 0): [1, 2]})),
    (partial(image_of, "/brokers/topics/t"), layout.topic_json(TOPIC_ID, {0: (1, 2), 1: (2, 1)})),
    (partial(image_of, "/brokers/topics/t/partitions/0/state"), layout.state_json(1, 1, 3, (1, 2))),
    (partial(image_of, "/brokers/ids/1"), broker_json("h", 1, ["PLAINTEXT://h:1"], "a", 1)),
    (partial(image_of, "/controller"), layout.controller_json(4, 1)),
]
ODD = [
    None,
    True,
    -1,
    -3,
    1.5,
    1e400,
    float("nan"),
    2**31,
    2**63,
    10**40,
    "1",
    "",
    "\ud800",
    "x" * 40_000,
    [],
    [1, 1],
    ["1"],
    {},
    {"a": 1},
]


def odd_ones(value: Any, random: random.Random) -> Any:
    """The same entry with one of its parts replaced."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(sorted(value))
        return value | {key: odd_ones(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.7:
        at = random.randrange(len(value))
        return [*value[:at], odd_ones(value[at], random), *value[at + 1 :]]
    return random.choice(ODD)


def told(found: object) -> Iterator[object]:
    """Every number and text of what was read."""
    if isinstance(found, dict):
        for item in found.items():
            yield from told(item)
    elif isinstance(found, (list, tuple)):
        for one in found:
            yield from told(one)
    elif slots := getattr(found, "__slots__", ()):
        yield from (one for name in slots if name != "changed_ms" for one in told(getattr(found, name)))
    else:
        yield found


@pytest.mark.parametrize("seed", range(30))
def test_what_a_damaged_entry_says_can_be_told_in_a_request_or_is_a_value_error(seed: int) -> None:
    for read, value in READERS:
        for round_ in range(10):
            damaged = layout.json_bytes(odd_ones(layout.read(value), random.Random(f"{seed} {round_}")))
            try:
                found = read(damaged)
            except layout.NOT_UNDERSTOOD:
                continue
            for one in told(found):
                assert not isinstance(one, float), damaged
                assert not isinstance(one, int) or -(2**31) <= one < 2**31, damaged
                assert not isinstance(one, str) or len(one.encode()) < 2**15, damaged


@pytest.mark.parametrize("value", [b"[" * 100_000, b'{"a":' * 100_000, b"NaN", b"[]", b"1", b'{"a":1e400}', b'{"a":"\\ud800"}'])
def test_an_entry_that_is_no_object_or_can_not_be_told_is_a_value_error(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        layout.read(value)
