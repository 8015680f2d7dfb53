"""The metrics of a leader in a cluster, and of groups and topics on a broker alone, as machines."""

from __future__ import annotations

from typing import Any

from ottla.broker.metrics.declaration import Distribution, MetricRows
from ottla.broker.metrics.snapshots import FRESH_MS
from ottla.wire.errors import MESSAGE_TOO_LARGE
from tests.support.machine import Machine
from tests.support.producing import create, produce
from tests.unit.broker.test_follower_fetches import EPOCH, Leader

REPLICAS = "kafka_server_replicamanager_"
TOPICS = "kafka_server_brokertopicmetrics_"


def snapshot(machine: Machine) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the values of all metrics, by name and labels."""
    found: list[MetricRows] = []
    machine.broker.snapshots().request(found.append)
    for _ in range(100):
        if found:
            break
        machine.pass_time(10)
    (rows,) = found
    return {
        metric.name: {labels: value for labels, value in column if not isinstance(value, Distribution)}
        for metric, column in rows.rows.items()
    }


def test_a_leader_counts_replicas_that_fall_behind_and_come_back() -> None:
    leader = Leader()
    leader.append(b"1")
    leader.fetched(1, 3)
    before = snapshot(leader)
    assert before[f"{REPLICAS}leadercount"][()] == before[f"{REPLICAS}partitioncount"][()] == 1
    assert before[f"{REPLICAS}underreplicatedpartitions"][()] == 0
    leader.pass_time(60_000)
    replicas: Any = leader.replica().replicas
    gone = tuple(sorted(set(replicas.pending.isr)))
    leader.replica().isr_changed(replicas.pending, gone, EPOCH, replicas.partition_epoch + 1, leader.clock.now())
    after = snapshot(leader)
    assert after[f"{REPLICAS}underreplicatedpartitions"][()] == 1
    assert after[f"{REPLICAS}isrshrinks_total"][()] == 1
    assert after[f"{REPLICAS}isrexpands_total"][()] == 0
    leader.fetched(1, 2)
    leader.fetched(1, 3)
    wanted = tuple(sorted(set(replicas.pending.isr)))
    leader.replica().isr_changed(replicas.pending, wanted, EPOCH, replicas.partition_epoch + 1, leader.clock.now())
    assert snapshot(leader)[f"{REPLICAS}isrexpands_total"][()] == 1


def test_bytes_to_followers_are_not_those_to_consumers() -> None:
    leader = Leader()
    leader.append(b"1")
    size = leader.replica().log.size_bytes
    leader.fetched(0, 2)
    found = snapshot(leader)
    assert found[f"{TOPICS}replicationbytesout_total"][()] == size
    assert found[f"{TOPICS}bytesout_total"][()] == 0


def test_a_broker_that_is_not_the_controller_counts_no_partitions_without_a_leader() -> None:
    found = snapshot(Leader())
    assert found["kafka_controller_kafkacontroller_activecontrollercount"][()] == 0
    assert found["kafka_controller_kafkacontroller_offlinepartitionscount"][()] == 0


def test_a_refused_batch_is_counted_as_failed_and_not_as_bytes() -> None:
    machine = Machine()
    create(machine, "small", max_message_bytes=100)
    assert produce(machine, bytes(500), topic="small").error_code == MESSAGE_TOO_LARGE
    found = snapshot(machine)
    assert found[f"{TOPICS}failedproducerequests_total"]["small",] == found[f"{TOPICS}totalproducerequests_total"]["small",] == 1
    assert found[f"{TOPICS}bytesin_total"]["small",] == found[f"{TOPICS}messagesin_total"]["small",] == 0


def test_two_snapshots_within_half_a_second_are_one() -> None:
    machine, found = Machine(), list[MetricRows]()
    snapshots = machine.broker.snapshots()
    for _ in range(2):
        snapshots.request(found.append)
        machine.pass_time(FRESH_MS // 2)
    assert found[0] is found[1]
