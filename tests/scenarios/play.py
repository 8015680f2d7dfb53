"""Plays: text files in which clients speak to a coordinator, and below each line stands what came of it.

    ada joins g v9 instance=i1 protocols=range,sticky topics=orders session=10s rebalance=60s
    ada syncs g ada=A bea=B           (or, as consumers do: ada=@orders-0,orders-1)
    ada beats g
    ada leaves g
    ada commits g orders-0=5 orders-1=7/metadata
    ada fetches g orders-0            (all without partitions)
    op describes g / op lists / op deletes g / op forgets g orders-0 / op removes g i1
    topic orders is deleted
    wait 3s
    restart                           (or, with another setting: restart group_max_size 1)
    set group_max_size 2              (before anything else)

Members of the consumer protocol enter, live, pause and go: see `consumer_words`.

A client remembers its member id, generation and instance id as a real one does; `as=`, `generation=` and `instance=` say otherwise,
and `v5` speaks that version. Indented lines are what came out: `stores` what is kept, `+` what is not, `@` timers, `<-` replies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from ottla.coord.classic.events import ClassicMember
from ottla.coord.consumer.events import TopicsSeen
from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.outcome import ExpiryKey, GroupOutcome, TopicsChanged, TopicsDeleted
from ottla.coord.records import GroupForgotten, GroupStored, OffsetCommitted, OffsetForgotten, Stored
from ottla.coord.settings import GroupSettings
from ottla.coord.share.records import ShareStored
from ottla.coord.streams.records import StreamsStored
from ottla.wire import encode
from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.describe_groups import DescribeGroupsRequest
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.api.leave_group import LeaveGroupRequest
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_delete import OffsetDeleteRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.data import decode_from_member, encode_value
from ottla.wire.data.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.wire.errors import MEMBER_ID_REQUIRED, NONE, error_name
from tests.scenarios import consumer_words, share_words, streams_words
from tests.scenarios.stage import WALL_MS, Stage
from tests.support.coordinator_records import is_stored

UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
NEWEST = {"joins": 9, "syncs": 5, "beats": 4, "leaves": 5, "commits": 9, "fetches": 9, "describes": 6, "removes": 5}
NEWEST |= dict.fromkeys(("enters", "lives", "goes", "pauses", "looks"), 1)
INDENT = "    "
OPTION = r"(as|generation|instance|protocols|topics|session|rebalance|type|retention|pattern|assignor|rack|owns|epoch)="


@dataclass
class Client:
    """What a client knows of itself in one group."""

    member_id: str = ""
    generation: int = -1
    instance: str | None = None
    protocol: tuple[str | None, str | None] = (None, None)


@dataclass
class Line:
    """One input, taken apart."""

    who: str
    verb: str
    group: str
    words: list[str]
    version: int
    options: dict[str, str]

    def ms(self, name: str, default: str) -> int:
        return duration_ms(self.options.get(name, default))


def duration_ms(text: str) -> int:
    match = re.fullmatch(r"(\d+)(ms|s|m|h|d)", text)
    assert match, f"{text!r} is no duration: write 250ms, 10s, 5m, 2h or 7d"
    return int(match[1]) * UNITS_MS[match[2]]


def duration(ms: int) -> str:
    for unit in ("d", "h", "m", "s"):
        if ms and ms % UNITS_MS[unit] == 0:
            return f"{ms // UNITS_MS[unit]}{unit}"
    return f"{ms}ms"


def parse(text: str) -> Line:
    who, verb, *words = text.split()
    options = dict(word.split("=", 1) for word in words if re.match(OPTION, word))
    plain = [word for word in words if word.split("=", 1)[0] not in options]
    version = next((int(word[1:]) for word in plain if re.fullmatch(r"v\d+", word)), NEWEST.get(verb, 0))
    plain = [word for word in plain if not re.fullmatch(r"v\d+", word)]
    group = plain.pop(0) if plain else ""
    return Line(who, verb, group, plain, version, options)


class Play:
    """Performs a play line by line; `script` is the text with its outcomes as they are."""

    def __init__(self) -> None:
        self.stage = Stage(GroupSettings(), self._came_out, self._due)
        self.clients: dict[tuple[str, str], Client] = {}
        self.names: dict[int, tuple[str, str]] = {}
        self.topics = KnownTopics()
        self._out: list[str] = []
        self._asking: tuple[str, str] = ("", "")

    def perform(self, text: str) -> str:
        script: list[str] = []
        for line in text.splitlines():
            if line.startswith(INDENT):
                continue
            self._out = []
            if line.strip() and not line.startswith("#"):
                self._act(line)
            script += [line, *(INDENT + out for out in self._out)]
        return "\n".join(script) + "\n"

    def _act(self, text: str) -> None:
        words = text.split()
        if words[0] == "set":
            self.stage = Stage(self._settings(words[1:]), self._came_out, self._due)
        elif words[0] == "wait":
            self.stage.wait(duration_ms(words[1]))
        elif words[0] == "restart":
            self.stage.settings = self._settings(words[1:])
            self.stage.restart()
        elif words[0] == "topic":
            self._change_topic(words[1], words[2:])
        else:
            self._speak(parse(text))

    def _settings(self, words: list[str]) -> GroupSettings:
        """The settings as they are, but for the one named."""
        if not words:
            return self.stage.settings
        kind = type(getattr(self.stage.settings, words[0]))
        return replace(self.stage.settings, **{words[0]: kind(words[1])})

    def _change_topic(self, name: str, words: list[str]) -> None:
        names = frozenset((name,))
        if words[0] == "is":
            self.stage.tell(TopicsDeleted(names))
            self.topics = self.topics.with_changes((), names)
            self.stage.tell(TopicsChanged(self.topics, names, False))
        else:
            new = self.topics.topic(name) is None
            self.topics = self.topics.with_changes([consumer_words.topic(name, int(words[1]))])
            self.stage.tell(TopicsChanged(self.topics, names, new))

    def _speak(self, line: Line) -> None:
        client = self.clients.setdefault((line.who, line.group), Client())
        if "instance" in line.options:
            client.instance = line.options["instance"]
        body = getattr(self, f"_{line.verb}")(line, client)
        self._asking = (line.who, line.group)
        self.stage.ask(body, line.version, line.who)

    def _identity(self, line: Line, client: Client) -> dict[str, Any]:
        return {
            "group_id": line.group,
            "member_id": line.options.get("as", client.member_id),
            "group_instance_id": client.instance,
        }

    def _generation(self, line: Line, client: Client) -> int:
        return int(line.options.get("generation", client.generation))

    def _joins(self, line: Line, client: Client) -> JoinGroupRequest:
        topics = line.options.get("topics", "orders").split(",")
        protocols = [
            JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=subscription(topics))
            for name in line.options.get("protocols", "range").split(",")
            if name
        ]
        return JoinGroupRequest(
            **self._identity(line, client),
            session_timeout_ms=line.ms("session", "10s"),
            rebalance_timeout_ms=line.ms("rebalance", "60s"),
            protocol_type=line.options.get("type", "consumer"),
            protocols=protocols,
        )

    def _syncs(self, line: Line, client: Client) -> SyncGroupRequest:
        assignments = []
        for word in line.words:
            name, _, assigned = word.partition("=")
            known = self.clients.get((name, line.group))
            assignment = SyncGroupRequest.SyncGroupRequestAssignment(
                member_id=known.member_id if known else name, assignment=assignment_bytes(assigned)
            )
            assignments.append(assignment)
        return SyncGroupRequest(
            **self._identity(line, client),
            generation_id=self._generation(line, client),
            protocol_type=line.options.get("type", client.protocol[0]),
            protocol_name=line.options.get("protocols", client.protocol[1]),
            assignments=assignments,
        )

    def _beats(self, line: Line, client: Client) -> HeartbeatRequest:
        return HeartbeatRequest(**self._identity(line, client), generation_id=self._generation(line, client))

    def _leaves(self, line: Line, client: Client) -> LeaveGroupRequest:
        member_id = line.options.get("as", client.member_id)
        if line.version < 3:
            return LeaveGroupRequest(group_id=line.group, member_id=member_id)
        identity = LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=client.instance)
        return LeaveGroupRequest(group_id=line.group, members=[identity])

    def _removes(self, line: Line, client: Client) -> LeaveGroupRequest:
        members = [LeaveGroupRequest.MemberIdentity(group_instance_id=instance) for instance in line.words]
        return LeaveGroupRequest(group_id=line.group, members=members)

    def _commits(self, line: Line, client: Client) -> OffsetCommitRequest:
        topics: dict[str, list[OffsetCommitRequest.OffsetCommitRequestPartition]] = {}
        for word in line.words:
            where, _, reached = word.partition("=")
            topic, _, index = where.rpartition("-")
            offset, _, metadata = reached.partition("/")
            part = OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=int(index), committed_offset=int(offset), committed_metadata=metadata or None
            )
            topics.setdefault(topic, []).append(part)
        return OffsetCommitRequest(
            **self._identity(line, client),
            generation_id_or_member_epoch=self._generation(line, client),
            retention_time_ms=line.ms("retention", "0ms") or -1,
            topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()],
        )

    def _fetches(self, line: Line, client: Client) -> OffsetFetchRequest.OffsetFetchRequestGroup:
        wanted = OffsetFetchRequest.OffsetFetchRequestTopics
        topics = [wanted(name=name, partition_indexes=indexes) for name, indexes in partitions(line.words)] or None
        return OffsetFetchRequest.OffsetFetchRequestGroup(group_id=line.group, topics=topics)

    def _forgets(self, line: Line, client: Client) -> OffsetDeleteRequest:
        part = OffsetDeleteRequest.OffsetDeleteRequestPartition
        topics = [
            OffsetDeleteRequest.OffsetDeleteRequestTopic(name=name, partitions=[part(partition_index=i) for i in indexes])
            for name, indexes in partitions(line.words)
        ]
        return OffsetDeleteRequest(group_id=line.group, topics=topics)

    def _describes(self, line: Line, client: Client) -> DescribeGroupsRequest:
        return DescribeGroupsRequest(groups=[line.group])

    def _lists(self, line: Line, client: Client) -> ListGroupsRequest:
        return ListGroupsRequest(states_filter=[line.group] if line.group else [])

    def _deletes(self, line: Line, client: Client) -> DeleteGroupsRequest:
        return DeleteGroupsRequest(groups_names=[line.group])

    def _heartbeats(self, line: Line, client: Client) -> ConsumerGroupHeartbeatRequest:
        """Members choose their id: it is their name. In version 0 they were given one."""
        if not client.member_id and line.version:
            client.member_id = line.who
        epoch = int(line.options.get("epoch", consumer_words.EPOCHS.get(line.verb, client.generation)))
        options = line.options
        if line.verb == "enters":
            options = {"owns": "", "rebalance": "30s", **options}
        timeout_ms = duration_ms(options["rebalance"]) if "rebalance" in options else -1
        body = consumer_words.heartbeat(options, line.group, self._identity(line, client), epoch, timeout_ms)
        assert isinstance(body, ConsumerGroupHeartbeatRequest)
        return body

    _enters = _lives = _goes = _pauses = _heartbeats

    def _looks(self, line: Line, client: Client) -> ConsumerGroupDescribeRequest:
        return ConsumerGroupDescribeRequest(group_ids=[line.group])

    def _due(self, key: Hashable) -> None:
        self._out.append(f"after {duration(self.stage.now_ms)}: {shown_key(key)} is over")

    def _came_out(self, outcome: GroupOutcome) -> None:
        for token in self.stage.waiting:
            self.names.setdefault(token, self._asking)
        for record in outcome.records:
            self._out.append(f"stores {shown_stored(record)}" if is_stored(record) else f"+ {shown_event(record)}")
        for timer in outcome.timers:
            when = "off" if timer.deadline_ms is None else f"in {duration(timer.deadline_ms - self.stage.now_ms)}"
            self._out.append(f"@ {shown_key(timer.key)} {when}")
        for reply in outcome.replies:
            who, group = self.names[reply.token]
            self._out.append(f"{who} <- {shown_reply(reply.message)}")
            self._learn(self.clients[who, group], reply.message)

    def _learn(self, client: Client, message: Any) -> None:
        if isinstance(message, JoinGroupResponse) and message.error_code in (NONE, MEMBER_ID_REQUIRED):
            client.member_id, client.generation = message.member_id, message.generation_id
            client.protocol = (message.protocol_type, message.protocol_name)
        if isinstance(message, ConsumerGroupHeartbeatResponse) and not message.error_code:
            client.member_id, client.generation = message.member_id or "", message.member_epoch


def subscription(topics: list[str]) -> bytes:
    return b"\0\1" + encode(ConsumerProtocolSubscription(topics=topics), 1)


def partitions(words: list[str]) -> list[tuple[str, list[int]]]:
    found: dict[str, list[int]] = {}
    for word in words:
        topic, _, index = word.rpartition("-")
        found.setdefault(topic, []).append(int(index))
    return list(found.items())


def shown_key(key: Hashable) -> str:
    if isinstance(key, ExpiryKey):
        return "look for what expired"
    kind = type(key).__name__.removesuffix("Key").lower()
    return f"{kind} of {getattr(key, 'member_id', None) or getattr(key, 'group_id', 'all')}"


def shown_event(event: Any) -> str:
    if isinstance(event, TopicsSeen):
        return f"TopicsSeen {', '.join(sorted(event.names))}" + (", some of them new" if event.new else "")
    shown = []
    for name, value in zip(event._fields, event, strict=True):
        if isinstance(value, ClassicMember):
            shown.append(value.member_id)
        elif name not in ("group_id", "token", "wall_ms", "protocols", "protocol_type"):
            shown.append(", ".join(map(str, value)) if isinstance(value, tuple) else str(value))
    return " ".join([type(event).__name__, *shown])


def shown_stored(record: Stored) -> str:
    if isinstance(record, OffsetCommitted):
        metadata = f"/{record.metadata}" if record.metadata else ""
        expiry = "" if record.expire_timestamp_ms < 0 else f" until {duration(record.expire_timestamp_ms - WALL_MS)}"
        return f"offset {record.group_id} {record.topic}-{record.partition}={record.offset}{metadata}{expiry}"
    if isinstance(record, OffsetForgotten):
        return f"no offset {record.group_id} {record.topic}-{record.partition}"
    if isinstance(record, GroupForgotten):
        return f"no group {record.group_id}"
    if isinstance(record, GroupStored):
        return shown_group(record)
    if isinstance(record, ShareStored):
        return share_words.shown_stored(record)
    if isinstance(record, StreamsStored):
        return streams_words.shown_stored(record)
    return consumer_words.shown_stored(record)


def shown_group(record: GroupStored) -> str:
    members = ", ".join(f"{m.member_id}={shown_assignment(m.assignment)}" for m in record.members) or "nobody"
    return f"group {record.group_id}: generation {record.generation}, {record.protocol}, leader {record.leader}: {members}"


def shown_reply(message: Any) -> str:
    error_code = getattr(message, "error_code", NONE)
    kind = type(message).__name__.removesuffix("Response")
    if error_code:
        return f"{kind} {error_name(error_code)}" + (f" for {message.member_id}" if error_code == MEMBER_ID_REQUIRED else "")
    return f"{kind} {REPLIES.get(type(message), shown_fields)(message)}".rstrip()


def shown_join(message: JoinGroupResponse) -> str:
    members = ", ".join(member.member_id for member in message.members)
    told = f"generation {message.generation_id}, {message.protocol_name}, {message.member_id}, leader {message.leader}"
    return told + (f", members {members}" if members else "") + (", skip assignment" if message.skip_assignment else "")


def shown_sync(message: SyncGroupResponse) -> str:
    return shown_assignment(message.assignment) or "nothing"


def assignment_bytes(text: str) -> bytes:
    """What stands for an assignment; with "@" the partitions themselves, as consumers hand them to one another."""
    if not text.startswith("@"):
        return text.encode()
    held = ConsumerProtocolAssignment.TopicPartition
    assigned = [held(topic=name, partitions=indexes) for name, indexes in partitions(text[1:].split(","))]
    return encode_value(ConsumerProtocolAssignment(assigned_partitions=assigned), 1)


def shown_assignment(assignment: bytes) -> str:
    """The text that a play assigned, or the partitions that a coordinator did."""
    if not assignment.startswith(b"\0"):
        return bytes(assignment).decode()
    _, held = decode_from_member(ConsumerProtocolAssignment, assignment)
    return " ".join(f"{each.topic}-{index}" for each in held.assigned_partitions for index in each.partitions) or "nothing"


def shown_fields(message: Any) -> str:
    """All that a message says, without what is left at its default."""
    if isinstance(message, list):
        return ", ".join(f"({shown_fields(each)})" if is_dataclass(each) else str(each) for each in message)
    shown = []
    for each in fields(message):
        if each.name == "unknown_tags":
            continue
        value = getattr(message, each.name)
        if each.name == "error_code":
            shown += [error_name(value)] if value else []
        elif isinstance(value, list):
            shown += [shown_fields(value)] if value else []
        elif isinstance(value, bytes):
            shown += [f"{each.name} {value.decode()}"] if value and each.name == "member_assignment" else []
        elif value not in ("", None, 0, -1, -(1 << 31)) or each.name in ("partition_index", "committed_offset"):
            shown.append(f"{value}" if each.name in ("group_id", "member_id", "name") else f"{each.name} {value}")
    return ", ".join(shown)


REPLIES: dict[type, Callable[[Any], str]] = {
    JoinGroupResponse: shown_join,
    SyncGroupResponse: shown_sync,
    ConsumerGroupHeartbeatResponse: consumer_words.shown_heartbeat,
    ConsumerGroupDescribeResponse: consumer_words.shown_described,
}
