"""A cluster whose brokers change while clients go on: all of them are replaced by others, or speak another protocol version.

    python -m tests.torture.replace_cluster                    Apache Kafka 3.9.1 by Ottla, broker by broker, and back
    python -m tests.torture.replace_cluster --from 2.8.2
    python -m tests.torture.replace_cluster --versions 2.8,3.9 three brokers of Ottla, one after the other

A broker is replaced as a person does it: the next one joins, every replica of the old one moves to it, it leads what the old one
led, and the old one is stopped. Who writes and reads meanwhile, and what has to be true of that, is as in `tests.torture.cluster`.
After every step the replicas' logs have to begin alike, and in the end to be alike to the byte.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.apache_kafka import Unavailable
from ottla.testing import BrokerProcess, Cluster, DidNotStart, NotYet
from ottla.testing.cluster import ClusterMember, ClusterSeat, ottla_member
from tests.support.kafka_members import kafka_member
from tests.support.zookeeper import started as started_zookeeper
from tests.torture.cluster import KAFKA_SESSION_MS, settings_of
from tests.torture.cluster_loads import HEALED_S, Loads, errors, unlike

BROKERS = 3
VERSION = "inter.broker.protocol.version"
MOVED_S = 300
STOPPED = (0, 143)
"""The exit codes of a broker that was stopped in order: Ottla's, and Java's."""


class Replacing:
    """One run over a cluster that is up."""

    def __init__(self, cluster: Cluster, loads: Loads, home: Path) -> None:
        self._cluster = cluster
        self._loads = loads
        self._home = home
        self._began = time.monotonic()

    def replace(self, old: int, made_by: Callable[[ClusterSeat], ClusterMember]) -> str:
        """Put a new broker in the place of another one; a sentence if something was wrong with it."""
        new = self._cluster.add(made_by)
        self._cluster.wait_joined(timeout_s=HEALED_S)
        self._move(old, new)
        code = self._cluster.stop(old)
        if code not in STOPPED:
            return f"broker {old} was stopped, and its exit code is {code}"
        del self._cluster.members[old]
        return self._looked_at(f"broker {old} was replaced by {new}")

    def _move(self, old: int, new: int) -> None:
        """Everything that one broker has goes to another, which is preferred where the other was. Raises `NotYet`."""
        with self._cluster.admin() as admin:
            found = admin.describe_topics(*admin.list_topics(internal=True))
            moves = {
                (name, part.partition): [new if node_id == old else node_id for node_id in part.replicas]
                for name, topic in found.items()
                for part in topic.partitions.values()
                if old in part.replicas
            }
            admin.alter_partition_reassignments(moves)

        def moved() -> bool:
            with self._cluster.admin() as admin:
                return not admin.list_partition_reassignments()

        def given() -> bool:
            with self._cluster.admin() as admin:
                admin.elect_leaders(list(moves))
            return True

        self._cluster.wait_until(moved, lambda: f"what broker {old} has is not all moved to {new}", MOVED_S)
        self._cluster.wait_until(given, lambda: f"leads of broker {old} are not given to {new}", HEALED_S)

    def speak(self, node_id: int, version: str) -> str:
        """Stop a broker of Ottla and start it with another protocol version; a sentence if something was wrong with it."""
        member = self._cluster.members[node_id]
        assert isinstance(member, BrokerProcess)
        code = self._cluster.stop(node_id)
        if code:
            return f"broker {node_id} was stopped, and its exit code is {code}"
        member.settings[VERSION] = version
        self._cluster.start(node_id)
        return self._looked_at(f"broker {node_id} speaks {version}")

    def _looked_at(self, what: str) -> str:
        """Wait until the cluster is well; a sentence if it is not."""
        print(f"{time.monotonic() - self._began:7.1f} s  {what}", flush=True)
        self._loads.wait_in_sync()
        stuck = self._loads.wait_for_progress()
        alike = unlike(self._home, list(self._cluster.members), self._loads.topics, beginnings=True)
        return "; ".join(f"after {what}: {wrong}" for wrong in (stuck, *alike) if wrong)


@contextmanager
def used(home: Path, member: str, version: str, copiers: Sequence[str]) -> Iterator[tuple[Cluster, Loads]]:
    """Three brokers of a kind, and who uses them."""
    settings = {**settings_of([member]), VERSION: version}
    others = {node_id: kafka_member(member) for node_id in range(1, BROKERS + 1) if member != "ottla"}
    with ExitStack() as stack:
        registry = stack.enter_context(started_zookeeper(home / "zookeeper", {"maxSessionTimeout": 2 * KAFKA_SESSION_MS}))
        address = f"zookeeper://{registry.address}/replaced"
        cluster = stack.enter_context(Cluster(address, BROKERS, settings, home=home, members=others))
        yield cluster, stack.enter_context(Loads(cluster, home, copiers))


def steps(run: Replacing, cluster: Cluster, member: str, versions: Sequence[str]) -> Iterator[str]:
    """What is done, one thing after the other, and each time what was wrong with it."""
    if versions:
        for node_id in list(cluster.members):
            yield run.speak(node_id, versions[-1])
        return
    for made_by in (ottla_member, kafka_member(member)):
        for node_id in list(cluster.members):
            yield run.replace(node_id, made_by)


def replaced(home: Path, member: str, versions: Sequence[str], copiers: Sequence[str]) -> list[str]:
    """What was wrong, in the end or before."""
    version = versions[0] if versions else ".".join(member.split(".")[:2])
    with used(home, "ottla" if versions else member, version, copiers) as (cluster, loads):
        run = Replacing(cluster, loads, home)
        try:
            wrong = next(filter(None, steps(run, cluster, member, versions)), "")
        except (NotYet, DidNotStart, Unavailable, subprocess.TimeoutExpired) as late:
            wrong = str(late)
        print(loads.acknowledged)
        judged = loads.judged() + (loads.refused if versions else [])
        nodes = list(cluster.members)
    return [*filter(None, [wrong]), *judged, *unlike(home, nodes, loads.topics), *errors(home)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.replace_cluster")
    parser.add_argument("--from", dest="member", default="3.9.1", help="the release of Apache Kafka that is there at first")
    parser.add_argument(
        "--versions", default="", help="change Ottla's protocol version from the first to the second of these instead"
    )
    parser.add_argument(
        "--copiers", default="confluent-kafka", help="who copies with transactions: confluent-kafka or java, or nobody"
    )
    parser.add_argument("--home", type=Path, help="keep everything there")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ottla-replaced-") as directory:
        versions, copiers = (list(filter(None, words.split(","))) for words in (chosen.versions, chosen.copiers))
        wrong = replaced(chosen.home or Path(directory), chosen.member, versions, copiers)
    for sentence in wrong:
        print(sentence)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
