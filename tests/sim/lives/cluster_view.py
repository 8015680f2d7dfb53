"""Who leads what in a simulated cluster, and who coordinates what: brokers of whom the registry says the same as they do.

What others think of themselves, who lead no more or not yet, does not count. Changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ottla.broker.partitions.partition import LEADER, Partition
from ottla.client.types import TopicPartition
from ottla.coord.coordinator_partitions import partition_of
from ottla.coord.group_machine import GroupMachine
from ottla.coord.transactions.transaction import Transaction
from ottla.sim.cluster_host import ClusterHost
from ottla.sim.ensemble import SimEnsemble
from ottla.sim.world import World

OFFSETS_TOPIC = "__consumer_offsets"


class ClusterView:
    """The leaders and coordinators of a cluster, for ledgers that know those of one broker."""

    def __init__(self, world: World, hosts: Mapping[int, ClusterHost], ensemble: SimEnsemble) -> None:
        self.world = world
        self._hosts = hosts
        self._ensemble = ensemble
        self._states: dict[str, tuple[bytes, Any]] = {}

    def leaders(self) -> Iterator[tuple[ClusterHost, Partition]]:
        """Each partition that is led, with the host of its leader."""
        for host in self._hosts.values():
            for partition in host.broker.partitions if host.broker is not None else ():
                if partition.role is LEADER and partition.offline is None and self._is_led_by(host, partition):
                    yield host, partition

    def _is_led_by(self, host: ClusterHost, partition: Partition) -> bool:
        path = f"/brokers/topics/{partition.topic}/partitions/{partition.index}/state"
        node = self._ensemble.get(path)
        if node is None:
            return False
        known = self._states.get(path)
        if known is None or known[0] != node.value:
            known = self._states[path] = node.value, json.loads(node.value)
        state = known[1]
        return bool(state["leader"] == host.node_id and state["leader_epoch"] == partition.leader_epoch)

    def partitions(self) -> dict[TopicPartition, Partition]:
        return {TopicPartition(partition.topic, partition.index): partition for _, partition in self.leaders()}

    def transactions(self) -> list[Transaction]:
        led = self._led_from()
        return [
            known
            for host in self._hosts.values()
            if host.broker is not None
            for shard in host.broker.transactions.coordinators.shards
            if led.get(shard.name) is host
            for known in shard.machine.by_id.values()
        ]

    def coordinators(self) -> list[GroupMachine]:
        return list(self._group_machines().values())

    def has_coordinator(self, group_id: str) -> bool:
        """Whether the coordinator of a group is loaded."""
        count = len(self._ensemble.children(f"/brokers/topics/{OFFSETS_TOPIC}/partitions"))
        return bool(count) and f"{OFFSETS_TOPIC}-{partition_of(group_id, count)}" in self._group_machines()

    def _group_machines(self) -> dict[str, GroupMachine]:
        led = self._led_from()
        return {
            shard.name: shard.machine
            for host in self._hosts.values()
            if host.broker is not None
            for shard in host.broker.groups.coordinators.shards
            if led.get(shard.name) is host
        }

    def _led_from(self) -> dict[str, ClusterHost]:
        return {str(partition): host for host, partition in self.leaders()}
