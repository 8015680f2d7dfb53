"""Assignors, which assign partitions to a group's members (KIP-848). They are pure functions of subscriptions.

An assignor is any object with a `name` and an `assign`; `uniform` and `range` are built in, and can pause during the assignment.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, TypeVar, runtime_checkable

from ottla.ports import Pauses
from ottla.wire.schema import Uuid

Partitions = Mapping[Uuid, frozenset[int]]
"""Partition numbers by topic id; a topic without partitions is missing."""


NO_PARTITIONS: Partitions = MappingProxyType({})


T = TypeVar("T")


BETWEEN_PAUSES: Final = 250
"""The number of members or partitions that are processed between two pauses."""


class Subscriber(NamedTuple):
    """A member of a group as input of an assignor. `owned` is its current target assignment, which it should keep if possible."""

    topic_ids: frozenset[Uuid]
    instance_id: str | None = None
    rack_id: str | None = None
    owned: Partitions = NO_PARTITIONS


class TopicShape(NamedTuple):
    """A topic's number of partitions, and for each partition the racks of its replicas (empty if unknown)."""

    partitions: int
    racks: tuple[frozenset[str], ...] = ()


class Assignor(Protocol):
    """The interface of an assignor, built in or written by a user."""

    @property
    def name(self) -> str:
        """Return the name by which members select the assignor."""
        ...

    def assign(self, subscribers: Mapping[str, Subscriber], topics: Mapping[Uuid, TopicShape]) -> Mapping[str, Partitions]:
        """Return the target assignment of every member, by its id.

        Every partition of a subscribed topic is assigned to one subscriber of the topic. A topic that is missing in `topics` does
        not exist, and is skipped. Equal arguments give equal results. A member with unchanged partitions has the same object as
        in `owned`, so that callers need not compare the partitions.
        """
        ...


@runtime_checkable
class PatientAssignor(Assignor, Protocol):
    """An assignor that can pause while it computes."""

    def assign_slowly(
        self, subscribers: Mapping[str, Subscriber], topics: Mapping[Uuid, TopicShape]
    ) -> Pauses[Mapping[str, Partitions]]:
        """Return the target assignment, as `assign` does, but pause between parts of the work."""
        ...


def finish(work: Pauses[T]) -> T:
    """Run `work` to its end without pauses, and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
