"""What a consumer has handed out of a chunk, and what of it counts as processed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.consumer.cursor import Cursor, Progress
from ottla.client.consumer.fetcher import Chunk
from ottla.client.consumer.uncommitted_partitions import UncommittedPartitions
from ottla.client.types import OffsetAndMetadata, TopicPartition
from tests.unit.client.test_fetcher import A, B, answer, batch, reading


def chunk(*, start: int = 0, count: int = 4, where: TopicPartition = A) -> Chunk:
    return Chunk(where, [memoryview(batch(start, [b"v"] * count))], start, start + count)


def test_a_record_in_a_loops_body_is_handed_out_and_not_done() -> None:
    cursor = Cursor(chunk())
    assert (cursor.position(), cursor.first_unprocessed()) == (0, 0)
    each = cursor.each()
    assert next(each).offset == 0
    assert (cursor.position(), cursor.first_unprocessed()) == (1, 0)
    assert next(each).offset == 1
    assert (cursor.position(), cursor.first_unprocessed()) == (2, 1)
    assert [record.offset for record in each] == [2, 3]
    assert (cursor.position(), cursor.first_unprocessed(), cursor.exhausted) == (4, 4, True)


def test_a_loop_that_was_left_is_taken_up_where_it_stopped() -> None:
    cursor = Cursor(chunk())
    assert next(cursor.each()).offset == 0
    assert [record.offset for record in cursor.next_records(2)] == [1, 2]
    assert [record.offset for record in cursor.each()] == [3]


def test_a_dropped_cursor_hands_out_nothing_more_even_in_the_middle_of_a_loop() -> None:
    cursor = Cursor(chunk())
    each = cursor.each()
    next(each)
    cursor.drop()
    assert list(each) == []
    unopened = Cursor(chunk())
    unopened.drop()
    assert list(unopened.each()) == []


def test_a_cursor_cut_short_ends_behind_what_was_handed_out() -> None:
    fetcher = reading(A)
    [fetch] = fetcher.fetches(0)
    fetcher.on_answer(fetch, answer({A: batch(0, [b"v"] * 4)}), 0)
    taken = fetcher.next_chunk()
    assert taken is not None
    progress = Progress(fetcher)
    each = progress.begin(taken).each()
    assert [next(each).offset, next(each).offset] == [0, 1]
    progress.cut_short([A])
    assert progress.holds([A])
    assert progress.processed_offsets() == {A: OffsetAndMetadata(1)}
    assert list(each) == []
    progress.mark_processed()
    assert not progress.holds([A])
    assert progress.processed_offsets() == progress.positions() == {A: OffsetAndMetadata(2)}


def test_a_record_that_another_thread_gets_just_before_its_partition_is_taken_away_is_missing_in_a_transaction() -> None:
    class Racing(Cursor):
        def drop(self) -> int:
            self.next_records(1)
            return super().drop()

    fetcher, uncommitted = reading(A), UncommittedPartitions()
    progress = Progress(fetcher, Racing, uncommitted=uncommitted)
    progress.begin(chunk())
    progress.remove([A])
    assert uncommitted.pop_lost() == [A]


def test_columns_hand_out_the_rest_at_once() -> None:
    cursor = Cursor(chunk())
    next(cursor.each())
    [columns] = cursor.remaining_columns()
    assert list(columns.offsets) == [1, 2, 3]
    assert (cursor.position(), cursor.exhausted) == (4, True)


def test_columns_that_are_handed_out_count_as_progress_of_the_user() -> None:
    progress = Progress(reading(A))
    cursor = progress.begin(chunk())
    before = progress.handed_out()
    assert progress.handed_out() <= before
    cursor.remaining_columns()
    assert not progress.handed_out() <= before


def test_a_record_says_where_it_comes_from() -> None:
    import pickle

    [record] = Cursor(chunk(start=9, count=1, where=B)).next_records(5)
    assert (record.topic, record.partition, record.offset, record.value) == ("t", 1, 9, b"v")
    again = pickle.loads(pickle.dumps(record))
    assert (again.topic, again.partition, again) == ("t", 1, record)


@given(st.lists(st.sampled_from(["next", "poll", "columns", "settle"]), max_size=30))
def test_what_is_done_never_passes_what_was_handed_out_and_settling_makes_them_meet(steps: list[str]) -> None:
    fetcher = reading(A)
    progress, handed = Progress(fetcher), 0
    for step in steps:
        if step == "settle":
            progress.mark_processed()
            assert progress.positions() == progress.processed_offsets() == {A: OffsetAndMetadata(handed)}
            continue
        progress.mark_processed()
        cursor = next(iter(progress.left_over()), None)
        if cursor is None:
            [fetch] = fetcher.fetches(0)
            fetcher.on_answer(fetch, answer({A: batch(handed, [b"v"] * 4)}), 0)
            taken = fetcher.next_chunk()
            assert taken is not None
            cursor = progress.begin(taken)
        before = handed
        if step == "next":
            handed = next(cursor.each()).offset + 1
        elif step == "poll":
            handed = cursor.next_records(3)[-1].offset + 1
        else:
            handed = list(cursor.remaining_columns()[0].offsets)[-1] + 1
        assert progress.positions() == {A: OffsetAndMetadata(handed)}
        assert progress.processed_offsets() == {A: OffsetAndMetadata(before)}
