"""Frames that no client sends on purpose: the connection ends as Kafka ends it, one log line says why, others are unhurt."""

from __future__ import annotations

import contextlib
import struct

import pytest

from tests.support.frames import METADATA, PRODUCE, Batch, Raw, metadata_v1, produce_v7, request, string
from tests.support.peers import Peer
from tests.support.waiting import eventually

TOO_LARGE = 104_857_600 + 1
PAST_END = struct.pack(">i", 5) + string("t")

CLOSING = {
    "unknown API": request(999, 0, 1),
    "negative API": request(-1, 0, 1),
    "API that was removed": request(4, 0, 1),
    "version that never was": request(METADATA, 99, 1, metadata_v1("t")),
    "negative version": request(METADATA, -1, 1, metadata_v1("t")),
    "version that was removed": request(PRODUCE, 2, 1, produce_v7("t", 0, Batch().encode())[2:]),
    "array longer than the frame": request(METADATA, 1, 1, PAST_END),
    "array of two thousand million": request(METADATA, 1, 1, struct.pack(">i", 0x7FFFFFFF)),
    "body missing": request(METADATA, 1, 1),
    "header cut off": b"\x00\x00\x00\x03abc",
    "client id longer than the frame": struct.pack(">ihhih", 12, METADATA, 1, 1, 500) + b"ab",
    "garbled tagged fields": request(18, 3, 1, b"\xff" * 20),
    "empty frame": bytes(4),
    "negative size": b"\xff\xff\xff\xff",
    "frame that is too large": struct.pack(">i", TOO_LARGE) + bytes(10),
    "HTTP": b"GET / HTTP/1.1\r\nHost: example\r\n\r\n",
    "TLS": bytes.fromhex("16030100c4010000c00303") + b"\x01" * 200,
}


def skip_what_is_served(peer_name: str, kind: str) -> None:
    if peer_name == "ottla" and kind == "version that was removed":
        pytest.skip("Ottla serves every version that ever was of what it serves")


@pytest.mark.parametrize("kind", CLOSING)
def test_the_connection_is_closed_and_others_are_unhurt(broker: Peer, peer_name: str, kind: str) -> None:
    skip_what_is_served(peer_name, kind)
    with Raw(broker.address) as good, Raw(broker.address) as bad:
        assert good.is_served()
        bad.send(CLOSING[kind])
        assert bad.is_closed()
        assert good.is_served()


@pytest.mark.parametrize("kind", CLOSING)
def test_one_log_line_names_peer_and_reason(broker: Peer, peer_name: str, kind: str) -> None:
    if peer_name != "ottla":
        pytest.skip("how Apache Kafka logs is its own affair")
    skip_what_is_served(peer_name, kind)

    def told() -> tuple[str, list[str]]:
        """Who was closed, and the lines that name it: none if one of the same kind was told less than a second ago."""
        before = len(broker.log)  # the port may have been that of another peer, long ago
        with Raw(broker.address) as bad:
            peer = "{}:{}".format(*bad.socket.getsockname())
            bad.send(CLOSING[kind])
            assert bad.is_closed()
        return peer, [line for line in broker.log[before:].splitlines() if peer in line]

    ((peer, (line,)),) = eventually(lambda: [pair for pair in [told()] if pair[1]], timeout_s=5, what="a line names the peer")
    assert len(line.partition(peer)[2].split()) >= 3, "it gives a reason"
    assert "Traceback" not in broker.log


def test_what_was_asked_before_a_bad_frame_is_answered(broker: Peer) -> None:
    with Raw(broker.address) as bad:
        bad.send(request(18, 0, 7) + request(999, 0, 8))
        assert bad.frame()[:6] == struct.pack(">ih", 7, 0)
        assert bad.is_closed()


@pytest.mark.parametrize("version", [6, 99, 32767, -1])
def test_api_versions_of_an_unknown_version_is_answered_in_version_0(broker: Peer, version: int) -> None:
    with Raw(broker.address) as raw:
        raw.send(request(18, version, 5, bytes(3)))
        reply = raw.frame()
        assert reply[:6] == struct.pack(">ih", 5, 35)
        (count,) = struct.unpack_from(">i", reply, 6)
        assert len(reply) == 10 + 6 * count
        assert 18 in {struct.unpack_from(">h", reply, 10 + 6 * at)[0] for at in range(count)}
        assert raw.is_served()


def test_a_frame_may_come_byte_by_byte(broker: Peer) -> None:
    with Raw(broker.address) as raw:
        for byte in request(18, 0, 9):
            raw.send(bytes([byte]))
        assert raw.frame()[:6] == struct.pack(">ih", 9, 0)


def test_many_frames_may_come_at_once_and_are_answered_in_order(broker: Peer) -> None:
    with Raw(broker.address) as raw:
        raw.send(b"".join(request(18, 0, number) for number in range(500)))
        assert [struct.unpack_from(">i", raw.frame())[0] for _ in range(500)] == list(range(500))


def test_bytes_after_the_last_field_hurt_no_one_else(broker: Peer) -> None:
    """Apache Kafka overlooks them. Ottla takes them for a peer that speaks something else, and closes."""
    with Raw(broker.address) as good, Raw(broker.address) as bad:
        bad.send(request(18, 0, 3, b"more"))
        with contextlib.suppress(EOFError):
            assert bad.frame()[:6] == struct.pack(">ih", 3, 0)
        assert good.is_served()
