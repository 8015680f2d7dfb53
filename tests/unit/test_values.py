"""Values that are made for each request: equal, hashable and without a dictionary, as frozen dataclasses are."""

from __future__ import annotations

import pytest

from ottla.coord.runtime.machine import Input
from ottla.values import dataclass


@dataclass(frozen=True, slots=True)
class Frozen:
    name: str
    number: int = 0


@dataclass(slots=True)
class Changing:
    name: str


def test_equal_values_are_one_key() -> None:
    assert {Frozen("a", 1): "found"}[Frozen("a", 1)] == "found"
    assert Frozen("a") != Frozen("a", 1)
    assert {Input("body", 2), Input("body", 2)} == {Input("body", 2)}


def test_a_value_that_changes_is_no_key() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Changing("a"))


def test_a_value_has_no_room_for_other_attributes() -> None:
    with pytest.raises(AttributeError):
        Frozen("a").other = 1  # type: ignore[attr-defined]  # that is what is tested
