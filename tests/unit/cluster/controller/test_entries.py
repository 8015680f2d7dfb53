"""The registry's entries, as releases from 0.8 to 3.9 write them."""

from __future__ import annotations

from functools import partial

import pytest

from ottla.cluster import layout
from ottla.cluster.controller import entries
from ottla.cluster.controller.context import RECOVERING, Endpoint, LeaderAndIsr, ReplicaAssignment
from ottla.ports import Entry

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
