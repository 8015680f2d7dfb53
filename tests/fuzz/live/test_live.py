"""Extreme requests to a running broker, in short; and that the family notices what it is there to notice."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ottla.wire.api.delete_groups import DeleteGroupsResponse
from ottla.wire.errors import UNKNOWN_SERVER_ERROR
from tests.fuzz.live.life import Life, error_codes
from tests.fuzz.live.measured import LIMIT, LONGEST_STEP_MS


@pytest.mark.rows(1, seconds=15)
@pytest.mark.parametrize("seed", range(2))
def test_a_broker_stands_extreme_requests(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT, str(4 * LONGEST_STEP_MS))  # where many tests share processors, each step takes longer on them
    life = Life(tmp_path, random.Random(seed))
    life.live(5)
    assert life.asked > 20
    assert not life.faults


def test_steps_that_take_long_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT, "0.001")
    life = Life(tmp_path, random.Random(1))
    life.live(0.5)
    assert any(fault.startswith("slow: ") for fault in life.faults)


def test_an_error_of_the_brokers_own_is_noticed_wherever_it_stands() -> None:
    failed = DeleteGroupsResponse.DeletableGroupResult(group_id="g", error_code=UNKNOWN_SERVER_ERROR)
    assert set(error_codes(DeleteGroupsResponse(results=[failed]))) == {UNKNOWN_SERVER_ERROR}
