"""What clients with and without rights ask of a broker, and what of its answers shows whether it keeps them.

`World` is one broker, real or simulated, with the same topics, groups and rules; `cases` are the requests, each by one of `USERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from ottla.cluster.acls import CLUSTER_NAME, Operation, Pattern, Permission, Resource
from ottla.records.batches.builder import build
from ottla.wire.releases import HIGHEST
from ottla.wire.schema import Struct
from tests.support.acl_share_cases import ALTERED_OFFSETS, GROUPS, SHARE_ASKED, SHARE_VERSIONS, without_hidden_ids
from tests.support.messages import request
from tests.support.waiting import eventually

ADMIN = "admin"
USERS = ("alice", "bob", "carol", "dave", "erin", "frank")
"""alice may do all to what begins with "a-"; bob nothing; carol describe it; dave all to the cluster; erin read all but "b-two",
which a rule denies her; frank write a-one and its transactions."""
CLOSED = "closed"
TOPICS = ("a-one", "b-two")
NAMES = ("a-one", "b-two", "a-none", "b-none")
"""Two topics that there are, two that there are not."""
WALL_MS = 1_700_000_000_000

Ask = Callable[[str, int, int, Any], Any]
"""(user, API key, version, request) -> the response, or `CLOSED` where the connection ends."""

ALL = Operation.ALL
LITERAL, PREFIXED = Pattern.LITERAL, Pattern.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY

RULES = (
    *((kind, PREFIXED, "a-", "alice", ALL, ALLOW) for kind in (Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID)),
    *(
        (kind, PREFIXED, "a-", "carol", Operation.DESCRIBE, ALLOW)
        for kind in (Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID)
    ),
    (Resource.CLUSTER, LITERAL, CLUSTER_NAME, "dave", ALL, ALLOW),
    (Resource.TOPIC, LITERAL, "*", "erin", Operation.READ, ALLOW),
    (Resource.TOPIC, LITERAL, "b-two", "erin", Operation.READ, DENY),
    (Resource.GROUP, LITERAL, "a-group", "erin", Operation.READ, ALLOW),
    (Resource.CLUSTER, LITERAL, CLUSTER_NAME, "erin", Operation.DESCRIBE, ALLOW),
    (Resource.TOPIC, LITERAL, "a-one", "frank", Operation.WRITE, ALLOW),
    (Resource.TRANSACTIONAL_ID, PREFIXED, "a-", "frank", Operation.WRITE, ALLOW),
    (Resource.TOPIC, LITERAL, "a-one", "frank", Operation.ALTER_CONFIGS, ALLOW),
    (Resource.TOPIC, LITERAL, "a-one", "frank", Operation.DELETE, DENY),
)


class Case(NamedTuple):
    """One request: `name` is that of the case, without repetition."""

    user: str
    key: int
    version: int
    what: str
    values: dict[str, Any]

    def __str__(self) -> str:
        return " ".join((self.user, str(self.key), f"v{self.version}", *([self.what] if self.what else ())))


class World:
    """A broker with topics, groups and rules, and what it answers."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.ids: dict[str, bytes] = {}
        self._has_shares = False
        self._groups_exist()
        made = [*TOPICS, *(name for name in DOOMED)]
        topics = [{"name": name, "num_partitions": 2, "replication_factor": 1} for name in made]
        self._admin(19, 5, topics=topics, timeout_ms=10_000)
        self._admin(30, 2, creations=[_creation(*rule) for rule in RULES])
        eventually(lambda: self._sees(made))

    def _sees(self, made: list[str]) -> bool:
        """Whether the broker knows all topics and rules: a real one hears of them a moment later."""
        wanted = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
        found = self._admin(29, 2, resource_name_filter=None, principal_filter=None, host_filter=None, **wanted)
        self.ids = {topic.name: topic.topic_id for topic in self._admin(3, 12, topics=None).topics}
        return sum(len(each.acls) for each in found.resources) == len(RULES) and self.ids.keys() >= set(made)

    def _groups_exist(self) -> None:
        """The topics of groups and transactions, and a group with offsets of both topics."""
        for kind, key in ((0, "a-group"), (1, "a-txn")):
            for _ in range(600):
                if not self._admin(10, 3, key=key, key_type=kind).error_code:
                    break

    def _admin(self, key: int, version: int, /, **values: Any) -> Any:
        return self._ask(ADMIN, key, version, request(key, version, **values))

    def prepare(self) -> None:
        """Offsets of a group, and transactions under way, of which some may hear."""
        parts = [{"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}]
        for group in ("a-group", "b-group"):
            for _ in range(600):
                committed = self._admin(8, 8, group_id=group, topics=[{"name": name, "partitions": parts} for name in TOPICS])
                if not committed.topics[0].partitions[0].error_code:
                    break
        for name in ("a-txn", "b-txn"):
            for _ in range(600):
                got = self._admin(22, 4, transactional_id=name, transaction_timeout_ms=60_000)
                if not got.error_code:
                    break
            who = {"v3_and_below_producer_id": got.producer_id, "v3_and_below_producer_epoch": got.producer_epoch}
            topics = [{"name": topic, "partitions": [0]} for topic in TOPICS]
            self._admin(24, 3, v3_and_below_transactional_id=name, v3_and_below_topics=topics, **who)

    def _prepare_shares(self) -> None:
        """Have share groups with a member each, once the first is asked of them: before, they would be listed among groups."""
        self._has_shares = True
        beat = {"member_id": "m", "member_epoch": 0, "subscribed_topic_names": list(TOPICS)}
        for group in GROUPS[:2]:
            eventually(partial(self._is_assigned, group, beat))

    def _is_assigned(self, group: str, beat: dict[str, Any]) -> bool:
        beaten = self._admin(76, 1, group_id=group, **beat)
        return beaten.assignment is not None and len(beaten.assignment.topic_partitions) == len(TOPICS)

    def answer(self, case: Case) -> Any:
        if case.key == min(SHARE_ASKED) and not self._has_shares:
            self._prepare_shares()
        values = self._with_ids(case.values)
        response = self._ask(case.user, case.key, case.version, request(case.key, case.version, **values))
        if response == CLOSED:
            return CLOSED
        passed_over = () if case.key in (19, 20) or case.what == "made" else PASSING
        judged = self._judged(response, case.version, passed_over)
        return without_hidden_ids(judged) if case.key == ALTERED_OFFSETS else judged

    def _with_ids(self, value: Any) -> Any:
        """The same with the ids of the topics that are named so: {"topic_id": "a-one"}."""
        if isinstance(value, dict):
            return {
                name: self.ids.get(one, (one.encode() * 16)[:16])
                if name == "topic_id" and isinstance(one, str)
                else self._with_ids(one)
                for name, one in value.items()
            }
        return [self._with_ids(one) for one in value] if isinstance(value, list) else value

    def _judged(self, found: Any, version: int, passed_over: tuple[str, ...]) -> Any:
        """What of an answer shows whom it is for: errors, names, and what may be done."""
        if isinstance(found, list):
            parts = [self._judged(one, version, passed_over) for one in found if not _name(one).startswith(("__", *passed_over))]
            return sorted((part for part in parts if part not in (None, {})), key=repr)
        if not isinstance(found, Struct):
            return found
        told = {}
        for field in found.WIRE.fields:
            value = getattr(found, field.name)
            if version not in field.present or field.name in PASSED_OVER:
                continue
            if field.name == "topic_id":
                told["topic_id"] = next(
                    (name for name, one in self.ids.items() if one == value), None if value == bytes(16) else "?"
                )
            elif isinstance(value, list | Struct) or field.name in TOLD or field.name.endswith("_operations"):
                told[field.name] = self._judged(value, version, passed_over)
        return {name: value for name, value in told.items() if value not in EMPTY}


EMPTY: tuple[object, ...] = (None, [])
PASSING = ("a-del-", "a-made-", "b-made-", "a-auto-", "b-auto-")
"""Topics that come and go while others ask."""
PASSED_OVER = frozenset(
    {"brokers", "configs", "members", "log_dirs", "replica_nodes", "isr_nodes", "offline_replicas", "active_producers"}
)
TOLD = frozenset({"topic_config_error_code", "name", "topic", "topic_name", "group_id", "transactional_id", "resource_type"})
TOLD |= {"error_code", "partition_error_code", "partition_index", "partition", "index"}
TOLD |= {"resource_name", "key", "principal", "operation", "is_internal"}


def _name(one: Any) -> str:
    return next((found for name in ("name", "topic", "topic_name", "resource_name") if (found := getattr(one, name, None))), "")


def _creation(
    kind: Resource, pattern: Pattern, name: str, user: str, operation: Operation, permission: Permission
) -> dict[str, Any]:
    return {
        "resource_type": kind,
        "resource_pattern_type": pattern,
        "resource_name": name,
        "principal": f"User:{user}",
        "host": "*",
        "operation": operation,
        "permission_type": permission,
    }


def highest(key: int) -> int:
    """The highest version of an API in Kafka 4.3."""
    for line in HIGHEST.strip().split("\n"):
        number, _, *changes = line.split()
        if int(number) == key:
            return [int(change.partition("=")[2]) for change in changes if not change.startswith("4.4=")][-1]
    raise LookupError(key)


VERSIONS = {
    0: (3, 9, 12, 13),
    1: (4, 11, 12, 13, 17, 18),
    2: (1, 5, 10),
    3: (0, 4, 8, 12, 13),
    8: (2, 8, 9, 10),
    9: (1, 7, 8, 9, 10),
    10: (0, 3, 4, 6),
    11: (2, 9),
    13: (0, 5),
    15: (0, 6),
    16: (0, 3, 5),
    19: (2, 5, 7),
    20: (1, 5, 6),
    21: (0, 2),
    22: (0, 4, 5),
    24: (0, 3, 4, 5),
    28: (0, 3, 5),
    35: (1, 3, 5),
    66: (0, 2),
    **SHARE_VERSIONS,
}
"""Where there is more to tell apart than the first version that 4.3 serves and the last."""
FIRST = {27: 1, 29: 1, 30: 1, 31: 1, 32: 1, 37: 0, 43: 0, 44: 0, 23: 2, 74: 1, 55: 2}
DOOMED = tuple(f"a-del-{user}-{version}" for user in USERS for version in (1, 5, 6))


def cases() -> Iterator[Case]:
    for key, ask in ASKED.items():
        last = highest(key)
        versions = VERSIONS.get(key, tuple(sorted({FIRST.get(key, 0), last})))
        for version in versions:
            for user in USERS:
                for what, values in ask(version, user):
                    yield Case(user, key, version, what, values)


Bodies = Iterator[tuple[str, dict[str, Any]]]


def _batch() -> bytes:
    return bytes(build(None, [b"v"], WALL_MS))


def _produce(version: int, user: str) -> Bodies:
    part = [{"index": 0, "records": _batch()}]
    named = [{"name": name, "topic_id": name, "partition_data": part} for name in NAMES]
    yield "", {"acks": 1, "timeout_ms": 1000, "topic_data": named}
    yield "none", {"acks": 1, "timeout_ms": 1000, "topic_data": named[1:2]}


def _fetch(version: int, user: str) -> Bodies:
    part = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]
    base = {"replica_id": -1, "max_wait_ms": 0, "max_bytes": 1000}
    topics = [{"topic": name, "topic_id": name, "partitions": part} for name in NAMES]
    yield "", base | {"session_epoch": -1, "topics": topics}
    yield "a session", base | {"session_epoch": 0, "topics": topics[:2]}
    yield "nothing", base | {"session_epoch": -1, "topics": []}
    if version <= 14 and user != "dave":
        yield "as a follower", base | {"replica_id": 7, "session_epoch": -1, "topics": topics[:2]}


def _list_offsets(version: int, user: str) -> Bodies:
    part = [{"partition_index": 0, "timestamp": -1}]
    yield "", {"replica_id": -1, "topics": [{"name": name, "partitions": part} for name in NAMES]}


def _metadata(version: int, user: str) -> Bodies:
    asks = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    names = NAMES if version >= 4 else (*TOPICS, "b-none")  # older versions create what is not there
    yield "", {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": False} | asks
    yield "all", {"topics": [] if version == 0 else None} | asks
    if version >= 4:
        yield "made", {"topics": [{"name": f"b-auto-{user}-{version}"}], "allow_auto_topic_creation": True}
    if version >= 12:
        ids = [{"name": None, "topic_id": name} for name in (*TOPICS, "unknown")]
        yield "ids", {"topics": ids} | asks


def _offset_commit(version: int, user: str) -> Bodies:
    part = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
    topics = [{"name": name, "topic_id": name, "partitions": part} for name in NAMES]
    for group in ("a-committed", "b-committed", "a-group"):
        yield group, {"group_id": group, "topics": topics}


def _offset_fetch(version: int, user: str) -> Bodies:
    groups = ("a-group", "b-group", "a-nobody")
    topics = [{"name": name, "topic_id": name, "partition_indexes": [0]} for name in NAMES]
    if version >= 8:
        yield "", {"groups": [{"group_id": group, "topics": topics} for group in groups]}
        yield "all", {"groups": [{"group_id": group, "topics": None} for group in groups]}
        return
    topics = [{"name": name, "partition_indexes": [0]} for name in NAMES]
    for group in groups:
        yield group, {"group_id": group, "topics": topics}
        if version >= 2:
            yield f"{group} all", {"group_id": group, "topics": None}


def _find_coordinator(version: int, user: str) -> Bodies:
    for kind in (0, 1) if version else (0,):
        keys = ("a-group", "b-group")
        if version >= 4:
            yield str(kind), {"key_type": kind, "coordinator_keys": list(keys)}
            yield f"{kind} none", {"key_type": kind, "coordinator_keys": ["b-group"]}
        else:
            for key in keys:
                yield f"{kind} {key}", {"key": key, "key_type": kind}


def _join(version: int, user: str) -> Bodies:
    for name in ("a-join", "b-join"):
        protocols = [{"name": "range", "metadata": b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"}]
        yield (
            name,
            {
                "group_id": f"{name}-{user}-{version}",
                "session_timeout_ms": 6000,
                "rebalance_timeout_ms": 6000,
                "member_id": "",
                "protocol_type": "consumer",
                "protocols": protocols,
            },
        )


def _of_groups(**more: Any) -> Callable[[int, str], Bodies]:
    def asked(version: int, user: str) -> Bodies:
        for group in ("a-group", "b-group", "a-nobody"):
            yield group, {"group_id": group, **more}

    return asked


def _list_of(field: str, *names: str, **more: Any) -> Callable[[int, str], Bodies]:
    def asked(version: int, user: str) -> Bodies:
        yield "", {field: list(names), **more}
        yield "none", {field: [names[1]], **more}

    return asked


def _partitions_of(field: str, by: str, indexes: str, part: Any, **more: Any) -> Callable[[int, str], Bodies]:
    """Requests that list topics, each with one partition."""

    def asked(version: int, user: str) -> Bodies:
        topics = [{by: name, indexes: [part]} for name in NAMES]
        yield "", {field: topics, **more}
        yield "none", {field: topics[1:2], **more}

    return asked


def _always(**values: Any) -> Callable[[int, str], Bodies]:
    def asked(version: int, user: str) -> Bodies:
        yield "", values

    return asked


def _create_topics(version: int, user: str) -> Bodies:
    made = [{"name": f"{kind}-made-{user}-{version}", "num_partitions": 1, "replication_factor": 1} for kind in "ab"]
    yield "", {"topics": made, "timeout_ms": 10_000, "validate_only": False}
    there = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in TOPICS]
    yield "there", {"topics": there, "timeout_ms": 10_000, "validate_only": True}


def _delete_topics(version: int, user: str) -> Bodies:
    names = ("b-two", "a-none", "b-none")
    if user != "dave":
        topics = [{"name": name} for name in names]
        yield "", {"topic_names": list(names), "topics": topics, "timeout_ms": 10_000}
    doomed = f"a-del-{user}-{version}"
    yield "its own", {"topic_names": [doomed], "topics": [{"name": doomed}], "timeout_ms": 10_000}
    if version >= 6 and user != "dave":
        ids = [{"name": None, "topic_id": name} for name in ("b-two", "unknown")]
        yield "ids", {"topics": ids, "timeout_ms": 10_000}
        if user != "alice":
            yield "id", {"topics": [{"name": None, "topic_id": "a-one"}], "timeout_ms": 10_000}


def _init_producer_id(version: int, user: str) -> Bodies:
    yield "", {"transactional_id": None, "transaction_timeout_ms": 60_000}
    for name in ("a-init", "b-init"):
        yield name, {"transactional_id": f"{name}-{user}-{version}", "transaction_timeout_ms": 60_000}


def _add_partitions(version: int, user: str) -> Bodies:
    for name in ("a-nobody", "b-nobody"):
        for which, topics in (("", NAMES), (" one", ("a-one",))):
            named = [{"name": topic, "partitions": [0]} for topic in topics]
            each = {"transactional_id": name, "producer_id": 77, "producer_epoch": 0, "verify_only": False, "topics": named}
            old = {
                "v3_and_below_transactional_id": name,
                "v3_and_below_producer_id": 77,
                "v3_and_below_producer_epoch": 0,
                "v3_and_below_topics": named,
            }
            yield f"{name}{which}", {"transactions": [each], **old}


def _of_transactions(**more: Any) -> Callable[[int, str], Bodies]:
    def asked(version: int, user: str) -> Bodies:
        for name in ("a-nobody", "b-nobody"):
            for group in ("a-group", "b-group") if "group_id" in more else ("",):
                given = {"group_id": group} if group else {}
                yield f"{name} {group}".strip(), {"transactional_id": name, "producer_id": 77, "producer_epoch": 0, **more, **given}

    return asked


def _configs(field: Callable[[str], dict[str, Any]]) -> Callable[[int, str], Bodies]:
    def asked(version: int, user: str) -> Bodies:
        named = [(2, name) for name in NAMES] + [(4, "1"), (32, "a-group"), (32, "b-group")]
        resources = [{"resource_type": kind, "resource_name": name, **field(name)} for kind, name in named]
        yield "", {"resources": resources}
        yield "none", {"resources": resources[1:2]}

    return asked


def _alter(field: Callable[[int], list[dict[str, Any]]]) -> Callable[[int, str], Bodies]:
    def asked(version: int, user: str) -> Bodies:
        named = [(2, name) for name in NAMES] + [(4, "1"), (32, "a-group"), (32, "b-group")]
        resources = [{"resource_type": kind, "resource_name": name, "configs": field(kind)} for kind, name in named]
        yield "", {"resources": resources, "validate_only": True}
        yield "none", {"resources": resources[1:2], "validate_only": True}

    return asked


def _some_setting(kind: int) -> list[dict[str, Any]]:
    name, value = {2: ("retention.ms", "100000"), 4: ("log.cleaner.threads", "1")}.get(
        kind, ("consumer.session.timeout.ms", "50000")
    )
    return [{"name": name, "value": value, "config_operation": 0}]


def _its_value(kind: int) -> list[dict[str, Any]]:
    return [{name: value for name, value in each.items() if name != "config_operation"} for each in _some_setting(kind)]


def _acls(version: int, user: str) -> Bodies:
    wanted = {"operation": 1, "permission_type": 1, "resource_name_filter": None, "principal_filter": None, "host_filter": None}
    yield "", wanted | {"resource_type_filter": 1, "pattern_type_filter": 1, "principal_filter": "User:frank"}
    yield "match", wanted | {"resource_type_filter": 2, "pattern_type_filter": 2, "resource_name_filter": "a-one"}
    yield "literal", wanted | {"resource_type_filter": 2, "pattern_type_filter": 3, "resource_name_filter": "a-one"}
    yield "prefix", wanted | {"resource_type_filter": 2, "pattern_type_filter": 4, "resource_name_filter": "a-"}
    yield "unknown", wanted | {"resource_type_filter": 99, "pattern_type_filter": 3}
    yield "everything", wanted | {"resource_type_filter": 4, "pattern_type_filter": 1, "operation": 2, "permission_type": 3}


def _create_acls(version: int, user: str) -> Bodies:
    good = _creation(Resource.TOPIC, LITERAL, f"made-by-{user}", "nobody", Operation.READ, ALLOW)
    empty, cluster = good | {"resource_name": ""}, good | {"resource_type": 4, "resource_name": "other"}
    yield "", {"creations": [good, empty, cluster, good]}
    yield "without type", {"creations": [good | {"principal": "nobody"}]}
    yield "unknown", {"creations": [good | {"operation": 99}]}
    yield "odd", {"creations": [good | {"resource_type": 4, "resource_name": CLUSTER_NAME}, good | {"operation": 13}]}


def _delete_acls(version: int, user: str) -> Bodies:
    wanted = {"operation": 1, "permission_type": 1, "principal_filter": None, "host_filter": None, "pattern_type_filter": 3}
    mine = wanted | {"resource_type_filter": 2, "resource_name_filter": f"made-by-{user}"}
    yield "", {"filters": [mine, wanted | {"resource_type_filter": 2, "resource_name_filter": "nobodys"}]}
    yield "unknown", {"filters": [mine | {"operation": 99}]}


def _heartbeats(version: int, user: str) -> Bodies:
    for group in ("a-new", "b-new"):
        base: dict[str, Any] = {"group_id": f"{group}-{user}-{version}", "member_id": "m" if version else ""}
        base |= {"rebalance_timeout_ms": 6000, "member_epoch": 0, "topic_partitions": []}
        yield group, base | {"subscribed_topic_names": ["a-one"]}
        yield f"{group} of others", base | {"subscribed_topic_names": ["a-one", "b-two"]}
        yield f"{group} of nobody", base | {"subscribed_topic_names": ["b-none"]}


def _create_partitions(version: int, user: str) -> Bodies:
    topics = [{"name": name, "count": 3, "assignments": None} for name in NAMES]
    yield "", {"topics": topics, "timeout_ms": 1000, "validate_only": True}
    yield "none", {"topics": topics[1:2], "timeout_ms": 1000, "validate_only": True}


def _describe_topic_partitions(version: int, user: str) -> Bodies:
    yield "", {"topics": [{"name": name} for name in NAMES], "response_partition_limit": 100}
    yield "all", {"topics": [], "response_partition_limit": 1000}


OFFSET = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
MARKER = {
    "producer_id": 1,
    "producer_epoch": 0,
    "transaction_result": False,
    "coordinator_epoch": 0,
    "topics": [{"name": "a-none", "partition_indexes": [0]}],
}

ASKED: dict[int, Callable[[int, str], Bodies]] = {
    60: _always(include_cluster_authorized_operations=True),
    0: _produce,
    1: _fetch,
    2: _list_offsets,
    3: _metadata,
    8: _offset_commit,
    9: _offset_fetch,
    10: _find_coordinator,
    11: _join,
    12: _of_groups(generation_id=1, member_id="m"),
    13: _of_groups(member_id="m", members=[{"member_id": "m"}]),
    14: _of_groups(generation_id=1, member_id="m", assignments=[], protocol_type="consumer", protocol_name="range"),
    15: _list_of("groups", "a-group", "b-group", "a-nobody", "b-nobody", include_authorized_operations=True),
    16: _always(),
    19: _create_topics,
    20: _delete_topics,
    21: _partitions_of("topics", "name", "partitions", {"partition_index": 0, "offset": 0}, timeout_ms=1000),
    22: _init_producer_id,
    23: _partitions_of("topics", "topic", "partitions", {"partition": 0, "leader_epoch": 0}, replica_id=-2),
    24: _add_partitions,
    25: _of_transactions(group_id=""),
    26: _of_transactions(committed=True),
    27: _always(markers=[MARKER]),
    28: _of_transactions(group_id="", topics=[{"name": name, "partitions": [OFFSET]} for name in NAMES], member_id=""),
    29: _acls,
    30: _create_acls,
    31: _delete_acls,
    32: _configs(lambda name: {"configuration_keys": []}),
    33: _alter(_its_value),
    35: _always(topics=None),
    37: _create_partitions,
    43: _partitions_of("topic_partitions", "topic", "partitions", 0, timeout_ms=1000),
    44: _alter(_some_setting),
    46: _always(topics=None),
    47: _of_groups(topics=[{"name": name, "partitions": [{"partition_index": 0}]} for name in NAMES]),
    48: _always(components=[{"entity_type": "user", "match_type": 2, "match": None}], strict=False),
    49: _always(entries=[], validate_only=True),
    51: _always(deletions=[{"name": "nobody", "mechanism": 1}], upsertions=[]),
    57: _always(feature_updates=[], timeout_ms=1000),
    61: _partitions_of("topics", "name", "partition_indexes", 0),
    65: _list_of("transactional_ids", "a-txn", "b-txn", "a-nobody", "b-nobody"),
    66: _always(state_filters=[], producer_id_filters=[]),
    68: _heartbeats,
    69: _list_of("group_ids", "a-group", "b-group", "a-nobody", "b-nobody", include_authorized_operations=True),
    74: _always(resource_types=[2, 4, 32]),
    75: _describe_topic_partitions,
    42: _list_of("groups_names", "a-nobody", "b-group", "b-nobody"),
    **SHARE_ASKED,
}
