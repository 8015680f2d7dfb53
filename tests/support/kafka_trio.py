"""Three brokers of Apache Kafka with a controller each, of which one at a time is killed and comes back."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

import ottla
from bench.apache_kafka import ApacheKafka

CLUSTER_ID = "b3R0bGEta2Fma2EtdHJpbw"
OPTIONS = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
SETTINGS: dict[str, object] = {
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": 8,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "transaction.state.log.num.partitions": 8,
    "controlled.shutdown.enable": "false",
    "broker.session.timeout.ms": 6_000,
    "unclean.leader.election.enable": "false",
}
SYNC_S = 60


class KafkaTrio:
    """A cluster whose `restart(kill=True)` kills the next broker, and starts the one that was killed before. A context manager.

    Raises `Unavailable`.
    """

    def __init__(self, home: Path, settings: dict[str, object]) -> None:
        self._nodes = [ApacheKafka(home / f"node-{number}", options=OPTIONS, cluster_id=CLUSTER_ID) for number in (1, 2, 3)]
        voters = ",".join(f"{number}@{node.host}:{node.controller_port}" for number, node in enumerate(self._nodes, 1))
        for number, node in enumerate(self._nodes, 1):
            node.settings = {**SETTINGS, **settings, "node.id": number, "controller.quorum.voters": voters}
        self._killed: ApacheKafka | None = None
        self._next = 0

    @property
    def address(self) -> str:
        return ",".join(node.address for node in self._nodes)

    def start(self) -> Self:
        """Start all nodes at once: none answers before two controllers have elected one of them."""
        with ThreadPoolExecutor(len(self._nodes)) as starting:
            list(starting.map(ApacheKafka.start, self._nodes))
        return self

    def restart(self, *, kill: bool = True) -> Self:
        """Kill the leader of many partitions, once the broker that was killed before has all their records again."""
        assert kill, "brokers are never stopped in order"
        self.mend()
        self._killed = self._nodes[self._next]
        self._next = (self._next + 1) % len(self._nodes)
        self._killed.kill()
        return self

    def mend(self) -> None:
        """Start the killed broker, and wait until all replicas are in sync, with leaders on all brokers."""
        if self._killed is None:
            return
        self._killed.start()
        self._killed = None
        deadline = time.monotonic() + SYNC_S
        with ottla.Admin(self.address) as admin:
            while not self._is_whole(admin):
                assert time.monotonic() < deadline, "replicas are still out of sync"
                time.sleep(0.2)
            admin.elect_leaders()

    def _is_whole(self, admin: ottla.Admin) -> bool:
        topics = admin.describe_topics(*admin.list_topics()).values()
        return all(len(found.isr) == len(self._nodes) for topic in topics for found in topic.partitions.values())

    def stop(self) -> None:
        for node in self._nodes:
            node.kill()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
