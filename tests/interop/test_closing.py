"""A peer that closes is served what it had sent before, and gets its answers as long as it reads."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from ottla.wire.framing import FrameHeader, decode_response, encode_request
from tests.support.frames import API_VERSIONS, FETCH, Raw, fetch_v4
from tests.support.frames import request as frame
from tests.support.messages import request
from tests.support.peers import Peer
from tests.support.waiting import eventually

FIND, JOIN, LEAVE, DESCRIBE = 10, 11, 13, 15
LONG_MS = 60_000


def encoded(key: int, version: int, number: int, /, **values: Any) -> bytes:
    return b"".join(bytes(part) for part in encode_request(FrameHeader(key, version, number, "t"), request(key, version, **values)))


def ask(client: Raw, key: int, version: int, /, **values: Any) -> Any:
    client.send(encoded(key, version, 1, **values))
    return decode_response(key, version, client.frame())[1]


def described(client: Raw, group_id: str) -> tuple[str, int]:
    """(state, members)"""
    (group,) = ask(client, DESCRIBE, 4, groups=[group_id]).groups
    return group.group_state, len(group.members)


def join_and_leave(group_id: str) -> bytes:
    """Requests of a static member, which can leave without having been told its member id."""
    join = encoded(
        JOIN,
        5,
        1,
        group_id=group_id,
        session_timeout_ms=LONG_MS // 2,
        rebalance_timeout_ms=LONG_MS,
        group_instance_id="one",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    )
    return join + encoded(LEAVE, 3, 2, group_id=group_id, members=[{"member_id": "", "group_instance_id": "one"}])


def test_what_waits_behind_a_join_is_served_though_the_peer_closed(broker: Peer, unique: Callable[[str], str]) -> None:
    group_id = unique("closing")
    with Raw(broker.address) as other:
        eventually(lambda: ask(other, FIND, 1, key=group_id).error_code == 0)
        eventually(lambda: described(other, group_id)[0] == "Dead")
        with Raw(broker.address) as leaver:
            leaver.send(join_and_leave(group_id))
        eventually(lambda: described(other, group_id)[0] == "Empty")
        assert described(other, group_id) == ("Empty", 0)


def test_a_peer_that_only_stopped_sending_gets_every_answer_and_then_the_end(broker: Peer, unique: Callable[[str], str]) -> None:
    topic = unique("closing")
    with Raw(broker.address) as client:
        assert client.create_topic(topic) == 0
        waits = frame(FETCH, 4, 7, fetch_v4(topic, 0, 0, max_wait_ms=300, min_bytes=1))
        client.send(waits + frame(API_VERSIONS, 0, 8) + frame(API_VERSIONS, 0, 9)[:-2])
        client.socket.shutdown(socket.SHUT_WR)
        numbers = [int.from_bytes(client.frame()[:4], "big") for _ in range(2)]
        assert numbers == [7, 8]
        assert client.is_closed()
