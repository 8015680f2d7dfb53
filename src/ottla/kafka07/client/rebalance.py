"""The assignment within a Kafka 0.7 group: each consumer computes it from the same input, with the same result.

The module contains the texts of subscriptions in ZooKeeper and the assignment function; it reads nothing itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

WHITE, BLACK = "*", "!"


class Subscription(NamedTuple):
    """A consumer's subscription: stream counts by topic, or `streams` for each topic selected by `pattern`, a Java pattern.

    `is_white`: the pattern selects topics whose whole name matches. Otherwise it selects topics whose name does not match.
    """

    topics: Mapping[str, int]
    pattern: str | None = None
    streams: int = 1
    is_white: bool = True

    def text(self) -> str:
        """Return the subscription's text in ZooKeeper, such as { "t": 1 } or *1*pattern."""
        if self.pattern is not None:
            mark = WHITE if self.is_white else BLACK
            return f"{mark}{self.streams}{mark}{self.pattern}"
        return "{ " + ",".join(f"{json.dumps(topic)}: {streams}" for topic, streams in self.topics.items()) + " }"

    @classmethod
    def parse(cls, text: str) -> Subscription | None:
        """Parse a subscription's text; return None for a text that no Kafka 0.7 consumer writes."""
        if text[:1] in (WHITE, BLACK):
            streams, mark, pattern = text[1:].partition(text[0])
            return cls({}, pattern, int(streams), text[0] == WHITE) if mark and streams.isdecimal() else None
        try:
            topics = json.loads(text)
        except ValueError:
            return None
        is_sound = isinstance(topics, dict) and all(type(streams) is int and streams >= 0 for streams in topics.values())
        return cls(topics) if is_sound else None

    def streams_of(self, topic: str) -> int:
        """Return the number of this consumer's streams of a topic."""
        if self.pattern is None:
            return self.topics.get(topic, 0)
        return self.streams if self._matches(topic) == self.is_white else 0

    def _matches(self, topic: str) -> bool:
        # 0.7 accepts a list of patterns separated by commas, in quotes.
        wanted = (self.pattern or "").strip().replace(",", "|").replace(" ", "").strip("\"'")
        try:
            return re.fullmatch(wanted, topic) is not None
        except re.error:
            return False

    def of(self, known: Collection[str]) -> list[str]:
        """Return the subscribed topics; `known` are all existing topics."""
        if self.pattern is None:
            return sorted(topic for topic, streams in self.topics.items() if streams)
        return sorted(topic for topic in known if self.streams_of(topic))


def threads(consumers: Mapping[str, Subscription], topic: str) -> list[str]:
    """Return the names of all consumers' streams of a topic, in the order in which partitions are assigned."""
    return sorted(f"{consumer}-{number}" for consumer, reads in consumers.items() for number in range(reads.streams_of(topic)))


def share(readers: Sequence[str], partitions: Collection[str], own: str) -> list[str]:
    """Return the share of the stream `own` among `readers`: a run of the partitions, sorted as text ("0-10" before "0-2").

    If the division leaves a remainder, the first readers get one partition more.
    """
    if own not in readers:
        return []
    dealt = sorted(partitions)
    each, more = divmod(len(dealt), len(readers))
    index = readers.index(own)
    start = index * each + min(index, more)
    return dealt[start : start + each + (index < more)]
