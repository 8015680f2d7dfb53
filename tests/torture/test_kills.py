"""Five rounds of `make torture`: a broker killed under load loses, doubles and reorders nothing that it acknowledged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.kills import torture


@pytest.mark.interop
@pytest.mark.slow
def test_a_killed_broker_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    kills, lives, acknowledged, wrong = torture(tmp_path, rounds=5, seed=1, limit_s=90)
    assert wrong == []
    assert kills >= 5
    assert lives >= 3
    assert acknowledged > 1000
