"""The API versions of requests between brokers, by `inter.broker.protocol.version`, which must be equal on all brokers.

Contains Kafka's names of protocol versions and the changes of each, and neither settings nor connections. Brokers do not exchange
ApiVersions: a newer broker is configured for the oldest version until all are upgraded.
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
"""API key -> for each API version from 0 on, the protocol version that introduced it between brokers.

None marks a version that brokers skip. Fetch begins with version 4, the first one with batches of magic 2, because logs contain no
other format.
"""


class Switch(Enum):
    """Behaviour of brokers that begins with a protocol version; the value is the protocol version."""

    BROKER_EPOCHS = "2.2-IV0"
    """The controller's requests contain the broker epoch of their target (KIP-380)."""
    TRUNCATION_BY_EPOCH = "0.11.0-IV2"
    """Followers read the end offset of an epoch before they truncate (KIP-101), instead of using the high watermark alone."""
    TRUNCATION_ON_FETCH = "2.7-IV1"
    """A fetch response contains the offset at which the follower's log diverges (KIP-595)."""
    FEATURES = "2.7-IV0"
    """The registry stores finalized features (KIP-584)."""
    ALTER_PARTITION = "2.7-IV2"
    """Leaders send ISR changes to the controller (KIP-497), instead of writing them themselves."""
    TOPIC_IDS = "2.8-IV0"
    """Topics have ids (KIP-516)."""
    ALLOCATE_PRODUCER_IDS = "3.0-IV0"
    """The controller allocates blocks of producer ids (KIP-730), instead of each broker through the registry."""
    LEADER_RECOVERY = "3.2-IV0"
    """A partition's state records that its leader was elected uncleanly (KIP-704)."""
    FLEXIBLE_OFFSETS = "3.5-IV0"
    """Coordinators can read stored offsets with tagged fields, such as a topic id; earlier coordinators cannot (KIP-915)."""


class ProtocolVersion:
    """One inter-broker protocol version."""

    __slots__ = ("_level", "_versions", "name")

    def __init__(self, name: str) -> None:
        """Create the version with this name: "2.8" and "2.8.2" both mean the newest version of 2.8.

        Raises ValueError for an unknown name.
        """
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
        """Return whether this version is the version `name`, one of `NAMES`, or newer."""
        return self._level >= _LEVELS[name]

    def has(self, switch: Switch) -> bool:
        return self.is_at_least(switch.value)

    def version(self, request: type[Message]) -> int:
        """Return the version in which brokers send a request to each other; -1 if they do not send it."""
        return self._versions[request.WIRE.key]

    def _version(self, since: tuple[str | None, ...]) -> int:
        return max((version for version, name in enumerate(since) if name is not None and self.is_at_least(name)), default=-1)


def _newest(text: str) -> str:
    """Return the newest protocol version of a release, by its first three numbers before 1.0 and its first two from 1.0 on."""
    wanted = ".".join(text.strip().split(".")[: 3 if text.strip().startswith("0.") else 2])
    found = [name for name in NAMES if wanted in (name, name.partition("-")[0])]
    if not found:
        raise ValueError(
            f"{text.strip()!r} is not a protocol version: write one from {NAMES[0]} to {NAMES[-1]}, such as 2.8 or 3.9"
        )
    return found[-1]
