"""The topology of a streams group after a heartbeat, compared with the present topics, and the group's next epoch."""

from __future__ import annotations

from typing import NamedTuple

from ottla.coord.member_checks import Refusal, invalid
from ottla.coord.streams.checks import owned_error
from ottla.coord.streams.draft import StreamsDraft, stored_configs
from ottla.coord.streams.events import TopologyConfigured
from ottla.coord.streams.group import NOT_VALIDATED
from ottla.coord.streams.records import StreamsEpochStored, TopologyStored
from ottla.coord.streams.topology.configuration import InvalidTopology, configure
from ottla.coord.streams.topology.dependencies import is_same, required_topics
from ottla.coord.streams.values import ConfiguredTopology, Topology
from ottla.wire.errors import STREAMS_INVALID_TOPOLOGY, UNKNOWN_MEMBER_ID


class TopologyOutlook(NamedTuple):
    """The group's topology with its tasks, and the group's epoch, after a heartbeat."""

    configured: ConfiguredTopology
    epoch: int


def topology_after(draft: StreamsDraft, sent: Topology | None) -> Topology | Refusal:
    """Return the group's topology, which is the one of its first member. Another one in the same or a later epoch is refused."""
    known = draft.group.topology
    if sent is None:
        # A group without topology was damaged: its members must join again, and send it.
        return known or Refusal(UNKNOWN_MEMBER_ID, f"Group {draft.group_id} has no topology: join again with one.")
    if known is None:
        return sent
    if known.epoch > sent.epoch or is_same(known, sent):
        return known
    return invalid("Topology updates are not supported yet: delete the group, or use another application.id.")


def evaluate(draft: StreamsDraft, topology: Topology, *, changed: bool) -> TopologyOutlook | Refusal:
    """Store the topology if it is new, and raise the group's epoch if the topology, its topics or the settings have changed.

    `changed`: the epoch rises in any case, because the member is new, has reported other values, or a warm-up task has caught up.
    """
    group = draft.group
    if group.topology is None:
        draft.store(TopologyStored(draft.group_id, topology))
    compared = _compare(draft, topology)
    if isinstance(compared, Refusal):
        return compared
    configured, metadata_hash = compared
    validated = topology.epoch if configured.problem is None else NOT_VALIDATED
    if configured.problem is None and (refused := owned_error(draft.owned, configured)) is not None:
        return refused
    configs = stored_configs(draft.configs)
    before = group.metadata_hash, group.validated_topology_epoch, group.configs
    epoch = group.epoch
    if changed or before != (metadata_hash, validated, configs):
        epoch += 1
        draft.store(StreamsEpochStored(draft.group_id, epoch, metadata_hash, validated, configs))
    if configured is not group.configured or group.stale:
        draft.store(TopologyConfigured(draft.group_id, configured))
    return TopologyOutlook(configured, epoch)


def _compare(draft: StreamsDraft, topology: Topology) -> tuple[ConfiguredTopology, int] | Refusal:
    """Return the topology with its tasks, and the hash of its topics. Compare only topics that have possibly changed."""
    group, topics = draft.group, draft.context.topics
    configured, metadata_hash = group.configured, group.metadata_hash
    if configured is not None and not group.stale:
        return configured, metadata_hash
    present_hash = topics.hash_of(required_topics(topology) if group.topology is None else group.required)
    if configured is not None and present_hash == metadata_hash:
        return configured, metadata_hash
    found = configure(topology, topics)
    return Refusal(STREAMS_INVALID_TOPOLOGY, found.message) if isinstance(found, InvalidTopology) else (found, present_hash)
