"""Values that `ottla produce` encodes by a schema, decoded as `ottla consume` does; registries that answer wrongly."""

from __future__ import annotations

import argparse
import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest

from ottla.cli.consume.values import SchemaSource
from ottla.cli.produce.schemas import encoder
from ottla.cli.record_format.forms import BadInput
from ottla.errors import KafkaError, SettingError
from ottla.schemas.values import Encode

AVRO = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}'


def encode_by(schema: str | None = None, registry: str | None = None) -> Encode:
    found = encoder(argparse.Namespace(topic="t", schema=schema, schema_registry=registry))
    assert found is not None
    return found


def descriptors() -> bytes:
    """A set of descriptors with one file: message a.M { int32 n = 1; } and message a.Other."""
    module = pytest.importorskip("google.protobuf.descriptor_pb2")
    files = module.FileDescriptorSet()
    file = files.file.add(name="m.proto", package="a", syntax="proto3")
    file.message_type.add(name="M").field.add(name="n", number=1, type=5, label=1)
    file.message_type.add(name="Other")
    return bytes(files.SerializeToString())


@pytest.fixture
def answers() -> dict[str, object]:
    """The answers of the registry by path; None is 404."""
    return {}


@pytest.fixture
def registry(answers: dict[str, object]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path)
            body = json.dumps({"error_code": 40401} if found is None else found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_values_of_a_registry_are_read_by_its_id(registry: str, answers: dict[str, object]) -> None:
    pytest.importorskip("fastavro")
    answers["/subjects/t-value/versions/latest"] = {"id": 7, "schema": AVRO}
    answers["/schemas/ids/7"] = {"schema": AVRO}
    value = encode_by(registry=registry)(b'{"n": 3}')
    assert value == b"\0\0\0\0\7\6"
    assert SchemaSource(None, registry).decode(value, "t") == {"n": 3}


def test_protobuf_of_a_registry_and_of_a_file(registry: str, answers: dict[str, object], tmp_path: Path) -> None:
    module = pytest.importorskip("google.protobuf.descriptor_pb2")
    files = descriptors()
    one = base64.b64encode(module.FileDescriptorSet.FromString(files).file[0].SerializeToString()).decode()
    answers["/subjects/t-value/versions/latest"] = {"id": 9, "schemaType": "PROTOBUF", "schema": "message M {}"}
    answers["/subjects/t-value/versions/latest?format=serialized"] = {"id": 9, "schemaType": "PROTOBUF", "schema": one}
    answers["/schemas/ids/9"] = answers["/subjects/t-value/versions/latest"]
    answers["/schemas/ids/9?format=serialized"] = answers["/subjects/t-value/versions/latest?format=serialized"]
    value = encode_by(registry=registry)(b'{"n": 3}')
    assert value == b"\0\0\0\0\x09\0\x08\3"
    assert SchemaSource(None, registry).decode(value, "t") == {"n": 3}
    file = tmp_path / "m.desc"
    file.write_bytes(files)
    encode = encode_by(f"{file}#a.M")
    assert SchemaSource(f"{file}#a.M", None).decode(encode(b'{"n": 4}'), "t") == {"n": 4}
    for wrong in (b'{"m": 4}', b'{"n": "x"}', b"{", b"\xff"):
        with pytest.raises(BadInput, match="does not fit the schema"):
            encode(wrong)
    with pytest.raises(SettingError, match=r"several messages: name one, as in .*m.desc#a.M"):
        encode_by(str(file))
    with pytest.raises(SettingError, match=r"lacks a\.Missing"):
        encode_by(f"{file}#a.Missing")


def test_schemas_that_refer_to_others_have_those_first(registry: str, answers: dict[str, object]) -> None:
    pytest.importorskip("fastavro")
    for name, inner in (("A", "B"), ("B", "C"), ("C", "")):
        answers[f"/subjects/{name}/versions/1"] = {
            "id": 1,
            "schema": json.dumps({"type": "record", "name": name, "fields": [{"name": "n", "type": inner or "int"}]}),
            "references": [{"name": inner, "subject": inner, "version": 1}] if inner else [],
        }
    answers["/subjects/t-value/versions/latest"] = answers["/schemas/ids/1"] = answers["/subjects/A/versions/1"]
    value = encode_by(registry=registry)(b'{"n": {"n": {"n": 5}}}')
    assert value == b"\0\0\0\0\1\x0a"
    assert SchemaSource(None, registry).decode(value, "t") == {"n": {"n": {"n": 5}}}


@pytest.mark.parametrize("own_id", [None, "http://example.com/schemas/flight.json"])
def test_json_schemas_refer_to_others_by_name(registry: str, answers: dict[str, object], own_id: str | None) -> None:
    pytest.importorskip("jsonschema")
    answers["/subjects/air/versions/2"] = {
        "id": 1,
        "schemaType": "JSON",
        "schema": '{"type": "string", "minLength": 3}',
    }
    flight = {"type": "object", "properties": {"to": {"$ref": "airport.json"}}, **({"$id": own_id} if own_id else {})}
    answers["/subjects/t-value/versions/latest"] = {
        "id": 7,
        "schemaType": "JSON",
        "schema": json.dumps(flight),
        "references": [{"name": "airport.json", "subject": "air", "version": 2}],
    }
    encode = encode_by(registry=registry)
    assert encode(b'{"to": "JFK"}') == b'\0\0\0\0\7{"to": "JFK"}'
    with pytest.raises(BadInput, match="too short"):
        encode(b'{"to": "J"}')
    answers["/subjects/t-value/versions/latest"] = {"id": 7, "schemaType": "JSON", "schema": json.dumps(flight)}
    with pytest.raises(BadInput, match=r"refers to .*airport.json.* missing"):
        encode_by(registry=registry)(b'{"to": "JFK"}')


def test_imports_of_protobuf_come_before_the_files_that_import_them(registry: str, answers: dict[str, object]) -> None:
    module = pytest.importorskip("google.protobuf.descriptor_pb2")
    for name, inner in (("A", "B"), ("B", "C"), ("C", "")):
        file = module.FileDescriptorProto(name=f"{name}.proto", syntax="proto3", dependency=[f"{inner}.proto"] if inner else [])
        field = file.message_type.add(name=name).field.add(name="n", number=1, type=11 if inner else 5, label=1)
        if inner:
            field.type_name = f".{inner}"
        answers[f"/subjects/{name}/versions/1?format=serialized"] = {
            "id": 2,
            "schemaType": "PROTOBUF",
            "schema": base64.b64encode(file.SerializeToString()).decode(),
            "references": [{"name": f"{inner}.proto", "subject": inner, "version": 1}] if inner else [],
        }
    for path in ("/subjects/t-value/versions/latest", "/schemas/ids/2"):
        answers[path] = answers[f"{path}?format=serialized"] = answers["/subjects/A/versions/1?format=serialized"]
    value = encode_by(registry=registry)(b'{"n": {"n": {"n": 5}}}')
    assert value == b"\0\0\0\0\2\0\x0a\4\x0a\2\x08\5"
    assert SchemaSource(None, registry).decode(value, "t") == {"n": {"n": {"n": 5}}}


def test_values_are_encoded_by_the_newest_schema_of_a_directory(tmp_path: Path) -> None:
    pytest.importorskip("fastavro")
    (tmp_path / "t-value").mkdir()
    for number, kind in ((9, "string"), (10, "int")):
        (tmp_path / "t-value" / f"{number}.avsc").write_text(json.dumps(kind))
    value = encode_by(registry=str(tmp_path))(b"3")
    assert value == b"\0\0\0\0\x0a\6"
    assert SchemaSource(None, str(tmp_path)).decode(value, "t") == 3
    with pytest.raises(SettingError, match="is not a URL such as http"):
        encode_by(registry=str(tmp_path / "missing"))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "has no subject t-value"),
        ([1], "is not a schema registry"),
        ({"schema": AVRO}, "is not a schema registry"),
        ({"id": -1, "schema": AVRO}, "is not a schema registry"),
        ({"id": 1, "schema": AVRO, "references": [{"name": "x"}]}, "is not a schema registry"),
        ({"id": 1, "schema": "x", "schemaType": "XML"}, "has the format XML"),
    ],
)
def test_an_answer_that_is_no_schema_is_named(answer: object, why: str, registry: str, answers: dict[str, object]) -> None:
    answers["/subjects/t-value/versions/latest"] = answer
    with pytest.raises(KafkaError, match=why):
        encode_by(registry=registry)


def test_a_wrong_schema_and_a_missing_library_are_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("fastavro")
    file = tmp_path / "r.avsc"
    for text in ("{", '{"type": "record"}', '"nosuch"'):
        file.write_text(text)
        with pytest.raises(SettingError, match="is no schema of Avro"):
            encode_by(str(file))
    schema = tmp_path / "r.json"
    schema.write_text('{"type": "object", "required": ["n"]}')
    if find_spec("jsonschema") is None:
        with pytest.raises(SettingError, match="JSON Schema needs jsonschema, which is not installed: install it"):
            encode_by(str(schema))
        return
    encode = encode_by(str(schema))
    assert encode(b'{"n": 1}') == b'{"n": 1}'
    with pytest.raises(BadInput, match="does not fit the schema"):
        encode(b"{}")
