"""The entries of Kafka 0.7 brokers and consumers in ZooKeeper: paths, texts, and lookups of brokers and topics.

ZooKeeper is accessed through the registry port. Of groups, only the paths are known here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from ottla.client.types import Node
from ottla.kafka07.client.partitions import BrokerPartition
from ottla.ports import Entry, SharedRegistry, Steps

BROKERS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
CONSUMERS: Final = "/consumers"


def ids(group: str) -> str:
    return f"{CONSUMERS}/{group}/ids"


def owners(group: str, topic: str) -> str:
    return f"{CONSUMERS}/{group}/owners/{topic}"


def offsets(group: str, topic: str) -> str:
    return f"{CONSUMERS}/{group}/offsets/{topic}"


class Directory07:
    """A client's lookups of brokers and topics in ZooKeeper.

    `changed(path)` is called once when a change makes the result of a lookup outdated.
    """

    def __init__(self, registry: SharedRegistry, changed: Callable[[str], None]) -> None:
        self.registry = registry
        self._changed = changed

    def brokers(self) -> Steps[list[Node]]:
        (names,) = yield from self.registry.list([BROKERS], changed=self._changed)
        known = [name for name in names or () if _is_number(name)]
        entries = yield from self.registry.read([f"{BROKERS}/{name}" for name in known])
        found = (_broker(int(name), entry) for name, entry in zip(known, entries, strict=True))
        return sorted(broker for broker in found if broker is not None)

    def names(self) -> Steps[list[str]]:
        (names,) = yield from self.registry.list([TOPICS], changed=self._changed)
        return names or []

    def counts(self, topics: Collection[str]) -> Steps[Mapping[str, Mapping[int, int]]]:
        """Return topic -> broker id -> number of partitions."""
        wanted = sorted(topics)
        brokers = yield from self.registry.list([f"{TOPICS}/{topic}" for topic in wanted], changed=self._changed)
        places = [(topic, name) for topic, names in zip(wanted, brokers, strict=True) for name in names or () if _is_number(name)]
        entries = yield from self.registry.read([f"{TOPICS}/{topic}/{name}" for topic, name in places], changed=self._changed)
        found: dict[str, dict[int, int]] = {topic: {} for topic in wanted}
        for (topic, name), entry in zip(places, entries, strict=True):
            if entry is not None and (text := entry.value.decode(errors="replace")).isdecimal():
                found[topic][int(name)] = int(text)
        return found


def partitions(counts: Mapping[int, int]) -> list[BrokerPartition]:
    """Return all partitions of a topic; `counts` is broker id -> number of partitions."""
    return [BrokerPartition(broker_id, index) for broker_id, count in sorted(counts.items()) for index in range(count)]


def number_in(entry: Entry | None) -> int | None:
    """Return the number in an entry; None if there is no entry, or no number in it."""
    text = "" if entry is None else entry.value.decode(errors="replace")
    return int(text) if text.isdecimal() else None


def _is_number(name: str) -> bool:
    return name.removeprefix("-").isdecimal()


def _broker(broker_id: int, entry: Entry | None) -> Node | None:
    """Parse "creator:host:port"; the host may be an IPv6 address. Return None for any other text."""
    _, _, where = ("" if entry is None else entry.value.decode(errors="replace")).partition(":")
    host, _, port = where.rpartition(":")
    return Node(broker_id, host.strip("[]"), int(port)) if host and port.isdecimal() else None
