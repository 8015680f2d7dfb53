"""Long work on a share partition is divided, and its parts have the same result as the whole."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.share import release
from ottla.share.acknowledge import ACCEPT, RELEASE, RENEW
from ottla.share.outcome import AcknowledgeRecords, AcquireRecords, ReleaseMember, ShareLimits, ShareOutcome, StateRead, WriteResult
from ottla.share.partition import SharePartition
from ottla.share.window import InFlightRun
from ottla.wire.errors import NONE

GAPS = [(0, 5), (8, 9), (10, 21), (25, 40)]
"""Batches of a log with offsets between them that have no records."""
LOCK_MS = 1_000


def held(acquired: Sequence[int], start: int) -> SharePartition:
    """A share partition whose records were acquired by two members in turn, this number of records at a time."""
    partition = SharePartition("group", b"t" * 16, 0, 7, ShareLimits(5, 10_000, LOCK_MS))
    partition.submit(StateRead(3, start, ()), 0)
    for turn, most in enumerate(acquired):
        at = partition.next_fetch_offset
        found = [batch for batch in GAPS if batch[1] >= at]
        if found:
            partition.submit(AcquireRecords("ab"[turn % 2], at, found, most, 500, is_record_limited=True), 0)
    return partition


def store(partition: SharePartition, outcome: ShareOutcome) -> None:
    if outcome.write is not None:
        partition.submit(WriteResult(outcome.write.token, NONE), 1)


def states(partition: SharePartition) -> list[InFlightRun]:
    return list(partition.runs())


ranges = st.lists(
    st.tuples(st.integers(0, 42), st.integers(0, 20), st.lists(st.integers(0, 4), min_size=21, max_size=21), st.booleans()),
    min_size=1,
    max_size=4,
)


@given(st.lists(st.integers(1, 12), max_size=8), st.integers(0, 9), ranges, st.integers(1, 4))
def test_acknowledgements_in_parts_have_the_result_of_the_whole(
    acquired: list[int], start: int, given_ranges: list[tuple[int, int, list[int], bool]], most: int
) -> None:
    whole, divided = held(acquired, start), held(acquired, start)
    batches = [
        (first, first + length, types[: length + 1] if is_typed else types[:1])
        for first, length, types, is_typed in sorted(given_ranges)
    ]
    asked = AcknowledgeRecords("a", batches)
    outcome = whole.submit(asked, 1)
    store(whole, outcome)
    parts = divided.divide(asked, most)
    error_codes = {divided.decide(part, 1).error_code for part in parts}
    if error_codes == {NONE}:
        outcomes = [divided.submit(part, 1) for part in parts]
        error_codes = {each.error_code for each in outcomes}
        for each in outcomes:
            store(divided, each)
    assert (error_codes == {NONE}) == (outcome.error_code == NONE)
    if outcome.error_code == NONE:
        assert states(divided) == states(whole)
        assert divided.start_offset == whole.start_offset


def test_each_part_of_an_acknowledgement_has_few_types_and_runs() -> None:
    partition = held([1] * 30, 0)
    typed = AcknowledgeRecords("a", [(0, 999, [ACCEPT, RELEASE] * 500)])
    assert {len(part.batches[0][2]) for part in partition.divide(typed, 10)} <= {10, 11, 12, 13, 14}
    single = partition.divide(AcknowledgeRecords("a", [(0, 40, [RENEW])]), 10)
    assert len(single) > 2
    for part in single:
        ((first, last, _),) = part.batches
        assert len([run for run in partition.runs() if first <= run.first_offset <= last]) <= 11


@pytest.mark.parametrize("examined", [1_000, 2])
def test_a_release_in_steps_has_the_result_of_one(monkeypatch: pytest.MonkeyPatch, examined: int) -> None:
    whole, divided = held([1] * 30, 0), held([1] * 30, 0)
    store(whole, whole.submit(ReleaseMember("a"), 1))
    monkeypatch.setattr(release, "MOST_RELEASED", 3)
    monkeypatch.setattr(release, "MOST_EXAMINED", examined)
    first_offset: int | None = 0
    steps = 0
    while first_offset is not None:
        outcome = divided.submit(ReleaseMember("a", first_offset), 1)
        assert len(outcome.changes) <= 3
        first_offset = outcome.next_offset
        store(divided, outcome)
        steps += 1
    assert steps >= 5
    assert states(divided) == states(whole)
