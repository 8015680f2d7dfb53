"""Coordinators of a broker of a cluster: they come and go with the leadership of their partitions.

Knows which partitions this broker leads because it is told; reads their records in slices, so that a large one holds up nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Hashable
from functools import partial
from typing import Final

from ottla.broker.coordination.coordinators import CoordinatorKind, Coordinators, CreateTopics
from ottla.broker.failures import Changes
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.scheduler import Scheduler
from ottla.cluster.image import NO_LEADER, ClusterImage
from ottla.coord.partitioning import partition_of
from ottla.coord.runtime.shard import M, Shard
from ottla.ports import Now, Steps
from ottla.wire.errors import COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NONE, NOT_COORDINATOR

log = logging.getLogger("ottla.broker")

APPLIED_AT_ONCE: Final = 50
"""So many records are applied between two pauses."""


class MovingCoordinators(Coordinators[M]):
    """Those whose partition this broker leads, from the moment on when their records are read (`leads`, `leads_no_more`).

    What keeps a coordinator is stored on all in-sync replicas before anybody hears of it, so the next leader's knows it too.
    """

    chunk_bytes = 64 * 1024

    def __init__(
        self,
        kind: CoordinatorKind[M],
        image: ClusterImage,
        create: CreateTopics,
        partitions: Partitions,
        scheduler: Scheduler,
        changes: Changes,
    ) -> None:
        super().__init__(kind, image, create, partitions, scheduler, changes)
        self._loading: dict[int, Hashable] = {}
        """The job that reads each partition whose coordinator is on its way."""

    def ensure(self, now: Now) -> int:
        """Have the controller make the topic if it is not there: whoever asks has to look for a coordinator again."""
        if self.count:
            return NONE
        self._create([self.topic], now)
        return COORDINATOR_NOT_AVAILABLE

    def node_of(self, key: str, here: int) -> int:
        topic = self._image.topics.get(self.topic)
        return NO_LEADER if topic is None else topic.partitions[partition_of(key, len(topic.partitions))].leader

    @property
    def loading_error(self) -> int:
        return COORDINATOR_LOAD_IN_PROGRESS if self._loading else NONE

    @property
    def indexes(self) -> Collection[int]:
        return self._held.keys() | self._loading.keys()

    def unload(self) -> None:
        for index in list(self._loading):
            self._stop_loading(index)
        super().unload()

    def leads(self, partition: Partition) -> None:
        """This broker leads a partition of the topic: from now on, or still, in a new epoch."""
        index = partition.index
        held = self._held.get(index)
        if index in self._loading or (held is not None and held[0] is partition and held[1].is_loaded):
            return
        self.leads_no_more(index)
        name = self._loading[index] = ("load", self.topic, index, object())
        failed = partial(self._failed, partition)
        self._scheduler.begin(name, self._loaded_slowly(partition), failed=failed, urgent=True)

    def leads_no_more(self, index: int) -> None:
        """Another broker leads this partition, or nobody: whoever waits for its coordinator looks for the next one."""
        self._stop_loading(index)
        held = self._held.pop(index, None)
        if held is not None:
            held[1].unload()
            self._scheduler.begin(held[1], held[1].machine.dissolve())
            log.info("%s: its coordinator has left this broker", held[0])
        self._kind.left(index)

    def _stop_loading(self, index: int) -> None:
        name = self._loading.pop(index, None)
        if name is not None:
            self._scheduler.drop(name)

    def _loaded_slowly(self, partition: Partition) -> Steps[None]:
        """Bring a coordinator to where the log leaves it, with what is appended meanwhile: ends of transactions."""
        yield None
        shard = self._new_shard(partition)
        for count, record in enumerate(self._kind.read(partition), 1):
            shard.machine.apply(record)
            if not count % APPLIED_AT_ONCE:
                yield None
        self._loading.pop(partition.index, None)
        now = self._scheduler.now()
        shard.load((), now)
        self._hold(partition, shard, now)

    def _new_shard(self, partition: Partition) -> Shard[M]:
        shard = super()._new_shard(partition)
        shard.patience_ms = self._kind.patience_ms
        return shard

    def _failed(self, partition: Partition, failure: Exception) -> None:
        self._loading.pop(partition.index, None)
        self._is_unreadable(partition, failure)

    def _find(self, index: int, now: Now) -> Shard[M] | None:
        held = self._held.get(index)
        if held is None or not held[1].is_loaded or held[0].leader_error():
            return None
        return held[1]

    def _absence(self, index: int) -> int:
        return COORDINATOR_LOAD_IN_PROGRESS if index in self._loading else NOT_COORDINATOR
