"""Plans of replica placement: the moves that a request to the cluster will make. The module uses only node ids and racks."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from ottla.client.admin.replica_spread import Racks, ReplicaSpread
from ottla.client.errors import SettingError
from ottla.client.types import TopicPartition

Placed: TypeAlias = Mapping[TopicPartition, Sequence[int]]
"""Each partition's replicas, the preferred leader first."""
Moves: TypeAlias = dict[TopicPartition, list[int]]
"""The new replicas of each partition that changes, the preferred leader first."""


class Load:
    """The load of brokers: how many replicas each has, and of how many partitions each is the preferred leader."""

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
        """Return the best broker for one more replica of a partition with replicas on `others`, or None if no broker is left.

        The best broker is on another rack if possible, and has the least load.
        """
        racks = {brokers[node] for node in others if brokers.get(node) is not None}

        def weight(node: int) -> tuple[bool, int, int, int]:
            return brokers[node] in racks, self.led[node] if leads else 0, self.held[node], node

        return min((node for node in brokers if node not in others), key=weight, default=None)


def drain_broker(placed: Placed, node_id: int, brokers: Racks) -> Moves:
    """Return moves that leave broker `node_id` without replicas. Each replica goes to the broker with the least load.

    `placed` contains all partitions. Raises `SettingError` for a partition whose replica no other broker can take.
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
    """Return moves that spread replicas and preferred leaders evenly: the numbers of two brokers differ by at most one.

    As few replicas as possible move, and no partition is on fewer racks afterwards. With `replication_factor` None, each partition
    keeps its number of replicas. Raises `SettingError` if there are fewer brokers than replicas of a partition.
    """
    sizes = {where: replication_factor or len(replicas) for where, replicas in placed.items()}
    for where, size in sizes.items():
        if size > len(brokers):
            raise _too_few(where, size, len(brokers))
    spreading = ReplicaSpread(placed, brokers, sizes)
    spreading.level()
    _lead_evenly(spreading.now, brokers)
    return {where: some for where, some in spreading.now.items() if some != list(placed[where])}


def _lead_evenly(moves: Moves, brokers: Racks) -> None:
    """Reorder the replicas in `moves` until brokers are preferred leaders of about equally many partitions.

    As few preferred leaders as possible change.
    """
    led: dict[int, list[TopicPartition]] = {node: [] for node in sorted(brokers)}
    for where, replicas in moves.items():
        led[replicas[0]].append(where)
    while (chain := _chain(moves, led)) is not None:
        for giving, taking, where in chain:
            moves[where].remove(taking)
            moves[where].insert(0, taking)
            led[giving].remove(where)
            led[taking].append(where)


def _chain(moves: Moves, led: Mapping[int, Sequence[TopicPartition]]) -> list[tuple[int, int, TopicPartition]] | None:
    """Return a chain of leader changes from one broker to a broker that leads at least two partitions fewer, or None.

    Each change passes the leadership of a partition to the next broker of the chain.
    """
    for start in sorted(led, key=lambda node: (-len(led[node]), node)):
        came: dict[int, tuple[int, TopicPartition]] = {}
        waiting = deque([start])
        while waiting:
            node = waiting.popleft()
            if len(led[start]) - len(led[node]) >= 2:
                chain = list[tuple[int, int, TopicPartition]]()
                while node != start:
                    giving, where = came[node]
                    chain.insert(0, (giving, node, where))
                    node = giving
                return chain
            for where in led[node]:
                for other in moves[where][1:]:
                    if other != start and other not in came:
                        came[other] = node, where
                        waiting.append(other)
    return None


def _too_few(where: TopicPartition, size: int, brokers: int) -> SettingError:
    return SettingError(
        f"{where.topic}-{where.partition} needs {size} brokers, and {brokers} are available: add brokers, or "
        "ask for fewer replicas with `ottla cluster reassign --replication-factor`."
    )
