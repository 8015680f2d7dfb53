"""A broker with topics for share groups, and what tests do to it before and after the one request that they compare.

Share sessions end with their connections: each member has a connection of its own. Knows no case.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Self

from bench import raw
from ottla.records.batches.builder import build
from ottla.wire.api.share_fetch import ShareFetchResponse
from ottla.wire.errors import NONE, error_name
from ottla.wire.framing import FrameHeader, decode_response, encode_request
from ottla.wire.schema import Struct
from tests.support.messages import request
from tests.support.peers import GROUPS_STAY, start_peer
from tests.support.waiting import eventually

PRODUCE, METADATA, FIND, CREATE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 0, 3, 10, 19, 32, 44
HEARTBEAT, DESCRIBE, FETCH, ACKNOWLEDGE = 76, 77, 78, 79
GROUP = 32
"""The type of a group's configuration."""
KNOWN, BATCHED, EMPTY = "known", "batched", "empty"
RECORDS = 10
"""Records of the first partition of `KNOWN`, each in a batch of its own; the second has none."""
BATCHES = (3, 1, 5, 1)
"""Records of each batch of `BATCHED`."""
SETTINGS: dict[str, object] = {
    "group.initial.rebalance.delay.ms": 0,
    "group.share.assignment.interval.ms": 0,
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.min.session.timeout.ms": 1000,
    "group.share.min.heartbeat.interval.ms": 100,
    "offsets.topic.num.partitions": 3,
    "share.coordinator.state.topic.num.partitions": 3,
    "auto.create.topics.enable": "false",
    **GROUPS_STAY,
}
LEFT_OUT = frozenset({"throttle_time_ms", "error_message", "acknowledge_error_message", "current_leader", "node_endpoints"})
LEFT_OUT |= {"client_host", "client_id", "leader_epoch", "authorized_operations", "heartbeat_interval_ms"}
MOST_BYTES = 1 << 20
LONG = 200
"""Texts from here on are told by their length."""
GIVEN = re.compile(r"(lines-)?[0-9a-f]{8}-[0-9a-f-]{27}|[\w-]{22}")
"""A member id that a coordinator made."""


class Lines:
    """Connections to one broker by name; each is opened when it is first needed."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._open: dict[str, socket.socket] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_all()

    def wait_for_coordinator(self) -> None:
        """Return once the broker coordinates groups, whose topic the first request for a coordinator creates."""
        found = request(FIND, 4, key_type=0, coordinator_keys=["any"])
        eventually(lambda: self.ask("first", FIND, 4, found).coordinators[0].error_code == NONE)
        self.close("first")

    def ask(self, line: str, key: int, version: int, body: Any, patience_s: float = 30) -> Any:
        """Return the response; "waits" if there is none yet, "closes" if the connection was closed."""
        connection = self._open.get(line)
        if connection is None:
            connection = self._open[line] = raw.connect(self._address)
        connection.settimeout(patience_s)
        try:
            connection.sendall(b"".join(encode_request(FrameHeader(key, version, 1, "lines"), body)))
            return decode_response(key, version, raw.reply(connection))[1]
        except TimeoutError:
            self.close(line)
            return "waits"
        except (OSError, EOFError):
            self.close(line)
            return "closes"

    def close(self, line: str) -> None:
        """Close a connection, and with it the share sessions of its member."""
        connection = self._open.pop(line, None)
        if connection is not None:
            connection.close()

    def close_all(self) -> None:
        for line in list(self._open):
            self.close(line)


class ShareWorld:
    """Topics, groups with settings, and members at any point of their lives."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self._run, self._numbers = f"{time.time_ns():x}", count()
        self.ids: dict[str, bytes] = {}
        for name, partitions in ((KNOWN, 2), (BATCHED, 1), (EMPTY, 1)):
            self.create(name, partitions)
        for number in range(RECORDS):
            self.produce(KNOWN, [b"%d" % number])
        for size in BATCHES:
            self.produce(BATCHED, [b"v"] * size)
        eventually(lambda: self._is_coordinated(0, self.name("first")), timeout_s=60)

    def ask(self, line: str, key: int, version: int, /, **values: Any) -> Any:
        """Send a request of plain values."""
        return self.lines.ask(line, key, version, request(key, version, **values))

    def name(self, stem: str) -> str:
        """Return a name that no other case uses."""
        return f"{stem}-{self._run}-{next(self._numbers)}"

    def groups(self, number: int, **configs: object) -> list[str]:
        """Return the ids of groups that have these settings, by Kafka's names with underscores, once all of them have."""
        names = [self.name("g") for _ in range(number)]
        told = {"share_auto_offset_reset": "earliest", "share_record_lock_duration_ms": 60_000, **configs}
        wanted = [{"name": key.replace("_", "."), "value": str(value), "config_operation": 0} for key, value in told.items()]
        resources = [{"resource_type": GROUP, "resource_name": name, "configs": wanted} for name in names]
        altered = self.ask("admin", ALTER_CONFIGS, 1, resources=resources)
        assert {each.error_code for each in altered.responses} == {NONE}, altered.responses[0]
        asked = {"resource_type": GROUP, "resource_name": names[-1], "configuration_keys": ["share.record.lock.duration.ms"]}
        value = str(told["share_record_lock_duration_ms"])
        eventually(lambda: self.ask("admin", DESCRIBE_CONFIGS, 4, resources=[asked]).results[0].configs[0].value == value)
        return names

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic, and wait until it is led."""
        wanted = {"name": topic, "num_partitions": partitions, "replication_factor": 1}
        made = self.ask("admin", CREATE, 7, topics=[wanted], timeout_ms=10_000).topics[0]
        assert made.error_code == NONE, made
        self.ids[topic] = bytes(made.topic_id)
        eventually(partial(self._is_led, topic, partitions))

    def _is_led(self, topic: str, partitions: int) -> bool:
        [found] = self.ask("admin", METADATA, 12, topics=[{"name": topic}]).topics
        return not found.error_code and [each.leader_id >= 0 for each in found.partitions] == [True] * partitions

    def _is_coordinated(self, kind: int, key: str) -> bool:
        found = self.ask("admin", FIND, 4, key_type=kind, coordinator_keys=[key]).coordinators[0]
        beaten = self.ask("admin", HEARTBEAT, 1, group_id=key, member_id="nobody", member_epoch=7)
        return not found.error_code and error_name(beaten.error_code) == "GROUP_ID_NOT_FOUND"

    def produce(self, topic: str, values: list[bytes], *, partition: int = 0) -> None:
        """Write one batch."""
        records = bytes(build(None, values, 1_700_000_000_000))
        data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
        made = self.ask("admin", PRODUCE, 9, acks=-1, timeout_ms=10_000, topic_data=data)
        assert made.responses[0].partition_responses[0].error_code == NONE, made

    def join(self, group: str, member: str, topics: Sequence[str] = (KNOWN,), *, partitions: int = 2) -> int:
        """Join a share group, and wait until the member is assigned so many partitions; the member's epoch."""
        epoch, wanted = 0, list(topics)

        def is_assigned() -> bool:
            nonlocal epoch
            beaten = self.beat(group, member, epoch, None if epoch else wanted)
            assert beaten.error_code == NONE, beaten
            epoch = beaten.member_epoch
            given = beaten.assignment
            return given is not None and sum(len(each.partitions) for each in given.topic_partitions) == partitions

        eventually(is_assigned)
        return epoch

    def beat(self, group: Any, member: Any, epoch: int, topics: Any = None, **more: Any) -> Any:
        """Send a member's heartbeat."""
        values = {"group_id": group, "member_id": member, "member_epoch": epoch, "subscribed_topic_names": topics}
        return self.ask("admin", HEARTBEAT, 1, **values, **more)

    def fetch(self, line: str, group: Any, member: Any, epoch: int, topics: Any, **more: Any) -> Any:
        """Send a ShareFetch on a connection of the member's own; `topics`: [(topic, partition, acknowledgement batches)]."""
        usual = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": MOST_BYTES, "max_records": 100, "batch_size": 100}
        values = {"group_id": group, "member_id": member, "share_session_epoch": epoch, "topics": self.places(topics)}
        return self.ask(line, FETCH, 2, **values, **{**usual, **more})

    def acknowledge(self, line: str, group: Any, member: Any, epoch: int, topics: Any, **more: Any) -> Any:
        """Send a ShareAcknowledge; `topics` as of `fetch`."""
        values = {"group_id": group, "member_id": member, "share_session_epoch": epoch, "topics": self.places(topics)}
        return self.ask(line, ACKNOWLEDGE, 2, **values, **more)

    def places(self, topics: Any) -> list[dict[str, Any]]:
        """Return the topics of a request: each partition is listed as it is given, also where that is twice."""
        return [
            {"topic_id": self.id_of(topic), "partitions": [{"partition_index": index, "acknowledgement_batches": batches}]}
            for topic, index, batches in topics
        ]

    def id_of(self, topic: Any) -> bytes:
        """Return the id of a topic; one that nobody has of an unknown topic, zero of none."""
        return self.ids.get(topic, b"unknown-topic-id") if topic else bytes(16)

    def acquire(self, line: str, group: str, member: str, topic: str = KNOWN, **more: Any) -> int:
        """Open a session, and fetch until records are acquired; the session's next epoch."""
        epochs = count()

        def is_acquired() -> bool:
            epoch = next(epochs)
            told = self.fetch(line, group, member, epoch, [(topic, 0, [])] if not epoch else [], **{"max_wait_ms": 500, **more})
            assert told.error_code == NONE, told
            return any(part.acquired_records for each in told.responses for part in each.partitions)

        eventually(is_acquired)
        return next(epochs)

    def acquired(self, line: str, group: str, epoch: int, topic: str = KNOWN) -> list[list[int]]:
        """Return what another member acquires now: first and last offsets, and delivery counts."""
        told = self.fetch(line, group, "probe", epoch, [(topic, 0, [])], max_wait_ms=0)
        assert told.error_code == NONE, told
        parts = [part for each in told.responses for part in each.partitions]
        return [[a.first_offset, a.last_offset, a.delivery_count] for part in parts for a in part.acquired_records]

    def told(self, message: Any, version: int = -1, **names: str) -> Any:
        """Return of an answer what does not depend on the peer: without texts, and with `names` in place of values."""
        if isinstance(message, str):
            return message
        shown = {value: key for key, value in names.items()}
        return _reduced(message, type(message).WIRE.valid[-1] if version < 0 else version, self.ids, shown)


def _reduced(found: Any, version: int, ids: dict[str, bytes], names: dict[str, str]) -> Any:
    if isinstance(found, list):
        parts = [_reduced(one, version, ids, names) for one in found if not _says_nothing(one)]
        return sorted(parts, key=_place)
    if isinstance(found, str):
        shown = names.get(found, "given" if GIVEN.fullmatch(found) else found)
        return shown if len(shown) < LONG else f"{len(shown)} characters"
    if isinstance(found, bytes | bytearray | memoryview):
        return len(found)
    if not isinstance(found, Struct):
        return found
    told: dict[str, Any] = {}
    for field in found.WIRE.fields:
        if version in field.present and field.name not in LEFT_OUT:
            value = _shown(field.name, getattr(found, field.name), ids)
            told[field.name] = _reduced(value, version, ids, names)
    return {name: value for name, value in told.items() if value not in EMPTIES}


def _shown(name: str, value: Any, ids: dict[str, bytes]) -> Any:
    """Return a value, or in place of those that differ from peer to peer a word for them."""
    if name.endswith("error_code"):
        return error_name(value) if value else 0
    if name == "topic_id":
        return next((topic for topic, one in ids.items() if one == value), "?" if any(value) else None)
    return bool(value) if name == "records" else value


def _says_nothing(part: Any) -> bool:
    """Return whether a fetch lists a partition without anything, or a topic with such: that is a question of time."""
    if isinstance(part, ShareFetchResponse.ShareFetchableTopicResponse):
        return all(map(_says_nothing, part.partitions))
    if not isinstance(part, ShareFetchResponse.PartitionData) or not part.partition_index:
        return False
    return not (part.error_code or part.acknowledge_error_code or part.records or part.acquired_records)


def _place(found: Any) -> Any:
    """Return by what a list is sorted: brokers list partitions and names in any order."""
    if isinstance(found, dict):
        return found.get("partition_index", found.get("partition", 0))
    return found if isinstance(found, str) else 0


EMPTIES: tuple[object, ...] = (None, [], 0, "", {})


@contextmanager
def share_world(peer_name: str, home: Path, settings: Mapping[str, object] | None = None) -> Iterator[ShareWorld]:
    """Start a broker of this kind with its topics, and with `settings` besides those of all."""
    with start_peer(peer_name, home, {**SETTINGS, **(settings or {})}) as broker, Lines(broker.address) as lines:
        yield ShareWorld(lines)
