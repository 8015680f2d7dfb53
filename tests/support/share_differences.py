"""Answers of Ottla to requests of share groups that are not those of Apache Kafka 4.3, each with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Change = Callable[[Any], Any]


def _refuse_states(answer: Any) -> Any:
    """Return an answer of the share coordinator in which each state is refused with INVALID_REQUEST."""
    told, after = answer
    results = [each | {"partitions": [{"error_code": "INVALID_REQUEST"} for _ in each["partitions"]]} for each in told["results"]]
    return [told | {"results": results}, after]


_REVERSED = "Kafka stores a batch that ends before it begins, and its coordinator never ends combining it with one that it overlaps"

DIFFERENCES: Mapping[str, tuple[str, Change]] = {
    f"{state}: Write 1, a reversed batch": (_REVERSED, _refuse_states) for state in ("initialized", "written")
}
"""Case -> the reason, and how Ottla's answer is made from Kafka's."""


def expected(seen: Mapping[str, Any], name: str) -> Any:
    """Return the answer that Ottla is to give, from the answers that Apache Kafka was seen to give."""
    return DIFFERENCES[name][1](seen[name]) if name in DIFFERENCES else seen[name]
