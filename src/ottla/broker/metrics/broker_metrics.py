"""The metrics of topics, replicas, the controller and delayed replies, under the names of Apache Kafka's MBeans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.broker.controller.controller import Controller
from ottla.broker.coordination.groups import GroupCoordinators
from ottla.broker.coordination.share_states import ShareStateShards
from ottla.broker.coordination.transactions import TransactionCoordinators
from ottla.broker.failures import Changes
from ottla.broker.handlers.fetch_reading import Fetch
from ottla.broker.membership.membership import BrokerMembership
from ottla.broker.metrics.declaration import Declared, MetricKind, MetricRows, metric
from ottla.broker.partitions.partition import Partition, Role
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.partitions.traffic import TopicTraffic
from ottla.broker.scheduler import Scheduler
from ottla.broker.serving.fetch_sessions import FetchSessions
from ottla.broker.serving.purgatory import Purgatory
from ottla.broker.share.share_partitions import SharePartitions
from ottla.broker.telemetry.client_metrics import ClientMetrics
from ottla.cluster.image import NO_LEADER, ClusterImage, PartitionImage
from ottla.cluster.replicas.leader import LeaderState
from ottla.ports import Steps
from ottla.share.sessions import ShareSessions

AT_ONCE: Final = 100
"""Partitions, groups or offsets read between two pauses."""
RUNNING: Final = 3
"""Kafka's state of a broker that serves requests."""
STARTING: Final = 1


@dataclass(frozen=True, slots=True)
class MetricsContext:
    """The parts of a broker whose state metrics show."""

    partitions: Partitions
    image: ClusterImage
    controller: Controller
    membership: BrokerMembership
    groups: GroupCoordinators
    transactions: TransactionCoordinators
    purgatory: Purgatory
    fetch_sessions: FetchSessions
    shares: SharePartitions
    share_sessions: ShareSessions
    share_states: ShareStateShards
    client_metrics: ClientMetrics
    changes: Changes
    scheduler: Scheduler


BROKER: Final = Declared[MetricsContext]()

TOPICS: Final = "kafka.server:type=BrokerTopicMetrics,name="
TRAFFIC: Final = tuple(
    (metric(f"{TOPICS}{name}PerSec,topic={{topic}}", MetricKind.COUNTER, explanation), attribute)
    for name, explanation, attribute in (
        ("MessagesIn", "Records that clients have written; without topic, of all topics.", "messages_in"),
        ("BytesIn", "Bytes of record batches that clients have written; without topic, of all topics.", "bytes_in"),
        ("BytesOut", "Bytes of record batches sent to consumers; without topic, to all.", "bytes_out"),
        ("FailedProduceRequests", "Batches of clients that were refused.", "failed_produces"),
        ("FailedFetchRequests", "Partitions in fetches that were refused.", "failed_fetches"),
    )
)
TOTAL_PRODUCES: Final = metric(
    f"{TOPICS}TotalProduceRequestsPerSec,topic={{topic}}", MetricKind.COUNTER, "Batches of clients, appended and refused."
)
TOTAL_FETCHES: Final = metric(
    f"{TOPICS}TotalFetchRequestsPerSec,topic={{topic}}",
    MetricKind.COUNTER,
    "Partitions in fetches of consumers that were answered with records, or were refused.",
)
REPLICATION_IN: Final = metric(
    f"{TOPICS}ReplicationBytesInPerSec", MetricKind.COUNTER, "Bytes of record batches copied from leaders on other brokers."
)
REPLICATION_OUT: Final = metric(
    f"{TOPICS}ReplicationBytesOutPerSec", MetricKind.COUNTER, "Bytes of record batches sent to followers on other brokers."
)


@BROKER.reads(*(each for each, _ in TRAFFIC), TOTAL_PRODUCES, TOTAL_FETCHES, REPLICATION_IN, REPLICATION_OUT)
def read_traffic(context: MetricsContext, samples: MetricRows) -> Steps[None]:
    traffic = context.partitions.traffic
    total = traffic.total()
    _put_traffic(samples, total)
    samples.put(REPLICATION_IN, total.replication_bytes_in)
    samples.put(REPLICATION_OUT, total.replication_bytes_out)
    for number, (topic, counts) in enumerate(list(traffic.topics.items()), 1):
        _put_traffic(samples, counts, topic)
        if number % AT_ONCE == 0:
            yield None


def _put_traffic(samples: MetricRows, counts: TopicTraffic, *topic: str) -> None:
    for each, attribute in TRAFFIC:
        samples.put(each, getattr(counts, attribute), *topic)
    samples.put(TOTAL_PRODUCES, counts.produces + counts.failed_produces, *topic)
    samples.put(TOTAL_FETCHES, counts.fetches + counts.failed_fetches, *topic)


REPLICAS: Final = "kafka.server:type=ReplicaManager,name="
LOG: Final = "kafka.log:type=Log,name={},topic={{topic}},partition={{partition}}"
PARTITION_COUNT = metric(f"{REPLICAS}PartitionCount", MetricKind.GAUGE, "Partitions of which this broker has a replica.")
LEADER_COUNT = metric(f"{REPLICAS}LeaderCount", MetricKind.GAUGE, "Partitions that this broker leads.")
OFFLINE_REPLICAS = metric(f"{REPLICAS}OfflineReplicaCount", MetricKind.GAUGE, "Replicas of this broker that are offline.")
UNDER_REPLICATED = metric(
    f"{REPLICAS}UnderReplicatedPartitions", MetricKind.GAUGE, "Partitions led here with replicas that are not in sync."
)
UNDER_MIN_ISR = metric(
    f"{REPLICAS}UnderMinIsrPartitionCount", MetricKind.GAUGE, "Partitions led here with less than min.insync.replicas in sync."
)
AT_MIN_ISR = metric(
    f"{REPLICAS}AtMinIsrPartitionCount", MetricKind.GAUGE, "Partitions led here with exactly min.insync.replicas in sync."
)
REASSIGNING = metric(f"{REPLICAS}ReassigningPartitions", MetricKind.GAUGE, "Partitions led here that get other replicas.")
BROKER.counter(
    f"{REPLICAS}IsrShrinksPerSec",
    "Changes of in-sync sets of partitions led here that lost a replica.",
    lambda context: context.partitions.traffic.isr_shrinks,
)
BROKER.counter(
    f"{REPLICAS}IsrExpandsPerSec",
    "Changes of in-sync sets of partitions led here that gained a replica.",
    lambda context: context.partitions.traffic.isr_expands,
)
LOG_SIZE = metric(LOG.format("Size"), MetricKind.GAUGE, "Size of the partition's log, in bytes.")
LOG_START = metric(LOG.format("LogStartOffset"), MetricKind.GAUGE, "Offset of the partition's first record.")
LOG_END = metric(LOG.format("LogEndOffset"), MetricKind.GAUGE, "Offset after the partition's last record.")
LOG_SEGMENTS = metric(LOG.format("NumLogSegments"), MetricKind.GAUGE, "Segments of the partition's log.")
NEWEST = metric(
    "kafka_topic_partition_current_offset{topic,partition}",
    MetricKind.GAUGE,
    "High watermark of a partition led here, under the name of kafka_exporter.",
)
OLDEST = metric(
    "kafka_topic_partition_oldest_offset{topic,partition}",
    MetricKind.GAUGE,
    "First offset of a partition led here, under the name of kafka_exporter.",
)


@BROKER.reads(
    PARTITION_COUNT,
    LEADER_COUNT,
    OFFLINE_REPLICAS,
    UNDER_REPLICATED,
    UNDER_MIN_ISR,
    AT_MIN_ISR,
    REASSIGNING,
    LOG_SIZE,
    LOG_START,
    LOG_END,
    LOG_SEGMENTS,
    NEWEST,
    OLDEST,
)
def read_partitions(context: MetricsContext, samples: MetricRows) -> Steps[None]:
    counts = dict.fromkeys(
        (PARTITION_COUNT, LEADER_COUNT, OFFLINE_REPLICAS, UNDER_REPLICATED, UNDER_MIN_ISR, AT_MIN_ISR, REASSIGNING), 0
    )
    for number, partition in enumerate(list(context.partitions), 1):
        counts[PARTITION_COUNT] += 1
        counts[LEADER_COUNT] += partition.role is Role.LEADER
        if partition.offline is None:
            _put_log(samples, partition)
        else:
            counts[OFFLINE_REPLICAS] += 1
        if isinstance(partition.replicas, LeaderState):
            state, least = partition.replicas, partition.replicas.min_isr(partition.config.min_insync_replicas)
            counts[UNDER_REPLICATED] += len(state.isr) < len(state.replicas)
            counts[UNDER_MIN_ISR] += len(state.isr) < least
            counts[AT_MIN_ISR] += len(state.isr) == least
            counts[REASSIGNING] += bool(state.adding_replicas or state.removing_replicas)
        if number % AT_ONCE == 0:
            yield None
    for each, count in counts.items():
        samples.put(each, count)


def _put_log(samples: MetricRows, partition: Partition) -> None:
    log, labels = partition.log, (partition.topic, str(partition.index))
    samples.put_row(LOG_SIZE, log.size_bytes, labels)
    samples.put_row(LOG_START, log.log_start_offset, labels)
    samples.put_row(LOG_END, log.log_end_offset, labels)
    samples.put_row(LOG_SEGMENTS, len(log.segments), labels)
    if partition.role is Role.LEADER:
        samples.put_row(NEWEST, partition.high_watermark, labels)
        samples.put_row(OLDEST, log.log_start_offset, labels)


CONTROLLER: Final = "kafka.controller:type=KafkaController,name="
BROKER.gauge(
    f"{CONTROLLER}ActiveControllerCount",
    "1 on the broker that is the controller, else 0.",
    lambda context: int(context.controller.is_active),
)
BROKER.gauge(
    f"{CONTROLLER}GlobalTopicCount", "Topics of the cluster, as this broker knows it.", lambda context: len(context.image.topics)
)
BROKER.gauge(
    f"{CONTROLLER}ActiveBrokerCount", "Brokers of the cluster, as this broker knows it.", lambda context: len(context.image.brokers)
)
GLOBAL_PARTITIONS = metric(f"{CONTROLLER}GlobalPartitionCount", MetricKind.GAUGE, "Partitions of the cluster.")
OFFLINE_PARTITIONS = metric(
    f"{CONTROLLER}OfflinePartitionsCount",
    MetricKind.GAUGE,
    "Partitions of the cluster without a leader; 0 except on the controller.",
)
IMBALANCE = metric(
    f"{CONTROLLER}PreferredReplicaImbalanceCount",
    MetricKind.GAUGE,
    "Partitions that their preferred replica does not lead; 0 except on the controller.",
)


@BROKER.reads(GLOBAL_PARTITIONS, OFFLINE_PARTITIONS, IMBALANCE)
def read_cluster(context: MetricsContext, samples: MetricRows) -> Steps[None]:
    image, is_controller = context.image, context.controller.is_active
    total = offline = imbalanced = 0
    for topic in list(image.topics.values()):
        for number, one in enumerate(topic.partitions, 1):
            total += 1
            if is_controller:
                offline += _is_leaderless(image, topic.name, one)
                imbalanced += bool(one.replicas) and one.leader != one.replicas[0]
            if number % AT_ONCE == 0:
                yield None
        yield None
    samples.put(GLOBAL_PARTITIONS, total)
    samples.put(OFFLINE_PARTITIONS, offline)
    samples.put(IMBALANCE, imbalanced)


def _is_leaderless(image: ClusterImage, topic: str, one: PartitionImage) -> bool:
    return (
        one.leader == NO_LEADER
        or one.leader not in image.brokers
        or one.leader in image.offline_replicas.get((topic, one.index), ())
    )


BROKER.gauge(
    "kafka.server:type=KafkaServer,name=BrokerState",
    "3 if the broker is a member of its cluster and serves requests, 1 before.",
    lambda context: RUNNING if context.membership.is_member(context.scheduler.now()) else STARTING,
)
BROKER.gauge(
    "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions",
    "Fetch sessions, in which clients name only changed partitions.",
    lambda context: len(context.fetch_sessions),
)
BROKER.gauge(
    "kafka.server:type=ClientMetrics,name=ClientMetricsInstanceCount",
    "Clients that push their own metrics to this broker (KIP-714).",
    lambda context: len(context.client_metrics.recent(context.scheduler.now())),
)
BROKER.counter(
    "ottla_refused_by_a_bug_total",
    "Requests, or parts of large ones, that were refused because of a bug in the broker: see its log.",
    lambda context: context.changes.mistakes,
)
PURGATORY = metric(
    "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation={delayedOperation}",
    MetricKind.GAUGE,
    "Replies that wait: of fetches (Fetch), and of everything else (Other).",
)


@BROKER.reads(PURGATORY)
def read_purgatory(context: MetricsContext, samples: MetricRows) -> Steps[None]:
    fetches = context.purgatory.count(lambda complete: isinstance(getattr(complete, "__self__", None), Fetch))
    samples.put(PURGATORY, fetches, "Fetch")
    samples.put(PURGATORY, len(context.purgatory) - fetches, "Other")
    yield from ()
