"""Requests of groups with one field out of range, made from the declared messages, and the error codes that a broker answers.

Each case has a group of its own with one stable member and one committed offset; the request would be in order but for one field.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from bench import raw
from ottla.wire import Unencodable
from ottla.wire.apis import API
from ottla.wire.errors import COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NONE, NOT_COORDINATOR
from ottla.wire.framing import FrameHeader, decode_response, encode_request
from ottla.wire.schema import Field, Struct
from tests.support.messages import request

COMMIT, FETCH, JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE, LIST, DELETE, OFFSET_DELETE = 8, 9, 11, 12, 13, 14, 15, 16, 42, 47
CONSUMER_HEARTBEAT, CONSUMER_DESCRIBE = 68, 69
VERSIONS = {
    COMMIT: (2, 7, 9),
    FETCH: (1, 7, 9),
    JOIN: (0, 3, 5, 9),
    HEARTBEAT: (0, 4),
    LEAVE: (0, 5),
    SYNC: (0, 3, 5),
    DESCRIBE: (0, 6),
    LIST: (0, 5),
    DELETE: (0, 2),
    OFFSET_DELETE: (0,),
    CONSUMER_HEARTBEAT: (0, 1),
    CONSUMER_DESCRIBE: (0, 1),
}
TOPIC = "known"
SUBSCRIPTION = b"\0\0\0\0\0\1\0\x05known\0\0\0\0"
PATIENCE_S = 1.5
"""A reply that is not there by then waits for other members; no request here takes as long."""

LOADING = (COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR)
INTEGERS = {"h": 15, "i": 31, "q": 63}


class Case(NamedTuple):
    """API, version, the field (`topics.0.name`), and the number of its value among those that `values` has for its kind."""

    key: int
    version: int
    field: str
    number: int

    def __str__(self) -> str:
        return f"{API[self.key].name} {self.version} {self.field} {self.number}"


def values(f: Field) -> list[Any]:
    """What is tried in place of an ordinary value."""
    if f.array:
        return [[], None]
    if f.kind in INTEGERS:
        bits = INTEGERS[f.kind]
        return [-(1 << bits), -3, -2, -1, 0, 7, (1 << bits) - 1]
    if f.kind == "str":
        return ["", None, "nobody", "not/a name\t", "é" * 5, "x" * 5_000]
    if f.kind == "bytes":
        return [b"", b"\xff" * 10, bytes(5_000)]
    return [True, False] if f.kind == "?" else []


def ordinary(key: int, group: str, member_id: str) -> dict[str, Any]:
    """A request that the group's member could send, in the fields of all versions."""
    parts = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": "m"}]
    asked = [{"name": TOPIC, "partition_indexes": [0]}]
    known: dict[int, dict[str, Any]] = {
        COMMIT: {"generation_id_or_member_epoch": 1, "topics": [{"name": TOPIC, "partitions": parts}]},
        FETCH: {"topics": asked, "groups": [{"group_id": group, "topics": asked}]},
        JOIN: {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
        },
        HEARTBEAT: {"generation_id": 1},
        LEAVE: {"members": [{"member_id": member_id}]},
        SYNC: {"generation_id": 1, "protocol_type": "consumer", "protocol_name": "range", "assignments": []},
        DESCRIBE: {"groups": [group]},
        LIST: {"states_filter": ["Stable"], "types_filter": ["classic"]},
        DELETE: {"groups_names": [group]},
        OFFSET_DELETE: {"topics": [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]},
        CONSUMER_HEARTBEAT: {
            "member_epoch": 0,
            "rebalance_timeout_ms": 10_000,
            "subscribed_topic_names": [TOPIC],
            "topic_partitions": [],
        },
        CONSUMER_DESCRIBE: {"group_ids": [group]},
    }
    own = {field.name for field in API[key].request.WIRE.fields}
    given = {"group_id": group, "member_id": member_id} if key not in (FETCH,) else {"group_id": group}
    return {name: value for name, value in given.items() if name in own} | known[key]


def scalars(message: Struct, version: int, at: str = "") -> Iterator[tuple[str, Struct, Field]]:
    """Every field of a message that its version has, also in its structs: where it is, what holds it, and its declaration."""
    for f in message.WIRE.fields:
        if version not in f.present:
            continue
        yield f"{at}{f.name}", message, f
        held = getattr(message, f.name)
        for number, each in enumerate(held if f.array and held else ()):
            if isinstance(each, Struct):
                yield from scalars(each, version, f"{at}{f.name}.{number}.")


def cases() -> list[Case]:
    """Every case, in an order that stays."""
    return [
        case
        for key, versions in VERSIONS.items()
        for version in versions
        for name, _, f in scalars(request(key, version, **ordinary(key, "g", "m")), version)
        for case in (Case(key, version, name, number) for number in range(len(values(f))))
        if is_encodable(key, version, spoiled(case, "g", "m"))
    ]


def spoiled(case: Case, group: str, member_id: str) -> Any:
    """The request of a case."""
    body = request(case.key, case.version, **ordinary(case.key, group, member_id))
    holder, f = next((holder, f) for name, holder, f in scalars(body, case.version) if name == case.field)
    setattr(holder, f.name, values(f)[case.number])
    return body


def is_encodable(key: int, version: int, body: Any) -> bool:
    try:
        encode_request(FrameHeader(key, version, 1, "bad"), body)
    except (Unencodable, TypeError, AttributeError, struct.error):
        return False
    return True


class Questioner:
    """Asks one broker; makes a new connection when the last one was closed or still owes a reply."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._connection: socket.socket | None = None

    def ask(self, key: int, version: int, body: Any, patience_s: float = 30) -> Any:
        """The response; "waits" if there is none yet, "closes" if the connection was closed."""
        if self._connection is None:
            self._connection = raw.connect(self._address)
        self._connection.settimeout(patience_s)
        try:
            self._connection.sendall(b"".join(encode_request(FrameHeader(key, version, 1, "bad"), body)))
            return decode_response(key, version, raw.reply(self._connection))[1]
        except TimeoutError:
            self.close()
            return "waits"
        except (OSError, EOFError):
            self.close()
            return "closes"

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def member_of(self, group: str) -> str:
        """Make a group with one stable member and one committed offset; the member's id."""
        for _ in range(300):
            joined = self.ask(JOIN, 3, request(JOIN, 3, **ordinary(JOIN, group, "")))
            if joined.error_code not in LOADING:
                break
            time.sleep(0.1)
        member_id: str = joined.member_id
        sync = ordinary(SYNC, group, member_id) | {"assignments": [{"member_id": member_id, "assignment": b"all"}]}
        assert self.ask(SYNC, 3, request(SYNC, 3, **sync)).error_code == NONE
        commit = self.ask(COMMIT, 7, request(COMMIT, 7, **ordinary(COMMIT, group, member_id)))
        assert codes(commit) == [NONE], codes(commit)
        return member_id

    def state(self, group: str) -> tuple[Any, ...]:
        """What can be seen of a group: its state, protocol, members and offsets."""
        described = self.ask(DESCRIBE, 5, request(DESCRIBE, 5, groups=[group])).groups[0]
        fetched = self.ask(FETCH, 7, request(FETCH, 7, group_id=group, topics=None))
        members = tuple((member.member_id, bytes(member.member_assignment)) for member in described.members)
        offsets = tuple((t.name, p.partition_index, p.committed_offset, p.metadata) for t in fetched.topics for p in t.partitions)
        return described.group_state, described.protocol_data, members, offsets

    def answer(self, case: Case, group: str) -> tuple[Any, bool]:
        """(the error codes of the answer, or a word; whether an answer of nothing but errors left the group as it was)."""
        member_id = self.member_of(group)
        fresh = f"{group}-consumer"
        about, who = (fresh, "a-member-of-it") if case.key == CONSUMER_HEARTBEAT else (group, member_id)
        body = spoiled(case, about, who)
        before = self.state(group)
        answered = self.ask(case.key, case.version, body, PATIENCE_S)
        if isinstance(answered, str):
            return answered, answered == "waits" or self.state(group) == before
        found = codes(answered)
        return found, not found or NONE in found or self.state(group) == before


def codes(message: Struct) -> list[int]:
    """All error codes in a response, its own first; of one that has structs with their own, a leading 0 says nothing and goes."""
    own: list[int] = [message.error_code] if hasattr(message, "error_code") else []
    inner: list[int] = []
    for f in message.WIRE.fields:
        held = getattr(message, f.name)
        if f.kind == "struct" and held is not None:
            inner += [code for each in (held if f.array else [held]) for code in codes(each)]
    return inner if inner and own == [NONE] else own + inner
