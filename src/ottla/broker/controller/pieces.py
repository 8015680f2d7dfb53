"""Walks over all partitions, a piece at a time: others have their turn between two. Knows nothing of what is walked over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from ottla.cluster.controller_rules.context import AT_ONCE
from ottla.ports import Steps

T = TypeVar("T")


def in_pieces(items: Iterable[T], size: int = AT_ONCE) -> Iterator[list[T]]:
    """The next `size` of the items, until none is left."""
    left = iter(items)
    while some := list(islice(left, size)):
        yield some


def chosen(items: Iterable[T], is_wanted: Callable[[T], bool]) -> Steps[list[T]]:
    """Those of which `is_wanted` says so, in their order."""
    found: list[T] = []
    for some in in_pieces(items):
        found += filter(is_wanted, some)
        yield None
    return found


def each(items: Iterable[T], do: Callable[[T], object]) -> Steps[None]:
    """Do something with each."""
    for some in in_pieces(items):
        for one in some:
            do(one)
        yield None


def split(items: Iterable[T], is_first: Callable[[T], bool]) -> tuple[list[T], list[T]]:
    """Return the items for which `is_first` is true, and the others."""
    first, second = list[T](), list[T]()
    for item in items:
        (first if is_first(item) else second).append(item)
    return first, second
