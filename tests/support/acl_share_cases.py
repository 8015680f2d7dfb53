"""What clients with and without rights ask about share groups and streams groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ottla.wire.errors import TOPIC_AUTHORIZATION_FAILED

NAMES = ("a-one", "b-two", "a-none", "b-none")
"""Two topics that there are, two that there are not."""
GROUPS = ("a-share", "b-share", "a-nobody", "b-nobody")
"""Two share groups that there are, two that there are not."""
WAIT_MS = 200
ALTERED_OFFSETS = 91

Bodies = Iterator[tuple[str, dict[str, Any]]]


def _share_heartbeats(version: int, user: str) -> Bodies:
    for group in ("a-new", "b-new"):
        base: dict[str, Any] = {"group_id": f"{group}-share-{user}-{version}", "member_id": "m", "member_epoch": 0}
        yield group, base | {"subscribed_topic_names": ["a-one"]}
        yield f"{group} of others", base | {"subscribed_topic_names": ["a-one", "b-two"]}
        yield f"{group} of nobody", base | {"subscribed_topic_names": ["b-none"]}


def _streams_heartbeats(version: int, user: str) -> Bodies:
    for group in ("a-new", "b-new"):
        group_id = f"{group}-streams-{user}-{version}"
        tasks: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        base = {"member_id": "m", "process_id": "p", "client_tags": [], "rebalance_timeout_ms": 6000, **tasks}
        for number, (what, topics, changelogs) in enumerate(
            (
                ("", ["a-one"], []),
                (" of others", ["a-one", "b-two"], []),
                (" of nobody", ["b-none"], []),
                (" with a changelog", ["a-one"], [{"name": f"{group_id}-3-store-changelog"}]),
            )
        ):
            base["group_id"] = f"{group_id}-{number}"
            whole = {"subtopology_id": "0", "source_topics": topics, "state_changelog_topics": changelogs}
            yield f"{group}{what}", base | {"topology": {"epoch": 0, "subtopologies": [whole]}}


def _share_fetch(version: int, user: str) -> Bodies:
    limits = {"max_wait_ms": WAIT_MS, "min_bytes": 1, "max_bytes": 1000, "max_records": 10, "batch_size": 10}
    for group in GROUPS:
        for number, names in enumerate((NAMES[:2], NAMES[1:2])):
            topics = [{"topic_id": name, "partitions": [{"partition_index": 0}]} for name in names]
            member = {"group_id": group, "member_id": f"{user}-{version}-{number}"}
            yield f"{group} {number}", {**member, "share_session_epoch": 0, "topics": topics, **limits}


def _share_acknowledge(version: int, user: str) -> Bodies:
    accepted = [{"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}]
    parts = [{"partition_index": 0, "acknowledgement_batches": accepted}]
    for group in GROUPS:
        for number, names in enumerate((NAMES[:2], NAMES[1:2])):
            topics = [{"topic_id": name, "partitions": parts} for name in names]
            member = {"group_id": group, "member_id": f"{user}-{version}-{number}"}
            yield f"{group} {number}", {**member, "share_session_epoch": 1, "topics": topics}


def _states(**part: Any) -> Callable[[int, str], Bodies]:
    def asked(version: int, user: str) -> Bodies:
        topics = [{"topic_id": name, "partitions": [{"partition": 0, **part}]} for name in ("a-one", "b-two")]
        yield "", {"group_id": f"a-states-{user}", "topics": topics}

    return asked


def _described_offsets(version: int, user: str) -> Bodies:
    topics = [{"topic_name": name, "partitions": [0]} for name in NAMES]
    yield "", {"groups": [{"group_id": group, "topics": topics} for group in GROUPS]}
    yield "all", {"groups": [{"group_id": group, "topics": None} for group in GROUPS]}
    yield "none", {"groups": [{"group_id": "b-share", "topics": topics[1:2]}]}


def _offsets(part: dict[str, Any]) -> Callable[[int, str], Bodies]:
    def asked(version: int, user: str) -> Bodies:
        topics = [{"topic_name": name, **part} for name in NAMES]
        for group in ("a-share", "b-share", "a-nobody"):
            yield group, {"group_id": group, "topics": topics}
            yield f"{group} none", {"group_id": group, "topics": topics[1:2]}

    return asked


def _described(*groups: str) -> Callable[[int, str], Bodies]:
    def asked(version: int, user: str) -> Bodies:
        yield "", {"group_ids": list(groups), "include_authorized_operations": True}
        yield "none", {"group_ids": [groups[1]], "include_authorized_operations": True}

    return asked


SHARE_VERSIONS = {76: (1,), 77: (1,), 78: (1, 2), 79: (1, 2), 88: (0,), 89: (0,)}
SHARE_ASKED: dict[int, Callable[[int, str], Bodies]] = {
    76: _share_heartbeats,
    77: _described(*GROUPS),
    78: _share_fetch,
    79: _share_acknowledge,
    83: _states(state_epoch=1, start_offset=0),
    84: _states(leader_epoch=0),
    85: _states(state_epoch=1, leader_epoch=0, start_offset=0, state_batches=[]),
    87: _states(leader_epoch=0),
    86: _states(),
    88: _streams_heartbeats,
    89: _described("a-streams", "b-streams", "a-nobody", "b-nobody"),
    90: _described_offsets,
    91: _offsets({"partitions": [{"partition_index": 0, "start_offset": 0}]}),
    92: _offsets({}),
}


def without_hidden_ids(answer: Any) -> Any:
    """Return an answer without the ids of topics that the client may not see: Kafka tells them in AlterShareGroupOffsets alone."""
    if isinstance(answer, list):
        return [without_hidden_ids(one) for one in answer]
    if not isinstance(answer, dict):
        return answer
    is_hidden = any(part.get("error_code") == TOPIC_AUTHORIZATION_FAILED for part in answer.get("partitions", ()))
    return {name: without_hidden_ids(value) for name, value in answer.items() if not (is_hidden and name == "topic_id")}
