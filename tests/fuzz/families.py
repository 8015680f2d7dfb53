"""What is fuzzed: for each family of codecs, seeds to mutate and the invariants that every input is held against.

wire      requests, responses, stored messages, frames, those of 0.7: only `Malformed` leaves `decode`; what was read can be written
batches   record batches, plain and compressed: verdicts are error codes; `BadBatch` and `CodecFailed` alone leave the opening
legacy    message sets of magic 0 and 1, wrappers too, and those of 0.7: the same
codecs    what claims to be compressed: only `CodecFailed`, and never more than the limit
listener07 frames at a listener of Kafka 0.6 or 0.7: the broker answers, says nothing or hangs up (`tests.fuzz.listener07`)
logins    frames and tokens of clients, texts of settings, keys, certificates: nobody gets in without a secret (`tests.fuzz.logins`)

Reading alone is quick; to walk the grammar beside it, to write again and to convert what was read takes several times as long, and
`suppress` would take a tenth of the time. So each round has two checks, and `make fuzz` makes the long one of every eighth input.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple
from zlib import crc32

from ottla.kafka07 import wire as kafka07
from ottla.kafka07.records import messages as sets07
from ottla.records.batches.builder import build
from ottla.records.batches.columns import Columns, Record, open_batches
from ottla.records.batches.header import HEADER_BYTES, BadBatch, check, stamp, write_crc
from ottla.records.batches.verification import Demands, check_slowly
from ottla.records.compression import codecs
from ottla.records.compression.codecs import CodecFailed
from ottla.records.message_sets.conversion import down_convert, up_convert
from ottla.records.message_sets.legacy import open_message_set, wrapper, write_message_set
from ottla.records.message_sets.up_conversion import Terms
from ottla.records.pauses import finish
from ottla.wire import Malformed, decode, encode
from ottla.wire.apis import API
from ottla.wire.codec import messages
from ottla.wire.errors import ERRORS, INVALID_TIMESTAMP, NONE
from ottla.wire.framing import decode_request, decode_response
from ottla.wire.inspection.walk import leaves
from ottla.wire.schema import Message
from tests.fuzz.listener07 import frames
from tests.fuzz.logins import material
from tests.support.arrivals import accept
from tests.unit.wire.agreement import assert_as_walked
from tests.unit.wire.values import EVERY, TRAVELLING, sample

LIMIT_BYTES = 1 << 16
"""What any input may open to."""


class Round(NamedTuple):
    """Seeds, and what to do with mutations of them. `label` says what they are, for a report.

    `check` holds an input against all invariants; `read` only lets nothing else than a refusal leave the reader.
    """

    label: str
    seeds: list[bytes]
    check: Callable[[bytes], None]
    read: Callable[[bytes], None]


# ------------------------------------------------------------------------- wire


def wire(rng: random.Random) -> Round:
    if rng.random() < 0.02:
        return frames_of_07(rng)
    cls = rng.choice(EVERY)
    version = rng.choice(cls.WIRE.valid)
    seeds = [encode(sample(cls, version, rng), version) for _ in range(3)]
    if cls in TRAVELLING and rng.random() < 0.2:
        head = struct.pack(">hhih", cls.WIRE.key, version, 1, -1)
        return Round(f"frame of {cls.__name__} v{version}", [head + seed for seed in seeds], check_frame, check_frame)
    return Round(f"{cls.__name__} v{version}", seeds, lambda data: check_message(cls, version, data), message_reader(cls, version))


def message_reader(cls: type[Message], version: int) -> Callable[[bytes], None]:
    """Reads as `decode` does, and does not look for the words of a fault, which takes five times as long."""
    with suppress(Malformed):
        decode(cls, version, b"")  # or there is no reader yet
    refusals, reader = messages.DECODING, cls.WIRE.readers[version]

    def read(data: bytes) -> None:
        try:
            reader(data, 0)
        except refusals:
            return

    return read


def check_message(cls: type[Message], version: int, data: bytes) -> None:
    """The reader takes just what the walk of the grammar takes, and as that does; what it took can be written again."""
    try:
        msg = decode(cls, version, data)
    except Malformed as fault:
        if "cannot be read" in fault.reason:
            raise AssertionError("the walk took what the reader refused") from fault
        return
    assert_as_walked(msg, version, leaves(cls, version, data))
    again = encode(msg, version)
    assert encode(decode(cls, version, again), version) == again


def check_frame(data: bytes) -> None:
    with suppress(Malformed):
        decode_request(data)
    key, version = struct.unpack(">hh", data[:4].ljust(4, b"\0"))
    if key in API and version in API[key].versions:
        with suppress(Malformed):
            decode_response(key, version, data[4:])


def frames_of_07(rng: random.Random) -> Round:
    topic, number = rng.choice(("", "t", "flüge")), rng.randrange(1 << 31)
    produces = [kafka07.ProduceRequest07(topic, number, rng.randbytes(rng.choice((0, 3, 130)))) for _ in range(2)]
    fetches = [kafka07.FetchRequest07(topic, number, number, number)] * 2
    asked = kafka07.OffsetsRequest07(topic, number, -1, 1)
    many = kafka07.MultiProduceRequest07(produces), kafka07.MultiFetchRequest07(fetches)
    requests: list[kafka07.Request] = [*produces, *fetches, *many, asked]
    seeds = [kafka07.encode_request(request) for request in requests]
    found = [kafka07.FetchResponse07(0, produces[1].messages)] * 2
    responses: list[kafka07.Response] = [*found, kafka07.MultiFetchResponse07(0, found), kafka07.OffsetsResponse07(0, [number, 0])]
    seeds += [kafka07.encode_response(response) for response in responses]
    return Round("frames of Kafka 0.7", seeds, check_frame_of_07, check_frame_of_07)


def check_frame_of_07(data: bytes) -> None:
    """What was read is written as it was; only requests may have more behind them."""
    with suppress(Malformed):
        assert data.startswith(kafka07.encode_request(kafka07.decode_request(data)))
    for of in kafka07.RESPONSES.values():
        with suppress(Malformed):
            assert kafka07.encode_response(kafka07.decode_response(of, data)) == data


# ---------------------------------------------------------------------- batches


def batches(rng: random.Random) -> Round:
    count, codec = rng.randint(1, 5), rng.randrange(5)
    made = [_batch(rng, count, codecs.NONE) for _ in range(3)]
    kind = rng.randrange(3)
    if kind == 0:
        return _round(f"batches of codec {codec}", [_batch(rng, count, codec) for _ in range(3)], check_batches, read_batches)
    if kind == 1:
        return _round("batches whose CRC is right", made, check_batches, read_batches, _sealed)
    bodies = [batch[HEADER_BYTES:] for batch in made]
    around = partial(_around, batch=made[0], codec=codec)
    return _round(f"records within codec {codec}", bodies, check_batches, read_batches, around)


def _round(
    label: str,
    seeds: list[bytes],
    check: Callable[[bytes], None],
    read: Callable[[bytes], None],
    dress: Callable[[bytes], bytes] | None = None,
) -> Round:
    """A round in which inputs are given what they need to get past the first look."""
    if dress is None:
        return Round(label, seeds, check, read)
    return Round(label, seeds, lambda data: check(dress(data)), lambda data: read(dress(data)))


def _batch(rng: random.Random, count: int, codec: int) -> bytes:
    keys = [rng.choice((None, b"", b"key", rng.randbytes(70))) for _ in range(count)]
    values = [rng.choice((None, b"", b"value", rng.randbytes(200))) for _ in range(count)]
    headers = [rng.choice((None, [("h", b"v"), ("null", None)])) for _ in range(count)]
    return bytes(build(keys, values, [rng.randrange(1 << 41) for _ in range(count)], headers, codec=codec))


def _sealed(data: bytes) -> bytes:
    """The same bytes with length and CRC as they must be."""
    if len(data) < HEADER_BYTES:
        return data
    out = bytearray(data)
    struct.pack_into(">i", out, 8, len(out) - 12)
    out[16] = 2
    write_crc(out, 0, len(out))
    return bytes(out)


def _around(body: bytes, batch: bytes, codec: int) -> bytes:
    """A sound header and a sound compression around records that are not."""
    head = bytearray(batch[:HEADER_BYTES])
    head[22] = codec
    return _sealed(bytes(head) + codecs.compress(codec, body))


def read_batches(data: bytes) -> None:
    try:
        open_batches(data, limit_bytes=2 * LIMIT_BYTES, control=True)
    except (BadBatch, CodecFailed):
        return


def check_batches(data: bytes) -> None:
    taken = _verdict(memoryview(bytearray(data))) == NONE
    try:
        columns = open_batches(data, limit_bytes=2 * LIMIT_BYTES, control=True)
    except (BadBatch, CodecFailed):
        assert not taken, "a batch that is taken must open"
        return
    _check_columns(columns, data)
    try:
        for _ in down_convert(data, 1, limit_bytes=2 * LIMIT_BYTES):
            pass
    except (BadBatch, CodecFailed):
        return


def _verdict(view: memoryview) -> int:
    """What a broker says of the batch, by both looks that it takes."""
    code, header = check(view)
    assert code in ERRORS
    assert (header is None) == (code != NONE)
    if header is None:
        return code
    _, refused = finish(check_slowly(view, header, Demands(), 0, limit_bytes=2 * LIMIT_BYTES))
    assert refused is None or refused.error_code in ERRORS
    return NONE if refused is None else refused.error_code


def _check_columns(columns: Columns, data: bytes) -> None:
    opened = len(data) + sum(len(run.data) for run in columns.runs)
    records: list[Record] = columns.records()
    assert len(records) == len(columns)
    assert sum(len(record.key or b"") + len(record.value or b"") for record in records) <= opened


# ----------------------------------------------------------------------- legacy


def legacy(rng: random.Random) -> Round:
    if rng.random() < 0.1:
        return sets_of_07(rng)
    magic, codec = rng.randrange(2), rng.randrange(4)
    columns = open_batches(_batch(rng, rng.randint(1, 5), codecs.NONE))
    plain, wrapped = (write_message_set(columns, columns.runs[0], magic, codec=kind) for kind in (codecs.NONE, codec))
    kind = rng.randrange(3)
    if kind == 0:
        label = f"message sets of magic {magic}, codec {codec}"
        return _round(label, [plain, wrapped, plain + wrapped], check_message_set, read_message_set)
    if kind == 1:
        return _round("messages whose CRC is right", [plain, wrapped], check_message_set, read_message_set, _checked)
    label = f"messages within a wrapper of magic {magic}, codec {codec}"
    within = partial(_wrapped, magic=magic, codec=codec or codecs.GZIP)
    return _round(label, [plain], check_message_set, read_message_set, within)


def _checked(data: bytes) -> bytes:
    """The same bytes as one message of the size and CRC that it must have."""
    if len(data) < 18:
        return data
    covered = data[16:]
    return data[:8] + struct.pack(">iI", len(covered) + 4, crc32(covered)) + covered


def _wrapped(data: bytes, magic: int, codec: int) -> bytes:
    return wrapper(len(data) % 7, magic, codec, 0, codecs.compress(codec, data, 1, magic=magic))


def sets_of_07(rng: random.Random) -> Round:
    payloads = [rng.choice((b"", b"value", rng.randbytes(200))) for _ in range(3)]
    packed = [sets07.message_set(payloads, codec=codec) for codec in (codecs.GZIP, codecs.SNAPPY)]
    seeds = [sets07.message_set(payloads, magic=0), sets07.message_set(payloads), *packed]
    dress = rng.choice((None, _packed_07))
    return _round("message sets of Kafka 0.7", seeds, check_set_of_07, check_set_of_07, dress)


def _packed_07(data: bytes) -> bytes:
    """The bytes as what is compressed in one message, whose CRC is right."""
    payload = codecs.compress(codecs.SNAPPY, data)
    return struct.pack(">iBBI", 6 + len(payload), 1, codecs.SNAPPY, crc32(payload)) + payload


def check_set_of_07(data: bytes) -> None:
    try:
        whole = sets07.whole_bytes(data)
        found = list(sets07.messages(data, limit_bytes=LIMIT_BYTES))
    except (BadBatch, CodecFailed):
        return
    assert whole <= len(data)
    assert all(0 <= message.next_offset <= whole for message in found)
    assert sum(len(message.payload) for message in found) <= len(data) + LIMIT_BYTES


def read_message_set(data: bytes) -> None:
    try:
        open_message_set(data, limit_bytes=LIMIT_BYTES)
    except (BadBatch, CodecFailed):
        return


def check_message_set(data: bytes) -> None:
    code, _, view, headers = accept(data, Terms(limit_bytes=LIMIT_BYTES))
    assert code in ERRORS
    for header in headers:
        batch, view = view[: header.size], view[header.size :]
        stamp(batch, 0, 0, -1)
        verdict = _verdict(memoryview(batch))
        assert verdict in (NONE, INVALID_TIMESTAMP), "what is converted on arrival must be a batch that is taken"
    try:
        columns = open_message_set(data, limit_bytes=LIMIT_BYTES)
    except (BadBatch, CodecFailed):
        return
    _check_columns(columns, data)
    if len(columns):
        up_convert(columns)


# ----------------------------------------------------------------------- codecs


def compressed(rng: random.Random) -> Round:
    codec, magic = rng.randint(1, 4), rng.choice((0, 2, 2))
    pieces = (b"", b"x", rng.randbytes(300), b"flights " * 100, bytes(LIMIT_BYTES + rng.randrange(2)))
    seeds = [codecs.compress(codec, piece, magic=magic) for piece in rng.sample(pieces, 3)]
    check = partial(check_codec, codec, magic)
    return Round(f"codec {codec}, magic {magic}", seeds, check, check)


def check_codec(codec: int, magic: int, data: bytes) -> None:
    try:
        opened = codecs.decompress(codec, data, limit_bytes=LIMIT_BYTES, magic=magic)
    except CodecFailed:
        return
    assert len(opened) <= LIMIT_BYTES


# ----------------------------------------------------------------------- logins


def listener07(rng: random.Random) -> Round:
    label, seeds, check = frames(rng)
    return Round(label, seeds, check, check)


def logins(rng: random.Random) -> Round:
    label, seeds, check = material(rng)
    return Round(label, seeds, check, check)


FAMILIES: dict[str, Callable[[random.Random], Round]] = {
    "wire": wire,
    "batches": batches,
    "legacy": legacy,
    "codecs": compressed,
    "listener07": listener07,
    "logins": logins,
}
