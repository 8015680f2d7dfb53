"""A broker whose metadata comes from a list of records, as from Kafka's `__cluster_metadata`, in place of a registry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from ottla.broker.broker import BrokerMachine
from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.settings.broker_access import BY_RULES
from ottla.cluster.acls import Acl, Operation, Pattern, Permission, Resource
from ottla.cluster.image import BrokerImage, PartitionImage
from ottla.cluster.metadata import (
    AclsChanged,
    BrokersChanged,
    ClusterPorts,
    ConfigKind,
    ConfigsChanged,
    FeaturesChanged,
    MetadataEvent,
    MetadataSink,
    PartitionUpdate,
    QuotasChanged,
    ReplicaRole,
    ReplicasStopped,
    ReplicaStop,
    RolesAssigned,
    TopicsRemoved,
    TopicsUpdated,
    TopicUpdate,
    UpToDate,
    UserChanged,
)
from ottla.cluster.quotas import PRODUCER_BYTE_RATE, QuotaEntity
from ottla.cluster.replicas.partition_state import Assigned
from ottla.cluster.scram import text_of
from ottla.ports import Steps
from ottla.sasl.scram import SHA_256, credential_of
from ottla.wire.api.describe_configs import DescribeConfigsRequest
from ottla.wire.api.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.errors import NONE, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION
from tests.support.cluster_machine import NearRegistry, PlayedLinks
from tests.support.machine import Machine
from tests.support.producing import fetch, produce

METADATA, DESCRIBE_CONFIGS, DESCRIBE_USERS, ME = 3, 32, 50, 1
TOPIC_ID = bytes(range(16))


class TopicRecord(NamedTuple):
    """A topic with one partition, which broker 1 leads."""

    name: str
    topic_id: bytes = TOPIC_ID


class RemoveTopicRecord(NamedTuple):
    """The end of a topic."""

    name: str


@dataclass
class RecordSource:
    """The toy: a log of records in memory. Records that need no translation are events themselves."""

    sink: MetadataSink
    log: list[Any]

    def load(self) -> Steps[str]:
        brokers = {node_id: BrokerImage(node_id, (("PLAINTEXT", f"host-{node_id}", 9092),)) for node_id in (ME, 2)}
        yield from self.sink.apply_events(BrokersChanged(ME, brokers))
        for record in self.log:
            yield from self.sink.apply_events(*events(record))
        yield from self.sink.apply_events(UpToDate())
        return ""

    def append(self, record: Any) -> None:
        self.log.append(record)
        self.sink.soon(*events(record))


def events(record: Any) -> Iterator[MetadataEvent]:
    match record:
        case TopicRecord(name, topic_id):
            yield TopicsUpdated([TopicUpdate(name, topic_id, [PartitionUpdate(PartitionImage(0, ME, 0, (ME,), (ME,)))])])
            yield RolesAssigned([ReplicaRole(name, topic_id, 0, Assigned(ME, 0, (ME,), 0, (ME,)))])
        case RemoveTopicRecord(name):
            yield TopicsRemoved([name])
            yield ReplicasStopped([ReplicaStop(name, 0, 0, is_deleted=True)])
        case _:
            yield record


class RecordMachine(Machine):
    """Broker 1 of a cluster whose registry is empty; `log` has its metadata."""

    def __init__(self, *log: Any, **settings: object) -> None:
        self.log = list(log)
        super().__init__(**settings)

    def _start(self, *, clean: bool) -> BrokerMachine:
        broker = BrokerMachine(
            settings=self.settings,
            clock=self.clock,
            disk=self.disk,
            cluster=ClusterPorts(NearRegistry(), PlayedLinks(), self._source),
            node_id=ME,
            cluster_id="simulated-cluster-id-0",
            random_bytes=self._random.randbytes,
        )
        broker.start(clean=clean)
        self.broker = broker
        broker.replication.manager.begin_registration(100, self.clock.now())  # registration is no metadata
        return broker

    def _source(self, sink: MetadataSink) -> RecordSource:
        self.source = RecordSource(sink, self.log)
        return self.source

    def prepare(self) -> None:
        faults: list[str] = []
        self.broker.prepare(faults.append)
        self.pass_time(10)
        assert faults == [""]

    def append(self, record: Any) -> None:
        self.source.append(record)
        self.pass_time(10)

    def config(self, name: str) -> str:
        asked = DescribeConfigsRequest.DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=[name])
        return str(self.ask(DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=[asked])).results[0].configs[0].value)

    def topics(self) -> list[str]:
        return [topic.name for topic in self.ask(METADATA, 12, MetadataRequest(topics=None)).topics]


@pytest.fixture
def machine() -> RecordMachine:
    machine = RecordMachine(ConfigsChanged(ConfigKind.TOPIC, "t", {"retention.ms": "5"}), TopicRecord("t"))
    machine.prepare()
    return machine


def test_metadata_waits_until_the_source_is_up_to_date() -> None:
    machine = RecordMachine(TopicRecord("t"))
    waiting = machine.begin(METADATA, 12, MetadataRequest(topics=None))
    assert isinstance(waiting, DelayedReply)
    machine.prepare()
    answer = machine.finish(METADATA, 12, waiting)
    assert (answer.controller_id, [(each.node_id, each.host) for each in answer.brokers][1:]) == (ME, [(2, "host-2")])
    assert [(topic.name, topic.topic_id, topic.partitions[0].leader_id) for topic in answer.topics] == [("t", TOPIC_ID, ME)]


def test_records_are_produced_and_fetched_over_a_restart_that_reads_the_log_again(machine: RecordMachine) -> None:
    assert produce(machine, b"value").error_code == NONE
    machine.restart()
    machine.prepare()
    error_code, batches = fetch(machine)
    assert (error_code, b"value" in batches, machine.topics()) == (NONE, True, ["t"])


def test_topic_configs_hold_before_their_topic_comes_and_when_they_change(machine: RecordMachine) -> None:
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    assert (machine.config("retention.ms"), partition.log.config.retention_ms) == ("5", 5)
    machine.append(ConfigsChanged(ConfigKind.TOPIC, "t", {"retention.ms": "7"}))
    assert (machine.config("retention.ms"), partition.log.config.retention_ms) == ("7", 7)
    machine.append(ConfigsChanged(ConfigKind.BROKER, "", {"log.retention.ms": "9"}))
    machine.append(ConfigsChanged(ConfigKind.TOPIC, "t", {}))
    assert (machine.config("retention.ms"), partition.log.config.retention_ms) == ("9", 9)


def test_a_deleted_topic_is_gone_with_its_files_and_its_name_is_free(machine: RecordMachine) -> None:
    assert produce(machine, b"value").error_code == NONE
    machine.append(RemoveTopicRecord("t"))
    assert (machine.topics(), machine.disk.exists("t-0")) == ([], False)
    assert produce(machine, b"value").error_code == UNKNOWN_TOPIC_OR_PARTITION
    machine.append(TopicRecord("t", TOPIC_ID[::-1]))
    assert (produce(machine, b"value").base_offset, machine.config("retention.ms")) == (0, "604800000")


def test_quotas_users_and_features_come_from_the_source(machine: RecordMachine) -> None:
    machine.append(QuotasChanged(QuotaEntity(client_id=machine.client_id), {PRODUCER_BYTE_RATE: 1.0}))
    produce(machine, b"value")
    assert machine.rest_ms > 0
    machine.append(QuotasChanged(QuotaEntity(client_id=machine.client_id), {}))
    produce(machine, b"value")
    assert machine.rest_ms == 0
    machine.append(UserChanged("alice", {SHA_256.name: text_of(credential_of(SHA_256, b"salted", b"salt", 4096))}))
    (alice,) = machine.ask(DESCRIBE_USERS, 0, DescribeUserScramCredentialsRequest(users=None)).results
    assert (alice.user, alice.credential_infos[0].iterations) == ("alice", 4096)
    machine.append(FeaturesChanged({"metadata.version": 7}, 3))
    assert (machine.broker.features.epoch, machine.broker.image.features) == (3, {"metadata.version": 7})


def test_acls_decide_as_soon_as_they_come() -> None:
    machine = RecordMachine(TopicRecord("t"), authorizer_class_name=BY_RULES[0], super_users="User:admin")
    machine.prepare()
    acl = Acl(Resource.TOPIC, Pattern.LITERAL, "t", "User:ANONYMOUS", "*", Operation.WRITE, Permission.ALLOW)
    assert produce(machine, b"value").error_code == TOPIC_AUTHORIZATION_FAILED
    machine.append(AclsChanged(acl.key, (acl,)))
    assert produce(machine, b"value").error_code == NONE
    machine.append(AclsChanged(acl.key, ()))
    assert produce(machine, b"value").error_code == TOPIC_AUTHORIZATION_FAILED
