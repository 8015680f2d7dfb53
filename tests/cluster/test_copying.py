"""`ottla registry copy`: what a broker and its clients have agreed on goes along in every direction, and is of use everywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from ottla import Admin, Broker, ConfigResource, Consumer, Producer
from ottla.broker.broker import BrokerMachine
from ottla.broker.membership.membership import NotAMember
from ottla.cli.main import main
from ottla.client.admin.acls import AclRule
from ottla.cluster import layout
from ottla.net.startup.data_directory import read_properties
from ottla.ports import NEW, Change
from tests.support.shared_users import HostUser, SharedUser
from tests.support.waiting import eventually
from tests.support.zookeeper import ZooKeeper, started

SETTINGS: dict[str, Any] = {"controlled_shutdown_enable": "false", "zookeeper_session_timeout_ms": 10_000}
CHROOTS = count(1)
NUMBERS = 20
LONG_MS = 60_000
FAR_MS = 4_000_000_000_000
TOKEN = (
    layout.delegation_token_path("token-of-alice"),
    layout.delegation_token_json(("User:alice", "User:alice", ()), (1_700_000_000_000, FAR_MS, FAR_MS), "token-of-alice"),
)


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    pytest.importorskip("kazoo", reason="kazoo is absent: pip install 'ottla[zookeeper]'")
    with started(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


class Journey:
    """One data directory, and where its registry is at a time. What was agreed on at first is there at each stop."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = "data"
        self.written = 0
        self.ids: list[int] = []
        self.agreed: dict[str, Any] = {}

    @property
    def data(self) -> Path:
        return self.folder / self.home

    def broker(self, registry: str = "") -> Broker:
        where: dict[str, Any] = {}
        if registry.startswith("sqlite:"):
            where = {"ottla_registry_directory": registry.removeprefix("sqlite:")}
        elif registry:
            where = {"zookeeper_connect": registry}
        more: dict[str, Any] = {**SETTINGS, **where}
        return Broker(
            str(self.data),
            authorizer_class_name="kafka.security.authorizer.AclAuthorizer",
            super_users="User:ANONYMOUS",
            offsets_topic_replication_factor=1,
            offsets_topic_num_partitions=2,
            **more,
        )

    def begin(self) -> None:
        """Make a cluster of one, with something of everything that a registry keeps."""
        with self.broker() as broker:
            with Admin(bootstrap_servers=broker.address) as admin:
                admin.create_topic("numbers", 3, configs={"retention.ms": "777000000"})
                admin.create_topic("gone", 1)
                admin.delete_topics("gone")
                admin.alter_configs(ConfigResource.broker(1), set={"log.cleaner.threads": 2})
                admin.create_acls(
                    [AclRule("User:alice", "read", "topic", "num", "prefixed"), AclRule("User:bob", "write", "topic", "*")]
                )
                admin.set_user_password("alice", "secret")
                admin.alter_quotas({"producer_byte_rate": 1e6}, user="alice")
                admin.alter_quotas({"request_percentage": 50.0}, client_id="")
                admin.update_features({"transaction.version": 1}, downgrade=True)
            embedded = machine(broker).embedded
            assert embedded is not None
            embedded.store.commit([Change(*TOKEN)])
        with self.broker() as broker:
            self.use(broker)

    def use(self, broker: Broker) -> None:
        """Read on where the group was, write on, and hold what is agreed on against what it was."""
        topic, group = "numbers", "readers"
        eventually(lambda: is_led(broker, topic))
        with Producer(bootstrap_servers=broker.address, enable_idempotence=True) as producer:
            for number in range(self.written, self.written + NUMBERS):
                producer.send(topic, value=b"%d" % number)
            producer.flush()
        with Consumer(topic, bootstrap_servers=broker.address, group_id=group, auto_offset_reset="earliest") as consumer:
            found = {int(record.value or b"") for record in islice(consumer, NUMBERS)}
            consumer.commit()
        assert found == {*range(self.written, self.written + NUMBERS)}, "the group goes on where it was"
        self.written += NUMBERS
        with Consumer(topic, bootstrap_servers=broker.address, auto_offset_reset="earliest") as consumer:
            assert {int(record.value or b"") for record in islice(consumer, self.written)} == {*range(self.written)}
        with Admin(bootstrap_servers=broker.address) as admin:
            self.ids += (
                one.producer_id for some in admin.describe_producers([(topic, 0), (topic, 1), (topic, 2)]).values() for one in some
            )
            agreed = {
                "cluster": admin.describe_cluster().cluster_id,
                "topics": admin.list_topics(),
                "topic id": machine(broker).image.topics[topic].topic_id,
                "settings": admin.describe_topic_configs(topic)["retention.ms"].value,
                "of the broker": admin.describe_broker_configs(1)["log.cleaner.threads"].value,
                "rules": sorted(admin.list_acls()),
                "users": admin.list_users(),
                "quotas": sorted(map(str, admin.describe_quotas())),
                "features": admin.describe_features().features,
            }
        agreed["tokens"] = [*machine(broker).image.tokens]
        self.agreed = self.agreed or agreed
        assert agreed == self.agreed

    def carry(self, source: str, target: str, home: str = "") -> None:
        """Copy the registry, move the data directory if need be, and use what came of it."""
        assert main(["registry", "copy", source, target]) == 0
        if home:
            (self.folder / home).parent.mkdir(parents=True, exist_ok=True)
            self.data.rename(self.folder / home)
            self.home = home
        with self.broker(target if ":" in target else "") as broker:
            self.use(broker)


def at(folder: Path) -> dict[str, Any]:
    """The settings of a broker whose registry is in a folder."""
    return {"ottla_registry_directory": str(folder), **SETTINGS}


def machine(broker: Broker) -> BrokerMachine:
    assert broker._running is not None, "it runs"
    return broker._running.broker


def is_led(broker: Broker, topic: str) -> bool:
    found = machine(broker).image.topics.get(topic)
    return found is not None and bool(found.partitions) and all(one.leader == 1 for one in found.partitions)


def test_all_that_is_agreed_on_survives_from_a_directory_to_sqlite_and_back(tmp_path: Path) -> None:
    journey = Journey(tmp_path)
    journey.begin()
    shared = f"sqlite:{tmp_path / 'registry'}"
    journey.carry(str(journey.data), shared)
    journey.carry(shared, str(journey.data))
    assert (journey.data / "registry.before.1").exists(), "the registry of the first time is kept"
    journey.carry(str(journey.data), f"sqlite:{tmp_path / 'another'}")
    assert len({*journey.ids}) == 4, "no producer id is given twice"


@pytest.mark.java
def test_all_that_is_agreed_on_survives_between_sqlite_and_zookeeper_and_back_to_a_directory(
    zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    journey = Journey(tmp_path)
    journey.begin()
    first, second = f"sqlite:{tmp_path / 'registry'}", f"sqlite:{tmp_path / 'other'}"
    address, another = (f"zookeeper://{zookeeper.address}/copying/{next(CHROOTS)}" for _ in range(2))
    journey.carry(str(journey.data), first)
    journey.carry(first, address)
    journey.carry(address, another)
    journey.carry(another, second)
    journey.carry(second, str(journey.data))
    assert len({*journey.ids}) == 6, "no producer id is given twice"


@pytest.mark.java
def test_all_that_is_agreed_on_survives_from_a_directory_to_zookeeper_and_back(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    journey = Journey(tmp_path)
    journey.begin()
    address = f"zookeeper://{zookeeper.address}/copying/{next(CHROOTS)}"
    journey.carry(str(journey.data), address)
    journey.carry(address, str(journey.data))
    assert len({*journey.ids}) == 3, "no producer id is given twice"


# Refusals


class HostRegistryOf:
    """The registry of a host in a folder, to be written by hand."""

    def __init__(self, folder: Path) -> None:
        self.address = f"sqlite:{folder}"
        self._folder = folder

    def write(self, *changes: Change) -> None:
        user = HostUser(self._folder, LONG_MS).begun()
        user.commit(*changes)
        user.close()


@pytest.fixture
def grown(tmp_path: Path) -> tuple[Path, HostRegistryOf]:
    """A data directory and the registry of its cluster of one, with topic t."""
    data, registry = tmp_path / "1", HostRegistryOf(tmp_path / "registry")
    with Broker(str(data), node_id=1, **at(tmp_path / "registry")) as broker:
        eventually(lambda: machine(broker).image.controller_id == 1)
        with Admin(bootstrap_servers=broker.address) as admin:
            admin.create_topic("t", 1, 1)
        eventually(lambda: is_led(broker, "t"))
    return data, registry


def refused(capsys: pytest.CaptureFixture[str], source: object, target: object) -> str:
    capsys.readouterr()
    assert main(["registry", "copy", str(source), str(target)]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1, "it is one sentence"
    return said


TOPIC = {"version": 3, "topic_id": "bLC4bSvoRsu5iqbxCfVV0Q", "adding_replicas": {}, "removing_replicas": {}}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            Change("/brokers/topics/u", json.dumps({**TOPIC, "partitions": {"0": [1, 2]}}).encode()),
            "Partition u-0 has replicas on brokers other than",
        ),
        (
            Change("/brokers/topics/u", json.dumps({**TOPIC, "partitions": {"0": [2]}}).encode()),
            "reassign --brokers 1 --replication-factor 1",
        ),
        (
            Change("/brokers/topics/u", json.dumps({**TOPIC, "partitions": {"0": [1]}, "removing_replicas": {"0": [2]}}).encode()),
            "Topic u is still being reassigned",
        ),
        (
            Change("/admin/reassign_partitions", b'{"version":1,"partitions":[]}'),
            "is still being reassigned: restart the brokers",
        ),
        (Change("/admin/delete_topics/t", b""), "Topic t is still being deleted: restart the brokers of the cluster"),
        (Change("/brokers/topics/u", b"no JSON"), "entry /brokers/topics/u cannot be parsed"),
        (
            Change(layout.CLUSTER_ID, layout.cluster_id_json("another")),
            "to cluster another: name a data directory of that",
        ),
    ],
)
def test_a_cluster_that_one_broker_cannot_go_on_with_alone_is_left_as_it_is(
    grown: tuple[Path, HostRegistryOf], change: Change, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data, registry = grown
    registry.write(change)
    before = (data / "meta.properties").read_bytes()
    assert sentence in refused(capsys, registry.address, data)
    assert (data / "meta.properties").read_bytes() == before
    assert not (data / "registry").exists()


def test_a_cluster_at_work_is_not_copied(
    grown: tuple[Path, HostRegistryOf], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, registry = grown
    user = HostUser(tmp_path / "registry", LONG_MS).begun()
    user.commit(Change(layout.broker_path(7), b"{}", NEW, ephemeral=True))
    assert "Broker 7 of the cluster in" in refused(capsys, registry.address, data)
    assert "stop all its brokers first" in refused(capsys, registry.address, f"sqlite:{tmp_path / 'other'}")
    user.close()
    with Broker(str(data), node_id=1, **at(tmp_path / "registry")):
        assert "Broker 1 of the cluster in" in refused(capsys, registry.address, data)


def test_what_is_not_there_or_there_already_is_named(
    grown: tuple[Path, HostRegistryOf], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, registry = grown
    assert "whose registry is elsewhere: name the address" in refused(capsys, data, f"sqlite:{tmp_path / 'other'}")
    assert "has no registry.sqlite, so it is no registry of a cluster: name the registry that" in refused(
        capsys, f"sqlite:{tmp_path / 'none'}", data
    )
    assert not (tmp_path / "none").exists()
    with Broker(str(tmp_path / "alone")):
        pass
    assert "belongs to a single broker with its own registry" in refused(capsys, registry.address, tmp_path / "alone")
    assert "already has the registry of a cluster" in refused(capsys, tmp_path / "alone", registry.address)
    assert "are data directories: a data directory contains its registry" in refused(capsys, data, tmp_path / "alone")
    assert "is both source and target" in refused(capsys, registry.address, registry.address)
    assert "is no data directory" in refused(capsys, registry.address, tmp_path / "nowhere")
    old = HostRegistryOf(tmp_path / "old")
    old.write(Change("/brokers/topics/other", json.dumps({"version": 1, "partitions": {"0": [5]}}).encode()))
    assert "has topic other already, of another cluster" in refused(capsys, registry.address, old.address).lower()


def test_numbers_that_a_registry_has_given_are_not_given_again_where_it_goes(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with Broker(str(tmp_path / "a"), **at(first)):
        pass
    assert main(["registry", "copy", f"sqlite:{first}", f"sqlite:{second}"]) == 0
    with Broker(str(tmp_path / "b"), **at(second)):
        pass
    assert [read_properties(str(tmp_path / name))["broker.id"] for name in "ab"] == ["1001", "1002"]


def test_sessions_of_consumers_and_notifications_stay_behind(grown: tuple[Path, HostRegistryOf], tmp_path: Path) -> None:
    _, registry = grown
    lasting = [f"/consumers/g/{name}" for name in ("ids", "owners/t", "offsets/t/0")]
    passing = [
        "/consumers/g/ids/c1",
        "/consumers/g/owners/t/0",
        "/config/changes/config_change_0000000007",
        "/isr_change_notification/1",
    ]
    registry.write(*(Change(path, b"1") for path in (*lasting, *passing)))
    assert main(["registry", "copy", registry.address, f"sqlite:{tmp_path / 'other'}"]) == 0
    user: SharedUser = HostUser(tmp_path / "other", LONG_MS).begun()
    found = user.read(*lasting, *passing)
    user.close()
    assert [entry is not None for entry in found] == [True] * len(lasting) + [False] * len(passing)


def test_a_directory_that_was_used_by_itself_again_is_not_taken_back_by_the_cluster(
    grown: tuple[Path, HostRegistryOf], tmp_path: Path
) -> None:
    data, registry = grown
    assert main(["registry", "copy", registry.address, str(data)]) == 0
    with Broker(str(data)):
        pass
    with pytest.raises(NotAMember, match=r"has been used alone since .* copy its registry again, to an unused path"):
        Broker(str(data), **at(tmp_path / "registry")).start()
