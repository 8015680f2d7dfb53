"""When committed offsets, and with them groups, have outlived their retention (KIP-211). Reads only; answers tombstones."""

from __future__ import annotations

from collections.abc import Callable

from ottla.coord.classic.group import Group
from ottla.coord.classic.states import State
from ottla.coord.offsets import Committed, Offsets
from ottla.coord.records import NO_TIMESTAMP, GroupForgotten, OffsetForgotten

Since = Callable[[Committed], int]


def expired(groups: dict[str, Group], offsets: Offsets, wall_ms: int, retention_ms: int) -> list[OffsetForgotten | GroupForgotten]:
    """The tombstones of all that has expired; an empty group goes with the last of its offsets."""
    records: list[OffsetForgotten | GroupForgotten] = []
    for group in groups.values():
        gone = _expired_offsets(group, offsets, wall_ms, retention_ms)
        records += gone
        held = sum(len(partitions) for partitions in offsets.of(group.group_id).values())
        if group.state is State.EMPTY and not group.invited and len(gone) == held:
            records.append(GroupForgotten(group.group_id))
    return records


def _expired_offsets(group: Group, offsets: Offsets, wall_ms: int, retention_ms: int) -> list[OffsetForgotten]:
    since = _retained_since(group)
    if since is None:
        return []
    return [
        OffsetForgotten(group.group_id, topic, index)
        for topic, partitions in offsets.of(group.group_id).items()
        if not _is_read(group, topic)
        for index, committed in partitions.items()
        if _is_expired(committed, since, wall_ms, retention_ms)
    ]


def _retained_since(group: Group) -> Since | None:
    """From when on retention counts, or None if it does not.

    An empty group's offsets: since it became empty. A stable consumer group's, for topics that nobody reads any more, and those
    that were committed without any group: since their commit. While a group rebalances, nothing expires.
    """
    if group.protocol_type is None:
        return _commit_time
    if group.state is State.EMPTY:
        emptied_ms = group.state_timestamp_ms
        return _commit_time if emptied_ms == NO_TIMESTAMP else lambda committed: emptied_ms
    if group.state is State.STABLE and group.topics is not None:
        return _commit_time
    return None


def _commit_time(committed: Committed) -> int:
    return committed.commit_timestamp_ms


def _is_read(group: Group, topic: str) -> bool:
    return group.state is not State.EMPTY and group.is_subscribed(topic)


def _is_expired(committed: Committed, since: Since, wall_ms: int, retention_ms: int) -> bool:
    if committed.expire_timestamp_ms != NO_TIMESTAMP:
        return wall_ms >= committed.expire_timestamp_ms
    return wall_ms - since(committed) >= retention_ms
