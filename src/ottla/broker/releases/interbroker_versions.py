"""Which versions brokers speak to each other, by `inter.broker.protocol.version`: all brokers of a cluster are set to the same one.

Knows Kafka's names of protocol versions, and what changed with each; knows no settings and no connection. Brokers do not ask each
other for their versions: a newer one is told to speak as the oldest until all have been upgraded.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from ottla.wire.schema import Message

NAMES: Final = (
    "0.8.0", "0.8.1", "0.8.2", "0.9.0", "0.10.0-IV0", "0.10.0-IV1", "0.10.1-IV0", "0.10.1-IV1", "0.10.1-IV2", "0.10.2-IV0",
    "0.11.0-IV0", "0.11.0-IV1", "0.11.0-IV2", "1.0-IV0", "1.1-IV0", "2.0-IV0", "2.0-IV1", "2.1-IV0", "2.1-IV1", "2.1-IV2",
    "2.2-IV0", "2.2-IV1", "2.3-IV0", "2.3-IV1", "2.4-IV0", "2.4-IV1", "2.5-IV0", "2.6-IV0", "2.7-IV0", "2.7-IV1", "2.7-IV2",
    "2.8-IV0", "2.8-IV1", "3.0-IV0", "3.0-IV1", "3.1-IV0", "3.2-IV0", "3.3-IV0", "3.3-IV1", "3.3-IV2", "3.3-IV3", "3.4-IV0",
    "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4",
    "3.8-IV0", "3.9-IV0",
)  # fmt: skip
"""Every protocol version, oldest first. 3.9 is the last release whose brokers form a cluster over ZooKeeper."""

_LEVELS: Final = {name: level for level, name in enumerate(NAMES)}

FETCH, LIST_OFFSETS, LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, CONTROLLED_SHUTDOWN = 1, 2, 4, 5, 6, 7
OFFSET_FOR_LEADER_EPOCH, ADD_PARTITIONS_TO_TXN, WRITE_TXN_MARKERS, ALTER_PARTITION, ALLOCATE_PRODUCER_IDS = 23, 24, 27, 56, 67

_SPOKEN: Final = {
    FETCH: (
        None, None, None, None, "0.8.0", "0.11.0-IV1", None, "1.1-IV0", "2.0-IV1", None, "2.1-IV2",
        "2.3-IV1", "2.7-IV1", "3.1-IV0", "3.5-IV0", "3.5-IV1", "3.7-IV4", "3.9-IV0",
    ),
    LIST_OFFSETS: (
        "0.8.0", "0.10.1-IV2", "0.11.0-IV0", "2.0-IV1", "2.1-IV1", "2.2-IV1", "2.8-IV0", "3.0-IV1", "3.5-IV0", "3.9-IV0",
    ),
    LEADER_AND_ISR: ("0.8.0", "1.0-IV0", "2.2-IV0", "2.4-IV0", "2.4-IV1", "2.8-IV1", "3.2-IV0", "3.4-IV0"),
    STOP_REPLICA: ("0.8.0", "2.2-IV0", "2.4-IV1", "2.6-IV0", "3.4-IV0"),
    UPDATE_METADATA: (
        "0.8.0", "0.9.0", "0.10.0-IV1", "0.10.2-IV0", "1.0-IV0", "2.2-IV0", "2.4-IV1", "2.8-IV1", "3.4-IV0",
    ),
    CONTROLLED_SHUTDOWN: ("0.8.0", "0.9.0", "2.2-IV0", "2.4-IV1"),
    OFFSET_FOR_LEADER_EPOCH: ("0.11.0-IV2", "2.0-IV0", "2.1-IV1", "2.3-IV1", "2.8-IV0"),
    ADD_PARTITIONS_TO_TXN: (None, None, None, None, "3.5-IV0"),
    WRITE_TXN_MARKERS: ("0.11.0-IV0", "2.8-IV0"),
    ALTER_PARTITION: ("2.7-IV2", "3.2-IV0", "3.3-IV0", "3.5-IV1"),
    ALLOCATE_PRODUCER_IDS: ("3.0-IV0",),
}  # fmt: skip
"""API key -> by its versions from 0 on, the protocol version that brought it between brokers; None: it is passed over.

Fetch begins with version 4, the first that carries batches of magic 2: logs hold nothing else.
"""


class Switch(Enum):
    """What brokers do from some protocol version on, each with that version."""

    BROKER_EPOCHS = "2.2-IV0"
    """The controller's requests name the life of the broker that they are meant for (KIP-380)."""
    TRUNCATION_BY_EPOCH = "0.11.0-IV2"
    """Followers ask where an epoch ended before they truncate (KIP-101), and do not go by the high watermark alone."""
    TRUNCATION_ON_FETCH = "2.7-IV1"
    """A fetch itself tells a follower from where on its log diverges (KIP-595)."""
    FEATURES = "2.7-IV0"
    """The registry keeps finalized features (KIP-584)."""
    ALTER_PARTITION = "2.7-IV2"
    """Leaders ask the controller to change their in-sync replicas (KIP-497), and do not write them themselves."""
    TOPIC_IDS = "2.8-IV0"
    """Topics have ids (KIP-516)."""
    ALLOCATE_PRODUCER_IDS = "3.0-IV0"
    """Blocks of producer ids come from the controller (KIP-730), and are not taken from the registry."""
    LEADER_RECOVERY = "3.2-IV0"
    """A partition's state says that its leader was elected uncleanly (KIP-704)."""
    FLEXIBLE_OFFSETS = "3.5-IV0"
    """Coordinators read offsets that are stored with tags, such as a topic id; those before end at them (KIP-915)."""


class ProtocolVersion:
    """One protocol version."""

    __slots__ = ("_level", "_versions", "name")

    def __init__(self, name: str) -> None:
        """Of 2.8 it is the newest one, and of 2.8.2 the same. Raises ValueError, with a sentence, for a name that is none."""
        self.name = _newest(name)
        self._level = _LEVELS[self.name]
        self._versions = {key: self._version(since) for key, since in _SPOKEN.items()}

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProtocolVersion) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def is_at_least(self, name: str) -> bool:
        """Whether it is this one of `NAMES`, or a newer one."""
        return self._level >= _LEVELS[name]

    def has(self, switch: Switch) -> bool:
        return self.is_at_least(switch.value)

    def version(self, request: type[Message]) -> int:
        """The version in which brokers send a request to each other; -1: not at all."""
        return self._versions[request.WIRE.key]

    def _version(self, since: tuple[str | None, ...]) -> int:
        return max((version for version, name in enumerate(since) if name is not None and self.is_at_least(name)), default=-1)


def _newest(text: str) -> str:
    """The protocol version that a text means: its first three numbers before 1.0, its first two afterwards."""
    wanted = ".".join(text.strip().split(".")[: 3 if text.strip().startswith("0.") else 2])
    found = [name for name in NAMES if wanted in (name, name.partition("-")[0])]
    if not found:
        raise ValueError(
            f"{text.strip()!r} is not a protocol version: write one from {NAMES[0]} to {NAMES[-1]}, such as 2.8 or 3.9"
        )
    return found[-1]
