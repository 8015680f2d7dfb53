"""Looks at the broker over the wire, once a second: partitions are online, committed offsets of groups that live do not go back."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.api.describe_groups import DescribeGroupsRequest
from ottla.wire.api.describe_log_dirs import DescribeLogDirsRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from tests.torture.soak.kinds import RENEWED
from tests.torture.soak.wire import Away, Wire

METADATA, OFFSET_FETCH, DESCRIBE_GROUPS, DESCRIBE_LOG_DIRS, CONSUMER_GROUP_DESCRIBE = 3, 9, 15, 35, 69
EVERY_S = 1.0

Offsets = dict[tuple[str, int], int]


class Looks(threading.Thread):
    """`partitions`: what must be there and online. `groups`: those that live all the time, with what they read."""

    def __init__(self, address: str, partitions: Iterable[tuple[str, int]], groups: Mapping[str, str]) -> None:
        super().__init__(name="looks", daemon=True)
        self.stopping = threading.Event()
        self.count = 0
        self.faults: list[str] = []
        self.committed: dict[str, Offsets] = {name: {} for name in groups}
        self._wire, self._groups = Wire(address), groups
        self._partitions = set(partitions)
        self._had_nobody: set[str] = set(groups)

    def run(self) -> None:
        while not self.stopping.wait(EVERY_S):
            try:
                self._look()
                self.count += 1
            except Away:
                continue
        self._wire.close()

    def _look(self) -> None:
        self._look_at_metadata()
        self._look_at_directory()
        for group_id in self._groups:
            self._look_at_members(group_id)
            self._look_at_offsets(group_id)

    def _look_at_metadata(self) -> None:
        online = set()
        for topic in self._wire.ask(METADATA, 9, MetadataRequest(topics=None)).topics:
            for part in topic.partitions:
                is_being_made = topic.name == RENEWED and not part.offline_replicas  # until it is, nobody leads it
                if (part.error_code or part.leader_id < 0 or part.offline_replicas) and not is_being_made:
                    self._fault(f"{topic.name}-{part.partition_index} is offline (error {part.error_code})")
                online.add((topic.name, part.partition_index))
        for name, index in self._partitions - online:
            self._fault(f"{name}-{index} is not in the metadata")

    def _look_at_directory(self) -> None:
        (result,) = self._wire.ask(DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=None)).results
        if result.error_code:
            self._fault(f"the data directory is offline (error {result.error_code})")
        there = {(topic.name, part.partition_index) for topic in result.topics for part in topic.partitions}
        for name, index in self._partitions - there:
            self._fault(f"{name}-{index} is not in the data directory")

    def _look_at_members(self, group_id: str) -> None:
        """Offsets may expire while a group has no members, and a moved clock takes no time for it."""
        found = self._wire.ask(DESCRIBE_GROUPS, 5, DescribeGroupsRequest(groups=[group_id])).groups[0]
        members = found.members
        if not members:
            asked = ConsumerGroupDescribeRequest(group_ids=[group_id])
            members = self._wire.ask(CONSUMER_GROUP_DESCRIBE, 0, asked).groups[0].members
        if not members:
            self._had_nobody.add(group_id)

    def _look_at_offsets(self, group_id: str) -> None:
        response = self._wire.ask(OFFSET_FETCH, 7, OffsetFetchRequest(group_id=group_id, topics=None))
        if response.error_code:
            return
        parts = [(topic.name, part) for topic in response.topics if topic.name != RENEWED for part in topic.partitions]
        found = {(name, part.partition_index): part.committed_offset for name, part in parts}
        if not found and group_id in self._had_nobody:
            self.committed[group_id] = {}
            return
        for where, before in self.committed[group_id].items():
            if found.get(where, -1) < before:
                name, index = where
                self._fault(f"group {group_id}: the offset of {name}-{index} went from {before} back to {found.get(where, -1)}")
        self.committed[group_id] = found
        self._had_nobody.discard(group_id)

    def _fault(self, sentence: str) -> None:
        if sentence not in self.faults:
            self.faults.append(sentence)
