"""What must be true of consumers of Kafka 0.7 that share topics: checked while they live, and once they are quiet.

one owner        no two members believe at the same time that a partition is theirs, nor is one read by who does not own it
nothing skipped  nobody begins behind what was read, and nothing behind it is committed
all are owned    once quiet, each partition is owned and read to its end, and stays where it is
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from ottla.client.types import TopicPartition
from tests.sim.seeds import Violation


class Owning(Protocol):
    """A member, for whoever looks at it from outside."""

    @property
    def name(self) -> str: ...

    def owns(self) -> Iterable[TopicPartition]:
        """The partitions that it believes to own now."""
        ...


class Ledger07:
    """`read` is up to where the group has read each partition. `members` gives those that live."""

    def __init__(self, members: Callable[[], Iterable[Owning]]) -> None:
        self.read: dict[TopicPartition, int] = {}
        self.handed = 0
        self._members = members

    def check(self) -> None:
        """Raise `Violation` if two believe to own the same."""
        owners: dict[TopicPartition, str] = {}
        for member in self._members():
            for where in member.owns():
                if where in owners:
                    raise Violation(f"one owner: {owners[where]} and {member.name} both believe that {where} is theirs")
                owners[where] = member.name

    def begins(self, name: str, where: TopicPartition, place: int) -> None:
        """A member begins to read here."""
        if place > self.read.get(where, 0):
            raise Violation(f"nothing skipped: {name} begins {where} at {place}, and {self.read.get(where, 0)} was read")

    def reads(self, reader: Owning, where: TopicPartition, end: int) -> None:
        """A member reads up to here."""
        for member in self._members():
            if member is not reader and where in member.owns():
                raise Violation(f"one owner: {reader.name} reads {where}, which {member.name} owns")
        self.handed += end - self.read.get(where, 0) if end > self.read.get(where, 0) else 0
        self.read[where] = max(end, self.read.get(where, 0))

    def check_committed(self, committed: Mapping[TopicPartition, int]) -> None:
        """What is in the registry lies not behind what was read."""
        for where, place in committed.items():
            if place > self.read.get(where, 0):
                raise Violation(f"nothing skipped: {place} is committed of {where}, and {self.read.get(where, 0)} was read")
