"""`make torture-cluster`: brokers over a real ZooKeeper that are killed, stopped, paused and cut off under load.

    python -m tests.torture.cluster --faults 200
    python -m tests.torture.cluster --members ottla,3.9.1,2.8.2 --faults 40     with brokers of Apache Kafka in the same cluster

Two producers of confluent-kafka write numbered records (acks=all, min.insync.replicas=2) to a topic that every broker has a replica
of, and somebody reads along. At the end all faults are over: every replica has to be in sync again, each acknowledged record is
there once and in order, what was read along is there at its offset, and the replicas' log files are alike to the byte.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition

from ottla import KafkaError
from ottla.testing.cluster import Cluster, NotYet
from tests.support.kafka_members import kafka_member
from tests.support.zookeeper import started as started_zookeeper
from tests.torture.cluster_faults import FAULTS
from tests.torture.kills import PARTITIONS, TOPIC, Load, faults, read_all

SESSION_MS = 3000
"""ZooKeeper's tick of the tests allows up to 4 s."""
KAFKA_SESSION_MS = 6000
HEALED_S = 120
"""So long a cluster may need, on a machine as busy as it is, until all is well after a fault."""
SETTINGS = {
    "min.insync.replicas": 2,
    "replica.lag.time.max.ms": 4000,
    "offsets.topic.num.partitions": 2,
    "group.initial.rebalance.delay.ms": 0,
    "log.segment.bytes": 1 << 20,
}


class ClusterTortured(NamedTuple):
    """What was done, how many records were acknowledged, and what was wrong."""

    done: list[str]
    acknowledged: int
    wrong: list[str]


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


def log_bytes(home: Path, node_id: int, index: int) -> bytes:
    """All batches of a partition as a broker keeps them, whatever its files are cut into."""
    files = (home / str(node_id)).glob(f"**/{TOPIC}-{index}/*.log")
    return b"".join(path.read_bytes() for path in sorted(files))


def unlike(home: Path, nodes: Sequence[int]) -> list[str]:
    """The partitions whose replicas do not have the same bytes."""
    wrong = []
    for index in range(PARTITIONS):
        logs = {node_id: log_bytes(home, node_id, index) for node_id in nodes}
        if len(set(logs.values())) > 1:
            sizes = {node_id: len(log) for node_id, log in logs.items()}
            wrong.append(f"the replicas of partition {index} are not alike; their bytes: {sizes}")
    return wrong


def wait_for_progress(loads: Sequence[Load], limit_s: float = HEALED_S) -> str:
    """Until records of each producer are acknowledged that were not when this was called; else a sentence."""
    before, deadline = [load.count for load in loads], time.monotonic() + limit_s
    while any(load.count == count for load, count in zip(loads, before, strict=True)):
        if time.monotonic() > deadline:
            return f"nothing was acknowledged for {limit_s} s"
        time.sleep(0.02)
    return ""


class Torture:
    """One run over a cluster that is up."""

    def __init__(self, cluster: Cluster, choice: random.Random, names: Sequence[str], session_s: float) -> None:
        self.cluster = cluster
        self.done: list[str] = []
        self._choice = choice
        self._names = names
        self._session_s = session_s
        self._began = time.monotonic()
        with cluster.admin() as admin:
            admin.create_topic(TOPIC, PARTITIONS, len(cluster.members))
        cluster.wait_in_sync(TOPIC, timeout_s=HEALED_S)
        self.loads = [Load(f"producer-{number}", cluster.address) for number in range(2)]
        self.along = Along(cluster.address)
        for thread in (*self.loads, self.along):
            thread.start()

    def one(self) -> str:
        """Bring one fault about, and wait until the cluster is well again; a sentence if it is not."""
        name = self._choice.choice(self._names)
        try:
            what = FAULTS[name](self.cluster, self._choice, self._session_s)
        except KafkaError as error:
            what = f"{name}: {error}"
        self.done.append(f"{time.monotonic() - self._began:7.1f} s  {what}")
        print(self.done[-1], flush=True)
        try:
            self.cluster.wait_in_sync(TOPIC, timeout_s=HEALED_S)
        except NotYet as late:
            return f"after {what}: {late}"
        stuck = wait_for_progress(self.loads)
        return f"after {what}: {stuck}" if stuck else ""

    def judged(self) -> list[str]:
        """Stop the load, and say what is wrong with what it left."""
        for load in self.loads:
            load.stopping.set()
        for load in self.loads:
            load.join(90)
        found = read_all(self.cluster.address)
        self.along.stopping.set()
        self.along.join(90)
        return faults(self.loads, found) + self.along.faults(found)


def torture(home: Path, members: Sequence[str], names: Sequence[str], count: int, seed: int, limit_s: float) -> ClusterTortured:
    """Bring `count` faults about; fewer if `limit_s` is over, or once one does not heal."""
    choice, began = random.Random(seed), time.monotonic()
    others = {node_id: kafka_member(member) for node_id, member in enumerate(members, 1) if member != "ottla"}
    session_ms = KAFKA_SESSION_MS if others else SESSION_MS
    settings: dict[str, object] = {**SETTINGS, "zookeeper.session.timeout.ms": session_ms}
    if others:
        settings["inter.broker.protocol.version"] = "2.8" if "2.8.2" in members else "3.9"
    with started_zookeeper(home / "zookeeper", {"maxSessionTimeout": 2 * session_ms}) as zookeeper:
        with Cluster(f"zookeeper://{zookeeper.address}/torture", len(members), settings, home=home, members=others) as cluster:
            run = Torture(cluster, choice, names, session_ms / 1000)
            wrong: list[str] = []
            while not wrong and len(run.done) < count and time.monotonic() - began < limit_s:
                wrong = [sentence for sentence in [run.one()] if sentence]
            wrong += run.judged()
        wrong += unlike(home, list(cluster.members))
    return ClusterTortured(run.done, sum(load.count for load in run.loads), wrong)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.cluster")
    parser.add_argument("--faults", type=int, default=200, help="how many there are")
    parser.add_argument("--members", default="ottla,ottla,ottla", help="ottla, or a release of Apache Kafka, for each broker")
    parser.add_argument("--only", default=",".join(FAULTS), help="the kinds of faults")
    parser.add_argument("--seed", type=int, default=0, help="of what happens when")
    parser.add_argument("--seconds", type=float, default=3600, help="stop after so long, and say so")
    parser.add_argument("--home", type=Path, help="keep everything there")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ottla-cluster-torture-") as directory:
        names, members, home = chosen.only.split(","), chosen.members.split(","), chosen.home or Path(directory)
        done, acknowledged, wrong = torture(home, members, names, chosen.faults, chosen.seed, chosen.seconds)
    print(f"{len(done)} faults; {acknowledged} acknowledged records")
    for fault in wrong:
        print(fault)
    if wrong:
        print(f"run again: python -m tests.torture.cluster --members {chosen.members} --only {chosen.only} --seed {chosen.seed}")
    return 1 if wrong or len(done) < chosen.faults else 0


if __name__ == "__main__":
    sys.exit(main())
