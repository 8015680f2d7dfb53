"""Three kills of `make torture-clients`: Ottla's own clients lose, double and reorder nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.apache_kafka import Unavailable
from tests.torture.clients import Processes, Tortured, judge, torture


@pytest.mark.full(seconds=20)
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


@pytest.mark.parametrize(
    ("source", "copies", "fault"),
    [
        ([b"w 0", b"w 1"], [b"0 0 w 0", b"0 1 w 1"], ""),
        ([b"w 0"], [b"0 0 w 0"], "acknowledged and is lost"),
        ([b"w 0", b"w 1", b"w 1"], [b"0 0 w 0", b"0 1 w 1", b"0 2 w 1"], "doubled or out of order"),
        ([b"w 1", b"w 0"], [b"0 0 w 1", b"0 1 w 0"], "doubled or out of order"),
        ([b"w 0", b"w 1"], [b"0 0 w 0", b"0 0 w 0", b"0 1 w 1"], "1 doubled, 0 lost"),
        ([b"w 0", b"w 1"], [b"0 0 w 0"], "0 doubled, 1 lost"),
        ([b"w 0", b"w 1"], [b"0 1 w 1", b"0 0 w 0"], "out of order"),
    ],
)
def test_the_judge_sees_what_is_lost_doubled_and_out_of_order(
    tmp_path: Path, source: list[bytes], copies: list[bytes], fault: str
) -> None:
    (tmp_path / "0~writer~w.notes").write_text("ack 0 0\nack 0 1\n")
    result = Tortured()
    judge(Processes(tmp_path, "", []), {0: source}, {0: copies}, result)
    assert [fault in found for found in result.faults] == ([True] if fault else [])
