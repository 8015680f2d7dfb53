"""One broker: requests in, replies out; composes the machines and keeps what waits. Knows no sockets, no files, no event loop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any

from ottla.broker.coordination.coordination import Coordination
from ottla.broker.coordination.transactions import NoTransactions
from ottla.broker.failures import CONFLICTS, Changes
from ottla.broker.partitions.cleaning import Cleaner
from ottla.broker.partitions.partitions import Partition, Partitions
from ottla.broker.releases.errors import tell
from ottla.broker.scheduler import Scheduler
from ottla.broker.serving import apis
from ottla.broker.serving.computed import Computed
from ottla.broker.serving.fetch_sessions import FetchSessions
from ottla.broker.serving.refusals import refusal
from ottla.broker.serving.request import NO_REPLY, Close, Peer, Promised, Ready, Reply, Request, Waiting
from ottla.broker.serving.waits import Wait, Waits
from ottla.broker.settings import BrokerSettings, SettingsInForce
from ottla.broker.topics.topics import Topics
from ottla.coord.consumer.assign import Assignor
from ottla.ports import Buffer, Clock, Disk, Now, Part, Registry, StorageFailed
from ottla.wire import Malformed, Unencodable
from ottla.wire.apis import API
from ottla.wire.errors import KAFKA_STORAGE_ERROR, UNKNOWN_SERVER_ERROR
from ottla.wire.framing import decode_request, encode_response

log = logging.getLogger("ottla.broker")

_ROUTE = Struct(">hhi")
_VERSION = Struct(">h")
API_VERSIONS = 18


class Pending:
    """A reply that its connection still owes: `parts` is set and `ready` called when it can leave (None: nothing is sent)."""

    __slots__ = ("_encode", "_request", "blocking", "done", "parts", "ready", "wait")

    def __init__(self, encode: Callable[[Ready, Request], Answer], request: Request, *, blocking: bool) -> None:
        self._encode = encode
        self._request = request
        self.blocking = blocking
        self.done = False
        self.parts: Answer = None
        self.ready: Callable[[], None] | None = None
        self.wait: Wait | None = None

    def deliver(self, reply: Ready) -> None:
        """It can leave now."""
        self.wait = None
        self.parts = self._encode(reply, self._request)
        self.done = True
        if self.ready is not None:
            self.ready()


Answer = Sequence[Part] | Close | None
"""What the network does with a request: send these parts, close the connection, or nothing."""


class Broker:
    """A Kafka broker of one node, as a machine: bytes of requests in, parts of replies out.

    `random_bytes` is the only source of randomness. `assignors` are those that the settings name; without them only
    built-in ones can be named.
    """

    def __init__(
        self,
        *,
        settings: BrokerSettings,
        clock: Clock,
        disk: Disk,
        registry: Registry,
        node_id: int,
        cluster_id: str,
        random_bytes: Callable[[int], bytes],
        assignors: tuple[Assignor, ...] | None = None,
    ) -> None:
        self.settings_in_force = SettingsInForce(settings)
        self.clock = clock
        self.disk = disk
        self.registry = registry
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.random_bytes = random_bytes
        self.assignors = assignors
        self.changes = Changes()
        self.scheduler = Scheduler(clock)
        self.waits = Waits(self.scheduler)
        self.computed = Computed(self.scheduler, self.waits)
        self.partitions = Partitions(disk, clock, self.scheduler, self.changes, self._changed)
        self.topics = Topics(self)
        self.fetch_sessions = FetchSessions(random_bytes, self.waits.wake, self.topics.name_of)
        self.coordination = Coordination(self)
        self.settings_in_force.told.append(self.coordination.settings_changed)
        self.transactions = NoTransactions()
        self.cleaner = Cleaner(self)
        self._routes = apis.routes()
        self._at_hand: Request | None = None

    @property
    def settings(self) -> BrokerSettings:
        """Those in force now."""
        return self.settings_in_force.value

    def start(self, *, clean: bool) -> None:
        """Open every partition and replay the internal topics; `clean` (the last stop was orderly) spares scanning the logs."""
        now = self.clock.now()
        self.topics.load(now, clean=clean)
        self.coordination.load(now)
        self.cleaner.start(now)
        self._keep_house(now)
        self.settle(now)

    def close(self) -> bool:
        """Close the logs; nothing may be received afterwards. True if all of them were closed cleanly."""
        self.scheduler.close()
        return self.partitions.close()

    def wake(self, key: tuple[Any, ...]) -> None:
        """Retry the replies that wait on this key, when the request at hand is done."""
        self.waits.wake(key)

    def advertised(self, peer: Peer) -> tuple[str, int]:
        """The address that clients are told: the configured one, else the one at which this peer reached the broker."""
        for listener in self.settings.advertised_listeners or ():
            if listener.name == peer.listener:
                return listener.host, listener.port
        return peer.local_host, peer.local_port

    def receive(self, frame: Buffer, peer: Peer, now: Now) -> Answer | Pending:
        """Serve one request (the bytes after its size). What it returns leaves in the order of the requests of its connection.

        The frame may be overwritten as soon as this returns: nothing of it is kept. An exception that leaves this is a mistake: one
        for `refuse` if `changes.made` is false, and the end of this broker if it is true.
        """
        self._at_hand, self.changes.made = None, False
        if len(frame) < _ROUTE.size:
            return Close(f"a request of {len(frame)} bytes is shorter than any header")
        key, asked, correlation_id = _ROUTE.unpack_from(frame)
        version = asked if peer.release.is_today else peer.release.read_as(key, asked)
        handler = None if version is None else self._routes.get((key, version))
        if version is None or handler is None:
            return self._unserved(key, asked, correlation_id, peer, now)
        try:
            header, body = decode_request(frame if version == asked else _with_version(frame, version))
        except Malformed as malformed:
            return None if peer.release.is_silent_on(key, known=True) else Close(str(malformed))
        request = Request(key, version, correlation_id, header.client_id, body, peer, now)
        self._at_hand = request
        try:
            return self._answer(handler(self, request), request)
        except StorageFailed as failure:
            return self._refused(KAFKA_STORAGE_ERROR, f"The broker's disk refused it ({failure}): look at its log.")
        except CONFLICTS as conflict:
            return self._refused(UNKNOWN_SERVER_ERROR, f"Another broker changed {conflict} meanwhile: try again.")
        except Malformed as malformed:
            return Close(str(malformed))

    def refuse(self, error_code: int, sentence: str) -> Answer:
        """Answer the request that was received last with an error, or close its connection if its API has no place for one."""
        request, answer = self._at_hand, None
        if request is not None and request.body is not None:
            answer = refusal(request.key, request.version, request.body, error_code, sentence)
        try:
            return Close(sentence) if request is None or answer is None else self._encode(answer, request)
        except Unencodable:
            return Close(sentence)

    def settle(self, now: Now) -> None:
        """Finish a bundle of requests: start the syncs they asked for and retry what they woke."""
        self.coordination.settle(now)
        self.waits.settle(now)
        self.partitions.syncs.start()

    def run_timers(self, now: Now) -> None:
        self.scheduler.run_due(now)
        self.settle(now)

    def forget(self, pending: Pending) -> None:
        """Its connection is gone: no reply is owed any more."""
        pending.ready = None
        if pending.wait is not None:
            self.waits.drop(pending.wait)

    def _unserved(self, key: int, version: int, correlation_id: int, peer: Peer, now: Now) -> Answer | Pending:
        release = peer.release
        if key != API_VERSIONS or key not in release.versions:
            if release.is_silent_on(key, known=False):
                log.info("%s: API %d version %d is passed over in silence, as %s does", peer, key, version, release)
                return None
            served = apis.served(release).get(key)
            known = f"{key} is served in versions {served.start} to {served.stop - 1}" if served else f"{key} is not served"
            return Close(f"API {known}, and version {version} was asked for")
        handler = self._routes[API_VERSIONS, 0]
        request = Request(key, 0, correlation_id, None, None, peer, now)
        return self._answer(handler(self, request), request)

    def _refused(self, error_code: int, sentence: str) -> Answer:
        """What nobody foresaw to answer, though it may happen."""
        assert self._at_hand is not None, "a request was received"
        log.error("%s: %s: %s", self._at_hand.peer, API[self._at_hand.key].name, sentence)
        return self.refuse(error_code, sentence)

    def _answer(self, reply: Reply, request: Request) -> Answer | Pending:
        if isinstance(reply, Waiting | Promised):
            return self._keep(reply, request)
        return self._encode(reply, request)

    def _keep(self, reply: Waiting | Promised, request: Request) -> Pending:
        pending = Pending(self._encode, request, blocking=reply.blocking)
        if isinstance(reply, Promised):
            reply.deliver = pending.deliver
        else:
            pending.wait = self.waits.add(reply, pending.deliver)
        return pending

    def _encode(self, reply: Ready, request: Request) -> Answer:
        if reply is NO_REPLY:
            return None
        if isinstance(reply, Close):
            return reply
        if not request.release.is_today:
            tell(reply, request.release)
        return encode_response(request.correlation_id, request.key, request.version, reply)

    def _changed(self, partition: Partition) -> None:
        self.waits.wake(partition.key)
        self.fetch_sessions.changed(partition.key)

    def _keep_house(self, now: Now) -> None:
        """Have retention applied and checkpoints written, as often as the settings say."""

        def retain(now: Now) -> None:
            self.scheduler.begin("retention", self.partitions.retain(now))

        def checkpoint(now: Now) -> None:
            self.scheduler.begin("checkpoint", self.partitions.checkpoint())

        self.scheduler.every("retention", lambda: self.settings.log_retention_check_interval_ms, retain, now)
        self.scheduler.every("checkpoint", lambda: self.settings.log_flush_offset_checkpoint_interval_ms, checkpoint, now)


def _with_version(frame: Buffer, version: int) -> bytes:
    """The same request under another version number."""
    return b"".join((frame[:2], _VERSION.pack(version), frame[4:]))
