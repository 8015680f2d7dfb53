"""The metrics of consumer groups and transactions whose coordinators are on this broker.

A lag is the high watermark minus the committed offset. This broker shows it for partitions that it leads; for others, the committed
offset can be subtracted from the high watermark that their leader shows.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from ottla.broker.metrics.broker_metrics import AT_ONCE, MetricsContext
from ottla.broker.metrics.declaration import Declared, MetricKind, MetricRows, metric
from ottla.broker.partitions.partition import Role
from ottla.ports import Steps

if TYPE_CHECKING:
    from ottla.coord.offsets import ByTopic

KEEP_MS: Final = 5_000
"""The time, in ms, for which the values of groups and transactions are shown again."""
STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
"""The states of classic groups, each of which has a metric of its own in Kafka."""

GROUPS: Final = Declared[MetricsContext]()
BEANS: Final = "kafka.coordinator.group:type=GroupMetadataManager,name="

NUM_GROUPS = metric(f"{BEANS}NumGroups", MetricKind.GAUGE, "Classic groups whose coordinator is here.")
NUM_OFFSETS = metric(f"{BEANS}NumOffsets", MetricKind.GAUGE, "Committed offsets of all groups whose coordinator is here.")
IN_STATE = {
    state: metric(f"{BEANS}NumGroups{state}", MetricKind.GAUGE, f"Classic groups whose coordinator is here, in state {state}.")
    for state in STATES
}
GROUP_COUNT = metric(
    "kafka_server_group_coordinator_metrics_group_count{protocol,state}",
    MetricKind.GAUGE,
    "Groups whose coordinator is here, by protocol (classic, consumer) and state.",
)
MEMBERS = metric(
    "kafka_consumergroup_members{consumergroup}", MetricKind.GAUGE, "Members of a group, under the name of kafka_exporter."
)
CURRENT = metric(
    "kafka_consumergroup_current_offset{consumergroup,topic,partition}",
    MetricKind.GAUGE,
    "Committed offset of a group, under the name of kafka_exporter.",
)
LAG = metric(
    "kafka_consumergroup_lag{consumergroup,topic,partition}",
    MetricKind.GAUGE,
    "Records behind the committed offset of a group, of partitions led by the group's coordinator.",
)
LAG_SUM = metric(
    "kafka_consumergroup_lag_sum{consumergroup,topic}", MetricKind.GAUGE, "Sum of the group's lags over a topic's partitions."
)


@GROUPS.reads(NUM_GROUPS, NUM_OFFSETS, *IN_STATE.values(), GROUP_COUNT, MEMBERS, CURRENT, LAG, LAG_SUM, keep_ms=KEEP_MS)
def read_groups(context: MetricsContext, samples: MetricRows) -> Steps[None]:
    counts, offsets = Counter[tuple[str, str]](), 0
    for machine in context.groups.machines:
        for kind in machine.kinds:
            for number, group in enumerate(list(kind.groups.values()), 1):
                counts[group.group_type, group.state.value] += 1
                samples.put(MEMBERS, len(group.members), group.group_id)
                if number % AT_ONCE == 0:
                    yield None
        for group_id in machine.offsets.group_ids():
            offsets += yield from _read_offsets(context, samples, group_id, machine.offsets.of(group_id))
            yield None
    samples.put(NUM_GROUPS, sum(count for (protocol, _), count in counts.items() if protocol == "classic"))
    samples.put(NUM_OFFSETS, offsets)
    for state, each in IN_STATE.items():
        samples.put(each, counts["classic", state])
    for (protocol, state), count in sorted(counts.items()):
        samples.put(GROUP_COUNT, count, protocol, state)


def _read_offsets(context: MetricsContext, samples: MetricRows, group_id: str, topics: ByTopic) -> Steps[int]:
    """Find the offsets and lags of one group, and return the number of its offsets."""
    count = 0
    for topic, committed in list(topics.items()):
        lag_sum = -1
        for index, entry in list(committed.items()):
            count += 1
            labels = group_id, topic, str(index)
            samples.put_row(CURRENT, entry.offset, labels)
            partition = context.partitions.get(topic, index)
            if partition is not None and partition.role is Role.LEADER and partition.offline is None:
                lag = max(0, partition.high_watermark - max(entry.offset, partition.log.log_start_offset))
                lag_sum = max(0, lag_sum) + lag
                samples.put_row(LAG, lag, labels)
            if count % AT_ONCE == 0:
                yield None
        if lag_sum >= 0:
            samples.put(LAG_SUM, lag_sum, group_id, topic)
    return count


TRANSACTIONS = metric(
    "ottla_transactions{state}", MetricKind.GAUGE, "Transactional ids whose coordinator is here, by the state of their transaction."
)


@GROUPS.reads(TRANSACTIONS, keep_ms=KEEP_MS)
def read_transactions(context: MetricsContext, samples: MetricRows) -> Steps[None]:
    counts = Counter[str]()
    for shard in context.transactions.coordinators.shards:
        for number, known in enumerate(list(shard.machine.by_id.values()), 1):
            counts[known.status.label] += 1
            if number % AT_ONCE == 0:
                yield None
    for state, count in sorted(counts.items()):
        samples.put(TRANSACTIONS, count, state)
