"""The throttles of a move by `ottla cluster`, its progress, and the removal of the throttles."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.cli.command.output import as_lines, duration, size

if TYPE_CHECKING:
    from ottla.client.admin.reassignments import HowFar
    from ottla.client.types import TopicPartition
    from ottla.net.client.admin.admin import Admin

    Placed = Mapping[TopicPartition, Sequence[int]]

LOOK_EVERY_S = 1


def throttle(admin: Admin, before: Placed, after: Placed, bytes_per_second: int) -> None:
    """Limit the replication traffic of a move at each broker (KIP-73)."""
    from ottla.client.admin.reassignments import RATES, throttled_brokers, throttled_replicas
    from ottla.client.admin.topics import ConfigResource

    for node_id in throttled_brokers(before, after):
        admin.alter_configs(ConfigResource.broker(node_id), set=dict.fromkeys(RATES, bytes_per_second))
    for topic, configs in throttled_replicas(before, after).items():
        admin.alter_configs(ConfigResource.topic(topic), set=configs)


def lift_throttles(admin: Admin) -> None:
    """Remove the replication throttles of all live brokers, and of all topics."""
    from ottla.client.admin.reassignments import RATES, REPLICAS
    from ottla.client.admin.topics import ConfigResource

    resources = [(ConfigResource.broker(node.node_id), RATES) for node in admin.describe_cluster().nodes]
    resources += [(ConfigResource.topic(name), REPLICAS) for name in admin.list_topics(internal=True)]
    for resource, names in resources:
        present = admin.describe_configs(resource)
        set_here = [name for name in names if name in present and not present[name].is_default]
        if set_here:
            admin.alter_configs(resource, delete=set_here)


def follow(admin: Admin, partitions: Sequence[TopicPartition], *, as_json: bool) -> None:
    """Print the progress of these partitions each second, until none of them is being moved."""
    from ottla.client.admin.reassignments import MoveProgress

    progress = MoveProgress(partitions)
    while True:
        moving = admin.list_partition_reassignments(partitions)
        nodes = {node_id for move in moving.values() for node_id in move.replicas}
        up = nodes & {node.node_id for node in admin.describe_cluster().nodes}
        held = admin.describe_log_dirs(up, list(moving)) if moving else {}
        seen = progress.update(moving, held, int(time.monotonic() * 1000))
        print(*(as_lines([seen._asdict()]) if as_json else [_sentence(seen)]), flush=True)
        if not moving:
            return
        time.sleep(LOOK_EVERY_S)


def _sentence(seen: HowFar) -> str:
    text = f"{seen.partitions_moved} of {seen.partitions} partitions moved, {size(seen.bytes_copied)} of {size(seen.bytes_in_all)}"
    if seen.bytes_per_second and seen.partitions_moved < seen.partitions:
        text += f", {size(seen.bytes_per_second)}/s"
        if seen.left_ms is not None:
            text += f", {duration(seen.left_ms)} left"
    return text
