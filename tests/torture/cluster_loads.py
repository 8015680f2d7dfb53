"""Who uses a cluster while it is tormented, and what must be true of what they wrote and read.

Two producers of confluent-kafka write numbered records (acks=all) to a topic that every broker has a replica of, and somebody reads
along. With copiers (`tests.torture.transactions`), programs of confluent-kafka and Java share the partitions of another topic as a
group, and copy its records to two more, a transaction at a time with the offsets inside; somebody reads what is committed there.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from confluent_kafka import Consumer, TopicPartition

from ottla.testing import BrokerProcess
from ottla.testing.cluster import Cluster
from tests.support.watched import bad_entries, unexpected
from tests.torture import transactions
from tests.torture.kills import PARTITIONS, TOPIC, Load, faults, read_all

HEALED_S = 120
"""So long a cluster may need, on a machine as busy as it is, until all is well after a fault."""
JOIN_S = 90
NO_SPACE = "No space left on device"


class Along(threading.Thread):
    """Somebody who reads every partition while all this goes on, and remembers what was where."""

    def __init__(self, address: str) -> None:
        super().__init__(name="along", daemon=True)
        self.seen: dict[int, dict[int, bytes]] = {index: {} for index in range(PARTITIONS)}
        self.wrong: list[str] = []
        self.stopping = threading.Event()
        settings = {"bootstrap.servers": address, "group.id": "along", "enable.auto.commit": False, "log_level": 0}
        self._consumer = Consumer({**settings, "auto.offset.reset": "error", "reconnect.backoff.max.ms": 100})
        self._consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])

    def run(self) -> None:
        while not self.stopping.is_set():
            for message in self._consumer.consume(1000, timeout=0.1):
                if message.error() is not None:
                    self.wrong.append(f"who reads along was told: {message.error()}")
                    continue
                index, offset, value = message.partition(), message.offset(), message.value() or b""
                assert index is not None
                assert offset is not None
                if self.seen[index].setdefault(offset, value) != value:
                    self.wrong.append(f"offset {offset} of partition {index} was read twice, and was not the same")
        self._consumer.close()

    def faults(self, found: dict[int, list[tuple[str, int]]]) -> list[str]:
        """What was read and is not there in the end. Without compaction, offsets of a topic have no gaps."""
        wrong = self.wrong[:3]
        for index, seen in self.seen.items():
            records = found[index]
            for offset, value in seen.items():
                name, number, _ = value.split(b" ", 2)
                if offset >= len(records) or records[offset] != (name.decode(), int(number)):
                    wrong.append(f"offset {offset} of partition {index} was read, and is not there any more")
                    break
        return wrong


class Numbered:
    """The producers of numbered records, and who reads along."""

    topics: Mapping[str, int] = {TOPIC: PARTITIONS}

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._loads = [Load(f"producer-{number}", cluster.address) for number in range(2)]
        self._along = Along(cluster.address)
        for thread in (*self._loads, self._along):
            thread.start()

    @property
    def acknowledged(self) -> str:
        return f"{sum(load.count for load in self._loads)} acknowledged records"

    @property
    def heard(self) -> list[str]:
        """What clients said last."""
        return [f"{load.name} ({load.count}): {sentence}" for load in self._loads for sentence in load.heard]

    def progress(self) -> Callable[[], bool]:
        """Whether records of each producer were acknowledged since this was called."""
        before = [load.count for load in self._loads]
        return lambda: all(load.count > count for load, count in zip(self._loads, before, strict=True))

    def end(self) -> None:
        """Nobody writes or reads any more."""
        for stopping in (self._along.stopping, *(load.stopping for load in self._loads)):
            stopping.set()

    def judged(self) -> list[str]:
        """Stop them, and say what is wrong with what they left."""
        for load in self._loads:
            load.stopping.set()
        for load in self._loads:
            load.join(JOIN_S)
        found = read_all(self._cluster.address)
        self.end()
        self._along.join(JOIN_S)
        return faults(self._loads, found) + self._along.faults(found)


class Copying:
    """A group of copiers, who feeds them, and who reads what they committed. Raises `Unavailable` where a copier cannot be had."""

    topics: Mapping[str, int] = dict.fromkeys((transactions.SOURCE, *transactions.TARGETS), transactions.PARTITIONS)

    def __init__(self, cluster: Cluster, home: Path, kinds: Sequence[str]) -> None:
        home.mkdir(parents=True)
        self.refused: Counter[str] = Counter()
        """What copiers were told and went on after, by the name of the error, once they are judged."""
        self._cluster = cluster
        self._load, self._live = transactions.Load(cluster.address), transactions.Reader(cluster.address)
        self._copiers = transactions.Copiers(home, cluster.address, [(kind, "classic") for kind in kinds])
        self._load.start()
        self._live.start()

    def _commits(self) -> int:
        """How many transactions all lives of all copiers were told are committed."""
        return sum(line.startswith("committed ") for _, lines in self._copiers.notes() for line in lines)

    @property
    def acknowledged(self) -> str:
        return f"{self._commits()} committed transactions"

    @property
    def heard(self) -> list[str]:
        """What copiers noted last."""
        return [f"{life}: {line}" for life, lines in self._copiers.notes() for line in lines[-1:]]

    def progress(self) -> Callable[[], bool]:
        """Whether a transaction was committed since this was called. Copiers that ended by themselves are started again."""
        before = self._commits()

        def progressed() -> bool:
            self._copiers.address = self._cluster.address
            self._copiers.mend()
            return self._commits() > before

        return progressed

    def end(self) -> None:
        """Nobody copies any more."""
        self._load.stopping.set()
        self._live.stopping.set()
        self._copiers.stop()

    def judged(self) -> list[str]:
        """Wait until all is copied, stop them, and say what is wrong with what they left."""
        self._load.stopping.set()
        self._load.join(JOIN_S)
        result = transactions.Tortured()
        result.faults += transactions.settle(self._cluster.address, self._copiers, self._load.ends())
        self.end()
        self._live.join(JOIN_S)
        has_kafka = not all(isinstance(member, BrokerProcess) for member in self._cluster.members.values())
        final = transactions.read_all(self._cluster.address)
        transactions.judge(result, self._load, self._copiers, self._live, final, ends_are_late=has_kafka)
        self.refused = result.refused
        told = f"transactions: {dict(result.transactions)}; copiers were refused: {dict(result.refused)}"
        print(f"{told}; given others than the next records: {result.jumps} times; hung: {result.hung} times", flush=True)
        return result.faults


class Loads:
    """Everybody who uses a cluster. A context manager: leaving ends the copiers, whatever happened."""

    def __init__(self, cluster: Cluster, home: Path, copiers: Sequence[str]) -> None:
        """`copiers` are kinds of `tests.torture.transactions`, and without any there are no transactions; `home` is for notes."""
        self._cluster = cluster
        topics = {**Numbered.topics, **(Copying.topics if copiers else {})}
        self.topics = topics
        with cluster.admin() as admin:
            for topic, partitions in topics.items():
                admin.create_topic(topic, partitions, len(cluster.members))
        self.wait_in_sync()
        self._all: list[Numbered | Copying] = [Numbered(cluster)]
        if copiers:
            self._all.append(Copying(cluster, home / "copiers", copiers))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for load in self._all:
            load.end()

    def wait_in_sync(self) -> None:
        """Raises `NotYet`."""
        self._cluster.wait_in_sync(*self.topics, timeout_s=HEALED_S)

    def wait_for_progress(self, limit_s: float = HEALED_S) -> str:
        """Until everybody got something done that was not when this was called; else a sentence."""
        deadline = time.monotonic() + limit_s
        waiting = {type(load).__name__: load.progress() for load in self._all}
        while waiting := {name: progressed for name, progressed in waiting.items() if not progressed()}:
            if time.monotonic() > deadline:
                return (
                    f"{' and '.join(waiting)} got nothing done for {limit_s} s; clients said {[load.heard for load in self._all]}"
                )
            time.sleep(0.05)
        return ""

    @property
    def refused(self) -> list[str]:
        """What copiers were told and went on after, once they are judged."""
        found = [load.refused for load in self._all if isinstance(load, Copying)]
        return [f"copiers were told {count} times {name}" for refused in found for name, count in refused.items()]

    @property
    def acknowledged(self) -> str:
        return ", ".join(load.acknowledged for load in self._all)

    def judged(self) -> list[str]:
        """Stop everybody, and say what is wrong with what they left."""
        return [sentence for load in self._all for sentence in load.judged()]


def errors(home: Path) -> list[str]:
    """What Ottla's brokers below `home` logged as errors, in whichever of their lives, but for a full disk; of each the first.

    Apache Kafka, whose log is another file, writes errors where all goes as it should.
    """
    logs = {path.stem: path.read_text(errors="replace") for path in sorted(home.glob("*.log"))}
    found = {name: unexpected(bad_entries(log), [NO_SPACE]) for name, log in logs.items()}
    return [f"{len(bad)} errors in the log of broker {name}, such as: {bad[0].strip()}" for name, bad in found.items() if bad]


def batches(home: Path, topic: str, index: int) -> bytes:
    """All batches of a partition as a broker keeps them below `home`, whatever its files are cut into."""
    return b"".join(path.read_bytes() for path in sorted(home.glob(f"**/{topic}-{index}/*.log")))


def unlike(home: Path, nodes: Sequence[int], topics: Mapping[str, int], *, beginnings: bool = False) -> list[str]:
    """The partitions whose replicas do not have the same bytes; of `beginnings`, as far as each has them while more is written."""
    wrong = []
    for topic, partitions in topics.items():
        for index in range(partitions):
            logs = {node_id: batches(home / str(node_id), topic, index) for node_id in nodes}
            least = min(map(len, logs.values())) if beginnings else None
            if len({log[:least] for log in logs.values()}) > 1:
                sizes = {node_id: len(log) for node_id, log in logs.items()}
                wrong.append(f"the replicas of {topic}-{index} are not alike; their bytes: {sizes}")
    return wrong
