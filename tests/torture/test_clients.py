"""Three kills of `make torture-clients`: Ottla's own clients lose, double and reorder nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.apache_kafka import Unavailable
from tests.torture.clients import torture


@pytest.mark.interop
@pytest.mark.slow
def test_clients_that_are_killed_with_their_broker_lose_and_double_nothing(tmp_path: Path) -> None:
    result = torture(tmp_path, kills=3, seconds=60, seed=4, members=1)
    assert result.faults == []
    assert result.kills.total() == 3
    assert result.kills["broker"] == 2
    assert result.acknowledged > 100
    assert result.copied > 100


@pytest.mark.java
@pytest.mark.full(seconds=100)
@pytest.mark.timeout(300)
def test_clients_of_three_brokers_of_apache_kafka_whose_leaders_die_lose_and_double_nothing(tmp_path: Path) -> None:
    try:
        result = torture(tmp_path, kills=6, seconds=150, seed=1, members=1, trio=True)
    except Unavailable as missing:
        pytest.skip(f"no Apache Kafka: {missing}")
    assert result.faults == []
    assert result.kills["broker"] == 3
    assert result.acknowledged > 100
    assert result.copied > 100
