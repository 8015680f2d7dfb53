"""The context in which requests of 0.7 are served."""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from ottla.broker.partitions.partition import Partition
from ottla.broker.serving.authorization import Operation, Resource
from ottla.broker.serving.dialects import DialectParts
from ottla.broker.serving.request import NO_REPLY, Peer
from ottla.kafka07.broker.views import View07, Views07
from ottla.kafka07.records.renderer import Kind07
from ottla.kafka07.wire import Request, title
from ottla.ports import Buffer, Now, Steps

log = logging.getLogger("ottla.broker")

UNSERVED: Final = "%s: clients of Kafka %s are not served from %s: %s"


class Request07(NamedTuple):
    """One request of a 0.7 client: its class, its frame, its connection's peer, and the time of its arrival."""

    kind: type[Request]
    frame: Buffer
    peer: Peer
    now: Now

    def __str__(self) -> str:
        return title(self.kind)


class Context07(NamedTuple):
    """The parts of the broker that requests of 0.7 clients need, and the views of its partitions."""

    parts: DialectParts
    views: Views07

    def wait_for_metadata(self, now: Now) -> Steps[None]:
        """Wait until the broker has received the cluster's metadata. In a larger cluster, it arrives after the broker's start."""
        if not self.parts.metadata_waits.has_metadata:
            yield from self.parts.purgatory.wait_for(self.parts.metadata_waits.delay(now, lambda: NO_REPLY))

    def may(self, asked: Request07, operation: Operation, topic: str) -> bool:
        """Return whether ACLs allow the client the operation on the topic. If they do not, log the refusal."""
        rights = self.parts.rights
        return rights.is_open or rights.check(asked.peer, operation, Resource.TOPIC, topic, str(asked), asked.now)

    def partitions_of(self, topic: str) -> int | None:
        """Return the number of a topic's partitions; None if the topic does not exist."""
        found = self.parts.cluster.topics.get(topic)
        return None if found is None else len(found.partitions)

    def view(self, asked: Request07, topic: str, index: int) -> View07 | None:
        """Return the view of a partition. If the partition cannot serve clients of 0.7, log the reason and return None."""
        partition = self.parts.partitions.get(topic, index)
        found = self._view(asked, partition)
        if isinstance(found, str):
            cause = {"cause": f"unserved {topic}"}
            log.warning(UNSERVED, asked.peer, asked.peer.release, f"{topic}-{index}", found, extra=cause)
            return None
        return found

    def _view(self, asked: Request07, partition: Partition | None) -> View07 | str:
        if partition is None:
            return "it is not on this broker"
        # 0.6 reads batches of today's producers as messages of format 0, its only one.
        return self.views.view(partition, Kind07(asked.peer.release.newest_magic))
