"""The examples of `ottla pipeline`. Each starts Spark in a process of its own, but for `tables`."""

from __future__ import annotations

from pathlib import Path

import pytest

import ottla
from ottla.spark.java import NoJava, java_home
from tests.helps.scenario import example
from tests.helps.world import HelpWorld

SECONDS = 15
SCRIPT = """CREATE TABLE flights (origin STRING, delay INT) USING ottla OPTIONS (subscribe 'flights');
INSERT INTO late SELECT origin AS key, cast(delay AS STRING) AS value FROM flights WHERE delay > 15;
"""


def run(world: HelpWorld, line: str | None = None) -> None:
    """Run a line that starts Spark. Skip the test without PySpark or Java."""
    pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")
    try:
        java_home()
    except NoJava as missing:
        pytest.skip(str(missing))
    world.run(f"{line or world.line} --master local[1] --conf spark.ui.enabled=false", in_process=False)


def flights(world: HelpWorld) -> None:
    world.topic("flights", b'{"origin": "JFK", "delay": 12}', b'{"origin": "LAX", "delay": 47}')


@example("pipeline archive flights archive --once", seconds=SECONDS)
@example("pipeline archive flights,planes archive --once --by hour", seconds=SECONDS)
def topics_are_archived(world: HelpWorld) -> None:
    flights(world)
    world.topic("planes", b"747")
    run(world)
    found = {str(path.relative_to("archive")) for path in Path("archive").rglob("*.parquet")}
    assert any("flights" in name for name in found)
    assert any("planes" in name for name in found) == ("planes" in world.line)


@example("pipeline replay archive --topic flights", seconds=2 * SECONDS)
@example("pipeline replay archive --into flights-2", seconds=2 * SECONDS)
def an_archive_is_written_back(world: HelpWorld) -> None:
    flights(world)
    before = world.values()
    run(world, "pipeline archive flights archive --once")
    run(world)
    assert world.values("flights-2") == before if "flights-2" in world.line else world.values() == [*before, *before]


@example("pipeline mirror flights --to other:9092 --once", seconds=SECONDS)
@example("pipeline mirror flights --to other:9092 --once --all-groups --prefix old-", seconds=SECONDS)
def a_topic_is_mirrored(world: HelpWorld) -> None:
    flights(world)
    world.commit("board", 1)
    with ottla.Broker() as other:
        world.words["other:9092"] = other.address
        run(world)
        servers = {"bootstrap_servers": other.address}
        name = "old-flights" if "old-" in world.line else "flights"
        assert [record.value for record in world.records(name, servers)] == world.values()
        with ottla.Admin(other.address) as admin:
            assert ("board" in [group.group_id for group in admin.list_groups()]) == ("--all-groups" in world.line)


@example("pipeline sql late.sql --once", seconds=SECONDS)
def a_script_is_run(world: HelpWorld) -> None:
    flights(world)
    world.topic("late")
    Path("late.sql").write_text(SCRIPT)
    run(world)
    assert [(record.key, record.value) for record in world.records("late")] == [(b"LAX", b"47")]


@example("pipeline tables", seconds=2)
@example("pipeline tables flights --json", seconds=2)
def topics_are_tables(world: HelpWorld) -> None:
    flights(world)
    out = world.run(in_process=False).out
    assert "flights" in out
    assert "delay" in out


@example("pipeline tables flights --sql > tables.sql", seconds=2)
def statements_create_the_tables(world: HelpWorld) -> None:
    flights(world)
    world.run()
    assert "CREATE TABLE" in Path("tables.sql").read_text().upper()
