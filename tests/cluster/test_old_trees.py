"""What Apache Kafka 0.8.2 to 2.8 left in ZooKeeper is read as it stands, and its broker's place taken.

`trees` has what a broker of each release kept there while it ran. Its own tools had made two topics, one with settings, and, where
the release had them, rules of access, quotas and a user. A null is an entry without a value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from ottla import Admin, Broker, Consumer, Producer
from ottla.broker.membership.membership import NotAMember
from ottla.cli.main import main
from ottla.client.admin.acls import AclRule
from ottla.cluster import layout
from ottla.ports import Change
from tests.support.shared_users import HostUser
from tests.support.waiting import eventually

TREES = sorted((Path(__file__).parent / "trees").glob("*.json"), key=lambda file: [int(part) for part in file.stem.split(".")])
SESSIONS = ("/brokers/ids/0", "/controller")
LONG_MS = 60_000
ALICE = AclRule("User:alice", "read", "topic", "flights")
BOB = AclRule("User:bob", "write", "topic", "se", "prefixed")


def entries(tree: Path) -> dict[str, bytes]:
    stored: dict[str, str | None] = json.loads(tree.read_text())
    return {path: (value or "").encode() for path, value in stored.items()}


@pytest.fixture(params=TREES, ids=lambda tree: tree.stem)
def release(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, bytes]]:
    """A release, and the tree that it left when it stopped, which is in tmp_path / "registry"."""
    tree: Path = request.param
    found = {path: value for path, value in entries(tree).items() if path not in SESSIONS}
    with closing(HostUser(tmp_path / "registry", LONG_MS).begun()) as user:
        user.commit(*(Change(path, value) for path, value in found.items()))
    return tree.stem, found


@contextmanager
def in_place(folder: Path, known: str) -> Iterator[Broker]:
    """Ottla in place of broker 0, on a directory that was its own."""
    (folder / "0").mkdir(exist_ok=True)
    (folder / "0" / "meta.properties").write_text(f"version=0\nbroker.id=0\n{known}")
    settings: dict[str, Any] = {
        "ottla_registry_directory": str(folder / "registry"),
        "authorizer_class_name": "kafka.security.authorizer.AclAuthorizer",
        "super_users": "User:ANONYMOUS",
        "controlled_shutdown_enable": "false",
    }
    with Broker(str(folder / "0"), **settings) as broker:
        eventually(lambda: is_led(broker))
        yield broker


def is_led(broker: Broker) -> bool:
    with Admin(bootstrap_servers=broker.address) as admin:
        found = admin.describe_topics(*admin.list_topics())
    return found.keys() == {"flights", "seats"} and all(
        one.leader == 0 for topic in found.values() for one in topic.partitions.values()
    )


def cluster_line(found: dict[str, bytes]) -> str:
    stored = found.get(layout.CLUSTER_ID)
    return "" if stored is None else f"cluster.id={json.loads(stored)['id']}\n"


def test_a_tree_of_an_older_release_is_read_as_it_stands(release: tuple[str, dict[str, bytes]], tmp_path: Path) -> None:
    version, found = release
    with in_place(tmp_path, cluster_line(found)) as broker:
        with Producer(bootstrap_servers=broker.address) as producer:
            assert producer.send("flights", value=b"1", partition=1).result(60).offset == 0
        with Consumer("flights", bootstrap_servers=broker.address, auto_offset_reset="earliest") as consumer:
            assert [record.value for record in islice(consumer, 1)] == [b"1"]
        with Admin(bootstrap_servers=broker.address) as admin:
            assert admin.describe_topic_configs("flights")["retention.ms"].value == "777000000"
            rules = {"0.8.2": [], "2.8": [ALICE, BOB]}.get(version, [ALICE])
            assert sorted(admin.list_acls()) == rules
            quotas = {(one.entity.client_id, one.entity.user): one.quotas for one in admin.describe_quotas()}
            assert quotas.get(("eager", None), {}) == ({} if version == "0.8.2" else {"producer_byte_rate": 1048576.0})
            has_users = version in ("0.10.2", "1.1", "2.8")
            assert quotas.get((None, "alice"), {}) == ({"consumer_byte_rate": 2097152.0} if has_users else {})
            assert [*admin.list_users()] == (["alice"] if has_users else [])
            admin.create_topic("new", 1, 1)
    with closing(HostUser(tmp_path / "registry", LONG_MS).begun()) as user:
        kept = user.read(*found)
    assert None not in kept, "nothing of it is gone"


def test_the_broker_of_an_older_tree_can_go_on_by_itself(release: tuple[str, dict[str, bytes]], tmp_path: Path) -> None:
    _, found = release
    with in_place(tmp_path, cluster_line(found)):
        pass
    assert main(["registry", "check", f"sqlite:{tmp_path / 'registry'}"]) == 0
    assert main(["registry", "copy", f"sqlite:{tmp_path / 'registry'}", str(tmp_path / "0")]) == 0
    with Broker(str(tmp_path / "0")) as alone:
        assert is_led(alone)
        with Admin(bootstrap_servers=alone.address) as admin:
            assert admin.describe_topic_configs("flights")["retention.ms"].value == "777000000"


def test_a_directory_of_a_cluster_without_an_id_is_refused_where_there_is_no_cluster(tmp_path: Path) -> None:
    with (
        pytest.raises(NotAMember, match=r"is of a cluster without an id, and there is none in .*: name the registry"),
        in_place(tmp_path, ""),
    ):
        pass
