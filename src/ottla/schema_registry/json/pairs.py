"""A matching of the parts of two combined schemas: pairs such that each part is in one pair at most. Pure."""

from __future__ import annotations

from collections.abc import Set


def match_pairs(edges: Set[tuple[int, int]], count: int) -> dict[int, int]:
    """Return a largest matching, by the right ends of its edges. Left ends are below `count`."""
    owners: dict[int, int] = {}
    others: dict[int, list[int]] = {}
    for left, right in sorted(edges):
        others.setdefault(left, []).append(right)
    for left in range(count):
        _augment(left, others, owners, set())
    return owners


def _augment(left: int, others: dict[int, list[int]], owners: dict[int, int], seen: set[int]) -> bool:
    """Give a left end an edge, if necessary by moving others to another edge each."""
    for right in others.get(left, ()):
        if right in seen:
            continue
        seen.add(right)
        if right not in owners or _augment(owners[right], others, owners, seen):
            owners[right] = left
            return True
    return False
