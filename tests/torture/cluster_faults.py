"""What befalls the brokers of a cluster, one thing at a time: each begins, lasts a while, and is over when its function returns."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from ottla import KafkaError
from ottla.testing.cluster import Cluster
from ottla.testing.wiring import REGISTRY
from tests.torture.kills import TOPIC

Fault: TypeAlias = Callable[[Cluster, random.Random, float], str]
"""(cluster, choice, how long a session may live in s) -> what was done, for the log."""


def killed(cluster: Cluster, choice: random.Random, session_s: float) -> str:
    """A broker dies, and is started again sooner or later than its session ends."""
    node_id = choice.choice(list(cluster.members))
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
    node_id = cluster.controller()
    if node_id not in cluster.members:
        return "there was no controller to kill"
    cluster.kill(node_id)
    time.sleep(choice.uniform(0, 2 * session_s))
    cluster.start(node_id)
    return f"broker {node_id}, the controller, was killed"


def stopped(cluster: Cluster, choice: random.Random, session_s: float) -> str:
    """A broker is stopped in order, and started again."""
    node_id = choice.choice(list(cluster.members))
    code = cluster.stop(node_id)
    time.sleep(choice.uniform(0, session_s))
    cluster.start(node_id)
    return f"broker {node_id} was stopped (exit code {code})"


def paused(cluster: Cluster, choice: random.Random, session_s: float) -> str:
    """A broker stands still, perhaps for longer than its session lives, and goes on as if nothing had been."""
    node_id = choice.choice(list(cluster.members))
    cluster.pause(node_id)
    for_s = choice.uniform(0.2, 2 * session_s)
    time.sleep(for_s)
    cluster.resume(node_id)
    return f"broker {node_id} stood still for {for_s:.1f} s"


def session_dropped(cluster: Cluster, choice: random.Random, session_s: float) -> str:
    """A broker does not reach ZooKeeper, perhaps for longer than its session lives."""
    node_id = choice.choice(list(cluster.members))
    cluster.cut(node_id, REGISTRY)
    for_s = choice.uniform(0.2, 2 * session_s)
    time.sleep(for_s)
    cluster.mend()
    return f"broker {node_id} did not reach ZooKeeper for {for_s:.1f} s"


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
    node_id = choice.choice(list(cluster.members))
    for other in (*cluster.members, REGISTRY):
        if other != node_id:
            cluster.cut(node_id, other)
    for_s = choice.uniform(0.5, 2 * session_s)
    time.sleep(for_s)
    cluster.mend()
    return f"broker {node_id} was alone for {for_s:.1f} s"


def leaders_moved(cluster: Cluster, choice: random.Random, session_s: float) -> str:
    """Each partition gets another order of replicas, and the first of them leads it then."""
    with cluster.admin() as admin:
        topic = admin.describe_topics(TOPIC)[TOPIC]
        moves = {(TOPIC, part.partition): choice.sample(part.replicas, len(part.replicas)) for part in topic.partitions.values()}
        admin.alter_partition_reassignments(moves)
        time.sleep(choice.uniform(0, session_s / 4))
        with suppress(KafkaError):  # who does not move yet is left where it is
            admin.elect_leaders(list(moves))
    return f"leaders were moved: {list(moves.values())}"


FAULTS: dict[str, Fault] = {
    "killed": killed,
    "two-killed": two_killed,
    "controller-killed": controller_killed,
    "stopped": stopped,
    "paused": paused,
    "session-dropped": session_dropped,
    "links-cut": links_cut,
    "isolated": isolated,
    "leaders-moved": leaders_moved,
}
