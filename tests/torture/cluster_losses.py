"""Faults that lose a broker's data directory or hide a leader epoch from a leader: `cluster_faults` has the other ones.

A directory is lost only while every partition has another replica in sync, which keeps its own.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from ottla.testing import DidNotStart
from ottla.testing.cluster import Cluster
from ottla.testing.port_forwarding import REGISTRY
from tests.torture.cluster_faults import (
    ANSWER_S,
    Fault,
    NoFault,
    any_of,
    elected_by_request,
    leaders,
    reassign,
    replicas_of,
    the_controller,
)
from tests.torture.kills import TOPIC

TOLD = "is empty or older than the one it registered with last"
"""How a broker is refused whose directory is lost, while others could not be asked to take it out of the in-sync sets."""


def lost(home: Path, node_id: int) -> None:
    """Remove all that a broker's data directory holds. The directory itself may be a file system of its own."""
    for path in (home / str(node_id)).iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def check_replaceable(cluster: Cluster, node_id: int) -> None:
    """Raises `NoFault` where this broker alone is in sync of some partition."""
    with cluster.admin() as admin:
        topics = admin.describe_topics(*admin.list_topics(internal=True))
        alone = [name for name, topic in topics.items() for part in topic.partitions.values() if list(part.isr) == [node_id]]
    if alone:
        raise NoFault(f"broker {node_id} alone is in sync of a partition of {alone[0]}")


def disk_lost(home: Path) -> Fault:
    """A broker dies and its directory is gone; it is started at once, or when its session has ended."""

    def happen(cluster: Cluster, choice: random.Random, session_s: float) -> str:
        node_id = the_controller(cluster) if choice.random() < 0.5 else any_of(cluster, choice)
        check_replaceable(cluster, node_id)
        cluster.kill(node_id)
        lost(home, node_id)
        time.sleep(choice.choice([0.0, choice.uniform(0, 2 * session_s)]))
        cluster.start(node_id)
        return f"broker {node_id} lost its directory"

    return happen


def all_killed(home: Path) -> Fault:
    """All brokers die, perhaps one of them loses its directory, and they are started in any order."""

    def happen(cluster: Cluster, choice: random.Random, session_s: float) -> str:
        order = choice.sample(list(cluster.members), len(cluster.members))
        loser = choice.choice(order) if choice.random() < 0.7 else None
        if loser is not None:
            check_replaceable(cluster, loser)
        for node_id in order:
            cluster.kill(node_id)
        if loser is not None:
            lost(home, loser)
        time.sleep(choice.choice([0.0, choice.uniform(0, 2 * session_s)]))
        refused = [node_id for node_id in order if not _started(cluster, node_id, may_be_refused=node_id == loser)]
        for node_id in refused:
            cluster.start(node_id)
        gone = "" if loser is None else f", broker {loser} lost its directory{' and was refused at first' if refused else ''}"
        return f"all brokers were killed and started in the order {order}{gone}"

    return happen


def _started(cluster: Cluster, node_id: int, *, may_be_refused: bool) -> bool:
    try:
        cluster.start(node_id)
    except DidNotStart as refusal:
        if not may_be_refused or TOLD not in str(refusal):
            raise
        return False
    return True


def cut_one_way(cluster: Cluster, choice: random.Random, session_s: float) -> str:
    """Nothing that a broker sends arrives, at other brokers or at ZooKeeper either; or nothing arrives that is sent to it."""
    node_id = any_of(cluster, choice)
    others: Sequence[int] = [other for other in (*cluster.members, REGISTRY) if other != node_id]
    if choice.random() < 0.5:
        others = [other for other in others if other != REGISTRY]
    sends = choice.random() < 0.5
    for other in others:
        cluster.cut(*((node_id, other) if sends else (other, node_id)), both=False)
    for_s = choice.uniform(0.5, 2 * session_s)
    time.sleep(for_s)
    cluster.mend()
    return f"nothing {'from' if sends else 'to'} broker {node_id} arrived at {others} for {for_s:.1f} s"


def epoch_missed(cluster: Cluster, choice: random.Random, session_s: float) -> str:
    """A leader does not notice that a replica led in between which was paused and elected, and then killed."""
    nodes = list(cluster.members)
    controller = the_controller(cluster)
    preferred = controller if choice.random() < 0.7 else choice.choice(nodes)
    leader = choice.choice([node_id for node_id in nodes if node_id != preferred])
    partitions = _lead_beside(cluster, leader, preferred)
    cluster.pause(preferred)
    time.sleep(choice.uniform(0.1, session_s / 4))
    for other in nodes:
        if other != leader:
            cluster.cut(leader, other)
    cluster.resume(preferred)
    with suppress(Exception):  # the answer may not come: whether it was elected or not, what follows must lose nothing
        elected_by_request(cluster, partitions)
    time.sleep(choice.uniform(0, session_s / 4))
    cluster.kill(preferred)
    cluster.mend()
    time.sleep(choice.uniform(0, 2 * session_s))
    cluster.start(preferred)
    return f"broker {leader} missed that {preferred} was elected"


def _lead_beside(cluster: Cluster, leader: int, preferred: int) -> list[int]:
    """Have one broker lead all partitions of which another one is the first replica; returns them."""
    replicas = replicas_of(cluster)
    partitions = list(replicas)
    for first in (leader, preferred):
        orders = {index: [first, *_others(nodes, first)] for index, nodes in replicas.items()}
        reassign(cluster, orders)
        cluster.wait_until(partial(_are, cluster, orders), lambda: "replicas still move", ANSWER_S)
        if first == leader:
            elected_by_request(cluster, partitions)
    if set(leaders(cluster).values()) != {leader}:
        raise NoFault(f"broker {leader} does not lead all partitions of {TOPIC}")
    return partitions


def _are(cluster: Cluster, orders: dict[int, list[int]]) -> bool:
    return replicas_of(cluster) == orders


def _others(nodes: Iterable[int], first: int) -> list[int]:
    return [node_id for node_id in nodes if node_id != first]


def losses(home: Path) -> dict[str, Fault]:
    """The faults by name, for brokers whose directories are below `home`."""
    return {
        "disk-lost": disk_lost(home),
        "all-killed": all_killed(home),
        "cut-one-way": cut_one_way,
        "epoch-missed": epoch_missed,
    }
