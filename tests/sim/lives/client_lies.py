"""Brokers that answer wrongly: with an error although the request was served, or was not tried, or with old metadata."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ottla.broker.serving.refusals import is_answered, refusal
from ottla.broker.serving.request import Peer
from ottla.sim.host import SIZE_BYTES, Host, SimConnection
from ottla.sim.world import World
from ottla.wire import errors as codes
from ottla.wire.apis import API
from ottla.wire.framing import decode_request, decode_request_header, encode_response

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 0, 1, 2, 3, 8, 9, 10
JOIN_GROUP, HEARTBEAT, SYNC_GROUP, INIT_PRODUCER_ID = 11, 12, 14, 22
ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSETS = 24, 25, 26, 28
CONSUMER_HEARTBEAT = 68
AWAY = (codes.NOT_COORDINATOR, codes.COORDINATOR_NOT_AVAILABLE, codes.COORDINATOR_LOAD_IN_PROGRESS)
LEADER = (codes.NOT_LEADER_OR_FOLLOWER, codes.LEADER_NOT_AVAILABLE, codes.KAFKA_STORAGE_ERROR, codes.UNKNOWN_TOPIC_OR_PARTITION)
LIES: dict[int, tuple[int, ...]] = {
    PRODUCE: (*LEADER, codes.REQUEST_TIMED_OUT, codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND, codes.UNKNOWN_SERVER_ERROR),
    FETCH: (*LEADER, codes.UNKNOWN_LEADER_EPOCH, codes.FENCED_LEADER_EPOCH, codes.OFFSET_NOT_AVAILABLE),
    LIST_OFFSETS: (*LEADER, codes.OFFSET_NOT_AVAILABLE),
    OFFSET_COMMIT: (*AWAY, codes.REBALANCE_IN_PROGRESS, codes.REQUEST_TIMED_OUT),
    OFFSET_FETCH: AWAY,
    FIND_COORDINATOR: (codes.COORDINATOR_NOT_AVAILABLE,),
    JOIN_GROUP: (*AWAY, codes.UNKNOWN_MEMBER_ID, codes.REBALANCE_IN_PROGRESS),
    SYNC_GROUP: (*AWAY, codes.UNKNOWN_MEMBER_ID, codes.ILLEGAL_GENERATION, codes.REBALANCE_IN_PROGRESS),
    HEARTBEAT: (*AWAY, codes.UNKNOWN_MEMBER_ID, codes.ILLEGAL_GENERATION, codes.REBALANCE_IN_PROGRESS),
    CONSUMER_HEARTBEAT: (*AWAY, codes.UNKNOWN_MEMBER_ID, codes.FENCED_MEMBER_EPOCH),
    INIT_PRODUCER_ID: (*AWAY, codes.CONCURRENT_TRANSACTIONS),
    ADD_PARTITIONS: (*AWAY, codes.CONCURRENT_TRANSACTIONS),
    ADD_OFFSETS: (*AWAY, codes.CONCURRENT_TRANSACTIONS),
    END_TXN: (*AWAY, codes.CONCURRENT_TRANSACTIONS),
    TXN_OFFSETS: AWAY,
}
MOST_PAST = 4
"""The number of earlier metadata answers that are kept, for each request."""


@dataclass(slots=True)
class Lies:
    """The probabilities of an error without reason (`error`) and of old metadata (`stale`), for each answer."""

    error: float = 0.0
    stale: float = 0.0

    def clear_up(self) -> None:
        self.error = self.stale = 0.0


class LyingServers:
    """Makes the servers of connections."""

    def __init__(self, world: World, lies: Lies) -> None:
        self.world = world
        self.lies = lies
        self.told = 0
        self.past: dict[bytes, list[bytes]] = {}

    def accept(self, host: Host, peer: Peer) -> LyingServer:
        return LyingServer(self, SimConnection(host, peer))


class LyingServer:
    """The server of one connection."""

    def __init__(self, servers: LyingServers, inner: SimConnection) -> None:
        self._servers, self._inner = servers, inner

    def serve(self, frame: memoryview, answered: Callable[[memoryview | None], None]) -> None:
        servers, lies = self._servers, self._servers.lies
        header, _ = decode_request_header(frame)
        if header.api_key == METADATA and (lies.stale or servers.past):
            answered = partial(self._stale, bytes(frame[:4]) + bytes(frame[8:]), answered)
        elif header.api_key in LIES and servers.world.chance(lies.error) and (lie := self._lie(frame)) is not None:
            servers.told += 1
            if servers.world.chance(0.5):
                answered(lie)
                return
            answered = partial(_instead, lie, answered)
        self._inner.serve(frame, answered)

    def _lie(self, frame: memoryview) -> memoryview | None:
        header, body = decode_request(frame)
        code = self._servers.world.random.choice(LIES[header.api_key])
        if not is_answered(body):
            return None
        wrong = refusal(API[header.api_key], header.api_version, body, code, "a lie", of_items=True)
        if wrong is None:
            return None
        parts = encode_response(header.correlation_id, header.api_key, header.api_version, wrong)
        return memoryview(b"".join(bytes(part) for part in parts))[SIZE_BYTES:]

    def _stale(self, asked: bytes, answered: Callable[[memoryview | None], None], answer: memoryview | None) -> None:
        if answer is None:
            answered(None)
            return
        past, world = self._servers.past.setdefault(asked, []), self._servers.world
        if past and world.chance(self._servers.lies.stale):
            self._servers.told += 1
            answered(memoryview(bytes(answer[:4]) + world.random.choice(past)))
            return
        past.append(bytes(answer[4:]))
        del past[:-MOST_PAST]
        answered(answer)

    def close(self) -> None:
        self._inner.close()


def _instead(lie: memoryview, answered: Callable[[memoryview | None], None], answer: memoryview | None) -> None:
    answered(None if answer is None else lie)
