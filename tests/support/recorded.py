"""Answers that Apache Kafka was seen to give: read from a file, or written anew by `--peer=apache-kafka --rewrite-scenarios`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")


def recorded(path: Path, request: pytest.FixtureRequest, peer_name: str) -> Iterator[dict[str, Any]]:
    """What was seen, by the name of each case, for as long as tests use it; they fill it when it is to be written."""
    rewrites = peer_name == "apache-kafka" and request.config.getoption("--rewrite-scenarios")
    found: dict[str, Any] = {} if rewrites else json.loads(path.read_text(encoding="utf-8"))
    yield found
    if rewrites:
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in found.items())
        path.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def differences(
    cases: Iterable[Case], answer: Callable[[Case], Any], seen: dict[str, Any], request: pytest.FixtureRequest
) -> list[str]:
    """Return a sentence for each case that is not answered as was seen; where that is to be written, take the answers over."""
    rewrites = request.config.getoption("--rewrite-scenarios")
    found = {str(case): answer(case) for case in cases}
    assert found, "nothing was asked"
    if rewrites:
        seen.update(found)
    return [f"{name}: {answered}, and Apache Kafka {seen[name]}" for name, answered in found.items() if answered != seen[name]]
