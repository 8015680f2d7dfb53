"""docs/metrics.md: its table is made from the declarations, and has each of them once."""

from __future__ import annotations

from collections import Counter

from tools.metrics_page import PAGE, declared, rewritten


def test_the_page_has_the_declared_metrics() -> None:
    page = PAGE.read_text()
    assert page == rewritten(page), "run make docs"


def test_each_metric_has_a_name_of_its_own_and_an_explanation() -> None:
    names = Counter(each.name for each in declared())
    assert max(names.values()) == 1
    assert all(each.help.endswith(".") for each in declared())
