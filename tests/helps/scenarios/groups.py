"""The examples of `ottla group`."""

from __future__ import annotations

from pathlib import Path

from tests.helps.scenario import example
from tests.helps.world import DAY_MS, HelpWorld

HOUR_MS = DAY_MS // 24


def reading_group(world: HelpWorld) -> None:
    """Let the group board have read 2 of 5 records of flights, which has two partitions."""
    world.topic("flights", *[b"x"] * 5, partitions=2)
    world.commit("board", 2, 0)


@example("group list")
def all_groups_are_listed(world: HelpWorld) -> None:
    reading_group(world)
    with world.member("screens"):
        rows = [line.split() for line in world.run().out.splitlines()]
    assert rows[0] == ["GROUP", "TYPE", "PROTOCOL", "STATE"]
    assert [(row[0], row[-1]) for row in rows[1:]] == [("board", "Empty"), ("screens", "Stable")]


@example("group list --state empty --state dead")
def groups_without_members_are_listed(world: HelpWorld) -> None:
    reading_group(world)
    with world.member("screens"):
        rows = [line.split() for line in world.run().out.splitlines()]
    assert [row[0] for row in rows[1:]] == ["board"]


@example("group list --type consumer --json")
def groups_of_the_consumer_protocol_are_listed(world: HelpWorld) -> None:
    reading_group(world)
    if world.cluster.release < (4, 0):  # every group is classic, and none matches
        assert world.run().out == ""
        return
    with world.member_of_consumer_protocol("screens"):
        (row,) = world.run().rows
    assert (row["group"], row["type"]) == ("screens", "consumer")


@example("group describe board")
def a_group_is_described(world: HelpWorld) -> None:
    reading_group(world)
    with world.member():
        summary, members, partitions = world.run().out.split("\n\n")
    assert {("state", "Stable"), ("members", "1"), ("lag", "3")} <= {tuple(line.split()[:2]) for line in summary.splitlines()}
    assert len(members.splitlines()) == 2
    assert "flights:0-1" in members
    assert [line.split()[:5] for line in partitions.splitlines()[1:]] == [
        ["flights", "0", "2", "5", "3"],
        ["flights", "1", "0", "0", "0"],
    ]


@example("group describe board --watch", seconds=2)
def a_group_is_watched(world: HelpWorld) -> None:
    reading_group(world)
    with world.following() as command:
        command.wait_for("lag          3\n")
        world.write(b"y")
        command.wait_for("lag          4\n")


@example("group describe board -m --json")
def members_are_objects(world: HelpWorld) -> None:
    reading_group(world)
    with world.member():
        (row,) = world.run().rows
    assert (row["group"], row["partitions"]) == ("board", [["flights", 0], ["flights", 1]])


@example("group lag")
def the_lag_of_all_groups_is_printed(world: HelpWorld) -> None:
    reading_group(world)
    world.commit("screens", 5, 0)
    rows = [line.split() for line in world.run().out.splitlines()]
    assert rows[0] == ["GROUP", "STATE", "MEMBERS", "PARTITIONS", "LAG", "LARGEST", "LAG"]
    assert [(row[0], row[-2]) for row in rows[1:]] == [("board", "3"), ("screens", "0")]


@example("group lag board")
def the_lag_of_partitions_is_printed(world: HelpWorld) -> None:
    reading_group(world)
    partitions, total = world.run().out.split("\n\n")
    assert [line.split()[:6] for line in partitions.splitlines()[1:]] == [
        ["board", "flights", "0", "2", "5", "3"],
        ["board", "flights", "1", "0", "0", "0"],
    ]
    assert total.splitlines()[1].split()[-2:] == ["3", "3"]


@example("group lag board --watch 5 --json")
def the_lag_is_watched_by_programs(world: HelpWorld) -> None:
    reading_group(world)
    with world.following() as command:
        command.wait_for('"partition": 1, "committed": 0, "end": 0, "lag": 0')
    assert '"partition": 0, "committed": 2, "end": 5, "lag": 3' in command.text


@example("group seek board --to start")
def a_group_reads_everything_again(world: HelpWorld) -> None:
    reading_group(world)
    world.run()
    assert world.committed() == {0: 0, 1: 0}


@example("group seek board --to 2h --topic flights:0,3 --dry-run")
def two_hours_back_are_printed(world: HelpWorld) -> None:
    world.topic("flights", partitions=4, retention_ms=-1)
    for partition in (0, 3):
        world.write(b"old", partition=partition, ago_ms=3 * HOUR_MS)
        world.write(b"new", b"newer", partition=partition)
    world.commit("board", 3, 0, 0, 2)
    rows = [line.split() for line in world.run().out.splitlines()]
    assert rows[0][:5] == ["GROUP", "TOPIC", "PARTITION", "BEFORE", "AFTER"]
    assert rows[1:] == [["board", "flights", "0", "3", "1", "2"], ["board", "flights", "3", "2", "1", "2"]]
    assert world.committed() == {0: 3, 1: 0, 2: 0, 3: 2}


@example("group seek board-2 --from-group board")
def a_group_continues_where_another_is(world: HelpWorld) -> None:
    reading_group(world)
    world.run()
    assert world.committed("board-2") == {0: 2, 1: 0}


def group_ids(world: HelpWorld) -> list[str]:
    return [each.group_id for each in world.admin.list_groups()]


@example("group delete board", since="1.1")
def a_group_is_deleted_once_its_name_is_typed(world: HelpWorld) -> None:
    reading_group(world)
    world.run(code=1, typed="boar")
    assert group_ids(world) == ["board"]
    assert "Type board to confirm: " in world.run(typed="board").err
    assert group_ids(world) == []


@example("group delete board board-2 --yes", since="1.1")
def two_groups_are_deleted(world: HelpWorld) -> None:
    reading_group(world)
    world.commit("board-2", 1)
    assert world.run().err == ""
    assert group_ids(world) == []


@example("group delete board --dry-run")
def it_is_checked_whether_a_group_can_be_deleted(world: HelpWorld) -> None:
    reading_group(world)
    assert world.run().out == "Group board would be deleted.\n"
    assert group_ids(world) == ["board"]
    with world.member():
        assert "active member" in world.run(code=1).err


@example("group remove-member board ottla-7f3a")
def a_member_is_removed_by_how_its_id_begins(world: HelpWorld) -> None:
    reading_group(world)
    with world.member():
        (member,) = world.admin.describe_group("board").members
        assert member.member_id.startswith("ottla-")
        world.words["ottla-7f3a"] = member.member_id[: len("ottla-7f3a")]
        assert member.member_id in world.run().out
        assert not [each for each in world.admin.describe_group("board").members if each.member_id == member.member_id]


@example("group remove-member board --instance reader-2")
def a_static_member_is_removed(world: HelpWorld) -> None:
    reading_group(world)
    if world.cluster.release < (2, 3):  # there are no static members
        assert "Group board has no member with the instance id reader-2" in world.run(code=1).err
        return
    with world.member(instance="reader-2"):
        assert "reader-2" in world.run().out
        assert not world.admin.describe_group("board").members


@example("group remove-member board --all --dry-run")
def members_that_would_be_removed_are_printed(world: HelpWorld) -> None:
    reading_group(world)
    with world.member():
        (member,) = world.admin.describe_group("board").members
        assert member.member_id in world.run().out
        assert world.admin.describe_group("board").members == [member]


CSV = "flights,0,2\nflights,1,0\n"


@example("group offsets export board")
def offsets_are_printed_as_csv(world: HelpWorld) -> None:
    reading_group(world)
    assert world.run().out.endswith(CSV)


@example("group offsets export board board.csv")
def offsets_are_written_to_a_file(world: HelpWorld) -> None:
    reading_group(world)
    assert world.run().out == ""
    assert Path("board.csv").read_text().endswith(CSV)


@example("group offsets export board all.jsonl --and planes --json")
def offsets_of_two_groups_are_written_with_metadata(world: HelpWorld) -> None:
    reading_group(world)
    world.commit("planes", 4)
    world.run()
    lines = Path("all.jsonl").read_text().splitlines()
    assert [each.split('"')[3] for each in lines] == ["board", "board", "planes"]
    assert all('"metadata"' in each for each in lines)


@example("group offsets import board board.csv")
def offsets_are_restored(world: HelpWorld) -> None:
    reading_group(world)
    world.run("group offsets export board board.csv")
    world.commit("board", 5, 0)
    world.run()
    assert world.committed() == {0: 2, 1: 0}


@example("group offsets import board board.csv --dry-run")
def a_file_is_checked_and_changes_are_printed(world: HelpWorld) -> None:
    reading_group(world)
    Path("board.csv").write_text("flights,0,4\n")
    assert ["board", "flights", "0", "2", "4", "1"] in [line.split() for line in world.run().out.splitlines()]
    assert world.committed() == {0: 2, 1: 0}


@example("group offsets import all.jsonl")
def every_group_of_a_file_is_restored(world: HelpWorld) -> None:
    reading_group(world)
    world.commit("planes", 4)
    world.run("group offsets export board all.jsonl --and planes --json")
    world.commit("board", 5, 0)
    world.commit("planes", 5)
    world.run()
    assert (world.committed("board"), world.committed("planes")) == ({0: 2, 1: 0}, {0: 4})


@example("group offsets delete board --topic flights", since="2.4")
def offsets_of_a_topic_are_deleted(world: HelpWorld) -> None:
    reading_group(world)
    world.topic("planes")
    world.commit("board", 0, topic="planes")
    assert "Type board to confirm: " in world.run(typed="board").err
    assert (world.committed(), world.committed(topic="planes")) == ({}, {0: 0})


@example("group offsets delete board --topic flights:0,1 --yes", since="2.4")
def offsets_of_two_partitions_are_deleted(world: HelpWorld) -> None:
    world.topic(partitions=3)
    world.commit("board", 0, 0, 0)
    assert world.run().err == ""
    assert world.committed() == {2: 0}


@example("group offsets delete board --topic flights --dry-run")
def offsets_that_would_be_deleted_are_printed(world: HelpWorld) -> None:
    reading_group(world)
    rows = [line.split()[:4] for line in world.run().out.splitlines()[1:]]
    assert rows == [["board", "flights", "0", "2"], ["board", "flights", "1", "0"]]
    assert world.committed() == {0: 2, 1: 0}
