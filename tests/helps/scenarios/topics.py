"""The examples of `ottla topic`."""

from __future__ import annotations

import threading
import time
from datetime import datetime

from tests.helps.scenario import example
from tests.helps.world import DAY_MS, HelpWorld

HOUR_MS = DAY_MS // 24


def configs(world: HelpWorld, topic: str = "flights") -> dict[str, str | None]:
    """Return the settings of a topic, none from a broker that is too old to describe them."""
    return {name: entry.value for name, entry in world.admin.describe_topic_configs(topic).items()}


@example("topic list")
def all_topics_are_listed(world: HelpWorld) -> None:
    world.topic("flights", b"a", b"b", partitions=3)
    world.topic("planes")
    world.commit("board", 1)  # which creates __consumer_offsets
    header, *rows = (line.split() for line in world.run().out.splitlines())
    assert header[:4] == ["TOPIC", "PARTITIONS", "REPLICAS", "RECORDS"]
    assert [row[:4] for row in rows] == [["flights", "3", "1", "2"], ["planes", "1", "1", "0"]]


@example("topic list 'flights-.*' --rate 2", seconds=2)
def rates_are_measured(world: HelpWorld) -> None:
    for name in ("flights", "flights-1", "flights-2"):
        world.topic(name)
    ended = threading.Event()

    def keep_writing() -> None:
        while not ended.wait(0.1):
            world.write(b"x", topic="flights-2")

    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        began = time.monotonic()
        rows = [line.split() for line in world.run().out.splitlines()[1:]]
        assert time.monotonic() - began >= 2
    finally:
        ended.set()
        writer.join()
    assert [row[0] for row in rows] == ["flights-1", "flights-2"]
    assert float(rows[0][-1]) == 0 < float(rows[1][-1]) < 20


@example("topic list --names")
def names_are_listed(world: HelpWorld) -> None:
    world.topic("flights")
    world.topic("planes")
    assert world.run().out == "flights\nplanes\n"


@example("topic create flights -p 6", since="2.4")
def a_topic_is_created(world: HelpWorld) -> None:
    assert world.run().out == "Topic flights is created.\n"
    world.wait_until(lambda: len(world.admin.describe_topics("flights")["flights"].partitions) == 6)


@example("topic create flights planes -c cleanup.policy=compact -c retention.ms=-1", since="2.4")
def two_topics_are_created_with_settings(world: HelpWorld) -> None:
    world.run()
    world.wait_until(lambda: world.admin.list_topics() == ["flights", "planes"])
    for topic in ("flights", "planes"):
        found = configs(world, topic)
        assert (found["cleanup.policy"], found["retention.ms"]) == ("compact", "-1")


@example("topic create flights --if-not-exists", since="2.4")
def an_existing_topic_is_no_failure(world: HelpWorld) -> None:
    assert world.run().out == "Topic flights is created.\n"
    assert world.run().out == "Topic flights exists already.\n"


@example("topic describe flights")
def a_topic_is_described(world: HelpWorld) -> None:
    world.topic("flights", b"a", b"b", partitions=2, retention_ms=5000_000)
    summary, partitions, *settings = world.run().out.split("\n\n")
    assert ["records", "2"] in [line.split() for line in summary.splitlines()]
    assert [line.split()[:2] for line in partitions.splitlines()[1:]] == [["0", "1"], ["1", "1"]]
    if world.cluster.release >= (0, 11):
        assert ["retention.ms", "5000000"] in [line.split()[:2] for line in settings[0].splitlines()]
        assert "segment.bytes" not in settings[0]


@example("topic describe flights -c", since="0.11")
def settings_have_sources(world: HelpWorld) -> None:
    world.topic("flights", retention_ms=5000_000)
    header, *rows = (line.split() for line in world.run().out.splitlines())
    assert header == ["SETTING", "VALUE", "SOURCE"]
    found = {row[0]: row[1:] for row in rows}
    assert found["retention.ms"][0] == "5000000"
    if world.cluster.release >= (1, 1):
        assert found["retention.ms"] == ["5000000", "dynamic", "topic"]
        assert found["segment.bytes"] == ["1073741824", "default"]


@example("topic describe flights -p --json")
def partitions_are_objects(world: HelpWorld) -> None:
    world.topic("flights", b"a", partitions=2)
    rows = world.run().rows
    assert [(row["topic"], row["partition"], row["leader"], row["isr"], row["end"]) for row in rows] == [
        ("flights", 0, 1, [1], 1),
        ("flights", 1, 1, [1], 0),
    ]


@example("topic alter flights -c retention.ms=86400000", since="2.3")
def records_are_kept_for_a_day(world: HelpWorld) -> None:
    world.topic()
    assert world.run().out == "Topic flights is altered.\n"
    world.wait_until(lambda: configs(world)["retention.ms"] == str(DAY_MS))


@example("topic alter flights --delete-config retention.ms", since="2.3")
def the_default_is_restored(world: HelpWorld) -> None:
    world.topic(retention_ms=5000_000)
    world.run()
    world.wait_until(lambda: configs(world)["retention.ms"] == str(7 * DAY_MS))


@example("topic alter flights -p 12", since="1.0")
def partitions_are_added(world: HelpWorld) -> None:
    world.topic(partitions=3)
    world.run()
    world.wait_until(lambda: len(world.admin.describe_topics("flights")["flights"].partitions) == 12)


@example("topic delete flights")
def a_topic_is_deleted_once_its_name_is_typed(world: HelpWorld) -> None:
    world.topic("flights")
    assert "nothing was changed" in world.run(code=1, typed="planes").err
    assert world.admin.list_topics() == ["flights"]
    outcome = world.run(typed="flights")
    assert outcome.err == "This deletes topic flights with all its records. Type flights to confirm: "
    assert outcome.out == "Topic flights is deleted.\n"
    world.wait_until(lambda: not world.admin.list_topics())


@example("topic delete flights planes --yes")
def two_topics_are_deleted(world: HelpWorld) -> None:
    world.topic("flights")
    world.topic("planes")
    assert world.run().err == ""
    world.wait_until(lambda: not world.admin.list_topics())


@example("topic delete --regex 'test-.*' --dry-run")
def topics_that_would_be_deleted_are_printed(world: HelpWorld) -> None:
    for name in ("test-a", "test-b", "a-test-c"):
        world.topic(name)
    assert world.run().out == "Topic test-a would be deleted.\nTopic test-b would be deleted.\n"
    assert world.admin.list_topics() == ["a-test-c", "test-a", "test-b"]


@example("topic offsets flights")
def offsets_are_printed(world: HelpWorld) -> None:
    world.topic("flights", b"a", b"b", partitions=2)
    header, *rows = (line.split() for line in world.run().out.splitlines())
    assert header == ["PARTITION", "START", "END", "RECORDS"]
    assert rows == [["0", "0", "2", "2"], ["1", "0", "0", "0"]]


@example("topic offsets flights --at 2h")
def the_offset_of_two_hours_ago_is_printed(world: HelpWorld) -> None:
    world.topic(retention_ms=-1)
    world.write(b"old", ago_ms=3 * HOUR_MS)
    world.write(b"young", b"new", ago_ms=HOUR_MS)
    (row,) = (line.split() for line in world.run().out.splitlines()[1:])
    assert row[:5] == ["0", "0", "3", "3", "1"]
    assert row[-1] == "2"


@example("topic offsets flights --at 2026-11-23T10:00Z --json")
def the_offset_of_a_time_is_printed_for_programs(world: HelpWorld) -> None:
    world.topic(retention_ms=-1)
    world.write(b"old", ago_ms=10_000 * DAY_MS)
    world.write(b"new")
    is_past = datetime.fromisoformat("2026-11-23T10:00Z").timestamp() < time.time()
    (row,) = world.run().rows
    assert (row["at"], row["records_from_there"]) == ((1, 1) if is_past else (None, 0))


@example("topic trim flights --before 7d", since="0.11")
def records_older_than_a_week_are_deleted(world: HelpWorld) -> None:
    world.topic(retention_ms=-1)
    world.write(b"old", b"older", ago_ms=8 * DAY_MS)
    world.write(b"young", ago_ms=6 * DAY_MS)
    assert "This deletes 2 records of topic flights. Type flights to confirm: " in world.run(typed="flights").err
    assert world.starts() == [2]


@example("topic trim flights --before 5000 --partition 3", since="0.11")
def records_before_an_offset_are_deleted(world: HelpWorld) -> None:
    world.topic(partitions=4)
    world.write(*[b"x"] * 5001, partition=3)
    world.write(*[b"x"] * 3, partition=2)
    world.run(typed="flights")
    assert world.starts() == [0, 0, 0, 5000]


@example("topic trim flights --before end --yes", since="0.11")
def all_records_are_deleted(world: HelpWorld) -> None:
    world.topic("flights", b"a", b"b", partitions=2)
    world.write(b"c", partition=1)
    assert world.run().err == ""
    assert world.starts() == [2, 1]


@example("topic copy flights flights-2")
def a_topic_is_copied(world: HelpWorld) -> None:
    world.topic(partitions=2)
    world.write(b"a", b"b", key=b"JFK")
    world.write(b"c", partition=1)
    world.run()
    assert [record[1:] for record in facts(world, "flights-2")] == [record[1:] for record in facts(world, "flights")]
    assert len(facts(world, "flights-2")) == 3
    if world.cluster.release < (0, 11):  # without headers, by which a copy is continued
        return
    world.write(b"since the last copy")
    world.run()
    assert world.values("flights-2") == [b"a", b"b", b"since the last copy", b"c"]


def facts(world: HelpWorld, topic: str) -> list[tuple[object, ...]]:
    """Return the fields of records that a copy keeps, after the topic."""
    found = world.records(topic)
    return [(each.topic, each.partition, each.key, each.value, tuple(each.headers), each.timestamp) for each in found]


@example("topic copy flights flights --to staging")
def a_topic_is_copied_into_another_cluster(world: HelpWorld) -> None:
    world.topic("flights", b"a", b"b")
    staging = world.cluster.staging.client_settings()
    world.profile("staging", staging)
    world.run()
    assert [record.value for record in world.records(servers=staging)] == [b"a", b"b"]


@example("topic copy flights flights-2 --dry-run")
def offsets_that_would_be_copied_are_printed(world: HelpWorld) -> None:
    world.topic("flights", b"a", b"b")
    assert "2" in world.run().out
    assert world.admin.list_topics() == ["flights"]
