"""The examples about queues, which are share groups."""

from __future__ import annotations

import pytest

import ottla
from tests.helps.scenario import example
from tests.helps.world import HelpWorld

NO_QUEUES = "an older release has no queues: the command then speaks of other groups"
VALUES = [b"%d" % number for number in range(1, 16)]


def queue(world: HelpWorld) -> None:
    """Let the share group workers have a queue of 15 records of the topic jobs. A broker without queues refuses the example."""
    if world.is_too_old:
        world.run()
    world.admin.alter_configs(ottla.ConfigResource.group("workers"), set={"share.auto.offset.reset": "earliest"})
    world.topic("jobs", *VALUES)


def skip_without_queues(world: HelpWorld) -> None:
    """Skip an example that an older broker does not refuse."""
    if world.is_too_old:
        pytest.skip(NO_QUEUES)


def left(world: HelpWorld) -> list[tuple[bytes | None, int | None]]:
    """Return the values that the queue still has, with their delivery counts."""
    with ottla.ShareConsumer("jobs", bootstrap_servers=world.cluster.address, group_id="workers") as consumer:
        world.wait_until(consumer.assignment)
        return [(record.value, record.delivery_count) for record in consumer.records(1_500)]


@example("consume jobs --share -g workers -n 10", since="4.1")
def ten_records_of_a_queue_are_accepted(world: HelpWorld) -> None:
    queue(world)
    assert world.run().out.encode().split() == VALUES[:10]
    assert [value for value, _ in left(world)] == VALUES[10:]


@example("consume jobs --share -g workers -e --acknowledge release --json", since="4.2", seconds=5)
def records_of_a_queue_are_printed_and_left_to_others(world: HelpWorld) -> None:
    queue(world)
    rows = world.run().rows
    assert [(row["value"].encode(), row["delivery_count"]) for row in rows] == [(value, 1) for value in VALUES]
    assert left(world) == [(value, 2) for value in VALUES]


@example("group list --type share", since="4.1")
def queues_are_listed(world: HelpWorld) -> None:
    skip_without_queues(world)
    queue(world)
    assert len(left(world)) == len(VALUES)
    world.commit("board", 1, topic="jobs")
    rows = [line.split() for line in world.run().out.splitlines()]
    assert [row[:2] for row in rows[1:]] == [["workers", "share"]]


@example("group seek workers --to end --topic jobs", since="4.1")
def the_records_of_a_queue_are_skipped(world: HelpWorld) -> None:
    skip_without_queues(world)
    queue(world)
    world.run("consume jobs --share -g workers -n 1")
    world.run()
    assert left(world) == []
    world.run("group seek workers --to start")
    assert [value for value, _ in left(world)] == VALUES
    lag = world.run("group lag workers --json").rows
    assert [(row["topic"], row["lag"]) for row in lag if row.get("partition") == 0] == [("jobs", 0)]
    (row,) = world.run("group offsets delete workers --topic jobs --yes --json").rows
    assert row == {"group": "workers", "topic": "jobs", "result": "deleted"}
