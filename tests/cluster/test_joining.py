"""Brokers that join a cluster over a real ZooKeeper: what they write there, what they refuse, and sessions that end under them."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from bench.apache_kafka import free_port
from ottla import Broker, Consumer, DataDirectoryError, Producer, SettingError
from ottla.broker.broker import BrokerMachine
from ottla.broker.membership.membership import BrokerMembership, NotAMember
from ottla.cli.main import main
from ottla.cluster import layout
from ottla.ports import NEW, Change, Now
from tests.support.waiting import eventually
from tests.support.zookeeper import ZooKeeper, started

pytest.importorskip("kazoo", reason="kazoo is absent: pip install 'ottla[zookeeper]'")
from tests.support.sessions import RegistryUser, end_elsewhere

pytestmark = [pytest.mark.java]
SERVED = {
    "group.version": {"min_version": 1, "max_version": 1},
    "transaction.version": {"min_version": 1, "max_version": 2},
    "share.version": {"min_version": 1, "max_version": 1},
    "streams.version": {"min_version": 1, "max_version": 1},
}
TIMEOUT_MS = 2_000
QUICK = {"zookeeper_session_timeout_ms": TIMEOUT_MS, "controlled_shutdown_enable": "false"}
CHROOTS = count(1)
MAP = "listener_security_protocol_map"


def machine(broker: Broker) -> BrokerMachine:
    assert broker._running is not None, "it runs"
    return broker._running.broker


def membership(broker: Broker) -> BrokerMembership:
    found = machine(broker).membership
    assert found is not None, "it is one of a cluster"
    return found


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with started(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


class Ensemble:
    """One empty tree, its brokers, and a session of the test's own."""

    def __init__(self, zookeeper: ZooKeeper, folder: Path) -> None:
        self.address = f"zookeeper://{zookeeper.address}/joining/{next(CHROOTS)}"
        self.user = RegistryUser(self.address, 60_000).begun()
        self._folder = folder
        self._brokers: list[Broker] = []

    def broker(self, folder: str, **settings: Any) -> Broker:
        given = {"zookeeper_connect": self.address, **QUICK, **settings}
        broker = Broker(str(self._folder / folder), **given)
        self._brokers.append(broker)
        return broker

    def registered(self, node_id: int) -> Any:
        (entry,) = self.user.read(layout.broker_path(node_id))
        return entry

    def close(self) -> None:
        for broker in self._brokers:
            broker.stop()
        self.user.close()


@pytest.fixture
def ensemble(zookeeper: ZooKeeper, tmp_path: Path) -> Iterator[Ensemble]:
    made = Ensemble(zookeeper, tmp_path)
    yield made
    made.close()


def end_session_of(broker: Broker) -> None:
    registry = getattr(broker._running, "_registry")  # noqa: B009  # a private name that only tests need
    end_elsewhere(registry._session)


def alone(folder: Path, address: str, **settings: Any) -> Broker:
    """A broker over some other ZooKeeper than that of the module."""
    given = {"zookeeper_connect": address, "node_id": 1, **QUICK, **settings}
    return Broker(str(folder), **given)


def told(start: Callable[[], object], kind: type[Exception] = NotAMember) -> str:
    with pytest.raises(kind) as refused:
        start()
    return str(refused.value)


def test_a_broker_registers_with_all_that_others_need_and_leaves_when_it_stops(ensemble: Ensemble) -> None:
    with ensemble.broker("a", node_id=7, broker_rack="east") as broker:
        entry = ensemble.registered(7)
        stored = json.loads(entry.value)
        host, _, port = broker.address.rpartition(":")
        assert stored.pop("timestamp").isdecimal()
        assert stored == {
            "features": SERVED,
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "endpoints": [f"PLAINTEXT://{broker.address}"],
            "rack": "east",
            "jmx_port": -1,
            "port": int(port),
            "host": host,
            "version": 5,
        }
        assert membership(broker).broker_epoch == entry.created
        assert None not in ensemble.user.read(*layout.PERSISTENT)
    assert ensemble.registered(7) is None
    assert "broker.id=7" in (Path(str(broker.data_dir)) / "meta.properties").read_text().splitlines()


@pytest.mark.parametrize(
    ("protocol", "version", "has"), [("0.9.0", 2, set()), ("2.6", 4, {"rack", MAP}), ("2.8", 5, {"rack", MAP})]
)
def test_the_oldest_release_of_the_cluster_can_read_the_entry(
    ensemble: Ensemble, protocol: str, version: int, has: set[str]
) -> None:
    with ensemble.broker("a", node_id=1, broker_rack="r", inter_broker_protocol_version=protocol):
        stored = json.loads(ensemble.registered(1).value)
    assert stored["version"] == version
    assert stored.keys() & {"rack", MAP} == has


def test_brokers_without_numbers_get_new_ones_and_keep_them(ensemble: Ensemble) -> None:
    with ensemble.broker("a"), ensemble.broker("b", reserved_broker_max_id=5000) as b:
        assert ensemble.user.list(layout.BROKERS) == [["1001", "5002"]]
        b.restart()
        assert ensemble.user.list(layout.BROKERS) == [["1001", "5002"]]


def test_a_broker_without_a_number_may_be_refused_one(ensemble: Ensemble) -> None:
    sentence = told(ensemble.broker("a", broker_id_generation_enable="false").start, SettingError)
    assert sentence == "A broker of a cluster needs a node id: set it with --node-id."


def test_two_brokers_of_one_number_cannot_be(ensemble: Ensemble) -> None:
    with ensemble.broker("a", node_id=1) as first:
        sentence = told(ensemble.broker("b", node_id=1).start)
        assert sentence.startswith(f"Broker 1 is in the cluster already, at PLAINTEXT://{first.address}: ")
        assert first.address in ensemble.registered(1).value.decode()


def test_a_broker_waits_for_the_end_of_the_session_that_its_life_before_has_left(ensemble: Ensemble) -> None:
    ghost = RegistryUser(ensemble.address, TIMEOUT_MS).begun()
    ghost.commit(Change(layout.broker_path(1), b"{}", NEW, ephemeral=True))
    closing = threading.Timer(0.3, ghost.close)
    closing.start()
    with ensemble.broker("a", node_id=1) as broker:
        assert broker.address in ensemble.registered(1).value.decode()
    closing.join()


def test_a_data_directory_of_another_cluster_is_refused(ensemble: Ensemble) -> None:
    with ensemble.broker("a", node_id=1):
        pass
    ensemble.user.commit(Change(layout.CLUSTER_ID, layout.cluster_id_json("another")))
    sentence = told(ensemble.broker("a", node_id=1).start)
    assert "has the registry of another: name the registry of that cluster, or another data directory." in sentence
    assert ensemble.registered(1) is None


def test_another_number_than_that_of_the_data_directory_is_refused(ensemble: Ensemble) -> None:
    with ensemble.broker("a", node_id=1):
        pass
    assert "belongs to node.id 1, not 2" in told(ensemble.broker("a", node_id=2).start, DataDirectoryError)
    assert ensemble.registered(2) is None


def test_a_cluster_id_that_is_no_json_is_named_and_left_as_it_is(ensemble: Ensemble) -> None:
    ensemble.user.commit(Change(layout.CLUSTER_ID, b"\xff no JSON", NEW))
    assert "entry /cluster/id cannot be parsed" in told(ensemble.broker("a", node_id=1).start)
    (entry,) = ensemble.user.read(layout.CLUSTER_ID)
    assert (entry.value, ensemble.user.list(layout.BROKERS)) == (b"\xff no JSON", [None])


def test_an_empty_disk_is_refused_where_records_would_be_lost_with_it(ensemble: Ensemble) -> None:
    state = layout.state_path("t", 0)
    ensemble.user.commit(Change(state, layout.state_json(1, 1, 0, [1]), NEW))
    assert "broker 1 alone has all records of partition t-0" in told(ensemble.broker("a", node_id=1).start)
    assert ensemble.registered(1) is None
    ensemble.user.commit(Change(state, layout.state_json(1, 2, 1, [2])))
    with ensemble.broker("a", node_id=1):
        assert ensemble.registered(1) is not None


def test_a_broker_by_itself_is_not_taken_for_one_of_a_cluster(ensemble: Ensemble, tmp_path: Path) -> None:
    with Broker(str(tmp_path / "a")):
        pass
    assert "`ottla registry copy " in told(ensemble.broker("a", node_id=1).start)
    assert ensemble.user.list("/cluster") == [None]


def test_a_data_directory_of_a_cluster_is_not_used_with_a_registry_of_before(ensemble: Ensemble, tmp_path: Path) -> None:
    with Broker(str(tmp_path / "a")) as before:
        pass
    meta = dict(line.split("=") for line in (tmp_path / "a" / "meta.properties").read_text().splitlines() if "#" not in line)
    known = [Change(layout.CLUSTER_ID, layout.cluster_id_json(meta["cluster.id"]), NEW), Change(layout.CONTROLLER_EPOCH, b"1", NEW)]
    ensemble.user.commit(*known)
    with ensemble.broker("a"):
        pass
    assert "was last used in a cluster" in told(before.start, DataDirectoryError)


def test_what_is_no_zookeeper_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        nobody, other = free_port(), silent.getsockname()[1]
        address = f"127.0.0.1:{nobody},127.0.0.1:{other}/kafka"
        sentence = told(alone(tmp_path / "a", address, zookeeper_connection_timeout_ms=500).start)
    assert sentence == (
        f"No session with ZooKeeper began within 500 ms: 127.0.0.1:{nobody} is unreachable (Connection refused); "
        f"127.0.0.1:{other} is not a ZooKeeper. Start ZooKeeper, or correct --registry."
    )
    assert not (tmp_path / "a").exists()


def test_an_ensemble_without_a_quorum_is_named(tmp_path: Path) -> None:
    settings = {"initLimit": 5, "syncLimit": 5, **{f"server.{n}": f"127.0.0.1:{free_port()}:{free_port()}" for n in (1, 2, 3)}}
    (tmp_path / "zookeeper" / "data").mkdir(parents=True)
    (tmp_path / "zookeeper" / "data" / "myid").write_text("1")
    with started(tmp_path / "zookeeper", settings, serves=False) as lonely:
        sentence = told(alone(tmp_path / "a", lonely.address, zookeeper_connection_timeout_ms=500).start)
    assert f"{lonely.address} serves no clients: a majority of its ensemble must run." in sentence


@pytest.mark.parametrize("address", ["", "/chroot", "host:port", "a,,b", "http://a:1"])
def test_an_address_that_is_none_is_refused(tmp_path: Path, address: str) -> None:
    sentence = told(alone(tmp_path / "a", address).start, SettingError)
    assert "is not an address of ZooKeeper: write zookeeper://HOST:PORT,HOST:PORT/PATH" in sentence


def test_a_broker_whose_session_ended_registers_anew_by_itself(ensemble: Ensemble) -> None:
    with ensemble.broker("a", node_id=1) as broker:
        first = membership(broker).broker_epoch
        ended: list[Now] = []
        membership(broker).left.append(ended.append)
        end_session_of(broker)
        eventually(lambda: membership(broker).broker_epoch > first)
        assert ended
        assert ensemble.registered(1).created == membership(broker).broker_epoch


def test_a_broker_that_hears_nothing_of_its_registry_is_no_member_until_it_does(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    with (
        started(tmp_path / "zookeeper") as server,
        alone(folder, server.address) as broker,
    ):
        place, clock = membership(broker), machine(broker).clock
        epoch, silenced = place.broker_epoch, list[Now]()
        place.silenced.append(silenced.append)
        assert place.is_member(clock.now())
        server.pause()
        eventually(lambda: bool(silenced))
        assert not place.is_member(clock.now())
        server.go_on()
        eventually(lambda: place.is_member(clock.now()))
        assert place.broker_epoch >= epoch


def test_a_broker_by_itself_grows_into_a_cluster_with_its_data(
    ensemble: Ensemble, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Broker(str(tmp_path / "a"), num_partitions=3) as before, Producer(bootstrap_servers=before.address) as producer:
        for number in range(30):
            producer.send("t", value=b"%d" % number)
        producer.flush()
    assert main(["registry", "copy", str(tmp_path / "a"), ensemble.address]) == 0
    assert "entries were copied. Start the broker with --data-dir" in capsys.readouterr().out
    with ensemble.broker("a") as broker, Consumer("t", bootstrap_servers=broker.address, auto_offset_reset="earliest") as consumer:
        found = {record.value for record in islice(consumer, 30)}
    assert found == {b"%d" % number for number in range(30)}
    assert main(["registry", "copy", str(tmp_path / "a"), ensemble.address]) == 1
    assert "belongs to a broker of a cluster, whose registry is elsewhere" in capsys.readouterr().err


def test_brokers_of_one_process_share_their_topics(ensemble: Ensemble) -> None:
    first, second = (
        ensemble.broker(name, node_id=number, default_replication_factor=2, controlled_shutdown_enable="true")
        for number, name in enumerate("ab", 1)
    )
    with first, second:
        eventually(lambda: len(machine(first).image.brokers) == 2)
        with Producer(bootstrap_servers=first.address) as producer:
            assert producer.send("shared", value=b"1").result(20).offset == 0
        with Consumer("shared", bootstrap_servers=second.address, auto_offset_reset="earliest") as consumer:
            assert next(iter(consumer)).value == b"1"


def test_a_broker_that_does_not_serve_what_the_cluster_has_finalized_does_not_join(ensemble: Ensemble) -> None:
    ensemble.user.commit(Change(layout.FEATURES, layout.features_json({"transaction.version": 3, "transport.version": 1}), NEW))
    with pytest.raises(NotAMember, match=r"does not serve \(transaction\.version=3, transport\.version=1\): start a newer one"):
        ensemble.broker("1", node_id=1).start()
    assert ensemble.registered(1) is None
