"""Routes changes of leadership to the coordinators of the partition's topic. Knows the names of internal topics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.broker.coordination.coordinators import Coordinators
from ottla.broker.partitions.partition import Partition


class CoordinatorMoves:
    """Is called at once for each change of leadership: a coordinator must not outlive it."""

    def __init__(self, coordinators: Iterable[Coordinators[Any]]) -> None:
        self._by_topic = {each.topic: each for each in coordinators}
        self.is_starting = False
        """Whether all logs are about to be opened: coordinators are loaded afterwards, at once, by what all of them hold."""

    def leads(self, partition: Partition) -> None:
        """This broker leads a partition whose log is open: from now on, or still, in a new epoch."""
        coordinators = self._by_topic.get(partition.topic)
        if coordinators is not None and not self.is_starting:
            coordinators.leads(partition)

    def leads_no_more(self, partition: Partition) -> None:
        """This broker follows, has lost or has deleted a partition, if it led it or not."""
        coordinators = self._by_topic.get(partition.topic)
        if coordinators is not None:
            coordinators.leads_no_more(partition.index)
