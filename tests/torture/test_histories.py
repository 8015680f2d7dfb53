"""The judge of `make torture-transactions` finds each anomaly in a history that has it, and none in one that is whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.torture.copier import Copied
from tests.torture.histories import History, Place, anomalies

Kept = dict[Place, dict[int, bytes]]
NOTES = ["commit 0 4 0:0-0", "committed 0", "abort 1 0:1-1", "aborted 1", "commit 2 4", "committed 2", "commit 3 2"]


def life() -> tuple[History, Kept]:
    """Two records of each of two partitions, copied to two topics by two transactions; a third was asked for, and is there."""
    history = History({0: {0: b"a", 1: b"b"}, 1: {0: b"c"}})
    history.add("x", NOTES)
    kept: Kept = {(topic, index): {} for topic in ("copies", "twins") for index in (0, 1)}
    for number, (partition, offset, value) in enumerate([(0, 0, b"a"), (0, 1, b"b"), (1, 0, b"c")]):
        transaction, count, index = (3, 2, 0) if partition else (number * 2, 2, 0)
        for topic in ("copies", "twins"):
            kept[topic, partition][offset * 2] = Copied("x", transaction, index, count, partition, offset, value).written()
            index += 1
    history.committed = dict.fromkeys(history.committed, 2)
    return history, kept


def test_a_whole_history_has_no_anomaly() -> None:
    history, kept = life()
    assert anomalies(history, kept, kept) == []
    assert anomalies(history, kept, {}) == []


def lose(kept: Kept) -> None:
    for topic in ("copies", "twins"):
        del kept[topic, 0][2]


def fracture(kept: Kept) -> None:
    del kept["twins", 1][0]


def show_aborted(kept: Kept) -> None:
    kept["copies", 0][4] = Copied("x", 1, 0, 1, 0, 1, b"b").written()


def show_unasked(kept: Kept) -> None:
    kept["copies", 0][4] = Copied("y", 0, 0, 1, 0, 1, b"b").written()


def double(kept: Kept) -> None:
    kept["copies", 0][4] = kept["copies", 0][2]


def turn_round(kept: Kept) -> None:
    first, second = kept["copies", 0].values()
    kept["copies", 0] = {0: second, 2: first}


def change_value(kept: Kept) -> None:
    kept["copies", 1][0] = kept["copies", 1][0].replace(b" c", b" d")


@pytest.mark.parametrize(
    ("plant", "told"),
    [
        (lose, "lost transactions"),
        (fracture, "fractured reads"),
        (show_aborted, "aborted reads"),
        (show_unasked, "aborted reads"),
        (double, "duplicates"),
        (turn_round, "out of order"),
        (change_value, "were not copied"),
    ],
)
def test_each_anomaly_is_found(plant: Callable[[Kept], None], told: str) -> None:
    history, kept = life()
    plant(kept)
    assert any(told in line for line in anomalies(history, kept, {}))


def test_a_reader_that_saw_what_is_gone_or_passed_over_what_came_later_is_found() -> None:
    history, kept = life()
    assert any("not there any more" in line for line in anomalies(history, kept, {("copies", 0): {1: b"gone"}}))
    assert any("passed over" in line for line in anomalies(history, kept, {("copies", 0): {2: kept["copies", 0][2]}}))


def test_records_that_a_late_end_of_a_transaction_skipped_are_not_missed_and_others_are() -> None:
    history, kept = life()
    for topic in ("copies", "twins"):
        del kept[topic, 0][2]
    del history.committed["x", 2]
    assert any("were not copied" in line for line in anomalies(history, kept, {}))
    late = replace(history, ends_are_late=True)
    assert anomalies(late, kept, {}) == []
    late.given_back.clear()
    assert any("were not copied" in line for line in anomalies(late, kept, {}))
