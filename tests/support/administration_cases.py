"""Requests of administration other than those about settings: see `administration`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from ottla.wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from tests.support.administration import LONG, NOBODY, Case, Of
from tests.support.administration_configs import config_cases


def administration_cases() -> list[Case]:
    """Return all cases, in the order in which they are asked."""
    return list(
        chain(
            _log_dirs(),
            _replica_moves(),
            config_cases(),
            _quorum(),
            _features(),
            _tokens(),
            _partitions(),
            _elections(),
            _reassignments(),
            _records(),
            _groups(),
            _clusters(),
            _producers(),
        )
    )


def _log_dirs() -> Iterator[Case]:
    asked: dict[str, Any] = {
        "all": None,
        "nothing": [],
        "one partition": [{"topic": "plain", "partitions": [0]}],
        "no partition": [{"topic": "plain", "partitions": []}],
        "a partition twice": [{"topic": "plain", "partitions": [0, 0]}],
        "a topic twice": [{"topic": "plain", "partitions": [0]}, {"topic": "plain", "partitions": [1]}],
        "an unknown topic": [{"topic": "nobody", "partitions": [0]}],
        "an unknown partition": [{"topic": "plain", "partitions": [7, -1]}],
        "a wrong name": [{"topic": "not/a name", "partitions": [0]}],
    }
    for name, topics in asked.items():
        for version in (1, 5) if name in ("all", "one partition") else (4,):
            yield Case(f"log dirs of {name}", 35, version, {"topics": topics})
    for version in (2, 3, 5):
        yield Case("log dirs without rights", 35, version, {"topics": None}, NOBODY)


def _quorum() -> Iterator[Case]:
    zero = [{"partition_index": 0}]
    for version in (0, 1, 2):
        yield Case("the quorum", 55, version, {"topics": [{"topic_name": "__cluster_metadata", "partitions": zero}]})
    yield Case("the quorum twice", 55, 2, {"topics": [{"topic_name": "__cluster_metadata", "partitions": zero}] * 2})
    yield Case("the quorum's partition twice", 55, 2, {"topics": [{"topic_name": "__cluster_metadata", "partitions": zero * 2}]})
    yield Case(
        "the quorum beside another",
        55,
        2,
        {"topics": [{"topic_name": name, "partitions": zero} for name in ("__cluster_metadata", "plain")]},
    )
    yield Case("the quorum of nothing", 55, 2, {"topics": [{"topic_name": "", "partitions": zero}]})
    yield Case(
        "the quorum of a negative partition",
        55,
        2,
        {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": -1}]}]},
    )
    for version in (0, 2):
        yield Case(
            "the quorum without rights", 55, version, {"topics": [{"topic_name": "__cluster_metadata", "partitions": zero}]}, NOBODY
        )
    for node_id in (-1, 2, 2**31 - 1, -(2**31)):
        yield Case(f"unregistered broker {node_id}", 64, 0, {"broker_id": node_id})
    yield Case("unregistered without rights", 64, 0, {"broker_id": 2}, NOBODY)


def _features() -> Iterator[Case]:
    levels = {
        "group.version": (0, 1, 2),
        "transaction.version": (3,),
        "share.version": (0, 2),
        "streams.version": (0, 2),
        "eligible.leader.replicas.version": (2,),
        "kraft.version": (2,),
        "metadata.version": (0, 1, 1000),
        "nothing": (0, 1),
        "": (1,),
    }
    for name, wanted in levels.items():
        for level in wanted:
            for version in (0, 2) if name in ("nothing", "kraft.version") else (1,):
                update = {"feature": name, "max_version_level": level, "upgrade_type": 1, "allow_downgrade": False}
                yield Case(
                    f"{name or 'no feature'} to {level}",
                    57,
                    version,
                    {"feature_updates": [update], "timeout_ms": 10_000, "validate_only": True},
                )
    for version in (0, 1, 2):
        yield Case("features without rights", 57, version, {"feature_updates": [], "timeout_ms": 1000}, NOBODY)


def _tokens() -> Iterator[Case]:
    def owned(kind: str | None, name: str | None) -> dict[str, Any]:
        return {"owner_principal_type": kind, "owner_principal_name": name}

    def user(name: str, kind: str = "User") -> dict[str, str]:
        return {"principal_type": kind, "principal_name": name}

    made = {"renewers": [user("renewer")], "max_lifetime_ms": -1} | owned(None, None)
    for version in (1, 2, 3):
        yield Case(f"token {version}", 38, version, made)
    yield Case("a token of another", 38, 3, made | owned("User", "other"))
    yield Case("a token of another by nobody", 38, 3, made | owned("User", "other"), NOBODY)
    yield Case("nobody's token", 38, 3, made | {"renewers": []}, NOBODY)
    yield Case("a token of a group", 38, 3, made | owned("Group", "other"))
    yield Case("a token with a type alone", 38, 3, made | owned("User", None))
    yield Case("a token with a name alone", 38, 3, made | owned(None, "other"))
    yield Case("a token without a name", 38, 3, made | owned("User", ""))
    yield Case("a token of a lifetime of 0", 38, 3, made | {"max_lifetime_ms": 0})
    yield Case("a token of a lifetime of -2", 38, 3, made | {"max_lifetime_ms": -2})
    yield Case("a token of a long lifetime", 38, 3, made | {"max_lifetime_ms": 2**63 - 1})
    yield Case("a token with a renewer of another type", 38, 3, made | {"renewers": [user("x", "Group")]})
    yield Case("a token with a renewer twice", 38, 3, made | {"renewers": [user("x"), user("x")]})
    yield Case("a token with a renewer without name", 38, 3, made | {"renewers": [user("")]})
    for version in (1, 2):
        yield Case("a token renewed", 39, version, {"hmac": Of("token 3", "hmac"), "renew_period_ms": -1})
    yield Case("a token renewed for 0 ms", 39, 2, {"hmac": Of("token 3", "hmac"), "renew_period_ms": 0})
    yield Case("a token renewed for long", 39, 2, {"hmac": Of("token 3", "hmac"), "renew_period_ms": 2**63 - 1})
    yield Case("a token renewed for -2 ms", 39, 2, {"hmac": Of("token 3", "hmac"), "renew_period_ms": -2})
    yield Case("a token renewed by nobody", 39, 2, {"hmac": Of("token 3", "hmac"), "renew_period_ms": -1}, NOBODY)
    for key, period in ((39, "renew_period_ms"), (40, "expiry_time_period_ms")):
        yield Case("an unknown token", key, 2, {"hmac": b"\1" * 64, period: -1})
        yield Case("an empty token", key, 2, {"hmac": b"", period: -1})
    yield Case("a token expired by nobody", 40, 2, {"hmac": Of("token 3", "hmac"), "expiry_time_period_ms": -1}, NOBODY)
    yield Case("a token to expire later", 40, 2, {"hmac": Of("token 3", "hmac"), "expiry_time_period_ms": 1000})
    yield Case("a token to expire in 0 ms", 40, 2, {"hmac": Of("token 2", "hmac"), "expiry_time_period_ms": 0})
    for version in (1, 2):
        yield Case("a token expired", 40, version, {"hmac": Of(f"token {version}", "hmac"), "expiry_time_period_ms": -1})
    yield Case("a token expired again", 40, 2, {"hmac": Of("token 1", "hmac"), "expiry_time_period_ms": -1})
    yield Case("tokens of nobody", 41, 3, {"owners": []})
    yield Case("tokens of an unknown", 41, 3, {"owners": [user("unknown")]})
    yield Case("tokens of a group", 41, 3, {"owners": [user("bob", "Group")]})
    yield Case("tokens of bob", 41, 3, {"owners": [user("bob")]})
    for version in (1, 2, 3):
        yield Case("tokens of bob for bob", 41, version, {"owners": None}, NOBODY)
    yield Case("tokens of bob twice", 41, 3, {"owners": [user("bob"), user("bob")]}, NOBODY)


def _replica_moves() -> Iterator[Case]:
    here = Of("log dirs of all", "results.0.log_dir")

    def to(path: Any, *topics: tuple[str, list[int]]) -> dict[str, Any]:
        return {"path": path, "topics": [{"name": name, "partitions": indexes} for name, indexes in topics]}

    asked = {
        "an unknown directory": [to("/nowhere", ("plain", [0]))],
        "a relative path": [to("nowhere", ("plain", [0]))],
        "no directory": [to("", ("plain", [0]))],
        "an unknown directory of an unknown topic": [to("/nowhere", ("nobody", [0]))],
        "where it is": [to(here, ("plain", [0]))],
        "where it is of an unknown topic": [to(here, ("nobody", [0]))],
        "where it is of an unknown partition": [to(here, ("plain", [9, -1]))],
        "where it is twice": [to(here, ("plain", [0, 0]))],
        "two directories": [to(here, ("plain", [0])), to("/nowhere", ("plain", [0]))],
        "an unknown directory of no topic": [to("/nowhere")],
        "an unknown directory of no partition": [to("/nowhere", ("plain", []))],
        "nowhere": [],
    }
    for name, dirs in asked.items():
        for version in (1, 2) if name == "an unknown directory" else (2,):
            yield Case(f"moved to {name}", 34, version, {"dirs": dirs})
    yield Case("moved without rights", 34, 2, {"dirs": asked["an unknown directory"]}, NOBODY)


def _partitions() -> Iterator[Case]:
    def grown(name: str, count: int, *assigned: list[int]) -> dict[str, Any]:
        return {"name": name, "count": count, "assignments": [{"broker_ids": ids} for ids in assigned] or None}

    asked = {
        "three": [grown("grown", 3)],
        "an empty list of assignments": [{"name": "grown", "count": 4, "assignments": []}],
        "too few": [grown("grown", 1)],
        "as many": [grown("grown", 2)],
        "a negative number": [grown("grown", -1)],
        "very many": [grown("grown", 2**31 - 1)],
        "no name": [grown("", 3)],
        "a wrong name": [grown("not/a name", 3)],
        "a long name": [grown(LONG, 3)],
        "an unknown topic": [grown("nobody", 3)],
        "an unknown broker": [grown("grown", 3, [9])],
        "too many assignments": [grown("grown", 3, [1], [1])],
        "no replicas": [grown("grown", 3, [])],
        "two replicas": [grown("grown", 3, [1, 2])],
        "nothing": [],
        "a topic twice": [grown("grown", 3)] * 2,
        "an internal topic": [grown("__consumer_offsets", 51)],
    }
    for name, topics in asked.items():
        for version in (0, 3) if name in ("three", "an unknown topic") else (2,):
            yield Case(f"partitions: {name}", 37, version, {"topics": topics, "timeout_ms": 10_000, "validate_only": True})
    yield Case("partitions without time", 37, 3, {"topics": asked["an unknown topic"], "timeout_ms": -1, "validate_only": False})
    yield Case("partitions without rights", 37, 3, {"topics": asked["three"], "timeout_ms": 1000}, NOBODY)


def _elections() -> Iterator[Case]:
    asked = {
        "all": None,
        "nothing": [],
        "one": [{"topic": "plain", "partitions": [0]}],
        "a partition twice": [{"topic": "plain", "partitions": [0, 0]}],
        "a topic twice": [{"topic": "plain", "partitions": [0]}, {"topic": "plain", "partitions": [1]}],
        "no partition": [{"topic": "plain", "partitions": []}],
        "an unknown partition": [{"topic": "plain", "partitions": [9, -1]}],
        "an unknown topic": [{"topic": "nobody", "partitions": [0]}],
    }
    for name, topics in asked.items():
        for version in (0, 1, 2) if name in ("one", "an unknown topic") else (2,):
            yield Case(f"elected: {name}", 43, version, {"topic_partitions": topics, "timeout_ms": 10_000, "election_type": 0})
    for kind in (1, 2, -1):
        yield Case(
            f"elected with type {kind}", 43, 2, {"topic_partitions": asked["one"], "timeout_ms": 1000, "election_type": kind}
        )
    for version in (0, 2):
        yield Case(
            "elected without rights",
            43,
            version,
            {"topic_partitions": asked["one"], "timeout_ms": 1000, "election_type": 0},
            NOBODY,
        )


def _reassignments() -> Iterator[Case]:
    def moved(name: str, *replicas: list[int] | None, first: int = 0) -> dict[str, Any]:
        return {"name": name, "partitions": [{"partition_index": first + at, "replicas": ids} for at, ids in enumerate(replicas)]}

    asked = {
        "where it is": [moved("plain", [1])],
        "cancelled": [moved("plain", None)],
        "to nobody": [moved("plain", [])],
        "to an unknown broker": [moved("plain", [9])],
        "to a negative broker": [moved("plain", [-1])],
        "to a broker twice": [moved("plain", [1, 1])],
        "to two brokers": [moved("plain", [1, 2])],
        "of an unknown partition": [moved("plain", [1], first=9)],
        "of an unknown topic": [moved("nobody", [1])],
        "of no name": [moved("", [1])],
        "of no partition": [moved("plain")],
        "of nothing": [],
        "of a topic twice": [moved("plain", [1]), moved("plain", [1], first=1)],
    }
    for name, topics in asked.items():
        for version in (0, 1) if name in ("where it is", "cancelled") else (1,):
            values = {"topics": topics, "timeout_ms": 10_000, "allow_replication_factor_change": True}
            yield Case(f"reassigned {name}", 45, version, values)
    yield Case("reassigned without rights", 45, 1, {"topics": asked["where it is"], "timeout_ms": 1000}, NOBODY)
    listed: dict[str, list[dict[str, Any]] | None] = {
        "all": None,
        "none": [],
        "one": [{"name": "plain", "partition_indexes": [0]}],
        "an unknown topic": [{"name": "nobody", "partition_indexes": [0]}],
        "an unknown partition": [{"name": "plain", "partition_indexes": [9]}],
    }
    for name, wanted in listed.items():
        yield Case(f"reassignments listed: {name}", 46, 0, {"topics": wanted, "timeout_ms": 10_000})
    yield Case("reassignments listed without rights", 46, 0, {"topics": None, "timeout_ms": 10_000}, NOBODY)


def _records() -> Iterator[Case]:
    def before(name: str, *offsets: tuple[int, int]) -> dict[str, Any]:
        return {"name": name, "partitions": [{"partition_index": index, "offset": offset} for index, offset in offsets]}

    asked = {
        "some": [before("records", (0, 2))],
        "fewer than are gone": [before("records", (0, 1))],
        "a negative offset": [before("records", (0, -2))],
        "beyond the end": [before("records", (0, 11))],
        "to the end": [before("records", (0, -1))],
        "of an empty partition": [before("records", (1, 0))],
        "of an unknown partition": [before("records", (9, 0))],
        "of an unknown topic": [before("nobody", (0, 0))],
        "of a partition twice": [before("records", (0, 3), (0, 3))],
        "of no partition": [before("records")],
        "of nothing": [],
        "of no name": [before("", (0, 0))],
    }
    for name, topics in asked.items():
        for version in (0, 1, 2) if name == "some" else (2,):
            yield Case(f"records deleted: {name}", 21, version, {"topics": topics, "timeout_ms": 10_000})
    yield Case("records deleted without time", 21, 2, {"topics": asked["some"], "timeout_ms": -1})
    yield Case("records deleted without rights", 21, 2, {"topics": asked["some"], "timeout_ms": 1000}, NOBODY)
    yield Case("records deleted of an unknown topic without rights", 21, 2, {"topics": asked["of an unknown topic"]}, NOBODY)


def _groups() -> Iterator[Case]:
    def of(name: str, *indexes: int) -> dict[str, Any]:
        return {"name": name, "partitions": [{"partition_index": index} for index in indexes]}

    asked: dict[str, tuple[str, list[dict[str, Any]]]] = {
        "one": ("shortened", [of("plain", 0)]),
        "one again": ("shortened", [of("plain", 0)]),
        "an unknown partition": ("shortened", [of("plain", 9)]),
        "an unknown topic": ("shortened", [of("nobody", 0)]),
        "no partition": ("shortened", [of("plain")]),
        "nothing": ("shortened", []),
        "a partition twice": ("shortened", [of("plain", 1, 1)]),
        "an unknown group": ("unknown", [of("plain", 0)]),
        "no group": ("", [of("plain", 0)]),
    }
    for name, (group, topics) in asked.items():
        yield Case(f"offsets deleted: {name}", 47, 0, {"group_id": group, "topics": topics})
    yield Case("offsets deleted without rights", 47, 0, {"group_id": "kept", "topics": [of("plain", 0)]}, NOBODY)
    groups = {
        "one": ["deleted"],
        "again": ["deleted"],
        "unknown": ["unknown"],
        "without name": [""],
        "nothing": [],
        "long": [LONG],
        "unknown twice": ["unknown", "unknown"],
        "one twice": ["deleted-too", "deleted-too"],
    }
    for name, names in groups.items():
        for version in (0, 1, 2) if name == "unknown" else (2,):
            yield Case(f"groups deleted: {name}", 42, version, {"groups_names": names})
    yield Case("groups deleted without rights", 42, 2, {"groups_names": ["kept", "unknown"]}, NOBODY)


def _clusters() -> Iterator[Case]:
    for version in (0, 1, 2):
        for asks in (False, True):
            which = {"include_cluster_authorized_operations": asks, "endpoint_type": 1, "include_fenced_brokers": asks}
            yield Case(f"the cluster{' with operations' if asks else ''}", 60, version, which)
    for kind in (0, 2, 3, -1):
        yield Case(
            f"the cluster of endpoints {kind}", 60, 1, {"include_cluster_authorized_operations": False, "endpoint_type": kind}
        )
    yield Case("the cluster without rights", 60, 2, {"include_cluster_authorized_operations": True, "endpoint_type": 1}, NOBODY)
    asked: dict[str, tuple[Iterable[str], int, tuple[str, int] | None]] = {
        "one": (("plain",), 10, None),
        "one of its partitions": (("plain",), 1, None),
        "from a cursor": (("plain",), 1, ("plain", 1)),
        "from a cursor behind the end": (("plain",), 10, ("plain", 9)),
        "from a cursor below zero": (("plain",), 10, ("plain", -1)),
        "from a cursor of another": (("plain",), 10, ("records", 0)),
        "from a cursor of an unknown": (("plain",), 10, ("nobody", 0)),
        "a topic twice": (("plain", "plain"), 10, None),
        "an unknown topic": (("nobody",), 10, None),
        "a wrong name": (("not/a name",), 10, None),
        "no name": (("",), 10, None),
        "with limit 0": (("plain",), 0, None),
        "with a negative limit": (("plain",), -1, None),
        "two topics": (("plain", "records"), 3, None),
    }
    for name, (named, limit, cursor) in asked.items():
        values: dict[str, Any] = {"topics": [{"name": topic} for topic in named], "response_partition_limit": limit}
        if cursor:
            values["cursor"] = DescribeTopicPartitionsRequest.Cursor(topic_name=cursor[0], partition_index=cursor[1])
        yield Case(f"partitions described: {name}", 75, 0, values)
    yield Case(
        "partitions described without rights", 75, 0, {"topics": [{"name": "plain"}], "response_partition_limit": 10}, NOBODY
    )


def _producers() -> Iterator[Case]:
    asked = {
        "a partition": [{"name": "plain", "partition_indexes": [0]}],
        "an unknown partition": [{"name": "plain", "partition_indexes": [9]}],
        "an unknown topic": [{"name": "nobody", "partition_indexes": [0]}],
        "a partition twice": [{"name": "plain", "partition_indexes": [0, 0]}],
        "no partition": [{"name": "plain", "partition_indexes": []}],
        "no name": [{"name": "", "partition_indexes": [0]}],
        "nothing": [],
    }
    for name, topics in asked.items():
        yield Case(f"producers of {name}", 61, 0, {"topics": topics})
    yield Case("producers without rights", 61, 0, {"topics": asked["a partition"]}, NOBODY)
