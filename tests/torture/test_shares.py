"""A short `make torture-shares`, and that its history finds what must not happen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.shares import LATE_NS, LIMIT, SharesHistory, torture


@pytest.mark.full(seconds=40)
@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_tormented_share_group_processes_each_record_once(tmp_path: Path) -> None:
    result = torture(tmp_path, rounds=6, seconds=30, seed=1, members=3)
    assert result.faults == []
    assert result.broker_kills >= 1
    assert result.member_kills >= 1
    assert result.records > 200


@pytest.mark.full(seconds=80)
@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_share_group_survives_brokers_that_are_killed_one_by_one(tmp_path: Path) -> None:
    result = torture(tmp_path, rounds=4, seconds=60, seed=2, members=2, brokers=3)
    assert result.faults == []
    assert result.broker_kills >= 1


GOT = ["got", "0", "7", "1", "100"]
DONE = ["done", "0", "7", "accept", "200"]


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ([[GOT, DONE]], None),
        ([[GOT, ["done", "0", "7", "release", "150"], DONE]], None),
        ([[GOT, DONE], [["got", "0", "7", "2", "120"], ["done", "0", "7", "reject", "300"]]], "over 2 times"),
        ([[GOT, DONE], [["began", "250"], ["got", "0", "7", "2", "300"]]], "after it was over"),
        ([[GOT, DONE], [["got", "0", "7", "2", str(201 + LATE_NS)]]], "after it was over"),
        ([[["got", "0", "7", str(LIMIT + 1), "100"], DONE]], f"the {LIMIT + 1}th time"),
        ([[GOT]], "never over"),
        ([[GOT, ["try", "0", "7", "accept"]]], None),
        ([[GOT, ["try", "0", "7", "release"]]], "never over"),
    ],
)
def test_a_history_of_shares_finds_what_must_not_happen(lines: list[list[list[str]]], fault: str | None) -> None:
    found = SharesHistory(lines).faults({0: {7}})
    assert found == [] if fault is None else fault in " ".join(found)
