"""The metrics of share groups at the leaders of their partitions: sessions, records in flight, locks and acknowledgements."""

from __future__ import annotations

from typing import Final

from ottla.broker.metrics.broker_metrics import AT_ONCE, MetricsContext
from ottla.broker.metrics.declaration import Declared, MetricKind, MetricRows, metric
from ottla.ports import Steps

SHARES: Final = Declared[MetricsContext]()

SESSIONS: Final = "kafka.server:type=ShareSessionCache,name="
TOPICS: Final = "kafka.server:type=BrokerTopicMetrics,name="
SHARES.gauge(
    f"{SESSIONS}ShareSessionsCount", "Share sessions of members on this broker.", lambda context: len(context.share_sessions)
)
SHARES.gauge(
    f"{SESSIONS}SharePartitionsCount",
    "Partitions in all share sessions together.",
    lambda context: context.share_sessions.held,
)
SHARES.counter(
    f"{SESSIONS}ShareSessionEvictionsPerSec",
    "Share sessions that ended because their connection closed.",
    lambda context: context.share_sessions.evicted,
)
SHARES.counter(
    f"{TOPICS}TotalShareAcknowledgementRequestsPerSec",
    "Partitions of requests with acknowledgements of records.",
    lambda context: context.shares.counts.acknowledged + context.shares.counts.failed_acknowledgements,
)
SHARES.counter(
    f"{TOPICS}FailedShareAcknowledgementRequestsPerSec",
    "Partitions of requests whose acknowledgements were refused.",
    lambda context: context.shares.counts.failed_acknowledgements,
)
SHARES.gauge(
    "ottla_share_coordinator_share_partitions",
    "Share partitions whose share coordinator is here.",
    lambda context: sum(len(shard.machine.states) for shard in context.share_states.shards),
)
SHARES.gauge(
    "ottla_share_coordinator_bytes",
    "Estimated memory of the states of share partitions, which ottla.max.share.state.bytes limits.",
    lambda context: context.share_states.weight(),
)
SHARES.counter(
    "ottla_share_fetched_partitions_total",
    "Share partitions with records in responses to share fetches.",
    lambda context: context.shares.counts.fetches,
)
SHARES.counter(
    "ottla_share_acquired_records_total",
    "Records that members of share groups have acquired.",
    lambda context: context.shares.counts.acquired,
)
SHARES.counter(
    "ottla_share_expired_locks_total",
    "Expirations of acquisition locks, each of all locks of a share partition that ended together.",
    lambda context: context.shares.counts.expired_locks,
)
SHARES.counter(
    "ottla_share_loads_total",
    "Share partitions whose state was read from a share coordinator.",
    lambda context: context.shares.counts.loads,
)
SHARES.counter(
    "ottla_share_failed_loads_total",
    "Share partitions whose state could not be read.",
    lambda context: context.shares.counts.failed_loads,
)
IN_FLIGHT: Final = metric(
    "kafka.server:type=SharePartitionMetrics,name=InFlightMessageCount,group={group},topic={topic},partition={partition}",
    MetricKind.GAUGE,
    "Records of a share partition between its start offset and the last acquired one.",
)


@SHARES.reads(IN_FLIGHT)
def read_share_partitions(context: MetricsContext, samples: MetricRows) -> Steps[None]:
    for number, led in enumerate(list(context.shares), 1):
        samples.put(IN_FLIGHT, led.machine.in_flight_count, led.key[0], led.partition.topic, str(led.partition.index))
        if number % AT_ONCE == 0:
            yield None
