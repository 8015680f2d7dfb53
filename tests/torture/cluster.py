"""`make torture-cluster`: brokers over a real ZooKeeper that are killed, stopped, paused, cut off and robbed of disks under load.

    python -m tests.torture.cluster --faults 200
    python -m tests.torture.cluster --members ottla,3.9.1,2.8.2 --faults 40     with brokers of Apache Kafka in the same cluster
    python -m tests.torture.cluster --copiers confluent-kafka,java              with transactions, and a group

Faults of each kind come equally often, and one that could not take place does not count. At the end all of them are over: every
replica has to be in sync again, each acknowledged record is there once and in order, what was read along is there at its offset,
transactions are whole (`tests.torture.cluster_loads` says who writes and reads), the replicas' log files are alike to the byte, and
no broker has logged an error but of a disk that was filled.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench.apache_kafka import Unavailable
from ottla import KafkaError
from ottla.testing import Cluster, DidNotStart, NotYet
from tests.support.kafka_members import kafka_member
from tests.support.namespaces import Namespaces, why_not
from tests.support.zookeeper import started as started_zookeeper
from tests.torture.cluster_faults import FAULTS, Bag, Fault, NoFault, disk_full, own_disk
from tests.torture.cluster_loads import Loads, errors, unlike
from tests.torture.cluster_losses import losses

SESSION_MS = 3000
"""ZooKeeper's tick of the tests allows up to 4 s."""
KAFKA_SESSION_MS = 6000
DISK_BYTES = 1 << 30
DISK_FULL = "disk-full"
NAMESPACES = "namespaces"
IN_VAIN = 20
"""So many faults in a row that could not take place are a fault of their own."""
SETTINGS: Mapping[str, object] = {
    "min.insync.replicas": 2,
    "replica.lag.time.max.ms": 4000,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "transaction.state.log.replication.factor": 3,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
    "group.initial.rebalance.delay.ms": 0,
    "log.segment.bytes": 1 << 20,
}


class Bounds(NamedTuple):
    """How many faults there are to be, and for how long at most."""

    faults: int
    limit_s: float


class ClusterTortured(NamedTuple):
    """How many faults of each kind there were, what was acknowledged meanwhile, and what was wrong."""

    done: Counter[str]
    acknowledged: str
    wrong: list[str]


class Torture:
    """One run over a cluster that is up."""

    def __init__(
        self, cluster: Cluster, loads: Loads, kinds: Mapping[str, Fault], choice: random.Random, session_s: float, bounds: Bounds
    ) -> None:
        self.done: list[str] = []
        """The kinds of faults that took place."""
        self._bounds = bounds
        self._cluster = cluster
        self._loads = loads
        self._kinds = kinds
        self._bag = Bag(list(kinds), choice)
        self._choice = choice
        self._session_s = session_s
        self._began = time.monotonic()
        self._in_vain = 0

    def one(self) -> str:
        """Bring one fault about, and wait until the cluster is well again; a sentence if it is not."""
        name = self._bag.take()
        try:
            what = self._kinds[name](self._cluster, self._choice, self._session_s)
        except (NoFault, KafkaError) as none:
            self._in_vain += 1
            self._say(f"(none: {name}: {none})")
            self._restore()
            return f"{IN_VAIN} faults in a row could not take place" if self._in_vain >= IN_VAIN else ""
        except (NotYet, DidNotStart, Unavailable, subprocess.TimeoutExpired) as wrong:
            return f"{name}: {wrong}"
        self._in_vain = 0
        self.done.append(name)
        self._say(what)
        try:
            self._loads.wait_in_sync()
        except NotYet as late:
            return f"after {what}: {late}"
        stuck = self._loads.wait_for_progress()
        return f"after {what}: {stuck}" if stuck else ""

    def well_again(self) -> list[str]:
        """Wait for all replicas to be in sync; a sentence if they are not in time."""
        try:
            self._loads.wait_in_sync()
        except NotYet as late:
            return [f"in the end: {late}"]
        return []

    @property
    def goes_on(self) -> bool:
        """Whether there is to be one more."""
        return len(self.done) < self._bounds.faults and time.monotonic() - self._began < self._bounds.limit_s

    def _say(self, what: str) -> None:
        took_s, count = time.monotonic() - self._began, self._bounds.faults
        left_s = self._bounds.limit_s - took_s
        if self.done:
            left_s = min(left_s, took_s / len(self.done) * (count - len(self.done)))
        print(f"{took_s:7.1f} s  {len(self.done):3} of {count}, {max(0, left_s):4.0f} s left: {what}", flush=True)

    def _restore(self) -> None:
        """What a fault began that could not be ended."""
        self._cluster.mend()
        for node_id, member in self._cluster.members.items():
            if not member.is_running:
                self._cluster.start(node_id)


def settings_of(members: Sequence[str]) -> dict[str, object]:
    """Of all brokers of a cluster with such members: its protocol is what the oldest speaks."""
    is_mixed = any(member != "ottla" for member in members)
    settings: dict[str, object] = {**SETTINGS, "zookeeper.session.timeout.ms": KAFKA_SESSION_MS if is_mixed else SESSION_MS}
    if is_mixed:
        settings["inter.broker.protocol.version"] = "2.8" if "2.8.2" in members else "3.9"
    return settings


def torture(
    home: Path,
    members: Sequence[str],
    names: Sequence[str],
    copiers: Sequence[str],
    bounds: Bounds,
    *,
    seed: int,
    in_namespaces: bool,
) -> ClusterTortured:
    """Bring so many faults about; fewer if their time is over, or once one does not heal.

    Brokers are cut off from each other by losing packets if they live `in_namespaces`, and else by ports that pass on nothing.
    """
    settings, kinds = settings_of(members), {**FAULTS, **losses(home)}
    session_ms = int(str(settings["zookeeper.session.timeout.ms"]))
    others = {node_id: kafka_member(member) for node_id, member in enumerate(members, 1) if member != "ottla"}
    wrong: list[str] = []
    with ExitStack() as stack:
        if DISK_FULL in names:
            if stack.enter_context(own_disk(home / "1", DISK_BYTES)):
                kinds[DISK_FULL] = disk_full(home / "1", 1)
            else:
                print(f"skipped: {DISK_FULL}: this user may not mount a file system", flush=True)
        zookeeper = {"maxSessionTimeout": 2 * session_ms, "clientPortAddress": "0.0.0.0" if in_namespaces else "127.0.0.1"}
        registry = stack.enter_context(started_zookeeper(home / "zookeeper", zookeeper))
        chosen = {name: fault for name, fault in kinds.items() if name in names}
        address, wiring = f"zookeeper://{registry.address}/torture", Namespaces() if in_namespaces else None
        cluster = Cluster(address, len(members), settings, home=home, members=others, wiring=wiring)
        with cluster, Loads(cluster, home, copiers) as loads:
            run = Torture(cluster, loads, chosen, random.Random(seed), session_ms / 1000, bounds)
            while not wrong and run.goes_on:
                wrong += [sentence for sentence in [run.one()] if sentence]
            if not wrong:
                wrong += run.well_again()
            acknowledged = loads.acknowledged
            wrong += loads.judged()
        wrong += unlike(home, list(cluster.members), loads.topics)
        wrong += errors(home)
    return ClusterTortured(Counter(run.done), acknowledged, wrong)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.cluster")
    parser.add_argument("--faults", type=int, default=200, help="how many there are")
    parser.add_argument("--members", default="ottla,ottla,ottla", help="ottla, or a release of Apache Kafka, for each broker")
    parser.add_argument(
        "--only",
        default=",".join([*FAULTS, *losses(Path()), DISK_FULL]),
        help="the kinds of faults; a full disk needs the right to mount",
    )
    parser.add_argument("--copiers", default="", help="who copies with transactions: confluent-kafka or java, of which several")
    parser.add_argument("--seed", type=int, default=0, help="of what happens when")
    parser.add_argument("--seconds", type=float, default=3600, help="stop after so long, and say so")
    parser.add_argument("--home", type=Path, help="keep everything there")
    parser.add_argument(
        "--network",
        default=NAMESPACES,
        choices=[NAMESPACES, "ports"],
        help="what is cut: packets are lost, or ports pass on nothing",
    )
    chosen = parser.parse_args()
    members, names, copiers = (
        chosen.members.split(","),
        chosen.only.split(","),
        [kind for kind in chosen.copiers.split(",") if kind],
    )
    reason = why_not() if chosen.network == NAMESPACES else ""
    if reason:
        print(f"skipped: {NAMESPACES}: {reason}; ports are cut instead", flush=True)
    in_namespaces = chosen.network == NAMESPACES and not reason
    with tempfile.TemporaryDirectory(prefix="ottla-cluster-torture-") as directory:
        home, bounds = chosen.home or Path(directory), Bounds(chosen.faults, chosen.seconds)
        done, acknowledged, wrong = torture(home, members, names, copiers, bounds, seed=chosen.seed, in_namespaces=in_namespaces)
    print(f"{done.total()} faults with seed {chosen.seed}; {acknowledged}; {dict(done)}")
    for fault in wrong:
        print(fault)
    if wrong:
        again = f"--network {chosen.network}"
        again += f" --members {chosen.members} --only {chosen.only} --copiers '{chosen.copiers}' --seed {chosen.seed}"
        print(f"run again: python -m tests.torture.cluster {again}")
    return 1 if wrong or done.total() < chosen.faults else 0


if __name__ == "__main__":
    sys.exit(main())
