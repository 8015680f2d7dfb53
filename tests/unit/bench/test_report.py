"""The table of the benchmark: medians, ranges, ratios, and what is to be reached."""

from __future__ import annotations

import pytest

from bench.report import Results, number, page, table

STARTS = "start to first answer, s"


def two_servers() -> Results:
    results = Results(["Ottla", "Peer"], notes=["A note."])
    for ours, theirs in ((0.1, 1.0), (0.3, 2.0), (0.2, 4.0)):
        results.add("Ottla", {STARTS: ours})
        results.add("Peer", {STARTS: theirs})
    return results


def test_medians_stand_with_their_range_ratio_and_verdict() -> None:
    line = table(two_servers()).splitlines()[-1]
    assert line == f"| {STARTS} | 0.2 (0.1 to 0.3) | 2 (1 to 4) | 0.10 | ≤ 0.1: reached |"


def test_a_missed_target_is_said() -> None:
    results = two_servers()
    for _ in range(7):
        results.add("Ottla", {STARTS: 3.0})
    assert "≤ 0.1: **missed**" in table(results)


def test_a_figure_that_only_one_server_has_has_no_ratio() -> None:
    results = two_servers()
    results.add("Ottla", {"alone": 7.0})
    assert table(results).splitlines()[-1] == "| alone | 7 | - | - |  |"


def test_ottla_alone_has_neither_ratio_nor_verdict() -> None:
    results = Results(["Ottla"])
    results.add("Ottla", {STARTS: 0.2})
    assert table(results).splitlines()[-1] == f"| {STARTS} | 0.2 |"


def test_the_page_names_machine_and_notes() -> None:
    whole = page(two_servers(), "2 cores")
    assert "2 cores." in whole
    assert "- A note." in whole


def test_numbers_keep_three_digits_and_group_thousands() -> None:
    assert [number(value) for value in (None, 0.01234, 12.34, 123.4, 1234567.0)] == ["-", "0.0123", "12.3", "123", "1 234 567"]


@pytest.mark.parametrize(("seconds", "said"), [(9.5, "≤ 10: reached"), (10.5, "≤ 10: **missed**")])
def test_a_figure_of_ottla_alone_has_a_limit_of_its_own(seconds: float, said: str) -> None:
    name = "start with 100000 groups and 1000000 offsets, s"
    results = Results(["Ottla", "Apache Kafka"])
    results.add("Ottla", {name: seconds})
    assert said in table(results)
