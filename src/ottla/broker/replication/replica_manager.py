"""The replica manager: replicas lead, follow or stop as the controller requests. It opens the logs of replicas with a role.

Depends on partitions and the cluster image, and not on messages, connections or the registry. The controller's requests are
processed one after another, in steps with pauses between them, because a request can name thousands of partitions. Outdated epochs
are refused.

A controller may fail after it recorded the end of a reassignment, and before it notified the former replica's broker; later
controllers do not notify that broker. Such replicas are found by comparison with the metadata, except of topics without an id,
which can be recreated topics of the same name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from ottla.broker.membership.membership import NOT_YET
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.replication.controller_messages import EPOCH_DURING_DELETE, NO_EPOCH
from ottla.broker.replication.replica import Replica, ReplicaPorts
from ottla.broker.scheduler import InTurn, Scheduler
from ottla.broker.settings import SettingsInForce
from ottla.broker.topics.directories import PartitionDirectories, some
from ottla.cluster.image import NO_LEADER, NO_TOPIC_ID, ClusterImage, PartitionImage
from ottla.cluster.metadata import Errors, ReplicaRole, ReplicaStop, TopicUpdate
from ottla.cluster.metadata_updates import TAKEN_AT_ONCE, has_left
from ottla.cluster.replicas.follower import FollowerState
from ottla.cluster.replicas.leader import LeaderState
from ottla.log.journal.format import Key
from ottla.ports import Now, Steps, StorageFailed, TryAgain
from ottla.wire.errors import (
    FENCED_LEADER_EPOCH,
    INCONSISTENT_TOPIC_ID,
    KAFKA_STORAGE_ERROR,
    NONE,
    STALE_BROKER_EPOCH,
    STALE_CONTROLLER_EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION,
)

log = logging.getLogger("ottla.broker")

AGAIN_MS = 5_000
"""Pause, in ms, before the controller is asked to assign roles again that failed for lack of file handles."""


class MovedReplicas:
    """The search for replicas on this broker that have moved to other brokers. It neither stops nor deletes them."""

    def __init__(self, node_id: int, partitions: Partitions, image: ClusterImage) -> None:
        self._node_id = node_id
        self._partitions = partitions
        self._image = image

    def find_moved(self, told: Iterable[TopicUpdate]) -> Steps[list[ReplicaStop]]:
        """Return the replicas with a role here that have moved, by the metadata of these topics."""
        found: list[ReplicaStop] = []
        for topic in told:
            for number, one in enumerate(topic.partitions, 1):
                if self._is_left(topic, one.image):
                    found.append(ReplicaStop(topic.name, one.image.index, NO_EPOCH, is_deleted=True))
                if number % TAKEN_AT_ONCE == 0:
                    yield None
        return found

    def _is_left(self, topic: TopicUpdate, told: PartitionImage) -> bool:
        replica = self._partitions.get(topic.name, told.index)
        if not isinstance(replica, Replica) or not replica.has_role or replica.offline is not None:
            return False
        is_the_same = topic.topic_id == replica.topic_id != NO_TOPIC_ID
        return is_the_same and has_left(self._node_id, replica.leader_epoch, told)

    def is_outdated(self, role: ReplicaRole) -> bool:
        """Return whether a role is outdated, because the metadata shows that the replica has moved to other brokers."""
        topic = self._image.topics.get(role.topic)
        if topic is None or topic.topic_id != role.topic_id or role.topic_id == NO_TOPIC_ID or role.index >= len(topic.partitions):
            return False
        return has_left(self._node_id, role.assigned.leader_epoch, topic.partitions[role.index])


class ReplicaManager:
    """The manager of all replicas on this broker: it makes them lead, follow or stop, as the controller's requests demand.

    Callbacks: `stopping` before replicas lead, change their leader epoch or stop, so that fetchers stop copying to them;
    `following` for replicas that begin to follow a leader; `leading` for each replica that begins to lead, or leads in a new epoch;
    `led` for each replica that has stopped leading; `deleted` after replicas were deleted.
    """

    def __init__(
        self,
        ports: ReplicaPorts,
        partitions: Partitions,
        directories: PartitionDirectories,
        image: ClusterImage,
        settings: SettingsInForce,
        scheduler: Scheduler,
        oldest_epoch: Callable[[], int],
    ) -> None:
        """Create the replica manager. `oldest_epoch` returns the lowest broker epoch accepted in requests of controllers."""
        self.controller_epoch = 0
        """The newest controller epoch received."""
        self.leader_addresses: dict[int, tuple[str, int]] = {}
        """The addresses of leaders, as the controller sent them with partitions."""
        self.stopping: list[Callable[[Sequence[Replica]], None]] = []
        self.following: list[Callable[[Sequence[Replica]], None]] = []
        self.leading: list[Callable[[Replica], None]] = []
        self.led: list[Callable[[Replica], None]] = []
        self.deleted: list[Callable[[], None]] = []
        self._ports = ports
        self._partitions = partitions
        self._directories = directories
        self._image = image
        self._settings = settings
        self._scheduler = scheduler
        self._oldest_epoch = oldest_epoch
        self._moved = MovedReplicas(ports.node_id, partitions, image)
        self._turns = InTurn()
        self._clean = True

    def load(self, now: Now, *, clean: bool) -> None:
        """Load checkpoints and remove leftovers of deleted partitions at startup. Logs are opened once they have roles.

        `clean`: the last shutdown was clean, so logs need no scan. Raises `StorageFailed`.
        """
        self._clean = clean
        self._partitions.checkpoints.load()
        self._directories.clear((), (), ())
        self._schedule_checks(now)

    @property
    def are_all_checked(self) -> bool:
        """Return whether no unchecked log is left: all logs are open, or the last shutdown was clean."""
        with suppress(StorageFailed):
            return self._clean or not self._directories.strangers([str(partition) for partition in self._partitions], ())
        return False

    # The broker in its cluster

    def begin_registration(self, broker_epoch: int, now: Now) -> None:
        """Begin a new registration: drop earlier roles, and lead partitions that the controller assigned to it already."""
        self._begin_session(broker_epoch)
        self.wake_up(now)

    def _begin_session(self, broker_epoch: int) -> None:
        """Stop leading and following partitions, because this broker has a new registration.

        Requests of the controller can contain the registration's broker epoch before this broker has read it.
        """
        if broker_epoch != self._ports.terms.broker_epoch:
            self._stop_all()
            self._ports.terms.broker_epoch = broker_epoch

    def drop_roles(self) -> None:
        """Stop leading and following all partitions, because the session with the registry has ended."""
        self._ports.may_lead = False
        self._stop_all()

    def suspend_leaders(self) -> None:
        """Suspend all leaders, because the session may have expired and other brokers may lead."""
        self._ports.may_lead = False
        for replica in self._replicas():
            if replica.has_leader_role:
                replica.suspend()
                self._notify_leader(replica)

    def wake_up(self, now: Now) -> None:
        """Resume all leaders, because the session is still alive."""
        self._ports.may_lead = True
        for replica in self._replicas():
            if replica.has_leader_role:
                replica.resume(now)
                self._notify_leading(replica)

    def _stop_all(self) -> None:
        held = [replica for replica in self._replicas() if replica.has_role]
        self._notify_stopping(held)
        for replica in held:
            replica.stop()
            self._notify_leader(replica)

    def _replica(self, topic: str, index: int) -> Replica | None:
        found = self._partitions.get(topic, index)
        assert found is None or isinstance(found, Replica), "a broker holds nothing else"
        return found

    def _replicas(self) -> list[Replica]:
        return [partition for partition in self._partitions if isinstance(partition, Replica)]

    # Requests of the controller

    def epoch_error(self, controller_epoch: int, broker_epoch: int) -> int:
        """Return the error code for a request with an outdated epoch of the controller or of this broker, else NONE.

        A newer broker epoch is accepted, because the controller can see it before this broker does. Controllers before 2.2 send
        no broker epoch.
        """
        oldest = max(self._ports.terms.broker_epoch, self._oldest_epoch())
        if NO_EPOCH < broker_epoch < oldest or oldest == NOT_YET:
            return STALE_BROKER_EPOCH
        return STALE_CONTROLLER_EPOCH if controller_epoch < self.controller_epoch else NONE

    def run_in_order(self, controller_epoch: int, broker_epoch: int, steps: Callable[[], Steps[None]]) -> Steps[int]:
        """Run the steps of a request after all earlier requests; return an error code if the request is outdated by then."""

        def run() -> Steps[int]:
            error_code = self.epoch_error(controller_epoch, broker_epoch)
            if error_code == STALE_BROKER_EPOCH:
                log.warning("ignored a request of the controller for an earlier registration, of broker epoch %d", broker_epoch)
                return error_code
            if error_code:
                current = self.controller_epoch
                log.warning("ignored a request of the controller of epoch %d; the current epoch is %d", controller_epoch, current)
                return error_code
            self.controller_epoch = controller_epoch
            if broker_epoch > self._ports.terms.broker_epoch:
                self._begin_session(broker_epoch)
            yield from steps()
            return NONE

        return (yield from self._turns.steps(run()))

    def apply_roles(self, told: Iterable[ReplicaRole]) -> Steps[Errors]:
        """Apply roles, and return an error code per partition. The image contains the configs of their topics."""
        errors: Errors = {}
        followers: list[Replica] = []
        opened = self._partitions.opens
        for role in told:
            self._image.name_topic(role.topic, role.topic_id)
            self._set_topic_id(role, followers)
            error_code = errors[role.topic, role.index] = self._role_error(role)
            if not error_code:
                errors[role.topic, role.index] = self._apply_role(role, followers)
            yield None
        if self._partitions.opens > opened:
            self._directories.sync_soon()
        current = [replica for replica in followers if replica.is_following]
        if current:
            for tell in self.following:
                tell(current)
        return errors

    def _set_topic_id(self, role: ReplicaRole, followers: list[Replica]) -> None:
        """Apply a topic id that arrives without a new role, from the first controller of version 2.8 or later.

        A later controller of an older version sends no ids. This broker then fetches from its leaders by topic name.
        """
        replica = self._partitions.get(role.topic, role.index)
        if replica is None or role.assigned.leader_epoch < replica.leader_epoch:
            return
        assert isinstance(replica, Replica), "a broker of a cluster holds nothing else"
        if role.topic_id != NO_TOPIC_ID:
            if replica.topic_id not in (NO_TOPIC_ID, role.topic_id):
                return
            replica.topic_id = role.topic_id
        state = replica.replicas
        if replica.is_following and isinstance(state, FollowerState) and state.topic_id != role.topic_id:
            self._notify_stopping([replica])
            state.topic_id = role.topic_id
            if role.assigned.leader_epoch == replica.leader_epoch and state.leader != NO_LEADER:
                followers.append(replica)

    def _role_error(self, role: ReplicaRole) -> int:
        """Return the error code for a role; NONE if it can be applied."""
        replica = self._replica(role.topic, role.index)
        if replica is None:
            if self._moved.is_outdated(role):
                return STALE_CONTROLLER_EPOCH
            is_ours = self._ports.node_id in role.assigned.replicas
            return NONE if is_ours else UNKNOWN_TOPIC_OR_PARTITION
        if replica.offline is not None:
            return KAFKA_STORAGE_ERROR
        if role.topic_id != replica.topic_id and NO_TOPIC_ID not in (role.topic_id, replica.topic_id):
            log.error("%s: the controller means another topic of that name, with id %s", replica, role.topic_id.hex())
            return INCONSISTENT_TOPIC_ID
        epoch = role.assigned.leader_epoch
        if epoch < replica.leader_epoch or (epoch == replica.leader_epoch and replica.has_role):
            return STALE_CONTROLLER_EPOCH
        return NONE if self._ports.node_id in role.assigned.replicas else UNKNOWN_TOPIC_OR_PARTITION

    def _apply_role(self, role: ReplicaRole, followers: list[Replica]) -> int:
        now = self._scheduler.now()
        replica = self._prepare(role, now)
        if replica.offline is not None:
            return KAFKA_STORAGE_ERROR
        if replica.has_role:
            self._notify_stopping([replica])
        if role.assigned.leader == self._ports.node_id:
            try:
                replica.lead(role.assigned, now)
            except StorageFailed as failure:
                log.error("%s cannot be led by this broker: %s", replica, failure)
                if isinstance(failure, TryAgain):
                    self._ports.failures.notify(AGAIN_MS)
                return KAFKA_STORAGE_ERROR
            if self._ports.may_lead:
                self._notify_leading(replica)
        else:
            replica.follow(role.assigned, role.topic_id)
            self._notify_leader(replica)
            if role.assigned.leader != NO_LEADER:
                followers.append(replica)
        return NONE

    def _prepare(self, role: ReplicaRole, now: Now) -> Replica:
        held = self._partitions.get(role.topic, role.index)
        if held is None:
            config = self._settings.value.log_config(self._image.configs_of(role.topic, role.topic_id))
            held = self._partitions.open(role.topic, role.index, role.topic_id, config, now, clean=self._clean)
        assert isinstance(held, Replica), "a broker of a cluster holds nothing else"
        return held

    def stop_replicas(self, told: Iterable[ReplicaStop]) -> Steps[Errors]:
        """Stop replicas, and delete some of them. After the steps, no power failure can restore the deleted replicas."""
        errors: Errors = {}
        deleted: list[ReplicaStop] = []
        for stop in told:
            errors[stop.topic, stop.index] = self._stop(stop)
            if stop.is_deleted and errors[stop.topic, stop.index] != FENCED_LEADER_EPOCH:
                deleted.append(stop)
            yield None
        refused = yield from self._partitions.before_drop(self._that_may_return(deleted))
        gone: list[ReplicaStop] = []
        for stop in deleted:
            is_refused = self._partitions.get(stop.topic, stop.index) in refused
            errors[stop.topic, stop.index] = KAFKA_STORAGE_ERROR if is_refused else self._delete(stop)
            if not errors[stop.topic, stop.index]:
                gone.append(stop)
            yield None
        if gone:
            log.info("replicas deleted by the controller: %s", some([f"{stop.topic}-{stop.index}" for stop in gone]))
            failure = yield from self._partitions.checkpoints.remove_deleted_slowly({stop.topic for stop in gone})
            if failure is None:
                failure = yield from self._partitions.directories.sync_removals()
            if failure is not None:
                log.error("the deletion of replicas could not be synced: %s; the controller retries", failure)
                errors |= {(stop.topic, stop.index): KAFKA_STORAGE_ERROR for stop in gone}
        for tell in self.deleted:
            tell()
        return errors

    def part_with(self, told: Iterable[TopicUpdate]) -> Steps[None]:
        """Delete the replicas that have moved to other brokers according to the metadata `told`."""
        left = yield from self._moved.find_moved(told)
        if left:
            yield from self.stop_replicas(left)

    def _stop(self, stop: ReplicaStop) -> int:
        replica = self._partitions.get(stop.topic, stop.index)
        if replica is None:
            return NONE
        assert isinstance(replica, Replica), "a broker of a cluster holds nothing else"
        if stop.leader_epoch not in (NO_EPOCH, EPOCH_DURING_DELETE) and stop.leader_epoch < replica.leader_epoch:
            return FENCED_LEADER_EPOCH
        self._notify_stopping([replica])
        replica.stop()
        self._notify_leader(replica)
        return KAFKA_STORAGE_ERROR if replica.offline is not None else NONE

    def _that_may_return(self, stops: Iterable[ReplicaStop]) -> Iterator[Replica]:
        """Yield the stopped replicas of topics that still exist. A deleted topic's id never returns."""
        for stop in stops:
            replica = self._partitions.get(stop.topic, stop.index)
            if isinstance(replica, Replica) and stop.leader_epoch != EPOCH_DURING_DELETE:
                yield replica

    def _delete(self, stop: ReplicaStop) -> int:
        """Delete a stopped replica, or what is left of one that is not open."""
        is_held = self._partitions.get(stop.topic, stop.index) is not None
        if is_held and self._partitions.drop(stop.topic, stop.index):
            return NONE
        return self._delete_directory(f"{stop.topic}-{stop.index}")

    def _delete_directory(self, name: str) -> int:
        """Delete the directory of a partition that is not open, because it was deleted while this broker was down or is damaged."""
        topic, _, index = name.rpartition("-")
        self._partitions.checkpoints.forget(topic, int(index))
        try:
            if self._directories.exists(name):
                known = self._image.topics.get(topic)
                if known is not None:
                    self._partitions.forget_entries(Key(known.topic_id, int(index)))
                self._directories.delete(name)
        except StorageFailed as failure:
            log.error("%s could not be deleted: %s; the controller retries", name, failure)
            return KAFKA_STORAGE_ERROR
        return NONE

    # Notifications

    def _notify_stopping(self, replicas: Sequence[Replica]) -> None:
        for tell in self.stopping:
            tell(replicas)

    def _notify_leading(self, replica: Replica) -> None:
        for tell in self.leading:
            tell(replica)

    def _notify_leader(self, replica: Replica) -> None:
        for tell in self.led:
            tell(replica)

    # Periodic work

    def _schedule_checks(self, now: Now) -> None:
        """Schedule the check for lagging followers, and the checkpoint of high watermarks."""

        def shrink(now: Now) -> None:
            self._scheduler.begin("in-sync sets", self._shrink())

        def note(now: Now) -> None:
            moved, self._ports.moved = self._ports.moved, {}
            if moved:
                self._partitions.checkpoints.note_high_watermarks(moved)

        settings, every = self._settings, self._scheduler.every
        every("in-sync sets", lambda: settings.value.replica_lag_time_max_ms // 2, shrink, now)
        every("high watermarks", lambda: settings.value.replica_high_watermark_checkpoint_interval_ms, note, now)

    def remove_followers(self) -> Steps[None]:
        """Check the in-sync replicas again after brokers have died. Records that waited for dead brokers can be acknowledged."""
        for replica in self._replicas():
            replica.remove_followers(self._scheduler.now())
            yield None

    def _shrink(self) -> Steps[None]:
        for replica in self._replicas():
            if isinstance(replica.replicas, LeaderState):
                replica.shrink_isr(self._scheduler.now())
                yield None
