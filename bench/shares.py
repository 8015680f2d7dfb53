"""Share groups over raw sockets, the same members on every broker: `python -m bench.shares`.

One process of ours plays all members. Each fetches, and acknowledges with its next fetch all that it got, as share consumers do.
Records are not opened, so that the broker's cost shows. The latency is that of one record at a time: produced to a waiting member,
acquired, and acknowledged.
"""

from __future__ import annotations

import argparse
import selectors
import socket
import struct
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import quantiles
from typing import Any

from bench import raw
from bench.groups import promise_as_kafka
from bench.loads import Figures, topic_of
from bench.report import Results, table
from bench.servers import Kafka, Ottla, Server, cpu_s
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.api.share_acknowledge import ShareAcknowledgeRequest
from ottla.wire.api.share_fetch import ShareFetchRequest
from ottla.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.wire.errors import NONE
from ottla.wire.framing import FrameHeader, decode_response, encode_request

FIND, ALTER, HEARTBEAT, FETCH, ACKNOWLEDGE = 10, 44, 76, 78, 79
GROUP_RESOURCE = 32
CONSUMPTION = "share consumption of 100 B"
PARTITIONS = 8
BATCH_RECORDS = 100
LIMIT_S = 120.0
TAIL_MS = 20
"""How long a fetch may wait for records: what the last fetches of a run add to its time."""
ACCEPT = [1]
SETTINGS: dict[str, object] = {"group.share.assignment.interval.ms": 0, "group.share.min.assignment.interval.ms": 0}

AckBatch = ShareFetchRequest.AcknowledgementBatch
Place = tuple[bytes, int]


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    records: int = 1_000_000
    cycles: int = 3_000
    max_records: int = 500

    def divided(self, by: int) -> Sizes:
        return Sizes(self.records // by, self.cycles // by, self.max_records)


def ask(connection: socket.socket, key: int, version: int, body: Any) -> Any:
    connection.sendall(b"".join(encode_request(FrameHeader(key, version, 1, "bench"), body)))
    return decode_response(key, version, raw.reply(connection))[1]


def read_from_start(address: str, group: str) -> None:
    """Let a group begin with the first record, and have its coordinator found."""
    alter = IncrementalAlterConfigsRequest
    config = alter.AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    resource = alter.AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=[config])
    with raw.connect(address) as connection:
        assert ask(connection, ALTER, 1, alter(resources=[resource])).responses[0].error_code == NONE
        for _ in range(300):
            if ask(connection, FIND, 2, FindCoordinatorRequest(key=group)).error_code == NONE:
                return
            time.sleep(0.1)
    raise RuntimeError("no coordinator was found in 30 s")


class Member:
    """One member of a share group, with a connection of its own, at most one request of which is unanswered."""

    def __init__(self, address: str, group: str, topic: str) -> None:
        self.connection = raw.connect(address)
        self.group, self.topic = group, topic
        self.member_id = str(uuid.uuid4())
        self.member_epoch = self.session_epoch = 0
        self.places: list[Place] = []
        self.acks: dict[Place, list[AckBatch]] = {}
        self.acquired = 0
        self._buffer = bytearray(1 << 20)
        self._filled = 0

    def join(self) -> bool:
        """Send a heartbeat; whether the member has partitions now."""
        body = ShareGroupHeartbeatRequest(group_id=self.group, member_id=self.member_id, member_epoch=self.member_epoch)
        if not self.member_epoch:
            body.subscribed_topic_names = [self.topic]
        answer = ask(self.connection, HEARTBEAT, 1, body)
        if answer.error_code == NONE:
            self.member_epoch = answer.member_epoch
            if answer.assignment is not None:
                found = answer.assignment.topic_partitions
                self.places = [(bytes(topic.topic_id), index) for topic in found for index in topic.partitions]
        return bool(self.places)

    def fetch(self, max_records: int, *, max_wait_ms: int) -> None:
        """Send a fetch that acknowledges what the last one has got."""
        named = self.acks if self.session_epoch else dict.fromkeys(self.places, ())
        topics: dict[bytes, Any] = {}
        for (topic_id, index), ranges in named.items():
            part = ShareFetchRequest.FetchPartition(partition_index=index, acknowledgement_batches=list(ranges))
            topics.setdefault(topic_id, ShareFetchRequest.FetchTopic(topic_id=topic_id, partitions=[])).partitions.append(part)
        body = ShareFetchRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self.session_epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=50 << 20,
            max_records=max_records,
            batch_size=max_records,
            topics=list(topics.values()),
        )
        self.connection.sendall(b"".join(encode_request(FrameHeader(FETCH, 1, 1, "bench"), body)))
        self.session_epoch += 1

    def receive(self) -> int | None:
        """Read what has arrived; the number of records that were acknowledged if it completes an answer, else None."""
        if len(self._buffer) - self._filled < 1 << 16:
            self._buffer.extend(bytes(len(self._buffer)))
        size = self.connection.recv_into(memoryview(self._buffer)[self._filled :])
        if not size:
            raise EOFError("the broker closed the connection")
        self._filled += size
        if self._filled < 4 or self._filled < 4 + struct.unpack_from(">i", self._buffer)[0]:
            return None
        frame = memoryview(self._buffer)[4 : self._filled]
        self._filled = 0
        return self._take(decode_response(FETCH, 1, frame)[1])

    def _take(self, answer: Any) -> int:
        if answer.error_code:
            raise RuntimeError(f"the broker answered a share fetch with error {answer.error_code}")
        done, self.acquired, self.acks = self.acquired, 0, {}
        for topic in answer.responses:
            for part in topic.partitions:
                if part.error_code or part.acknowledge_error_code:
                    raise RuntimeError(f"errors {part.error_code} and {part.acknowledge_error_code} of a partition")
                for each in part.acquired_records:
                    self.acquired += each.last_offset - each.first_offset + 1
                    ack = AckBatch(first_offset=each.first_offset, last_offset=each.last_offset, acknowledge_types=ACCEPT)
                    self.acks.setdefault((bytes(topic.topic_id), part.partition_index), []).append(ack)
        return done

    def acknowledge(self, *, is_last: bool = False) -> int:
        """Acknowledge all that was got, and return the number of records."""
        topics: dict[bytes, Any] = {}
        for (topic_id, index), ranges in self.acks.items():
            part = ShareAcknowledgeRequest.AcknowledgePartition(partition_index=index, acknowledgement_batches=ranges)
            made = ShareAcknowledgeRequest.AcknowledgeTopic(topic_id=topic_id, partitions=[])
            topics.setdefault(topic_id, made).partitions.append(part)
        epoch = -1 if is_last else self.session_epoch
        body = ShareAcknowledgeRequest(
            group_id=self.group, member_id=self.member_id, share_session_epoch=epoch, topics=list(topics.values())
        )
        answer = ask(self.connection, ACKNOWLEDGE, 1, body)
        codes = {part.error_code for topic in answer.responses for part in topic.partitions}
        if answer.error_code or codes - {NONE}:
            raise RuntimeError(f"an acknowledgement was answered with {answer.error_code} {codes}")
        self.session_epoch += 1
        done, self.acquired, self.acks = self.acquired, 0, {}
        return done


def joined(server: Server, topic: str, count: int) -> list[Member]:
    """Members of a new group that all have partitions."""
    group = f"bench-shares-{time.monotonic_ns()}"
    read_from_start(server.address, group)
    members = [Member(server.address, group, topic) for _ in range(count)]
    settled = 0
    for _ in range(300):
        have_joined = [member.join() for member in members]
        settled = settled + 1 if all(have_joined) else 0
        if settled > 2:
            return members
        time.sleep(0.1)
    raise RuntimeError(f"{server.name}: the members of a share group have no partitions after 30 s")


def consume(members: Sequence[Member], records: int, max_records: int) -> float:
    """Seconds in which the members accept all records."""
    accepted = 0
    with selectors.DefaultSelector() as ready:
        for member in members:
            ready.register(member.connection, selectors.EVENT_READ, member)
        began = time.perf_counter()
        for member in members:
            member.fetch(max_records, max_wait_ms=TAIL_MS)
        waiting = len(members)
        while waiting:
            for key, _ in ready.select(LIMIT_S):
                member = key.data
                done = member.receive()
                if done is None:
                    continue
                accepted += done
                if accepted + sum(each.acquired for each in members) < records:
                    member.fetch(max_records, max_wait_ms=TAIL_MS)
                else:
                    waiting -= 1
            if time.perf_counter() - began > LIMIT_S:
                raise RuntimeError(f"only {accepted} of {records} records were accepted in {LIMIT_S} s")
        accepted += sum(member.acknowledge(is_last=True) for member in members)
        took = time.perf_counter() - began
    if accepted != records:
        raise RuntimeError(f"{accepted} of {records} records were accepted")
    return took


def fill(server: Server, topic: str, records: int) -> None:
    time.sleep(1)  # Apache Kafka shows leaders before they take records
    for index in range(PARTITIONS):
        raw.pipelined(server.address, topic, records // PARTITIONS // BATCH_RECORDS, 20, BATCH_RECORDS, index=index)


def consumption(server: Server, count: int, sizes: Sizes) -> Figures:
    """Records per second that `count` members accept, and what that costs the broker."""
    each = sizes.records // PARTITIONS // BATCH_RECORDS + 1  # `pipelined` sends one more
    records = each * BATCH_RECORDS * PARTITIONS
    with topic_of(server, PARTITIONS) as topic:
        fill(server, topic, sizes.records)
        members = joined(server, topic, count)
        spent = cpu_s(server)
        took = consume(members, records, sizes.max_records)
        spent = cpu_s(server) - spent
        for member in members:
            member.connection.close()
    name = f"{CONSUMPTION}, {count} member{'s' if count > 1 else ''}"
    return {f"{name}, records/s": records / took, f"{name}, broker CPU, s per million": spent / records * 1e6}


def latency(server: Server, sizes: Sizes) -> Figures:
    """Milliseconds from the produce request of one record to the answer of its acknowledgement."""
    with topic_of(server, PARTITIONS) as topic:
        (member,) = joined(server, topic, 1)
        request = raw.produce_request(topic, raw.batch(bytes(100)), acks=1)
        acquired, whole = [], []
        with raw.connect(server.address) as producer:
            for number in range(sizes.cycles + 50):
                member.fetch(sizes.max_records, max_wait_ms=5000)
                if number < 5:
                    time.sleep(0.1)
                began = time.perf_counter()
                producer.sendall(request)
                while member.receive() is None:
                    pass
                got = time.perf_counter()
                while not member.acquired:  # only an answer of the first fetch can be empty
                    member.fetch(sizes.max_records, max_wait_ms=5000)
                    while member.receive() is None:
                        pass
                member.acknowledge()
                end = time.perf_counter()
                raw.check(raw.reply(producer), topic)
                if number >= 50:
                    acquired.append(got - began)
                    whole.append(end - began)
        member.connection.close()
    found: Figures = {}
    for name, times in (("produced to acquired", acquired), ("produced, acquired and acknowledged", whole)):
        cuts = quantiles(times, n=100)
        found |= {f"one record {name}, p50 ms": cuts[49] * 1e3, f"one record {name}, p99 ms": cuts[98] * 1e3}
    return found


def everything(server: Server, sizes: Sizes) -> Figures:
    """All figures of share groups, once."""
    return consumption(server, 1, sizes) | consumption(server, 8, sizes) | latency(server, sizes)


def measure(results: Results, sizes: Sizes, rounds: int, *, alone: bool = False) -> None:
    """Both brokers in turns, after a smaller round; Ottla once more with what Apache Kafka promises of an acknowledgement."""
    with ExitStack() as running:
        servers: list[Server] = [running.enter_context(Ottla(SETTINGS))]
        quick = running.enter_context(Ottla(SETTINGS))
        if not alone:
            servers.append(running.enter_context(Kafka(settings=SETTINGS)))
        for server in (*servers, quick):
            everything(server, sizes.divided(4))
        promise_as_kafka(quick.address, "__share_group_state")
        for _ in range(rounds):
            for server in servers:
                figures = everything(server, sizes)
                results.add(server.name, figures)
                if server is not servers[0]:
                    results.add(server.name, {cached(name): value for name, value in figures.items() if CONSUMPTION in name})
            found = consumption(quick, 1, sizes) | consumption(quick, 8, sizes)
            results.add(servers[0].name, {cached(name): value for name, value in found.items()})


def cached(name: str) -> str:
    """The name of the same figure where acknowledgements are answered from the page cache on either side."""
    return name.replace(CONSUMPTION, f"{CONSUMPTION} from the page cache")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.shares", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--divide", type=int, default=1, metavar="N", help="make every load N times smaller")
    parser.add_argument("--alone", action="store_true", help="measure Ottla without Apache Kafka")
    wanted = parser.parse_args()
    results = Results([Ottla.name] if wanted.alone else [Ottla.name, Kafka.name])
    measure(results, Sizes().divided(wanted.divide), wanted.rounds, alone=wanted.alone)
    print(table(results))


if __name__ == "__main__":
    main()
