"""Which brokers replicas should be on: plans of moves, made before anybody is asked to move. Knows node ids and racks only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from ottla.client.errors import SettingError
from ottla.client.types import TopicPartition

Placed: TypeAlias = Mapping[TopicPartition, Sequence[int]]
"""The replicas of partitions, the preferred leader first."""
Racks: TypeAlias = Mapping[int, str | None]
"""The brokers that may be given replicas, each with its rack."""
Moves: TypeAlias = dict[TopicPartition, list[int]]
"""The replicas that partitions are to have: only those that change."""


class Load:
    """How many partitions each broker holds and would lead first."""

    def __init__(self, placed: Iterable[Sequence[int]]) -> None:
        self.held: Counter[int] = Counter()
        self.led: Counter[int] = Counter()
        for replicas in placed:
            self.add(replicas)

    def add(self, replicas: Sequence[int]) -> None:
        self.held.update(replicas)
        self.led.update(replicas[:1])

    def remove(self, replicas: Sequence[int]) -> None:
        self.held.subtract(replicas)
        self.led.subtract(replicas[:1])

    def lightest(self, brokers: Racks, others: Sequence[int], *, leads: bool) -> int | None:
        """The best broker for one more replica beside `others`: of another rack, with the least to do; None if none is left."""
        racks = {brokers[node] for node in others if brokers.get(node) is not None}

        def weight(node: int) -> tuple[bool, int, int, int]:
            return brokers[node] in racks, self.led[node] if leads else 0, self.held[node], node

        return min((node for node in brokers if node not in others), key=weight, default=None)


def drained(placed: Placed, node_id: int, brokers: Racks) -> Moves:
    """Moves that leave a broker without replicas; each goes to the broker that has least to do. `placed`: all partitions.

    Raises `SettingError` for a partition that no other broker can take.
    """
    there = {node: rack for node, rack in brokers.items() if node != node_id}
    load, moves = Load(placed.values()), Moves()
    for where, replicas in sorted(placed.items()):
        if node_id not in replicas:
            continue
        at = list(replicas).index(node_id)
        others = [node for node in replicas if node != node_id]
        chosen = load.lightest(there, others, leads=at == 0)
        if chosen is None:
            raise _too_few(where, len(replicas), len(there))
        moves[where] = [*replicas[:at], chosen, *replicas[at + 1 :]]
        load.remove(replicas)
        load.add(moves[where])
    return moves


def spread(placed: Placed, brokers: Racks, replication_factor: int | None = None) -> Moves:
    """Moves after which each of these brokers holds, and leads first, about as many of these partitions.

    What is on them already stays where that is fair. `replication_factor` is that of each partition unless it is given. Raises
    `SettingError` where there are not so many brokers.
    """
    sizes = {where: replication_factor or len(replicas) for where, replicas in placed.items()}
    for where, size in sizes.items():
        if size > len(brokers):
            raise _too_few(where, size, len(brokers))
    fair = -(-sum(sizes.values()) // len(brokers)) if brokers else 0
    held: Counter[int] = Counter()
    kept: Moves = {}
    for where, replicas in sorted(placed.items()):
        kept[where] = _kept(replicas, brokers, held, sizes[where], fair)
    load = Load(())
    load.held = held
    for where, some in kept.items():
        while len(some) < sizes[where]:
            chosen = load.lightest(brokers, some, leads=False)
            if chosen is None:
                raise _too_few(where, sizes[where], len(brokers))
            some.append(chosen)
            held[chosen] += 1
    _lead_evenly(kept, load)
    return {where: some for where, some in kept.items() if some != list(placed[where])}


def _kept(replicas: Sequence[int], brokers: Racks, held: Counter[int], size: int, fair: int) -> list[int]:
    """The replicas that stay: those on `brokers` that have not got their share yet."""
    kept: list[int] = []
    for node in replicas:
        if node in brokers and held[node] < fair and len(kept) < size:
            kept.append(node)
            held[node] += 1
    return kept


def _lead_evenly(moves: Moves, load: Load) -> None:
    """Put that replica first whose broker would lead fewest; the present first one, where it is as good."""
    for replicas in moves.values():
        first = min(replicas, key=lambda node: load.led[node])
        replicas.remove(first)
        replicas.insert(0, first)
        load.led[first] += 1


def _too_few(where: TopicPartition, size: int, brokers: int) -> SettingError:
    return SettingError(
        f"{where.topic}-{where.partition} needs {size} brokers and there are {brokers} to choose from: add brokers, or "
        "ask for fewer replicas with `ottla cluster reassign --replication-factor`."
    )
