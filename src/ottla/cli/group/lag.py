"""The lag of groups: committed offsets beside the ends of partitions, and the members that read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.admin.groups import GroupDescription, GroupMember
    from ottla.client.connection.metadata import TopicInfo
    from ottla.client.types import TopicPartition
    from ottla.net.client.admin.admin import Admin

SHARE = "share"


class GroupPosition(NamedTuple):
    """The committed offset of a group in a partition, and the lag if the broker reports it."""

    offset: int | None
    lag: int | None = None


NOWHERE = GroupPosition(None)


class PartitionLag(NamedTuple):
    """A partition that a group reads or has read. `end` is None while it has no leader, and after its topic was deleted.

    `committed` of a share group is the first offset that it has not consumed, and `counted` the lag that the broker counts.
    """

    where: TopicPartition
    committed: int | None
    end: int | None
    member: GroupMember | None
    counted: int | None = None

    @property
    def lag(self) -> int | None:
        """Return the number of offsets that are left to read. It is negative if the topic was recreated and is shorter now."""
        if self.counted is not None:
            return self.counted
        return None if self.committed is None or self.end is None else self.end - self.committed


class GroupLag(NamedTuple):
    """A group with the lag of its partitions, which are sorted."""

    group: GroupDescription
    partitions: list[PartitionLag]

    @property
    def known(self) -> list[int]:
        return [max(each.lag, 0) for each in self.partitions if each.lag is not None]

    @property
    def total(self) -> int | None:
        return sum(self.known) if self.known else None

    @property
    def largest(self) -> int | None:
        return max(self.known, default=None)


def measure(admin: Admin, group_ids: Iterable[str]) -> list[GroupLag]:
    groups = admin.describe_groups(*group_ids)
    names = [name for name, group in groups.items() if group.group_type != SHARE]
    committed: dict[str, dict[TopicPartition, GroupPosition]] = {
        name: {where: GroupPosition(each.offset) for where, each in offsets.items()}
        for name, offsets in admin.list_offsets_of_groups(*names, require_stable=False).items()
    }
    committed |= _share_positions(admin, groups.keys() - names)
    readers = {name: {where: member for member in group.members for where in member.assignment} for name, group in groups.items()}
    partitions = {name: sorted(committed.get(name, {}).keys() | readers[name].keys()) for name in groups}
    ends = _ends(admin, {where for some in partitions.values() for where in some})
    found = []
    for name, group in groups.items():
        offsets = committed.get(name, {})
        rows = [
            PartitionLag(
                where,
                offsets.get(where, NOWHERE).offset,
                ends.get(where),
                readers[name].get(where),
                offsets.get(where, NOWHERE).lag,
            )
            for where in partitions[name]
        ]
        found.append(GroupLag(group, rows))
    return found


def _share_positions(admin: Admin, names: Iterable[str]) -> dict[str, dict[TopicPartition, GroupPosition]]:
    """Return the positions of share groups; none from a broker that does not describe them."""
    from ottla.client.errors import NotSupported

    try:
        found = admin.list_share_group_offsets(*names)
    except NotSupported:
        return {}
    return {
        name: {where: GroupPosition(_known(each.start_offset), _known(each.lag)) for where, each in offsets.items()}
        for name, offsets in found.items()
    }


def _known(value: int) -> int | None:
    return None if value < 0 else value


def existing_topics(admin: Admin, names: Iterable[str]) -> Mapping[str, TopicInfo]:
    from ottla.client.errors import UnknownTopic

    wanted = set(names)
    if not wanted:
        return {}
    try:
        return admin.describe_topics(*sorted(wanted))
    except UnknownTopic:
        rest = wanted & set(admin.list_topics(internal=True))
        return admin.describe_topics(*sorted(rest)) if rest else {}


def _ends(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    from ottla.client.types import LATEST_TIMESTAMP

    wanted = set(partitions)
    topics = existing_topics(admin, {where.topic for where in wanted})
    led = [where for where in wanted if where.topic in topics and _has_leader(topics[where.topic], where.partition)]
    if not led:
        return {}
    return {where: found.offset for where, found in admin.list_offsets(dict.fromkeys(led, LATEST_TIMESTAMP)).items()}


def _has_leader(topic: TopicInfo, partition: int) -> bool:
    return partition in topic.partitions and topic.partitions[partition].leader >= 0


def describe_existing(admin: Admin, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
    """Return groups by id. Raises `KafkaError` if one does not exist."""
    groups = admin.describe_groups(*group_ids)
    check_existing(groups.values())
    return groups


def check_existing(groups: Iterable[GroupDescription]) -> None:
    """Raise `KafkaError` if a group does not exist."""
    missing = [group.group_id for group in groups if group.state == "Dead"]
    if missing:
        nouns = "is no group" if len(missing) == 1 else "are no groups"
        raise KafkaError(f"There {nouns} {', '.join(missing)}: `ottla group list` lists the groups.")
