"""The examples of `ottla cluster`, `user`, `acl`, `quota`, `features` and `transactions`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import ottla
from ottla.client.admin.transactions import ActiveProducer
from tests.helps.scenario import example
from tests.helps.world import HelpWorld


@example("cluster status")
@example("cluster status -b kafka1:9092,kafka2:9092")
def the_cluster_is_shown_in_a_few_lines(world: HelpWorld) -> None:
    world.topic(partitions=2)
    world.words["kafka1:9092,kafka2:9092"] = f"127.0.0.1:1,{world.cluster.address}"
    lines = [line.rsplit(maxsplit=1) for line in world.run().out.splitlines()]
    found = {name.strip(): value for name, value in lines}
    assert (found["brokers"], found["offline partitions"], found["under-replicated partitions"]) == ("1", "0", "0")


@example("cluster status --json")
def the_cluster_is_an_object(world: HelpWorld) -> None:
    (row,) = world.run().rows
    assert (row["brokers"], row["offline_partitions"]) == (1, 0)


@example("cluster brokers")
@example("cluster brokers --profile dev")
def live_brokers_are_printed(world: HelpWorld) -> None:
    world.run("profile create dev -b localhost:9092")
    host, port = world.cluster.address.split(":")
    assert [line.split()[:3] for line in world.run().out.splitlines()[1:]] == [["1", host, port]]


@example("cluster brokers --json")
def live_brokers_are_objects(world: HelpWorld) -> None:
    (row,) = world.run().rows
    assert (row["broker"], row["out_of_sync"]) == (1, 0)
    assert row["free_bytes"] > 0


@example("cluster partitions")
def all_partitions_are_printed(world: HelpWorld) -> None:
    world.topic(partitions=2)
    rows = [line.split() for line in world.run().out.splitlines()]
    assert [row[:3] for row in rows if row[0] == "flights"] == [["flights", "0", "1"], ["flights", "1", "1"]]


@example("cluster partitions --topic flights --json")
def partitions_of_a_topic_are_objects(world: HelpWorld) -> None:
    world.topic(partitions=2)
    world.topic("planes")
    assert [(row["topic"], row["partition"], row["leader"]) for row in world.run().rows] == [("flights", 0, 1), ("flights", 1, 1)]


@example("cluster partitions --under-replicated --offline")
def partitions_with_a_problem_are_printed(world: HelpWorld) -> None:
    world.topic()
    assert "partitions is under-replicated or offline." in world.run().out


@example("cluster reassign --topic flights --dry-run")
def a_plan_is_printed(world: HelpWorld) -> None:
    world.topic(partitions=2)
    assert world.run().out


@example("cluster reassign --plan plan.json --throttle 10000000")
def partitions_move_by_a_plan(world: HelpWorld) -> None:
    world.topic(partitions=2)
    partitions = [{"topic": "flights", "partition": index, "replicas": [1]} for index in range(2)]
    Path("plan.json").write_text(json.dumps({"version": 1, "partitions": partitions}))
    world.run()
    assert world.admin.list_partition_reassignments() == {}


@example("cluster reassign --cancel")
def moves_are_cancelled(world: HelpWorld) -> None:
    world.topic()
    world.run()
    assert world.admin.list_partition_reassignments() == {}


@example("cluster drain 3 --dry-run")
@example("cluster drain 3 --throttle 10000000")
@example("cluster drain 3 --no-wait")
def a_broker_is_drained(world: HelpWorld) -> None:
    pytest.skip("needs several brokers: tests/cluster/test_moves.py drains one of three")


@example("cluster elect")
@example("cluster elect --topic flights")
@example("cluster elect --topic flights:0 --json")
def preferred_leaders_are_elected(world: HelpWorld) -> None:
    world.topic()
    world.run()
    assert world.admin.describe_topics("flights")["flights"].partitions[0].leader == 1


PASSWORD = b"secret and long\n"


def mechanisms(world: HelpWorld) -> dict[str, list[str]]:
    return {user: sorted(kinds) for user, kinds in world.admin.list_users().items()}


@contextmanager
def users(world: HelpWorld, **given: str) -> Iterator[None]:
    """Create users with a mechanism each, and remove all users at the end."""
    try:
        for name, mechanism in given.items():
            world.admin.set_user_password(name, "secret", mechanism=mechanism)
        world.wait_until(lambda: given.keys() <= mechanisms(world).keys())
        yield
    finally:
        for name, kinds in mechanisms(world).items():
            for kind in kinds:
                world.admin.remove_user(name, mechanism=kind)
        world.wait_until(lambda: not mechanisms(world))


@example("user add alice")
def the_password_of_a_user_is_set(world: HelpWorld) -> None:
    with users(world):
        world.run(stdin=PASSWORD)
        world.wait_until(lambda: mechanisms(world) == {"alice": ["SCRAM-SHA-256"]})


@example("user add alice --mechanism SCRAM-SHA-512")
def the_password_is_for_a_mechanism(world: HelpWorld) -> None:
    with users(world):
        world.run(stdin=PASSWORD)
        world.wait_until(lambda: mechanisms(world) == {"alice": ["SCRAM-SHA-512"]})


@example("user add admin --data-dir data")
def a_broker_has_a_first_user(world: HelpWorld) -> None:
    world.run(stdin=PASSWORD)
    with ottla.Broker(data_dir="data") as broker, ottla.Admin(broker.address) as admin:
        assert list(admin.list_users()) == ["admin"]


@example("user remove alice")
def a_user_is_removed(world: HelpWorld) -> None:
    with users(world, alice="SCRAM-SHA-256", bob="SCRAM-SHA-256"):
        world.run()
        world.wait_until(lambda: list(mechanisms(world)) == ["bob"])


@example("user remove alice --mechanism SCRAM-SHA-512")
def a_password_is_removed(world: HelpWorld) -> None:
    with users(world, alice="SCRAM-SHA-256"):
        world.admin.set_user_password("alice", "secret", mechanism="SCRAM-SHA-512")
        world.wait_until(lambda: len(mechanisms(world)["alice"]) == 2)
        world.run()
        world.wait_until(lambda: mechanisms(world) == {"alice": ["SCRAM-SHA-256"]})


@example("user remove admin --data-dir data")
def a_user_is_removed_from_a_directory(world: HelpWorld) -> None:
    world.run("user add admin --data-dir data", stdin=PASSWORD)
    world.run()
    assert "admin" not in world.run("user list --data-dir data").out


@example("user list")
@example("user list alice")
def users_are_listed(world: HelpWorld) -> None:
    with users(world, alice="SCRAM-SHA-256", bob="SCRAM-SHA-512"):
        rows = [line.split()[:2] for line in world.run().out.splitlines()[1:]]
        assert rows == [["alice", "SCRAM-SHA-256"], *([] if "alice" in world.line else [["bob", "SCRAM-SHA-512"]])]


@example("user list --json")
def users_are_objects(world: HelpWorld) -> None:
    with users(world, alice="SCRAM-SHA-256"):
        (row,) = world.run().rows
    assert {"alice", "SCRAM-SHA-256"} <= set(row.values())


ACL_LINES = ("User:alice read topic flights", "User:alice write topic flights- --prefixed",
             "User:bob all topic flights --deny --host 127.0.0.1")  # fmt: skip


@contextmanager
def acls(world: HelpWorld, *lines: str) -> Iterator[None]:
    """Add ACLs, and remove all of them at the end."""
    try:
        for line in lines:
            world.run(f"acl add {line}")
        world.wait_until(lambda: len(world.admin.list_acls()) == len(lines))
        yield
    finally:
        world.admin.delete_acls(world.admin.list_acls())
        world.wait_until(lambda: not world.admin.list_acls())


@example(f"acl add {ACL_LINES[0]}")
@example(f"acl add {ACL_LINES[1]}")
@example(f"acl add {ACL_LINES[2]}")
def an_acl_is_added(world: HelpWorld) -> None:
    with acls(world):
        world.run()
        world.wait_until(lambda: len(world.admin.list_acls()) == 1)
        assert {word for word in world.line.split()[2:] if not word.startswith("-")} <= set(
            world.run("acl list").out.lower().replace("user:", "User:").split()
        )


@example(f"acl remove {ACL_LINES[0]}")
@example(f"acl remove {ACL_LINES[1]}")
@example(f"acl remove {ACL_LINES[2]}")
def an_acl_is_removed(world: HelpWorld) -> None:
    with acls(world, *ACL_LINES):
        world.run()
        world.wait_until(lambda: len(world.admin.list_acls()) == 2)


@example("acl list")
@example("acl list --principal User:alice")
def acls_are_listed(world: HelpWorld) -> None:
    with acls(world, *ACL_LINES):
        out = world.run().out
    assert ("User:alice" in out, "User:bob" in out) == (True, "--principal" not in world.line)


@example("acl list --resource topic --name flights --json")
def acls_of_a_topic_are_objects(world: HelpWorld) -> None:
    with acls(world, *ACL_LINES):
        assert len(world.run().rows) == 2


def quotas(world: HelpWorld) -> list[dict[str, object]]:
    return world.run("quota list --json").rows


@contextmanager
def some_quotas(world: HelpWorld, *lines: str) -> Iterator[None]:
    """Set quotas, and remove all at the end."""
    try:
        for line in lines:
            world.run(f"quota set {line}")
        world.wait_until(lambda: len(quotas(world)) == len(lines))
        yield
    finally:
        for entity in ("--user alice", "--client-id app", "--user '<default>'"):
            world.run(f"quota remove {entity} producer_byte_rate consumer_byte_rate request_percentage")
        world.wait_until(lambda: not quotas(world))


OF_ALICE, OF_APP, OF_OTHERS = (
    "--user alice producer_byte_rate=1000000",
    "--client-id app consumer_byte_rate=1000000",
    "--user '<default>' request_percentage=50",
)


@example("quota list")
@example("quota list --user alice")
@example("quota list --client-id app --json")
def quotas_are_listed(world: HelpWorld) -> None:
    with some_quotas(world, OF_ALICE, OF_APP):
        out = world.run().out
    assert ("producer_byte_rate" in out, "consumer_byte_rate" in out) == ("app" not in world.line, "alice" not in world.line)


@example(f"quota set {OF_ALICE}")
@example(f"quota set {OF_OTHERS}")
def a_quota_is_set(world: HelpWorld) -> None:
    with some_quotas(world):
        world.run()
        world.wait_until(lambda: len(quotas(world)) == 1)


@example(f"quota set {OF_APP} --dry-run")
def a_quota_is_checked(world: HelpWorld) -> None:
    with some_quotas(world):
        assert "can be 1000000" in world.run().out
        assert quotas(world) == []


@example("quota remove --user alice producer_byte_rate")
@example("quota remove --user '<default>' request_percentage")
def a_quota_is_removed(world: HelpWorld) -> None:
    with some_quotas(world, OF_ALICE, OF_OTHERS):
        world.run()
        world.wait_until(lambda: len(quotas(world)) == 1)


@example("quota remove --user alice producer_byte_rate --dry-run")
def the_removal_of_a_quota_is_checked(world: HelpWorld) -> None:
    with some_quotas(world, OF_ALICE):
        assert "can be removed" in world.run().out
        assert len(quotas(world)) == 1


def level(world: HelpWorld) -> int:
    return world.admin.describe_features().features["transaction.version"].level


@contextmanager
def lowered(world: HelpWorld) -> Iterator[None]:
    """Lower the feature transaction.version, and raise it at the end."""
    if level(world) == 2:
        world.run("features downgrade transaction.version=1")
        world.wait_until(lambda: level(world) == 1)
    try:
        yield
    finally:
        if level(world) != 2:
            world.run("features upgrade transaction.version=2")
            world.wait_until(lambda: level(world) == 2)


@example("features describe")
@example("features describe --json")
@example("features describe --profile dev")
def features_are_described(world: HelpWorld) -> None:
    world.run("profile create dev -b localhost:9092")
    assert "transaction.version" in world.run().out


@example("features upgrade transaction.version=2")
@example("features upgrade transaction.version=2 --json")
def a_feature_is_raised(world: HelpWorld) -> None:
    with lowered(world):
        assert world.run().out
        world.wait_until(lambda: level(world) == 2)


@example("features upgrade transaction.version=2 --dry-run")
def it_is_checked_whether_a_feature_can_be_raised(world: HelpWorld) -> None:
    with lowered(world):
        assert world.run().out
        assert level(world) == 1


@example("features downgrade transaction.version=1")
@example("features downgrade transaction.version=1 --json")
def a_feature_is_lowered(world: HelpWorld) -> None:
    before = level(world)
    world.run()
    try:
        world.wait_until(lambda: level(world) == 1)
    finally:
        world.run(f"features upgrade transaction.version={before}")
        world.wait_until(lambda: level(world) == before)


@example("features downgrade transaction.version=1 --dry-run")
def it_is_checked_whether_a_feature_can_be_lowered(world: HelpWorld) -> None:
    before = level(world)
    assert world.run().out
    assert level(world) == before


@contextmanager
def transaction(world: HelpWorld, name: str) -> Iterator[ottla.Producer]:
    """Leave a transaction with a record open."""
    with ottla.Producer(world.cluster.address, transactional_id=name) as producer:
        producer.begin_transaction()
        producer.send("flights", b"x", partition=0)
        producer.flush()
        yield producer
        with suppress(ottla.KafkaError):  # the example may have fenced it
            producer.abort_transaction()


def state(world: HelpWorld, name: str) -> str:
    return str(world.admin.describe_transactions(name)[name].state)


@example("transactions list")
@example("transactions list --json")
def transactional_ids_are_listed(world: HelpWorld) -> None:
    world.topic()
    with transaction(world, "copy-1"):
        out = world.run().out
    assert "copy-1" in out
    assert "Ongoing" in out


@example("transactions list --state Ongoing --min-open-ms 60000")
def long_transactions_are_listed(world: HelpWorld) -> None:
    world.topic()
    with transaction(world, "copy-1"):
        assert "copy-1" not in world.run().out
        assert "copy-1" in world.run("transactions list --state Ongoing --min-open-ms 0").out


@example("transactions describe copy-1")
@example("transactions describe copy-1 --json")
@example("transactions describe copy-1 copy-2")
def transactions_are_described(world: HelpWorld) -> None:
    world.topic()
    with transaction(world, "copy-1"), transaction(world, "copy-2"):
        out = world.run().out
    assert "flights" in out
    assert ("copy-2" in out) == ("copy-2" in world.line)


@example("transactions find-hanging")
@example("transactions find-hanging --topic flights")
@example("transactions find-hanging --min-open-ms 3600000 --json")
def hanging_transactions_are_searched(world: HelpWorld) -> None:
    world.topic()
    with transaction(world, "copy-1"):
        assert "copy-1" not in world.run().out


@example("transactions abort --transactional-id copy-1")
@example("transactions abort --transactional-id copy-1 --json")
def a_producer_is_fenced(world: HelpWorld) -> None:
    world.topic()
    with transaction(world, "copy-1") as producer:
        world.run()
        world.wait_until(lambda: state(world, "copy-1") != "Ongoing")
        with pytest.raises(ottla.KafkaError):
            producer.commit_transaction()


@example("transactions abort --topic flights --partition 0 --start-offset 5")
def a_hanging_transaction_is_aborted(world: HelpWorld) -> None:
    world.topic("flights", *[b"x"] * 5)
    with transaction(world, "copy-1"):
        world.run()
        world.wait_until(lambda: not any(each.transaction_start_offset is not None for each in producers(world)))


def producers(world: HelpWorld) -> list[ActiveProducer]:
    (found,) = world.admin.describe_producers([("flights", 0)]).values()
    return found
