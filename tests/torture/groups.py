"""`make torture-groups`: one group of processes of mixed clients, whose members and whose broker are killed again and again.

    python -m tests.torture.groups --seconds 60

Members of confluent-kafka, kafka-python, aiokafka and Ottla share a topic that is written to all the time; with `--mixed` those of
the consumer group protocol (KIP-848) too, in the same group. Each killed member is replaced by another of its kind. Meanwhile the
group is looked at: no partition is assigned twice in one generation, and no committed offset goes back. At the end the group is
left alone until it has committed everything: each record was in the hands of a member before its offset was committed.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from bench import raw
from ottla.testing.process import BrokerProcess
from ottla.wire import Malformed, decode
from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.api.describe_groups import DescribeGroupsRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.data.consumer_protocol import ConsumerProtocolAssignment
from ottla.wire.errors import NONE
from ottla.wire.framing import FrameHeader, decode_response, encode_request
from tests.torture import kills
from tests.torture.groups_member import GROUP, KINDS, TOPIC
from tests.torture.member_processes import MemberProcesses

PARTITIONS = 40
FETCH, DESCRIBE, CONSUMER_DESCRIBE = 9, 15, 69
RATE = 300
SETTLE_S = 90.0
LEAST_KILLS = 3
CONSUMER_SESSION_MS, CONSUMER_HEARTBEAT_MS = 6_000, 500
SETTINGS: dict[str, object] = {
    "num.partitions": PARTITIONS,
    "group.initial.rebalance.delay.ms": 200,
    "group.consumer.min.session.timeout.ms": CONSUMER_SESSION_MS,
    "group.consumer.session.timeout.ms": CONSUMER_SESSION_MS,
    "group.consumer.min.heartbeat.interval.ms": CONSUMER_HEARTBEAT_MS,
    "group.consumer.heartbeat.interval.ms": CONSUMER_HEARTBEAT_MS,
    "group.consumer.migration.policy": "bidirectional",
}


@dataclass
class Tortured:
    """What happened, and what was wrong."""

    member_kills: int = 0
    broker_kills: int = 0
    records: int = 0
    looks: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


class Load(threading.Thread):
    """Writes numbers to all partitions in turn, until it is told to stop; `acknowledged` counts by partition."""

    def __init__(self, address: str) -> None:
        super().__init__(name="load", daemon=True)
        self.stopping = threading.Event()
        settings = {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 120_000}
        self._producer = Producer({**settings, "reconnect.backoff.max.ms": 200, "log_level": 0})
        self.acknowledged: Counter[int] = Counter()

    def run(self) -> None:
        for number in itertools.count():
            if self.stopping.wait(1 / RATE):
                break
            self._producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._delivered)
            self._producer.poll(0)
        self._producer.flush(60)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged[message.partition()] += 1


class Looks(threading.Thread):
    """Looks at the group from outside, over a connection of its own, as often as the broker answers."""

    def __init__(self, address: str) -> None:
        super().__init__(name="looks", daemon=True)
        self.stopping = threading.Event()
        self.committed: dict[int, int] = {}
        self.count = 0
        self.faults: list[str] = []
        self._address = address

    def run(self) -> None:
        while not self.stopping.wait(0.1):
            try:
                with raw.connect(self._address) as connection:
                    while not self.stopping.wait(0.1):
                        self.count += 1
                        self._look_at_offsets(connection)
                        self._look_at_members(connection)
            except (OSError, EOFError):
                continue

    def _ask(self, connection: Any, key: int, version: int, body: Any) -> Any:
        connection.sendall(b"".join(encode_request(FrameHeader(key, version, 1, "looks"), body)))
        return decode_response(key, version, raw.reply(connection))[1]

    def _look_at_offsets(self, connection: Any) -> None:
        response = self._ask(connection, FETCH, 7, OffsetFetchRequest(group_id=GROUP, topics=None))
        if response.error_code:
            return
        found = {part.partition_index: part.committed_offset for topic in response.topics for part in topic.partitions}
        back = {index: (before, found.get(index, -1)) for index, before in self.committed.items() if found.get(index, -1) < before}
        self.faults += [f"the committed offset of partition {index} went from {a} back to {b}" for index, (a, b) in back.items()]
        self.committed = found

    def _look_at_members(self, connection: Any) -> None:
        """Partitions of a stable classic group, or of a consumer group at any time, have one owner."""
        classic = self._ask(connection, DESCRIBE, 5, DescribeGroupsRequest(groups=[GROUP])).groups[0]
        held: list[int] = []
        if classic.error_code == NONE and classic.group_state == "Stable":
            held = [index for member in classic.members for index in assigned(member.member_assignment)]
        elif classic.group_state == "Dead":
            described = self._ask(connection, CONSUMER_DESCRIBE, 0, ConsumerGroupDescribeRequest(group_ids=[GROUP])).groups[0]
            held = [i for member in described.members for topic in member.assignment.topic_partitions for i in topic.partitions]
        twice = [index for index, count in Counter(held).items() if count > 1]
        if twice:
            self.faults.append(f"partitions {twice} are assigned twice at once")


def assigned(data: bytes) -> list[int]:
    """The partitions in a consumer's assignment; none if it has none yet."""
    try:
        held = decode(ConsumerProtocolAssignment, 0, data[2:]) if data else None
    except Malformed:
        return []
    return [] if held is None else [index for topic in held.assigned_partitions for index in topic.partitions]


class Group(MemberProcesses):
    """The members' processes, and what they noted."""

    def __init__(self, home: Path, address: str, kinds: list[str]) -> None:
        super().__init__("tests.torture.groups_member", home, address, kinds)

    def idle(self) -> set[str]:
        """Kinds none of whose members had anything to do."""
        busy = [path.stem.partition("-")[2] for path in self._home.glob("*.notes") if b"got " in path.read_bytes()]
        return {kind for kind, _ in self.members}.difference(busy)

    def notes(self) -> list[list[str]]:
        """Every line of every member, as words."""
        return [line.split() for path in self._home.glob("*.notes") for line in path.read_text(errors="replace").splitlines()]


def unprocessed(notes: list[list[str]], ends: dict[int, int]) -> list[str]:
    """Records below each partition's end that no member had in hand."""
    seen: dict[int, set[int]] = {index: set() for index in ends}
    for words in notes:
        if words[0] == "got" and len(words) == 4:
            partition, first, last = map(int, words[1:])
            seen[partition].update(range(first, last + 1))
    missing = {index: sorted(set(range(end)) - seen[index]) for index, end in ends.items()}
    return [
        f"partition {index}: {len(lost)} records were never in hand, such as {lost[0]}" for index, lost in missing.items() if lost
    ]


def wait_for_work(group: Group) -> None:
    """Until members of every kind had records in hand: who is killed while starting loses nothing. `judge` names the idle."""
    deadline = time.monotonic() + SETTLE_S
    while group.idle() and time.monotonic() < deadline:
        group.mend()
        time.sleep(0.1)


def torment(broker: BrokerProcess, group: Group, choice: random.Random, seconds: float, result: Tortured) -> None:
    """Kill members all the time, and the broker now and then; each some times also on a machine that is slow at it."""
    deadline = time.monotonic() + seconds
    next_broker = time.monotonic() + min(seconds / 3, choice.uniform(4, 10))
    while time.monotonic() < deadline or result.member_kills < LEAST_KILLS or not result.broker_kills:
        time.sleep(choice.uniform(0.3, 1.5))
        group.kill_one(choice)
        group.mend()
        result.member_kills += 1
        if time.monotonic() > next_broker:
            broker.restart(kill=True)
            result.broker_kills += 1
            next_broker = time.monotonic() + choice.uniform(6, 14)


def settled(looks: Looks, load: Load, group: Group) -> bool:
    """Whether everything that was written is committed, within `SETTLE_S`."""
    deadline = time.monotonic() + SETTLE_S
    while time.monotonic() < deadline:
        if all(looks.committed.get(index, -1) >= count for index, count in load.acknowledged.items()):
            return True
        group.mend()
        time.sleep(0.2)
    return False


def torture(home: Path, kinds: list[str], seconds: float, seed: int, journal_bytes: int = kills.JOURNAL_BYTES) -> Tortured:
    """Start a broker, its load and a member of each of `kinds`; kill; see what is left."""
    result, choice = Tortured(), random.Random(seed)
    with BrokerProcess(home / "data", SETTINGS | kills.journal_settings(journal_bytes)) as broker:
        load, looks = Load(broker.address), Looks(broker.address)
        load.start()
        looks.start()
        group = Group(home, broker.address, kinds)
        try:
            wait_for_work(group)
            torment(broker, group, choice, seconds, result)
            load.stopping.set()
            load.join(90)
            if not settled(looks, load, group):
                late = {index: (looks.committed.get(index), count) for index, count in load.acknowledged.items()}
                behind = {index: pair for index, pair in late.items() if pair[0] != pair[1]}
                result.faults.append(f"not all was committed in {SETTLE_S:.0f} s; partition: (committed, written): {behind}")
        finally:
            group.stop()
            looks.stopping.set()
            looks.join(30)
    judge(result, group, load, looks)
    return result


def judge(result: Tortured, group: Group, load: Load, looks: Looks) -> None:
    notes = group.notes()
    result.records, result.looks = sum(load.acknowledged.values()), looks.count
    result.refused = Counter(words[1] for words in notes if words[0] == "refused")
    result.faults += [*looks.faults[:10], *unprocessed(notes, dict(load.acknowledged))]
    result.faults += [f"no member of {kind} ever had a record in hand" for kind in group.idle()]
    result.faults += [f"{count} members of {kind} ended by themselves" for kind, count in group.ended.items()]


def members(count: int, *, mixed: bool) -> list[str]:
    """As many of each kind as possible."""
    kinds = [kind for kind in KINDS if mixed or kind != "confluent-kafka-consumer"]
    return list(itertools.islice(itertools.cycle(kinds), count))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.groups")
    parser.add_argument("--members", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60, help="how long members and broker are killed")
    parser.add_argument("--seed", type=int, default=0, help="of who is killed, and when")
    parser.add_argument("--mixed", action="store_true", help="members of the consumer group protocol too, in the same group")
    kills.add_journal_option(parser)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ottla-torture-") as home:
        kinds = members(chosen.members, mixed=chosen.mixed)
        result = torture(Path(home), kinds, chosen.seconds, chosen.seed, chosen.journal_bytes)
    print(f"{result.member_kills} members and {result.broker_kills} brokers killed, {result.records} records, {result.looks} looks")
    print(
        "what clients were refused meanwhile:", ", ".join(f"{name} {count}" for name, count in result.refused.items()) or "nothing"
    )
    for fault in result.faults:
        print(fault)
    return 1 if result.faults or not result.broker_kills else 0


if __name__ == "__main__":
    sys.exit(main())
