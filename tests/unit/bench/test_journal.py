"""Rows of the journal's benchmark: goals by peer, and the parts that are measured."""

from __future__ import annotations

import pytest

from bench import raw
from bench.figures import Figure, measure, page
from bench.journal_loads import KAFKA, WITHOUT, Taken

ROW = Figure("requests/s", "5", "peer: 4", "≥ 1 of peer: 1.25", True)
GOALS = {"acks=1": ("≥", 0.95), KAFKA: ("≥", 2.0)}


def test_a_row_stands_beside_every_peer() -> None:
    row = Taken([90.0], [30.0], [40.0]).figure("requests/s", 0, GOALS, {"acks=1": 92.0})
    assert row.limit == "acks=1: 92; without the journal: 30; Apache Kafka: 40"
    assert row.wanted == "≥ 0.95 of acks=1: 0.98; ≥ 2 of Apache Kafka: 2.25"
    assert row.reached is True


@pytest.mark.parametrize(("own", "reached"), [(94.0, True), (95.0, False)])
def test_one_missed_goal_is_enough_to_miss(own: float, reached: bool) -> None:
    assert Taken([90.0], [30.0], [40.0]).figure("requests/s", 0, GOALS, {"acks=1": own}).reached is reached


def test_a_goal_whose_peer_was_not_measured_is_not_judged() -> None:
    row = Taken([90.0], [30.0], None).figure("requests/s", 0, {KAFKA: ("≥", 2.0)})
    assert (row.wanted, row.reached) == ("", None)


def test_times_are_to_be_at_most_a_share() -> None:
    assert Taken([1.0], [30.0], None).figure("ms", 0, {WITHOUT: ("≤", 0.1)}).reached is True


def test_only_wanted_parts_are_measured() -> None:
    parts = {"one": lambda: [ROW], "two": lambda: [ROW, ROW]}
    assert measure(parts, ["one"]) == [ROW]
    assert measure(parts, []) == [ROW] * 3


def test_an_unknown_part_is_refused_before_anything_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert measure({"one": lambda: [ROW]}, ["one", "three"]) is None
    assert capsys.readouterr().err == "choose among one\n"


def test_a_page_has_a_line_for_each_figure() -> None:
    assert page("Title", [ROW], 3.2, "A note.").endswith("| requests/s | 5 | peer: 4 | ≥ 1 of peer: 1.25 | reached |\n")


def test_an_answer_with_an_error_for_any_partition_is_refused() -> None:
    def answer(*codes: int) -> bytes:
        parts = b"".join(index.to_bytes(4) + code.to_bytes(2) + bytes(24) for index, code in enumerate(codes))
        return bytes(4) + (1).to_bytes(4) + b"\0\1t" + len(codes).to_bytes(4) + parts + bytes(4)

    raw.check(answer(0, 0, 0), "t")
    with pytest.raises(RuntimeError, match="error 56"):
        raw.check(answer(0, 0, 56), "t")
