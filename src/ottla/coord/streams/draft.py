"""The draft of a decision about one streams group: it collects records, replies and timers, and changes nothing.

The rules of the protocol are elsewhere, as functions of a draft. Members and targets are immutable values, so rules return new
values and do not change the group.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from ottla.coord.group_draft import GroupDraft
from ottla.coord.outcome import RebalanceKey, SessionKey
from ottla.coord.streams.events import TaskOffsetsReported
from ottla.coord.streams.group import StreamsGroup
from ottla.coord.streams.member import StreamsMember
from ottla.coord.streams.records import StreamsCurrentStored, StreamsEpochStored, StreamsMemberStored
from ottla.coord.streams.values import AssignmentConfigs, GroupStatus, TaskSets

NUM_STANDBY_REPLICAS = "num.standby.replicas"
RACK_AWARE_TAGS = "rack.aware.assignment.tags"
"""The names of settings of the last assignment, in the record of a group's epoch."""


@dataclass(slots=True, eq=False, repr=False)
class StreamsDraft(GroupDraft[StreamsGroup]):
    """The records, replies and timers that are collected while a coordinator decides one request to a streams group.

    `group` is the present group, which must not be changed. `replaced` is the id of a static member that is being replaced.
    `version` is that of the request. `owned` are the tasks that its member reports, or None without a report. `reported` are the
    offsets in the request. `statuses` are those of the group, for the reply.
    """

    version: int = 0
    owned: TaskSets | None = None
    replaced: str | None = field(default=None, init=False)
    statuses: list[GroupStatus] = field(default_factory=list, init=False)
    reported: dict[str, TaskOffsetsReported] = field(default_factory=dict, init=False)

    def setting_of_group(self, name: str) -> int:
        """Return the value of the setting `streams.NAME` that applies to this group."""
        of_group, of_broker = _names(name)
        default: int = getattr(self.context.settings, of_broker)
        return self.group_setting(of_group, default)

    @property
    def rack_aware_tags(self) -> tuple[str, ...]:
        """Return the keys of client tags that the members should have, so that the copies of a task are spread by them."""
        return self.group_setting(f"streams.{RACK_AWARE_TAGS}", self.context.settings.group_streams_rack_aware_assignment_tags)

    @property
    def configs(self) -> AssignmentConfigs:
        """Return the settings of the assignor that apply to this group."""
        return AssignmentConfigs(
            num_standby_replicas=self.setting_of_group("num.standby.replicas"),
            rack_aware_tags=self.rack_aware_tags,
            num_warmup_replicas=self.setting_of_group("num.warmup.replicas"),
            acceptable_recovery_lag=self.setting_of_group("acceptable.recovery.lag"),
        )

    def expect(self, member: StreamsMember) -> None:
        """Restart a member's session timeout."""
        self.after(SessionKey(self.group_id, member.member_id), self.setting_of_group("session.timeout.ms"))

    def forget(self, member: StreamsMember) -> None:
        """Cancel all deadlines of a member."""
        for kind in (SessionKey, RebalanceKey):
            self.cancel(kind(self.group_id, member.member_id))


@cache
def _names(name: str) -> tuple[str, str]:
    """Return the names of a setting among those of a group, and as a field of the broker's."""
    return f"streams.{name}", f"group_streams_{name.replace('.', '_')}"


def stored_configs(configs: AssignmentConfigs) -> tuple[tuple[str, str], ...]:
    """Return the settings of an assignor as the record of a group's epoch has them. Kafka 4.3 does not know the tags."""
    tags = ((RACK_AWARE_TAGS, ",".join(configs.rack_aware_tags)),) if configs.rack_aware_tags else ()
    return ((NUM_STANDBY_REPLICAS, str(configs.num_standby_replicas)), *tags)


def next_epoch_record(group: StreamsGroup) -> StreamsEpochStored:
    """Return the record of the group's next epoch, with everything else as before."""
    return StreamsEpochStored(group.group_id, group.epoch + 1, group.metadata_hash, group.validated_topology_epoch, group.configs)


def member_record(group_id: str, member: StreamsMember) -> StreamsMemberStored:
    """Return the record of the data that a member reports about itself."""
    return StreamsMemberStored(
        group_id,
        member.member_id,
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.topology_epoch,
        member.process_id,
        member.user_endpoint,
        member.client_tags,
    )


def current_record(group_id: str, member: StreamsMember) -> StreamsCurrentStored:
    """Return the record of a member's present tasks and state."""
    return StreamsCurrentStored(
        group_id, member.member_id, member.epoch, member.previous_epoch, member.state, member.assigned, member.revoking
    )
