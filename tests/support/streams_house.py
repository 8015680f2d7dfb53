"""A group machine with streams groups, and as much of a shard as its decisions need: records that are applied, and timers that run.

Every record is stored and read back, so that each decision also proves the formats. `restart` makes a machine of what is stored.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from ottla.coord.consumer.assign import TopicShape, finish
from ottla.coord.consumer.events import TopicsSeen
from ottla.coord.consumer.topics import KnownTopic, KnownTopics
from ottla.coord.group_machine import GroupMachine
from ottla.coord.memory import GroupMemory
from ottla.coord.outcome import GroupOutcome, TopicsChanged
from ottla.coord.records import OffsetPending, decode_record
from ottla.coord.runtime.machine import NOBODY, Due, Input
from ottla.coord.settings import GroupSettings
from ottla.coord.streams.group import StreamsGroup
from ottla.coord.streams.topology.request import StreamsHeartbeat, check
from ottla.ports import Now
from ottla.wire.api.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse

Sent = StreamsGroupHeartbeatRequest
Told = StreamsGroupHeartbeatResponse
Tasks = Mapping[str, Iterable[int]]

WALL_MS = 1_700_000_000_000


def source(name: str = "0", *topics: str, **more: Any) -> Sent.Subtopology:
    """A subtopology that reads topics; `t` if none is named."""
    return Sent.Subtopology(subtopology_id=name, source_topics=list(topics or ("t",)), **more)


def topology(*subtopologies: Sent.Subtopology, epoch: int = 0) -> Sent.Topology:
    return Sent.Topology(epoch=epoch, subtopologies=list(subtopologies or (source(),)))


def listed(tasks: Tasks) -> list[Sent.TaskIds]:
    return [Sent.TaskIds(subtopology_id=name, partitions=list(partitions)) for name, partitions in tasks.items()]


class StreamsHouse:
    """Streams groups of one coordinator. Times are in ms since the house began."""

    def __init__(self, topics: Mapping[str, int] | None = None, most_bytes: int = 100 << 20, **settings: Any) -> None:
        given = {"group_streams_initial_rebalance_delay_ms": 0, "group_streams_assignment_interval_ms": 0} | settings
        self.settings = GroupSettings(ottla_max_group_bytes=most_bytes, **given)
        self.of_group: dict[str, object] = {}
        self.version = 1
        self.ms = 0
        self.stored: dict[bytes, bytes] = {}
        self.records: list[Any] = []
        self.timers: dict[Hashable, int] = {}
        self._topics = KnownTopics(KnownTopic(*each) for each in _known({"t": 2} if topics is None else topics))
        self._token = 0
        self._begin()

    def _begin(self) -> None:
        self.machine = GroupMachine(
            self.settings, lambda: "made", of_group=lambda _: self.of_group, memory=GroupMemory(self._weight)
        )
        self.machine.apply(TopicsSeen(self._topics, frozenset(), new=False))

    def _weight(self) -> int:
        return self.machine.weight

    @property
    def now(self) -> Now:
        return Now(WALL_MS + self.ms, self.ms)

    @property
    def group(self) -> StreamsGroup:
        group = self.machine.context.find("g")
        assert isinstance(group, StreamsGroup)
        return group

    def ask(self, body: Any, version: int | None = None, client_id: str = "client", client_host: str = "/host") -> Any:
        """Pass a request to the machine. The reply is the message; with a topology's missing topics, see `missing`."""
        self._token += 1
        if isinstance(body, Sent):
            body = StreamsHeartbeat(body, None if body.topology is None else finish(check(body.topology)))
        outcome = self.machine.decide(
            Input(body, self.version if version is None else version, client_id, client_host, self._token), self.now
        )
        return self._carry_out(outcome)

    def _carry_out(self, outcome: GroupOutcome) -> Any:
        self.records = list(outcome.records)
        for record in outcome.records:
            encoded = self.machine.encode(record)
            if encoded is not None:
                key, value = encoded
                read = decode_record(key, value)
                assert isinstance(record, OffsetPending) or read == record, "what is stored is what was decided"
                if value is None:
                    self.stored.pop(key, None)
                else:
                    self.stored[key] = value
            self.machine.apply(record)
        for timer in outcome.timers:
            if timer.deadline_ms is None:
                self.timers.pop(timer.key, None)
            else:
                self.timers[timer.key] = timer.deadline_ms
        answers = [reply.message for reply in outcome.replies if reply.token != NOBODY]
        answer: Any = answers[0] if answers else None
        self.missing = getattr(answer, "missing", ())
        return getattr(answer, "response", answer)

    def wait(self, ms: int) -> None:
        """Let time pass, and what is due run in its order."""
        until_ms = self.ms + ms
        while True:
            due = [(at_ms, number, key) for number, (key, at_ms) in enumerate(self.timers.items()) if at_ms <= until_ms]
            if not due:
                break
            at_ms, _, key = min(due)
            self.ms = max(self.ms, at_ms)
            del self.timers[key]
            if getattr(key, "group_id", None) is not None:
                self._carry_out(self.machine.decide(Input(Due(key)), self.now))
        self.ms = until_ms

    def restart(self) -> None:
        """Read the stored records into a new machine."""
        self.timers.clear()
        self._begin()
        for key, value in self.stored.items():
            record = decode_record(key, value)
            assert record is not None
            self.machine.apply(record)
        self._carry_out(self.machine.recall(self.now))

    def change_topics(self, made: Mapping[str, int] | None = None, gone: Iterable[str] = ()) -> None:
        """Create or enlarge topics, or delete those that are `gone`."""
        partitions = made or {}
        names = [*gone, *partitions]
        self._topics = self._topics.with_changes([KnownTopic(*each) for each in _known(partitions)], list(gone))
        self.ask(TopicsChanged(self._topics, frozenset(names), new=True))

    def join(self, member_id: str = "ada", sent: Sent.Topology | None = None, **more: Any) -> Told:
        said: dict[str, Any] = {
            "group_id": "g",
            "member_id": member_id,
            "member_epoch": 0,
            "rebalance_timeout_ms": 60_000,
            "topology": topology() if sent is None else sent,
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            "process_id": f"process-of-{member_id}",
        }
        told: Told = self.ask(Sent(**(said | more)))
        return told

    def live(self, member_id: str = "ada", epoch: int | None = None, owns: Tasks | None = None, **more: Any) -> Told:
        """A heartbeat, with the member's epoch if none is given, and with what it owns if that is said: active tasks."""
        if epoch is None:
            epoch = self.group.members[member_id].epoch
        if owns is not None:
            more = {"active_tasks": listed(owns), "standby_tasks": [], "warmup_tasks": []} | more
        told: Told = self.ask(Sent(group_id="g", member_id=member_id, member_epoch=epoch, **more))
        return told

    def leave(self, member_id: str = "ada", epoch: int = -1, **more: Any) -> Told:
        told: Told = self.ask(Sent(group_id="g", member_id=member_id, member_epoch=epoch, **more))
        return told

    def describe(self, group_id: str = "g") -> StreamsGroupDescribeResponse.DescribedGroup:
        described: StreamsGroupDescribeResponse = self.ask(StreamsGroupDescribeRequest(group_ids=[group_id]))
        return described.groups[0]


def _known(partitions: Mapping[str, int]) -> Iterable[tuple[str, bytes, TopicShape]]:
    return ((name, name.encode().ljust(16, b"\0"), TopicShape(count)) for name, count in partitions.items())


def tasks(told: Told) -> tuple[dict[str, list[int]], dict[str, list[int]], dict[str, list[int]]]:
    """The active, standby and warm-up tasks that a member is told."""
    kinds = told.active_tasks, told.standby_tasks, told.warmup_tasks
    active, standby, warmup = ({each.subtopology_id: each.partitions for each in kind or ()} for kind in kinds)
    return active, standby, warmup


def statuses(told: Told) -> list[int]:
    return [status.status_code for status in told.status or ()]
