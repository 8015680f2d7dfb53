"""The response to a StreamsGroupHeartbeat: epoch, tasks and statuses, and the partitions behind the endpoints of all members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from ottla.coord.streams.checks import WARMUPS_FROM
from ottla.coord.streams.draft import StreamsDraft
from ottla.coord.streams.group import EndpointToPartitions
from ottla.coord.streams.member import StreamsMember
from ottla.coord.streams.topology.endpoints import partitions_of
from ottla.coord.streams.values import ConfiguredTopology, InternalTopic
from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse


class HeartbeatResult(NamedTuple):
    """The response to a heartbeat, and the internal topics that must be created for the group."""

    response: StreamsGroupHeartbeatResponse
    missing: tuple[InternalTopic, ...] = ()


Endpoint = StreamsGroupHeartbeatRequest.Endpoint
ResponseTaskIds = StreamsGroupHeartbeatRequest.TaskIds


def response_to(
    draft: StreamsDraft,
    body: StreamsGroupHeartbeatRequest,
    reconciled: StreamsMember,
    configured: ConfiguredTopology,
    *,
    includes_tasks: bool,
    endpoint_epoch: int,
) -> HeartbeatResult:
    """Return the response, with tasks if `includes_tasks`, and with the endpoints if the member has not seen their epoch."""
    response = StreamsGroupHeartbeatResponse(
        member_id=reconciled.member_id,
        member_epoch=reconciled.epoch,
        heartbeat_interval_ms=draft.setting_of_group("heartbeat.interval.ms"),
        status=[StreamsGroupHeartbeatResponse.Status(status_code=each.code, status_detail=each.detail) for each in draft.statuses],
        # A group that was just created has no endpoint epoch yet, as in Kafka.
        endpoint_information_epoch=endpoint_epoch if draft.group.members else 0,
    )
    if draft.version >= WARMUPS_FROM:
        response.task_offset_interval_ms = draft.setting_of_group("task.offset.interval.ms")
        response.acceptable_recovery_lag = draft.setting_of_group("acceptable.recovery.lag")
    if includes_tasks:
        response.active_tasks = _listed(reconciled.assigned.active)
        response.standby_tasks = _listed(reconciled.assigned.standby)
        response.warmup_tasks = _listed(reconciled.assigned.warmup)
    if endpoint_epoch != body.endpoint_information_epoch:
        response.partitions_by_user_endpoint = list(_endpoints(draft, reconciled, configured))
    return HeartbeatResult(response, configured.missing)


def _listed(tasks: Mapping[str, Mapping[int, int] | AbstractSet[int]]) -> list[ResponseTaskIds]:
    return [ResponseTaskIds(subtopology_id=name, partitions=sorted(held)) for name, held in sorted(tasks.items())]


def _endpoints(draft: StreamsDraft, reconciled: StreamsMember, configured: ConfiguredTopology) -> Iterator[EndpointToPartitions]:
    """Yield the partitions of all members with an endpoint. Those of unchanged members are cached by the group."""
    group = draft.group
    for member_id, member in group.members.items():
        if member_id in (reconciled.member_id, draft.replaced) or member.user_endpoint is None:
            continue
        known = group.endpoints.get(member_id)
        if known is None or configured is not group.configured:
            known = _endpoint_of(draft, member, member.user_endpoint, configured)
            if configured is group.configured:
                group.endpoints[member_id] = known
        yield known
    if reconciled.user_endpoint is not None:
        yield _endpoint_of(draft, reconciled, reconciled.user_endpoint, configured)


def _endpoint_of(
    draft: StreamsDraft, member: StreamsMember, endpoint: tuple[str, int], configured: ConfiguredTopology
) -> EndpointToPartitions:
    tasks, topics = member.assigned.without_epochs(), draft.context.topics
    names = tasks.standby.keys() | tasks.warmup.keys()
    copies = {name: tasks.standby.get(name, frozenset()) | tasks.warmup.get(name, frozenset()) for name in names}
    host, port = endpoint
    return EndpointToPartitions(
        user_endpoint=Endpoint(host=host, port=port),
        active_partitions=partitions_of(tasks.active, configured, topics),
        standby_partitions=partitions_of(copies, configured, topics),
    )
