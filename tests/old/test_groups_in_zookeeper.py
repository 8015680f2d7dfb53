"""Groups of 0.8, which their members keep in ZooKeeper, on a cluster of Ottla's over a real one.

Members divide partitions among themselves there, and go on when one of them or a broker dies. Java's and Node's also find brokers,
topics and leaders there, and keep their offsets there; pykafka's asks the brokers, and commits to them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from bench.apache_kafka import Unavailable, cache_dir, java
from ottla import Producer
from ottla.testing import Cluster
from tests.old.java_clients import SOURCES
from tests.old.libraries import library
from tests.support.jars import compile_java, fetch_jars
from tests.support.old_kafka import JVM
from tests.support.waiting import eventually
from tests.support.zookeeper import ZooKeeper, started

kazoo = pytest.importorskip("kazoo.client", reason="kazoo is absent: pip install 'ottla[zookeeper]'")
pytestmark = [pytest.mark.java]
TOPIC, PARTITIONS, COUNT = "flights", 4, 40
KAFKA_NODE = "kafka-node@2.6.1"
PATIENCE_S = 120.0
SETTINGS = {"zookeeper.session.timeout.ms": 6000, "min.insync.replicas": 1, "group.initial.rebalance.delay.ms": 0}


def java_member(home: Path) -> list[str]:
    """The command of a member by the high-level consumer of Kafka 0.8.2. Raises `Unavailable`."""
    jars = fetch_jars("apache-kafka-old/kafka_2.11-0.8.2.2", [("org.apache.kafka", "kafka_2.11", "0.8.2.2")])
    return [java(), *JVM, "-cp", compile_java([SOURCES / "GroupConsumer.java"], jars, home, release=8), "GroupConsumer"]


def node_member(home: Path) -> list[str]:
    """The command of a member by kafka-node 2.6. Raises `Unavailable`."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        raise Unavailable("node and npm are not installed")
    library = cache_dir() / "kafka-node-2.6.1"
    if not (library / ".complete").exists():
        library.mkdir(parents=True, exist_ok=True)
        words = ["install", "--silent", "--no-audit", "--no-fund", "--no-optional", "--ignore-scripts", "--prefix", str(library)]
        done = subprocess.run([npm, *words, KAFKA_NODE], capture_output=True, text=True, check=False, timeout=600)
        if done.returncode:
            raise Unavailable(f"npm could not fetch {KAFKA_NODE}: {done.stderr[-300:]}")
        (library / ".complete").touch()
    shutil.copy(Path(__file__).with_name("node") / "group_consumer.js", home)
    (home / "node_modules").symlink_to(library / "node_modules")
    return [node, "--no-deprecation", str(home / "group_consumer.js")]


def pykafka_member(home: Path) -> list[str]:
    """The command of a member by pykafka's balanced consumer."""
    folder = library("pykafka", "2.8.0", "six", "kazoo", "tabulate", "setuptools<81")
    program = Path(__file__).with_name("python") / "pykafka_member.py"
    return ["env", f"PYTHONPATH={folder}", sys.executable, "-W", "ignore", str(program)]


KINDS: dict[str, Callable[[Path], list[str]]] = {
    "kafka 0.8.2.2": java_member,
    "kafka-node 2.6": node_member,
    "pykafka 2.8": pykafka_member,
}


class Member:
    """A process that is a member of a group, and what it has read: (partition, offset, value)."""

    def __init__(self, command: Sequence[str], home: Path) -> None:
        home.mkdir()
        self.said, self.errors = home / "said", home / "errors"
        with self.said.open("wb") as out, self.errors.open("wb") as err:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)

    def read(self) -> set[tuple[int, int, str]]:
        lines = self.said.read_text().split("\n")[:-1]
        fields = (line.split("\t") for line in lines if line[:1].isdigit())
        return {(int(partition), int(offset), value) for partition, offset, value in fields}

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with started(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


class Tree:
    """What members keep in ZooKeeper for a group."""

    def __init__(self, address: str, group: str) -> None:
        self._client = kazoo.KazooClient(address)
        self._client.start()
        self._group = f"/consumers/{group}"

    def owners(self) -> dict[str, list[str]]:
        """The partitions of each member."""
        found: dict[str, list[str]] = defaultdict(list)
        for partition in self._below("owners"):
            stored = self._get(partition)
            if stored:
                found[stored].append(partition)
        return found

    def committed(self) -> int:
        """How many records the group is past, by what it keeps there."""
        return sum(int(self._get(partition) or 0) for partition in self._below("offsets"))

    def _below(self, kind: str) -> list[str]:
        """The partitions of the topic, by their paths: its name is TOPIC, or b'TOPIC' where Python wrote it."""
        return [f"{kind}/{topic}/{partition}" for topic in self._children(kind) for partition in self._children(f"{kind}/{topic}")]

    def _children(self, path: str) -> list[str]:
        try:
            return list(self._client.get_children(f"{self._group}/{path}"))
        except kazoo.NoNodeError:
            return []

    def _get(self, path: str) -> str:
        try:
            return (self._client.get(f"{self._group}/{path}")[0] or b"").decode()
        except kazoo.NoNodeError:
            return ""

    def close(self) -> None:
        self._client.stop()
        self._client.close()


@pytest.mark.rows(1, seconds=13)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
def test_members_divide_partitions_commit_and_go_on_when_one_of_them_or_a_leader_dies(
    zookeeper: ZooKeeper, tmp_path: Path, kind: str
) -> None:
    try:
        command = KINDS[kind](tmp_path)
    except Unavailable as missing:
        pytest.skip(f"no {kind}: {missing}")
    address = f"{zookeeper.address}/{kind.split()[0]}"
    members: list[Member] = []

    def join() -> Member:
        member = Member([*command, address, "readers", TOPIC, cluster.address], tmp_path / f"member-{len(members)}")
        members.append(member)
        return member

    def committed() -> int:
        with cluster.admin() as admin:
            return tree.committed() + sum(each.offset for each in admin.list_group_offsets("readers").values())

    def all_read(count: int) -> bool:
        return {value for member in members for _, _, value in member.read()} >= {str(number) for number in range(count)}

    def divided(among: int) -> bool:
        shares = tree.owners()
        return len(shares) == among and sum(map(len, shares.values())) == PARTITIONS

    with Cluster(f"zookeeper://{address}", brokers=2, settings=SETTINGS) as cluster, closing(Tree(address, "readers")) as tree:
        with cluster.admin() as admin:
            admin.create_topic(TOPIC, PARTITIONS, 2)
        cluster.wait_in_sync(TOPIC)
        try:
            join()
            eventually(lambda: divided(1), timeout_s=PATIENCE_S, what="one member has all")
            write(cluster, 0)
            eventually(lambda: all_read(COUNT), timeout_s=PATIENCE_S, what="the first member reads")
            survivor = join()
            eventually(lambda: divided(2), timeout_s=PATIENCE_S, what="two members share")
            write(cluster, COUNT)
            eventually(lambda: all_read(2 * COUNT), timeout_s=PATIENCE_S, what="both read")
            assert survivor.read(), "the second has its share"
            eventually(lambda: committed() == 2 * COUNT, timeout_s=PATIENCE_S, what="both commit")
            members[0].kill()
            eventually(lambda: divided(1), timeout_s=PATIENCE_S, what="the second has all")
            write(cluster, 2 * COUNT)
            eventually(lambda: all_read(3 * COUNT), timeout_s=PATIENCE_S, what="it goes on alone")
            cluster.kill(cluster.leader(TOPIC, 0))
            write(cluster, 3 * COUNT)
            eventually(lambda: all_read(4 * COUNT), timeout_s=PATIENCE_S, what="it goes on with the other broker")
            eventually(lambda: committed() == 4 * COUNT, timeout_s=PATIENCE_S, what="all is committed")
        finally:
            for member in members:
                member.kill()


def write(cluster: Cluster, first: int) -> None:
    with Producer(bootstrap_servers=cluster.address, delivery_timeout_ms=120_000) as producer:
        for number in range(first, first + COUNT):
            producer.send(TOPIC, value=b"%d" % number, partition=number % PARTITIONS)
        producer.flush()
