"""The state of one streams group (KIP-1071), its methods as a `Group` (`ottla.coord.groups`), and `apply`, which changes it.

Decisions about requests are elsewhere. The state follows from epochs, topology and members, and its events are records. The records
of one decision are applied one after the other, so clients never see some of these states.

| state | event | next state |
|---|---|---|
| Empty | StreamsMemberStored | NotReady |
| Empty | StreamsMemberStored | Assigning |
| Empty | StreamsMemberStored | Reconciling |
| NotReady | StreamsEpochStored | Assigning |
| NotReady | TopologyStored | Reconciling |
| Assigning, Reconciling, Stable | StreamsEpochStored | NotReady |
| Reconciling, Stable | StreamsEpochStored | Assigning |
| Stable | StreamsMemberStored, StreamsCurrentStored, StreamsCurrentForgotten | Reconciling |
| Assigning | StreamsTargetEpochStored | Reconciling |
| Assigning | StreamsTargetEpochStored | Stable |
| Reconciling | StreamsCurrentStored, StreamsMemberForgotten | Stable |
| NotReady, Assigning, Reconciling | StreamsMemberForgotten | Empty |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from sys import getsizeof
from typing import ClassVar, Final, Never

from ottla.coord.commit_rules import Commit, CommitPartition, member_commit_error, member_fetch_error
from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.member_checks import LEAVING_EPOCH
from ottla.coord.records import NO_TIMESTAMP
from ottla.coord.streams.events import (
    DelayBegun,
    DelayEnded,
    EndpointsChanged,
    GroupRecalled,
    ShutdownRequested,
    StreamsEvent,
    TaskAssignmentBegun,
    TaskAssignmentEnded,
    TaskOffsetsReported,
    TasksConfirmed,
    TasksRefined,
    TasksSent,
    TopologyConfigured,
    WarmupsSupported,
)
from ottla.coord.streams.holders import TaskHolders
from ottla.coord.streams.member import NOTHING_HELD, StreamsMember, weight_of
from ottla.coord.streams.records import (
    StreamsCurrentForgotten,
    StreamsCurrentStored,
    StreamsEpochForgotten,
    StreamsEpochStored,
    StreamsMemberForgotten,
    StreamsMemberStored,
    StreamsStored,
    StreamsTargetEpochForgotten,
    StreamsTargetEpochStored,
    StreamsTargetForgotten,
    StreamsTargetStored,
    TopologyForgotten,
    TopologyStored,
)
from ottla.coord.streams.states import StreamsGroupState, StreamsMemberState
from ottla.coord.streams.topology.dependencies import required_topics
from ottla.coord.streams.values import NO_TASKS, ConfiguredTopology, TaskSets, Topology
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from ottla.wire.errors import NONE

EndpointToPartitions = StreamsGroupHeartbeatResponse.EndpointToPartitions
TaskOffsets = Mapping[tuple[str, int], int]

FIRST_EPOCH: Final = 1
GROUP_TYPE: Final = "streams"
NOT_VALIDATED: Final = -1

TOPIC_BYTES: Final = 300
"""The memory in bytes of each mention of a topic in a topology, without the name's own size."""
OFFSET_BYTES: Final = 150
"""The memory in bytes of the reported offset of one task."""


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroup:
    """One streams group.

    Members, targets and the topology are immutable values. `holders` are the members that have a task or must still revoke it.
    `required` are the topics on which the topology depends, and `subtopologies` the id of the subtopology that reads each source.
    These are volatile: `configured` is the topology with its tasks, and `stale` says that its topics have possibly changed since.
    `shutdown_member_id` requested a shutdown of the application. `delayed`: the first assignment waits for members. `assigning` is
    the token of the request that began a long assignment. `offsets` and `end_offsets` are those that members reported. `endpoints`
    caches the partitions of members at their endpoints. `unconfirmed` are the times of replies whose tasks were not reported.
    `warmable` are the members that can run warm-up tasks. `refined` are the tasks of members that differ from their targets,
    while tasks wait for warm-up tasks. `recalled_ms` is the monotonic time at which the stored group was loaded.
    `weight` is the estimated memory of the members and the topology in bytes.
    """

    group_type: ClassVar[str] = GROUP_TYPE
    protocol_type: ClassVar[str] = GROUP_TYPE

    group_id: str
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    validated_topology_epoch: int = 0
    configs: tuple[tuple[str, str], ...] = ()
    assignment_epoch: int = FIRST_EPOCH
    assignment_wall_ms: int = 0
    members: dict[str, StreamsMember] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)
    targets: dict[str, TaskSets] = field(default_factory=dict)
    holders: TaskHolders = field(default_factory=TaskHolders)
    topology: Topology | None = None
    required: frozenset[str] = frozenset()
    subtopologies: dict[str, str] = field(default_factory=dict)
    configured: ConfiguredTopology | None = None
    stale: bool = True
    shutdown_member_id: str | None = None
    delayed: bool = False
    assigning: int | None = None
    endpoint_epoch: int = 0
    endpoints: dict[str, EndpointToPartitions] = field(default_factory=dict)
    offsets: dict[str, TaskOffsets] = field(default_factory=dict)
    end_offsets: dict[str, TaskOffsets] = field(default_factory=dict)
    unconfirmed: dict[str, int] = field(default_factory=dict)
    warmable: set[str] = field(default_factory=set)
    refined: Mapping[str, TaskSets] = field(default_factory=dict)
    recalled_ms: int | None = None
    weight: int = 0

    @property
    def state(self) -> StreamsGroupState:
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_deserted(self) -> bool:
        return not self.members

    def yields_to(self, group_type: str) -> bool:
        """Return whether a group of this type replaces the empty group: only a classic one, as in Kafka."""
        return not self.members and group_type == "classic"

    def without_deleted(self, topics: KnownTopics) -> Sequence[StreamsStored]:
        """Return no records: the group finds by its next heartbeat that a topic was deleted."""
        return ()

    def serves(self, request: type) -> bool:
        """Return True: the group decides its timers, some of whose keys classic groups use, too."""
        return True

    def commit_error(self, commit: Commit) -> int:
        return member_commit_error(commit, self.members, self._given_at)

    def _given_at(self, member: StreamsMember, place: CommitPartition) -> int | None:
        """Return the epoch at which a member got the active task of a partition; None if it does not have the task."""
        subtopology_id = self.subtopologies.get(place.topic)
        return None if subtopology_id is None else member.given_at(subtopology_id, place.partition)

    def fetch_error(self, wanted: OffsetFetchRequest.OffsetFetchRequestGroup) -> int:
        return member_fetch_error(wanted, self.members)

    def offset_delete_error(self) -> int:
        return NONE

    def session_restarted_by_commit(self, member_id: str) -> int | None:
        return None

    def expires_from_ms(self) -> int | None:
        """Return -1, because retention begins at each commit: the time when a group became empty is not stored."""
        return NO_TIMESTAMP

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member possibly reads this topic as a source of the topology."""
        return bool(self.members) and topic in self.subtopologies

    def tombstones(self) -> Sequence[StreamsStored]:
        """Return the records that delete the group."""
        group_id = self.group_id
        records: list[StreamsStored] = [StreamsCurrentForgotten(group_id, member_id) for member_id in self.members]
        records += [StreamsTargetForgotten(group_id, member_id) for member_id in self.members]
        records.append(StreamsTargetEpochForgotten(group_id))
        records += [StreamsMemberForgotten(group_id, member_id) for member_id in self.members]
        records += [StreamsEpochForgotten(group_id), TopologyForgotten(group_id)]
        return records

    def static_member(self, instance_id: str) -> StreamsMember | None:
        """Return the static member with this instance id; None if it is missing."""
        member_id = self.static.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def active_process(self, subtopology_id: str, partition: int) -> str | None:
        """Return the process whose member has an active task or must still revoke it; None if the task is free."""
        holder = self.holders.active_holder(subtopology_id, partition)
        return None if holder is None else self.members[holder].process_id

    @property
    def has_strayed(self) -> bool:
        """Return whether a member has reached the assignment's epoch with other tasks than its target's."""
        return any(
            member.is_reconciled_to(self.assignment_epoch)
            and member.assigned.without_epochs() != self.targets.get(member.member_id, NO_TASKS)
            for member in self.members.values()
        )

    def target_of(self, member_id: str) -> TaskSets:
        """Return a member's assignment of the moment: its target, unless tasks wait for warm-up tasks."""
        return self.refined.get(member_id) or self.targets.get(member_id, NO_TASKS)

    def has_copy(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        """Return whether a process has a task as a standby or warm-up task."""
        return self.holders.copies_in(self.members, process_id, subtopology_id, partition)


def apply(group: StreamsGroup, event: StreamsStored | StreamsEvent) -> None:
    _APPLY[type(event)](group, event)  # type: ignore[arg-type]  # the table's keys are the events' types


def _epoch_stored(group: StreamsGroup, event: StreamsEpochStored) -> None:
    group.epoch = event.epoch
    group.metadata_hash = event.metadata_hash
    group.validated_topology_epoch = event.validated_topology_epoch
    group.configs = event.configs


def _member_stored(group: StreamsGroup, event: StreamsMemberStored) -> None:
    former = group.members.get(event.member_id)
    member = with_stored(former or StreamsMember(event.member_id), event)
    group.members[event.member_id] = member
    group.weight += member.weight - (0 if former is None else former.weight)
    if former is not None:
        _forget_instance(group, former)
    if member.instance_id is not None:
        group.static[member.instance_id] = member.member_id
    group.endpoints.pop(event.member_id, None)


def with_stored(member: StreamsMember, stored: StreamsMemberStored) -> StreamsMember:
    """Return the member with the data in `stored`. Its tasks stay."""
    return replace(
        member,
        instance_id=stored.instance_id,
        rack_id=stored.rack_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        rebalance_timeout_ms=stored.rebalance_timeout_ms,
        topology_epoch=stored.topology_epoch,
        process_id=stored.process_id,
        user_endpoint=stored.user_endpoint,
        client_tags=stored.client_tags,
    )


def _forget_instance(group: StreamsGroup, member: StreamsMember) -> None:
    if member.instance_id is not None and group.static.get(member.instance_id) == member.member_id:
        del group.static[member.instance_id]


def _member_forgotten(group: StreamsGroup, event: StreamsMemberForgotten) -> None:
    member = group.members.get(event.member_id)
    if member is None:
        return
    _hold(group, replace(member, assigned=NOTHING_HELD, revoking=NOTHING_HELD))
    del group.members[event.member_id]
    _forget_instance(group, member)
    group.weight -= member.weight
    _report(group, event.member_id, {}, {})
    group.unconfirmed.pop(event.member_id, None)
    group.warmable.discard(event.member_id)
    if not group.members:
        group.shutdown_member_id = None


def _hold(group: StreamsGroup, member: StreamsMember) -> None:
    """Replace a member by one with other tasks."""
    former = group.members[member.member_id]
    for held in (former.assigned, former.revoking):
        group.holders.remove(member.member_id, held)
    group.members[member.member_id] = member
    for held in (member.assigned, member.revoking):
        group.holders.add(member.member_id, held)
    group.weight += member.assigned.weight + member.revoking.weight - former.assigned.weight - former.revoking.weight
    group.endpoints.pop(member.member_id, None)


def _target_epoch_stored(group: StreamsGroup, event: StreamsTargetEpochStored) -> None:
    group.assignment_epoch = event.epoch
    group.assignment_wall_ms = event.wall_ms
    _refine(group, {})


def _target_epoch_forgotten(group: StreamsGroup, event: StreamsTargetEpochForgotten) -> None:
    group.assignment_epoch = -1
    group.assignment_wall_ms = 0


def _target_stored(group: StreamsGroup, event: StreamsTargetStored) -> None:
    group.weight += weight_of(*event.tasks) - weight_of(*group.targets.get(event.member_id, NO_TASKS))
    group.targets[event.member_id] = event.tasks


def _target_forgotten(group: StreamsGroup, event: StreamsTargetForgotten) -> None:
    group.weight -= weight_of(*group.targets.pop(event.member_id, NO_TASKS))


def _current_stored(group: StreamsGroup, event: StreamsCurrentStored) -> None:
    member = group.members.get(event.member_id)
    if member is None:
        member = group.members[event.member_id] = StreamsMember(event.member_id)
        group.weight += member.weight
    changed = replace(
        member,
        epoch=event.epoch,
        previous_epoch=event.previous_epoch,
        state=event.state,
        assigned=event.assigned,
        revoking=event.revoking,
    )
    _hold(group, changed)


def _current_forgotten(group: StreamsGroup, event: StreamsCurrentForgotten) -> None:
    if event.member_id in group.members:
        epochs = LEAVING_EPOCH, LEAVING_EPOCH
        _current_stored(group, StreamsCurrentStored(*event, *epochs, StreamsMemberState.STABLE, NOTHING_HELD, NOTHING_HELD))


def _topology_stored(group: StreamsGroup, event: TopologyStored) -> None:
    _topology_forgotten(group, TopologyForgotten(event.group_id))
    group.topology = event.topology
    group.required = required_topics(event.topology)
    for subtopology in event.topology.subtopologies:
        repartitioned = (topic.name for topic in subtopology.repartition_source_topics)
        group.subtopologies |= dict.fromkeys((*subtopology.source_topics, *repartitioned), subtopology.subtopology_id)
    group.weight += topology_weight(event.topology)


def _topology_forgotten(group: StreamsGroup, event: TopologyForgotten) -> None:
    if group.topology is not None:
        group.weight -= topology_weight(group.topology)
    group.topology = group.configured = None
    group.required = frozenset()
    group.subtopologies = {}
    group.endpoints.clear()


def topology_weight(topology: Topology) -> int:
    """Return the memory of a topology in bytes."""
    names: list[str] = []
    configs: list[str] = []
    indexes = groups = 0
    for each in topology.subtopologies:
        names += each.source_topics
        names += each.repartition_sink_topics
        for topic in (*each.repartition_source_topics, *each.state_changelog_topics):
            names.append(topic.name)
            for config in topic.configs:
                configs += config
        groups += len(each.copartition_groups)
        indexes += sum([len(group.source_topics) + len(group.repartition_source_topics) for group in each.copartition_groups])
    of_texts = sum(map(getsizeof, names)) + sum(map(getsizeof, configs))
    return TOPIC_BYTES * (10 * len(topology.subtopologies) + len(names) + groups) + 8 * indexes + of_texts


def _topology_configured(group: StreamsGroup, event: TopologyConfigured) -> None:
    if group.configured is not event.configured:
        group.endpoints.clear()
    group.configured = event.configured
    group.stale = False


def _shutdown_requested(group: StreamsGroup, event: ShutdownRequested) -> None:
    if group.shutdown_member_id is None and group.members:
        group.shutdown_member_id = event.member_id


def _endpoints_changed(group: StreamsGroup, event: EndpointsChanged) -> None:
    group.endpoint_epoch += 1


def _delay_begun(group: StreamsGroup, event: DelayBegun) -> None:
    group.delayed = True


def _delay_ended(group: StreamsGroup, event: DelayEnded) -> None:
    group.delayed = False


def _assignment_begun(group: StreamsGroup, event: TaskAssignmentBegun) -> None:
    group.assigning = event.token


def _assignment_ended(group: StreamsGroup, event: TaskAssignmentEnded) -> None:
    group.assigning = None


def _offsets_reported(group: StreamsGroup, event: TaskOffsetsReported) -> None:
    _report(group, event.member_id, event.offsets, event.end_offsets)


def _warmups_supported(group: StreamsGroup, event: WarmupsSupported) -> None:
    if event.member_id in group.members:
        group.warmable.add(event.member_id)


def _tasks_refined(group: StreamsGroup, event: TasksRefined) -> None:
    _refine(group, event.assigned)


def _refine(group: StreamsGroup, tasks: Mapping[str, TaskSets]) -> None:
    """Replace the tasks that members have for now instead of their targets."""
    for sign, each in ((-1, group.refined), (1, tasks)):
        group.weight += sign * sum(weight_of(*refined) for refined in each.values())
    group.refined = tasks


def _note_recall(group: StreamsGroup, event: GroupRecalled) -> None:
    group.recalled_ms = event.mono_ms


def _tasks_sent(group: StreamsGroup, event: TasksSent) -> None:
    if event.member_id in group.members:
        group.unconfirmed[event.member_id] = event.mono_ms


def _tasks_confirmed(group: StreamsGroup, event: TasksConfirmed) -> None:
    group.unconfirmed.pop(event.member_id, None)


def _report(group: StreamsGroup, member_id: str, offsets: TaskOffsets, end_offsets: TaskOffsets) -> None:
    """Replace the offsets that a member has reported."""
    for table, reported in ((group.offsets, offsets), (group.end_offsets, end_offsets)):
        group.weight += OFFSET_BYTES * (len(reported) - len(table.pop(member_id, ())))
        if reported:
            table[member_id] = reported


def _ignore(group: StreamsGroup, event: StreamsEpochForgotten) -> None:
    """Do nothing, because the coordinator removes the group."""


_APPLY: dict[type, Callable[[StreamsGroup, Never], None]] = {
    StreamsEpochStored: _epoch_stored,
    StreamsEpochForgotten: _ignore,
    StreamsMemberStored: _member_stored,
    StreamsMemberForgotten: _member_forgotten,
    StreamsTargetEpochStored: _target_epoch_stored,
    StreamsTargetEpochForgotten: _target_epoch_forgotten,
    StreamsTargetStored: _target_stored,
    StreamsTargetForgotten: _target_forgotten,
    StreamsCurrentStored: _current_stored,
    StreamsCurrentForgotten: _current_forgotten,
    TopologyStored: _topology_stored,
    TopologyForgotten: _topology_forgotten,
    TopologyConfigured: _topology_configured,
    ShutdownRequested: _shutdown_requested,
    EndpointsChanged: _endpoints_changed,
    DelayBegun: _delay_begun,
    DelayEnded: _delay_ended,
    TaskAssignmentBegun: _assignment_begun,
    TaskAssignmentEnded: _assignment_ended,
    TaskOffsetsReported: _offsets_reported,
    WarmupsSupported: _warmups_supported,
    TasksRefined: _tasks_refined,
    GroupRecalled: _note_recall,
    TasksSent: _tasks_sent,
    TasksConfirmed: _tasks_confirmed,
}
FOUNDING = frozenset(
    (StreamsEpochStored, StreamsMemberStored, StreamsTargetEpochStored, StreamsTargetStored, StreamsCurrentStored, TopologyStored)
)
"""The types of the records that create a group. All other records are tombstones or events."""

EVENTS = frozenset(
    (
        TopologyConfigured,
        ShutdownRequested,
        EndpointsChanged,
        DelayBegun,
        DelayEnded,
        TaskAssignmentBegun,
        TaskAssignmentEnded,
        TaskOffsetsReported,
        WarmupsSupported,
        TasksRefined,
        GroupRecalled,
        TasksSent,
        TasksConfirmed,
    )
)
"""The types of the events, which are volatile."""
