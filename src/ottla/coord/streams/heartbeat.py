"""StreamsGroupHeartbeat (KIP-1071): a member joins, keeps its session, gets its tasks, and sends the topology when it joins.

A heartbeat finds its member (`membership`), notes what it reports (`reports`), compares the topology with the present topics
(`outlook`), gets the member's target (`target`), reconciles the member with it, and replies with the group's statuses.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from ottla.coord.member_checks import JOINING_EPOCH, Refusal, memory_error
from ottla.coord.outcome import InitialDelayKey
from ottla.coord.streams.checks import STATUS_OF_TAGS_FROM, group_size_error
from ottla.coord.streams.draft import StreamsDraft, member_record
from ottla.coord.streams.events import DelayBegun, EndpointsChanged, ShutdownRequested
from ottla.coord.streams.group import topology_weight
from ottla.coord.streams.member import StreamsMember
from ottla.coord.streams.membership import TaskAsk, find_member, reconcile_member, update_member
from ottla.coord.streams.outlook import evaluate, topology_after
from ottla.coord.streams.reports import must_include_tasks, note_offsets, store_reports
from ottla.coord.streams.response import response_to
from ottla.coord.streams.target import find_target
from ottla.coord.streams.topology.statuses import missing_tags, shutdown, stale_topology
from ottla.coord.streams.values import ConfiguredTopology, GroupStatus, Topology
from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest

log = logging.getLogger("ottla.coord")


def heartbeat(draft: StreamsDraft, ask: TaskAsk) -> Refusal | None:
    """Decide the heartbeat of a present or joining member. The draft's group can be new."""
    body, checked = ask.body
    if body.member_epoch == JOINING_EPOCH:
        refused = group_size_error(draft.group, body.instance_id, draft.context.settings.group_streams_max_size)
        if refused is not None:
            return refused
    member = find_member(draft, body)
    if isinstance(member, Refusal):
        return member
    updated = update_member(member, ask)
    topology = topology_after(draft, None if checked is None else checked.topology)
    if isinstance(topology, Refusal):
        return topology
    refused = memory_error(draft, _growth(draft, member, updated, topology))
    if refused is not None:
        return refused
    if updated is not member:
        draft.store(member_record(draft.group_id, updated))
    _note_stale_topology(draft, updated)
    is_warm = note_offsets(draft, body, updated)
    outlook = evaluate(draft, topology, changed=updated is not member or is_warm)
    if isinstance(outlook, Refusal):
        return outlook
    store_reports(draft, updated)
    target = find_target(draft, outlook.epoch, updated, outlook.configured, delayed=_begin_delay(draft))
    reconciled = reconcile_member(draft, updated, target)
    if isinstance(reconciled, Refusal):
        return reconciled
    _finish(draft, body, member, reconciled, outlook.configured)
    return None


def _growth(draft: StreamsDraft, member: StreamsMember, updated: StreamsMember, topology: Topology) -> int:
    """Return the additional memory in bytes for the updated member, and for a new topology."""
    is_new = member.member_id not in draft.group.members and draft.replaced is None
    growth = updated.weight - (0 if is_new else member.weight)
    return growth + (topology_weight(topology) if draft.group.topology is None else 0)


def _note_stale_topology(draft: StreamsDraft, member: StreamsMember) -> None:
    """Add a status if the member's topology is older than the group's."""
    topology = draft.group.topology
    if topology is not None and member.topology_epoch < topology.epoch:
        draft.statuses.append(stale_topology(member.topology_epoch, topology.epoch))


def _begin_delay(draft: StreamsDraft) -> bool:
    """Begin the delay of a new group's first assignment if this is its first member. Return whether the assignment is delayed."""
    group = draft.group
    if group.delayed or group.members:
        return group.delayed
    delay_ms = draft.setting_of_group("initial.rebalance.delay.ms")
    if delay_ms <= 0:
        return False
    draft.store(DelayBegun(draft.group_id))
    draft.after(InitialDelayKey(draft.group_id), delay_ms)
    return True


def _finish(
    draft: StreamsDraft,
    body: StreamsGroupHeartbeatRequest,
    member: StreamsMember,
    reconciled: StreamsMember,
    configured: ConfiguredTopology,
) -> None:
    """Restart the member's session, and reply with its tasks and the statuses of the group."""
    group = draft.group
    draft.expect(reconciled)
    if body.shutdown_application and group.shutdown_member_id is None:
        log.info("group %s: member %s requests a shutdown of the application", group.group_id, reconciled.member_id)
        draft.store(ShutdownRequested(group.group_id, reconciled.member_id))
    is_changed = body.member_epoch == JOINING_EPOCH or reconciled.assigned != member.assigned
    includes_tasks = must_include_tasks(draft, body, reconciled, is_changed=is_changed)
    endpoint_epoch = group.endpoint_epoch + (1 if is_changed and reconciled.user_endpoint is not None else 0)
    if endpoint_epoch != group.endpoint_epoch and group.members:
        draft.store(EndpointsChanged(group.group_id))
    draft.statuses += _statuses(draft, reconciled, configured, requests_shutdown=body.shutdown_application)
    draft.answer(response_to(draft, body, reconciled, configured, includes_tasks=includes_tasks, endpoint_epoch=endpoint_epoch))


def _statuses(
    draft: StreamsDraft, member: StreamsMember, configured: ConfiguredTopology, *, requests_shutdown: bool
) -> Iterator[GroupStatus]:
    """Yield the statuses about topics, a shutdown, and the client tags that the member lacks, in Kafka's order."""
    if configured.problem is not None:
        yield configured.problem
    requester = draft.group.shutdown_member_id or (member.member_id if requests_shutdown else None)
    if requester is not None:
        yield shutdown(requester)
    tags = dict(member.client_tags)
    missing = [key for key in draft.rack_aware_tags if key not in tags]
    if missing and draft.version >= STATUS_OF_TAGS_FROM:
        yield missing_tags(missing)
