"""Batches of lists of bytes, as coordinators write them, are written by one call of the kernel: the same bytes as by the others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records.batches.builder import build

ITEMS = st.none() | st.binary(max_size=200)
ROWS = st.lists(st.tuples(ITEMS, ITEMS), min_size=1, max_size=80)
FIELDS = st.fixed_dictionaries(
    {
        "producer_id": st.sampled_from([-1, 0, 2**62]),
        "producer_epoch": st.sampled_from([-1, 0, 2**15 - 1]),
        "base_sequence": st.sampled_from([-1, 0, 2**31 - 1]),
        "base_offset": st.sampled_from([0, 2**62]),
        "leader_epoch": st.sampled_from([-1, 7]),
        "transactional": st.booleans(),
        "control": st.booleans(),
    }
)


@given(rows=ROWS, keyed=st.booleans(), timestamp=st.sampled_from([-1, 0, 1_700_000_000_000]), fields=FIELDS)
def test_lists_and_other_columns_become_the_same_batch(
    kernels: SimpleNamespace, rows: list[Any], keyed: bool, timestamp: int, fields: dict[str, Any]
) -> None:
    keys, values = [key for key, _ in rows] if keyed else None, [value for _, value in rows]
    batch = build(keys, values, timestamp, **fields)
    assert batch == build(keys, tuple(values), timestamp, **fields)
    assert batch == build(keys, [None if value is None else memoryview(value) for value in values], timestamp, **fields)


def test_columns_of_other_lengths_are_refused(kernels: SimpleNamespace) -> None:
    for keys, values in (([b"a", b"b"], [b"c"]), ([], [b"c"])):
        with pytest.raises(ValueError, match="as many keys"):
            build(keys, values, 0)
    for keys, values in (([b"a", b"b"], [b"c"]), ([], [])):
        with pytest.raises(ValueError, match="differ"):
            kernels.kernel_build.write_batch(keys, values, 0, 0, 0, 0, -1, -1, -1)
