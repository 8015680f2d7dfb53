"""The partitions whose records a consumer's user got, until their offsets are committed or part of a transaction.

A transaction with something made of such records must contain their offsets. If the group has taken the partition away meanwhile,
`positions()` does not have it any more, and other members read its records again: then the transaction must be aborted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.types import OffsetAndMetadata, TopicPartition


class UncommittedPartitions:
    """The uncommitted partitions of one consumer that does not commit by itself."""

    def __init__(self) -> None:
        self._handed_out: dict[TopicPartition, int] = {}
        """The offset after the last record that the user got, of each uncommitted partition."""
        self._confirmed: dict[TopicPartition, int] = {}
        self._lost: dict[TopicPartition, int] = {}
        """The same offsets of partitions that the group took away."""

    def hand_out(self, where: TopicPartition, next_offset: int) -> None:
        """Record that the user got the records of a partition before `next_offset`."""
        if next_offset > self._confirmed.get(where, -1):
            self._handed_out[where] = next_offset

    def confirm(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Record that these offsets are committed, or part of a transaction."""
        for where, found in offsets.items():
            self._confirmed[where] = found.offset
            for uncommitted in (self._handed_out, self._lost):
                if where in uncommitted and uncommitted[where] <= found.offset:
                    del uncommitted[where]

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Record that the group took these partitions away."""
        for where in partitions:
            self._confirmed.pop(where, None)
            if where in self._handed_out:
                self._lost[where] = self._handed_out.pop(where)

    def reposition(self, partitions: Iterable[TopicPartition]) -> None:
        """Record that the user has changed the positions of these partitions, perhaps to offsets before confirmed ones."""
        for where in partitions:
            self._confirmed.pop(where, None)

    def abandon(self, partitions: Iterable[TopicPartition]) -> None:
        """Record that the user has given up all that was made of the records of these partitions, and of lost ones."""
        self._lost.clear()
        for where in partitions:
            self._handed_out.pop(where, None)

    def find_lost(self, offsets: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return those of these partitions that the group took away since the last `pop_lost`."""
        return sorted(where for where in offsets if where in self._lost)

    def pop_lost(self) -> list[TopicPartition]:
        """Return the partitions that the group took away, and forget them."""
        lost = sorted(self._lost)
        self._lost.clear()
        return lost
