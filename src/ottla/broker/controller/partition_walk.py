"""Iterations over all partitions in pieces, with a pause after each piece for other jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from ottla.cluster.controller_rules.context import AT_ONCE
from ottla.ports import Steps

T = TypeVar("T")


def in_pieces(items: Iterable[T], size: int = AT_ONCE) -> Iterator[list[T]]:
    """Yield lists of at most `size` items."""
    left = iter(items)
    while some := list(islice(left, size)):
        yield some


def chosen(items: Iterable[T], is_wanted: Callable[[T], bool]) -> Steps[list[T]]:
    """Return the items for which `is_wanted` returns True, in order, with pauses in which other work runs."""
    found: list[T] = []
    for some in in_pieces(items):
        found += filter(is_wanted, some)
        yield None
    return found


def each(items: Iterable[T], do: Callable[[T], object]) -> Steps[None]:
    """Call `do` with each item, with pauses in which other work runs."""
    for some in in_pieces(items):
        for one in some:
            do(one)
        yield None


def split(items: Iterable[T], is_first: Callable[[T], bool]) -> tuple[list[T], list[T]]:
    """Return two lists: the items for which `is_first` is true, and all other items."""
    first, second = list[T](), list[T]()
    for item in items:
        (first if is_first(item) else second).append(item)
    return first, second
