"""The examples of `ottla produce`, `consume` and `bench`."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.helps.scenario import example
from tests.helps.world import DAY_MS, HelpWorld

HOUR_MS = DAY_MS // 24


@example("produce flights flights.txt")
def each_line_of_a_file_is_a_record(world: HelpWorld) -> None:
    world.topic()
    Path("flights.txt").write_bytes(b"JFK\nLAX\n\nBOS")
    assert world.run().out == ""
    assert world.values() == [b"JFK", b"LAX", b"", b"BOS"]


@example("produce flights -K : -H source=desk", since="0.11")
def lines_have_keys_and_a_header(world: HelpWorld) -> None:
    world.topic()
    world.run(stdin=b"JFK:12\nLAX:47 : late\n")
    found = [(record.key, record.value, record.headers) for record in world.records()]
    assert found == [(b"JFK", b"12", (("source", b"desk"),)), (b"LAX", b"47 : late", (("source", b"desk"),))]


@example("produce flights-2 records.json --json-lines")
def printed_objects_are_written_again(world: HelpWorld) -> None:
    world.topic("flights", partitions=2)
    world.topic("flights-2", partitions=2)
    world.write(b"12", b"\xff\0", key=b"JFK", partition=1)
    Path("records.json").write_text(world.run("consume flights --json -e").out)
    world.run()
    first, second = ([(each.partition, each.key, each.value, each.timestamp) for each in world.records(topic)]
                     for topic in ("flights", "flights-2"))  # fmt: skip
    assert len(first) == 2
    assert first == second


@example(r"produce flights data -f '%k %v\n' --transactional", since="0.11")
def a_file_is_written_by_a_template_or_not_at_all(world: HelpWorld) -> None:
    world.topic()
    Path("data").write_bytes(b"JFK 12\nno-blank\n")
    world.run(code=1)
    assert world.records() == []
    Path("data").write_bytes(b"JFK 12\nLAX 47 late\n")
    world.run()
    assert [(record.key, record.value) for record in world.records()] == [(b"JFK", b"12"), (b"LAX", b"47 late")]


@example("consume flights")
def records_and_then_new_ones_are_printed(world: HelpWorld) -> None:
    world.topic("flights", b"JFK", b"LAX")
    with world.following() as command:
        command.wait_for("JFK\nLAX\n")
        world.write(b"BOS")
        command.wait_for("BOS\n")
    assert command.text == "JFK\nLAX\nBOS\n"


@example("consume flights -F")
def the_last_records_and_then_new_ones_are_printed(world: HelpWorld) -> None:
    world.topic("flights", *(b"%d" % number for number in range(15)), partitions=2)
    with world.following() as command:
        command.wait_for("14\n")
        world.write(b"new", partition=1)
        command.wait_for("new\n")
    assert command.text.split() == [*map(str, range(5, 15)), "new"]


@example(r"consume flights -e -o @2h -f '%d{strftime[%T]} %k %v\n'")
def the_last_two_hours_are_printed_with_times(world: HelpWorld) -> None:
    world.topic(retention_ms=-1)
    world.write(b"old", key=b"k", ago_ms=3 * HOUR_MS)
    world.write(b"12", b"47", key=b"JFK", ago_ms=HOUR_MS)
    assert re.fullmatch(r"(\d\d:\d\d:\d\d JFK (12|47)\n){2}", world.run().out)


@example("consume flights -e --json --filter 'value.delay > 15'")
def delayed_flights_are_objects(world: HelpWorld) -> None:
    world.topic("flights", b'{"delay": 12}', b'{"delay": 47}', b"cancelled")
    (row,) = world.run().rows
    assert (row["topic"], row["partition"], row["offset"]) == ("flights", 0, 1)
    assert row["value"] in ({"delay": 47}, '{"delay": 47}')


@example("consume flights -g audit -n 100")
def a_member_of_a_group_reads_and_commits(world: HelpWorld) -> None:
    world.topic("flights", *(b"%d" % number for number in range(120)))
    assert world.run().out.split() == [*map(str, range(100))]
    assert world.committed("audit") == {0: 100}


@example("bench produce flights -n 1000000 --size 100", seconds=2)
def a_load_is_put_on_a_topic(world: HelpWorld) -> None:
    world.topic(partitions=1)
    assert "1,000,000 records" in world.run().out
    (end,) = world.admin.list_offsets({("flights", 0): -1}).values()
    assert end.offset == 1_000_000


@example("bench produce flights -n 60000 --rate 1000 -z lz4", seconds=2)
def a_steady_load_has_latencies(world: HelpWorld) -> None:
    world.topic()
    with world.following() as command:
        command.wait_for(" records/s, ")
    rate = float(command.text.split(" records/s")[0].split()[-1].replace(",", ""))
    assert 300 < rate < 1700
    assert re.search(r"(?m)p99|99", command.text)


@example("bench produce load --create --partitions 6 --acks 1")
def a_load_has_a_topic_for_this_run_alone(world: HelpWorld) -> None:
    assert "100,000 records" in world.run().out
    world.wait_until(lambda: not world.admin.list_topics())


@example("bench consume flights")
def all_records_are_read(world: HelpWorld) -> None:
    world.topic("flights", *[b"x"] * 100)
    assert "100 records" in world.run().out


@example("bench consume flights -n 1000000", seconds=2)
def records_still_to_come_are_read(world: HelpWorld) -> None:
    world.topic("flights", *[b"x"] * 100)
    with world.following() as command:
        command.wait_for(" records/s, ")
    assert "100 records were read" in command.text


@example("bench consume flights -X fetch.min.bytes=1000000 --json")
def figures_are_an_object(world: HelpWorld) -> None:
    world.topic("flights", *[b"x"] * 100)
    figures = json.loads(world.run().out)
    assert figures["records"] == 100
    assert figures["fetch_ms"]
