"""What befalls the brokers of a cluster, one thing at a time: each begins, lasts a while, and is over when its function returns.

A fault that cannot take place, as when there is no controller to kill, raises `NoFault` and does not count; one that the cluster
does not go along with, as when a leader that is asked for does not lead, raises `NotYet`.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from ottla.testing.cluster import Cluster, NotYet
from ottla.testing.port_forwarding import REGISTRY
from tests.support.disks import fill_to_the_last_block
from tests.torture.kills import TOPIC

Fault: TypeAlias = Callable[[Cluster, random.Random, float], str]
"""(cluster, choice, how long a session may live in s) -> what was done, for the log."""
ANSWER_S = 60


class NoFault(Exception):
    """It could not take place; the text says why."""


def any_of(cluster: Cluster, choice: random.Random) -> int:
    return choice.choice(list(cluster.members))


@contextmanager
def zookeeper(cluster: Cluster) -> Iterator[KazooClient]:
    """A session that no cut concerns."""
    with closing(KazooClient(cluster.registry, timeout=4)) as client:
        client.start(ANSWER_S)
        yield client
        client.stop()


def killed(cluster: Cluster, choice: random.Random, session_s: float) -> str:
    """A broker dies, and is started again sooner or later than its session ends."""
    node_id = any_of(cluster, choice)
    cluster.kill(node_id)
    time.sleep(choice.choice([0.0, choice.uniform(0, 2 * session_s)]))
    cluster.start(node_id)
    return f"broker {node_id} was killed"


def two_killed(cluster: Cluster, choice: random.Random, session_s: float) -> str:
    """Two brokers die at once: nothing can be written until one of them is back."""
    nodes = choice.sample(list(cluster.members), 2)
    for node_id in nodes:
        cluster.kill(node_id)
    time.sleep(choice.uniform(0, session_s))
    for node_id in nodes:
        cluster.start(node_id)
    return f"brokers {nodes} were killed"


def controller_killed(cluster: Cluster, choice: random.Random, session_s: float) -> str:
    """The controller dies."""
    node_id = the_controller(cluster)
    cluster.kill(node_id)
    time.sleep(choice.uniform(0, 2 * session_s))
    cluster.start(node_id)
    return f"broker {node_id}, the controller, was killed"


def the_controller(cluster: Cluster) -> int:
    """Raises `NoFault`."""
    node_id = cluster.controller()
    if node_id not in cluster.members:
        raise NoFault("there is no controller")
    return node_id


def controller_moved(cluster: Cluster, choice: random.Random, session_s: float) -> str:
    """Another broker becomes the controller: what says who it is goes while nobody else reaches ZooKeeper."""
    before = the_controller(cluster)
    wanted = choice.choice([node_id for node_id in cluster.members if node_id != before])
    make_controller(cluster, wanted, session_s / 2)
    return f"the controller was moved from broker {before} to {wanted}"


def make_controller(cluster: Cluster, wanted: int, limit_s: float) -> None:
    """Return once this broker is the controller. Raises `NoFault` if it does not begin to be one in time, and `NotYet`."""
    for node_id in cluster.members:
        if node_id != wanted:
            cluster.cut(node_id, REGISTRY)
    try:
        with zookeeper(cluster) as client, suppress(NoNodeError):
            client.delete("/controller")
        cluster.wait_until(lambda: controller_entry(cluster) is not None, timeout_s=limit_s)
    except NotYet:
        raise NoFault(f"broker {wanted} did not become the controller in time") from None
    finally:
        cluster.mend()
    cluster.wait_until(lambda: cluster.controller() == wanted, lambda: f"broker {wanted} is not the controller", ANSWER_S)


def controller_entry(cluster: Cluster) -> bytes | None:
    with zookeeper(cluster) as client, suppress(NoNodeError):
        value, _ = client.get("/controller")
        return bytes(value)
    return None


def stopped(cluster: Cluster, choice: random.Random, session_s: float) -> str:
    """A broker is stopped in order, and started again."""
    node_id = any_of(cluster, choice)
    code = cluster.stop(node_id)
    time.sleep(choice.uniform(0, session_s))
    cluster.start(node_id)
    return f"broker {node_id} was stopped (exit code {code})"


def paused(cluster: Cluster, choice: random.Random, session_s: float) -> str:
    """A broker stands still, perhaps for longer than its session lives, and goes on as if nothing had been."""
    node_id = any_of(cluster, choice)
    cluster.pause(node_id)
    for_s = choice.uniform(0.2, 2 * session_s)
    time.sleep(for_s)
    cluster.resume(node_id)
    return f"broker {node_id} stood still for {for_s:.1f} s"


def registry_away(cluster: Cluster, choice: random.Random, session_s: float) -> str:
    """A broker does not reach ZooKeeper, and does again before its session ends, or soon after."""
    node_id = any_of(cluster, choice)
    for_s = choice.uniform(0.2, 1.2 * session_s)
    cluster.cut(node_id, REGISTRY)
    time.sleep(for_s)
    cluster.mend()
    return f"broker {node_id} did not reach ZooKeeper for {for_s:.1f} s"


def session_dropped(cluster: Cluster, choice: random.Random, session_s: float) -> str:
    """A broker does not reach ZooKeeper until its session has ended, and perhaps for longer."""
    node_id = any_of(cluster, choice)
    cluster.cut(node_id, REGISTRY)
    try:
        with zookeeper(cluster) as client:
            cluster.wait_until(lambda: client.exists(f"/brokers/ids/{node_id}") is None, timeout_s=5 * session_s)
    except NotYet:
        raise NoFault(f"the session of broker {node_id} did not end") from None
    time.sleep(choice.choice([0.0, choice.uniform(0, session_s)]))
    cluster.mend()
    return f"broker {node_id} lost its session"


def links_cut(cluster: Cluster, choice: random.Random, session_s: float) -> str:
    """Two brokers do not reach each other, or one does not reach the other."""
    one, two = choice.sample(list(cluster.members), 2)
    both = choice.random() < 0.5
    cluster.cut(one, two, both=both)
    for_s = choice.uniform(0.5, 2 * session_s)
    time.sleep(for_s)
    cluster.mend()
    return f"{one} {'and' if both else 'to'} {two} were cut for {for_s:.1f} s"


def isolated(cluster: Cluster, choice: random.Random, session_s: float) -> str:
    """A broker reaches neither the others nor ZooKeeper; clients go on reaching it."""
    node_id = any_of(cluster, choice)
    for other in (*cluster.members, REGISTRY):
        if other != node_id:
            cluster.cut(node_id, other)
    for_s = choice.uniform(0.5, 2 * session_s)
    time.sleep(for_s)
    cluster.mend()
    return f"broker {node_id} was alone for {for_s:.1f} s"


def leaders_moved(cluster: Cluster, choice: random.Random, session_s: float) -> str:
    """Each partition gets another order of replicas, and the first of them leads it then."""
    orders = {index: choice.sample(replicas, len(replicas)) for index, replicas in replicas_of(cluster).items()}
    elect, how = choice.choice([(elected_by_request, "by request"), (elected_by_command, "by ottla cluster elect")])
    return f"leaders were moved {how}: {led_by_first(cluster, orders, elect)}"


def led_by_one(cluster: Cluster, choice: random.Random, session_s: float) -> str:
    """One broker leads everything."""
    node_id = any_of(cluster, choice)
    replicas = replicas_of(cluster)
    orders = {index: [node_id, *(other for other in nodes if other != node_id)] for index, nodes in replicas.items()}
    return f"all leaders were moved to broker {node_id}: {led_by_first(cluster, orders)}"


def replicas_of(cluster: Cluster) -> dict[int, list[int]]:
    with cluster.admin() as admin:
        return {index: list(part.replicas) for index, part in admin.describe_topics(TOPIC)[TOPIC].partitions.items()}


def elected_by_request(cluster: Cluster, partitions: Sequence[int]) -> None:
    with cluster.admin() as admin:
        admin.elect_leaders([(TOPIC, index) for index in partitions])


def elected_by_command(cluster: Cluster, partitions: Sequence[int]) -> None:
    chosen = [part for index in partitions for part in ("--topic", f"{TOPIC}:{index}")]
    command = [sys.executable, "-m", "ottla", "cluster", "elect", "--bootstrap-server", cluster.address, *chosen]
    subprocess.run(command, capture_output=True, timeout=ANSWER_S)


def led_by_first(
    cluster: Cluster, orders: dict[int, list[int]], elect: Callable[[Cluster, Sequence[int]], None] = elected_by_request
) -> list[int]:
    """The leaders, once they are the first of these replicas. Raises `NoFault` if they were before, and `NotYet`."""
    wanted = {index: replicas[0] for index, replicas in orders.items()}
    if leaders(cluster) == wanted:
        raise NoFault(f"the leaders are {wanted} already")

    def given() -> bool:
        if not are_moving(cluster) and leaders(cluster) != wanted:
            elect(cluster, list(orders))
        return leaders(cluster) == wanted

    reassign(cluster, orders)
    cluster.wait_until(given, lambda: f"wanted leaders {wanted}, but they are {leaders(cluster)}", ANSWER_S)
    return list(wanted.values())


def reassign(cluster: Cluster, orders: dict[int, list[int]]) -> None:
    with cluster.admin() as admin:
        admin.alter_partition_reassignments({(TOPIC, index): replicas for index, replicas in orders.items()})


def are_moving(cluster: Cluster) -> bool:
    with cluster.admin() as admin:
        return bool(admin.list_partition_reassignments())


def replicas_moved(cluster: Cluster, choice: random.Random, session_s: float) -> str:
    """Each partition loses a replica and gets a new one in its place, and while they move a broker dies or stands still."""
    before = replicas_of(cluster)
    reassign(cluster, {index: choice.sample(nodes, len(nodes) - 1) for index, nodes in before.items()})
    cluster.wait_until(lambda: not are_moving(cluster), lambda: "replicas are still moving away", ANSWER_S)
    orders = {index: choice.sample(nodes, len(nodes)) for index, nodes in before.items()}
    reassign(cluster, orders)
    happened = choice.choice([killed, controller_killed, paused, session_dropped])(cluster, choice, session_s)
    cluster.wait_until(
        lambda: not are_moving(cluster) and replicas_of(cluster) == orders, lambda: "replicas still move", 2 * ANSWER_S
    )
    return f"replicas moved while {happened}"


def leaders(cluster: Cluster) -> dict[int, int]:
    with cluster.admin() as admin:
        return {index: part.leader for index, part in admin.describe_topics(TOPIC)[TOPIC].partitions.items()}


def disk_full(home: Path, node_id: int) -> Fault:
    """What fills the disk of one broker, whose directory `home` is a file system of its own; it may be started anew then."""

    def happen(cluster: Cluster, choice: random.Random, session_s: float) -> str:
        filler = home / "filler"
        fill_to_the_last_block(filler)
        for_s = choice.uniform(0.5, 2 * session_s)
        time.sleep(for_s)
        filler.unlink()
        if choice.random() < 0.5 or not cluster.members[node_id].is_running:
            cluster.kill(node_id)
            cluster.start(node_id)
        return f"the disk of broker {node_id} was full for {for_s:.1f} s"

    return happen


@contextmanager
def own_disk(at: Path, size_bytes: int) -> Iterator[bool]:
    """A file system of its own at `at`, whether this user may mount one or not."""
    at.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(at)], capture_output=True)
    try:
        yield done.returncode == 0
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", "--lazy", str(at)], check=True)


class Bag:
    """Kinds of faults in a random order, each as often as any other."""

    def __init__(self, names: Sequence[str], choice: random.Random) -> None:
        self._names, self._choice = names, choice
        self._left: list[str] = []

    def take(self) -> str:
        if not self._left:
            self._left = self._choice.sample(self._names, len(self._names))
        return self._left.pop()


FAULTS: dict[str, Fault] = {
    "killed": killed,
    "two-killed": two_killed,
    "controller-killed": controller_killed,
    "controller-moved": controller_moved,
    "stopped": stopped,
    "paused": paused,
    "registry-away": registry_away,
    "session-dropped": session_dropped,
    "links-cut": links_cut,
    "isolated": isolated,
    "leaders-moved": leaders_moved,
    "led-by-one": led_by_one,
    "replicas-moved": replicas_moved,
}
