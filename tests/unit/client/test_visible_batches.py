"""The batches that a reader can see: a kernel passes the usual ones, and finds what the walk in Python finds."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.consumer.visible_batches import AbortedTransaction, visible
from ottla.records.batches.header import BadBatch
from tests.unit.records.making import edited, simple

NEVER = AbortedTransaction(producer_id=99, first_offset=2**62)
"""An aborted transaction that hides nothing, but makes `visible` walk in Python."""

LIES = st.fixed_dictionaries(
    {},
    optional={
        "attributes": st.sampled_from([1, 8, 16, 32, 48]),
        "record_count": st.sampled_from([-1, 0, 2, 2**31 - 1]),
        "last_offset_delta": st.sampled_from([-1, 2, 30]),
        "base_offset": st.sampled_from([-1, 0, 2**62]),
        "magic": st.sampled_from([1, 2, 2, 3]),
        "batch_length": st.sampled_from([-1, 0, 48, 49, 2**31 - 1]),
    },
)


@given(
    lies=st.lists(st.one_of(st.just({}), LIES), max_size=4),
    cut=st.sampled_from([0, 0, 1, 40, 80]),
    damaged=st.booleans(),
    check_crcs=st.booleans(),
    control=st.booleans(),
)
def test_the_quick_pass_finds_what_the_walk_finds(
    lies: list[dict[str, Any]], cut: int, damaged: bool, check_crcs: bool, control: bool
) -> None:
    parts = [bytes(edited(simple(3, base_offset=3 * index), **lie)) for index, lie in enumerate(lies) if "batch_length" not in lie]
    parts += [bytes(edited(simple(1), fix_crc=False, **lie)) for lie in lies if "batch_length" in lie]
    data = bytearray(b"".join(parts))
    if damaged and data:
        data[-1] ^= 1
    view = memoryview(data)[: max(0, len(data) - cut)]

    def seen(*aborted: AbortedTransaction) -> object:
        try:
            found = visible(view, aborted, check_crcs=check_crcs, control=control)
        except BadBatch as error:
            return str(error)
        return b"".join(found.pieces), len(found.pieces), found.next_offset, found.record_count

    assert seen() == seen(NEVER)
