"""The leader's side of fetches: the positions of followers, which read to the log's end, and followers for consumers to read from.

Depends on replicas and the cluster image, and on requests only by their fields.
"""

from __future__ import annotations

from ottla.broker.partitions.partition import Partition
from ottla.broker.quotas.replication import ReplicationQuota
from ottla.broker.replication.replica import Replica
from ottla.broker.scheduler import Scheduler
from ottla.broker.serving.fetch_sessions import Held, HeldByFollower
from ottla.broker.settings import SettingsInForce
from ottla.cluster.image import ClusterImage
from ottla.cluster.replicas.follower import EpochEnd, FollowerState
from ottla.cluster.replicas.leader import LeaderState
from ottla.ports import Now
from ottla.wire.api.fetch import FetchRequest, FetchResponse

NO_EPOCH = -1
RACKS_FROM = 11
"""The first version in which consumers may read from followers (KIP-392)."""
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
Asked = FetchRequest.FetchPartition | Held


class Followers:
    """The fetch offsets and the lag of each follower of the partitions that this broker leads."""

    def __init__(self, node_id: int, image: ClusterImage, settings: SettingsInForce, scheduler: Scheduler) -> None:
        self._node_id = node_id
        self._image = image
        self._settings = settings
        self._scheduler = scheduler
        self._quota = ReplicationQuota(node_id, lambda: settings.value.leader_replication_throttled_rate, settings)

    def error(self, partition: Partition, node_id: int, current_leader_epoch: int, version: int) -> int:
        """Return the error code for a fetch by a follower, or by a consumer (`node_id` below 0); NONE if it may be served."""
        assert isinstance(partition, Replica), "only these have others"
        if node_id >= 0:
            return partition.follower_error(node_id, current_leader_epoch)
        if version >= RACKS_FROM and isinstance(partition.replicas, FollowerState):
            return partition.reader_error(current_leader_epoch)
        return partition.leader_error(current_leader_epoch)

    def find_divergence(self, partition: Partition, part: Asked) -> EpochEnd | None:
        """Return the largest epoch up to the follower's last epoch, with its end offset, if the logs diverge; else None."""
        if isinstance(part, Held) and not isinstance(part, HeldByFollower):
            return None
        epoch = part.last_fetched_epoch
        if epoch == NO_EPOCH:
            return None
        if epoch == partition.leader_epoch:
            found = EpochEnd(epoch, partition.log.log_end_offset)  # the log contains the epoch only after its first batch
        else:
            found = EpochEnd(*partition.log.end_offset_for_epoch(epoch))
        if NO_EPOCH in found:
            return None
        return found if found.epoch < epoch or found.end_offset < part.fetch_offset else None

    def record_fetch(self, partition: Partition, node_id: int, part: Asked, broker_epoch: int, now: Now) -> None:
        """Record a follower's fetch offset and log start offset."""
        assert isinstance(partition, Replica), "only these have others"
        start_offset = part.start_offset if isinstance(part, HeldByFollower) else part.log_start_offset
        partition.follower_fetched(node_id, part.fetch_offset, start_offset, now, broker_epoch)
        if isinstance(part, HeldByFollower):
            leader = partition.replicas  # a pending change may remove this follower from the ISR
            part.is_in_sync = isinstance(leader, LeaderState) and leader.pending is None and node_id in leader.isr

    # Throttles (KIP-73)

    def _is_throttled(self, partition: Partition) -> bool:
        return self._quota.covers(partition.config.leader_replication_throttled_replicas, partition.index)

    def is_held_back(self, partition: Partition, node_id: int) -> bool:
        """Return whether a follower outside the ISR must wait because the replication throttle is exceeded."""
        if not self._is_throttled(partition):
            return False
        leader = partition.replicas
        in_sync = isinstance(leader, LeaderState) and node_id in leader.isr
        return not in_sync and self._quota.is_used_up(self._scheduler.now().mono_ms)

    def count_sent(self, partition: Partition, data: FetchResponse.PartitionData) -> None:
        """Count the bytes sent to a follower toward the replication throttle."""
        if data.records and self._is_throttled(partition):
            self._quota.use(len(data.records), self._scheduler.now().mono_ms)

    # The closest replica (KIP-392)

    def choose_replica(self, partition: Partition, offset: int, rack: str) -> int | None:
        """Return the in-sync follower in a consumer's rack that has the requested offset; None if there is none.

        Other followers are not returned, because they can lag further and further, and consumers would lag with them.
        """
        leader = partition.replicas
        if self._settings.value.replica_selector_class != RACK_AWARE or not isinstance(leader, LeaderState):
            return None
        brokers = self._image.brokers
        own = brokers.get(self._node_id)
        if own is not None and own.rack == rack:
            return None
        found = [
            (follower.log_end_offset, follower.caught_up_ms, node_id)
            for node_id, follower in leader.followers.items()
            if node_id in brokers
            and node_id in leader.isr
            and brokers[node_id].rack == rack
            and follower.log_start_offset <= offset <= follower.log_end_offset
        ]
        return max(found)[2] if found else None
