"""Some rounds of `make torture-07`: positions of Kafka 0.7 mean the same for ever, and readers of both times see the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.positions07 import torture


@pytest.mark.full(seconds=11)
@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_position_that_was_given_means_the_same_message_whatever_happens(tmp_path: Path) -> None:
    judged = torture(tmp_path, rounds=5, seed=4)
    assert judged.faults == []
    assert judged.positions > 100
