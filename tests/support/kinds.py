"""Rows of one kind: `make test` runs one or a few of them, and `make full` all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_of_each(values: Iterable[Any], *kept: Any, seconds: float = 10) -> list[Any]:
    """Return the values as parameters: all but the kept ones, or the first, are marked `full` and take so many seconds each."""
    rows = list(values)
    unknown = [value for value in kept if value not in rows]
    assert not unknown, f"there is no {unknown}"
    short = kept or rows[:1]
    return [value if value in short else pytest.param(value, marks=pytest.mark.full(seconds=seconds)) for value in rows]
