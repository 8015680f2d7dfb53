"""Work that goes on in a cluster beside plain producers and readers: what every kind of it does in the life of a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ottla.sim.network import NetworkFaults
from ottla.sim.world import World
from tests.sim.lives.cluster_links import RoutedLink
from tests.sim.lives.cluster_view import ClusterView
from tests.sim.lives.given_ids import GivenIds

Act = tuple[float, Callable[[], None]]
"""How often something happens beside other things, and what."""


class ClusterAround(NamedTuple):
    """What work goes on in. `link(link_faults)` opens a client's connections; `ids` are the producer ids that were given."""

    world: World
    view: ClusterView
    link: Callable[[NetworkFaults], RoutedLink]
    link_faults: NetworkFaults
    topic_ids: Mapping[str, bytes]
    ids: GivenIds
    say: Callable[[str], None]


class ClusterWork(ABC):
    """One kind of work."""

    @property
    @abstractmethod
    def topics(self) -> Mapping[str, int]:
        """The topics it needs, with their numbers of partitions."""

    @abstractmethod
    def begin(self, around: ClusterAround) -> None:
        """Start, when the topics are there and nothing has gone wrong yet. Time may pass."""

    @abstractmethod
    def acts(self) -> Sequence[Act]:
        """What may go wrong with it."""

    @abstractmethod
    def go_on(self) -> None:
        """There is peace: nobody stays away or stands still any more."""

    @abstractmethod
    def look(self) -> None:
        """Look at what is there, from time to time. Raises `Violation`."""

    @abstractmethod
    def undone(self) -> list[str]:
        """What is left to be done in peace."""

    def insist(self) -> bool:
        """Do what a person would where the protocol itself waits for somebody to do so; False if there is nothing of that kind."""
        return False

    @abstractmethod
    def check(self) -> None:
        """Look at everything once all is done. Time may pass. Raises `Violation`."""
