"""A short `make torture-threads`: threads call, close, wake up and fork blocking clients in random order, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.threads import broker, storm


@pytest.mark.parametrize("seconds", [4, pytest.param(110, marks=[pytest.mark.full, pytest.mark.timeout(400)])])
def test_threads_that_call_everything_at_once_lose_nothing_and_see_documented_errors_only(tmp_path: Path, seconds: int) -> None:
    with broker(tmp_path) as process:
        found = storm(process.address, seconds, seed=seconds)
        log = process.log
    assert found.faults == []
    assert found.forks >= 3
    assert found.acknowledged > 100
    assert " ERROR " not in log
    assert "Traceback" not in log
