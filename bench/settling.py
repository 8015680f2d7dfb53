"""Members of consumer, share and streams groups that join at once, over raw sockets: `python -m bench.settling`.

One process of ours plays all members, the same on every broker. A group has settled when each member has its partition of a topic
with as many partitions as members. Members send heartbeats every half second, so that this interval is not all that is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from contextlib import ExitStack
from typing import Any, ClassVar

from bench.groups import CONSUMER_HEARTBEAT, SETTINGS, Link, find_coordinator, until_settled
from bench.loads import Figures, topic_of
from bench.report import Results, table
from bench.servers import Kafka, Ottla, Server
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from ottla.wire.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    FENCED_MEMBER_EPOCH,
    NOT_COORDINATOR,
    UNKNOWN_MEMBER_ID,
)

SHARE_HEARTBEAT, STREAMS_HEARTBEAT = 76, 88
REJOIN = (FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID)
PASSING = (COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR)
WARM_UP = 20
"""The members of the groups that are not measured."""
OF_ALL_KINDS: dict[str, object] = {
    **SETTINGS,
    "group.share.max.size": 1_000,
    "group.share.min.heartbeat.interval.ms": 500,
    "group.share.heartbeat.interval.ms": 500,
    "group.streams.min.heartbeat.interval.ms": 500,
    "group.streams.heartbeat.interval.ms": 500,
    "group.streams.initial.rebalance.delay.ms": 0,
}


class SettlingGroup:
    """Members that join one group at once; `done` when each member has a partition, and each partition a member."""

    key: ClassVar[int]
    version: ClassVar[int]

    def __init__(self, group: str, topic: str, size: int) -> None:
        self.group, self.topic, self.size = group, topic, size
        self.owned: dict[int, frozenset[int]] = {}
        self.done = asyncio.Event()

    async def member(self, number: int, link: Link) -> None:
        epoch, owned, is_reported = 0, frozenset[int](), True
        member_id = f"{self.group}-{number:04d}"
        while True:
            answer = await link.request(self.key, self.version, self.body(member_id, epoch, None if is_reported else owned))
            if answer.error_code in REJOIN:
                epoch, owned, is_reported = 0, frozenset(), True
                continue
            if answer.error_code in PASSING:
                await asyncio.sleep(0.05)
                continue
            if answer.error_code:
                raise RuntimeError(f"a heartbeat was answered error {answer.error_code}: {answer.error_message}")
            epoch, given = answer.member_epoch, self.given(answer)
            is_reported = given is None
            if given is not None:
                owned = given
                self._note(number, owned)
            await asyncio.sleep(answer.heartbeat_interval_ms / 1000 if is_reported else 0)

    def body(self, member_id: str, epoch: int, owned: frozenset[int] | None) -> Any:
        """Return a heartbeat, with the partitions that the member owns unless it has reported them."""
        raise NotImplementedError

    def given(self, answer: Any) -> frozenset[int] | None:
        """Return the partitions in an answer; None if it has none."""
        raise NotImplementedError

    def _note(self, number: int, owned: frozenset[int]) -> None:
        self.owned[number] = owned
        if len(self.owned) == self.size and all(self.owned.values()):
            owners = Counter(index for held in self.owned.values() for index in held)
            if len(owners) == self.size:
                self.done.set()


class ShareMembers(SettlingGroup):
    """Members of a share group (KIP-932)."""

    key, version = SHARE_HEARTBEAT, 1

    def body(self, member_id: str, epoch: int, owned: frozenset[int] | None) -> ShareGroupHeartbeatRequest:
        names = [self.topic] if epoch == 0 else None
        return ShareGroupHeartbeatRequest(
            group_id=self.group, member_id=member_id, member_epoch=epoch, subscribed_topic_names=names
        )

    def given(self, answer: Any) -> frozenset[int] | None:
        if answer.assignment is None:
            return None
        return frozenset(index for topic in answer.assignment.topic_partitions for index in topic.partitions)


class StreamsMembers(SettlingGroup):
    """Members of a streams group (KIP-1071), each a process of its own, whose tasks are without state."""

    key, version = STREAMS_HEARTBEAT, 0

    def body(self, member_id: str, epoch: int, owned: frozenset[int] | None) -> StreamsGroupHeartbeatRequest:
        body = StreamsGroupHeartbeatRequest(
            group_id=self.group, member_id=member_id, member_epoch=epoch, endpoint_information_epoch=0
        )
        if epoch == 0:
            subtopology = StreamsGroupHeartbeatRequest.Subtopology(subtopology_id="0", source_topics=[self.topic])
            body.topology = StreamsGroupHeartbeatRequest.Topology(epoch=0, subtopologies=[subtopology])
            body.rebalance_timeout_ms, body.process_id, body.client_tags = 60_000, member_id, []
            owned = frozenset()
        if owned is not None:
            tasks = StreamsGroupHeartbeatRequest.TaskIds(subtopology_id="0", partitions=sorted(owned))
            body.active_tasks, body.standby_tasks, body.warmup_tasks = [tasks] if owned else [], [], []
        return body

    def given(self, answer: Any) -> frozenset[int] | None:
        if answer.active_tasks is None:
            return None
        return frozenset(index for tasks in answer.active_tasks for index in tasks.partitions)


class ConsumerMembers(SettlingGroup):
    """Members of a consumer group (KIP-848)."""

    key, version = CONSUMER_HEARTBEAT, 1
    topic_id = bytes(16)

    def body(self, member_id: str, epoch: int, owned: frozenset[int] | None) -> ConsumerGroupHeartbeatRequest:
        body = ConsumerGroupHeartbeatRequest(group_id=self.group, member_id=member_id, member_epoch=epoch)
        if epoch == 0:
            body.rebalance_timeout_ms, body.subscribed_topic_names, owned = 60_000, [self.topic], frozenset()
        if owned is not None:
            held = ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=self.topic_id, partitions=sorted(owned))
            body.topic_partitions = [held] if owned else []
        return body

    def given(self, answer: Any) -> frozenset[int] | None:
        if answer.assignment is None:
            return None
        for topic in answer.assignment.topic_partitions:
            self.topic_id = bytes(topic.topic_id)
        return frozenset(index for topic in answer.assignment.topic_partitions for index in topic.partitions)


KINDS: dict[str, type[SettlingGroup]] = {
    "consumer": ConsumerMembers,
    "share": ShareMembers,
    "streams": StreamsMembers,
}


def settle(server: Server, kind: str, topic: str, size: int) -> Figures:
    """Return the seconds until a new group with `size` members has settled on a topic, and the broker's CPU."""
    group = f"bench-{kind}-{time.monotonic_ns()}"
    find_coordinator(server.address, group)
    took, spent = asyncio.run(_settle(server, kind, group, topic, size))
    name = f"{size} members of a {kind} group settle"
    return {f"{name}, s": took, f"{name}, broker CPU s": spent}


async def _settle(server: Server, kind: str, group: str, topic: str, size: int) -> tuple[float, float]:
    return await until_settled(server, KINDS[kind](group, topic, size))


def measure(results: Results, sizes: list[int], rounds: int, *, alone: bool = False) -> None:
    """Both brokers in turns, after one small group of each kind on either."""
    with ExitStack() as running:
        servers: list[Server] = [running.enter_context(Ottla(OF_ALL_KINDS))]
        servers += [] if alone else [running.enter_context(Kafka(settings=OF_ALL_KINDS))]
        for size in (WARM_UP, *sizes):
            topics = {server: running.enter_context(topic_of(server, size)) for server in servers}
            for turn in range(1 if size == WARM_UP else rounds):
                for kind in KINDS:
                    for server in servers if turn % 2 == 0 else reversed(servers):
                        figures = settle(server, kind, topics[server], size)
                        if size != WARM_UP:
                            results.add(server.name, figures)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.settling", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--members", type=int, action="append", help="members of each group: 200 and 1 000 if omitted")
    parser.add_argument("--alone", action="store_true", help="measure Ottla without Apache Kafka")
    wanted = parser.parse_args()
    results = Results([Ottla.name] if wanted.alone else [Ottla.name, Kafka.name])
    measure(results, wanted.members or [200, 1_000], wanted.rounds, alone=wanted.alone)
    print(table(results))


if __name__ == "__main__":
    main()
