"""`make torture-shares`: members of a share group and their brokers, killed in turn while records are written.

    python -m tests.torture.shares --rounds 100 --seconds 600
    python -m tests.torture.shares --rounds 100 --seconds 600 --brokers 3

Members of Ottla and of confluent-kafka accept, release and reject records of a topic. Each round kills a member or a broker with
SIGKILL once something was acknowledged since the last kill, and starts it again. At the end, the group is left alone until it has
no lag: each written record was accepted or rejected once, a confirmed one was never delivered to a member that began later,
and no record was delivered beyond its limit.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from confluent_kafka import Producer

from ottla.testing import BrokerProcess, Cluster
from tests.support.messages import request
from tests.support.share_world import Lines
from tests.torture.member_processes import MemberProcesses
from tests.torture.shares_member import GROUP, MEMBERS, TOPIC

PARTITIONS = 3
RATE = 200
PROGRESS_S, SETTLE_S = 20.0, 90.0
LOCK_MS = 3_000
LIMIT = 10
LATE_NS = 3 * LOCK_MS * 1_000_000
"""What a client had fetched before may be handed out so much later."""
CREATE, ALTER, OFFSETS = 19, 44, 90
SETTINGS: dict[str, object] = {
    "num.partitions": PARTITIONS,
    "offsets.topic.num.partitions": 3,
    "share.coordinator.state.topic.num.partitions": 3,
    "group.share.min.record.lock.duration.ms": 1_000,
    "group.share.record.lock.duration.ms": LOCK_MS,
    "group.share.min.session.timeout.ms": 1_000,
    "group.share.session.timeout.ms": 4_000,
    "group.share.min.heartbeat.interval.ms": 300,
    "group.share.heartbeat.interval.ms": 300,
    "group.share.assignment.interval.ms": 0,
    "group.share.delivery.count.limit": LIMIT,
    "log.segment.bytes": 1 << 20,
}
REPLICATED: dict[str, object] = {
    "default.replication.factor": 3,
    "min.insync.replicas": 1,
    "offsets.topic.replication.factor": 3,
    "share.coordinator.state.topic.replication.factor": 3,
    "share.coordinator.state.topic.min.isr": 2,
}
TERMINAL = ("accept", "reject")

Place = tuple[int, int]
"""Partition and offset."""


@dataclass
class TorturedShares:
    """What happened, and what was wrong."""

    broker_kills: int = 0
    member_kills: int = 0
    records: int = 0
    deliveries: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


class Brokers(Protocol):
    """One broker or several: where they are, and how one of them is killed and started again."""

    @property
    def address(self) -> str: ...
    def kill_one(self, choice: random.Random) -> None: ...


class Alone:
    """A broker of its own."""

    def __init__(self, home: Path) -> None:
        self._broker = BrokerProcess(home / "data", SETTINGS)

    def __enter__(self) -> Self:
        self._broker.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._broker.__exit__(kind, error, trace)

    @property
    def address(self) -> str:
        return self._broker.address

    def kill_one(self, choice: random.Random) -> None:
        self._broker.restart(kill=True)


class Three:
    """A cluster of three, of which one is killed at a time."""

    def __init__(self, home: Path) -> None:
        self._cluster = Cluster(brokers=3, settings={**SETTINGS, **REPLICATED}, home=home)

    def __enter__(self) -> Self:
        self._cluster.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._cluster.__exit__(kind, error, trace)

    @property
    def address(self) -> str:
        return self._cluster.address

    def kill_one(self, choice: random.Random) -> None:
        node_id = choice.choice(sorted(self._cluster.members))
        self._cluster.kill(node_id)
        self._cluster.start(node_id)
        self._cluster.wait_joined()
        self._cluster.wait_in_sync(TOPIC, "__share_group_state", "__consumer_offsets")


class Written(threading.Thread):
    """Writes numbers to all partitions in turn, until it is told to stop; `acknowledged` has the offsets of each partition."""

    def __init__(self, address: str) -> None:
        super().__init__(name="written", daemon=True)
        self.stopping = threading.Event()
        settings = {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 120_000}
        self._producer = Producer(
            {**settings, "reconnect.backoff.max.ms": 200, "metadata.recovery.strategy": "none", "log_level": 0}
        )
        self.acknowledged: dict[int, set[int]] = defaultdict(set)

    def run(self) -> None:
        for number in itertools.count():
            if self.stopping.wait(1 / RATE):
                break
            self._producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._delivered)
            self._producer.poll(0)
        self._producer.flush(60)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged[message.partition()].add(message.offset())


class Workers(MemberProcesses):
    """The members' processes, and what they noted."""

    def __init__(self, home: Path, address: str, count: int) -> None:
        kinds = itertools.islice(itertools.cycle(MEMBERS), count)
        super().__init__("tests.torture.shares_member", home, address, kinds, is_seeded=True)

    def notes(self) -> list[list[list[str]]]:
        """Return the lines of each member, as words."""
        paths = sorted(self._home.glob("*.notes"))
        return [[line.split() for line in path.read_text(errors="replace").splitlines() if line] for path in paths]

    @property
    def confirmed(self) -> int:
        """How many acknowledgements were confirmed so far."""
        return sum(path.read_bytes().count(b"done ") for path in self._home.glob("*.notes"))


class SharesHistory:
    """The members' notes, and what must hold for them whatever was killed."""

    def __init__(self, notes: list[list[list[str]]]) -> None:
        self.deliveries = 0
        self._done: dict[Place, list[tuple[str, int]]] = defaultdict(list)
        self._tried: dict[Place, list[str]] = defaultdict(list)
        self._got: dict[Place, list[tuple[int, int, int]]] = defaultdict(list)
        for lines in notes:
            self._read(lines)

    def _read(self, lines: list[list[str]]) -> None:
        began = next((int(words[1]) for words in lines if words[0] == "began" and len(words) == 2), 0)
        for words in lines:
            if words[0] not in ("got", "try", "done") or len(words) != (4 if words[0] == "try" else 5):
                continue  # the last line of a member that was killed may be cut
            place = int(words[1]), int(words[2])
            if words[0] == "got":
                self.deliveries += 1
                self._got[place].append((int(words[3]), int(words[4]), began))
            elif words[0] == "try":
                self._tried[place].append(words[3])
            else:
                self._done[place].append((words[3], int(words[4])))

    def faults(self, written: dict[int, set[int]]) -> list[str]:
        """Return what is wrong, one sentence for each record."""
        found = []
        for place in sorted(self._got | self._done):
            found += self._faults_of(place)
        for partition, offsets in written.items():
            found += [
                f"{partition}:{offset} was written, and never over"
                for offset in sorted(offsets)
                if not self._is_over((partition, offset))
            ]
        return found

    def _faults_of(self, place: Place) -> list[str]:
        name = f"{place[0]}:{place[1]}"
        ends = [(kind, at_ns) for kind, at_ns in self._done[place] if kind in TERMINAL]
        found = [f"{name} was over {len(ends)} times: {ends}"] if len(ends) > 1 else []
        most = max((count for count, _, _ in self._got[place]), default=0)
        if most > LIMIT:
            found.append(f"{name} was delivered for the {most}th time")
        for _, end_ns in ends[:1]:
            late = [at_ns for _, at_ns, began in self._got[place] if began > end_ns or at_ns > end_ns + LATE_NS]
            found += [f"{name} was delivered {(at_ns - end_ns) / 1e9:.1f} s after it was over" for at_ns in late]
        return found

    def _is_over(self, place: Place) -> bool:
        """Return whether a record was accepted or rejected, as far as is known, or delivered for the last time."""
        kinds = [kind for kind, _ in self._done[place]] + self._tried[place]
        return any(kind in TERMINAL for kind in kinds) or any(count >= LIMIT for count, _, _ in self._got[place])


class Group:
    """The share group as an administrator sees it."""

    def __init__(self, address: str) -> None:
        self._brokers = [Lines(each) for each in address.split(",")]

    def _ask(self, key: int, version: int, **values: Any) -> Any:
        return self._brokers[0].ask("admin", key, version, request(key, version, **values))

    def prepare(self, replicas: int) -> None:
        """Create the topic, and let the group begin with its first records."""
        topics = [{"name": TOPIC, "num_partitions": PARTITIONS, "replication_factor": replicas}]
        assert not self._ask(CREATE, 7, topics=topics, timeout_ms=10_000).topics[0].error_code
        setting = {"name": "share.auto.offset.reset", "value": "earliest", "config_operation": 0}
        resources = [{"resource_type": 32, "resource_name": GROUP, "configs": [setting]}]
        assert not self._ask(ALTER, 1, resources=resources).responses[0].error_code

    def lag(self) -> int | None:
        """Return how many records are not over, or None while that is not known."""
        asked = request(OFFSETS, 1, groups=[{"group_id": GROUP, "topics": None}])
        answers = [broker.ask("admin", OFFSETS, 1, asked) for broker in self._brokers]
        told = next((each for each in answers if not isinstance(each, str) and not each.groups[0].error_code), None)
        if told is None:  # none of them coordinates the group now
            return None
        parts = [part for topic in told.groups[0].topics for part in topic.partitions]
        return sum(part.lag for part in parts) if len(parts) == PARTITIONS and all(part.lag >= 0 for part in parts) else None

    def close(self) -> None:
        for broker in self._brokers:
            broker.close_all()


def progressed(workers: Workers, before: int) -> bool:
    """Return whether something was confirmed since then, within `PROGRESS_S`."""
    deadline = time.monotonic() + PROGRESS_S
    while time.monotonic() < deadline:
        if workers.confirmed > before:
            return True
        workers.mend()
        time.sleep(0.05)
    return False


def torment(brokers: Brokers, workers: Workers, choice: random.Random, rounds: int, seconds: float, result: TorturedShares) -> None:
    """Kill a broker and a member in turn, each once something was confirmed since the last kill."""
    deadline, before = time.monotonic() + seconds, 0
    for number in range(rounds):
        if time.monotonic() > deadline:
            break
        if not progressed(workers, before):
            result.faults.append(f"nothing was acknowledged in {PROGRESS_S:.0f} s before kill {number}")
        time.sleep(choice.uniform(0, 0.5))
        before = workers.confirmed
        if number % 2:
            brokers.kill_one(choice)
            result.broker_kills += 1
        else:
            workers.kill_one(choice)
            result.member_kills += 1


def settled(group: Group, workers: Workers) -> bool:
    """Return whether the group has no lag within `SETTLE_S`."""
    deadline = time.monotonic() + SETTLE_S
    while time.monotonic() < deadline:
        if group.lag() == 0:
            return True
        workers.mend()
        time.sleep(0.3)
    return False


def torture(home: Path, rounds: int, seconds: float, seed: int, *, brokers: int = 1, members: int = 4) -> TorturedShares:
    """Start brokers, their load and members; kill; see what is left."""
    result, choice = TorturedShares(), random.Random(seed)
    made: AbstractContextManager[Any] = Alone(home) if brokers == 1 else Three(home)
    with made as running:
        group = Group(running.address)
        group.prepare(min(brokers, 3))
        written, workers = Written(running.address), Workers(home, running.address, members)
        written.start()
        try:
            torment(running, workers, choice, rounds, seconds, result)
            written.stopping.set()
            written.join(90)
            if not settled(group, workers):
                result.faults.append(f"the group has a lag of {group.lag()} after {SETTLE_S:.0f} s")
        finally:
            workers.stop()
            group.close()
    judge(result, workers, written)
    return result


def judge(result: TorturedShares, workers: Workers, written: Written) -> None:
    notes = workers.notes()
    history = SharesHistory(notes)
    result.records, result.deliveries = sum(map(len, written.acknowledged.values())), history.deliveries
    result.refused = Counter(words[1] for lines in notes for words in lines if words[0] == "refused" and len(words) > 1)
    result.faults += history.faults(written.acknowledged)
    result.faults += [f"{count} members of {kind} ended by themselves" for kind, count in workers.ended.items()]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.shares")
    parser.add_argument("--rounds", type=int, default=100, help="kills, of a member and of a broker in turn")
    parser.add_argument("--seconds", type=float, default=600, help="no kill begins later")
    parser.add_argument("--seed", type=int, default=0, help="of who is killed, and when")
    parser.add_argument("--brokers", type=int, default=1, choices=[1, 3])
    parser.add_argument("--members", type=int, default=4)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ottla-torture-") as home:
        result = torture(Path(home), chosen.rounds, chosen.seconds, chosen.seed, brokers=chosen.brokers, members=chosen.members)
    kills = f"{result.member_kills} members and {result.broker_kills} brokers killed"
    print(f"{kills}, {result.records} records, {result.deliveries} deliveries")
    print(
        "what clients were refused meanwhile:", ", ".join(f"{name} {count}" for name, count in result.refused.items()) or "nothing"
    )
    for fault in result.faults[:50]:
        print(fault)
    return 1 if result.faults or not result.broker_kills else 0


if __name__ == "__main__":
    sys.exit(main())
