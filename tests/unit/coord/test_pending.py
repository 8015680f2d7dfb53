"""Offsets in open transactions: nobody relies on them, and of a place the newest record counts, whoever ends first."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from ottla.coord.offsets import FetchGroup, OffsetKey, Offsets, fetch
from ottla.coord.records import OffsetCommitted, OffsetForgotten, OffsetPending, TransactionEnded
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.errors import NONE, UNSTABLE_OFFSET_COMMIT


def at(offset: int, partition: int = 0) -> OffsetCommitted:
    return OffsetCommitted("g", "t", partition, offset, 0, "", 7)


def fetched(offsets: Offsets, *, require_stable: bool = False) -> tuple[int, int]:
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    (part,) = fetch(offsets, FetchGroup(group_id="g", topics=[topic]), require_stable=require_stable).topics[0].partitions
    return part.error_code, part.committed_offset


def test_a_pending_offset_is_unstable_for_those_who_ask_and_the_former_one_for_others() -> None:
    offsets = Offsets()
    offsets.apply(at(1))
    offsets.apply(OffsetPending(9, at(5)))
    assert fetched(offsets) == (NONE, 1)
    assert fetched(offsets, require_stable=True) == (UNSTABLE_OFFSET_COMMIT, -1)
    offsets.apply(TransactionEnded(9, True))
    assert fetched(offsets, require_stable=True) == (NONE, 5)


def test_an_aborted_transaction_leaves_what_was_before() -> None:
    offsets = Offsets()
    offsets.apply(OffsetPending(9, at(5)))
    offsets.apply(TransactionEnded(9, False))
    assert fetched(offsets, require_stable=True) == (NONE, -1)
    offsets.apply(TransactionEnded(9, True))
    assert fetched(offsets) == (NONE, -1)


def test_asked_for_all_topics_only_what_was_committed_is_told() -> None:
    offsets = Offsets()
    offsets.apply(at(1))
    offsets.apply(OffsetPending(9, at(5)))
    offsets.apply(OffsetPending(9, at(6, partition=1)))
    (topic,) = fetch(offsets, FetchGroup(group_id="g", topics=None), require_stable=True).topics
    assert [(part.partition_index, part.error_code) for part in topic.partitions] == [(0, UNSTABLE_OFFSET_COMMIT)]


def test_a_tombstone_takes_what_is_pending_with_it() -> None:
    offsets = Offsets()
    offsets.apply(OffsetPending(9, at(5)))
    assert offsets.forget_group("g", 10) == [OffsetForgotten("g", "t", 0)]
    offsets.apply(OffsetForgotten("g", "t", 0))
    assert not offsets.pending
    offsets.apply(TransactionEnded(9, True))
    assert fetched(offsets) == (NONE, -1)


STEPS = st.lists(
    st.one_of(
        st.builds(lambda p: ("plain", 0, p), st.integers(0, 1)),
        st.builds(lambda who, p: ("pending", who, p), st.integers(1, 3), st.integers(0, 1)),
        st.builds(lambda who, yes: ("ended", who, yes), st.integers(1, 3), st.booleans()),
        st.builds(lambda p: ("tombstone", 0, p), st.integers(0, 1)),
    ),
    max_size=30,
)


@given(STEPS)
def test_the_newest_record_that_counts_is_what_is_committed(steps: list[tuple[str, int, int]]) -> None:
    """Against a model that looks at the whole history: every record has its number as its offset."""
    offsets = Offsets()
    counting: dict[int, int] = {}
    pending: dict[int, list[tuple[int, int]]] = {1: [], 2: [], 3: []}
    for number, (what, who, detail) in enumerate(steps):
        if what == "plain":
            offsets.apply(at(number, detail))
            counting[detail] = number
        elif what == "pending":
            offsets.apply(OffsetPending(who, at(number, detail)))
            pending[who].append((detail, number))
        elif what == "ended":
            offsets.apply(TransactionEnded(who, bool(detail)))
            for partition, older in pending[who] if detail else ():
                counting[partition] = max(older, counting.get(partition, -1))
            pending[who] = []
        else:
            offsets.apply(OffsetForgotten("g", "t", detail))
            counting.pop(detail, None)
            pending = {holder: [each for each in held if each[0] != detail] for holder, held in pending.items()}
        assert {index: held.offset for index, held in offsets.of("g").get("t", {}).items()} == counting
        assert {place.partition for place in offsets.pending.places("g")} == {each[0] for held in pending.values() for each in held}


def test_what_a_group_has_pending_is_found_without_a_look_at_what_others_have() -> None:
    """Deserted groups are asked about one by one: each that looked at all pending offsets would make that quadratic."""

    class Unread(dict[OffsetKey, dict[int, None]]):
        def __iter__(self) -> Iterator[OffsetKey]:
            raise AssertionError("all places are looked at")

    offsets = Offsets()
    offsets.pending.by_place = Unread()
    for group in ("g", "other"):
        offsets.apply(OffsetPending(9, at(5)._replace(group_id=group)))
    assert list(offsets.pending.places("g")) == [OffsetKey("g", "t", 0)]
    offsets.apply(TransactionEnded(9, False))
    assert list(offsets.pending.places("g")) == []
