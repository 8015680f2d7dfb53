"""The request versions that this client uses, and their negotiation with a broker (KIP-511).

Newer versions are left out if they name topics only by id, or serve only brokers. No client here needs these. `older_brokers`
adapts requests to older versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.errors import NotSupported
from ottla.wire import releases
from ottla.wire.apis import API

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 8, 9, 10, 11, 12, 13, 14
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
DESCRIBE_GROUPS, LIST_GROUPS, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS = 15, 16, 18, 19, 20
DELETE_RECORDS, INCREMENTAL_ALTER_CONFIGS, OFFSET_DELETE = 21, 44, 47
CONSUMER_GROUP_HEARTBEAT, CONSUMER_GROUP_DESCRIBE, SHARE_GROUP_DESCRIBE, STREAMS_GROUP_DESCRIBE = 68, 69, 77, 89
SHARE_GROUP_HEARTBEAT, SHARE_FETCH, SHARE_ACKNOWLEDGE = 76, 78, 79
DESCRIBE_SHARE_GROUP_OFFSETS, ALTER_SHARE_GROUP_OFFSETS, DELETE_SHARE_GROUP_OFFSETS = 90, 91, 92
DESCRIBE_TOPIC_PARTITIONS, ADD_RAFT_VOTER, REMOVE_RAFT_VOTER, UNREGISTER_CONTROLLER = 75, 80, 81, 94
ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT = 24, 25, 26, 28
UPDATE_FEATURES, DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS, WRITE_TXN_MARKERS = 57, 61, 65, 66, 27
DESCRIBE_CLIENT_QUOTAS, ALTER_CLIENT_QUOTAS = 48, 49
DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 29, 30, 31
CREATE_DELEGATION_TOKEN, RENEW_DELEGATION_TOKEN, EXPIRE_DELEGATION_TOKEN, DESCRIBE_DELEGATION_TOKEN = 38, 39, 40, 41
DESCRIBE_QUORUM, UNREGISTER_BROKER, LIST_CONFIG_RESOURCES = 55, 64, 74
DESCRIBE_USER_SCRAM_CREDENTIALS, ALTER_USER_SCRAM_CREDENTIALS = 50, 51
ALTER_REPLICA_LOG_DIRS, DESCRIBE_LOG_DIRS = 34, 35
ELECT_LEADERS, ALTER_PARTITION_REASSIGNMENTS, LIST_PARTITION_REASSIGNMENTS = 43, 45, 46
GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY = 71, 72
INIT_PRODUCER_ID, DESCRIBE_CONFIGS, CREATE_PARTITIONS, DELETE_GROUPS, DESCRIBE_CLUSTER = 22, 32, 37, 42, 60

SPOKEN: Mapping[int, tuple[int, int]] = {
    PRODUCE: (0, 12),
    FETCH: (0, 16),
    LIST_OFFSETS: (0, 11),
    METADATA: (0, 13),
    OFFSET_COMMIT: (0, 9),
    OFFSET_FETCH: (0, 9),
    FIND_COORDINATOR: (0, 4),
    JOIN_GROUP: (0, 9),
    HEARTBEAT: (0, 4),
    LEAVE_GROUP: (0, 5),
    SYNC_GROUP: (0, 5),
    DESCRIBE_GROUPS: (0, 5),
    LIST_GROUPS: (0, 5),
    SASL_HANDSHAKE: (0, 1),
    API_VERSIONS: (0, 5),
    CREATE_TOPICS: (0, 7),
    DELETE_TOPICS: (0, 6),
    DELETE_RECORDS: (0, 2),
    INIT_PRODUCER_ID: (0, 6),
    ADD_PARTITIONS_TO_TXN: (0, 3),
    ADD_OFFSETS_TO_TXN: (0, 4),
    END_TXN: (0, 5),
    TXN_OFFSET_COMMIT: (0, 5),
    DESCRIBE_CONFIGS: (0, 4),
    SASL_AUTHENTICATE: (0, 2),
    ALTER_REPLICA_LOG_DIRS: (0, 2),
    DESCRIBE_LOG_DIRS: (0, 5),
    CREATE_PARTITIONS: (0, 3),
    CREATE_DELEGATION_TOKEN: (0, 3),
    RENEW_DELEGATION_TOKEN: (0, 2),
    EXPIRE_DELEGATION_TOKEN: (0, 2),
    DESCRIBE_DELEGATION_TOKEN: (0, 3),
    DESCRIBE_QUORUM: (0, 2),
    UNREGISTER_BROKER: (0, 0),
    LIST_CONFIG_RESOURCES: (0, 1),
    DELETE_GROUPS: (0, 3),
    ELECT_LEADERS: (0, 2),
    INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ALTER_PARTITION_REASSIGNMENTS: (0, 1),
    LIST_PARTITION_REASSIGNMENTS: (0, 0),
    DESCRIBE_CLUSTER: (0, 2),
    DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
    ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
    UPDATE_FEATURES: (0, 2),
    DESCRIBE_ACLS: (1, 3),
    CREATE_ACLS: (1, 3),
    DELETE_ACLS: (1, 3),
    DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ALTER_CLIENT_QUOTAS: (0, 1),
    DESCRIBE_PRODUCERS: (0, 0),
    DESCRIBE_TRANSACTIONS: (0, 0),
    LIST_TRANSACTIONS: (0, 2),
    WRITE_TXN_MARKERS: (0, 2),
    OFFSET_DELETE: (0, 0),
    CONSUMER_GROUP_HEARTBEAT: (0, 1),
    GET_TELEMETRY_SUBSCRIPTIONS: (0, 0),
    PUSH_TELEMETRY: (0, 0),
    CONSUMER_GROUP_DESCRIBE: (0, 1),
    SHARE_GROUP_DESCRIBE: (1, 1),
    SHARE_GROUP_HEARTBEAT: (1, 1),
    SHARE_FETCH: (1, 2),
    SHARE_ACKNOWLEDGE: (1, 2),
    STREAMS_GROUP_DESCRIBE: (0, 1),
    DESCRIBE_SHARE_GROUP_OFFSETS: (0, 1),
    ALTER_SHARE_GROUP_OFFSETS: (0, 0),
    DELETE_SHARE_GROUP_OFFSETS: (0, 0),
    DESCRIBE_TOPIC_PARTITIONS: (0, 0),
    ADD_RAFT_VOTER: (0, 1),
    REMOVE_RAFT_VOTER: (0, 0),
    UNREGISTER_CONTROLLER: (0, 0),
}
"""API key -> lowest and highest version that this client can encode and decode."""


def negotiate(served: Iterable[tuple[int, int, int]]) -> dict[int, int]:
    """Return the highest shared version by API key, from a broker's (API key, lowest, highest)."""
    shared: dict[int, int] = {}
    for key, lowest, highest in served:
        mine = SPOKEN.get(key)
        if mine is not None and max(lowest, mine[0]) <= min(highest, mine[1]):
            shared[key] = min(highest, mine[1])
    return shared


def versions_of(release: str) -> dict[int, int]:
    """Return the highest shared version of this client and a Kafka release, by API key.

    `release` is one of `releases.NAMES`. Raises `NotSupported` for 0.7, which has no versions.
    """
    if release not in releases.NAMES:
        raise NotSupported(f"Kafka {release} supports Producer and Consumer only: use these, or a newer broker.")
    return negotiate((key, served.start, served.stop - 1) for key, served in releases.served_versions(release).items())


def not_shared(api_key: int) -> NotSupported:
    """Return the exception for a request that client and broker support in no common version."""
    lowest, highest = SPOKEN[api_key]
    return NotSupported(
        f"The broker serves no version of {API[api_key].name} between {lowest} and {highest}, which this client needs: "
        + (_INSTEAD.get(api_key) or f"use {_first_release(api_key)}.")
    )


def _first_release(api_key: int) -> str:
    """Return the first release of Kafka that serves a version of a request that this client can encode."""
    return release_with(api_key, 0)


def release_with(api_key: int, version: int) -> str:
    """Return the first release of Kafka that serves a request in this version or a newer one that this client can encode."""
    found = (name for name in releases.NAMES if versions_of(name).get(api_key, -1) >= version)
    return next((f"Kafka {name} or newer" for name in found), "a newer broker")


_INSTEAD = {
    DESCRIBE_CONFIGS: "settings are described by Kafka 0.11 or newer.",
    INCREMENTAL_ALTER_CONFIGS: "single settings are changed by Kafka 2.3 or newer.",
    **dict.fromkeys(
        (CREATE_DELEGATION_TOKEN, RENEW_DELEGATION_TOKEN, EXPIRE_DELEGATION_TOKEN, DESCRIBE_DELEGATION_TOKEN),
        "delegation tokens need Kafka 1.1 or newer.",
    ),
    LIST_CONFIG_RESOURCES: "resources with settings are listed by Kafka 4.1 or newer.",
    DESCRIBE_QUORUM: "only clusters of KRaft, without ZooKeeper, have a quorum of controllers.",
    UNREGISTER_BROKER: "only clusters of KRaft, without ZooKeeper, keep brokers that are stopped; elsewhere stop the broker.",
    DESCRIBE_PRODUCERS: "DescribeProducers needs Kafka 2.8 or newer. Give the producer's id and epochs, or use a newer broker.",
    **dict.fromkeys((LIST_TRANSACTIONS, DESCRIBE_TRANSACTIONS), "listing and describing transactions needs Kafka 3.0 or newer."),
    **dict.fromkeys((DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS), "ACLs of prefixed patterns need Kafka 2.0 or newer."),
    UPDATE_FEATURES: "features need Kafka 2.7 or newer.",
    **dict.fromkeys((DESCRIBE_CLIENT_QUOTAS, ALTER_CLIENT_QUOTAS), "quota requests need Kafka 2.6 or newer."),
    **dict.fromkeys((ALTER_REPLICA_LOG_DIRS, DESCRIBE_LOG_DIRS), "log directories need Kafka 1.0 or newer."),
    ELECT_LEADERS: "leader elections need Kafka 2.2 or newer.",
    **dict.fromkeys(
        (ALTER_PARTITION_REASSIGNMENTS, LIST_PARTITION_REASSIGNMENTS), "partition reassignments need Kafka 2.4 or newer."
    ),
    SASL_HANDSHAKE: "SASL needs Kafka 0.10 or newer. Use security_protocol=SSL or PLAINTEXT, or a newer broker.",
    SASL_AUTHENTICATE: "SaslAuthenticate needs Kafka 1.0 or newer.",
    DELETE_GROUPS: "deleting groups needs Kafka 1.1 or newer.",
    OFFSET_DELETE: "deleting committed offsets needs Kafka 2.4 or newer.",
    **dict.fromkeys(
        (
            SHARE_GROUP_HEARTBEAT,
            SHARE_FETCH,
            SHARE_ACKNOWLEDGE,
            DESCRIBE_SHARE_GROUP_OFFSETS,
            ALTER_SHARE_GROUP_OFFSETS,
            DELETE_SHARE_GROUP_OFFSETS,
        ),
        "share groups need Kafka 4.1 or newer.",
    ),
    **dict.fromkeys((ADD_RAFT_VOTER, REMOVE_RAFT_VOTER), "only KRaft clusters of Kafka 3.9 or newer change their voters."),
    UNREGISTER_CONTROLLER: "only KRaft clusters of Kafka 4.4 or newer remove registrations of controllers.",
    CONSUMER_GROUP_HEARTBEAT: "group_protocol=consumer needs Kafka 4.0 or newer: set classic, or use a newer broker.",
    JOIN_GROUP: "consumer groups need Kafka 0.9 or newer. Call assign(), or use a newer broker.",
    INIT_PRODUCER_ID: "idempotence needs Kafka 0.11 or newer. Set enable_idempotence=False, or use a newer broker.",
}
