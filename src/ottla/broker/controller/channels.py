"""The controller's connection to one broker: one request in flight, in order, retried until the broker responds or is gone.

Waiting UpdateMetadata requests are merged while they are small. A request that names many partitions is encoded in steps with
pauses between them. Depends on the inter-broker channels, and not on the meaning of requests.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from ottla.broker.interbroker.channels import Channels
from ottla.broker.retries import Repeats
from ottla.broker.scheduler import Scheduler
from ottla.broker.settings import SettingsInForce
from ottla.cluster.controller_rules.context import AT_ONCE
from ottla.cluster.controller_rules.requests import ControlRequest
from ottla.ports import Done, Now, Part, Steps
from ottla.wire.api.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.api.stop_replica import StopReplicaRequest
from ottla.wire.api.update_metadata import UpdateMetadataRequest
from ottla.wire.codec.blocks import BlockWriter, Path, level_of, pieces
from ottla.wire.schema import Message

log = logging.getLogger("ottla.broker")

LANE = "controller"
RETRY_MS, MOST_RETRY_MS = 100, 1_000
"""First and longest pause before a request to an unreachable broker is retried, in ms."""
MANY: dict[type[Message], tuple[Path, ...]] = {
    LeaderAndIsrRequest: (("topic_states", "partition_states"), ("ungrouped_partition_states",)),
    UpdateMetadataRequest: (("topic_states", "partition_states"), ("ungrouped_partition_states",)),
    StopReplicaRequest: (("topic_states", "partition_states"), ("topics",), ("ungrouped_partitions",)),
}
"""The arrays that name partitions, by request type. A request uses the first array that exists in its version."""

Topic = UpdateMetadataRequest.UpdateMetadataTopicState
Answered = Callable[[ControlRequest, Any], None]
"""Callback that receives a request and its response."""


class ControllerChannel:
    """The controller's queue of requests to one broker, for one registration of the broker at one address."""

    def __init__(
        self,
        node_id: int,
        address: tuple[str, int] | None,
        channels: Channels,
        scheduler: Scheduler,
        settings: SettingsInForce,
        answered: Answered,
    ) -> None:
        self._node_id = node_id
        self._address = address
        self._channels = channels
        self._scheduler = scheduler
        self._settings = settings
        self._answered = answered
        self._waiting: deque[ControlRequest] = deque()
        self._is_busy = False
        self._is_closed = False
        self._drained: list[Done] = []
        self._repeats = Repeats(RETRY_MS, MOST_RETRY_MS)

    def send(self, request: ControlRequest) -> None:
        """Queue a request. If it and the last waiting request are small UpdateMetadata requests, merge them."""
        last = self._waiting[-1] if self._waiting else None
        before, then = None if last is None else last.message, request.message
        partitions = request.partitions + (0 if last is None else last.partitions)
        if isinstance(before, UpdateMetadataRequest) and isinstance(then, UpdateMetadataRequest) and partitions <= AT_ONCE:
            self._waiting[-1] = request._replace(message=merge(before, then), partitions=partitions)
        else:
            self._waiting.append(request)
        self._send_next()

    def close(self) -> None:
        """Drop all waiting requests and stop sending, because the broker is gone or this broker is no longer the controller."""
        self._is_closed = True
        self._waiting.clear()
        self._is_busy = False
        self._notify_drained()
        self._scheduler.cancel(self)
        self._scheduler.drop(self)
        self._channels.forget(self._node_id, LANE)

    def when_drained(self) -> Steps[None]:
        """Wait until the broker has answered all requests, or this connection is closed."""
        if self._is_busy:
            yield self._drained.append

    def _notify_drained(self) -> None:
        waiting, self._drained = self._drained, []
        for done in waiting:
            done(None)

    def _send_next(self) -> None:
        if self._waiting and not self._is_busy:
            self._is_busy = True
            self._send(self._waiting.popleft())

    def _send(self, request: ControlRequest) -> None:
        if request.partitions <= AT_ONCE or self._channels.is_itself(self._node_id):
            self._request(request)
        else:
            self._scheduler.begin(self, _encode(request), partial(self._request, request), urgent=True)

    def _request(self, request: ControlRequest, body: Sequence[Part] | None = None) -> None:
        self._channels.request(
            self._node_id,
            request.message,
            request.version,
            partial(self._receive, request),
            lane=LANE,
            timeout_ms=self._settings.value.controller_socket_timeout_ms,
            address=self._address,
            body=body,
        )

    def _receive(self, request: ControlRequest, response: Any) -> None:
        if self._is_closed:
            return
        if response is None:

            def again(now: Now) -> None:
                self._send(request)

            sentence = "broker %d does not answer the controller; the request is retried"
            self._repeats.log_once(log, logging.INFO, sentence, self._node_id)
            self._scheduler.at(self, self._scheduler.now().mono_ms + self._repeats.pause_ms(), again)
            return
        self._repeats.over()
        self._is_busy = False
        self._answered(request, response)
        self._send_next()
        if not self._is_busy:
            self._notify_drained()


def _encode(request: ControlRequest) -> Steps[Sequence[Part]]:
    message, version = request.message, request.version
    path = next(path for path in MANY[type(message)] if level_of(type(message), version, path) is not None)
    writer = BlockWriter(version, path)
    for piece in pieces(message, path, AT_ONCE):
        writer.add(piece)
        yield None
    return writer.parts()


class _Key(NamedTuple):
    name: str
    topic_id: bytes


def merge(first: UpdateMetadataRequest, then: UpdateMetadataRequest) -> UpdateMetadataRequest:
    """Return one request with the partition states of both; states of `then` win.

    Neither argument is changed, because other brokers may be sent the same partition objects.
    """
    states = {(one.topic_name, one.partition_index): one for one in first.ungrouped_partition_states}
    states |= {(one.topic_name, one.partition_index): one for one in then.ungrouped_partition_states}
    topics: dict[_Key, dict[int, UpdateMetadataRequest.UpdateMetadataPartitionState]] = {}
    for topic in (*first.topic_states, *then.topic_states):
        known = topics.setdefault(_Key(topic.topic_name, topic.topic_id), {})
        known.update((one.partition_index, one) for one in topic.partition_states)
    return UpdateMetadataRequest(
        controller_id=then.controller_id,
        controller_epoch=then.controller_epoch,
        broker_epoch=then.broker_epoch,
        ungrouped_partition_states=list(states.values()),
        topic_states=[
            Topic(topic_name=key.name, topic_id=key.topic_id, partition_states=list(some.values())) for key, some in topics.items()
        ],
        live_brokers=then.live_brokers,
    )
