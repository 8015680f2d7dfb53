"""Positions of Kafka 0.7 over whole lives of a log: what was seen once is seen for ever, by whichever crash it was followed."""

from __future__ import annotations

import pytest

from tests.unit.kafka07.lives import live


@pytest.mark.expects_errors("could not be deleted|could not be stored")
@pytest.mark.parametrize("seed", range(25))
def test_a_byte_that_was_seen_is_the_same_after_restarts_and_power_cuts(seed: int) -> None:
    live(seed, 50)
