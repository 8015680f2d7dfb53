"""A cursor that is read in any mixture of ways hands out each record in its order, and its positions agree with that."""

from __future__ import annotations

from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.consumer.cursor import Cursor
from ottla.client.consumer.fetcher import Chunk
from ottla.client.types import TopicPartition
from ottla.records.batches.builder import build

WHERE = TopicPartition("t", 0)
WAYS = ("list", "iterate", "columns", "part of the columns", "peek", "processed", "put back", "skip")
STEPS = st.lists(st.tuples(st.sampled_from(WAYS), st.integers(0, 5)), max_size=15)


def cursor_of(sizes: list[int]) -> Cursor:
    data, start = bytearray(), 0
    for size in sizes:
        data += build(None, [b"%d" % number for number in range(start, start + size)], 7, base_offset=start)
        start += size
    return Cursor(Chunk(WHERE, [memoryview(data)], 0, start))


class CursorUser:
    """What the user of a cursor got: `given` and `processed` are offsets, and the cursor must agree with them."""

    def __init__(self, sizes: list[int]) -> None:
        self.cursor = cursor_of(sizes)
        self.total = sum(sizes)
        self.given = self.processed = 0
        self.has_columns = False
        """A consumer counts columns as processed before it reads on."""

    def take(self, offsets: list[int]) -> None:
        assert offsets == list(range(self.given, self.given + len(offsets)))
        self.given += len(offsets)

    def columns(self, count: int | None) -> None:
        """Take the rest as columns, or with `count` what is before a record that cannot be read."""
        left = [offset for columns in self.cursor.peek_columns() for offset in columns.offsets]
        assert left == list(range(self.given, self.total))
        end = self.given + count if count is not None and 0 < count < len(left) else None
        if self.cursor.claim_columns(end):
            self.take(left[:count] if end is not None else left)
            self.has_columns = True

    def step(self, way: str, count: int) -> None:
        cursor = self.cursor
        if way == "list" and not self.has_columns:
            self.take([record.offset for record in cursor.next_records(count)])
        elif way == "iterate" and not self.has_columns and count:
            found = [record.offset for record in islice(cursor.each(), count)]
            self.take(found)
            self.processed = max(self.processed, self.given - (len(found) == count))
        elif way == "columns" and not cursor.held:
            self.columns(None)
        elif way == "part of the columns" and not cursor.held:
            self.columns(count)
        elif way == "peek" and not cursor.held:
            cursor.peek_columns()
        elif way == "processed":
            cursor.mark_processed()
            self.processed, self.has_columns = self.given, False
        elif way == "put back":
            cursor.put_back()
            self.given, self.has_columns = self.processed, False
        elif way == "skip" and not cursor.held and self.given < self.total:
            cursor.pass_over()
            self.given += 1
            self.processed = self.given


@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3), steps=STEPS, drop=st.booleans())
@settings(max_examples=200, deadline=None)
def test_records_and_positions_agree_however_a_chunk_is_read(sizes: list[int], steps: list[tuple[str, int]], *, drop: bool) -> None:
    user = CursorUser(sizes)
    for way, count in steps:
        if user.cursor.exhausted:
            break
        user.step(way, count)
        assert (user.cursor.position(), user.cursor.first_unprocessed()) == (user.given, user.processed), (way, count)
        assert user.cursor.held == (user.given > user.processed)
    if drop and not user.cursor.exhausted:
        assert user.cursor.drop() == user.given
        assert user.cursor.exhausted
        assert not user.cursor.claim_columns()
