"""The statuses that heartbeats of streams groups return to members: Kafka's codes, each with a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.coord.streams.values import (
    ASSIGNMENT_DELAYED,
    INCORRECTLY_PARTITIONED_TOPICS,
    MISSING_CLIENT_TAGS,
    MISSING_INTERNAL_TOPICS,
    MISSING_SOURCE_TOPICS,
    SHUTDOWN_APPLICATION,
    STALE_TOPOLOGY,
    GroupStatus,
)

MOST_NAMES: Final = 3
"""The most names in a status or in a line of the log."""


def some_of(names: Iterable[str]) -> str:
    """Return the first few of `names` in order as text, and the number of the others."""
    ordered = sorted(names)
    others = f" and {len(ordered) - MOST_NAMES} more" if len(ordered) > MOST_NAMES else ""
    return ", ".join(ordered[:MOST_NAMES]) + others


def stale_topology(member_epoch: int, group_epoch: int) -> GroupStatus:
    """Return the status of a member whose topology is older than the group's."""
    detail = f"This member has topology epoch {member_epoch}, and the group has {group_epoch}: restart it with the new topology."
    return GroupStatus(STALE_TOPOLOGY, detail)


def missing_sources(names: Iterable[str]) -> GroupStatus:
    return GroupStatus(MISSING_SOURCE_TOPICS, f"Source topics are missing: {some_of(names)}. Create them.")


def incorrectly_partitioned(detail: str) -> GroupStatus:
    return GroupStatus(INCORRECTLY_PARTITIONED_TOPICS, detail)


def missing_internals(names: Iterable[str]) -> GroupStatus:
    return GroupStatus(MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {some_of(names)}")


def shutdown(member_id: str) -> GroupStatus:
    """Return the status that makes all members of an application shut down."""
    detail = f"Member {member_id} had a fatal error and requested that the whole application shuts down."
    return GroupStatus(SHUTDOWN_APPLICATION, detail)


def delayed_by_rebalance() -> GroupStatus:
    detail = "The assignment waits for more members, for as long as streams.initial.rebalance.delay.ms says."
    return GroupStatus(ASSIGNMENT_DELAYED, detail)


def delayed_by_interval() -> GroupStatus:
    detail = "The assignment waits because the last one is more recent than streams.assignment.interval.ms."
    return GroupStatus(ASSIGNMENT_DELAYED, detail)


def missing_tags(keys: Iterable[str]) -> GroupStatus:
    """Return the status of a member without these client tags, by which standby tasks are spread."""
    detail = f"Client tags of streams.rack.aware.assignment.tags are missing: {', '.join(keys)}. Set client.tag.KEY for each."
    return GroupStatus(MISSING_CLIENT_TAGS, detail)


def delayed_by_restart() -> GroupStatus:
    detail = "The assignment waits for heartbeats of all members, because the coordinator has restarted."
    return GroupStatus(ASSIGNMENT_DELAYED, detail)
