"""Planted mistakes replace something that exists: a name that was renamed would plant nothing, and be missed only by a long run."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

MODULES = sorted(path.stem for path in Path(__file__).parent.glob("test_*planted.py"))


def replaced(value: object) -> Iterator[tuple[object, str]]:
    """Yield (owner, attribute) of the mistakes in a table: a class or a module, and behind it the name of what is replaced."""
    if isinstance(value, dict):
        yield from (found for each in value.values() for found in replaced(each))
    elif isinstance(value, tuple | list):
        yield from (
            (owner, name) for owner, name in pairwise(value) if isinstance(owner, type | ModuleType) and isinstance(name, str)
        )
        yield from (found for each in value for found in replaced(each))


@pytest.mark.parametrize("name", MODULES)
def test_what_a_mistake_replaces_exists(name: str) -> None:
    found = list(replaced(import_module(f"tests.sim.{name}").MISTAKES))
    assert found
    assert not [f"{owner}.{attribute}" for owner, attribute in found if not hasattr(owner, attribute)]
