"""The placement of replicas on brokers, by broker ids only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from ottla.wire.errors import INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR, NONE

Replicas = tuple[tuple[int, ...], ...]
"""The replicas of each partition; the first one leads."""


def spread(brokers: Sequence[int], partitions: int, replication_factor: int, first: int = 0) -> Replicas:
    """Place replicas on `replication_factor` different brokers, with leaders spread evenly from the `first`-th broker on.

    After every `len(brokers)` partitions, followers are shifted by one more broker. The followers of one leader are thus on
    different brokers.
    """
    count = len(brokers)
    if replication_factor == 1:  # a fast path, because one request can create ten thousand partitions
        begin = first % count
        return (tuple((node,) for node in (*brokers[begin:], *brokers[:begin])) * (partitions // count + 1))[:partitions]
    placed = []
    for number in range(first, first + partitions):
        shift = (number // count) % max(count - 1, 1)
        followers = [(number + 1 + (shift + step) % max(count - 1, 1)) % count for step in range(replication_factor - 1)]
        placed.append(tuple(brokers[position] for position in (number % count, *followers)))
    return tuple(placed)


def spread_over_racks(racks: Mapping[int, str | None], partitions: int, replication_factor: int, first: int = 0) -> Replicas:
    """Place replicas evenly as `spread` does, but the replicas of each partition on as many racks as possible.

    Racks are ignored if a broker has none.
    """
    if None in racks.values():
        return spread(sorted(racks), partitions, replication_factor, first)
    brokers = _alternating(racks)
    if replication_factor == 1:
        return spread(brokers, partitions, replication_factor, first)
    count, several = len(brokers), len(set(racks.values()))
    placed = []
    for number in range(first, first + partitions):
        shift = (number // count) % max(count - 1, 1)
        others = [(number + 1 + (shift + step) % max(count - 1, 1)) % count for step in range(count - 1)]
        nodes, used = [brokers[number % count]], {racks[brokers[number % count]]}
        while len(nodes) < replication_factor:
            node = next(
                brokers[other]
                for other in others
                if brokers[other] not in nodes and (racks[brokers[other]] not in used or len(used) == several)
            )
            nodes.append(node)
            used.add(racks[node])
        placed.append(tuple(nodes))
    return tuple(placed)


def _alternating(racks: Mapping[int, str | None]) -> list[int]:
    """Return the brokers in an order in which adjacent brokers are in different racks, if possible."""
    rows: dict[str | None, list[int]] = {}
    for node in sorted(racks):
        rows.setdefault(racks[node], []).append(node)
    columns = zip_longest(*(rows[rack] for rack in sorted(rows, key=str)))
    return [node for column in columns for node in column if node is not None]


def factor_error(replication_factor: int, brokers: int) -> tuple[int, str | None]:
    """Return (error code, message) for an impossible replication factor; (NONE, None) for a possible one."""
    if replication_factor < 1:
        return INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1 to use the default value."
    if replication_factor > brokers:
        return (
            INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): "
            f"The target replication factor of {replication_factor} cannot be reached "
            f"because only {brokers} broker(s) are registered; request at most {brokers}.",
        )
    return NONE, None


def assignment_error(replicas: Sequence[Sequence[int]], brokers: Sequence[int], size: int | None = None) -> tuple[int, str | None]:
    """Return (error code, message) for an invalid manual assignment, else (NONE, None). `size` is the replication factor."""
    size = len(replicas[0]) if size is None and replicas else size
    sound: set[tuple[int, ...]] = set()
    for index, nodes in enumerate(map(tuple, replicas)):
        if nodes in sound:  # a fast path, because most of thousands of lists are equal
            continue
        sentence = _fault(index, nodes, brokers)
        if sentence is None and len(nodes) != size:
            sentence = f"The assignment gives position {index} {len(nodes)} replicas instead of {size}: give all as many."
        if sentence is not None:
            return INVALID_REPLICA_ASSIGNMENT, sentence
        sound.add(nodes)
    return NONE, None


def _fault(index: int, nodes: Sequence[int], brokers: Sequence[int]) -> str | None:
    if not nodes:
        return f"The manual partition assignment includes an empty replica list: name a broker for position {index}."
    if len(set(nodes)) < len(nodes):
        twice = next(node for node in nodes if list(nodes).count(node) > 1)
        return f"The manual partition assignment includes the broker {twice} more than once: name each once for position {index}."
    strangers = [node for node in nodes if node not in brokers]
    if strangers:
        return f"The manual partition assignment includes broker {strangers[0]}, but no such broker is registered: name another."
    return None
