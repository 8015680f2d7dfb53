"""What brokers of a cluster have and do, held against what the registry says of them: a violation raises `Violation`.

in sync have all        each replica in sync has all that was ever below a high watermark, and all that was acknowledged
the newest decides      only the controller of the newest epoch says who leads, no state is of an older one than that before it, and
                        no broker obeys an older one than it has obeyed
epochs grow             a partition's leader epoch never falls, and each leader has one of its own
leads as a member       a broker leads nothing once its session has ended in silence, nor long after it was ended otherwise
heals                   once faults stop, all brokers tell of the same brokers, topics and leaders as the registry does

The last is held against brokers only where no frame between them comes late: a controller's older words may be the last that a
broker hears then, for nothing in them says which are newer.

In-sync sets are looked at with each change of one, with each acknowledgement and every now and then: a replica that lacks records
is harmless until it leads, which few seeds would see.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from ottla.broker.partitions.partition import LEADER, Partition
from ottla.client.types import TopicPartition
from ottla.cluster.layout import CONTROLLER, CONTROLLER_EPOCH, broker_path
from ottla.cluster.metadata_updates import LEADER_DURING_DELETE
from ottla.sim.cluster_host import ClusterHost
from ottla.sim.ensemble import SimEnsemble
from tests.sim.seeds import Violation

TOPICS, STATE, BROKERS = "/brokers/topics/", "/state", "/brokers/ids"
NOTICED_MS = 100
"""So long a broker that has stood still may take to look at the clock."""


class DecidedState(NamedTuple):
    """Who leads a partition, as the registry says."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int


class ClusterAgreement:
    """What the registry says of partitions, noted with each change. The module's docstring names the violations.

    Topics that `loses(topic)` says yes to may elect leaders that lack records.
    """

    def __init__(self, ensemble: SimEnsemble, hosts: Mapping[int, ClusterHost], loses: Callable[[str], bool]) -> None:
        self._ensemble = ensemble
        self._hosts = hosts
        self._loses = loses
        self._states: dict[TopicPartition, DecidedState] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._unregistered: dict[int, tuple[int, int]] = {}
        self._obeyed: dict[tuple[int, int], int] = {}
        ensemble.after_commit.append(self._committed)

    # While it happens

    def look(self) -> None:
        """Look at all partitions, and at those who lead."""
        for place, state in self._states.items():
            self._check_in_sync(place, state)
        for host in self._hosts.values():
            self._check_member(host)
            self._check_obeyed(host)

    def acknowledges(self, place: TopicPartition, end_offset: int) -> None:
        """A broker has said that all records below an offset are there for good."""
        state = self._states.get(place)
        if state is not None:
            self._ends[place] = max(end_offset, self._ends.get(place, 0))
            self._check_in_sync(place, state)

    def _committed(self, paths: Iterable[str]) -> None:
        for path in paths:
            if path.startswith(TOPICS) and path.endswith(STATE):
                topic, _, index, _ = path.removeprefix(TOPICS).rsplit("/", 3)
                self._changed(path, TopicPartition(topic, int(index)))

    def _changed(self, path: str, place: TopicPartition) -> None:
        entry = self._ensemble.get(path)
        if entry is None:
            self._states.pop(place, None)
            self._ends.pop(place, None)
            return
        told = json.loads(entry.value)
        state = DecidedState(told["leader"], told["leader_epoch"], tuple(told["isr"]), told["controller_epoch"])
        self._check_decision(place, self._states.get(place), state)
        self._states[place] = state
        self._check_in_sync(place, state)

    def _check_decision(self, place: TopicPartition, before: DecidedState | None, state: DecidedState) -> None:
        if before is not None and (
            state.leader_epoch < before.leader_epoch
            or (state.leader_epoch == before.leader_epoch and state.leader != before.leader)
        ):
            raise Violation(
                f"epochs grow: {state.leader} leads {_named(place)} in epoch {state.leader_epoch}, after {before.leader} did in "
                f"{before.leader_epoch}"
            )
        entry = self._ensemble.get(CONTROLLER_EPOCH)
        newest = 0 if entry is None else int(entry.value)
        is_elected = before is None or state.leader_epoch > before.leader_epoch
        least = newest if is_elected or before is None else before.controller_epoch
        if state.controller_epoch < least:
            raise Violation(
                f"the newest decides: a controller of epoch {state.controller_epoch} has {state.leader} lead {_named(place)}, "
                f"in sync {list(state.isr)}, after one of epoch {least}"
            )

    def _check_in_sync(self, place: TopicPartition, state: DecidedState) -> None:
        if self._loses(place.topic):
            return
        held = {host.node_id: partition for host, partition in self._held(place)}
        end = max([self._ends.get(place, 0), *(partition.high_watermark for partition in held.values())])
        self._ends[place] = end
        for node_id in state.isr:
            if node_id in held and held[node_id].log.log_end_offset < end:
                raise Violation(
                    f"in sync have all: {node_id} is in sync of {_named(place)} and ends at {held[node_id].log.log_end_offset}, "
                    f"where all below {end} is committed"
                )

    def _held(self, place: TopicPartition) -> Iterator[tuple[ClusterHost, Partition]]:
        for host in self._hosts.values():
            partition = None if host.broker is None else host.broker.partitions.get(*place)
            if partition is not None and partition.offline is None:
                yield host, partition

    def _check_member(self, host: ClusterHost) -> None:
        """Whoever stands still leads nobody. Who was told of no end may lead for as long as its session would have lived."""
        led = self._led_without_session(host)
        if led is None:
            self._unregistered.pop(host.node_id, None)
            return
        now_ms = self._ensemble.world.now_ms
        life, since_ms = self._unregistered.get(host.node_id, (0, 0))
        if life != host.lives:
            self._unregistered[host.node_id] = host.lives, now_ms
        elif now_ms - since_ms > NOTICED_MS + (0 if host.session.has_lapsed else self._ensemble.timeout_ms):
            raise Violation(f"leads as a member: {host.name} leads {led}, and has not been registered for {now_ms - since_ms} ms")

    def _check_obeyed(self, host: ClusterHost) -> None:
        """The epoch of the controller that a life of a broker has heard last never falls."""
        replication = None if host.broker is None else host.broker.replication
        if replication is None:
            return
        epoch, key = replication.manager.controller_epoch, (host.node_id, host.lives)
        before = self._obeyed.get(key, 0)
        if epoch < before:
            raise Violation(f"the newest decides: {host.name} obeys a controller of epoch {epoch}, after one of epoch {before}")
        self._obeyed[key] = epoch

    def _led_without_session(self, host: ClusterHost) -> Partition | None:
        """A partition that a broker leads though the session is over in which it registered."""
        broker = host.broker
        if broker is None or broker.membership is None or host.process.is_paused:
            return None
        entry = self._ensemble.get(broker_path(host.node_id))
        if entry is not None and entry.created == broker.membership.broker_epoch:
            return None
        return next((partition for partition in broker.partitions if partition.role is LEADER), None)

    # In the end

    def misled(self) -> list[str]:
        """What brokers tell otherwise than the registry does."""
        registered = {int(name) for name in self._ensemble.children(BROKERS)}
        entry = self._ensemble.get(CONTROLLER)
        controller = -1 if entry is None else json.loads(entry.value)["brokerid"]
        found = list[str]()
        for host in self._hosts.values():
            if host.broker is None:
                continue
            image = host.broker.image
            if image.controller_id != controller or image.brokers.keys() != registered:
                told = f"{image.controller_id} of {sorted(image.brokers)}"
                found.append(f"{host.name} tells that the controller is {told}; it is {controller} of {sorted(registered)}")
            known = {topic for topic, _ in self._states}
            found += [f"{host.name} tells of {name}, which is gone" for name in image.topics if name not in known]
            found += [f"{host.name} tells otherwise of {_named(place)}: {told}" for place, told in self._told_otherwise(host)]
        return found

    def _told_otherwise(self, host: ClusterHost) -> Iterator[tuple[TopicPartition, str]]:
        assert host.broker is not None, "it is up"
        for place, state in self._states.items():
            topic = host.broker.image.topics.get(place.topic)
            if topic is None or place.partition >= len(topic.partitions):
                yield place, "nothing"
                continue
            told = topic.partitions[place.partition]
            if (told.leader, told.leader_epoch) != (state.leader, state.leader_epoch) and told.leader != LEADER_DURING_DELETE:
                yield place, f"{told.leader} leads in epoch {told.leader_epoch}, not {state.leader} in {state.leader_epoch}"


def _named(place: TopicPartition) -> str:
    return f"{place.topic}-{place.partition}"
