"""The files of answers that Apache Kafka was seen to give: each has one for each case, and none that is not compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.support.held_cases import held_cases
from tests.support.pending_cases import UNDECIDED, pending_cases
from tests.support.rebalance_cases import rebalance_cases
from tests.support.reconciling_cases import reconciling_cases

CASES: dict[str, Callable[[], Iterable[object]]] = {
    "held_back_transactions.json": held_cases,
    "decisions_not_yet_durable.json": lambda: (case for state in UNDECIDED for case in pending_cases(state)),
    "rebalances_under_way.json": rebalance_cases,
    "reconciling_groups.json": reconciling_cases,
}


@pytest.mark.parametrize("name", CASES)
def test_each_recorded_answer_is_of_one_case(name: str) -> None:
    names = [str(case) for case in CASES[name]()]
    answers = json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    assert sorted(names) == sorted(answers)
    assert len(names) > 300
