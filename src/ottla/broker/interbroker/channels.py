"""Requests to other brokers: a message becomes a frame on a link to its broker, and the response frame a message.

A request has the version that all brokers of the cluster support. A broker has a separate connection, called a lane, for each kind
of traffic, so that a long-polling fetch delays no other request. Depends on correlation ids and broker addresses, and not on
sockets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from ottla.broker.interbroker.loopback import Within
from ottla.broker.settings import SettingsInForce
from ottla.cluster.image import ClusterImage
from ottla.ports import BrokerLink, Done, Links, Part, Steps
from ottla.wire import Malformed
from ottla.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.framing import FrameHeader, decode_response, encode_request, frame_request
from ottla.wire.schema import Message

log = logging.getLogger("ottla.broker")

Heard = Callable[[Any], None]
"""Callback that receives the response, in the request's response class, or None if the outcome is unknown."""

SYSTEMS = -1
"""A receive buffer whose size the operating system chooses."""
LAST_ID = (1 << 31) - 1
UNREADABLE = (
    "broker %d answered %s version %d with what cannot be read (%s): are all brokers set to one inter.broker.protocol.version?"
)


class OpenLane(NamedTuple):
    """An open connection to another broker, and the address to which it is connected."""

    address: tuple[str, int]
    link: BrokerLink


class Channels:
    """The channels to all brokers by id, including this one. No callback runs before `request` has returned."""

    def __init__(self, node_id: int, links: Links, image: ClusterImage, settings: SettingsInForce, within: Within) -> None:
        self._node_id = node_id
        self._links = links
        self._image = image
        self._settings = settings
        self._within = within
        self._lanes: dict[tuple[int, str], OpenLane] = {}
        self._last_id = 0

    def request(
        self,
        node_id: int,
        message: Message,
        version: int,
        answered: Heard,
        *,
        lane: str,
        timeout_ms: int,
        address: tuple[str, int] | None = None,
        receive_buffer_bytes: int = SYSTEMS,
        body: Sequence[Part] | None = None,
    ) -> None:
        """Send a request in a version. Requests of one `lane` are served in order, over one connection.

        `answered` is called once, after this method has returned. It receives the response, or None if the broker is unknown or
        unreachable, the connection broke, or nothing arrived within `timeout_ms`. A request to this broker itself is served without
        a connection. `address` is for callers that receive a broker's address before the image does. `receive_buffer_bytes` is the
        size of the receive buffer, for a lane with large responses. `body` is a message that is already encoded.
        """
        if self.is_itself(node_id):
            self._within.send(lane, message, version, answered)
            return
        self._last_id = self._last_id % LAST_ID + 1
        header = FrameHeader(message.WIRE.key, version, self._last_id, f"broker-{self._node_id}-{lane}")
        parts = encode_request(header, message) if body is None else frame_request(header, body)
        heard = partial(self._on_frame, node_id, header, answered)
        found = address or self.address(node_id)
        if found is None:
            self._within.later(partial(answered, None))
        else:
            self._link(node_id, lane, found, receive_buffer_bytes).send(parts, timeout_ms, heard)

    def is_itself(self, node_id: int) -> bool:
        """Return whether requests to a broker id are requests of this broker to itself, which need no connection and no bytes."""
        return node_id == self._node_id

    def address(self, node_id: int) -> tuple[str, int] | None:
        """Return the (host, port) of a broker's inter-broker listener; None if the broker is unregistered or lacks the listener."""
        known = self._image.brokers.get(node_id)
        wanted = self._settings.value.inter_broker_listener
        for name, host, port in () if known is None else known.endpoints:
            if name.upper() == wanted:
                return host, port
        return None

    def forget(self, node_id: int, lane: str | None = None) -> None:
        """Close all connections to a broker, or only the connection of `lane`; pending requests get None."""
        for key in [key for key in self._lanes if key[0] == node_id and lane in (None, key[1])]:
            self._lanes.pop(key).link.close()

    def close(self) -> None:
        for node_id in {node_id for node_id, _ in self._lanes}:
            self.forget(node_id)

    def _link(self, node_id: int, lane: str, address: tuple[str, int], receive_buffer_bytes: int) -> BrokerLink:
        known = self._lanes.get((node_id, lane))
        if known is not None and known.address == address:
            return known.link
        if known is not None:
            known.link.close()
        link = self._links.open(*address, receive_buffer_bytes)
        self._lanes[node_id, lane] = OpenLane(address, link)
        return link

    def _on_frame(self, node_id: int, header: FrameHeader, answered: Heard, frame: memoryview | None) -> None:
        if frame is None:
            answered(None)
            return
        try:
            number, body = decode_response(header.api_key, header.api_version, frame)
        except Malformed as malformed:
            log.warning(UNREADABLE, node_id, header.api_key, header.api_version, malformed)
            answered(None)
            return
        answered(body if number == header.correlation_id else None)


CREATE_TOPICS_VERSION: Final = 4
"""The version of CreateTopics requests, as in Kafka 2.4. The broker sets every number in these requests itself."""

ADD_PARTITIONS_SINCE: Final = (("3.8-IV0", 5), ("3.5-IV0", 4))
"""(inter-broker protocol version, version of AddPartitionsToTxn from then on), newest first. Older versions do not send it."""

SHARE_STATE_KEYS: Final = range(83, 88)
"""The APIs of share coordinators. No broker over ZooKeeper but Ottla has them, so the newest version is sent."""

UNSPOKEN: Final = -1


class BrokerRequester:
    """A sender of requests to another broker, or to this one, with `request.timeout.ms` as the timeout."""

    def __init__(self, channels: Channels, settings: SettingsInForce) -> None:
        self._channels = channels
        self._settings = settings

    def version(self, request: type[Message]) -> int:
        """Return the version in which brokers of this cluster send a request to each other; `UNSPOKEN` if they do not send it."""
        spoken = self._settings.value.inter_broker_protocol_version
        if request is CreateTopicsRequest:
            return CREATE_TOPICS_VERSION
        if request is AddPartitionsToTxnRequest:
            return next((version for since, version in ADD_PARTITIONS_SINCE if spoken.is_at_least(since)), UNSPOKEN)
        if request.WIRE.key in SHARE_STATE_KEYS:
            return request.WIRE.valid[-1]
        return spoken.version(request)

    def request(self, node_id: int, message: Message, answered: Callable[[Any], None], *, lane: str) -> None:
        """Send a request to a broker, and call `answered` later with the response, or with None if the outcome is unknown.

        Requests with the same `lane` share one connection to the broker, and are served in order.
        """
        timeout_ms = self._settings.value.request_timeout_ms
        self._channels.request(node_id, message, self.version(type(message)), answered, lane=lane, timeout_ms=timeout_ms)

    def answer(self, node_id: int, message: Message, *, lane: str) -> Steps[Any]:
        """Send a request to a broker and wait for its response. Return the response, or None if none arrives in time.

        Requests with the same `lane` share one connection to the broker, and are served in order.
        """
        answers: list[Any] = []

        def start(done: Done) -> None:
            self.request(node_id, message, partial(_note, answers, done), lane=lane)

        yield start
        return answers[0]


def _note(answers: list[Any], done: Done, response: Any) -> None:
    answers.append(response)
    done(None)
