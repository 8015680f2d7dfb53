"""Tries of somebody who has logged in, mallory, to get past a rule of access: by names nearly his own, by ids, by things of others.

What he may do begins with "m-"; a rule denies him "m-denied", and everybody to write what begins with "m-no-".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ottla.cluster.acls import CLUSTER_NAME
from ottla.wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.apis import API
from tests.interop.security.tries.logins import of_token
from tests.interop.security.tries.row import Try, answered, asking, with_ids
from tests.support.fort import CANARY, CANARY_GROUP, CANARY_TXN, SONG, Fort, batch

TOPIC, GROUP, CLUSTER, TXN, CLUSTER_SCOPE, TOKEN = (
    "topic",
    "group",
    "cluster",
    "transactional id",
    "inter-broker",
    "delegation token",
)
NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TXN, NO_TOKEN = "29", "30", "31", "53", "65"
UNKNOWN_ID = "100"
Row = tuple[str, int, int, dict[str, Any], str]
"""A name, the API's key and version, the request's values, and the errors that must come."""


def produced(topic: str, records: Callable[[], bytes] = batch, **more: Any) -> dict[str, Any]:
    data = [{"name": topic, "topic_id": topic, "partition_data": [{"index": 0, "records": records()}]}]
    return {"acks": -1, "timeout_ms": 1000, "topic_data": data, **more}


def fetched(topic: str, **more: Any) -> dict[str, Any]:
    part = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]
    named = [{"topic": topic, "topic_id": topic, "partitions": part}]
    return {"replica_id": -1, "max_wait_ms": 0, "max_bytes": 1000, "session_epoch": -1, "topics": named, **more}


def offsets_of(group: str, topic: str, **more: Any) -> dict[str, Any]:
    part = [{"partition_index": 0, "committed_offset": 7, "committed_metadata": "m"}]
    return {"group_id": group, "topics": [{"name": topic, "topic_id": topic, "partitions": part}], **more}


def transactional() -> bytes:
    return batch(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)


def named(topic: str, field: str = "partitions", part: Any = 0, by: str = "name", **more: Any) -> dict[str, Any]:
    """One topic with one partition, as many requests have it."""
    return {"topics": [{by: topic, field: [part]}], **more}


NEAR = {
    "in capitals": "Canary",
    "with a blank": "canary ",
    "with a zero byte": "canary\0",
    "with a dot": "canary.",
    "with a Cyrillic letter": "c\u0430nary",
    "in wide letters": "\uff43anary",
    "a step up from his own": "m-/../canary",
    "behind his prefix and a zero byte": "m-\0canary",
    "of a rule's wildcard": "*",
    "none": "",
}
"""Names near the canary's. Those that begin with "m-" he may use, and no topic can have them."""
OUTSIDE = {
    "the prefix in capitals": "M-own",
    "a letter less than the prefix": "m",
    "more than a literal name": "exactly",
    "denied before it is allowed": "m-denied",
    "that he may only describe": "glass",
}


def topic_rows() -> Iterator[Row]:
    for version in (3, 8, 9, 12, 13):
        yield f"write the canary, v{version}", 0, version, produced(CANARY), NO_TOPIC
    for version in (4, 7, 11, 12, 13, 17):
        yield f"read the canary, v{version}", 1, version, fetched(CANARY), "29" if version < 7 else "0 29"
    for what, name in OUTSIDE.items():
        yield f"write what is {what}", 0, 9, produced(name), NO_TOPIC
        yield f"write by its id what is {what}", 0, 13, produced(name), NO_TOPIC
        yield f"read what is {what}", 1, 12, fetched(name), "0 29"
    yield "write what everybody is denied by a prefix", 0, 9, produced("m-no-writing"), NO_TOPIC
    for what, name in NEAR.items():
        is_his = name.startswith(("m-", "*"))
        yield f"write a name {what}", 0, 9, produced(name), "3" if is_his or not name else NO_TOPIC
        yield f"read a name {what}", 1, 12, fetched(name), "0 3" if is_his else "0 29"
        yield f"create a name {what}", 19, 5, creating(name), "17" if is_his else NO_TOPIC
    yield "read as a follower", 1, 12, fetched(CANARY, replica_id=1), "0 29"
    yield (
        "read as a follower of the newest version",
        1,
        17,
        fetched(CANARY, replica_state=FetchRequest.ReplicaState(replica_id=1, replica_epoch=0)),
        "0 29",
    )
    yield "read as a debugging consumer", 1, 12, fetched(CANARY, replica_id=-2), "0 29"
    yield "write in a transaction without an id", 0, 9, produced("m-own", transactional), NO_TXN
    yield "write in a transaction of alice", 0, 9, produced("m-own", transactional, transactional_id=CANARY_TXN), NO_TXN
    yield "write the canary in his own transaction", 0, 9, produced(CANARY, transactional, transactional_id="m-txn"), NO_TOPIC
    yield "write with an empty transactional id", 0, 9, produced("m-own", transactional, transactional_id=""), NO_TXN


def look_rows() -> Iterator[Row]:
    part = {"partition_index": 0, "timestamp": -2}
    for version in (1, 5, 9):
        yield f"where the canary ends, v{version}", 2, version, named(CANARY, "partitions", part, replica_id=-1), NO_TOPIC
    for version in (1, 4, 9, 12):
        yield f"describe the canary, v{version}", 3, version, {"topics": [{"name": CANARY}]}, NO_TOPIC
    by_id = {"name": None, "topic_id": CANARY}
    yield "describe the canary by its id", 3, 12, {"topics": [by_id]}, NO_TOPIC
    yield "describe the canary by its id and his own name", 3, 12, {"topics": [{"name": "m-own", "topic_id": CANARY}]}, NO_TOPIC
    yield "describe all", 3, 12, {"topics": None}, "0"
    yield "describe the canary's partitions", 75, 0, {"topics": [{"name": CANARY}], "response_partition_limit": 9}, NO_TOPIC
    yield "describe all partitions", 75, 0, {"topics": [], "response_partition_limit": 99}, "0"
    after = {
        "topics": [],
        "response_partition_limit": 99,
        "cursor": DescribeTopicPartitionsRequest.Cursor(topic_name=CANARY, partition_index=0),
    }
    yield "describe what follows the canary", 75, 0, after, "0"
    yield "the canary's producers", 61, 0, named(CANARY, "partition_indexes"), NO_TOPIC
    epoch = {"partition": 0, "leader_epoch": 0}
    yield "the canary's epochs", 23, 4, named(CANARY, "partitions", epoch, "topic", replica_id=-1), NO_TOPIC


def change_rows() -> Iterator[Row]:
    by_id = {"name": None, "topic_id": CANARY}
    yield (
        "delete the canary's records",
        21,
        2,
        named(CANARY, "partitions", {"partition_index": 0, "offset": 1}, timeout_ms=999),
        NO_TOPIC,
    )
    for version in (1, 5):
        yield f"delete the canary, v{version}", 20, version, {"topic_names": [CANARY], "timeout_ms": 999}, NO_TOPIC
    yield "delete the canary by name", 20, 6, {"topics": [{"name": CANARY}], "timeout_ms": 999}, NO_TOPIC
    yield "delete the canary by its id", 20, 6, {"topics": [by_id], "timeout_ms": 999}, NO_TOPIC
    yield (
        "delete the canary by its id and his own name",
        20,
        6,
        {"topics": [{"name": "m-own", "topic_id": CANARY}], "timeout_ms": 9},
        "42",
    )
    yield "delete what he is denied", 20, 6, {"topics": [{"name": "m-denied"}], "timeout_ms": 999}, NO_TOPIC
    grown = [{"name": CANARY, "count": 9, "assignments": None}]
    yield "give the canary partitions", 37, 3, {"topics": grown, "timeout_ms": 999, "validate_only": False}, NO_TOPIC
    yield "create what others have", 19, 5, creating(CANARY), NO_TOPIC
    yield "create what is not his", 19, 7, creating("others"), NO_TOPIC
    yield "create the topic of offsets", 19, 5, creating("__consumer_offsets"), NO_TOPIC
    yield "have a topic made by asking for it", 3, 12, {"topics": [{"name": "others"}], "allow_auto_topic_creation": True}, NO_TOPIC
    yield "read the offsets of all groups", 1, 12, fetched("__consumer_offsets"), "0 29"
    yield "write the offsets of all groups", 0, 9, produced("__consumer_offsets"), NO_TOPIC
    yield "write the state of transactions", 0, 9, produced("__transaction_state"), NO_TOPIC
    yield "where the canary is kept", 35, 4, named(CANARY, by="topic"), NO_CLUSTER
    yield "where all is kept", 35, 4, {"topics": None}, NO_CLUSTER
    yield "move the canary", 34, 2, {"dirs": [{"path": "/tmp", **named(CANARY)}]}, NO_CLUSTER
    yield (
        "elect a leader of the canary",
        43,
        2,
        {"topic_partitions": [{"topic": CANARY, "partitions": [0]}], "timeout_ms": 9},
        NO_CLUSTER,
    )
    yield "elect all leaders", 43, 2, {"topic_partitions": None, "timeout_ms": 9}, NO_CLUSTER
    moved = [{"name": CANARY, "partitions": [{"partition_index": 0, "replicas": [1]}]}]
    yield "reassign the canary", 45, 0, {"topics": moved, "timeout_ms": 9}, NO_CLUSTER
    yield "what is being reassigned", 46, 0, {"topics": None, "timeout_ms": 9}, NO_CLUSTER


def creating(name: str) -> dict[str, Any]:
    return {"topics": [{"name": name, "num_partitions": 1, "replication_factor": 1}], "timeout_ms": 9, "validate_only": False}


def group_rows() -> Iterator[Row]:
    for version in (2, 8, 9):
        yield f"commit for alice's group, v{version}", 8, version, offsets_of(CANARY_GROUP, "m-own"), NO_GROUP
    yield "commit for alice's group by a topic's id", 8, 10, offsets_of(CANARY_GROUP, "m-own"), NO_GROUP
    yield "commit of the canary for his own group", 8, 8, offsets_of("m-group", CANARY), NO_TOPIC
    yield "commit of the canary by its id for his own group", 8, 10, offsets_of("m-group", CANARY), NO_TOPIC
    yield "commit for a group that he is denied", 8, 8, offsets_of("m-denied", "m-own"), NO_GROUP
    for group in (CANARY_GROUP, "Canary-group", "M-group", "m", "", "*"):
        yield f"join {group!r}", 11, 5, joining(group), NO_GROUP
    wanted = [{"name": CANARY, "partition_indexes": [0]}]
    yield "offsets of alice's group", 9, 7, {"group_id": CANARY_GROUP, "topics": wanted}, NO_GROUP
    yield "all offsets of alice's group", 9, 7, {"group_id": CANARY_GROUP, "topics": None}, NO_GROUP
    yield (
        "all offsets of alice's group among his",
        9,
        8,
        {"groups": [{"group_id": name, "topics": None} for name in ("m-group", CANARY_GROUP)]},
        "0 30",
    )
    yield "offsets of the canary in his own group", 9, 7, {"group_id": "m-group", "topics": wanted}, "0 29"
    yield (
        "delete alice's offsets",
        47,
        0,
        {"group_id": CANARY_GROUP, "topics": [{"name": CANARY, "partitions": [{"partition_index": 0}]}]},
        NO_GROUP,
    )
    yield "delete alice's group", 42, 2, {"groups_names": [CANARY_GROUP]}, NO_GROUP
    yield "describe alice's group", 15, 5, {"groups": [CANARY_GROUP], "include_authorized_operations": True}, NO_GROUP
    yield "describe alice's group of the new protocol", 69, 1, {"group_ids": [CANARY_GROUP]}, NO_GROUP
    yield "list all groups", 16, 5, {}, "0"
    yield "list groups in every state", 16, 5, {"states_filter": ["Empty", "Stable"], "types_filter": []}, "0"
    yield "find the coordinator of alice's group", 10, 3, {"key": CANARY_GROUP, "key_type": 0}, NO_GROUP
    yield "find the coordinators of many groups", 10, 6, {"key_type": 0, "coordinator_keys": ["m-group", CANARY_GROUP]}, "0 30"
    yield (
        "find a coordinator of another kind",
        10,
        6,
        {"key_type": 2, "coordinator_keys": [f"{CANARY_GROUP}:{CANARY}:0"]},
        NO_CLUSTER,
    )
    member = {"group_id": CANARY_GROUP, "generation_id": -1, "member_id": "m"}
    yield "live on in alice's group", 12, 4, member, NO_GROUP
    yield (
        "share out alice's group",
        14,
        5,
        {**member, "assignments": [], "protocol_type": "consumer", "protocol_name": "range"},
        NO_GROUP,
    )
    yield "have others leave alice's group", 13, 5, {"group_id": CANARY_GROUP, "members": [{"member_id": "m"}]}, NO_GROUP
    yield "join alice's group of the new protocol", 68, 1, heartbeat(CANARY_GROUP, ["m-own"]), NO_GROUP
    yield "subscribe to the canary in his own group", 68, 1, heartbeat("m-new", [CANARY]), NO_TOPIC
    yield "subscribe to the canary and his own", 68, 1, heartbeat("m-new2", ["m-own", CANARY]), NO_TOPIC
    yield "subscribe by a pattern for all", 68, 1, {**heartbeat("m-new3", None), "subscribed_topic_regex": ".*"}, "0"
    yield "subscribe by a pattern for the canary", 68, 1, {**heartbeat("m-new4", None), "subscribed_topic_regex": CANARY}, "0"


def joining(group: str) -> dict[str, Any]:
    protocols = [{"name": "range", "metadata": b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"}]
    times = {"session_timeout_ms": 6000, "rebalance_timeout_ms": 6000}
    return {"group_id": group, "member_id": "", "protocol_type": "consumer", "protocols": protocols, **times}


def heartbeat(group: str, topics: list[str] | None) -> dict[str, Any]:
    member = {"member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 6000, "topic_partitions": []}
    return {"group_id": group, "subscribed_topic_names": topics, **member}


def transaction_rows() -> Iterator[Row]:
    for name in (CANARY_TXN, "Canary-txn", "M-txn", "m", "", "*"):
        yield f"begin as {name!r}", 22, 4, {"transactional_id": name, "transaction_timeout_ms": 9000}, NO_TXN
    his = {"producer_id": 77, "producer_epoch": 0}
    yield "end alice's transaction", 26, 3, {"transactional_id": CANARY_TXN, "committed": True, **his}, NO_TXN
    yield "end alice's transaction under his own id", 26, 3, {"transactional_id": "m-txn", "committed": True, **his}, "49"
    old = {"v3_and_below_producer_id": 77, "v3_and_below_producer_epoch": 0}
    for what, name, topic, must in (
        ("alice's transaction", CANARY_TXN, "m-own", NO_TXN),
        ("the canary in his own", "m-txn", CANARY, NO_TOPIC),
    ):
        given = {"v3_and_below_transactional_id": name, "v3_and_below_topics": [{"name": topic, "partitions": [0]}]}
        yield f"write in {what}", 24, 3, {**given, **old}, must
        one = {"transactional_id": name, "verify_only": False, "topics": [{"name": topic, "partitions": [0]}], **his}
        yield f"write in {what}, as a broker", 24, 5, {"transactions": [one]}, NO_CLUSTER
        yield f"ask whether one writes in {what}, as a broker", 24, 5, {"transactions": [{**one, "verify_only": True}]}, NO_CLUSTER
    yield "commit offsets in alice's transaction", 25, 4, {"transactional_id": CANARY_TXN, "group_id": "m-group", **his}, NO_TXN
    yield (
        "commit offsets of alice's group in his own",
        25,
        4,
        {"transactional_id": "m-txn", "group_id": CANARY_GROUP, **his},
        NO_GROUP,
    )
    for version in (3, 5):
        mine = {"transactional_id": "m-txn", "member_id": "", **his}
        yield (
            f"offsets of alice's group in his transaction, v{version}",
            28,
            version,
            {**offsets_of(CANARY_GROUP, "m-own"), **mine},
            NO_GROUP,
        )
        yield (
            f"offsets of the canary in his transaction, v{version}",
            28,
            version,
            {**offsets_of("m-group", CANARY), **mine},
            NO_TOPIC,
        )
        hers = {**mine, "transactional_id": CANARY_TXN}
        yield f"offsets in alice's transaction, v{version}", 28, version, {**offsets_of("m-group", "m-own"), **hers}, NO_TXN
    yield "describe alice's transaction", 65, 0, {"transactional_ids": [CANARY_TXN]}, NO_TXN
    yield "list all transactions", 66, 2, {"state_filters": [], "producer_id_filters": []}, "0"
    yield (
        "list alice's transactions by their producer",
        66,
        2,
        {"state_filters": [], "producer_id_filters": lambda fort: [fort.producer["producer_id"]]},
        "0",
    )
    yield "find the coordinator of alice's transactions", 10, 3, {"key": CANARY_TXN, "key_type": 1}, NO_TXN


def config_rows() -> Iterator[Row]:
    for kind, name, must in (
        (2, CANARY, NO_TOPIC),
        (4, "1", NO_CLUSTER),
        (4, "", NO_CLUSTER),
        (8, "1", NO_CLUSTER),
        (32, CANARY_GROUP, NO_GROUP),
        (16, "m", NO_CLUSTER),
    ):
        one = {"resource_type": kind, "resource_name": name}
        yield f"settings of {kind} {name!r}", 32, 4, {"resources": [{**one, "configuration_keys": None}]}, must
        for setting, value in (("retention.ms", "1"), ("super.users", "User:mallory"), ("authorizer.class.name", "")):
            changed = [{"name": setting, "value": value, "config_operation": 0}]
            yield f"{setting} of {kind} {name!r}", 44, 1, {"resources": [{**one, "configs": changed}], "validate_only": False}, must
    jaas = "listener.name.login.plain.sasl.jaas.config"
    for kind, name in ((4, "1"), (4, "")):
        given = [{"name": jaas, "value": 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="x";'}]
        yield (
            f"passwords of {name!r}",
            33,
            2,
            {"resources": [{"resource_type": kind, "resource_name": name, "configs": given}]},
            NO_CLUSTER,
        )
    own = [{"name": "retention.ms", "value": "1"}]
    yield (
        "all settings of the canary",
        33,
        2,
        {"resources": [{"resource_type": 2, "resource_name": CANARY, "configs": own}]},
        NO_TOPIC,
    )


def cluster_rows() -> Iterator[Row]:
    for name in ("alice", "mallory", "admin"):
        salted = {"mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": bytes(32)}
        yield f"a password for {name}", 51, 0, {"deletions": [], "upsertions": [{"name": name, **salted}]}, NO_CLUSTER
        yield f"no password for {name}", 51, 0, {"deletions": [{"name": name, "mechanism": 1}], "upsertions": []}, NO_CLUSTER
        yield f"the credentials of {name}", 50, 0, {"users": [{"name": name}]}, NO_CLUSTER
    yield "the credentials of all", 50, 0, {"users": None}, NO_CLUSTER
    rule = {"resource_pattern_type": 3, "principal": "User:mallory", "host": "*", "operation": 2, "permission_type": 3}
    for kind, name in ((2, CANARY), (2, "*"), (4, CLUSTER_NAME), (7, "alice"), (2, "m-own")):
        yield (
            f"a rule about {kind} {name!r}",
            30,
            3,
            {"creations": [{**rule, "resource_type": kind, "resource_name": name}]},
            NO_CLUSTER,
        )
    yield "a rule of the oldest kind", 30, 1, {"creations": [{**rule, "resource_type": 2, "resource_name": CANARY}]}, NO_CLUSTER
    anything = {"resource_name_filter": None, "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
    every = {**anything, "resource_type_filter": 1, "pattern_type_filter": 1}
    yield "delete all rules", 31, 3, {"filters": [every]}, NO_CLUSTER
    yield "delete what denies him", 31, 3, {"filters": [{**every, "permission_type": 2}]}, NO_CLUSTER
    yield "tell all rules", 29, 3, every, NO_CLUSTER
    entity = [{"entity_type": "user", "entity_name": "mallory"}]
    ops = [{"key": "producer_byte_rate", "value": 1.0, "remove": False}]
    yield "a quota of his own", 49, 1, {"entries": [{"entity": entity, "ops": ops}], "validate_only": False}, NO_CLUSTER
    yield (
        "a quota for all",
        49,
        1,
        {"entries": [{"entity": [{"entity_type": "user", "entity_name": None}], "ops": ops}], "validate_only": False},
        NO_CLUSTER,
    )
    yield "all quotas", 48, 1, {"components": [], "strict": False}, NO_CLUSTER
    yield (
        "another level of features",
        57,
        1,
        {"feature_updates": [{"feature": "metadata.version", "max_version_level": 7}], "timeout_ms": 9},
        NO_CLUSTER,
    )
    yield "all that has settings", 74, 1, {"resource_types": []}, NO_CLUSTER
    yield "what he may do to the cluster", 60, 2, {"include_cluster_authorized_operations": True}, "0"


def _proof_of_alices(fort: Fort) -> bytes:
    return fort.tokens["alice"][1]


def token_rows() -> Iterator[Row]:
    alice = {"owner_principal_type": "User", "owner_principal_name": "alice"}
    make = {"renewers": [], "max_lifetime_ms": -1}
    yield "one for alice", 38, 3, {**make, **alice}, NO_TOKEN
    yield "one for the admin", 38, 3, {**make, **alice, "owner_principal_name": "admin"}, NO_TOKEN
    yield "one for a user near one whom he may act for", 38, 3, {**make, **alice, "owner_principal_name": "bobby"}, NO_TOKEN
    yield "one for another in capitals", 38, 3, {**make, **alice, "owner_principal_name": "BOB"}, NO_TOKEN
    yield (
        "one for a principal that is no user",
        38,
        3,
        {**make, "owner_principal_type": "Group", "owner_principal_name": "mallory"},
        NO_TOKEN,
    )
    yield "alice's, by owner", 41, 3, {"owners": [{"principal_type": "User", "principal_name": "alice"}]}, "0"
    yield "those of all", 41, 3, {"owners": None}, "0"
    yield "renew alice's", 39, 2, {"hmac": _proof_of_alices, "renew_period_ms": -1}, "63"
    yield "end alice's", 40, 2, {"hmac": _proof_of_alices, "expiry_time_period_ms": -1}, "63"
    yield "end alice's in a while", 40, 2, {"hmac": _proof_of_alices, "expiry_time_period_ms": 5}, "63"
    yield "end one that nobody has", 40, 2, {"hmac": bytes(64), "expiry_time_period_ms": -1}, "62"
    yield "end one without a proof", 40, 2, {"hmac": b"", "expiry_time_period_ms": -1}, "62"


def broker_rows() -> Iterator[Row]:
    marker = {"producer_id": 1, "producer_epoch": 0, "transaction_result": True, "coordinator_epoch": 0}
    yield (
        "markers in the canary",
        27,
        1,
        {"markers": [{**marker, "topics": [{"name": CANARY, "partition_indexes": [0]}]}]},
        NO_CLUSTER,
    )
    place = {"group_id": CANARY_GROUP, "topics": [{"topic_id": CANARY, "partitions": [{"partition": 0}]}]}
    for key in SHARE_STATES:
        yield f"the state of a share partition of the canary, by {API[key].name}", key, 0, place, NO_CLUSTER
    yield "the end of the broker", 7, 3, {"broker_id": 1, "broker_epoch": -1}, NO_CLUSTER
    yield (
        "a request of another's",
        58,
        0,
        {
            "request_data": b"\x00\x03\x00\x01",
            "request_principal": b"\x00\x05User\x06admin",
            "client_host_address": b"\x7f\0\0\x01",
        },
        "closed",
    )


ROWS = (
    (TOPIC, (topic_rows, look_rows, change_rows)),
    (GROUP, (group_rows,)),
    (TXN, (transaction_rows,)),
    (CLUSTER, (config_rows, cluster_rows)),
    (TOKEN, (token_rows,)),
    (CLUSTER_SCOPE, (broker_rows,)),
)
BROKERS = (4, 5, 6, 52, 53, 54, 56, 59, 62, 63, 67, 70, 73, 80, 81, 82)
"""APIs among brokers and controllers."""
SHARE_STATES = range(83, 88)
"""The APIs of share coordinators, which a client with rights to the cluster may use."""
OF_A_LONE_BROKER = (55, 64)
"""DescribeQuorum and UnregisterBroker, which a single broker serves to whoever may describe or alter the cluster."""


def access_tries() -> Iterator[Try]:
    for kind, makers in ROWS:
        for name, key, version, values, must in (row for rows in makers for row in rows()):
            yield Try(kind, name, asking(key, version, **values), must)
    for key in BROKERS:
        yield Try(CLUSTER_SCOPE, API[key].name, asking(key, API[key].request.WIRE.valid[-1]), "closed")
    for key in OF_A_LONE_BROKER:
        yield Try(CLUSTER_SCOPE, API[key].name, asking(key, API[key].request.WIRE.valid[-1]), NO_CLUSTER)
    for name, (act, must) in SESSIONS.items():
        yield Try("over time", name, act, must)


FIRST = {"replica_id": -1, "max_wait_ms": 0, "max_bytes": 1000, "session_id": 0, "session_epoch": 0}
LENT = {"operation": 3, "permission_type": 3, "host": "*", "principal": "User:mallory"}
LENT |= {"resource_type": 2, "resource_pattern_type": 3}
TAKEN = {"operation": 3, "permission_type": 3, "host_filter": None, "principal_filter": "User:mallory"}
TAKEN |= {"resource_type_filter": 2, "pattern_type_filter": 3}


def _outlived(version: int, topic: str) -> Callable[[Fort], str]:
    """A session of Fetch that began when he might read a topic: from the moment on at which he may not, it has none of it."""

    def act(fort: Fort) -> str:
        with fort.line().login("mallory") as line, fort.line().login("admin") as admin:
            assert not admin.ask(30, 2, creations=[{**LENT, "resource_name": topic}]).results[0].error_code
            opened = line.ask(1, version, **with_ids(fort, {**fetched(topic), **FIRST}))
            assert b"lent out" in line.got
            assert admin.ask(31, 2, filters=[{**TAKEN, "resource_name_filter": topic}]).filter_results[0].matching_acls
            line.got = b""
            going = {**FIRST, "session_id": opened.session_id, "session_epoch": 1, "topics": []}
            heard = answered(fort, line, 1, version, going)
            return f"{heard} in" if b"lent out" in line.got else heard

    return act


def _stolen(version: int, epoch: int) -> Callable[[Fort], str]:
    """A session of Fetch that alice has begun."""

    def act(fort: Fort) -> str:
        with fort.line().login("alice") as owner, fort.line().login("mallory") as line:
            opened = owner.ask(1, version, **with_ids(fort, {**fetched(CANARY), **FIRST}))
            assert SONG in owner.got
            going = {**FIRST, "session_id": opened.session_id, "session_epoch": epoch, "topics": []}
            heard = answered(fort, line, 1, version, going)
            more = {**FIRST, "session_id": opened.session_id, "session_epoch": 1, "topics": []}
            assert not owner.ask(1, version, **more).error_code, "it goes on for her"
            return heard

    return act


def _by_token(key: int, version: int, values: dict[str, Any]) -> Callable[[Fort], str]:
    """A request of who has logged in by a delegation token, which is not for making others."""

    def act(fort: Fort) -> str:
        with fort.line() as line:
            of_token("mallory", "mallory")(fort, line)
            return answered(fort, line, key, version, values)

    return act


SESSIONS: dict[str, tuple[Callable[[Fort], str], str]] = {
    "a session of Fetch outlives a rule": (_outlived(12, "lent"), "0 29"),
    "a session of Fetch by ids outlives a rule": (_outlived(13, "lent-by-id"), "0 29"),
    "alice's session of Fetch": (_stolen(12, 1), "70"),
    "alice's session of Fetch by ids": (_stolen(13, 1), "70"),
    "alice's session of Fetch at another epoch": (_stolen(12, 5), "70"),
    "the end of alice's session of Fetch": (_stolen(12, -1), "0"),
    "a token made by a token": (_by_token(38, 3, {"renewers": [], "max_lifetime_ms": -1}), "64"),
    "tokens told to a token": (_by_token(41, 3, {"owners": None}), "64"),
}


def right_requests() -> Iterator[Try]:
    """Those who may: the same requests are served to them."""
    yield Try("right", "alice reads the canary", asking(1, 12, by="alice", **fetched(CANARY)), "0 its song")
    yield Try("right", "alice reads the canary by its id", asking(1, 13, by="alice", **fetched(CANARY)), "0 its song")
    yield Try("right", "mallory writes his own", asking(0, 9, **produced("m-own")), "0")
    yield Try("right", "mallory writes his own by its id", asking(0, 13, **produced("m-own")), "0")
    yield Try("right", "mallory reads what is lent by its name alone", asking(1, 12, **fetched("exact")), "0")
    yield Try("right", "mallory's own group", asking(10, 3, key="m-group", key_type=0), "0")
    yield Try("right", "a token for whom he may act for", asking(38, 3, renewers=[], max_lifetime_ms=-1, **BOB), "0")


BOB = {"owner_principal_type": "User", "owner_principal_name": "bob"}
