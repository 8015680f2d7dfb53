"""Captures of both formats, of every link: the segments come out, and what is broken is said in a sentence."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.decode.capture import CaptureError, Packet, is_capture, read_packets, segment_of
from ottla.cli.decode.tcp_streams import connections
from tests.unit.cli.packets import BROKER, CLIENT, LINKS, Piece, Talk, as_segment, pcap, pcapng

ONE = Piece(CLIENT, BROKER, 7, b"hello", time_ns=1_700_000_000_123_456_000)
SIX = Piece(("::1", 50_000), ("2001:db8::2", 9092), 7, b"hello", time_ns=1_700_000_000_123_456_000)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("write", [pcap, pcapng])
@pytest.mark.parametrize("order", ["<", ">"])
def test_a_segment_is_found_in_every_kind_of_capture(link: str, write: type, order: str) -> None:
    for nanoseconds in (False, True):
        data = write([ONE, SIX], link, order=order, nanoseconds=nanoseconds)
        assert is_capture(data)
        packets, fault = read_packets(data)
        assert not fault
        four, six = (segment_of(packet) for packet in packets)
        assert four is not None
        assert six is not None
        assert (four.source, four.target) == ("10.0.0.1:50000", "10.0.0.2:9092")
        assert (six.source, six.target) == ("[::1]:50000", "[2001:db8::2]:9092")
        assert (four.time_ns, four.sequence, bytes(four.payload)) == (ONE.time_ns, 7, b"hello")
        assert bytes(six.payload) == b"hello"


@pytest.mark.parametrize("kind", [2, 3])
def test_older_blocks_of_packets_are_read(kind: int) -> None:
    packets, _ = read_packets(pcapng([ONE], kind=kind))
    found = segment_of(packets[0])
    assert found is not None
    assert bytes(found.payload) == b"hello"


@pytest.mark.parametrize("write", [pcap, pcapng])
def test_a_capture_that_breaks_off_gives_what_came_before(write: type) -> None:
    packets, fault = read_packets(write([ONE, ONE])[:-3])
    assert len(packets) == 1
    assert fault == "The capture ends within packet 2: the packets before it were read."


def test_padding_of_a_short_ethernet_frame_is_no_payload() -> None:
    empty = ONE._replace(payload=b"")
    data = bytearray(pcap([empty]))
    data += bytes(6)
    data[32:36] = (54 + 6).to_bytes(4, "little")
    packets, _ = read_packets(bytes(data))
    found = segment_of(packets[0])
    assert found is not None
    assert bytes(found.payload) == b""


def test_other_packets_are_left_out() -> None:
    packets, _ = read_packets(pcap([ONE]))
    udp = bytearray(packets[0].data)
    udp[14 + 9] = 17
    assert segment_of(packets[0]._replace(data=memoryview(udp))) is None
    assert segment_of(packets[0]._replace(data=packets[0].data[:30])) is None
    with pytest.raises(CaptureError, match="link type 147"):
        segment_of(packets[0]._replace(link=147))


def test_what_is_no_capture_is_refused() -> None:
    with pytest.raises(CaptureError, match="neither pcap nor pcapng"):
        read_packets(b"\0\0\0\x10")
    with pytest.raises(CaptureError, match="interface"):
        read_packets(pcapng([ONE]).replace(b"\x01\0\0\0\x14\0\0\0", b"\x09\0\0\0\x14\0\0\0"))


@pytest.mark.parametrize("write", [pcap, pcapng])
def test_mutated_captures_raise_nothing_but_capture_error(write: type) -> None:
    rng = random.Random(5)
    whole = write([ONE, SIX, ONE])
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(4, len(data))] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
        packets: list[Packet] = []
        try:
            packets = read_packets(bytes(data[: rng.randrange(4, len(data) + 1)]))[0]
            connections(found for found in map(segment_of, packets) if found)
        except CaptureError:
            continue
        finally:
            assert sum(len(packet.data) for packet in packets) <= len(data)


@given(data=st.data(), cuts=st.lists(st.integers(1, 40), min_size=1, max_size=12), first=st.sampled_from([5, (1 << 32) - 20]))
def test_a_stream_is_put_together_in_whatever_order_it_came(data: st.DataObject, cuts: list[int], first: int) -> None:
    talk = Talk(first)
    whole = bytes(range(256)) * 2
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(Piece(CLIENT, BROKER, first + 1 + at, whole[at : at + cut]))
        at += cut
    again = data.draw(st.lists(st.sampled_from(pieces), max_size=4))
    overlapping = [piece._replace(sequence=piece.sequence + 1, payload=piece.payload[1:]) for piece in again]
    shuffled = data.draw(st.permutations([*pieces, *again, *overlapping]))
    (connection,) = connections(as_segment(piece) for piece in [*talk.pieces, *shuffled])
    (run,) = connection.directions["10.0.0.1:50000"].runs()
    assert bytes(run.data) == whole[:at]
    assert connection.opener == "10.0.0.1:50000"


def test_missing_bytes_begin_another_run() -> None:
    pieces = [Piece(CLIENT, BROKER, 10, b"abc"), Piece(CLIENT, BROKER, 20, b"xyz")]
    (connection,) = connections(map(as_segment, pieces))
    assert [bytes(run.data) for run in connection.directions["10.0.0.1:50000"].runs()] == [b"abc", b"xyz"]


def test_a_port_that_is_used_again_begins_another_connection() -> None:
    first, second = Talk(100), Talk(5000)
    first.ask(b"one")
    second.ask(b"two")
    found = connections(map(as_segment, [*first.pieces, first.pieces[0], *second.pieces]))
    assert [bytes(c.directions["10.0.0.1:50000"].runs()[0].data) for c in found] == [b"one", b"two"]
