"""The messages of Kafka 0.7: against frames written by hand as "Writing a Driver for Kafka" draws them, and hostile bytes."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.kafka07 import wire as kafka07
from ottla.kafka07.wire import (
    FetchRequest07,
    FetchResponse07,
    MultiFetchRequest07,
    MultiFetchResponse07,
    MultiProduceRequest07,
    OffsetsRequest07,
    OffsetsResponse07,
    ProduceRequest07,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from ottla.wire.faults import Malformed, Unencodable
from tests.fuzz.mutations import mutations
from tests.support.exchanges07 import EXCHANGES, UNANSWERED, Exchange

TOPIC = b"\x00\x04dogs"
PARTITION = b"\x00\x00\x00\x02"
FETCH = TOPIC + PARTITION + b"\x00\x00\x00\x00\x00\x00\x04\x00" + b"\x00\x10\x00\x00"
"""Offset 1024, at most 1 MB, as all integers here: the highest byte first."""
PRODUCE = TOPIC + PARTITION + b"\x00\x00\x00\x03abc"

REQUESTS: list[tuple[bytes, kafka07.Request]] = [
    (b"\x00\x00" + PRODUCE, ProduceRequest07("dogs", 2, b"abc")),
    (b"\x00\x01" + FETCH, FetchRequest07("dogs", 2, 1024, 1 << 20)),
    (b"\x00\x02\x00\x02" + FETCH + FETCH, MultiFetchRequest07([FetchRequest07("dogs", 2, 1024, 1 << 20)] * 2)),
    (b"\x00\x03\x00\x02" + PRODUCE + PRODUCE, MultiProduceRequest07([ProduceRequest07("dogs", 2, b"abc")] * 2)),
    (b"\x00\x04" + TOPIC + PARTITION + b"\xff" * 8 + b"\x00\x00\x00\x05", OffsetsRequest07("dogs", 2, -1, 5)),
    (b"\x00\x02\x00\x00", MultiFetchRequest07([])),
]
RESPONSES: list[tuple[bytes, kafka07.Response]] = [
    (b"\x00\x00abc", FetchResponse07(0, b"abc")),
    (b"\xff\xff", FetchResponse07(-1, b"")),
    (
        b"\x00\x00" + b"\x00\x00\x00\x05\x00\x00abc" + b"\x00\x00\x00\x02\x00\x01",
        MultiFetchResponse07(0, [FetchResponse07(0, b"abc"), FetchResponse07(1, b"")]),
    ),
    (b"\x00\x00", MultiFetchResponse07(0, [])),
    (b"\x00\x00\x00\x00\x00\x02" + (29).to_bytes(8, "big") + bytes(8), OffsetsResponse07(0, [29, 0])),
]


@pytest.mark.parametrize(("frame", "request_"), REQUESTS, ids=lambda value: type(value).__name__)
def test_requests_are_read_and_written(frame: bytes, request_: kafka07.Request) -> None:
    assert decode_request(frame) == request_
    assert decode_request(memoryview(bytearray(frame))) == request_
    assert encode_request(request_) == frame


@pytest.mark.parametrize(("frame", "response"), RESPONSES, ids=lambda value: type(value).__name__)
def test_responses_are_read_and_written(frame: bytes, response: kafka07.Response) -> None:
    assert decode_response(type(response), frame) == response
    assert encode_response(response) == frame


def test_messages_are_views_of_the_frame() -> None:
    frame = bytearray(REQUESTS[0][0])
    produced = decode_request(frame)
    assert isinstance(produced, ProduceRequest07)
    assert isinstance(produced.messages, memoryview)
    assert produced.messages.obj is frame


def test_each_request_has_its_type_and_what_answers_it() -> None:
    assert [kafka07.title(cls) for cls in kafka07.REQUESTS] == [
        "ProduceRequest",
        "FetchRequest",
        "MultiFetchRequest",
        "MultiProduceRequest",
        "OffsetsRequest",
    ]
    unanswered = [cls for cls in kafka07.REQUESTS if cls not in kafka07.RESPONSES]
    assert unanswered == [ProduceRequest07, MultiProduceRequest07]
    assert kafka07.layout(OffsetsRequest07) == (("topic", "str"), ("partition", "i32"), ("time", "i64"), ("max_offsets", "i32"))


@pytest.mark.parametrize(
    ("frame", "path", "position", "reason"),
    [
        (b"", "type", 0, "2 bytes cannot be in the 0 that are left"),
        (b"\x00\x05", "type", 0, "there is no request of type 5: 0 to 4 are known"),
        (b"\xff\xff", "type", 0, "there is no request of type -1"),
        (b"\x00\x01\x00\x09dogs", "topic", 4, "9 bytes cannot be in the 4 that are left"),
        (b"\x00\x01\xff\xff", "topic", 4, "-1 bytes cannot be"),
        (b"\x00\x01\x00\x02a\xff" + bytes(16), "topic", 5, "is not UTF-8"),
        (b"\x00\x00" + TOPIC + PARTITION + b"\xff\xff\xff\xff", "messages", 16, "-1 bytes cannot be"),
        (b"\x00\x00" + TOPIC + PARTITION + b"\x7f\xff\xff\xff", "messages", 16, "2147483647 bytes cannot be in the 0"),
        (b"\x00\x02\x7f\xff" + FETCH, "fetches", 2, "32767 items of 18 bytes or more cannot be in the 22"),
        (b"\x00\x02\xff\xff" + FETCH, "fetches", 2, "-1 items"),
        (b"\x00\x02\x00\x01" + FETCH[:-1], "fetches[0].max_bytes", 22, "4 bytes cannot be in the 3"),
    ],
)
def test_a_fault_names_message_field_and_position(frame: bytes, path: str, position: int, reason: str) -> None:
    with pytest.raises(Malformed) as caught:
        decode_request(frame)
    assert (caught.value.path, caught.value.position) == (path, position)
    assert reason in caught.value.reason
    assert "of Kafka 0.7" in str(caught.value)


@pytest.mark.parametrize(
    ("of", "frame", "reason"),
    [
        (OffsetsResponse07, b"\x00\x00\x7f\xff\xff\xff", "2147483647 items of 8 bytes"),
        (OffsetsResponse07, b"\x00\x00\x00\x00\x00\x00\x01", "1 bytes are left over"),
        (MultiFetchResponse07, b"\x00\x00\x00\x00\x00\x01\x00\x00", "a response of 1 bytes cannot be"),
        (MultiFetchResponse07, b"\x00\x00\x00\x00\x00\x09\x00\x00", "a response of 9 bytes cannot be in the 2"),
        (MultiFetchResponse07, b"\x00\x00\x00\x00", "4 bytes cannot be in the 2"),
        (FetchResponse07, b"\x00", "2 bytes cannot be in the 1"),
    ],
)
def test_broken_responses_are_refused(of: type[Any], frame: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        decode_response(of, frame)


def test_more_than_the_last_field_of_a_request_is_passed_over() -> None:
    assert decode_request(REQUESTS[1][0] + b"more") == REQUESTS[1][1]


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (FetchRequest07("t" * 40_000, 0, 0, 0), "topic"),
        (FetchRequest07("t", 1 << 31, 0, 0), "partition"),
        (MultiFetchRequest07([FetchRequest07("t", 0, 1 << 63, 0)]), "offset"),
        (ProduceRequest07("t", 0, None), "messages"),  # type: ignore[arg-type]  # that is the question
    ],
)
def test_what_does_not_fit_is_refused_by_name(request_: kafka07.Request, field: str) -> None:
    with pytest.raises(Unencodable, match=field):
        encode_request(request_)


TOPICS = st.text(max_size=20)
I32, I64 = st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1)
FETCHES = st.builds(FetchRequest07, TOPICS, I32, I64, I32)
PRODUCES = st.builds(ProduceRequest07, TOPICS, I32, st.binary(max_size=50))
ANY = (
    FETCHES
    | PRODUCES
    | st.builds(MultiFetchRequest07, st.lists(FETCHES, max_size=4))
    | st.builds(MultiProduceRequest07, st.lists(PRODUCES, max_size=4))
    | st.builds(OffsetsRequest07, TOPICS, I32, I64, I32)
)


@given(request_=ANY)
def test_whatever_is_written_is_read_again(request_: kafka07.Request) -> None:
    assert decode_request(encode_request(request_)) == request_


def fault_of(read: Callable[[bytes], object], frame: bytes) -> Malformed | None:
    try:
        read(frame)
    except Malformed as fault:
        return fault
    return None


def test_mutated_frames_raise_malformed_and_nothing_else() -> None:
    rng = random.Random(7)
    frames: list[tuple[bytes, Callable[[bytes], object]]] = [(frame, decode_request) for frame, _ in REQUESTS]
    frames += [(frame, partial(again, type(response))) for frame, response in RESPONSES]
    for seed, read in frames:
        faults = [(frame, fault_of(read, frame)) for frame in mutations([seed], rng, 1000)]
        assert all(fault is None or 0 <= fault.position <= len(frame) for frame, fault in faults)
        assert any(fault is None for _, fault in faults)


def again(of: type[Any], frame: bytes) -> None:
    assert encode_response(decode_response(of, frame)) == frame


def test_a_request_of_100_mb_is_not_copied() -> None:
    frame = b"\x00\x00" + TOPIC + PARTITION + struct.pack(">i", 100_000_000) + bytes(100_000_000)
    tracemalloc.start()
    decode_request(frame)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: exchange.what)
def test_each_request_and_answer_of_a_conversation_is_read_and_written_byte_for_byte(exchange: Exchange) -> None:
    request, answer = bytes.fromhex(exchange.request), bytes.fromhex(exchange.answer)
    assert request[:4] == struct.pack(">i", len(request) - 4)
    assert encode_request(exchange.asked) == request[4:]
    answered = kafka07.RESPONSES.get(type(exchange.asked))
    assert (answered is None) == (exchange.answer == UNANSWERED)
    if answered is not None:
        assert answer[:4] == struct.pack(">i", len(answer) - 4)
        assert encode_response(decode_response(answered, answer[4:])) == answer[4:]
