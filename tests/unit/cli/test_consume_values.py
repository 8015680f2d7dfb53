"""Formats of keys and values: decoded by libraries, by schemas of files and registries, and refused with a reason."""

from __future__ import annotations

import base64
import datetime
import io
import json
import math
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import msgpack
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory, timestamp_pb2

from ottla.cli.consume.values import Binary, Decoder, SchemaSource, as_bytes, decoder
from ottla.errors import SettingError
from ottla.inspection.json_values import plain
from ottla.schemas.libraries import UnfitValue

FLIGHT = {"type": "record", "name": "Flight", "fields": [{"name": "n", "type": "int"}, {"name": "to", "type": ["null", "string"]}]}


def decode(name: str, data: bytes, schemas: SchemaSource | None = None, binary: Binary = Binary.RAW) -> object:
    found = decoder(name, schemas, binary)
    return data if found is None else found(data, "t")


def avro(value: object, schema: Any = FLIGHT) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def framed(schema_id: int, data: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + data


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("text", b"a\xff", "a\ufffd"),
        ("json", b'{"a": [1, null]}', {"a": [1, None]}),
        ("hex", b"\xff\0", "ff00"),
        ("base64", b"\xff\0", "/wA="),
        ("msgpack", msgpack.packb({"a": [1, b"\xff"], 5: None}), {"a": [1, b"\xff"], 5: None}),
        ("auto", b"\xff\0", b"\xff\0"),
    ],
)
def test_formats_decode(name: str, data: bytes, expected: object) -> None:
    assert decode(name, data) == expected


@pytest.mark.parametrize(
    ("data", "for_people", "for_json"),
    [
        (b"plain", b"plain", "plain"),
        (b"", b"", ""),
        (b"\x1b[31ma\tb\r\n\xc2\x9bc", b"\\x1b[31ma\tb\\r\n\\x9bc", "\x1b[31ma\tb\r\n\x9bc"),
        (b"\xff\0", b"ff00", {"base64": "/wA="}),
        (msgpack.packb({"é": 200}), b'{"\xc3\xa9": 200}', {"base64": "gaLDqczI"}),
        (msgpack.packb({"a": 200}) + b"\xff", (msgpack.packb({"a": 200}) + b"\xff").hex().encode(), {"base64": "gaFhzMj/"}),
    ],
)
def test_what_is_no_text_is_recognised_or_made_one(data: bytes, for_people: bytes, for_json: object) -> None:
    assert as_bytes(decode("auto", data, binary=Binary.HEX)) == for_people
    assert plain(decode("auto", data, binary=Binary.BASE64)) == for_json


def test_decoded_values_become_json() -> None:
    moment = datetime.datetime(2026, 11, 26, tzinfo=datetime.UTC)
    given = {"f": math.inf, "d": Decimal("1.10"), "t": moment, "b": b"\xff", 5: (1, True, None), "s": b"text"}
    assert json.loads(as_bytes(given)) == {
        "f": "inf", "d": "1.10", "t": "2026-11-26T00:00:00+00:00", "b": {"base64": "/w=="}, "5": [1, True, None], "s": "text"
    }  # fmt: skip


def test_avro_by_the_schema_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "flight.avsc"
    path.write_text(json.dumps(FLIGHT))
    schemas = SchemaSource(str(path), None)
    assert decode("avro", avro({"n": 7, "to": "GRZ"}), schemas) == {"n": 7, "to": "GRZ"}
    assert decode("auto", avro({"n": 7, "to": None}), schemas) == {"n": 7, "to": None}
    for damaged, reason in (
        (b"\x02\x02", "does not fit"),
        (avro({"n": 7, "to": None}) + b"x", "1 bytes remain"),
        (b"", "does not fit"),
    ):
        with pytest.raises(UnfitValue, match=reason):
            decode("avro", damaged, schemas)
    with pytest.raises(SettingError, match="is of avro, not of protobuf"):
        decoder("protobuf", schemas, Binary.RAW)


def descriptors() -> tuple[bytes, list[bytes]]:
    """Return a set of two files, one of which imports the other, and each file."""
    place = descriptor_pb2.FileDescriptorProto(name="place.proto", package="air", syntax="proto3")
    place.message_type.add(name="Place").field.add(name="code", number=1, type=9, label=1)
    flight = descriptor_pb2.FileDescriptorProto(name="flight.proto", package="air", syntax="proto3")
    flight.dependency.extend(["place.proto", "google/protobuf/timestamp.proto"])
    message = flight.message_type.add(name="Flight")
    message.field.add(name="number", number=1, type=5, label=1)
    message.field.add(name="to_place", number=2, type=11, type_name=".air.Place", label=1)
    message.field.add(name="at", number=3, type=11, type_name=".google.protobuf.Timestamp", label=1)
    message.nested_type.add(name="Seat").field.add(name="row", number=1, type=5, label=1)
    flight.message_type.add(name="Other").field.add(name="x", number=1, type=5, label=1)
    together = descriptor_pb2.FileDescriptorSet(file=[place, flight])
    return together.SerializeToString(), [place.SerializeToString(), flight.SerializeToString()]


def protobuf(name: str, value: object) -> bytes:
    pool = descriptor_pool.DescriptorPool()
    timestamp = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(timestamp)
    for data in (timestamp.SerializeToString(), *descriptors()[1]):
        pool.AddSerializedFile(data)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))()
    found: bytes = json_format.ParseDict(value, made, descriptor_pool=pool).SerializeToString()
    return found


VALUE = {"number": 5, "to_place": {"code": "GRZ"}, "at": "2026-11-26T00:00:00Z"}


def test_protobuf_by_the_descriptors_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "flights.desc"
    path.write_bytes(descriptors()[0])
    bad = tmp_path / "bad.avsc"
    bad.write_text("{")
    schemas = SchemaSource(str(path), None)
    assert decode("protobuf", protobuf("air.Flight", VALUE), schemas) == VALUE
    assert decode("auto", protobuf("air.Place", {"code": "VIE"}), SchemaSource(f"{path}#air.Place", None)) == {"code": "VIE"}
    with pytest.raises(UnfitValue, match=r"it is no air\.Flight"):
        decode("protobuf", b"\xff\xff", schemas)
    for text, reason in (
        (f"{path}#air.None", "lacks air.None"),
        (__file__, "name a file that ends in"),
        (str(bad), "no schema of Avro"),
        ("/none.desc", "cannot read"),
    ):
        with pytest.raises(SettingError, match=reason):
            SchemaSource(text, None)
    path.write_bytes(b"\xff\xff")
    with pytest.raises(SettingError, match="no set of descriptors"):
        SchemaSource(str(path), None)


def test_framed_values_by_a_directory_of_schemas(tmp_path: Path) -> None:
    for name, data in (
        ("t-value/1.avsc", json.dumps(FLIGHT).encode()),
        ("t-value/2.desc", descriptors()[0]),
        ("u-value/3.json", b"{}"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    schemas = SchemaSource(None, str(tmp_path))
    assert decode("auto", framed(1, avro({"n": 1, "to": None})), schemas) == {"n": 1, "to": None}
    assert decode("auto", framed(2, b"\0" + protobuf("air.Flight", VALUE)), schemas) == VALUE
    assert decode("auto", framed(2, b"\2\2" + protobuf("air.Other", {"x": 4})), schemas) == {"x": 4}
    assert decode("auto", framed(2, b"\4\0\0" + b"\x08\x03"), schemas) == {"row": 3}
    assert decode("auto", framed(3, b'{"a": 1}'), schemas) == {"a": 1}
    assert decode("auto", b"plain", schemas) == b"plain"
    for data, reason in (
        (framed(9, b""), "no schema 9"),
        (framed(2, b"\2\x20"), "names message"),
        (framed(2, b"\xff"), "ends within"),
    ):
        with pytest.raises(UnfitValue, match=reason):
            decode("auto", data, schemas)


def test_a_format_without_its_schema_or_library_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="--schema FILE or --schema-registry URL"):
        decoder("avro", None, Binary.RAW)
    (tmp_path / "a.avsc").write_text('"int"')
    monkeypatch.setitem(sys.modules, "msgpack", None)
    monkeypatch.setitem(sys.modules, "fastavro", None)
    made: list[Callable[[], Decoder | SchemaSource | None]] = [
        lambda: decoder("msgpack", None, Binary.RAW),
        lambda: SchemaSource(str(tmp_path / "a.avsc"), None),
    ]
    for make in made:
        with pytest.raises(SettingError, match=r"not installed: install it with pip install 'ottla\[formats\]'"):
            make()
    assert as_bytes(decode("auto", b"\x80", binary=Binary.HEX)) == b"80"


def test_base64_of_the_frame_is_kept_for_values_of_no_registry() -> None:
    data = framed(1, b"\xff")
    assert plain(decode("auto", data, binary=Binary.BASE64)) == {"base64": base64.b64encode(data).decode()}
