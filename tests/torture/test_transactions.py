"""A short `make torture-transactions`: broker and copiers are killed in turn, and what is committed is there whole, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.transactions import CONFLUENT, torture


@pytest.mark.full(seconds=16)
@pytest.mark.interop
@pytest.mark.slow
def test_killed_copiers_and_a_killed_broker_copy_each_record_once(tmp_path: Path) -> None:
    result = torture(tmp_path, [(CONFLUENT, "classic")] * 2, rounds=4, seed=1, limit_s=40)
    assert result.faults == []
    assert result.broker_kills >= 2
    assert result.copier_kills >= 2
    assert result.transactions["committed"] > 10
    assert result.records > 100
