"""A cluster of two: broker 1 is Ottla's, broker 2 one of Apache Kafka, and each partition may have a replica on both.

Whatever a test asks, it asks of one of them, by its number: no client looks for another broker that would do it as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.apache_kafka import Unavailable
from ottla.cluster.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.coord.coordinator_partitions import partition_of
from ottla.testing import BrokerProcess, Cluster
from ottla.testing.cluster import INTERNAL, ClusterMember, ClusterSeat, free_port, ottla_member
from ottla.wire.errors import NOT_CONTROLLER
from ottla.wire.framing import FrameHeader, decode_response, encode_request
from tests.support.frames import Raw
from tests.support.kafka_members import kafka_jars, kafka_member
from tests.support.messages import request
from tests.support.zookeeper import started
from tests.torture.cluster_faults import make_controller

OTTLA, KAFKA = 1, 2
SIDES = [pytest.param(OTTLA, id="ottla"), pytest.param(KAFKA, id="kafka")]
PATIENCE_S = 100
SESSION_MS = 6000
LOGINS = "LOGINS"
"""The listener where users log in."""
SETTINGS: dict[str, object] = {
    "zookeeper.session.timeout.ms": SESSION_MS,
    "replica.lag.time.max.ms": 4000,
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "transaction.state.log.replication.factor": 2,
    "transaction.state.log.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "log.retention.ms": -1,
    "auto.leader.rebalance.enable": "false",
    "auto.create.topics.enable": "false",
    "controlled.shutdown.retry.backoff.ms": 100,
}
COORDINATED = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
METADATA, FIND_COORDINATOR = 3, 10
OTHER = {OTTLA: KAFKA, KAFKA: OTTLA}


def rack(node_id: int) -> str:
    return f"rack-{node_id}"


class Pair:
    """The cluster, and what tests ask of it."""

    def __init__(self, cluster: Cluster, home: Path, release: str, login_ports: dict[int, int]) -> None:
        self.cluster = cluster
        self.release = release
        self.home = home
        self._login_ports = login_ports

    def ask(self, node_id: int, key: int, version: int, /, **values: Any) -> Any:
        """One broker's answer to a request of plain values."""
        frame = encode_request(FrameHeader(key, version, 1, "test"), request(key, version, **values))
        with closing(Raw(self.cluster.members[node_id].address, timeout_s=PATIENCE_S)) as raw:
            raw.send(b"".join(map(bytes, frame)))
            return decode_response(key, version, raw.frame())[1]

    def login_address(self, node_id: int) -> str:
        """HOST:PORT of a broker's listener where users log in by SCRAM."""
        return f"127.0.0.1:{self._login_ports[node_id]}"

    def create(self, topic: str, *orders: Sequence[int], **settings: str) -> None:
        """A topic with such replicas of each partition, the first of which leads.

        The controller may have lost its session on a busy machine: then the next one is asked.
        """
        made = NewTopic(topic, len(orders), replica_assignment=[list(order) for order in orders], config=settings)
        admin = AdminClient({"bootstrap.servers": self.cluster.address, "log_level": 0})

        def is_created() -> bool:
            try:
                admin.create_topics([made], operation_timeout=PATIENCE_S)[topic].result(PATIENCE_S)
            except KafkaException as refused:
                if refused.args[0].code() != NOT_CONTROLLER:
                    raise
                return False
            return True

        self.wait(is_created, f"no controller makes {topic}")
        self.cluster.wait_in_sync(topic, timeout_s=PATIENCE_S)

    def control(self, node_id: int) -> None:
        """Have this broker be the controller."""
        if self.cluster.controller() != node_id:
            make_controller(self.cluster, node_id, SESSION_MS / 2000)

    def led(self, topic: str, leader: int, index: int = 0) -> bool:
        """Whether both brokers say that this one leads a partition."""
        leaders = {
            (node_id, part.leader_id)
            for node_id in self.cluster.members
            for found in self.ask(node_id, METADATA, 4, topics=[{"name": topic}]).topics
            for part in found.partitions
            if part.partition_index == index
        }
        return leaders == {(node_id, leader) for node_id in self.cluster.members}

    def lead(self, topic: str, leader: int, index: int = 0) -> None:
        """Have this broker lead a partition."""
        with self.cluster.admin() as admin:
            admin.alter_partition_reassignments({(topic, index): [leader, OTHER[leader]]})
            self.cluster.wait_until(lambda: not admin.list_partition_reassignments(), timeout_s=PATIENCE_S)
            admin.elect_leaders([(topic, index)])
        self.wait(lambda: self.led(topic, leader, index), f"broker {leader} does not lead {topic}-{index}")

    def has_coordinator(self, key_type: int) -> bool:
        """Whether there is one of some key; the internal topic is made if there is none."""
        return not self.ask(OTTLA, FIND_COORDINATOR, 1, key="any", key_type=key_type).error_code

    def wait(self, happened: Callable[[], bool], what: str) -> None:
        """Raises `NotYet`."""
        self.cluster.wait_until(happened, lambda: what, PATIENCE_S)

    def name_at(self, coordinator: int, internal_topic: str, stem: str) -> str:
        """Return a name of the one of an internal topic's two partitions that this broker leads from then on.

        A test before, or a session lost on a busy machine, may have left both partitions to the other broker.
        """
        index = list(OTHER).index(coordinator)
        if not self.led(internal_topic, coordinator, index):
            self.lead(internal_topic, coordinator, index)
        return next(name for number in range(100) if partition_of(name := f"{stem}-{number}", len(OTHER)) == index)


def _with_logins(make: Callable[[ClusterSeat], ClusterMember], ports: dict[int, int]) -> Callable[[ClusterSeat], ClusterMember]:
    """What makes a broker with a rack, and one more listener, where users log in by SCRAM."""

    def made(seat: ClusterSeat) -> ClusterMember:
        port = ports[seat.node_id] = free_port()
        own = seat.listeners()
        listener = f"listener.name.{LOGINS.lower()}"
        jaas = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        settings = {
            "broker.rack": rack(seat.node_id),
            "advertised.listeners": f"{own['advertised.listeners']},{LOGINS}://127.0.0.1:{port}",
            "listener.security.protocol.map": f"{own['listener.security.protocol.map']},{LOGINS}:SASL_PLAINTEXT",
            f"{listener}.sasl.enabled.mechanisms": "SCRAM-SHA-256",
            f"{listener}.scram-sha-256.sasl.jaas.config": jaas,
        }
        if make is not ottla_member:
            places = {"PLAINTEXT": seat.port, INTERNAL: seat.internal_port, LOGINS: port}
            settings["listeners"] = ",".join(f"{name}://127.0.0.1:{number}" for name, number in places.items())
        member = make(seat._replace(settings={**seat.settings, **settings}))
        if isinstance(member, BrokerProcess):
            member.arguments += ["--listen", f"127.0.0.1:{port},security=SASL_PLAINTEXT,name={LOGINS}"]
        return member

    return made


@contextmanager
def started_pair(home: Path, release: str) -> Iterator[Pair]:
    """Both brokers over a ZooKeeper of their own, with their coordinators' topics: each leads a half. Skips without Java."""
    ports: dict[int, int] = {}
    members = {OTTLA: _with_logins(ottla_member, ports), KAFKA: _with_logins(kafka_member(release), ports)}
    settings = {**SETTINGS, "inter.broker.protocol.version": ".".join(release.split(".")[:2])}
    try:
        kafka_jars(release)
    except Unavailable as missing:
        pytest.skip(f"no Apache Kafka {release}: {missing}")
    with (
        started(home / "zookeeper", {"maxSessionTimeout": 2 * SESSION_MS}) as zookeeper,
        Cluster(f"zookeeper://{zookeeper.address}/pair", 2, settings, home=home, members=members) as cluster,
    ):
        pair = Pair(cluster, home, release, ports)
        for kind, topic in enumerate(COORDINATED):
            pair.wait(partial(pair.has_coordinator, kind), f"{topic} has no leader")
            cluster.wait_in_sync(topic, timeout_s=PATIENCE_S)
        yield pair
