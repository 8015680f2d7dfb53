"""An even placement of replicas over brokers that moves few of them. The module uses only node ids and racks.

Replicas move from brokers with many replicas to brokers with few. Then chains and cycles of brokers exchange replicas. A placement
that no cycle improves is optimal (a flow of least cost). No move puts a partition on fewer racks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ottla.client.types import TopicPartition

Racks: TypeAlias = Mapping[int, str | None]
"""The brokers that may receive replicas, each with its rack."""

MOST_WORK = 2_000_000
"""The most moves that the search for chains and cycles compares, in some seconds. Larger plans can move more than necessary."""

UNEVEN = 1_000
"""The weight of one step towards an even placement, which exceeds that of any number of saved moves."""


class ReplicaStep(NamedTuple):
    """A replica that can move to another broker. `cost` is the number of moves that the step adds to the plan, -1, 0 or 1."""

    cost: int
    where: TopicPartition


class ReplicaSpread:
    """A placement of replicas that is being made even.

    `now` maps partitions to replicas, each list with the replicas that stay first, in their old order.
    """

    def __init__(self, before: Mapping[TopicPartition, Sequence[int]], brokers: Racks, sizes: Mapping[TopicPartition, int]) -> None:
        self._before = {where: frozenset(replicas) for where, replicas in before.items()}
        self._order = {where: list(replicas) for where, replicas in before.items()}
        self._brokers = brokers
        self._held: dict[int, dict[TopicPartition, None]] = {node: {} for node in sorted(brokers)}
        self._stuck: set[tuple[int, int]] = set()
        """Pairs (source, target) of brokers between which no replica can move."""
        self.now: dict[TopicPartition, list[int]] = {}
        for where, replicas in sorted(before.items()):
            self.now[where] = [node for node in replicas if node in brokers]
            for node in self.now[where]:
                self._held[node][where] = None
        for where in self.now:
            self._resize(where, sizes[where])

    def level(self) -> None:
        """Distribute the replicas evenly over the brokers, with as few moves as possible."""
        while self._move_directly():
            pass  # each move is a step towards even brokers
        brokers, replicas = len(self._brokers), sum(map(len, self.now.values()))
        for _ in range(MOST_WORK // (brokers * replicas + brokers**3 + 1)):
            cycle = self._cycle()
            if not cycle or not self._apply_cycle(cycle):
                break
        for where, nodes in self.now.items():
            kept = [node for node in self._order[where] if node in nodes]
            self.now[where] = [*kept, *sorted(set(nodes).difference(kept))]

    def _apply_cycle(self, cycle: Sequence[tuple[int, int, TopicPartition]]) -> bool:
        """Take all steps of a cycle, and return True.

        If the steps together would put a partition on fewer racks, take no step, and return False.
        """
        for number, (source, target, where) in enumerate(cycle):
            if not self._keeps_racks(where, source, target):
                for back, there, moved in reversed(cycle[:number]):
                    self._move(moved, there, back)
                return False
            self._move(where, source, target)
        return True

    def _resize(self, where: TopicPartition, size: int) -> None:
        """Change a partition's number of replicas to `size`: remove them from the fullest brokers, add them on others.

        Other racks and empty brokers come first.
        """
        replicas = self.now[where]
        while len(replicas) > size:
            racks = [self._rack(node) for node in replicas]
            last = max(range(len(replicas)), key=lambda at: (racks.count(racks[at]) > 1, len(self._held[replicas[at]]), at))
            del self._held[replicas.pop(last)][where]
        while len(replicas) < size:
            taken = {self._rack(node) for node in replicas}
            free = [node for node in self._held if node not in replicas]
            kept = self._before[where]
            chosen = min(free, key=lambda node: (self._rack(node) in taken, node not in kept, len(self._held[node]), node))
            replicas.append(chosen)
            self._held[chosen][where] = None

    def _rack(self, node: int) -> str | int:
        """Return the rack of a broker. A broker without a rack counts as a rack of its own."""
        rack = self._brokers[node]
        return node if rack is None else rack

    def _move_directly(self) -> bool:
        """Move one replica from the fullest broker that can give one to the emptiest broker that can take it.

        Return False if no replica can be moved.
        """
        by_load = sorted(self._held, key=lambda node: (len(self._held[node]), node))
        for source in reversed(by_load):
            for target in by_load:
                if len(self._held[source]) - len(self._held[target]) < 2:
                    break
                where = None if (source, target) in self._stuck else self._follower(source, target)
                if where is not None:
                    self._move(where, source, target)
                    return True
                self._stuck.add((source, target))
        return False

    def _follower(self, source: int, target: int) -> TopicPartition | None:
        """Return a partition whose replica can move from `source` to `target`, or None.

        Partitions that `source` does not lead come first.
        """
        found = None
        for step in self._steps(source, target):
            if self.now[step.where][0] != source:
                return step.where
            found = step.where
        return found

    def _steps(self, source: int, target: int) -> Iterator[ReplicaStep]:
        there = self._held[target]
        for where in self._held[source]:
            if where not in there and self._keeps_racks(where, source, target):
                yield ReplicaStep(self._cost(where, source, target), where)

    def _cost(self, where: TopicPartition, source: int, target: int) -> int:
        """Return the number of moves, -1, 0 or 1, that moving this replica from `source` to `target` adds to the plan."""
        before = self._before[where]
        return (target not in before) - (source not in before)

    def _keeps_racks(self, where: TopicPartition, source: int, target: int) -> bool:
        racks = [self._rack(node) for node in self.now[where] if node != source]
        return self._rack(target) not in racks or self._rack(source) in racks

    def _move(self, where: TopicPartition, source: int, target: int) -> None:
        replicas = self.now[where]
        replicas.remove(source)
        replicas.append(target)
        del self._held[source][where]
        self._held[target][where] = None
        for node in replicas:
            free = {other for other in self._held if (node, other) in self._stuck and other not in replicas}
            self._stuck.difference_update((node, other) for other in free if self._keeps_racks(where, node, other))

    # --- chains and cycles

    def _cycle(self) -> list[tuple[int, int, TopicPartition]]:
        """Return a cycle of steps that together even the load or save moves (Bellman-Ford), or an empty list."""
        edges = self._edges()
        nodes = {node for edge in edges for node in edge}
        distance, came_from = dict.fromkeys(nodes, 0), dict[object, object]()
        last: object = None
        for _ in range(len(nodes) + 1):
            last = None
            for (source, target), (cost, _) in edges.items():
                if distance[source] + cost < distance[target]:
                    distance[target] = distance[source] + cost
                    came_from[target], last = source, target
            if last is None:
                return []
        for _ in range(len(nodes)):  # step back until surely inside the cycle
            last = came_from[last]
        found, node = list[tuple[int, int, TopicPartition]](), last
        while True:
            source = came_from[node]
            where = edges[source, node][1]
            if where is not None and isinstance(source, int) and isinstance(node, int):
                found.append((source, node, where))
            node = source
            if node == last:
                return found

    def _edges(self) -> dict[tuple[object, object], tuple[int, TopicPartition | None]]:
        """Return the graph of steps: edge -> (cost, partition). An edge between two brokers is the cheapest step between them.

        Edges through a node for each load ("level") connect brokers with that load to brokers with more. They give the move of a
        replica from a fuller to an emptier broker its negative cost.
        """
        edges: dict[tuple[object, object], tuple[int, TopicPartition | None]] = {}
        for source in self._held:
            for target in self._held:
                if source != target:
                    best = min(self._steps(source, target), key=lambda step: step.cost, default=None)
                    if best is not None:
                        edges[source, target] = best.cost, best.where
        loads = {node: len(held) for node, held in self._held.items()}
        for level in set(loads.values()):
            for node, load in loads.items():
                if load == level:
                    edges[node, ("level", level)] = 0, None
                elif load > level:
                    edges[("level", level), node] = UNEVEN * (level + 1 - load), None
        return edges
