"""Acquired records until their acknowledgement: ranges and gaps, records in hand, runs of offsets, and batches that are damaged."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.consumer.cursor import Cursor
from ottla.client.errors import SettingError
from ottla.client.share.acknowledgements import (
    GAP,
    AcknowledgementRun,
    AcknowledgeType,
    acknowledge_type,
    acknowledgement_batches,
    count_of,
    join_runs,
    runs_of,
)
from ottla.client.share.deliveries import AcquiredBatches, DeliveredRange, ShareDelivery, Source, acquired_ranges, handed_out
from ottla.client.types import TopicPartition
from ottla.records.batches.columns import build
from ottla.wire.api.share_fetch import ShareFetchResponse

P = TopicPartition("t", 0)
SOURCE = Source(P, b"t" * 16, 1, 0, 1_000)
ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
Run = AcknowledgementRun


def batch(base_offset: int, count: int, **fields: int | bool) -> bytes:
    values = [b"%d" % offset for offset in range(base_offset, base_offset + count)]
    return bytes(build(None, values, 0, base_offset=base_offset, **fields))  # type: ignore[arg-type]  # fields of build


def acquire(data: bytes, *ranges: tuple[int, int, int], check_crcs: bool = True) -> AcquiredBatches:
    wanted = [DeliveredRange(*each) for each in ranges]
    return AcquiredBatches(SOURCE, memoryview(data), wanted, check_crcs=check_crcs, open_cursor=Cursor)


def delivery(count: int = 10) -> ShareDelivery:
    (made,) = acquire(batch(0, count), (0, count - 1, 1)).open().deliveries
    return made


def offsets(made: ShareDelivery) -> list[int]:
    return [record.offset for record in made.cursor.open()]


def test_each_range_is_a_delivery_with_its_count() -> None:
    opened = acquire(batch(0, 10), (2, 3, 1), (4, 4, 3), (7, 9, 1)).open()
    found = [[(record.offset, record.delivery_count) for record in each.cursor.open()] for each in opened.deliveries]
    assert found == [[(2, 1), (3, 1)], [(4, 3)], [(7, 1), (8, 1), (9, 1)]]
    assert (opened.runs, opened.error) == ([], None)


def test_adjacent_ranges_of_one_count_are_one() -> None:
    made = ShareFetchResponse.AcquiredRecords
    parts = [(0, 4, 1), (5, 9, 1), (10, 10, 2), (12, 12, 2)]
    found = acquired_ranges([made(first_offset=first, last_offset=last, delivery_count=count) for first, last, count in parts])
    assert found == [(0, 9, 1), (10, 10, 2), (12, 12, 2)]


def test_acquired_offsets_without_a_record_are_gaps() -> None:
    data = batch(2, 2) + batch(6, 1) + batch(7, 1, control=True, transactional=True, producer_id=1, producer_epoch=0)
    opened = acquire(data, (0, 8, 1)).open()
    assert opened.runs == [Run(0, 1, GAP), Run(4, 5, GAP), Run(7, 8, GAP)]
    (found,) = opened.deliveries
    assert offsets(found) == [2, 3, 6]
    found.cursor.mark_processed()
    assert found.pop_processed() == [Run(2, 3, ACCEPT), Run(6, 6, ACCEPT)]
    assert found.is_finished


def test_records_are_accepted_as_they_are_processed() -> None:
    made = delivery()
    records = made.cursor.each()
    for _ in range(4):
        next(records)
    assert made.pop_processed() == [Run(0, 2, ACCEPT)], "the fourth is in the user's hands"
    assert made.pop_processed() == []
    made.cursor.mark_processed()
    assert made.pop_processed() == [Run(3, 3, ACCEPT)]
    assert not made.is_finished
    assert len(list(records)) == 6
    made.cursor.mark_processed()
    assert made.pop_processed() == [Run(4, 9, ACCEPT)]
    assert made.is_finished


def test_a_record_with_a_decision_is_not_accepted_too() -> None:
    made = delivery()
    made.cursor.next_records(10)
    made.decide(4, RELEASE)
    made.cursor.mark_processed()
    assert made.pop_processed() == [Run(0, 3, ACCEPT), Run(4, 4, RELEASE), Run(5, 9, ACCEPT)]


def test_only_handed_out_records_are_in_hand_until_their_final_acknowledgement() -> None:
    made = delivery()
    made.cursor.next_records(3)
    assert [made.is_in_hand(offset) for offset in (-1, 0, 2, 3, 10)] == [False, True, True, False, False]
    assert made.find_undecided() == [0, 1, 2]
    made.decide(0, ACCEPT)
    made.decide(0, REJECT)
    made.decide(1, RENEW)
    assert made.find_undecided() == [2]
    assert made.pop_decisions() == [Run(0, 0, REJECT), Run(1, 1, RENEW)]
    assert [made.is_in_hand(offset) for offset in (0, 1, 2)] == [False, True, True]
    assert made.find_undecided() == [2]
    made.decide(1, ACCEPT)
    made.decide(2, ACCEPT)
    made.cursor.drop()
    assert made.pop_decisions() == [Run(1, 2, ACCEPT)]
    assert made.is_finished


def test_renewals_are_sent_before_the_rest() -> None:
    made = delivery()
    made.cursor.next_records(3)
    for offset, kind in enumerate((ACCEPT, RENEW, RELEASE)):
        made.decide(offset, kind)
    assert made.pop_renewals() == [Run(1, 1, RENEW)]
    assert made.pop_decisions() == [Run(0, 0, ACCEPT), Run(2, 2, RELEASE)]


def test_columns_are_records_in_hand() -> None:
    made = delivery()
    (columns,) = made.cursor.remaining_columns()
    assert list(columns.offsets) == [*range(10)]
    assert made.is_in_hand(9)
    made.cursor.finish()
    assert made.pop_processed() == [Run(0, 9, ACCEPT)]


def test_dropped_records_are_not_accepted() -> None:
    made = delivery()
    made.cursor.next_records(2)
    made.cursor.drop()
    made.cursor.mark_processed()
    assert made.pop_processed() == [Run(0, 1, ACCEPT)]
    assert made.is_finished


def test_a_damaged_batch_is_rejected_and_the_others_are_delivered() -> None:
    damaged = bytearray(batch(3, 3))
    damaged[-1] ^= 0xFF
    opened = acquire(batch(0, 3) + bytes(damaged) + batch(6, 2), (1, 6, 1)).open()
    assert opened.runs == [Run(3, 5, REJECT)]
    assert [offsets(each) for each in opened.deliveries] == [[1, 2, 6]]
    assert "offsets 3 to 5 cannot be opened" in str(opened.error)


def test_a_batch_that_cannot_be_decompressed_is_rejected() -> None:
    damaged = bytearray(build(None, [b"x" * 100] * 3, 0, base_offset=0, codec=2))
    damaged[70:80] = b"\xff" * 10
    found = acquire(bytes(damaged) + batch(3, 2), (0, 4, 1), check_crcs=False)
    runs, values, errors = [], [], []
    while not found.is_opened:
        opened = found.open()
        runs += opened.runs
        values += [offsets(each) for each in opened.deliveries]
        errors += [opened.error] if opened.error is not None else []
    assert (join_runs(runs), values, len(errors)) == ([Run(0, 2, REJECT)], [[3, 4]], 1)


def test_bytes_that_are_no_batches_are_an_error() -> None:
    opened = acquire(b"\0" * 80, (0, 4, 1)).open()
    assert opened.deliveries == []
    assert opened.error is not None


def test_the_position_of_the_user_is_in_each_delivery() -> None:
    made = delivery()
    before = handed_out([made])
    made.cursor.next_records(1)
    assert not handed_out([made]) <= before


@pytest.mark.parametrize("given", ["Accept", 1, None, "gap"])
def test_a_wrong_type_is_refused(given: object) -> None:
    with pytest.raises(SettingError, match="one of accept, release, reject, renew"):
        acknowledge_type(given)


def test_types_have_names() -> None:
    assert [acknowledge_type(each) for each in ("accept", RELEASE, "reject", "renew")] == [ACCEPT, RELEASE, REJECT, RENEW]


def expand(runs: Sequence[AcknowledgementRun]) -> dict[int, int]:
    return {offset: run.kind for run in runs for offset in range(run.first, run.last + 1)}


KINDS = st.dictionaries(st.integers(0, 300), st.sampled_from([GAP, *AcknowledgeType]))


@given(KINDS)
def test_batches_of_a_request_contain_each_offset_once_with_its_type(decisions: dict[int, int]) -> None:
    found: dict[int, int] = {}
    last = -1
    for each in acknowledgement_batches(runs_of(decisions)):
        assert last < each.first_offset <= each.last_offset
        last, count = each.last_offset, each.last_offset - each.first_offset + 1
        assert len(each.acknowledge_types) in (1, count)
        types = each.acknowledge_types if len(each.acknowledge_types) == count else each.acknowledge_types * count
        found |= dict(zip(range(each.first_offset, each.last_offset + 1), types, strict=True))
    assert found == decisions
    assert count_of(runs_of(decisions)) == sum(kind != GAP for kind in decisions.values())


@given(st.lists(st.integers(0, 40), unique=True), st.lists(st.sampled_from(["next", "mark", "pop", "decide", "drop"]), max_size=30))
def test_every_processed_record_is_acknowledged_exactly_once(kept: list[int], steps: list[str]) -> None:
    data = b"".join(batch(offset, 1) for offset in sorted(kept))
    opened = acquire(data, (0, 40, 1)).open()
    found, handed = dict(expand(opened.runs)), set[int]()
    assert sorted(found) == sorted({*range(41)} - {*kept})
    for made in opened.deliveries:
        for step in [*steps, "mark"]:
            act(made, step, handed)
            for offset, kind in expand(made.pop_processed()).items():
                assert offset not in found
                found[offset] = kind
    assert {offset for offset, kind in found.items() if kind != GAP} == handed


def act(made: ShareDelivery, step: str, handed: set[int]) -> None:
    if step == "next":
        handed.update(each.offset for each in made.cursor.next_records(3))
    elif step == "mark":
        made.cursor.mark_processed()
    elif step == "drop":
        made.cursor.drop()
    elif step == "decide" and handed and made.is_in_hand(max(handed)):
        made.decide(max(handed), RELEASE)
