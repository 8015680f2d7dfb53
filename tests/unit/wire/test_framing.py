"""Headers and sizes around messages, with the exceptions that clients depend on."""

from __future__ import annotations

import random

import pytest

from ottla.wire import Malformed, encode
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.api.controlled_shutdown import ControlledShutdownRequest
from ottla.wire.api.fetch import FetchResponse
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from ottla.wire.apis import API, FALLBACK_VERSIONS, VERSIONS
from ottla.wire.framing import (
    FrameHeader,
    Unsupported,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from ottla.wire.headers import RequestHeader as DeclaredRequestHeader
from ottla.wire.headers import ResponseHeader as DeclaredResponseHeader
from tests.unit.wire.values import sample

pytestmark = pytest.mark.usefixtures("codecs")


class Slice:
    """Like a piece of a file: it has a length, and no bytes."""

    def __len__(self) -> int:
        return 1000


def frame_of(parts: list[bytes]) -> bytes:
    """The frame after its size, which must be right."""
    whole = b"".join(parts)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    return whole[4:]


@pytest.mark.parametrize("key", API)
@pytest.mark.parametrize("client_id", [None, "", "flüge"])
def test_requests_and_responses_of_every_version_survive_framing(key: int, client_id: str | None) -> None:
    api, rng = API[key], random.Random(key)
    for version in api.versions:
        request, response = sample(api.request, version, rng), sample(api.response, version, rng)
        frame = frame_of(encode_request(FrameHeader(key, version, 77, client_id), request))
        header, body = decode_request(memoryview(frame))
        has_client_id = api.request_headers[version] > 0
        assert header == FrameHeader(key, version, 77, client_id if has_client_id else None)
        assert encode(body, version) == encode(request, version)
        correlation_id, answer = decode_response(key, version, frame_of(encode_response(78, key, version, response)))
        assert (correlation_id, encode(answer, version)) == (78, encode(response, version))


@pytest.mark.parametrize("key", API)
def test_headers_are_those_declared(key: int) -> None:
    """The framing writes headers by hand; the declarations say what they are."""
    for version in API[key].versions:
        frame = frame_of(encode_request(FrameHeader(key, version, 5, "me"), API[key].request()))
        declared = DeclaredRequestHeader(request_api_key=key, request_api_version=version, correlation_id=5, client_id="me")
        kind = API[key].request_headers[version]
        if kind == 0:
            declared.client_id = ""
        assert frame == encode(declared, kind) + encode(API[key].request(), version)
        frame = frame_of(encode_response(5, key, version, API[key].response()))
        expected = encode(DeclaredResponseHeader(correlation_id=5), API[key].response_headers[version])
        assert frame == expected + encode(API[key].response(), version)


def test_the_response_header_of_api_versions_never_has_tags() -> None:
    assert API[18].response_headers == (0,) * 6
    assert encode_response(1, 18, 3, ApiVersionsResponse())[0][4:10] == b"\0\0\0\x01\0\0"


def test_the_first_controlled_shutdown_has_no_client_id() -> None:
    parts = encode_request(FrameHeader(7, 0, 9), ControlledShutdownRequest(broker_id=3))
    assert frame_of(parts) == b"\0\x07\0\0\0\0\0\x09" + b"\0\0\0\x03"


def test_a_too_new_api_versions_request_is_known_by_its_header_and_has_a_version_to_answer_in() -> None:
    frame = bytearray(frame_of(encode_request(FrameHeader(18, 5, 42, "rdkafka"), ApiVersionsRequest())))
    frame[3] = 99
    with pytest.raises(Unsupported) as caught:
        decode_request(frame)
    assert caught.value.header == FrameHeader(18, 99, 42, "rdkafka")
    assert FALLBACK_VERSIONS[18] == 0


def test_an_unknown_api_is_unsupported() -> None:
    with pytest.raises(Unsupported) as caught:
        decode_request(b"\x04\0\0\0\0\0\0\x07\xff\xff")
    assert (caught.value.header.api_key, caught.value.header.client_id, caught.value.path) == (1024, None, "api_key")


def test_tags_in_headers_are_skipped() -> None:
    tags = b"\x02\x00\x03abc\x81\x01\x00"
    frame = b"\0\x03\0\x0c\0\0\0\x07\0\x01x" + tags + encode(MetadataRequest(), 12)
    header, body = decode_request(frame)
    assert (header.client_id, body) == ("x", MetadataRequest())
    assert decode_response(3, 12, b"\0\0\0\x07" + tags + encode(MetadataResponse(), 12)) == (7, MetadataResponse())


@pytest.mark.parametrize(
    "frame", [b"", b"\0\x03", b"\0\x03\0\x0c\0\0\0\x07\0\x05abc", b"\0\x03\0\x0c\0\0\0\x07\0\x01\xff\0", bytes(9)]
)
def test_a_header_that_cannot_be_read_is_malformed(frame: bytes) -> None:
    with pytest.raises(Malformed, match="RequestHeader"):
        decode_request_header(frame)


@pytest.mark.parametrize("frame", [b"", b"\0\0\0", b"\0\0\0\x01", b"\0\0\0\x01\x80", b"\0\0\0\x01\x01\x00"])
def test_a_response_header_that_cannot_be_read_is_malformed(frame: bytes) -> None:
    with pytest.raises(Malformed):
        decode_response(3, 12, frame)


def test_mutated_frames_raise_malformed_and_nothing_else() -> None:
    rng = random.Random(7)
    for _ in range(4000):
        api = API[rng.choice(list(API))]
        version = rng.choice(list(api.versions))
        frame = bytearray(frame_of(encode_request(FrameHeader(api.key, version, 1, "c"), api.request())))
        for _ in range(rng.randint(1, 3)):
            frame[rng.randrange(len(frame))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        del frame[rng.randint(0, len(frame)) :]
        for read in (decode_request, decode_request_header, lambda data: decode_response(api.key, version, data)):  # noqa: B023 - called at once
            fault = None
            try:
                read(frame)
            except Malformed as malformed:
                fault = malformed
            assert fault is None or 0 <= fault.position <= len(frame)


def test_records_stay_pieces_of_their_own_uncopied() -> None:
    batch, piece = b"r" * 300, Slice()
    of = FetchResponse
    partitions = [
        of.PartitionData(records=batch),
        of.PartitionData(records=piece),
        of.PartitionData(records=b""),
        of.PartitionData(),
    ]
    parts = encode_response(3, 1, 12, of(responses=[of.FetchableTopicResponse(topic="t", partitions=partitions)]))
    assert [part for part in parts if part is batch or part is piece] == [batch, piece]
    assert len(parts) == 5
    assert int.from_bytes(parts[0][:4], "big") == sum(map(len, parts)) - 4


def test_apis_and_their_versions_are_found_by_key() -> None:
    assert repr(API[1]) == "Api(1, 'Fetch')"
    assert (VERSIONS[1], 95 in VERSIONS, list(VERSIONS)) == (range(19), False, list(range(95)))
    with pytest.raises(KeyError):
        VERSIONS[95]


def test_bytes_after_the_last_field_of_a_request_are_passed_over_as_a_real_broker_does() -> None:
    sent = MetadataRequest(topics=None)
    frame = b"".join(encode_request(FrameHeader(3, 9, 1, "me"), sent))[4:]
    header, body = decode_request(frame + b"more")
    assert header == FrameHeader(3, 9, 1, "me")
    assert body == sent


def test_a_request_that_ends_too_early_is_malformed_whatever_may_follow_it() -> None:
    frame = b"".join(encode_request(FrameHeader(3, 9, 1, "me"), MetadataRequest(topics=None)))[4:]
    with pytest.raises(Malformed):
        decode_request(frame[:-1])
