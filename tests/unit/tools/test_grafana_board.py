"""The Grafana board: made by its tool, and each expression is of metrics and labels that a broker declares."""

from __future__ import annotations

import json
import re

from ottla.broker.metrics.declaration import MetricKind
from tools.grafana_board import BOARD, ROWS, text
from tools.metrics_page import declared

ENDINGS = {MetricKind.HISTOGRAM: ("_bucket", "_sum", "_count"), MetricKind.SUMMARY: ("", "_sum", "_count")}
OWN_LABELS = {MetricKind.HISTOGRAM: {"le"}, MetricKind.SUMMARY: {"quantile"}}


def test_the_board_is_what_its_tool_makes() -> None:
    assert BOARD.read_text() == text(), "run make docs"


def test_panels_have_numbers_and_places_of_their_own() -> None:
    panels = json.loads(text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)


def test_each_expression_selects_declared_metrics_by_labels_that_they_have() -> None:
    known = {each.name + ending: each for each in declared() for ending in ENDINGS.get(each.kind, ("",))}
    for _, panels in ROWS:
        for panel in panels:
            for expression, _ in panel.targets:
                found = re.findall(r"\b((?:kafka|ottla|process)_\w+)(?:\{([^}]*)\})?", expression)
                assert found, expression
                for name, selection in found:
                    assert name in known, expression
                    labels = set(re.findall(r"(\w+)[=!]", selection)) - {"instance"}
                    assert labels <= {*known[name].labels, *OWN_LABELS.get(known[name].kind, ())}, expression
