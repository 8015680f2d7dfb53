"""What the requests of 0.7 are served from, and what is known of one besides its bytes."""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from ottla.broker.kafka07.views import View07, Views07
from ottla.broker.partitions.partition import Partition
from ottla.broker.serving.authorization import Operation, Resource
from ottla.broker.serving.dialects import DialectParts
from ottla.broker.serving.request import NO_REPLY, Peer
from ottla.ports import Buffer, Now, Steps
from ottla.records.rendered07 import Kind07
from ottla.wire.kafka07 import Request, title

log = logging.getLogger("ottla.broker")

UNSERVED: Final = "%s: clients of Kafka %s are not served from %s: %s"


class Asked07(NamedTuple):
    """One request: its frame, which is its own for good, and who sent it when."""

    kind: type[Request]
    frame: Buffer
    peer: Peer
    now: Now

    def __str__(self) -> str:
        return title(self.kind)


class Context07(NamedTuple):
    """The parts of the broker, and the views of its partitions."""

    parts: DialectParts
    views: Views07

    def news_come(self, now: Now) -> Steps[None]:
        """Wait until this broker knows which topics there are: one of a cluster is told that after its start."""
        if not self.parts.news.have_come:
            yield from self.parts.purgatory.awaited(self.parts.news.awaited(now, lambda: NO_REPLY))

    def may(self, asked: Asked07, operation: Operation, topic: str) -> bool:
        """Whether a client may do that to a topic; the log notes that it may not."""
        rights = self.parts.rights
        return rights.is_open or rights.asked(asked.peer, operation, Resource.TOPIC, topic, str(asked), asked.now)

    def partitions_of(self, topic: str) -> int | None:
        """How many partitions a topic has; None if there is no such topic."""
        found = self.parts.cluster.topics.get(topic)
        return None if found is None else len(found.partitions)

    def view(self, asked: Asked07, topic: str, index: int) -> View07 | None:
        """A partition as 0.7 sees it; None where it can't be served, and the log says why."""
        partition = self.parts.partitions.get(topic, index)
        found = self._view(asked, partition)
        if isinstance(found, str):
            cause = {"cause": f"unserved {topic}"}
            log.warning(UNSERVED, asked.peer, asked.peer.release, f"{topic}-{index}", found, extra=cause)
            return None
        return found

    def _view(self, asked: Asked07, partition: Partition | None) -> View07 | str:
        if partition is None:
            return "it is not on this broker"
        # What clients of today have written is read by 0.6 as messages of format 0, the only one that it knew.
        return self.views.view(partition, Kind07(asked.peer.release.newest_magic))
