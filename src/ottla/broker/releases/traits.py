"""Differences between releases: one row for each trait, with the release from which each value applies. Facts only.

They were observed in recorded responses and in the releases' sources; `ottla.broker.releases.release` reads them.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final, TypeVar

from ottla.cluster.features import GROUP_VERSION, OFF_ONLY, SHARE_VERSION, STREAMS_VERSION, TRANSACTION_VERSION, Feature
from ottla.records.compression import codecs
from ottla.records.message_sets.up_conversion import Inside
from ottla.wire.errors import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    KAFKA_STORAGE_ERROR,
    LEADER_NOT_AVAILABLE,
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_TOPIC_OR_PARTITION,
)

T = TypeVar("T")
Since = tuple[tuple[str, T], ...]
"""(first release, value) pairs, oldest first. A value applies from its release on, and the first one also before."""


class Dialect(IntEnum):
    """The request format of a listener: a request type and a body before 0.8, and an API, version and correlation id since."""

    FIRST = 0
    VERSIONED = 1


class Unreadable(Enum):
    """The fate of a connection after a request with an unknown API or version, or after a malformed request."""

    CLOSED = "closed"
    SILENCE = "no answer, and the connection stays open"


class TooNew(Enum):
    """The response to ApiVersions of an unknown version, in version 0 and with UNSUPPORTED_VERSION (KIP-35)."""

    EMPTY = "with an empty list"
    ITSELF = "with the versions of ApiVersions alone (KIP-511)"
    ALL = "with the whole list"


class MoreAcks(Enum):
    """The meaning of acks above 1 in a Produce."""

    AS_ALL = "as many as there are: with one replica, as acks=all"
    COUNTED = "so many replicas in sync, or REQUEST_TIMED_OUT"
    REFUSED = "INVALID_REQUIRED_ACKS"


class CommitsChecked(Enum):
    """The checks of OffsetCommit before it commits, from version 1 on."""

    NOTHING = "nothing: neither members nor topics"
    TOPICS = "the topic"
    PARTITIONS = "the partition"


DIALECT: Final[Since[Dialect]] = (("0.6", Dialect.FIRST), ("0.8.0", Dialect.VERSIONED))

UNREADABLE: Final[Since[Unreadable]] = (
    ("0.8.0", Unreadable.CLOSED),
    ("0.9.0", Unreadable.SILENCE),
    ("0.10.0", Unreadable.CLOSED),
)

CLOSES_ALL_THE_SAME: Final[Since[frozenset[int]]] = (
    ("0.8.0", frozenset()),
    ("0.9.0", frozenset(range(10, 17))),
    ("0.10.0", frozenset()),
)
"""APIs with a schema, whose malformed bodies close the connection even in releases that ignore unknown requests."""

VERSION_PASSED_OVER: Final[Since[frozenset[int]]] = (
    ("0.8.0", frozenset({0, 1, 2, 3, 7, 8, 9})),
    ("0.8.2", frozenset({0, 1, 2, 3, 7, 9, 10})),
    ("0.9.0", frozenset({0, 1, 2, 3, 7, 9})),
    ("0.10.0", frozenset({1, 7})),
    ("0.10.2", frozenset()),
)
"""APIs whose version is not checked: a version that is too high is decoded and answered as the highest version."""

TOO_NEW: Final[Since[TooNew]] = (("0.8.0", TooNew.EMPTY), ("2.4", TooNew.ITSELF))

MORE_ACKS: Final[Since[MoreAcks]] = (("0.8.0", MoreAcks.AS_ALL), ("0.8.2", MoreAcks.COUNTED), ("0.9.0", MoreAcks.REFUSED))

FIRST_TOPIC_ERROR: Final[Since[int]] = (("0.8.0", LEADER_NOT_AVAILABLE), ("4.0", UNKNOWN_TOPIC_OR_PARTITION))
"""The first error code of Metadata for a topic that it has just created; the client retries."""

UNSEEN_MS: Final = 50
"""Duration of `FIRST_TOPIC_ERROR`, in ms: Kafka 0.9 to 4.3 took 15 to 50 ms. sarama retries twice, 10 ms apart."""

FEATURES: Final[Since[tuple[Feature, ...]]] = (
    ("0.8.0", ()),
    ("4.0", (GROUP_VERSION, TRANSACTION_VERSION, OFF_ONLY["kraft.version"], OFF_ONLY["eligible.leader.replicas.version"])),
    ("4.1", (GROUP_VERSION, TRANSACTION_VERSION, SHARE_VERSION, STREAMS_VERSION, *OFF_ONLY.values())),
)
"""The features in ApiVersions: the consumer protocol (KIP-848), epochs for each transaction (KIP-890), share groups
(KIP-932), streams groups (KIP-1071), and those that are off.

Kafka 4 also announces `metadata.version`, the format of a KRaft log, which is not written here.
"""

OFFSETS_OF_UNKNOWN_TOPICS: Final[Since[bool]] = (("0.8.0", False), ("0.8.2", True), ("0.9.0", False))
"""Whether OffsetFetch, from version 1 on, returns UNKNOWN_TOPIC_OR_PARTITION for a partition that does not exist."""

COMMITS_CHECKED: Final[Since[CommitsChecked]] = (
    ("0.8.0", CommitsChecked.NOTHING),
    ("0.9.0", CommitsChecked.TOPICS),
    ("2.0", CommitsChecked.PARTITIONS),
)

FAILED_GENERATION: Final[Since[int]] = (("0.8.0", 0), ("2.2", -1))
"""The generation in a JoinGroup response with an error."""

STABLE_OFFSET_FOR_ALL: Final[Since[bool]] = (("0.8.0", False), ("2.1", True))
"""Whether Fetch returns the last stable offset also to clients that read uncommitted records."""

RESTS_FIRST: Final[Since[bool]] = (("0.8.0", True), ("2.0", False))
"""Whether the response to a throttled client is delayed by the throttle time instead of sent at once (KIP-219)."""

ANY_TIME: Final[Since[bool]] = (("0.8.0", True), ("3.0", False))
"""Whether ListOffsets treats a negative timestamp without a meaning as an ordinary timestamp."""

BAD_BATCHES_CLOSE: Final[Since[bool]] = (("0.8.0", False), ("0.11.0", True), ("2.1", False))
"""Whether a Produce of version 3 or later with anything other than one batch of magic 2 closes the connection."""

INSIDE: Final[Since[Inside]] = (("0.8.0", Inside.NOTHING), ("0.10.0", Inside.FORMATS), ("0.11.0", Inside.OFFSETS))
"""The validation of compressed messages. kafka-node sends 0.9 messages of magic 1 in wrappers of magic 0."""

NEWEST_MAGIC: Final[Since[int]] = (("0.6", 0), ("0.7", 1), ("0.11.0", 2))
"""The newest magic. 0.8 and 0.9 ignore it, and a few clients send them magic 1; magic 2 has its CRC elsewhere and seems corrupt.

Until 0.7, the numbers 0 and 1 denoted other formats.
"""

NEWEST_CODEC: Final[Since[int]] = (("0.6", codecs.NONE), ("0.7", codecs.SNAPPY), ("0.8.2", codecs.LZ4), ("2.1", codecs.ZSTD))

NEWEST_ERROR: Final[Since[int]] = (
    ("0.8.0", 11), ("0.8.1", 13), ("0.8.2", 20), ("0.9.0", 31), ("0.10.0", 35), ("0.10.1", 43), ("0.10.2", 44), ("0.11.0", 55),
    ("1.0", 60), ("1.1", 71), ("2.0", 72), ("2.1", 76), ("2.2", 81), ("2.3", 82), ("2.4", 87), ("2.5", 88), ("2.7", 96),
    ("2.8", 104), ("3.0", 105), ("3.1", 106), ("3.3", 108), ("3.5", 112), ("3.6", 113), ("3.7", 119), ("3.8", 120), ("3.9", 127),
    ("4.0", 32767),
)  # fmt: skip
"""The highest error code of each release."""

BEFORE: Final = {INVALID_RECORD: CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR: NOT_LEADER_OR_FOLLOWER}
"""Error code -> the equivalent of older releases; UNKNOWN_SERVER_ERROR for all others."""

UNANNOUNCED: Final = frozenset({7})
"""APIs that current brokers serve but do not list in ApiVersions: ControlledShutdown."""

EARLIEST: Final = -2
"""The lowest timestamp of ListOffsets that has a meaning in every release."""

UNKNOWN_IS_EMPTY: Final[Since[bool]] = (("0.6", False), ("0.7", True))
"""Whether a fetch from any offset of a missing log is empty, as since 0.7.1; otherwise only a fetch from its start."""

CLOSES_IDLE: Final[Since[bool]] = (("0.6", False), ("0.8.0", True))
"""Whether idle connections are closed. A producer of 0.7 loses messages on a closed connection without an error."""

ELIGIBLE_REPLICAS: Final[Since[bool]] = (("0.8.0", False), ("4.1", True))
"""Whether a new cluster has eligible leader replicas (KIP-966): min.insync.replicas is then set at cluster level."""

SETTINGS: Final[dict[str, Since[str]]] = {
    "delete.topic.enable": (("0.8.0", "false"), ("1.0", "true")),
    "group.initial.rebalance.delay.ms": (("0.8.0", "0"), ("0.11.0", "3000")),
    "group.max.session.timeout.ms": (("0.8.0", "30000"), ("0.10.0", "300000"), ("2.3", "1800000")),
    "log.cleaner.enable": (("0.8.0", "false"), ("0.9.0", "true")),
    "log.message.timestamp.after.max.ms": (("0.8.0", str(2**63 - 1)), ("4.0", "3600000")),
    "message.max.bytes": (("0.6", "1000000"), ("0.8.0", "1000012"), ("2.5", "1048588")),
    "offset.metadata.max.bytes": (("0.8.0", "1024"), ("0.8.2", "4096")),
    "offsets.retention.minutes": (("0.8.0", "1440"), ("2.0", "10080")),
}
"""Broker setting -> its default. Contains only settings with an effect that clients can observe."""
