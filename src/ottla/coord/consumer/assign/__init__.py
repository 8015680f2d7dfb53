"""Assignors: who of a group's members reads which partitions (KIP-848). Pure functions of subscriptions; they know no groups.

An assignor is any object with a `name` and an `assign`; `uniform` and `range` are built in, and can pause in the midst of it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from ottla.wire.schema import Uuid

Partitions = Mapping[Uuid, frozenset[int]]
"""Partitions by the id of their topic; no topic stands there with an empty set."""


NO_PARTITIONS: Partitions = MappingProxyType({})


T = TypeVar("T")

Pauses: TypeAlias = Generator[None, object, T]
"""Work that pauses now and then, so that others have their turn, and what comes of it."""

BETWEEN_PAUSES: Final = 250
"""Members or partitions."""


class Subscriber(NamedTuple):
    """A member as an assignor sees it. `owned` is its current target assignment, which it should keep where possible."""

    topic_ids: frozenset[Uuid]
    instance_id: str | None = None
    rack_id: str | None = None
    owned: Partitions = NO_PARTITIONS


class TopicShape(NamedTuple):
    """How many partitions a topic has, and the racks of each one's replicas (empty: unknown)."""

    partitions: int
    racks: tuple[frozenset[str], ...] = ()


class Assignor(Protocol):
    """What a group's coordinator asks of an assignor, built in or a user's own."""

    @property
    def name(self) -> str:
        """The name by which members ask for it."""
        ...

    def assign(self, subscribers: Mapping[str, Subscriber], topics: Mapping[Uuid, TopicShape]) -> Mapping[str, Partitions]:
        """The target assignment of every member, by its id.

        Every partition of a topic to which somebody subscribes goes to one of its subscribers. A topic without a shape is not
        there and is passed over. The same arguments give the same answer. A member that keeps just what it owned has the very
        mapping that was passed in as `owned`, so that who keeps what is seen without a comparison.
        """
        ...


@runtime_checkable
class PatientAssignor(Assignor, Protocol):
    """An assignor that can pause."""

    def assign_slowly(
        self, subscribers: Mapping[str, Subscriber], topics: Mapping[Uuid, TopicShape]
    ) -> Pauses[Mapping[str, Partitions]]:
        """As `assign`, with pauses."""
        ...


def finish(work: Pauses[T]) -> T:
    """What comes of some work without its pauses."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
