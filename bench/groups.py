"""Groups over raw sockets, the same members on every broker: `python -m bench.groups`, and part of `make bench`.

One process of ours plays all members: offset commits from ready-made frames, a hundred members that join one classic group, and a
thousand that settle in one consumer group (KIP-848). What start-up takes with a million offsets is in `bench.group_starts`.
"""

from __future__ import annotations

import argparse
import asyncio
import selectors
import socket
import struct
import time
from collections import Counter, deque
from collections.abc import Coroutine
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import quantiles
from typing import Any, Protocol

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from bench import raw
from bench.loads import QUIET, Figures, topic_of
from bench.report import Results, table
from bench.servers import QUICK_GROUPS, Kafka, Ottla, Server, cpu_s
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.sync_group import SyncGroupRequest
from ottla.wire.errors import FENCED_MEMBER_EPOCH, MEMBER_ID_REQUIRED, NONE, UNKNOWN_MEMBER_ID
from ottla.wire.framing import FrameHeader, decode_response, encode_request

COMMIT, FIND, JOIN, HEARTBEAT, SYNC, CONSUMER_HEARTBEAT = 8, 10, 11, 12, 14, 68
COMMIT_VERSION = 8
BEAT_S = 0.1
LIMIT_S = 120.0
SETTINGS: dict[str, object] = {
    **QUICK_GROUPS,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 500,
}
"""Members hear of changes with their next heartbeat: every five seconds by default, which would be all that is measured."""


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    commits: int = 40_000
    in_flight: int = 50
    committers: int = 50
    classic_members: int = 100
    consumer_members: int = 1_000

    def divided(self, by: int) -> Sizes:
        return Sizes(
            commits=self.commits // by,
            classic_members=max(2, self.classic_members // by),
            consumer_members=max(2, self.consumer_members // by),
        )


def frame(key: int, version: int, body: Any) -> bytes:
    return b"".join(encode_request(FrameHeader(key, version, 1, "bench"), body))


def commit_frame(group: str, topic: str, partitions: int = 1) -> bytes:
    """A commit without membership: of somebody who assigned the partitions to itself."""
    part = OffsetCommitRequest.OffsetCommitRequestPartition
    parts = [part(partition_index=index, committed_offset=1000, committed_metadata="") for index in range(partitions)]
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=parts)]
    return frame(COMMIT, COMMIT_VERSION, OffsetCommitRequest(group_id=group, topics=topics))


def promise_as_kafka(address: str, internal: str = "__consumer_offsets") -> None:
    """Have what is written to an internal topic answered from the page cache, which is all that Apache Kafka promises."""
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    entry = ConfigEntry("ottla.acks.all.sync", "false", incremental_operation=AlterConfigOpType.SET)
    topic = ConfigResource(ConfigResource.Type.TOPIC, internal, incremental_configs=[entry])
    for done in admin.incremental_alter_configs([topic]).values():
        done.result(30)


def find_coordinator(address: str, group: str) -> None:
    """Have `__consumer_offsets` made, and wait until the group has its coordinator."""
    with raw.connect(address) as connection:
        for _ in range(300):
            connection.sendall(frame(FIND, 2, FindCoordinatorRequest(key=group)))
            if decode_response(FIND, 2, raw.reply(connection))[1].error_code == NONE:  # type: ignore[attr-defined]  # of that class
                return
            time.sleep(0.1)
    raise RuntimeError("no coordinator was found in 30 s")


def check_commit(connection: socket.socket, request: bytes) -> int:
    """Send one commit until it is taken (a coordinator may still be loading); the size of its answer."""
    for _ in range(300):
        connection.sendall(request)
        answer = raw.reply(connection)
        response: Any = decode_response(COMMIT, COMMIT_VERSION, answer)[1]
        if response.topics[0].partitions[0].error_code == NONE:
            return 4 + len(answer)
        time.sleep(0.1)
    raise RuntimeError(f"the broker answers a commit with error {response.topics[0].partitions[0].error_code}")


def commits_of_one(server: Server, topic: str, sizes: Sizes) -> Figures:
    """One connection with many commits unanswered, as of one process that commits for many readers."""
    request = commit_frame("bench-one", topic)
    with raw.connect(server.address) as connection:
        size = check_commit(connection, request)
        spent = cpu_s(server)
        took, times = pipelined(connection, request, size, sizes)
        spent = cpu_s(server) - spent
    name = f"offset commits, one connection, {sizes.in_flight} in flight"
    cpu = {"offset commits, broker CPU, s per million": spent / sizes.commits * 1e6}
    return rates(name, took, times) | cpu


def rates(name: str, took_s: float, times_s: list[float]) -> Figures:
    """How many requests were answered in a second, and how long each one waited."""
    cut = quantiles(times_s, n=100)
    return {f"{name}, requests/s": len(times_s) / took_s, f"{name}, p50 ms": cut[49] * 1000, f"{name}, p99 ms": cut[98] * 1000}


def pipelined(connection: socket.socket, request: bytes, size: int, sizes: Sizes) -> tuple[float, list[float]]:
    """(seconds in all, seconds of each request) of requests of which `in_flight` are always unanswered; `size` is an answer's."""
    clock, times, rest = time.perf_counter, list[float](), 0
    sent_at = deque([began := clock()] * sizes.in_flight)
    sent = sizes.in_flight
    connection.sendall(request * sent)
    while len(times) < sizes.commits:
        data = connection.recv(1 << 18)
        if not data:
            raise EOFError("the broker closed the connection")
        done, rest = divmod(rest + len(data), size)
        now = clock()
        times += [now - sent_at.popleft() for _ in range(done)]
        more = min(done, sizes.commits - sent)
        if more > 0:
            sent_at.extend([now] * more)
            connection.sendall(request * more)
            sent += more
    return clock() - began, times


def commits_of_many(server: Server, topic: str, sizes: Sizes) -> Figures:
    """Many members, each in a group of its own, that wait for each answer before they commit again."""
    connections: dict[socket.socket, tuple[bytes, int]] = {}
    with ExitStack() as opened, selectors.DefaultSelector() as selector:
        for number in range(sizes.committers):
            connection = opened.enter_context(raw.connect(server.address))
            request = commit_frame(f"bench-many-{number}", topic)
            connections[connection] = request, check_commit(connection, request)
            selector.register(connection, selectors.EVENT_READ)
        took, times = closed_loop(selector, connections, sizes.commits)
    return rates(f"offset commits, {sizes.committers} members, one in flight each", took, times)


def closed_loop(
    selector: selectors.BaseSelector, connections: dict[socket.socket, tuple[bytes, int]], count: int
) -> tuple[float, list[float]]:
    """(seconds in all, seconds of each request)."""
    clock, times = time.perf_counter, list[float]()
    sent_at = dict.fromkeys(connections, began := clock())
    for opened, (request, _) in connections.items():
        opened.sendall(request)
    while len(times) < count:
        for key, _ in selector.select(30):
            connection: Any = key.fileobj
            request, size = connections[connection]
            if len(connection.recv(4096)) != size:
                raise RuntimeError("an answer came in pieces or is an error")
            now = clock()
            times.append(now - sent_at[connection])
            sent_at[connection] = now
            connection.sendall(request)
    return clock() - began, times


class Link(asyncio.Protocol):
    """One member's connection: one request at a time."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._answer: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, address: str) -> Link:
        host, _, port = address.rpartition(":")
        _, link = await asyncio.get_running_loop().create_connection(cls, host, int(port))
        return link

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # of a stream it is one

    def data_received(self, data: bytes) -> None:
        self._data += data
        if len(self._data) >= 4 and len(self._data) >= 4 + struct.unpack_from(">i", self._data)[0]:
            answer, self._answer, whole = self._answer, None, bytes(self._data)
            self._data.clear()
            if answer is not None and not answer.done():
                answer.set_result(whole[4:])

    def connection_lost(self, failure: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(failure or EOFError("the broker closed the connection"))

    async def request(self, key: int, version: int, body: Any) -> Any:
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(frame(key, version, body))
        return decode_response(key, version, await self._answer)[1]

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class ClassicGroup:
    """Members that join one classic group at once; `done` when all are in the same generation with their assignments."""

    def __init__(self, group: str, size: int) -> None:
        self.group, self.size = group, size
        self.generations: dict[int, int] = {}
        self.done = asyncio.Event()

    async def member(self, number: int, link: Link) -> None:
        member_id = ""
        while True:
            joined = await self._join(link, member_id)
            member_id = joined.member_id
            if joined.error_code == MEMBER_ID_REQUIRED:
                continue
            if joined.error_code:
                member_id = "" if joined.error_code == UNKNOWN_MEMBER_ID else member_id
                continue
            if await self._sync(link, joined) == NONE:
                self._settled(number, joined.generation_id)
                await self._beat(link, joined)

    def _settled(self, number: int, generation: int) -> None:
        self.generations[number] = generation
        if len(self.generations) == self.size and len(set(self.generations.values())) == 1:
            self.done.set()

    async def _join(self, link: Link, member_id: str) -> Any:
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")
        body = JoinGroupRequest(
            group_id=self.group,
            member_id=member_id,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[protocol],
        )
        return await link.request(JOIN, 5, body)

    async def _sync(self, link: Link, joined: Any) -> int:
        assigned = SyncGroupRequest.SyncGroupRequestAssignment
        body = SyncGroupRequest(
            group_id=self.group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[assigned(member_id=member.member_id, assignment=bytes(40)) for member in joined.members],
        )
        error_code: int = (await link.request(SYNC, 3, body)).error_code
        return error_code

    async def _beat(self, link: Link, joined: Any) -> None:
        """Heartbeats until the group rebalances."""
        body = HeartbeatRequest(group_id=self.group, generation_id=joined.generation_id, member_id=joined.member_id)
        while (await link.request(HEARTBEAT, 3, body)).error_code == NONE:  # noqa: ASYNC110  # the event is in the broker
            await asyncio.sleep(BEAT_S)


class ConsumerGroup:
    """Members of one consumer group (KIP-848); `done` when each has as many partitions as it should, and each partition one."""

    def __init__(self, group: str, topic: str, size: int, partitions: int) -> None:
        self.group, self.topic, self.size, self.partitions = group, topic, size, partitions
        self.owned: dict[int, frozenset[int]] = {}
        self.beats = 0
        self.done = asyncio.Event()

    async def member(self, number: int, link: Link) -> None:
        epoch, interval_s, owned, told = 0, 0.0, frozenset[int](), True
        member_id, topic_id = f"{self.group}-{number:04d}", bytes(16)
        while True:
            response = await link.request(CONSUMER_HEARTBEAT, 1, self._body(member_id, epoch, topic_id, owned if told else None))
            self.beats += 1
            if response.error_code:
                if response.error_code not in (FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID):
                    raise RuntimeError(f"a heartbeat was answered error {response.error_code}: {response.error_message}")
                epoch, owned, told = 0, frozenset(), True
                continue
            if told or response.assignment is None:
                self._settled(number, owned)
            epoch, told, interval_s = response.member_epoch, False, response.heartbeat_interval_ms / 1000
            if response.assignment is not None:
                for topic in response.assignment.topic_partitions:
                    topic_id = bytes(topic.topic_id)
                owned = frozenset(index for topic in response.assignment.topic_partitions for index in topic.partitions)
                told = True
                continue
            await asyncio.sleep(interval_s)

    def _body(self, member_id: str, epoch: int, topic_id: bytes, owned: frozenset[int] | None) -> ConsumerGroupHeartbeatRequest:
        body = ConsumerGroupHeartbeatRequest(group_id=self.group, member_id=member_id, member_epoch=epoch)
        if owned is not None:
            part = ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id, partitions=sorted(owned))
            body.topic_partitions = [part] if owned else []
        if epoch == 0:
            body.rebalance_timeout_ms, body.subscribed_topic_names, body.topic_partitions = 60_000, [self.topic], []
        return body

    def _settled(self, number: int, owned: frozenset[int]) -> None:
        if self.owned.get(number) == owned:
            return
        self.owned[number] = owned
        share = self.partitions // self.size
        if len(owned) == share and all(len(held) == share for held in self.owned.values()) and len(self.owned) == self.size:
            owners = Counter(index for held in self.owned.values() for index in held)
            if len(owners) == self.partitions and set(owners.values()) == {1}:
                self.done.set()


class Joining(Protocol):
    """Members that join one group at once."""

    size: int
    done: asyncio.Event

    async def member(self, number: int, link: Link, /) -> None: ...


async def until_settled(server: Server, group: Joining) -> tuple[float, float]:
    """(seconds, seconds of the broker's CPU) from the first request to the moment when everybody has settled."""
    links = await asyncio.gather(*(Link.open(server.address) for _ in range(group.size)))
    spent, began = cpu_s(server), time.perf_counter()
    members: list[Coroutine[Any, Any, None]] = [group.member(number, link) for number, link in enumerate(links)]
    tasks = [asyncio.ensure_future(member) for member in members]
    done = asyncio.ensure_future(group.done.wait())
    await asyncio.wait([done, *tasks], timeout=LIMIT_S, return_when=asyncio.FIRST_COMPLETED)
    took, spent = time.perf_counter() - began, cpu_s(server) - spent
    settled = group.done.is_set()
    failed = [task.exception() for task in tasks if task.done()]
    for task in (*tasks, done):
        task.cancel()
    await asyncio.gather(*tasks, done, return_exceptions=True)
    for link in links:
        link.close()
    if not settled:
        raise RuntimeError(f"{server.name}: the group did not settle: {failed[0] if failed else f'not in {LIMIT_S:.0f} s'}")
    return took, spent


def classic_joins(server: Server, sizes: Sizes) -> Figures:
    group = f"bench-classic-{time.monotonic_ns()}"
    find_coordinator(server.address, group)
    took, spent = asyncio.run(_run_classic(server, group, sizes))
    name = f"{sizes.classic_members} members join a classic group"
    return {f"{name}, s": took, f"{name}, broker CPU s": spent}


async def _run_classic(server: Server, group: str, sizes: Sizes) -> tuple[float, float]:
    return await until_settled(server, ClassicGroup(group, sizes.classic_members))


def consumer_joins(server: Server, sizes: Sizes) -> Figures:
    group = f"bench-consumer-{time.monotonic_ns()}"
    find_coordinator(server.address, group)
    with topic_of(server, sizes.consumer_members) as topic:
        took, spent = asyncio.run(_run_consumer(server, group, topic, sizes))
    name = f"{sizes.consumer_members} members of a consumer group settle"
    return {f"{name}, s": took, f"{name}, broker CPU s": spent}


async def _run_consumer(server: Server, group: str, topic: str, sizes: Sizes) -> tuple[float, float]:
    size = sizes.consumer_members
    return await until_settled(server, ConsumerGroup(group, topic, size, size))


def commits(server: Server, sizes: Sizes) -> Figures:
    find_coordinator(server.address, "bench-one")
    with topic_of(server, 1) as topic:
        return commits_of_one(server, topic, sizes) | commits_of_many(server, topic, sizes)


def everything(server: Server, sizes: Sizes) -> Figures:
    """All figures of groups, once."""
    return commits(server, sizes) | classic_joins(server, sizes) | consumer_joins(server, sizes)


def measure(results: Results, sizes: Sizes, rounds: int, *, alone: bool = False) -> None:
    """All brokers in turns, on settings of their own; Ottla once more with what Apache Kafka promises of a commit."""
    with ExitStack() as running:
        servers: list[Server] = [running.enter_context(Ottla(SETTINGS))]
        quick = running.enter_context(Ottla(SETTINGS))
        find_coordinator(quick.address, "bench-one")
        promise_as_kafka(quick.address)
        if not alone:
            servers.append(running.enter_context(Kafka(settings=SETTINGS)))
        for server in servers:
            everything(server, sizes.divided(10))
        commits(quick, sizes.divided(10))
        for _ in range(rounds):
            for server in servers:
                figures = everything(server, sizes)
                results.add(server.name, figures)
                if server is not servers[0]:
                    results.add(server.name, {cached(name): value for name, value in figures.items() if "commits" in name})
            results.add(servers[0].name, {cached(name): value for name, value in commits(quick, sizes).items()})


def cached(name: str) -> str:
    """The name of the same figure where commits are answered from the page cache on either side."""
    return name.replace("offset commits", "offset commits from the page cache")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.groups", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--divide", type=int, default=1, metavar="N", help="make every load N times smaller")
    parser.add_argument("--alone", action="store_true", help="measure Ottla without Apache Kafka")
    wanted = parser.parse_args()
    results = Results([Ottla.name] if wanted.alone else [Ottla.name, Kafka.name])
    measure(results, Sizes().divided(wanted.divide), wanted.rounds, alone=wanted.alone)
    print(table(results))


if __name__ == "__main__":
    main()
