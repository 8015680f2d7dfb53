"""Schemas in a registry: values framed with their schema's id, found over HTTP or in a directory."""

from __future__ import annotations

import importlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ottla.spark.errors import OptionError
from ottla.spark.formats.choice import Format, Formats
from ottla.spark.options import write_options

pa = pytest.importorskip("pyarrow", reason="pyarrow is absent: pip install 'ottla[spark]'")
pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")

codecs = importlib.import_module("ottla.spark.formats.codecs")
registry_of = importlib.import_module("ottla.spark.formats.registry").registry_of
values_type = importlib.import_module("ottla.spark.formats.schemas").values_type
columns_of = importlib.import_module("ottla.spark.formats.ddl").columns_of

FLIGHT = pa.struct([("carrier", pa.string()), ("delay", pa.int32())])


class SmallRegistry(BaseHTTPRequestHandler):
    """As much of a registry as is asked of one; it wants a password."""

    schemas: dict[int, tuple[str, str]]

    def _answer(self, code: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        if self.headers["Authorization"] != "Basic bWU6cEBzcw==":
            return self._answer(401, {"message": "who are you?"})
        parts = self.path.split("/")
        if parts[1] == "schemas" and int(parts[3]) in self.schemas:
            return self._answer(200, {"schema": self.schemas[int(parts[3])][1]})
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
    handler = type("OwnRegistry", (SmallRegistry,), {"schemas": {}})
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


def decode(place: str, values: list[bytes | None], kind: Any = FLIGHT, name: str = "avro") -> Any:
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


def test_a_registry_that_is_none_or_has_no_schema_is_told(place: str) -> None:
    with pytest.raises(OptionError, match="has no subject flights-value: give valueSchema, or register it"):
        values_type("value", Format("avro", registry=place), ["flights"])
    with pytest.raises(OptionError, match="is neither"):
        registry_of("nowhere")
    with pytest.raises(OptionError, match="does not answer"):
        registry_of("http://127.0.0.1:1").latest("flights-value")
    if place.startswith("http"):
        with pytest.raises(OptionError, match="answered 401"):
            registry_of(place.replace("me:", "you:")).latest("flights-value")


def test_a_sink_with_a_registry_needs_its_topic() -> None:
    given = {"kafka.bootstrap.servers": "h:1", "valueFormat": "avro", "schemaRegistry": "http://127.0.0.1:1"}
    assert write_options({**given, "topic": "flights"}).formats.value == Format("avro", registry="http://127.0.0.1:1")
    with pytest.raises(OptionError, match="give option topic"):
        write_options(given)
