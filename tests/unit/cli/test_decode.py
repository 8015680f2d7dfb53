"""`ottla decode`: what it prints of frames, of broken frames, and of captures."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pytest

from ottla.cli.main import main
from ottla.inspection import frames
from ottla.inspection.bytes_fields import PayloadOpener
from ottla.kafka07 import wire as kafka07
from ottla.kafka07.records.messages import message_set
from ottla.records.batches.builder import build
from ottla.records.compression import codecs
from ottla.records.compression.codecs import GZIP, SNAPPY
from ottla.records.message_sets.legacy import wrapper
from ottla.wire import encode
from ottla.wire.api.api_versions import ApiVersionsResponse
from ottla.wire.api.fetch import FetchResponse
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.apis import API
from ottla.wire.data import encode_key, encode_value
from ottla.wire.data.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.data.control_records import EndTxnMarker
from ottla.wire.data.offset_commits import OffsetCommitKey, OffsetCommitValue
from ottla.wire.framing import FrameHeader, encode_request, encode_response
from ottla.wire.schema import Message
from tests.fuzz.mutations import mutations
from tests.unit.cli.packets import Talk, pcap
from tests.unit.wire.values import sample

BATCH = bytes(build([b"JFK", None], [b"12", b"\xff\x00"], [1_700_000_000_000, 1_700_000_000_001], [[("h", b"v")], None], codec=3))


def framed(key: int, version: int, body: Message) -> bytes:
    return b"".join(encode_request(FrameHeader(key, version, 7, "me"), body))


def produce(records: bytes, version: int = 9) -> ProduceRequest:
    partition = ProduceRequest.PartitionProduceData(records=records)
    return ProduceRequest(topic_data=[ProduceRequest.TopicProduceData(name="flights", partition_data=[partition])])


def fetched(records: bytes) -> bytes:
    topic = FetchResponse.FetchableTopicResponse(topic="t", partitions=[FetchResponse.PartitionData(records=records)])
    return b"".join(encode_response(9, 1, 4, FetchResponse(responses=[topic])))


@pytest.fixture
def decode(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command; (exit code, standard output, standard error)."""

    def run(*words: str) -> SimpleNamespace:
        code = main(["decode", *words])
        out, err = capsys.readouterr()
        return SimpleNamespace(code=code, out=out, err=err, lines=[line.strip() for line in out.splitlines()])

    return run


METADATA = framed(3, 1, MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="flights")]))


def test_a_request_is_printed_as_a_tree(decode: Any) -> None:
    done = decode(METADATA.hex())
    assert done.code == 0
    assert done.out.splitlines() == [
        "Metadata request, version 1, correlation id 7, 25 bytes",
        '      0  header: request_api_key: 3 (Metadata), request_api_version: 1, correlation_id: 7, client_id: "me"',
        "     12  body:",
        "     12    topics: 1",
        '     16      [0] name: "flights"',
    ]


@pytest.mark.parametrize("text", [METADATA[4:].hex(), METADATA.hex(" "), METADATA.hex(":"), "0x" + METADATA.hex().upper()])
def test_hex_comes_in_many_dresses(decode: Any, text: str) -> None:
    assert '"flights"' in decode(*text.split()).out


@pytest.mark.parametrize("data", [METADATA, METADATA.hex().encode() + b"\n", METADATA.hex(" ", 2).encode()])
def test_standard_input_is_hex_or_the_frame_itself(decode: Any, monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert '"flights"' in decode().out


def test_what_is_no_hex_is_said(decode: Any) -> None:
    assert decode("0g").err == (
        "ottla: The input is not hex: 'g' is not a hex digit; give bytes as pairs of hex digits, or a file with --file.\n"
    )
    assert decode("012").code == 2
    assert "The input is empty" in decode("").err


def test_broken_frames_print_what_could_be_read_and_the_sentence(decode: Any) -> None:
    done = decode(METADATA[4:-3].hex())
    assert done.code == 1
    assert '0  header: request_api_key: 3 (Metadata), request_api_version: 1, correlation_id: 7, client_id: "me"' in done.lines
    assert done.err == "ottla: MetadataRequest v1, topics[0].name at byte 18: string of 7 bytes runs past the end: 4 are left\n"


def test_a_frame_that_is_cut_off_says_how_much_is_missing(decode: Any) -> None:
    for cut in range(14, len(METADATA)):
        done = decode(METADATA[:cut].hex())
        assert done.code == 1
        assert done.out.startswith(
            "Metadata request, version 1, correlation id 7, " if cut >= 16 else "request, correlation id 7, "
        )
        assert done.err.startswith(f"ottla: The frame is cut off: {len(METADATA) - cut} bytes of its size are missing.\n")


def test_a_file_may_hold_hex_too(decode: Any, tmp_path: Path) -> None:
    path = tmp_path / "frame.txt"
    path.write_text(METADATA.hex(" ") + "\n")
    assert '"flights"' in decode("--file", str(path)).out
    path.write_text("Dear diary")
    assert "The input is not hex: 'r' is not a hex digit" in decode("--file", str(path)).err


@pytest.mark.parametrize("data", [BATCH, BATCH * 2, BATCH + BATCH[:30], wrapper(0, 1, 0, 5, b"v")])
def test_a_file_of_a_log_is_left_to_another_command(decode: Any, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    done = decode("--file", str(path))
    assert (done.code, done.out) == (2, "")
    assert done.err == f"ottla: {path} holds batches as a log does, not frames: `ottla log dump {path}` prints them.\n"


def test_an_unknown_api_or_version_is_said(decode: Any) -> None:
    assert "there is no API 999" in decode("03e7 0000 00000001 ffff").err
    assert decode("0003 0063 00000001 ffff").err == (
        "ottla: RequestHeader v1, api_version at byte 2: Metadata has no version 99, only 0 to 13.\n"
    )
    assert "RequestHeader v1 at byte 0: runs past the end" in decode("0003").err


def test_records_are_opened(decode: Any) -> None:
    done = decode(framed(0, 9, produce(BATCH)).hex())
    assert done.code == 0
    text = done.out
    assert "attributes: 3 (lz4, CreateTime)" in text
    assert "(right)" in text
    assert 'offset: 0, timestamp: 1700000000000 (2023-11-14T22:13:20.000Z), key: "JFK" (3 bytes), value: "12" (2 bytes)' in text
    assert "key: null, value: 0xff00 (2 bytes)" in text
    assert 'headers: h = "v" (1 byte)' in text


def test_records_say_where_they_stand(decode: Any) -> None:
    frame = framed(0, 9, produce(BATCH))
    done = decode(frame.hex())
    assert f"{frame.index(BATCH) - 4}              batch at offset 0:" in done.lines


def test_a_damaged_batch_is_shown_and_said(decode: Any) -> None:
    damaged = bytearray(BATCH)
    damaged[-1] ^= 0xFF
    done = decode(framed(0, 9, produce(bytes(damaged))).hex())
    assert done.code == 1
    assert "wrong: the batch was damaged" in done.out
    assert "ProduceRequest v9, topic_data[0].partition_data[0].records[0] at byte" in done.err


def test_a_batch_cut_off_at_the_end_of_a_fetch_is_no_fault(decode: Any) -> None:
    done = decode("--response", "fetch", "--version", "4", fetched(BATCH + BATCH[:30]).hex())
    assert done.code == 0
    assert "30 bytes of a batch that is cut off" in done.out


def test_old_message_sets_are_opened(decode: Any) -> None:
    done = decode(framed(0, 0, produce(wrapper(3, 0, 0, -1, b"old"))).hex())
    assert "message set: format 0" in done.out
    assert 'key: null, value: "old" (3 bytes)' in done.out


def test_many_records_are_shown_when_all_are_asked_for(decode: Any) -> None:
    frame = framed(0, 9, produce(bytes(build([None] * 30, [b"x" * 500] * 30, [0] * 30)))).hex()
    done = decode(frame)
    assert "10 more: --all shows them" in done.out
    assert "x" * 200 not in done.out
    done = decode("--all", frame)
    assert "more:" not in done.out
    assert done.out.count("x" * 500) == 30


def test_control_records_say_what_they_end(decode: Any) -> None:
    marker = encode_value(EndTxnMarker(coordinator_epoch=4), 0)
    batch = build([b"\0\0\0\1"], [marker], [0], producer_id=5, producer_epoch=0, base_sequence=-1, transactional=True, control=True)
    done = decode("--response", "Fetch", "--version", "4", fetched(bytes(batch)).hex())
    assert "control: 1 (commit), coordinator_epoch: 4" in done.out


def test_offsets_are_read_when_asked(decode: Any) -> None:
    key = encode_key(OffsetCommitKey(group="board", topic="flights", partition=2))
    value = encode_value(OffsetCommitValue(offset=44, metadata="m"), 3)
    frame = fetched(bytes(build([key, key], [value, None], [0, 0]))).hex()
    words = ("--response", "Fetch", "--version", "4", frame)
    assert "OffsetCommitKey" not in decode(*words).out
    done = decode("--stored", "__consumer_offsets", *words)
    assert done.code == 0
    assert "key: OffsetCommitKey v0" in done.out
    assert 'group: "board"' in done.out
    assert "offset: 44" in done.out
    assert "value: a tombstone" in done.out


def test_what_members_tell_one_another_is_opened(decode: Any) -> None:
    inner = encode_value(ConsumerProtocolSubscription(topics=["flights"]), 1)
    body = JoinGroupRequest(protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=inner)])
    frame = framed(11, 0, body)
    done = decode(frame.hex())
    assert "metadata: ConsumerProtocolSubscription v1" in done.out
    assert f'{frame.index(inner) - 4 + 2}          topics: ["flights"]' in done.lines
    other = JoinGroupRequest(
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="connect", metadata=b"\0\0\x7f\xff\xff\xff")]
    )
    done = decode(framed(11, 0, other).hex())
    assert done.code == 0
    assert "metadata: 0x00007fffffff (6 bytes)" in done.out


def test_a_response_and_bodies_need_api_and_version(decode: Any) -> None:
    response = ApiVersionsResponse(error_code=35)
    data = b"".join(encode_response(7, 18, 0, response)).hex()
    assert "error_code: 35 (UNSUPPORTED_VERSION)" in decode("--response", "ApiVersions", "--version", "4", data).out
    assert "error_code: 35" in decode("--response", "18", "--version", "0", "--body", encode(response, 0).hex()).out
    body = encode(MetadataRequest(topics=None), 4).hex()
    assert "topics: null" in decode("--request", "metadata", "--version", "4", body).out
    assert decode("--request", "metadata", body).err == "ottla: The version of Metadata is missing: add --version N.\n"
    assert decode("--request", "metadata", "--version", "44", body).code == 2
    assert "did you mean Metadata" in decode("--request", "metdata", "--version", "4", body).err


def test_json_has_the_same_values(decode: Any) -> None:
    done = decode("--json", framed(0, 9, produce(BATCH)).hex())
    found = json.loads(done.out)
    assert (found["api"], found["version"], found["correlation_id"], found["faults"]) == ("Produce", 9, 7, [])
    assert found["header"]["client_id"] == "me"
    (batch,) = found["body"]["topic_data"][0]["partition_data"][0]["records"]
    assert batch["record_count"] == 2
    first, second = batch["records"]
    assert (first["key"], first["headers"]) == ({"bytes": 3, "text": "JFK"}, [{"key": "h", "value": {"bytes": 1, "text": "v"}}])
    assert (second["key"], second["value"]) == (None, {"bytes": 2, "hex": "ff00"})


def test_a_file_of_several_frames(decode: Any, tmp_path: Path) -> None:
    path = tmp_path / "frames"
    path.write_bytes(METADATA * 2)
    done = decode("--file", str(path))
    assert done.out.count("Metadata request") == 2
    path.write_bytes(METADATA + METADATA[:-2])
    done = decode("--file", str(path))
    assert done.code == 1
    assert done.out.count("Metadata request") == 2
    assert decode("--file", str(tmp_path / "none")).err.startswith("ottla: Cannot read ")


def test_a_capture_is_printed_frame_by_frame(decode: Any, tmp_path: Path) -> None:
    talk = Talk()
    talk.ask(METADATA)
    path = tmp_path / "kafka.pcap"
    path.write_bytes(pcap(talk.pieces))
    done = decode("--file", str(path))
    assert done.code == 0
    assert done.lines[0] == "2023-11-14T22:13:20.002Z  10.0.0.1:50000 to 10.0.0.2:9092"
    assert json.loads(decode("--json", "--file", str(path)).out)["client"] == "10.0.0.1:50000"
    path.write_bytes(pcap(talk.pieces)[:-1])
    done = decode("--file", str(path))
    assert done.code == 1
    assert "ends within packet 3" in done.err


def test_frames_of_kafka_07_are_printed_when_asked(decode: Any) -> None:
    produced = kafka07.encode_request(kafka07.ProduceRequest07("dogs", 2, message_set([b"Rex", b"\xff"]) + b"\0\0\0\x0bcut"))
    done = decode("--release", "0.7", (len(produced).to_bytes(4, "big") + produced).hex())
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "Produce request of Kafka 0.7, 47 bytes",
        "      0  body:",
        "      0    type: 0 (Produce)",
        '      2    topic: "dogs"',
        "      8    partition: 2",
        "     12    messages: 31 bytes",
        '             [0] next_offset: 13, magic: 1, payload: "Rex" (3 bytes)',
        "             [1] next_offset: 24, magic: 1, payload: 0xff (1 byte)",
        "             …: 7 bytes of a message that is cut off",
    ]
    answer = kafka07.MultiFetchResponse07(0, [kafka07.FetchResponse07(1, b""), kafka07.FetchResponse07(0, message_set([b"Rex"]))])
    done = decode("--release", "0.7", "--response", "multi_fetch", kafka07.encode_response(answer).hex())
    assert "error_code: 1 (The offset is before the first or after the last byte of the log)" in done.out
    assert '[0] next_offset: 13, magic: 1, payload: "Rex" (3 bytes)' in done.out
    assert json.loads(decode("--json", "--release", "0.7", produced.hex()).out)["release"] == "0.7"


def test_compressed_messages_of_kafka_07_are_shown_with_what_is_in_them(decode: Any) -> None:
    inner = message_set([b"Rex"]) + message_set([b"Bello"], codec=SNAPPY)
    packed = message_set([b"old"], magic=0) + message_set([b"a", b"b"], codec=GZIP)
    answer = kafka07.encode_response(kafka07.FetchResponse07(0, packed))
    done = decode("--release", "0.7", "--response", "Fetch", answer.hex())
    assert done.code == 0
    shown = done.out.splitlines()
    assert shown[4] == '             [0] next_offset: 12, magic: 0, payload: "old" (3 bytes)'
    assert [line.strip() for line in shown[5:9]] == ["[1]", f"next_offset: {len(packed)}", "magic: 1", "codec: 1 (gzip)"]
    assert shown[-2:] == [f'                 [{n}] magic: 1, payload: "{name}" (1 byte)' for n, name in enumerate("ab")]
    nested = kafka07.encode_request(kafka07.ProduceRequest07("dogs", 2, compressed(inner)))
    (tree,) = json.loads(decode("--json", "--release", "0.7", nested.hex()).out)["body"]["messages"]
    assert [list(found) for found in tree["messages"]] == [["magic", "payload"], ["magic", "codec", "messages"]]
    many = kafka07.encode_response(kafka07.FetchResponse07(0, message_set([b"x"] * 1000, codec=GZIP)))
    assert "and more: --all shows them" in decode("--release", "0.7", "--response", "Fetch", many.hex()).out
    assert "[999]" in decode("--release", "0.7", "--all", "--response", "Fetch", many.hex()).out


def compressed(message_set: bytes) -> bytes:
    """A set as one message of Kafka 0.7."""
    payload = codecs.compress(GZIP, message_set)
    body = bytes((1, GZIP)) + crc32(payload).to_bytes(4, "big") + payload
    return len(body).to_bytes(4, "big") + body


def test_broken_frames_of_kafka_07_say_where(decode: Any) -> None:
    done = decode("--release", "0.7", "0001 0004 646f6773 0000")
    assert done.code == 1
    assert '0  body: type: 1 (Fetch), topic: "dogs"' in done.lines
    assert done.err == "ottla: FetchRequest of Kafka 0.7, partition at byte 8: 4 bytes cannot be in the 2 that are left\n"
    assert "there is no request of type 9" in decode("--release", "0.7", "0009").err
    assert "no response to 'Produce'" in decode("--release", "0.7", "--response", "Produce", "0000").err
    assert "leave out --request" in decode("--release", "0.7", "--version", "1", "0000").err
    damaged = kafka07.encode_request(kafka07.ProduceRequest07("dogs", 2, message_set([b"Rex"])[:-1] + b"X"))
    assert "messages: at byte 0: the CRC-32 of the payload is wrong." in decode("--release", "0.7", damaged.hex()).err


@pytest.mark.slow
@pytest.mark.parametrize("key", API)
def test_mutated_frames_are_always_shown(key: int) -> None:
    rng = random.Random(key)
    api = API[key]
    version = rng.choice(list(api.versions))
    seeds = [b"".join(encode_request(FrameHeader(key, version, 1, "c"), sample(api.request, version, rng)))[4:]]
    answers = [b"".join(encode_response(1, key, version, sample(api.response, version, rng)))[4:]]
    for data in list(mutations(seeds, rng))[:40]:
        shown = frames.request(data, PayloadOpener())
        assert json.dumps(shown.as_json())
    for data in list(mutations(answers, rng))[:40]:
        shown = frames.response(api, version, data, PayloadOpener())
        assert json.dumps(shown.as_json())


def test_mutated_records_are_always_shown() -> None:
    rng = random.Random(11)
    for data in mutations([BATCH, wrapper(3, 1, 0, -1, b"old")], rng):
        frame = framed(0, 9, produce(data))[4:]
        assert frames.request(frame, PayloadOpener(stored="__consumer_offsets")).body is not None
