"""The coordinators of groups, one for each partition of `__consumer_offsets`: found, fed, and kept to what is durable.

Composes `ottla.coord` with the broker's logs and timers; knows no rule about groups. What a coordinator decides is appended,
then applied; its replies leave once all that it rests on is on stable storage.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from ottla.broker.coordination.group_topics import GroupTopics
from ottla.broker.coordination.replay import stored_records
from ottla.broker.partitions.partition import Partition
from ottla.broker.serving.later import Promise, Reply
from ottla.broker.serving.request import Request
from ottla.broker.settings.group import in_force
from ottla.coord.consumer.assign import Assignor
from ottla.coord.consumer.events import TopicsSeen
from ottla.coord.consumer.groups import BUILT_IN
from ottla.coord.group_machine import GroupMachine
from ottla.coord.outcome import Asked, Due, Outcome, Timer, TimerKey, TopicsDeleted, TopicsKey
from ottla.coord.outcome import Reply as Told
from ottla.coord.partitioning import partition_of
from ottla.coord.records import Stored, encode_record
from ottla.coord.refusal import refused
from ottla.coord.settings import MINUTE_MS, GroupSettings
from ottla.ports import Now, StorageFailed
from ottla.records.batch import read_header
from ottla.records.build import build
from ottla.wire import Unencodable
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.errors import KAFKA_STORAGE_ERROR, NONE, NOT_COORDINATOR, UNKNOWN_SERVER_ERROR
from ottla.wire.schema import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger("ottla.broker")

OFFSETS_TOPIC = "__consumer_offsets"
RETRY_MS = 1_000
"""How soon a deadline comes back whose consequences could not be stored."""
MOST_COMMITS = 500
"""How many commits are appended as one batch."""

Combine = Callable[[list[Any]], Any]


class Owed:
    """A reply that a coordinator owes, which may be a part of `whole`: `message` is None until it may leave."""

    __slots__ = ("body", "message", "whole")

    def __init__(self, body: Any) -> None:
        self.body = body
        self.message: Any = None
        self.whole: Promise | None = None

    def hand_in(self, message: Any) -> None:
        self.message = message
        whole, self.whole = self.whole, None  # or the two would hold each other until the garbage collector comes
        if whole is not None:
            whole.happened()


class Shard:
    """One coordinator, the partition that keeps it, the replies it owes by token, and commits that are yet to be appended."""

    __slots__ = ("commits", "machine", "owed", "partition")

    def __init__(self, partition: Partition, machine: GroupMachine) -> None:
        self.partition = partition
        self.machine = machine
        self.owed: dict[int, Owed] = {}
        self.commits: list[Outcome] = []


class Coordination:
    """All coordinators of this broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._shards: dict[int, Shard] = {}
        self._committing: dict[Shard, None] = {}
        self._tokens = count()
        self._topics = GroupTopics(broker)
        self._refusal: str | None = None
        self._forgetting: dict[int, set[str]] = {}

    @property
    def coordinators(self) -> list[GroupMachine]:
        """The machines of the partitions that are loaded, to be looked at only."""
        return [shard.machine for shard in self._shards.values()]

    def load(self, now: Now) -> None:
        """Replay every partition of `__consumer_offsets`, if it exists, and go on with what a deletion of topics left undone."""
        for index in range(self._count()):
            self._shard(index, now)
        deletions = self._broker.topics.deletions
        self.topics_deleted(deletions.names, now)
        deletions.settle()

    def ensure(self, now: Now) -> int:
        """Make `__consumer_offsets` if it is not there; the answer is an error code."""
        if self._count():
            return NONE
        (outcome,) = self._broker.topics.create_by_default([OFFSETS_TOPIC], now)
        if outcome.message is not None and outcome.message != self._refusal:  # every group asks again and again
            log.error("%s cannot be made, and no group is served before it is: %s", OFFSETS_TOPIC, outcome.message)
        self._refusal = outcome.message
        return outcome.error_code

    def ask(self, group_id: str, body: Any, request: Request[Message]) -> Owed:
        """Have the group's coordinator decide a request, or the part of one that concerns it."""
        partitions = self._count()
        shard = self._shard(partition_of(group_id, partitions), request.now) if partitions else None
        return self._ask(shard, body, request)

    def ask_all(self, body: Any, request: Request[Message]) -> list[Owed]:
        """Have every coordinator decide a request."""
        return [self._ask(shard, body, request) for shard in self._all(request.now)]

    def topics_deleted(self, names: Iterable[str], now: Now) -> None:
        """Forget what was committed for topics that are no more, and all groups if their own topic is one of them."""
        gone = frozenset(names)
        if OFFSETS_TOPIC in gone:
            self._forgetting.clear()
            for shard in list(self._shards.values()):
                self._abandon(shard)
        if not gone:
            return
        for index in range(self._count()):
            self._forgetting.setdefault(index, set()).update(gone)
        self._tell_topics(now)
        for shard in self._all(now):
            self._forget_topics(shard, Asked(TopicsDeleted(gone)), now)

    def is_forgetting(self, topic: str) -> bool:
        """Whether a coordinator may still keep offsets of a topic that was deleted."""
        return any(topic in names for names in self._forgetting.values())

    def topics_changed(self, names: Iterable[str]) -> None:
        """These topics came, changed or went; coordinators are told when they are next asked something."""
        self._topics.note(names)

    def reply(self, owed: list[Owed], combine: Combine, *, blocking: bool = False) -> Reply:
        """What a handler answers: all that is owed, combined into one message, once all of it may leave."""
        promise = Promise(lambda: combine([each.message for each in owed]), blocking=blocking)
        for each in owed:
            if each.message is None:
                promise.expect()
                each.whole = promise
        return promise.reply()

    def settle(self, now: Now) -> None:
        """Append the commits that a bundle of requests brought: one batch for each coordinator, and one sync."""
        while self._committing:
            self._carry_out_gathered(next(iter(self._committing)), now)

    def _count(self) -> int:
        topic = self._broker.topics.get(OFFSETS_TOPIC)
        return 0 if topic is None else len(topic.partitions)

    def _all(self, now: Now) -> Iterator[Shard]:
        for index in range(self._count()):
            shard = self._shard(index, now)
            if shard is not None:
                yield shard

    def _shard(self, index: int, now: Now) -> Shard | None:
        """The coordinator of a partition, replayed if it is new; None if its partition can't be used."""
        partition = self._broker.partitions.get(OFFSETS_TOPIC, index)
        shard = self._shards.get(index)
        if shard is not None and shard.partition is not partition:
            self._abandon(shard)
            shard = None
        if partition is None or partition.offline is not None:
            return None
        return shard or self._load(partition, now)

    def _load(self, partition: Partition, now: Now) -> Shard | None:
        machine = GroupMachine(self._group_settings(), self._new_id, self._assignors(), self._of_group)
        machine.apply(TopicsSeen(self._topics.known(), frozenset(), new=False))
        try:
            for record in stored_records(partition):
                machine.apply(record)
        except StorageFailed as failure:
            log.error("%s can't be read, so its groups have no coordinator: %s", partition, failure)
            return None
        if machine.groups:
            log.info("%s: %d groups, %d committed offsets", partition, len(machine.groups), len(machine.offsets))
        shard = self._shards[partition.index] = Shard(partition, machine)
        self._carry_out(shard, [machine.recall(now)], now)
        if partition.index in self._forgetting:
            self._forget_topics(shard, Asked(TopicsDeleted(frozenset(self._forgetting[partition.index]))), now)
        return shard

    def _abandon(self, shard: Shard) -> None:
        """Throw a coordinator away; whoever waits for it is told to look for another."""
        if self._shards.get(shard.partition.index) is shard:
            del self._shards[shard.partition.index]
        shard.commits.clear()
        self._committing.pop(shard, None)
        for token, owed in list(shard.owed.items()):
            self._deliver(shard, Told(token, refused(owed.body, NOT_COORDINATOR)))

    def _group_settings(self) -> GroupSettings:
        settings = self._broker.settings
        return GroupSettings(
            group_min_session_timeout_ms=settings.group_min_session_timeout_ms,
            group_max_session_timeout_ms=settings.group_max_session_timeout_ms,
            group_initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
            group_max_size=settings.group_max_size,
            group_consumer_session_timeout_ms=settings.group_consumer_session_timeout_ms,
            group_consumer_heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
            group_consumer_assignment_interval_ms=settings.group_consumer_assignment_interval_ms,
            group_consumer_regex_refresh_interval_ms=settings.group_consumer_regex_refresh_interval_ms,
            group_consumer_max_size=settings.group_consumer_max_size,
            group_consumer_migration_policy=settings.group_consumer_migration_policy,
            offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
            offsets_retention_ms=settings.offsets_retention_minutes * MINUTE_MS,
            offsets_retention_check_interval_ms=settings.offsets_retention_check_interval_ms,
        )

    def settings_changed(self) -> None:
        """The broker has other settings than before: those of groups hold from the next decision on."""
        for shard in self._shards.values():
            shard.machine.configure(self._group_settings())

    def _of_group(self, group_id: str) -> Mapping[str, int]:
        """What was set for one group alone."""
        texts = self._broker.topics.image.group_configs.get(group_id)
        return in_force(self._broker.settings, texts) if texts else {}

    def _assignors(self) -> tuple[Assignor, ...]:
        if self._broker.assignors is not None:
            return self._broker.assignors
        by_name = {assignor.name: assignor for assignor in BUILT_IN}
        return tuple(by_name[name] for name in self._broker.settings.group_consumer_assignors)

    def _new_id(self) -> str:
        """A random UUID (version 4) as text."""
        raw = bytearray(self._broker.random_bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        text = raw.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def _ask(self, shard: Shard | None, body: Any, request: Request[Message]) -> Owed:
        owed = Owed(body)
        if shard is None:
            owed.message = refused(body, NOT_COORDINATOR)
            return owed
        token = next(self._tokens)
        asked = Asked(body, request.version, request.client_id or "", f"/{request.peer.host}", token)
        concerns_offsets_alone = self._catch_up(shard, body, request.now)
        outcome = shard.machine.decide(asked, request.now)
        shard.owed[token] = owed
        if concerns_offsets_alone:
            self._gather(shard, outcome, request.now)
            return owed
        error_code = self._carry_out(shard, [outcome], request.now, at_once=type(body) is HeartbeatRequest)
        if error_code:
            self._deliver(shard, Told(token, refused(body, error_code)))
        return owed

    def _catch_up(self, shard: Shard, body: Any, now: Now) -> bool:
        """Let all take effect that this request's decision rests on: it was owed to others, and is no change of this request's.

        True if commits that were gathered may wait on, for it is one as well.
        """
        changes = self._broker.changes
        made, changes.made = changes.made, True
        self._tell_topics(now)
        concerns_offsets_alone = shard.machine.concerns_offsets_alone(body)
        if not concerns_offsets_alone:
            self._carry_out_gathered(shard, now)
        changes.made = made
        return concerns_offsets_alone

    def _decide(self, shard: Shard, asked: Asked[Any], now: Now) -> int:
        """Let a coordinator decide, once all that it was asked before has taken effect, and carry that out."""
        self._carry_out_gathered(shard, now)
        return self._carry_out(shard, [shard.machine.decide(asked, now)], now)

    def _gather(self, shard: Shard, outcome: Outcome, now: Now) -> None:
        """Leave a commit to be carried out together with those that follow it."""
        shard.commits.append(outcome)
        self._committing[shard] = None
        if len(shard.commits) >= MOST_COMMITS:
            self._carry_out_gathered(shard, now)

    def _carry_out_gathered(self, shard: Shard, now: Now) -> None:
        """Carry out all commits that were gathered, or each by itself if their batch is refused: one must not spoil the others."""
        outcomes, shard.commits = shard.commits, []
        if not outcomes:
            return
        self._committing.pop(shard, None)
        if len(outcomes) > 1 and not self._carry_out(shard, outcomes, now):
            return
        for outcome in outcomes:
            error_code = self._carry_out(shard, [outcome], now)
            if error_code:
                self._refuse(shard, outcome, error_code)

    def _refuse(self, shard: Shard, outcome: Outcome, error_code: int) -> None:
        """Tell those whom an outcome would have answered that it came to nothing."""
        for token, _ in outcome.replies:
            owed = shard.owed.get(token)
            if owed is not None:
                self._deliver(shard, Told(token, refused(owed.body, error_code)))

    def _tell_topics(self, now: Now) -> None:
        """Let all coordinators know the topics as they are now."""
        changed = self._topics.changed()
        if changed is not None:
            for shard in list(self._shards.values()):
                self._decide(shard, Asked(changed), now)

    def _forget_topics(self, shard: Shard, asked: Asked[TopicsDeleted] | Asked[Due], now: Now) -> None:
        """Let a coordinator forget what was committed for deleted topics, or go on with it: until that is on stable storage."""
        if not self._is_present(shard):
            return
        self._carry_out_gathered(shard, now)
        outcome = shard.machine.decide(asked, now)
        if self._carry_out(shard, [outcome], now):

            def again(now: Now) -> None:
                self._forget_topics(shard, asked, now)

            self._broker.scheduler.at(("forgetting", shard.partition.index, asked), now.mono_ms + RETRY_MS, again)
        elif not outcome.timers:
            key = asked.body if isinstance(asked.body, TopicsDeleted) else asked.body.key
            assert isinstance(key, TopicsDeleted | TopicsKey)
            shard.partition.when_synced(shard.partition.log.log_end_offset, partial(self._topics_forgotten, shard, key.names))

    def _topics_forgotten(self, shard: Shard, names: frozenset[str], error_code: int) -> None:
        """What a failed sync leaves open, the next start goes on with."""
        left = self._forgetting.get(shard.partition.index, set())
        if error_code or not self._is_present(shard):
            return
        left -= names
        if not left:
            self._forgetting.pop(shard.partition.index, None)
        self._broker.topics.deletions.settle()

    def _is_present(self, shard: Shard) -> bool:
        """Whether it is still the coordinator of its partition, and that can be used."""
        return self._shards.get(shard.partition.index) is shard and shard.partition.offline is None

    def _carry_out(self, shard: Shard, outcomes: list[Outcome], now: Now, *, at_once: bool = False) -> int:
        """Append, apply, set timers, and let the replies leave when they may.

        If the append is refused nothing has changed, neither in the log nor in the machine, and the outcomes are dropped. A reply
        `at_once` shows nothing that could still be lost.
        """
        self._broker.changes.made = True
        stored = [record for outcome in outcomes for record in outcome.stored]
        if stored:
            error_code = _append(shard.partition, stored, now)
            if error_code:
                return error_code
        for outcome in outcomes:
            for record in outcome.records:
                shard.machine.apply(record)
            for timer in outcome.timers:
                self._set_timer(shard, timer)
        replies = [reply for outcome in outcomes for reply in outcome.replies]
        if replies and at_once:
            self._tell(shard, replies, NONE)
        elif replies:
            end = shard.partition.log.log_end_offset
            shard.partition.when_synced(end, partial(self._tell, shard, replies))
        return NONE

    def _tell(self, shard: Shard, replies: list[Told], error_code: int) -> None:
        if error_code:
            self._abandon(shard)
            return
        for told in replies:
            self._deliver(shard, told)

    def _deliver(self, shard: Shard, told: Told) -> None:
        owed = shard.owed.pop(told.token, None)
        if owed is not None:
            owed.hand_in(told.message)

    def _set_timer(self, shard: Shard, timer: Timer) -> None:
        key = ("coordinator", shard.partition.index, timer.key)
        if timer.deadline_ms is None:
            self._broker.scheduler.cancel(key)
        else:
            self._broker.scheduler.at(key, timer.deadline_ms, partial(self._due, shard, timer.key))

    def _due(self, shard: Shard, key: TimerKey, now: Now) -> None:
        if not self._is_present(shard):
            return
        self._tell_topics(now)
        if isinstance(key, TopicsKey):
            self._forget_topics(shard, Asked(Due(key)), now)
        elif self._decide(shard, Asked(Due(key)), now):
            self._set_timer(shard, Timer(key, now.mono_ms + RETRY_MS))


def _append(partition: Partition, records: list[Stored], now: Now) -> int:
    """Append records as one batch; the answer is an error code, as a group's client understands it."""
    try:
        encoded = [encode_record(record) for record in records]
    except Unencodable as unencodable:
        log.error("%s: a record was refused: %s", partition, unencodable)
        return UNKNOWN_SERVER_ERROR
    keys, values = [key for key, _ in encoded], [value for _, value in encoded]
    batch = bytearray(build(keys, values, now.wall_ms))
    appended = partition.append(batch, (read_header(batch),), now, origin_client=False)
    return NOT_COORDINATOR if appended.error_code == KAFKA_STORAGE_ERROR else appended.error_code
