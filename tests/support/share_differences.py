"""Answers of Ottla to requests of share groups that are not those of Apache Kafka 4.3, each with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Change = Callable[[Any], Any]

DIFFERENCES: Mapping[str, tuple[str, Change]] = {}
"""Case -> the reason, and how Ottla's answer is made from Kafka's."""


def expected(seen: Mapping[str, Any], name: str) -> Any:
    """Return the answer that Ottla is to give, from the answers that Apache Kafka was seen to give."""
    return DIFFERENCES[name][1](seen[name]) if name in DIFFERENCES else seen[name]
