"""Groups of 0.7, which their members keep in ZooKeeper: clients as they were published find Ottla there, and divide its partitions.

samsa owns partitions by entries, as 0.7's own consumer did; brod goes by the sorted names of members alone.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bench.apache_kafka import free_port
from ottla.net.client.admin.admin import Admin
from ottla.testing import BrokerProcess
from tests.old.kafka07 import today
from tests.old.kafka07.clients import BROD_IN_GROUPS, SAMSA, Client
from tests.support.waiting import eventually
from tests.support.zookeeper import ZooKeeper, started

kazoo = pytest.importorskip("kazoo.client", reason="kazoo is absent: pip install 'ottla[zookeeper]'")
pytestmark = [pytest.mark.java]
PARTITIONS, COUNT = 4, 20
PATIENCE_S = 120.0
NODE_ID = 1
"""That of a broker that was given none."""


class Member:
    """A process that is a member of a group, and prints each value that it reads; it publishes `count` first."""

    def __init__(self, client: Client, zookeeper: str, group: str, topic: str, home: Path, count: int, first: int) -> None:
        home.mkdir()
        self._said, self._errors = home / "said", home / "errors"
        command, environment = client.command()
        words = [*command, zookeeper, group, "join", topic, str(count), str(first)]
        with self._said.open("wb") as out, self._errors.open("wb") as err:
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment)

    def read(self) -> list[str]:
        """The values that it has read. Fails the test if it has ended."""
        assert self._process.poll() is None, self._errors.read_text()[-2000:]
        return self._said.read_text().split("\n")[:-1]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Tree:
    """What a group keeps in ZooKeeper."""

    def __init__(self, address: str, group: str, topic: str, chroot: str = "") -> None:
        self._client = kazoo.KazooClient(address)
        self._client.start()
        self._client.chroot = chroot
        self._group, self._topic = f"/consumers/{group}", topic

    def text(self, path: str) -> str:
        """What stands at a path; "" for nothing."""
        try:
            return (self._client.get(path)[0] or b"").decode()
        except kazoo.NoNodeError:
            return ""

    def below(self, path: str) -> list[str]:
        return sorted(self._client.get_children(path)) if self._client.exists(path) else []

    def shares(self) -> list[int]:
        """How many partitions each member owns."""
        path = f"{self._group}/owners/{self._topic}"
        owners = Counter(self.text(f"{path}/{partition}") for partition in self.below(path))
        return sorted(count for owner, count in owners.items() if owner)

    def members(self) -> int:
        return len(self.below(f"{self._group}/ids"))

    def committed(self) -> int:
        """Up to how many bytes the group has read, in all partitions."""
        path = f"{self._group}/offsets/{self._topic}"
        return sum(int(self.text(f"{path}/{partition}") or 0) for partition in self.below(path))

    def close(self) -> None:
        self._client.stop()
        self._client.close()


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with started(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture(scope="module")
def broker(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that clients of 0.7 find in ZooKeeper, and those of today at its address."""
    settings = {"num.partitions": PARTITIONS, "ottla.kafka07.zookeeper.connect": zookeeper.address}
    home = tmp_path_factory.mktemp("kafka07-groups")
    old = f"127.0.0.1:{free_port()},release=0.7"
    with BrokerProcess(home / "data", settings, arguments=["--listen", old]) as running:
        yield running


class Group:
    """The members of one group, which read one topic."""

    def __init__(self, client: Client, zookeeper: str, topic: str, home: Path) -> None:
        self._client, self._zookeeper, self._topic, self._home = client, zookeeper, topic, home
        self.members: list[Member] = []
        self._killed: set[str] = set()

    def join(self, count: int = 0, first: int = 0) -> Member:
        home = self._home / f"member-{len(self.members)}-{first}"
        member = Member(self._client, self._zookeeper, f"{self._topic}-readers", self._topic, home, count, first)
        self.members.append(member)
        return member

    def kill(self, member: Member) -> None:
        self._killed.update(member.read())
        self.members.remove(member)
        member.kill()

    def has_read(self, first: int, count: int) -> bool:
        read = self._killed.union(*(member.read() for member in self.members))
        return read >= {f"v{number}" for number in range(first, first + count)}

    def close(self) -> None:
        for member in self.members:
            member.kill()


@pytest.mark.full(seconds=9)
@pytest.mark.timeout(600)
def test_members_by_samsa_own_partitions_commit_positions_and_go_on_when_one_dies(
    zookeeper: ZooKeeper, broker: BrokerProcess, tmp_path: Path
) -> None:
    topic = "samsa"
    SAMSA.command()
    with (
        closing(Group(SAMSA, zookeeper.address, topic, tmp_path)) as group,
        closing(Tree(zookeeper.address, f"{topic}-readers", topic)) as tree,
    ):
        registered(tree, broker, topic)
        first = group.join(COUNT)
        eventually(lambda: group.has_read(0, COUNT), timeout_s=PATIENCE_S, what="one member reads what it published")
        group.join()
        eventually(lambda: tree.shares() == [2, 2], timeout_s=PATIENCE_S, what="two members share")
        today.write(broker.address, topic, [f"v{number}" for number in range(100, 140)], "gzip", PARTITIONS)
        eventually(lambda: group.has_read(100, 40), timeout_s=PATIENCE_S, what="both read")
        assert all(member.read() for member in group.members)
        bytes_0 = sum(9 + len(f"v{number}") for number in range(COUNT))
        bytes_1 = 40 * (10 + len("v100"))
        eventually(lambda: tree.committed() == bytes_0 + bytes_1, timeout_s=PATIENCE_S, what="both commit")
        group.kill(first)
        eventually(lambda: tree.shares() == [PARTITIONS], timeout_s=PATIENCE_S, what="the second has all")
        today.write(broker.address, topic, [f"v{number}" for number in range(200, 240)], "lz4", PARTITIONS)
        eventually(lambda: group.has_read(200, 40), timeout_s=PATIENCE_S, what="the second reads all")
        eventually(lambda: tree.committed() == bytes_0 + 2 * bytes_1, timeout_s=PATIENCE_S, what="all is committed")


@pytest.mark.full(seconds=6)
@pytest.mark.timeout(600)
def test_members_by_brod_divide_partitions_and_go_on_when_one_dies(
    zookeeper: ZooKeeper, broker: BrokerProcess, tmp_path: Path
) -> None:
    topic = "brod"
    BROD_IN_GROUPS.command()
    with (
        closing(Group(BROD_IN_GROUPS, zookeeper.address, topic, tmp_path)) as group,
        closing(Tree(zookeeper.address, f"{topic}-readers", topic)) as tree,
    ):
        registered(tree, broker, topic)
        first = group.join(COUNT)
        eventually(lambda: group.has_read(0, COUNT), timeout_s=PATIENCE_S, what="one member reads what it published")
        group.join(COUNT, 100)
        eventually(lambda: group.has_read(100, COUNT), timeout_s=PATIENCE_S, what="two members read")
        sent = 9 * 2 * COUNT + sum(len(f"v{number}") for number in (*range(COUNT), *range(100, 100 + COUNT)))
        eventually(lambda: tree.committed() == sent, timeout_s=PATIENCE_S, what="both commit")
        group.kill(first)
        eventually(lambda: tree.members() == 1, timeout_s=PATIENCE_S, what="the first one's session ends")
        group.join(COUNT, 200)
        eventually(lambda: group.has_read(200, COUNT), timeout_s=PATIENCE_S, what="those that are left read")
        found = [value for partition in range(PARTITIONS) for value in in_partition(broker.address, topic, partition)]
    assert sorted(found) == sorted(f"v{start + number}" for start in (0, 100, 200) for number in range(COUNT))


def registered(tree: Tree, broker: BrokerProcess, topic: str) -> None:
    """Make a topic, and wait until clients find it: those of that time begin in odd places where it comes while they look."""
    with Admin(broker.address) as admin:
        admin.create_topic(topic, PARTITIONS, 1)
    eventually(lambda: tree.text(f"/brokers/topics/{topic}/{NODE_ID}") == str(PARTITIONS), timeout_s=PATIENCE_S)


def in_partition(address: str, topic: str, partition: int) -> list[str]:
    """All values of a partition, as a client of today reads them."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": address, "group.id": "today"})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=PATIENCE_S)
    consumer.close()
    return today.read(address, topic, end, partition=partition) if end else []


@pytest.mark.timeout(300)
def test_a_mirror_finds_brokers_and_partitions_in_zookeeper(zookeeper: ZooKeeper, broker: BrokerProcess) -> None:
    values = [f"v{number}" for number in range(COUNT)]
    today.write(broker.address, "mirrored", values, partitions=PARTITIONS)
    with closing(Tree(zookeeper.address, "nobody", "mirrored")) as tree:
        eventually(lambda: tree.text(f"/brokers/topics/mirrored/{NODE_ID}") == str(PARTITIONS), timeout_s=PATIENCE_S)
    words = ["mirror", "mirrored", "--from", "0.7", "--zookeeper", zookeeper.address, "--to", broker.address, "--prefix", "copy."]
    command = [sys.executable, "-m", "ottla.cli.main", *words, "--once"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    each = COUNT // PARTITIONS
    found = [today.read(broker.address, "copy.mirrored", each, partition=partition) for partition in range(PARTITIONS)]
    assert found == [values[partition::PARTITIONS] for partition in range(PARTITIONS)]


@pytest.mark.timeout(300)
def test_a_broker_that_was_killed_is_found_again(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    path = f"{zookeeper.address}/killed"
    settings = {"num.partitions": 2, "ottla.kafka07.zookeeper.connect": path, "zookeeper.session.timeout.ms": 1000}
    old = f"127.0.0.1:{free_port()}"
    with (
        BrokerProcess(tmp_path / "data", settings, arguments=["--listen", f"{old},release=0.7"]) as broker,
        closing(Tree(zookeeper.address, "nobody", "flights", "/killed")) as tree,
    ):
        today.write(broker.address, "flights", ["v0"])
        eventually(lambda: tree.text(f"/brokers/topics/flights/{NODE_ID}") == "2", timeout_s=PATIENCE_S)
        assert tree.text(f"/brokers/ids/{NODE_ID}").split(":", 1)[1] == old
        before = tree.text(f"/brokers/ids/{NODE_ID}")
        broker.restart(kill=True)
        eventually(lambda: tree.text(f"/brokers/ids/{NODE_ID}") not in ("", before), timeout_s=PATIENCE_S, what="it registers anew")
        eventually(lambda: tree.text(f"/brokers/topics/flights/{NODE_ID}") == "2", timeout_s=PATIENCE_S)
