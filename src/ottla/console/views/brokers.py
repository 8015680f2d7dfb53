"""Brokers and their log directories."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.console.cluster_session import ClusterSession
from ottla.console.declarations import PageRefused, Part
from ottla.console.views.overview import BrokerRow, broker_rows
from ottla.errors import KafkaError
from ottla.wire.errors import ERRORS

MOST_REPLICAS = 100
"""The replicas of a log directory that are shown, the largest first."""


@dataclass(frozen=True, slots=True)
class BrokerList:
    """All brokers that were seen."""

    brokers: list[BrokerRow]
    cluster_id: str
    troubles: list[str]


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """A replica in a log directory."""

    topic: str
    partition: int
    bytes: int
    lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirRow:
    """A log directory. `error` is Kafka's name of its error, or empty. Bytes are -1 if the broker does not say."""

    path: str
    error: str
    total_bytes: int
    usable_bytes: int
    replica_bytes: int
    replicas: int
    largest: list[ReplicaRow]
    is_cordoned: bool


@dataclass(frozen=True, slots=True)
class BrokerDetails:
    """One broker with its log directories."""

    broker: BrokerRow
    directories: Part[list[LogDirRow]]


async def brokers(cluster: ClusterSession) -> BrokerList:
    """Return all brokers, also those that do not answer any more."""
    watch = await cluster.read_brokers()
    troubles = [watch.trouble] if watch.trouble else []
    topics = {}
    try:
        topics = await cluster.topics()
    except KafkaError as error:
        troubles.append(str(error))
    return BrokerList(broker_rows(cluster, topics), watch.cluster_id or "", list(dict.fromkeys(troubles)))


async def broker(cluster: ClusterSession, node_id: int) -> BrokerDetails:
    """Return one broker with its log directories and their largest replicas."""
    found = next((each for each in (await brokers(cluster)).brokers if each.node_id == node_id), None)
    if found is None:
        raise PageRefused(404, f"There is no broker {node_id}.")
    answer = await cluster.part(f"directories {node_id}", lambda admin: admin.describe_log_dirs([node_id]))
    rows = None
    if answer.value is not None:
        rows = []
        for each in answer.value[node_id]:
            replicas = [
                ReplicaRow(where.topic, where.partition, one.size_bytes, one.offset_lag, one.is_future)
                for where, one in each.replicas.items()
            ]
            largest = sorted(replicas, key=lambda one: -one.bytes)[:MOST_REPLICAS]
            error = ERRORS[each.error_code].name if each.error_code in ERRORS and each.error_code else ""
            total = sum(one.bytes for one in replicas)
            rows.append(
                LogDirRow(each.path, error, each.total_bytes, each.usable_bytes, total, len(replicas), largest, each.is_cordoned)
            )
    return BrokerDetails(found, Part(rows, answer.trouble, answer.as_of_ms))
