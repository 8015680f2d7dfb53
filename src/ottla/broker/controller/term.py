"""One controller term: the context and the tools of the controller between two elections.

Partition states are written many in one commit, each conditional on the version last read. Nothing is written once another
broker is elected. After a conflict with a leader's write, the state is read and decided again. If the registry disconnects
before it responds, the states are read to find out whether the commit succeeded. Depends on the registry and on the channels to
brokers, and not on particular events.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ottla.broker.controller.channels import ControllerChannel
from ottla.broker.controller.context_loader import ControllerReader, RegistryRetry
from ottla.broker.controller.controller_election import Elected
from ottla.broker.controller.events import ControllerMoved
from ottla.broker.controller.partition_walk import in_pieces
from ottla.broker.failures import CONFLICTS, MOST_RACES
from ottla.broker.interbroker.channels import Channels
from ottla.broker.releases.interbroker_versions import ProtocolVersion
from ottla.broker.scheduler import Scheduler
from ottla.broker.settings import BrokerSettings, SettingsInForce
from ottla.cluster import layout
from ottla.cluster.controller_rules import entries
from ottla.cluster.controller_rules.context import ControllerContext, LeaderAndIsr, TopicPartition
from ottla.cluster.controller_rules.deletions import TopicDeletions
from ottla.cluster.controller_rules.requests import ControlRequest, ControlRequests, ControlVersions
from ottla.ports import NEW, Change, Condition, RegistryAway, RegistryRefused, SharedRegistry, Steps, StorageFailed
from ottla.wire.api.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.api.stop_replica import StopReplicaRequest
from ottla.wire.api.update_metadata import UpdateMetadataRequest

log = logging.getLogger("ottla.broker")

WRITTEN_AT_ONCE = 200
"""States in one commit. Together they have some ten kilobytes."""

Choose = Callable[[ControllerContext, TopicPartition], LeaderAndIsr | None]
"""Returns the new state of a partition, or None to leave it unchanged."""


class PartitionStates:
    """The controller's writer of partition states (leader, ISR) to the registry, during one controller epoch.

    When the steps of a method end, the states that it wrote are also in the context.
    """

    def __init__(
        self,
        registry: SharedRegistry,
        reader: ControllerReader,
        context: ControllerContext,
        patience: RegistryRetry,
        refused: Callable[[StorageFailed], None],
    ) -> None:
        """Create the writer of states.

        `refused` is called if this broker's disk refuses to store states, which are then skipped.
        """
        self._refused = refused
        self._patience = patience
        self._registry = registry
        self._reader = reader
        self._context = context

    def commit(self, changes: Sequence[Change]) -> Steps[None]:
        """Commit changes with the controller epoch as a fence. Raises `ControllerMoved`, or the registry's exceptions."""
        fence = Condition(layout.CONTROLLER_EPOCH, self._context.epoch_version)
        try:
            yield from self._registry.commit([fence, *changes])
        except CONFLICTS:
            (epoch,) = yield from self._registry.read([layout.CONTROLLER_EPOCH])
            if epoch is None or epoch.version != self._context.epoch_version:
                raise ControllerMoved from None
            raise

    def remove(self, paths: Iterable[str]) -> Steps[None]:
        """Remove entries in several commits, because a registry limits the size of one commit."""
        for some in in_pieces(paths, WRITTEN_AT_ONCE):
            yield from self.commit([Change(path, None) for path in some])

    def change(self, partitions: Iterable[TopicPartition], choose: Choose) -> Steps[list[TopicPartition]]:
        """Write the states that `choose` returns, and return the partitions whose state changed."""
        changed = list[TopicPartition]()
        left = deque[tuple[Sequence[TopicPartition], int]]((some, 0) for some in in_pieces(partitions, WRITTEN_AT_ONCE))
        while left:
            some, races = left.popleft()
            wanted = {one: state for one in some if (state := choose(self._context, one)) is not None}
            yield None
            if not wanted:
                continue
            try:
                missed = yield from self._write_once(wanted)
            except (RegistryAway, RegistryRefused):
                raise
            except StorageFailed as failure:
                self._refused(failure)
                continue
            changed += (one for one in wanted if one not in missed)
            if missed and races == MOST_RACES:
                log.error("the states of %s and %d more change all the time: they stay as they are", missed[0], len(missed) - 1)
            elif missed:
                left.extend((half, races + 1) for half in _halves(missed))
        return changed

    def _write_once(self, wanted: Mapping[TopicPartition, LeaderAndIsr]) -> Steps[list[TopicPartition]]:
        """Write the states `wanted` in one commit. Return the partitions that have another state afterwards.

        The context then contains that other state.
        """
        written = {one: self._state_after_commit(one, state) for one, state in wanted.items()}
        try:
            yield from self.commit([self._change(one, state) for one, state in wanted.items()])
        except CONFLICTS:
            yield from self.read_again(list(wanted))
        except RegistryAway as failure:
            yield from self._patience.pause(failure)
            yield from self.read_again(list(wanted))
        else:
            self._context.leaders.update(written)
        return [one for one, state in written.items() if self._context.leaders.get(one) != state]

    def read_again(self, partitions: Sequence[TopicPartition]) -> Steps[None]:
        """Load states from the registry into the context. Raises `ControllerMoved` if a later controller wrote one."""
        states = yield from self._reader.states(partitions)
        if any(state.controller_epoch > self._context.epoch for state in states.values()):
            raise ControllerMoved
        for partition in partitions:
            if partition in states:
                self._context.leaders[partition] = states[partition]
            else:
                self._context.leaders.pop(partition, None)

    def _change(self, partition: TopicPartition, state: LeaderAndIsr) -> Change:
        written = state._replace(controller_epoch=self._context.epoch)
        expected = NEW if partition not in self._context.leaders else state.partition_epoch
        return Change(layout.state_path(*partition), entries.state_value(written), expected, may_use_spare=True)

    def _state_after_commit(self, partition: TopicPartition, state: LeaderAndIsr) -> LeaderAndIsr:
        """Return the state as the registry has it after the commit: with this controller's epoch and the next partition epoch."""
        epoch = 0 if partition not in self._context.leaders else state.partition_epoch + 1
        return state._replace(controller_epoch=self._context.epoch, partition_epoch=epoch)


def _halves(partitions: Sequence[TopicPartition]) -> list[Sequence[TopicPartition]]:
    middle = (len(partitions) + 1) // 2
    return [half for half in (partitions[:middle], partitions[middle:]) if half]


class ControllerTerm:
    """The context of one term, with its reader, writer and requests. Only controller events may use it.

    `answered` is called with each request and its response, and `refused` when the disk refuses partition states.
    """

    def __init__(
        self,
        elected: Elected,
        node_id: int,
        registry: SharedRegistry,
        channels: Channels,
        settings: SettingsInForce,
        scheduler: Scheduler,
        answered: Callable[[ControlRequest, Any], None],
        refused: Callable[[StorageFailed], None],
    ) -> None:
        self.elected = elected
        self.node_id = node_id
        self.context = ControllerContext(elected.epoch, elected.epoch_version)
        self.patience = RegistryRetry(registry, scheduler)
        self.reader = ControllerReader(registry, self.patience)
        self.states = PartitionStates(registry, self.reader, self.context, self.patience, refused)
        self.deletions = TopicDeletions(self.context)
        self.requests = ControlRequests(self.context, node_id, _versions(settings.value))
        self._settings = settings
        self._channels = channels
        self._scheduler = scheduler
        self._answered = answered
        self._ways: dict[int, ControllerChannel] = {}

    @property
    def settings(self) -> BrokerSettings:
        return self._settings.value

    @property
    def protocol(self) -> ProtocolVersion:
        return self._settings.value.inter_broker_protocol_version

    def commit(self, changes: Sequence[Change]) -> Steps[None]:
        """Commit as the controller. Raises `ControllerMoved`, or the registry's exceptions."""
        return self.states.commit(changes)

    def open_way(self, node_id: int) -> None:
        """Open the channel for requests to a new broker, or to a broker with another address."""
        self.close_way(node_id)
        endpoint = self.context.brokers[node_id].endpoint(self.settings.inter_broker_listener)
        address = None if endpoint is None else (endpoint.host, endpoint.port)
        channels, scheduler, settings = self._channels, self._scheduler, self._settings
        self._ways[node_id] = ControllerChannel(node_id, address, channels, scheduler, settings, self._answered)

    def close_way(self, node_id: int) -> None:
        """Close the channel for requests to a broker that is gone."""
        way = self._ways.pop(node_id, None)
        if way is not None:
            way.close()

    def send(self) -> Steps[None]:
        """Send the queued `requests` to their brokers."""
        for request in self.requests.drain(self.deletions.forgotten):
            if request is not None and request.node_id in self._ways:
                self._ways[request.node_id].send(request)
            yield None

    def send_and_wait(self) -> Steps[None]:
        """Send the queued `requests`, and wait until their brokers have answered, so that few messages are in memory at a time."""
        yield from self.send()
        for way in list(self._ways.values()):
            yield from way.when_drained()

    def close(self) -> None:
        """Close the channels to all brokers, because another broker can be the controller."""
        self.patience.is_over = True
        for node_id in list(self._ways):
            self.close_way(node_id)


def _versions(settings: BrokerSettings) -> ControlVersions:
    protocol = settings.inter_broker_protocol_version
    return ControlVersions(
        protocol.version(LeaderAndIsrRequest),
        protocol.version(UpdateMetadataRequest),
        protocol.version(StopReplicaRequest),
        settings.inter_broker_listener,
    )
