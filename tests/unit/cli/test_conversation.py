"""Kafka out of captured connections: frames, answers with what they answer, and captures that lack something."""

from __future__ import annotations

from ottla.cli.decode.conversation import Conversation
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from ottla.wire.framing import FrameHeader, encode_request, encode_response
from ottla.wire.schema import Message
from tests.unit.cli.packets import BROKER, Piece, Talk, as_packets


def asked(key: int, version: int, correlation_id: int, body: Message) -> bytes:
    return b"".join(encode_request(FrameHeader(key, version, correlation_id, "me"), body))


def answered(key: int, version: int, correlation_id: int, body: Message) -> bytes:
    return b"".join(encode_response(correlation_id, key, version, body))


ASK_VERSIONS = asked(18, 3, 1, ApiVersionsRequest(client_software_name="x", client_software_version="1"))
ASK_TOPICS = asked(3, 9, 2, MetadataRequest(topics=None))
BEAT = asked(12, 0, 3, HeartbeatRequest(group_id="g", member_id="m"))
VERSIONS = answered(18, 3, 1, ApiVersionsResponse())
TOPICS = answered(3, 9, 2, MetadataResponse(cluster_id="c"))
BEATEN = answered(12, 0, 3, HeartbeatResponse())


def said(talk: Conversation) -> list[tuple[bool, str, int]]:
    return [(one.is_request, one.api.name, one.version) for one in talk.exchanges]


def test_answers_are_those_of_their_requests_whatever_the_cuts() -> None:
    talk = Talk()
    asking = ASK_VERSIONS + ASK_TOPICS + BEAT
    talk.ask(asking[:3], asking[3:50], asking[50:])
    talk.answer(VERSIONS + TOPICS[:7], TOPICS[7:] + BEATEN)
    found = Conversation(as_packets(talk.pieces))
    assert sorted(said(found)) == sorted(
        (is_request, name, version)
        for is_request in (True, False)
        for name, version in (("ApiVersions", 3), ("Metadata", 9), ("Heartbeat", 0))
    )
    assert not found.remarks
    beat = next(one for one in found.exchanges if one.api.name == "Heartbeat" and not one.is_request)
    assert beat.data == BEATEN[4:]
    assert beat.waited_ns == 2_000_000


def test_frames_come_in_the_order_of_time() -> None:
    talk = Talk()
    talk.ask(ASK_VERSIONS)
    talk.answer(VERSIONS)
    talk.ask(ASK_TOPICS)
    talk.answer(TOPICS)
    assert [is_request for is_request, _, _ in said(Conversation(as_packets(talk.pieces)))] == [True, False, True, False]


def test_a_capture_may_begin_within_a_frame() -> None:
    talk = Talk(opened=False)
    talk.ask(ASK_TOPICS[20:], BEAT)
    talk.answer(TOPICS[5:], BEATEN)
    found = Conversation(as_packets(talk.pieces))
    assert said(found) == [(True, "Heartbeat", 0), (False, "Heartbeat", 0)]
    assert len(found.remarks) == 2


def test_a_lost_packet_costs_only_its_frame() -> None:
    talk = Talk()
    talk.ask(ASK_VERSIONS, ASK_TOPICS[:20], ASK_TOPICS[20:], BEAT)
    talk.answer(VERSIONS, TOPICS, BEATEN)
    del talk.pieces[4]
    found = Conversation(as_packets(talk.pieces))
    assert [one for one in said(found) if one[0]] == [(True, "ApiVersions", 3), (True, "Heartbeat", 0)]
    assert [one for one in said(found) if not one[0]] == [(False, "ApiVersions", 3), (False, "Heartbeat", 0)]
    assert "belong to no whole frame" in found.remarks[0]


def test_the_same_correlation_id_on_two_connections_is_kept_apart() -> None:
    first, second = Talk(), Talk(client=("10.0.0.9", 50_000))
    first.ask(asked(3, 9, 1, MetadataRequest(topics=None)))
    second.ask(asked(12, 0, 1, HeartbeatRequest()))
    first.answer(answered(3, 9, 1, MetadataResponse()))
    second.answer(answered(12, 0, 1, HeartbeatResponse()))
    found = Conversation(as_packets(first.pieces + second.pieces))
    assert {(one.client, one.api.name) for one in found.exchanges if not one.is_request} == {
        ("10.0.0.1:50000", "Metadata"),
        ("10.0.0.9:50000", "Heartbeat"),
    }


def test_other_connections_are_left_out_and_encrypted_ones_named() -> None:
    talk = Talk()
    talk.ask(b"GET / HTTP/1.1\r\n\r\n")
    assert Conversation(as_packets(talk.pieces)).strangers == 1
    secret = Talk()
    secret.ask(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    found = Conversation(as_packets(secret.pieces))
    assert found.remarks == ["10.0.0.1:50000 to 10.0.0.2:9092 is encrypted: capture a PLAINTEXT listener to see what it carries."]


def test_only_the_brokers_port_is_looked_at_when_asked() -> None:
    talk = Talk()
    talk.ask(BEAT)
    assert said(Conversation(as_packets(talk.pieces), BROKER[1])) == [(True, "Heartbeat", 0)]
    assert not Conversation(as_packets(talk.pieces), 9093).exchanges


def test_tokens_of_an_old_sasl_exchange_do_not_stop_the_reading() -> None:
    talk = Talk()
    talk.ask(ASK_VERSIONS, b"\0\0\0\x0a\0user\0pass", BEAT)
    found = Conversation(as_packets(talk.pieces))
    assert [name for _, name, _ in said(found)] == ["ApiVersions", "Heartbeat"]


def test_an_empty_capture_says_nothing() -> None:
    assert not Conversation([]).exchanges
    assert not Conversation(as_packets([Piece(("10.0.0.1", 1), BROKER, 1, b"")])).exchanges
