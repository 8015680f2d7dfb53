"""Counts of the records and bytes of each topic that clients have written and read here. Plain numbers, which anyone can read.

The partitions of a topic share one object, so that thousands of idle partitions take no memory for their counts.
"""

from __future__ import annotations

from typing import Final


class TopicTraffic:
    """The counts of one topic since the broker's start, or since the topic's first partition came here."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
        "replication_bytes_in",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        """The bytes of record batches that clients have written, as they are stored."""
        self.bytes_out = 0
        self.produces = 0
        """The batches appended for clients; a request has one for each of its partitions."""
        self.failed_produces = 0
        self.fetches = 0
        """The partitions with records in replies to consumers."""
        self.failed_fetches = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0

    def add(self, other: TopicTraffic) -> None:
        """Add the counts of another object to these."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


UNCOUNTED: Final = TopicTraffic()
"""The counts of partitions that belong to no broker, such as those of a test."""


class Traffic:
    """The counts of all topics that this broker has partitions of, by name. `gone` has the sums of topics that it had.

    `isr_shrinks` and `isr_expands` count changes of the in-sync sets of partitions that it leads.
    """

    def __init__(self) -> None:
        self.isr_shrinks = self.isr_expands = 0
        self.topics: dict[str, TopicTraffic] = {}
        self.gone = TopicTraffic()

    def of(self, topic: str) -> TopicTraffic:
        """Return the counts of a topic."""
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = TopicTraffic()
        return found

    def count_isr(self, growth: int) -> None:
        """Count a change of an in-sync set by the number of replicas that it has gained."""
        self.isr_shrinks += growth < 0
        self.isr_expands += growth > 0

    def forget(self, topic: str) -> None:
        """Remove a topic of which the broker has no partition any more. The sums of all topics stay the same."""
        found = self.topics.pop(topic, None)
        if found is not None:
            self.gone.add(found)

    def total(self) -> TopicTraffic:
        """Return the sums of all topics."""
        total = TopicTraffic()
        total.add(self.gone)
        for counts in self.topics.values():
            total.add(counts)
        return total
