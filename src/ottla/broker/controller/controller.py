"""The controller state machine of one broker: a candidate while the broker is registered, active once it is elected.

Watches on the registry become events. Each event is processed by the current `TermObjects`, and dropped if there is none.

| state | event | next state |
|---|---|---|
| Absent | registered | Candidate |
| Candidate | elected | Active |
| Active | resigned | Candidate |
| Candidate, Active | session over | Absent |
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from ottla.broker.controller.broker_changes import BrokerChanges
from ottla.broker.controller.controller_election import ControllerElection, Elected
from ottla.broker.controller.events import ControllerEvents
from ottla.broker.controller.isr_changes import IsrChanges
from ottla.broker.controller.leader_elections import LeaderChanges, RequestedElections
from ottla.broker.controller.partition_walk import in_pieces
from ottla.broker.controller.reassignments import Faults, Reassignments, Targets
from ottla.broker.controller.term import ControllerTerm
from ottla.broker.controller.topic_changes import TopicChanges
from ottla.broker.failures import CONFLICTS
from ottla.broker.interbroker.channels import Channels
from ottla.broker.releases.interbroker_versions import Switch
from ottla.broker.retries import Repeats
from ottla.broker.scheduler import Scheduler
from ottla.broker.settings import SettingsInForce
from ottla.cluster import features, layout
from ottla.cluster.controller_rules.context import LiveBroker, ReplicaAssignment, TopicPartition
from ottla.cluster.controller_rules.entries import DELETIONS, ISR_CHANGES, LOG_DIR_EVENTS
from ottla.cluster.controller_rules.requests import ControlRequest
from ottla.cluster.features import Feature
from ottla.ports import NEW, Change, Now, SharedRegistry, Steps, StorageFailed
from ottla.wire.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.wire.api.controlled_shutdown import ControlledShutdownRequest
from ottla.wire.api.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.api.stop_replica import StopReplicaRequest, StopReplicaResponse
from ottla.wire.errors import NOT_CONTROLLER, STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH, error_name

log = logging.getLogger("ottla.broker")

T = TypeVar("T")

PROTOCOL: Final = "inter.broker.protocol.version"
FEATURES_IN_2_FROM: Final = "3.3-IV0"
"""The first inter-broker protocol version that writes the features entry with version 2."""
UNSUITABLE: Final = (
    "broker %d is passed over: it does not serve what the cluster has finalized (%s); start a newer release there, or lower these "
    "with `ottla features downgrade`"
)
BALANCE: Final = "balance of leaders"
BALANCED_FIRST_MS: Final = 5_000
"""Delay between an election and the first check of the leader imbalance, in ms."""
DELETIONS_AGAIN: Final = "deletions again"
LEADERS_AGAIN: Final = "leaders again"
STALE: Final = frozenset((STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH))
"""Errors of brokers that registered again or follow a later controller. They are expected, because newer requests follow."""
PIECE: Final = 500
"""Partitions in one request of a single broker's controller to its own broker, which bounds the memory of the request."""
RETRY_MS, MOST_RETRY_MS = 500, 2_000
"""First and longest pause before the controller entry is read again from an unreachable registry, in ms."""


class Watches(NamedTuple):
    """Callbacks of registry watches that queue controller events. Each receives the changed path, or the altered partitions."""

    topic: Callable[[str], None]
    reassignments: Callable[[str], None]
    elections: Callable[[str], None]
    altered: Callable[[Iterable[TopicPartition]], None]


class TermObjects:
    """The objects that process the controller's events during one controller epoch."""

    def __init__(self, term: ControllerTerm, new_id: Callable[[], bytes], watches: Watches) -> None:
        self.term = term
        self.leaders = LeaderChanges(term)
        self.brokers = BrokerChanges(term, self.leaders)
        self.topics = TopicChanges(term, self.leaders, new_id, watches.topic)
        self.isrs = IsrChanges(term, self.leaders, watches.altered)
        self.reassignments = Reassignments(term, self.leaders, self.topics, watches.reassignments)
        self.elections = RequestedElections(term, self.leaders, watches.elections)


class Controller:
    """The controller of one broker: a candidate after `become_candidate`, active once it is elected, and absent after `leave`."""

    def __init__(
        self,
        registry: SharedRegistry,
        channels: Channels,
        settings: SettingsInForce,
        scheduler: Scheduler,
        node_id: int,
        new_id: Callable[[], bytes],
        *,
        is_alone: bool = False,
    ) -> None:
        """Create the controller of broker `node_id`.

        `is_alone`: the cluster never has another broker, so a restart of this broker can't lose records.
        """
        self._is_alone = is_alone
        self._level = logging.DEBUG if is_alone else logging.INFO
        """The level of messages about elections, which a broker without others always wins."""
        self._registry = registry
        self._channels = channels
        self._settings = settings
        self._scheduler = scheduler
        self._node_id = node_id
        self._new_id = new_id
        self._objects: TermObjects | None = None
        self._is_candidate = False
        self._unsuitable: set[tuple[int, int]] = set()
        """(broker id, epoch) of registered brokers that are skipped, so that each is logged once."""
        self._repeats = Repeats(RETRY_MS, MOST_RETRY_MS)
        self._events = ControllerEvents(scheduler, self._resign, self._resign_for_a_while, self._repeats)
        self._election = ControllerElection(registry, node_id, scheduler, self._may_have_moved)

    @property
    def is_active(self) -> bool:
        """Return whether this broker considers itself the controller."""
        return self._objects is not None

    @property
    def epoch(self) -> int | None:
        """Return the controller epoch of the current term; None if this broker is not the controller."""
        return None if self._objects is None else self._objects.term.context.epoch

    def become_candidate(self, now: Now) -> None:
        """Become a candidate, because this broker is registered."""
        self._is_candidate = True
        self._events.soon("election", self._elect)

    def leave(self, now: Now) -> None:
        """Resign and end the candidature, because this broker's registration is over."""
        self._is_candidate = False
        self._election.session_over()
        self._resign()

    def run(self, work: Callable[[TermObjects], Steps[T]], instead: T) -> Steps[T]:
        """Run `work` on the current term as an event, and return its result. Return `instead` if there is no current term."""

        def see_to_it() -> Steps[T]:
            objects = self._objects
            return instead if objects is None else (yield from work(objects))

        return self._events.run(see_to_it, instead)

    def stop(self, body: ControlledShutdownRequest) -> Steps[tuple[int, list[TopicPartition]]]:
        """Move leadership away from a broker in controlled shutdown. Return an error code and the partitions it still leads."""
        return self.run(lambda objects: objects.brokers.stop(body.broker_id, body.broker_epoch), (NOT_CONTROLLER, []))

    def alter_partition(self, body: AlterPartitionRequest, version: int) -> Steps[AlterPartitionResponse]:
        """Process a leader's request to change in-sync replicas."""
        return self.run(lambda objects: objects.isrs.alter(body, version), AlterPartitionResponse(error_code=NOT_CONTROLLER))

    def served_by_all(self, offered: Mapping[str, Feature]) -> Steps[dict[str, Feature] | None]:
        """Return the features, narrowed to the levels that all registered brokers support.

        None if this broker is not the controller.
        """

        def narrow(objects: TermObjects) -> Steps[dict[str, Feature] | None]:
            yield None
            return features.served_by_all(
                offered, [features.supported_features(one.features) for one in objects.term.context.brokers.values()]
            )

        return self.run(narrow, None)

    def alter_reassignments(self, targets: Targets, *, may_resize: bool) -> Steps[Faults | None]:
        """Start or cancel reassignments, and return a fault per partition; None if this broker is not the controller."""
        return self.run(lambda objects: objects.reassignments.alter(targets, may_resize=may_resize), None)

    def reassignments(self, partitions: Iterable[TopicPartition] | None) -> Steps[dict[TopicPartition, ReplicaAssignment] | None]:
        """Return the ongoing reassignments of `partitions`, or of all if None. Return None if this broker is not the controller."""
        return self.run(lambda objects: objects.reassignments.find_ongoing(partitions), None)

    def elect(self, partitions: Iterable[TopicPartition] | None, *, is_unclean: bool) -> Steps[Faults | None]:
        """Elect leaders on request, and return a fault per partition; None if this broker is not the controller."""
        return self.run(lambda objects: objects.elections.elect(partitions, is_unclean=is_unclean), None)

    def settings_changed(self) -> None:
        """Elect missing leaders after a change of settings, because `unclean.leader.election.enable` can now be true."""
        self._soon("unclean elections", self._process_leaderless)

    def _process_leaderless(self, objects: TermObjects) -> Steps[None]:
        yield from objects.leaders.elect((yield from objects.leaders.without_leader()))
        yield from objects.term.send()

    def _states_refused(self, failure: StorageFailed) -> None:
        """Elect leaders again after a pause, because a topic deletion, which needs this controller, can free disk space."""
        self._repeats.log_once(log, logging.ERROR, "the registry refused the leaders of partitions; it is retried: %s", failure)
        at_ms = self._scheduler.now().mono_ms + MOST_RETRY_MS
        self._scheduler.at(LEADERS_AGAIN, at_ms, lambda now: self.settings_changed())

    # Elections

    def _may_have_moved(self, path: str) -> None:
        self._events.soon("election", self._elect)

    def _resign_for_a_while(self) -> None:
        """Resign, because the outcome of a commit is uncertain, and take part in the election again after a pause."""
        self._resign()
        if self._is_candidate:
            self._scheduler.at(self, self._scheduler.now().mono_ms + self._repeats.pause_ms(), lambda now: self._may_have_moved(""))

    def _elect(self) -> Steps[None]:
        if not self._is_candidate:
            return
        objects = self._objects
        held = partial(self._election.contend, None if objects is None else objects.term.elected)
        elected = yield from (held() if objects is None else objects.term.patience.read(held))
        if self._objects is not None and self._objects.term.elected != elected:
            log.info("this broker is not the controller any more")
            self._resign()
        if self._objects is None and elected is not None and self._is_candidate:
            log.log(self._level, "elected as the controller, in epoch %d", elected.epoch)
            yield from self._begin_term(elected)
        self._repeats.over()

    def _resign(self) -> None:
        objects, self._objects = self._objects, None
        if objects is not None:
            self._scheduler.cancel(BALANCE)
            self._scheduler.cancel(DELETIONS_AGAIN)
            self._scheduler.cancel(LEADERS_AGAIN)
            objects.term.close()

    def _begin_term(self, elected: Elected) -> Steps[None]:
        """Load and watch all entries, elect missing leaders, and send all brokers their state."""
        node_id, registry, settings = self._node_id, self._registry, self._settings
        told = self._on_response, self._states_refused
        term = ControllerTerm(elected, node_id, registry, self._channels, settings, self._scheduler, *told)
        watches = Watches(self._topic_changed, self._reassignments_wanted, self._elections_wanted, self._isrs_altered)
        objects = self._objects = TermObjects(term, self._new_id, watches)
        yield from self._remove_notifications(objects, LOG_DIR_EVENTS, self._log_dir_failed)
        yield from self._remove_notifications(objects, ISR_CHANGES, self._isr_changed)
        registered = yield from term.reader.brokers(self._brokers_changed, each=self._brokers_changed)
        yield from self._note_features(term, registered.values())
        term.context.brokers.update((yield from self._suitable(term, registered)))
        yield from objects.topics.read((yield from term.reader.names(layout.TOPICS, self._topics_changed)))
        partitions = list(term.context.partitions())
        term.context.leaders.update((yield from term.reader.states(partitions)))
        for node in term.context.brokers:
            term.open_way(node)
        deleted = yield from term.reader.names(DELETIONS, self._deletions_changed)
        if settings.value.delete_topic_enable:
            term.deletions.queue(name for name in deleted if name in term.context.topics)
        # Brokers need each other's addresses before they follow, and all partitions before they coordinate groups or transactions.
        yield from self._send_all_metadata(term)
        if not self._is_alone:
            term.context.begun_anew.update((yield from objects.brokers.restarted_brokers()))
        yield from objects.leaders.elect(partitions)
        term.context.begun_anew.clear()
        if not self._is_alone:
            yield from objects.brokers.note_seen()
        yield from self._send_roles(objects, partitions)
        sentence = "at work as the controller of %d brokers and %d partitions"
        log.log(self._level, sentence, len(term.context.brokers), len(partitions))
        yield from objects.topics.to_be_deleted(deleted)
        yield from objects.reassignments.resume()
        yield from objects.elections.process_requested()
        if not self._is_alone:
            self._scheduler.at(BALANCE, self._scheduler.now().mono_ms + BALANCED_FIRST_MS, self._balance)

    def _send_all_metadata(self, term: ControllerTerm) -> Steps[None]:
        """Send the metadata of all partitions to all brokers in one update. A single broker sends itself smaller updates."""
        term.requests.add_metadata_for_all(() if self._is_alone else term.context.leaders)
        yield from term.send()
        for some in in_pieces(list(term.context.leaders) if self._is_alone else (), PIECE):
            term.requests.add_metadata_for_all(some)
            yield from term.send_and_wait()

    def _send_roles(self, objects: TermObjects, partitions: list[TopicPartition]) -> Steps[None]:
        """Send LeaderAndIsr in one request per broker, which takes it as complete. A single broker sends smaller requests."""
        if not self._is_alone:
            yield from objects.leaders.announce_to_replicas(partitions)
            yield from objects.term.send()
            return
        for some in in_pieces(partitions, PIECE):
            yield from objects.leaders.announce_to_replicas(some)
            yield from objects.term.send_and_wait()

    def _note_features(self, term: ControllerTerm, brokers: Iterable[LiveBroker]) -> Steps[None]:
        """Write the features entry of a new cluster: the newest levels that all brokers support.

        The levels are empty if `inter.broker.protocol.version` is set and the cluster can have other brokers.
        """
        if not term.protocol.has(Switch.FEATURES) or (yield from term.reader.value(layout.FEATURES)) is not None:
            return
        offered = {} if PROTOCOL in term.settings.given and not self._is_alone else features.OFFERED
        newest = features.served_by_all(offered, [features.supported_features(one.features) for one in brokers])
        levels = {name: one.highest for name, one in newest.items() if one.highest != features.OFF}
        value = layout.features_json(levels, 2 if term.protocol.is_at_least(FEATURES_IN_2_FROM) else 1)
        try:
            yield from term.commit([Change(layout.FEATURES, value, NEW)])
        except CONFLICTS:
            log.info("another broker has noted the levels of features")

    def _suitable(self, term: ControllerTerm, brokers: Mapping[int, LiveBroker]) -> Steps[dict[int, LiveBroker]]:
        """Return the registered brokers that support the finalized features. The controller ignores all other brokers."""
        found, unsuitable, levels = dict[int, LiveBroker](), set[tuple[int, int]](), dict[str, int]()
        offered = {node_id: features.supported_features(broker.features) for node_id, broker in brokers.items()}
        if term.protocol.has(Switch.FEATURES) and any(
            features.unsupported_levels(features.NEWEST, each) for each in offered.values()
        ):
            levels = yield from term.reader.finalized_levels()
        for node_id, broker in brokers.items():
            unserved = features.unsupported_levels(levels, offered[node_id])
            if not unserved:
                found[node_id] = broker
                continue
            unsuitable.add((node_id, broker.epoch))
            if (node_id, broker.epoch) not in self._unsuitable:
                log.warning(UNSUITABLE, node_id, ", ".join(f"{name}={level}" for name, level in unserved.items()))
        self._unsuitable = unsuitable
        return found

    def _remove_notifications(self, objects: TermObjects, path: str, changed: Callable[[str], None]) -> Steps[None]:
        """Remove notifications for a former controller, because this controller is about to read all states."""
        names = yield from objects.term.reader.names(path, changed)
        yield from objects.term.states.remove(f"{path}/{name}" for name in names)

    # Changes in the registry

    def _soon(self, name: str | None, work: Callable[[TermObjects], Steps[None]]) -> None:
        def see_to_it() -> Steps[None]:
            if self._objects is not None:
                yield from work(self._objects)

        self._events.soon(name, see_to_it)

    def _brokers_changed(self, path: str) -> None:
        self._soon("brokers", self._process_brokers)

    def _process_brokers(self, objects: TermObjects) -> Steps[None]:
        there = yield from objects.term.reader.brokers(self._brokers_changed, each=self._brokers_changed)
        joined = yield from objects.brokers.apply_registrations((yield from self._suitable(objects.term, there)))
        yield from objects.topics.resume((yield from objects.brokers.partitions_on(joined)))
        yield from objects.reassignments.resume_on(joined)

    def _topics_changed(self, path: str) -> None:
        self._soon("topics", self._process_topics)

    def _process_topics(self, objects: TermObjects) -> Steps[None]:
        yield from objects.topics.update_topics((yield from objects.term.reader.names(layout.TOPICS, self._topics_changed)))

    def _topic_changed(self, path: str) -> None:
        name = path.removeprefix(f"{layout.TOPICS}/")
        self._soon(path, lambda objects: objects.topics.grown(name))

    def _deletions_changed(self, path: str) -> None:
        self._soon("deletions", self._process_deletions)

    def _process_deletions(self, objects: TermObjects) -> Steps[None]:
        yield from self._process_topics(objects)  # a deletion can be requested before the new topic was read
        yield from objects.topics.to_be_deleted((yield from objects.term.reader.names(DELETIONS, self._deletions_changed)))

    def _isr_changed(self, path: str) -> None:
        self._soon("in-sync replicas", self._process_isr_changes)

    def _process_isr_changes(self, objects: TermObjects) -> Steps[None]:
        names = yield from objects.term.reader.names(ISR_CHANGES, self._isr_changed)
        if names:
            yield from objects.reassignments.in_sync((yield from objects.isrs.publish_notified(names)))

    def _isrs_altered(self, partitions: Iterable[TopicPartition]) -> None:
        objects = self._objects
        moving = [] if objects is None else [one for one in partitions if one in objects.term.context.reassigning]
        if moving:
            self._soon(None, lambda objects: objects.reassignments.in_sync(moving))

    def _reassignments_wanted(self, path: str) -> None:
        self._soon("reassignments", lambda objects: objects.reassignments.process_requested())

    def _elections_wanted(self, path: str) -> None:
        self._soon("elections of first replicas", lambda objects: objects.elections.process_requested())

    def _balance(self, now: Now) -> None:
        """Check the leader imbalance now and schedule the next check (`auto.leader.rebalance.enable`)."""
        settings = self._settings.value
        if settings.auto_leader_rebalance_enable:
            self._soon("balance of leaders", lambda objects: objects.elections.balance())
        self._scheduler.at(BALANCE, now.mono_ms + settings.leader_imbalance_check_interval_seconds * 1000, self._balance)

    def _log_dir_failed(self, path: str) -> None:
        self._soon("log directories", self._process_log_dirs)

    def _process_log_dirs(self, objects: TermObjects) -> Steps[None]:
        names = yield from objects.term.reader.names(LOG_DIR_EVENTS, self._log_dir_failed)
        if names:
            yield from objects.brokers.log_dirs_failed(names)

    # Responses of brokers

    def _on_response(self, request: ControlRequest, response: Any) -> None:
        if response.error_code:
            level = logging.INFO if response.error_code in STALE else logging.ERROR
            log.log(level, "broker %d refused %s: %s", request.node_id, _describe_request(request), error_name(response.error_code))
        elif isinstance(request.message, LeaderAndIsrRequest):
            self._soon(None, partial(_roles_answered, request.node_id, response))
        if request.deleted:
            self._soon(None, lambda objects: self._on_stop_response(objects, request, response))

    def _on_stop_response(self, objects: TermObjects, request: ControlRequest, response: StopReplicaResponse) -> Steps[None]:
        yield from objects.topics.on_stop_response(request, response)
        pause_ms = objects.topics.begin_pause()
        if pause_ms is not None:
            self._scheduler.at(DELETIONS_AGAIN, self._scheduler.now().mono_ms + pause_ms, self._delete_again)

    def _delete_again(self, now: Now) -> None:
        self._soon("refused deletions", lambda objects: objects.topics.retry())


def _describe_request(request: ControlRequest) -> str:
    if isinstance(request.message, LeaderAndIsrRequest):
        return "its roles"
    return "to stop replicas" if isinstance(request.message, StopReplicaRequest) else "metadata"


def _roles_answered(node_id: int, response: Any, objects: TermObjects) -> Steps[None]:
    return objects.brokers.roles_answered(node_id, response)
