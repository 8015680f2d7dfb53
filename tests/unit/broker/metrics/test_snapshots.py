"""Snapshots of metrics: made in slices, shared by all that ask meanwhile, and with values that may be kept for a time."""

from __future__ import annotations

import pytest

from ottla.broker.metrics.declaration import Declared, MetricKind, MetricRows, metric
from ottla.broker.metrics.snapshots import FRESH_MS, Snapshots
from ottla.broker.scheduler import Scheduler
from ottla.ports import Now, Steps


class HandClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.mono_ms = 0

    def now(self) -> Now:
        return Now(self.mono_ms, self.mono_ms)


class Shelf:
    """A part of a broker with two numbers. It counts how often it was read."""

    def __init__(self) -> None:
        self.size = 3
        self.reads = 0


SHELVES = Declared[Shelf]()
SIZE = SHELVES.gauge("test.shelf:type=Shelf,name=Size", "The size.", lambda shelf: shelf.size)
ROW = metric("test.shelf:type=Shelf,name=Row,number={number}", MetricKind.GAUGE, "A row.")


@SHELVES.reads(ROW, keep_ms=5000)
def read_rows(shelf: Shelf, samples: MetricRows) -> Steps[None]:
    shelf.reads += 1
    for number in range(1000):
        samples.put(ROW, shelf.size, str(number))
        yield None


class World:
    """Snapshots of one shelf, and a clock."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.scheduler = Scheduler(self.clock)
        self.shelf = Shelf()
        self.snapshots = Snapshots(self.scheduler)
        self.snapshots.add(SHELVES.readers, self.shelf)

    def run(self) -> None:
        """Run all jobs, and let time pass for them."""
        while (next_ms := self.scheduler.next_ms()) is not None:
            self.clock.mono_ms = max(self.clock.mono_ms, next_ms)
            self.scheduler.run_due(self.clock.now())

    def take(self) -> MetricRows:
        found: list[MetricRows] = []
        self.snapshots.request(found.append)
        self.run()
        (samples,) = found
        return samples


def test_a_snapshot_has_the_values_of_all_readers_in_the_order_of_their_declarations() -> None:
    samples = World().take()
    assert [each.name for each in samples.rows] == ["test_shelf_shelf_size", "test_shelf_shelf_row"]
    assert list(samples.rows[SIZE]) == [((), 3)]
    assert len(samples.rows[ROW]) == 1000


def test_a_snapshot_of_many_rows_is_made_in_slices_with_pauses() -> None:
    world, found = World(), list[MetricRows]()
    steps_before_pause = []

    class Slow(HandClock):
        def now(self) -> Now:
            self.mono_ms += 1  # each look at the clock takes a millisecond
            return super().now()

    world.scheduler._clock = Slow()
    world.snapshots.request(found.append)
    while not found:
        steps_before_pause.append(world.scheduler.next_ms())
        assert world.scheduler.next_ms() is not None
        world.scheduler.run_due(Now(0, world.scheduler.next_ms() or 0))
    assert len(steps_before_pause) > 20


def test_all_that_ask_while_a_snapshot_is_made_get_the_same_one() -> None:
    world, found = World(), list[MetricRows]()
    world.snapshots.request(found.append)
    world.snapshots.request(found.append)
    world.run()
    world.snapshots.request(found.append)
    assert len(found) == 3
    assert found[0] is found[1] is found[2]
    assert world.shelf.reads == 1


def test_a_later_snapshot_is_new_except_for_values_that_may_be_kept() -> None:
    world = World()
    world.take()
    world.shelf.size = 4
    world.clock.mono_ms += FRESH_MS + 1
    later = world.take()
    assert list(later.rows[SIZE]) == [((), 4)]
    assert next(iter(later.rows[ROW])) == (("0",), 3)
    assert world.shelf.reads == 1
    world.clock.mono_ms += 5000
    assert next(iter(world.take().rows[ROW])) == (("0",), 4)
    assert world.shelf.reads == 2


def test_two_sources_of_one_broker_take_snapshots_at_the_same_time() -> None:
    world, found = World(), list[MetricRows]()
    other = Snapshots(world.scheduler)
    other.add(SHELVES.readers, Shelf())
    world.snapshots.request(found.append)
    other.request(found.append)
    world.run()
    assert len(found) == 2


@pytest.mark.expects_errors("could not be read")
def test_a_bug_in_one_reader_costs_its_own_values_alone(caplog: pytest.LogCaptureFixture) -> None:
    shelves = Declared[Shelf]()
    shelves.gauge("test.shelf:type=Shelf,name=Lost", "It cannot be read.", lambda shelf: 1 / 0)
    world = World()
    world.snapshots.add(shelves.readers, world.shelf)
    assert [each.name for each in world.take().rows] == ["test_shelf_shelf_size", "test_shelf_shelf_row"]
    (line,) = caplog.records
    assert "test_shelf_shelf_lost" in line.getMessage()
