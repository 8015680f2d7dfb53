"""Schemas in a registry: values framed with their schema's id, found over HTTP or in a directory."""

from __future__ import annotations

import base64
import contextlib
import importlib
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ottla.spark.errors import OptionError
from ottla.spark.formats.choice import Format, Formats
from ottla.spark.options import read_options, write_options

pa = pytest.importorskip("pyarrow", reason="pyarrow is absent: pip install 'ottla[spark]'")
pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")

codecs = importlib.import_module("ottla.spark.formats.codecs")
registry_of = importlib.import_module("ottla.spark.formats.registries").registry_of
load_schemas = importlib.import_module("ottla.spark.formats.schemas").load_schemas
values_type = importlib.import_module("ottla.spark.formats.schemas").values_type
columns_of = importlib.import_module("ottla.spark.formats.ddl").columns_of

FLIGHT = pa.struct([("carrier", pa.string()), ("delay", pa.int32())])


class SmallRegistry(BaseHTTPRequestHandler):
    """As much of a registry as is asked of one; it wants a password."""

    schemas: dict[int, tuple[str, str]]
    references: list[dict[str, Any]]

    def _answer(self, code: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        if self.headers["Authorization"] != "Basic bWU6cEBzcw==":
            return self._answer(401, {"message": "who are you?"})
        parts = self.path.partition("?")[0].split("/")
        if parts[1] == "schemas" and int(parts[3]) in self.schemas:
            return self._answer(200, {"schema": self.schemas[int(parts[3])][1], "references": self.references})
        own = [schema_id for schema_id, (subject, _) in self.schemas.items() if parts[1] == "subjects" and subject == parts[2]]
        if own:
            return self._answer(200, {"id": max(own), "schema": self.schemas[max(own)][1]})
        return self._answer(404, {"error_code": 40403})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        wanted = self.path.split("/")[2], body["schema"]
        known = [schema_id for schema_id, there in self.schemas.items() if there == wanted]
        schema_id = known[0] if known else max(self.schemas, default=0) + 1
        self.schemas[schema_id] = wanted
        self._answer(200, {"id": schema_id})

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


@pytest.fixture(params=["http", "directory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "directory":
        yield str(tmp_path)
        return
    handler = type("OwnRegistry", (SmallRegistry,), {"schemas": {}, "references": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://me:p%40ss@127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


def encode(place: str, rows: list[Any], kind: Any = FLIGHT, name: str = "avro") -> list[bytes | None]:
    encoded = codecs.EncodedColumns(Formats(value=Format(name, registry=place)), "flights")
    column = encoded.rows(pa.RecordBatch.from_arrays([pa.array(rows, kind)], names=["value"])).column("value")
    found: list[bytes | None] = column.to_pylist()
    return found


def decode(place: str, values: Sequence[bytes | None], kind: Any = FLIGHT, name: str = "avro") -> Any:
    return codecs.decoder_of("value", Format(name, registry=place), kind).decode(pa.array(values, pa.binary()))


@pytest.mark.parametrize("name", ["avro", "json"])
def test_values_name_the_schema_that_they_were_registered_with(place: str, name: str) -> None:
    rows = [{"carrier": "UA", "delay": 7}, None, {"carrier": None, "delay": -1}]
    values = encode(place, rows, name=name)
    assert [value and value[:5] for value in values] == [b"\x00\x00\x00\x00\x01", None, b"\x00\x00\x00\x00\x01"]
    assert encode(place, rows, name=name) == values
    assert decode(place, values, name=name).values.to_pylist() == rows
    wanted = columns_of(f"carrier STRING, delay {'INT' if name == 'avro' else 'BIGINT'}", "valueSchema")
    assert values_type("value", Format(name, registry=place), ["flights"]) == wanted


def test_values_of_several_schemas_are_read_together_each_by_its_own(place: str) -> None:
    old = encode(place, [{"delay": 1}, {"delay": 2}], pa.struct([("delay", pa.int32())]))
    new = encode(place, [{"carrier": "UA", "delay": 3, "gate": "B"}], pa.struct([*FLIGHT, ("gate", pa.string())]))
    assert new[0] is not None
    stray = [b"\x00\x00\x00\x00\x63\x00", b"\x00\x00", b"{}", b"\x00\x00\x00\x00\x01\x07"]
    decoded = decode(place, [old[0], *stray, new[0], None, old[1]])
    assert [each and tuple(each.values()) for each in decoded.values.to_pylist()] == [
        (None, 1), None, None, None, None, ("UA", 3), None, (None, 2)
    ]  # fmt: skip
    assert decoded.wrong[1] == "the registry has no schema 99, which it names"
    assert "zero byte" in decoded.wrong[2]
    assert decoded.wrong.keys() == {1, 2, 3, 4}


@pytest.mark.parametrize("by", ["the newest schema", "valueSchema"])
def test_older_values_are_resolved_to_the_schema_that_is_asked_for(place: str, by: str) -> None:
    old = {"type": "record", "name": "f", "fields": [{"name": "late", "type": "int"}]}
    fields = [{"name": "delay", "type": "long", "aliases": ["late"]}, {"name": "carrier", "type": "string", "default": "AA"}]
    new = json.dumps({**old, "fields": fields})
    registry = registry_of(place)
    old_id = registry.register("flights-value", "avro", json.dumps(old))
    if by == "the newest schema":
        registry.register("flights-value", "avro", new)
    given = {"subscribe": "flights", "valueFormat": "avro", "schemaRegistry": place, "kafka.bootstrap.servers": "h:1"}
    options = load_schemas(read_options(given | ({"valueSchema": new} if by == "valueSchema" else {}), streaming=False))
    assert options.formats.value is not None
    kind = pa.struct([("delay", pa.int64()), ("carrier", pa.string())])
    values = pa.array([b"\x00" + old_id.to_bytes(4, "big") + b"\x06"], pa.binary())
    found = codecs.decoder_of("value", options.formats.value, kind).decode(values)
    assert (found.values.to_pylist(), found.wrong) == ([{"delay": 3, "carrier": "AA"}], {})


def test_a_registry_that_is_none_or_has_no_schema_is_told(place: str) -> None:
    with pytest.raises(OptionError, match="has no subject flights-value: give valueSchema, or register it"):
        values_type("value", Format("avro", registry=place), ["flights"])
    with pytest.raises(OptionError, match="is not a URL"):
        registry_of("nowhere")
    with pytest.raises(OptionError, match="does not answer"):
        registry_of("http://127.0.0.1:1").latest("flights-value", "avro")
    if place.startswith("http"):
        with pytest.raises(OptionError, match="answered 401"):
            registry_of(place.replace("me:", "you:")).latest("flights-value", "avro")


def test_a_sink_with_a_registry_needs_its_topic() -> None:
    given = {"kafka.bootstrap.servers": "h:1", "valueFormat": "avro", "schemaRegistry": "http://127.0.0.1:1"}
    assert write_options({**given, "topic": "flights"}).formats.value == Format("avro", registry="http://127.0.0.1:1")
    with pytest.raises(OptionError, match="give option topic"):
        write_options(given)


# --- Protobuf


descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2", reason="Protobuf is absent: pip install protobuf")
protobuf_schema = importlib.import_module("ottla.formats.protobuf_schema")
INT32, STRING, MESSAGE = 5, 9, 11
FRAME = b"\x00\x00\x00\x00\x01"


def add_message(parent: Any, name: str, **fields: tuple[int, str]) -> Any:
    made = parent.add(name=name)
    for number, (field, (kind, type_name)) in enumerate(fields.items(), 1):
        made.field.add(name=field, number=number, type=kind, type_name=type_name, label=1)
    return made


def air(*, uses: str = "") -> Any:
    """A file with the messages Flight, which has a message Gate within it, and Delay."""
    file = descriptor_pb2.FileDescriptorProto(name="air.proto", package="air", syntax="proto3")
    more = {"at": (MESSAGE, uses)} if uses else {}
    flight = add_message(file.message_type, "Flight", carrier=(STRING, ""), delay=(INT32, ""), **more)
    add_message(flight.nested_type, "Gate", carrier=(STRING, ""))
    add_message(file.message_type, "Delay", delay=(INT32, ""))
    return file


def asked_for(place: str, message: str = "", file: Any = None) -> Format:
    held = descriptor_pb2.FileDescriptorSet(file=[file or air()]).SerializeToString()
    return Format("protobuf", f"base64:{base64.b64encode(held).decode()}#{message}", place)


def test_messages_of_protobuf_name_their_schema_and_their_place_in_it(place: str) -> None:
    rows = [{"carrier": "UA", "delay": 7}, None, {"carrier": None, "delay": -1}]
    encoder = codecs.encoder_of("value", asked_for(place), FLIGHT, "flights")
    values = encoder.encode(pa.array(rows, FLIGHT)).to_pylist()
    assert values[0] == FRAME + b"\x00\x0a\x02UA\x10\x07"
    assert decode(place, values, name="protobuf").values.to_pylist() == rows
    newest = codecs.encoder_of("value", Format("protobuf", registry=place), FLIGHT, "flights")
    assert newest.encode(pa.array(rows, FLIGHT)).to_pylist() == values
    wanted = columns_of("carrier STRING, delay INT", "valueSchema")
    assert values_type("value", Format("protobuf", registry=place), ["flights"]) == wanted


def test_other_messages_than_the_first_of_a_schema_are_read_beside_it(place: str) -> None:
    kinds = {"air.Delay": ("delay", 5), "air.Flight.Gate": ("carrier", "B")}
    values = [FRAME + b"\x00\x10\x07", FRAME + b"\x02\x06\x08\x01", FRAME, FRAME + b"\x01"]
    for message, (column, value) in kinds.items():
        kind = pa.struct([FLIGHT.field(column)])
        encoder = codecs.encoder_of("value", asked_for(place, message), kind, "flights")
        values += encoder.encode(pa.array([{column: value}], kind)).to_pylist()
    assert [value[5:] for value in values[4:]] == [b"\x02\x02\x08\x05", b"\x04\x00\x00\x0a\x01B"]
    decoded = decode(place, values, name="protobuf")
    found = [each and tuple(each.values()) for each in decoded.values.to_pylist()]
    assert found == [(None, 7), None, None, None, (None, 5), ("B", None)]
    assert decoded.wrong.keys() == {1, 2, 3}
    assert "names no message of its schema" in decoded.wrong[1]


def test_what_a_schema_of_protobuf_refers_to_is_asked_for_too() -> None:
    time = descriptor_pb2.FileDescriptorProto(name="time.proto", package="time", syntax="proto3")
    add_message(time.message_type, "Minute", minute=(INT32, ""))
    files = {1: ("flights-value", air(uses=".time.Minute")), 2: ("time", time)}
    schemas = {number: (name, base64.b64encode(file.SerializeToString()).decode()) for number, (name, file) in files.items()}
    references = [{"name": "time.proto", "subject": "time", "version": 1}]
    handler = type("OwnRegistry", (SmallRegistry,), {"schemas": schemas, "references": references})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            place = f"http://me:p%40ss@127.0.0.1:{server.server_port}"
            kind = pa.struct([("delay", pa.int32()), ("at", pa.struct([("minute", pa.int32())]))])
            decoded = decode(place, [FRAME + b"\x00\x10\x07\x1a\x02\x08\x09"], kind, "protobuf")
            assert decoded.values.to_pylist() == [{"delay": 7, "at": {"minute": 9}}]
        finally:
            server.shutdown()
            serving.join()


def test_messages_that_every_compiler_brings_need_no_file() -> None:
    held = descriptor_pb2.FileDescriptorSet(file=[air(uses=".google.protobuf.Timestamp")]).SerializeToString()
    found = protobuf_schema.arrow_type(protobuf_schema.read(held, "", "valueSchema"))
    instant = pa.struct([("seconds", pa.int64()), ("nanos", pa.int32())])
    assert found == pa.struct([("carrier", pa.string()), ("delay", pa.int32()), ("at", instant)])
    held = descriptor_pb2.FileDescriptorSet(file=[air(uses=".time.Minute")]).SerializeToString()
    with pytest.raises(OptionError, match=r"Field at of Protobuf is of time\.Minute, which the descriptors lack"):
        protobuf_schema.arrow_type(protobuf_schema.read(held, "", "valueSchema"))


def test_a_registry_that_has_only_texts_of_protobuf_is_told() -> None:
    schemas = {1: ("flights-value", 'syntax = "proto3"; message Flight {}')}
    handler = type("OwnRegistry", (SmallRegistry,), {"schemas": schemas, "references": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        try:
            with pytest.raises(OptionError, match="as text alone: name a file of descriptors with valueSchema"):
                registry_of(f"http://me:p%40ss@127.0.0.1:{server.server_port}").by_id(1, "protobuf")
        finally:
            server.shutdown()
            serving.join()
    registry = registry_of("http://127.0.0.1:1")
    time = descriptor_pb2.FileDescriptorProto(name="time.proto")
    held = descriptor_pb2.FileDescriptorSet(file=[time, air()]).SerializeToString()
    with pytest.raises(OptionError, match=r"imports time\.proto: register all of them"):
        registry.register("flights-value", "protobuf", base64.b64encode(held).decode())


ANSWERS = {
    "another protocol": b"\x00\x00\x00\x04abcd",
    "nothing": b"",
    "cut": b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"id":1',
    "no fields": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    "no number": b'HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\n{"id":"x","schema":null}',
    "too large a number": b'HTTP/1.1 200 OK\r\nContent-Length: 32\r\n\r\n{"id":99999999999,"schema":null}',
    "a page that is not there": b"HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\n<html>",
    "a long header": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n{}",
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_what_is_no_registry_is_told_in_a_sentence(answer: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for _ in range(3):
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    with contextlib.suppress(OSError):
                        connection.sendall(ANSWERS[answer])

        serving = threading.Thread(target=serve)
        serving.start()
        registry = registry_of(f"http://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(OptionError, match=r"registry"):
            registry.by_id(7, "avro")
        with pytest.raises(OptionError, match=r"registry"):
            registry.latest("t-value", "avro")
        with pytest.raises(OptionError, match=r"registry"):
            registry.register("t-value", "avro", "{}")
        serving.join()


@pytest.mark.parametrize("place", ["http://127.0.0.1:x", "http://[::1", "", "ftp://x", "/nonexistent"])
def test_a_place_that_is_none_is_refused(place: str) -> None:
    with pytest.raises(OptionError, match="schemaRegistry"):
        registry_of(place)


@pytest.mark.parametrize("place", ["htp://me:secret@host", "http://me:secret@host:x", "http://me:secret@[::1", "me:secret@dir"])
def test_a_password_is_not_repeated(place: str) -> None:
    with pytest.raises(OptionError, match=r"option schemaRegistry .* is not a URL") as caught:
        registry_of(place)
    assert "secret" not in str(caught.value)


def test_a_subject_is_no_pattern_in_a_directory(tmp_path: Path) -> None:
    registry = registry_of(str(tmp_path))
    assert registry.register("[x]-value", "avro", '"int"') == 1
    assert registry.latest("[x]-value", "avro").text == '"int"'
    assert registry.latest("*-value", "avro") is None
    (tmp_path / "[x]-value" / "2.avsc").write_bytes(b"\xff")
    with pytest.raises(OptionError, match="is no UTF-8"):
        registry.latest("[x]-value", "avro")
