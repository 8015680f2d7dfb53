"""What counts as processed while one thread takes records and another commits, at each step of either."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from ottla.client.consumer.cursor import Cursor
from ottla.client.consumer.fetcher import Chunk
from ottla.client.types import TopicPartition
from ottla.records.batches import columns
from ottla.records.batches.builder import build
from tests.unit.records.conftest import uncompiled

WHERE = TopicPartition("t", 0)
COUNT = 4


def cursor() -> Cursor:
    data = build(None, [b"%d" % number for number in range(COUNT)], [0] * COUNT, None)
    return Cursor(Chunk(WHERE, [memoryview(data)], 0, COUNT))


def at_each_step_of(method: Callable[..., object], look: Callable[[], object], run: Callable[[], object]) -> None:
    """Call `look` before each instruction of `method`, as another thread may run there."""
    code: Any = method.__code__

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code is not code:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            look()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)


@pytest.fixture
def next_record(monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """The method that hands out a record, uncompiled, so that another thread can act at its steps."""
    plain = uncompiled("kernel_record")
    monkeypatch.setattr(columns, "kernel_record", plain)
    method: Callable[..., object] = plain.RecordIterator.__next__
    return method


def test_a_record_counts_as_processed_only_once_the_next_one_is_asked_for(next_record: Callable[..., object]) -> None:
    one = cursor()
    given: list[int] = []
    done: list[tuple[int, int]] = []

    def take_all() -> None:
        given.extend(record.offset for record in one.each())

    at_each_step_of(next_record, lambda: done.append((len(given), one.first_unprocessed())), take_all)
    assert len(done) > 10 * COUNT
    assert given == list(range(COUNT))
    assert all(offset <= count for count, offset in done)
    assert one.first_unprocessed() == COUNT


def test_records_that_are_dropped_while_they_are_opened_are_not_handed_out() -> None:
    def handed_out(drop_at: int) -> tuple[list[int], int]:
        one, steps = cursor(), itertools.count()
        at_each_step_of(Cursor.open, lambda: one.drop() if next(steps) == drop_at else None, one.open)
        return [record.offset for record in one.each()], next(steps)

    everything, steps = handed_out(-1)
    assert everything == list(range(COUNT))
    assert steps > COUNT
    assert [handed_out(step)[0] for step in range(steps)] == [[]] * steps


def test_what_was_not_handed_out_before_a_drop_is_read_from_there(next_record: Callable[..., object]) -> None:
    def handed_out_and_stop(drop_at: int) -> tuple[int, int, int]:
        one, steps, stops = cursor(), itertools.count(), list[int]()
        given: list[int] = []

        def look() -> None:
            if next(steps) == drop_at:
                stops.append(one.drop())

        at_each_step_of(next_record, look, lambda: given.extend(record.offset for record in one.each()))
        assert given == list(range(len(given)))
        return len(given), stops[0] if stops else COUNT, next(steps)

    _, _, steps = handed_out_and_stop(-1)
    assert steps > 10 * COUNT
    for step in range(steps):
        count, stop, _ = handed_out_and_stop(step)
        assert stop <= count <= stop + 1  # at most the one that is handed out just then is read again


def test_columns_that_are_dropped_while_they_are_opened_are_handed_out_or_read_again() -> None:
    def handed_out_and_stop(drop_at: int) -> tuple[int, int, int]:
        one, steps, stops = cursor(), itertools.count(), list[int]()

        def drop() -> None:
            if next(steps) == drop_at:
                stops.append(one.drop())

        found: list[object] = []
        at_each_step_of(Cursor.remaining_columns, drop, lambda: found.extend(one.remaining_columns()))
        return len(found), (stops or [one.drop()])[0], next(steps)

    given, stop, steps = handed_out_and_stop(-1)
    assert (given, stop) == (1, COUNT)
    found = {handed_out_and_stop(step)[:2] for step in range(steps)}
    assert found == {(0, 0), (1, COUNT)}, "the position is after the records exactly if the user got them"


def test_records_that_are_put_back_are_handed_out_again() -> None:
    one = cursor()
    one.next_records(2)
    one.mark_processed()
    assert [record.offset for record in one.next_records(1)] == [2]
    one.put_back()
    assert one.position() == one.first_unprocessed() == 2
    (left,) = one.remaining_columns()
    assert (left.record_count, one.position()) == (2, COUNT)
    one.put_back()
    (left,) = one.remaining_columns()
    assert left.record_count == 2


def drop_while_asked(taken: int, asked_at: int) -> bool:
    """Drop a cursor while another thread asks for a record at one step. Return whether there is such a step."""
    one = cursor()
    one.next_records(taken)
    passed = 0
    ends: list[int] = []

    def ask() -> None:
        nonlocal passed
        if passed == asked_at:
            one.next_records(1)
        passed += 1

    at_each_step_of(Cursor.drop, ask, lambda: ends.append(one.drop()))
    assert ends == [one.taken]
    assert one.next_records(1) == []
    return asked_at < passed


@pytest.mark.parametrize("taken", [0, 1, COUNT - 1])
def test_a_dropped_cursor_ends_behind_all_that_was_handed_out_whenever_another_thread_asks(taken: int) -> None:
    assert drop_while_asked(taken, 0)
    assert any(not drop_while_asked(taken, step) for step in range(1, 1_000))
