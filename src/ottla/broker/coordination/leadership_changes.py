"""Changes of leadership, routed to the coordinators of the partition's topic. Contains the names of internal topics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.broker.coordination.coordinators import Coordinators
from ottla.broker.partitions.partition import Partition


class CoordinatorMoves:
    """Routes each change of leadership to a coordinator at once, because a coordinator must not outlive the leadership."""

    def __init__(self, coordinators: Iterable[Coordinators[Any]]) -> None:
        self._by_topic = {each.topic: each for each in coordinators}
        self.is_starting = False
        """Whether logs are still being opened at startup. Coordinators are loaded afterwards."""

    def leads(self, partition: Partition) -> None:
        """Load the coordinator of a partition that this broker leads, newly or in a new leader epoch."""
        coordinators = self._by_topic.get(partition.topic)
        if coordinators is not None and not self.is_starting:
            coordinators.leads(partition)

    def leads_no_more(self, partition: Partition) -> None:
        """Unload the coordinator of a partition that this broker follows, has lost or has deleted."""
        coordinators = self._by_topic.get(partition.topic)
        if coordinators is not None:
            coordinators.leads_no_more(partition.index)
