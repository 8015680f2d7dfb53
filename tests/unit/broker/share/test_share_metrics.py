"""The metrics of share groups at a leader."""

from __future__ import annotations

from ottla.wire.errors import INVALID_REQUEST
from tests.support.machine import Machine
from tests.support.producing import create, produce
from tests.support.share_members import ACCEPT, PlayedMember, initialize
from tests.unit.broker.metrics.test_broker_metrics import TOPICS, snapshot

SESSIONS = "kafka_server_sharesessioncache_"


def test_sessions_records_in_flight_and_acknowledgements_are_counted() -> None:
    machine = Machine(group_share_record_lock_duration_ms=15_000)
    create(machine, "t", 2)
    initialize(machine)
    produce(machine, *[b"x"] * 5)
    member = PlayedMember(machine, "m", "g", ("t", 0), ("t", 1))
    member.fetch(max_wait_ms=1000)
    member.acknowledge(("t", 0, [(0, 1, [ACCEPT])]))
    assert member.acknowledge(("t", 0, [(1, 0, [ACCEPT])])) == {("t", 0): INVALID_REQUEST}
    found = snapshot(machine)
    assert found[f"{SESSIONS}sharesessionscount"][()] == 1
    assert found[f"{SESSIONS}sharepartitionscount"][()] == 2
    assert found["kafka_server_sharepartitionmetrics_inflightmessagecount"]["g", "t", "0"] == 3
    assert found[f"{TOPICS}totalshareacknowledgementrequests_total"][()] == 2
    assert found[f"{TOPICS}failedshareacknowledgementrequests_total"][()] == 1
    assert found["ottla_share_acquired_records_total"][()] == 5
    machine.pass_time(20_000)
    machine.broker.on_disconnect(machine.peer)
    found = snapshot(machine)
    assert found["ottla_share_expired_locks_total"][()] == 1
    assert found[f"{SESSIONS}sharesessionevictions_total"][()] == 1
    assert found[f"{SESSIONS}sharesessionscount"][()] == 0
