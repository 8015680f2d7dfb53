"""One controller term: the context and the tools of the controller between two elections.

Depends on the registry and on the channels to brokers, and not on particular events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ottla.broker.controller.channels import ControllerChannel
from ottla.broker.controller.context_loader import ControllerReader
from ottla.broker.controller.controller_election import Elected
from ottla.broker.controller.registry_retry import RegistryRetry
from ottla.broker.controller.states import PartitionStates
from ottla.broker.interbroker.channels import Channels
from ottla.broker.releases.interbroker_versions import ProtocolVersion
from ottla.broker.scheduler import Scheduler
from ottla.broker.settings import BrokerSettings, SettingsInForce
from ottla.cluster.controller_rules.context import ControllerContext
from ottla.cluster.controller_rules.deletions import TopicDeletions
from ottla.cluster.controller_rules.requests import ControlRequest, ControlRequests, ControlVersions
from ottla.ports import Change, SharedRegistry, Steps, StorageFailed
from ottla.wire.api.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.api.stop_replica import StopReplicaRequest
from ottla.wire.api.update_metadata import UpdateMetadataRequest


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
        """Commit as the controller. Raise `ControllerMoved`, or the registry's exceptions."""
        return self.states.commit(changes)

    def open_way(self, node_id: int) -> None:
        """Open the connection to a new broker, or to a broker with another address."""
        self.close_way(node_id)
        endpoint = self.context.brokers[node_id].endpoint(self.settings.inter_broker_listener)
        address = None if endpoint is None else (endpoint.host, endpoint.port)
        channels, scheduler, settings = self._channels, self._scheduler, self._settings
        self._ways[node_id] = ControllerChannel(node_id, address, channels, scheduler, settings, self._answered)

    def close_way(self, node_id: int) -> None:
        """Close the connection to a broker that is gone."""
        way = self._ways.pop(node_id, None)
        if way is not None:
            way.close()

    def send(self) -> Steps[None]:
        """Send the queued `requests` to their brokers."""
        for request in self.requests.take(self.deletions.forgotten):
            if request is not None and request.node_id in self._ways:
                self._ways[request.node_id].send(request)
            yield None

    def send_and_wait(self) -> Steps[None]:
        """Send the queued `requests`, and wait until their brokers have answered, so that few messages are in memory at a time."""
        yield from self.send()
        for way in list(self._ways.values()):
            yield from way.drained()

    def close(self) -> None:
        """Close all connections, because another broker can be the controller."""
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
