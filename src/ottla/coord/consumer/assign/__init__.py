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
"""Members or partitions processed between two pauses."""


class Subscriber(NamedTuple):
    """A member as the assignor's input. `owned` is its current target assignment, which it should keep where possible."""

    topic_ids: frozenset[Uuid]
    instance_id: str | None = None
    rack_id: str | None = None
    owned: Partitions = NO_PARTITIONS


class TopicShape(NamedTuple):
    """A topic's number of partitions, and the racks of each one's replicas (empty: unknown)."""

    partitions: int
    racks: tuple[frozenset[str], ...] = ()


class Assignor(Protocol):
    """The interface of an assignor, built in or a user's own."""

    @property
    def name(self) -> str:
        """Return the name by which members select the assignor."""
        ...

    def assign(self, subscribers: Mapping[str, Subscriber], topics: Mapping[Uuid, TopicShape]) -> Mapping[str, Partitions]:
        """Return the target assignment of every member, by its id.

        Every partition of a subscribed topic is assigned to one of its subscribers. A topic without a shape does not exist and
        is skipped. The same arguments give the same result. A member that keeps exactly its partitions has the same mapping as
        in `owned`, so that a caller needs no comparison.
        """
        ...


@runtime_checkable
class PatientAssignor(Assignor, Protocol):
    """An assignor that can pause."""

    def assign_slowly(
        self, subscribers: Mapping[str, Subscriber], topics: Mapping[Uuid, TopicShape]
    ) -> Pauses[Mapping[str, Partitions]]:
        """Return the target assignment like `assign`, with pauses."""
        ...


def finish(work: Pauses[T]) -> T:
    """Run work without its pauses, and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
