"""Protobuf: what its own library writes is read in columns, and what is written, the library reads."""

from __future__ import annotations

import base64
import importlib
import random
import re
from pathlib import Path
from typing import Any

import pytest

from ottla.spark.errors import OptionError
from ottla.spark.formats.choice import Format
from ottla.spark.options import write_options

pa = pytest.importorskip("pyarrow", reason="pyarrow is absent: pip install 'ottla[spark]'")
pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")
descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2", reason="Protobuf is absent: pip install protobuf")
descriptor_pool = importlib.import_module("google.protobuf.descriptor_pool")
message_factory = importlib.import_module("google.protobuf.message_factory")
to_arrow_schema = importlib.import_module("pyspark.sql.pandas.types").to_arrow_schema
protobuf_schema = importlib.import_module("ottla.formats.protobuf_schema")
ProtobufDecoder: Any = importlib.import_module("ottla.formats.protobuf_values").ProtobufDecoder
ProtobufEncoder: Any = importlib.import_module("ottla.formats.protobuf_bytes").ProtobufEncoder
schemas = importlib.import_module("ottla.spark.formats.schemas")

OPTIONAL, REPEATED = 1, 3
MAKERS: dict[str, tuple[int, Any]] = {
    "dou": (1, lambda chance: chance.random()),
    "flo": (2, lambda chance: 1.5),
    "i64": (3, lambda chance: chance.choice([0, -1, 2**62, -(2**63)])),
    "u64": (4, lambda chance: chance.choice([0, 2**64 - 1])),
    "i32": (5, lambda chance: chance.choice([0, -1, 2**31 - 1, -(2**31)])),
    "f64": (6, lambda chance: 2**64 - 1),
    "f32": (7, lambda chance: 2**32 - 1),
    "boo": (8, lambda chance: True),
    "str": (9, lambda chance: "é" * chance.randrange(100)),
    "byt": (12, lambda chance: b"\xff" * chance.randrange(3)),
    "u32": (13, lambda chance: 2**32 - 1),
    "sf32": (15, lambda chance: -5),
    "sf64": (16, lambda chance: -6),
    "s32": (17, lambda chance: chance.choice([-(2**31), 7])),
    "s64": (18, lambda chance: -(2**63)),
    "enu": (14, lambda chance: chance.choice([0, 5, -1])),
}


def everything() -> Any:
    """A file whose first message has a field of every type, alone and repeated, messages in messages, and a map."""
    file = descriptor_pb2.FileDescriptorProto(name="everything.proto", package="air", syntax="proto3")
    colour = file.enum_type.add(name="Colour")
    for name, number in (("RED", 0), ("BLUE", 5), ("BELOW", -1)):
        colour.value.add(name=name, number=number)
    message = file.message_type.add(name="Flight")
    inner = message.nested_type.add(name="Gate")
    inner.field.add(name="x", number=1, type=5, label=OPTIONAL)
    inner.field.add(name="y", number=2, type=9, label=REPEATED)
    entry = message.nested_type.add(name="GatesEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=9, label=OPTIONAL)
    entry.field.add(name="value", number=2, type=11, label=OPTIONAL, type_name=".air.Flight.Gate")
    for number, (name, (kind, _)) in enumerate(MAKERS.items()):
        type_name = ".air.Colour" if kind == 14 else None
        message.field.add(name=name, number=2 * number + 1, type=kind, label=OPTIONAL, type_name=type_name)
        message.field.add(name=f"r_{name}", number=2 * number + 2, type=kind, label=REPEATED, type_name=type_name)
    for number, (name, label, type_name) in enumerate(
        [("gate", OPTIONAL, "Gate"), ("r_gate", REPEATED, "Gate"), ("gates", REPEATED, "GatesEntry")], 100
    ):
        message.field.add(name=name, number=number, type=11, label=label, type_name=f".air.Flight.{type_name}")
    return file


def library_class(file: Any, name: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def descriptors(*files: Any) -> bytes:
    found: bytes = descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()
    return found


def random_flight(made: Any, chance: random.Random) -> Any:
    for name, (_, make) in MAKERS.items():
        if chance.random() < 0.6:
            setattr(made, name, make(chance))
        getattr(made, f"r_{name}").extend(make(chance) for _ in range(chance.randrange(3)))
    if chance.random() < 0.5:
        made.gate.y.extend(["a", "b"])
    for each in range(chance.randrange(3)):
        made.r_gate.add().x = each
        made.gates[str(each)].x = each
    return made


def read_everything() -> tuple[Any, Any, Any]:
    """(schema, Arrow's type, the library's class)."""
    file = everything()
    schema = protobuf_schema.read(descriptors(file), "", "valueSchema")
    kind = protobuf_schema.arrow_type(schema)
    return schema, kind, library_class(file, "air.Flight")


def test_every_type_is_read_as_the_library_wrote_it_and_written_as_it_reads() -> None:
    schema, kind, flight = read_everything()
    chance = random.Random(11)
    messages = [random_flight(flight(), chance) for _ in range(300)]
    values = pa.array([*(message.SerializeToString() for message in messages), None], pa.binary())
    decoded = ProtobufDecoder(kind, schema).decode(values)
    assert decoded.wrong == {}
    rows = decoded.values.to_pylist()
    assert rows[-1] is None
    for row, message in zip(rows, messages, strict=False):
        for name in MAKERS.keys() - {"enu"}:
            assert row[name] is None or row[name] == getattr(message, name)
            assert (row[f"r_{name}"] or []) == list(getattr(message, f"r_{name}"))
        assert {key: gate["x"] or 0 for key, gate in row["gates"] or []} == {key: gate.x for key, gate in message.gates.items()}
    written = ProtobufEncoder(schema, "value").encode(decoded.values).to_pylist()
    assert written.pop() is None
    assert [flight.FromString(raw) for raw in written] == messages


def test_fewer_and_narrower_columns_are_read_and_fields_that_nobody_knows_passed() -> None:
    schema, _, flight = read_everything()
    made = flight(i64=7, str="x", enu=5, r_s32=[1, 2])
    strange = made.SerializeToString() + b"\xfa\x7f\x01z\xf9\x7f12345678\xfd\x7f1234\xf8\x7f\x05"
    kind = pa.struct([("i64", pa.int32()), ("enu", pa.string()), ("r_s32", pa.list_(pa.int64())), ("new", pa.string())])
    decoded = ProtobufDecoder(kind, schema).decode(pa.array([strange], pa.binary()))
    assert decoded.wrong == {}
    assert decoded.values[0].as_py() == {"i64": 7, "enu": "BLUE", "r_s32": [1, 2], "new": None}


def test_what_the_library_refuses_is_a_bad_value_and_its_neighbours_are_good() -> None:
    schema, kind, flight = read_everything()
    chance = random.Random(5)
    sound = random_flight(flight(), chance).SerializeToString()
    values = [sound[:size] for size in range(len(sound))]
    values += [bytes(chance.randrange(256) for _ in range(chance.randrange(30))) for _ in range(500)]
    decoded = ProtobufDecoder(kind, schema).decode(pa.array([*values, sound], pa.binary()))
    refused = set()
    for row, value in enumerate(values):
        try:
            flight.FromString(value)
        except Exception:  # the library has its own error, of no public base
            refused.add(row)
    assert len(refused) > 300
    groups = {row for row, why in decoded.wrong.items() if "in no known way" in why}  # old as they are, the library passes them
    assert decoded.wrong.keys() - groups == refused - groups
    assert decoded.values[-1] == ProtobufDecoder(kind, schema).decode(pa.array([sound], pa.binary())).values[0]


def test_descriptors_are_found_by_file_and_message(tmp_path: Path) -> None:
    path = tmp_path / "flights.desc"
    path.write_bytes(descriptors(everything()))
    options = {"kafka.bootstrap.servers": "h:1", "valueFormat": "protobuf", "valueSchema": f"{path}#air.Flight.Gate"}
    given = write_options(options)
    wanted = "struct<x:int,y:array<string>>"
    assert schemas.values_type("value", given.formats.value, ()).simpleString() == wanted
    inlined = schemas.load_schemas(given)
    path.unlink()
    assert schemas.values_type("value", inlined.formats.value, ()).simpleString() == wanted
    assert schemas.load_schemas(inlined) == inlined
    assert base64.b64encode(descriptors(everything())).decode() in inlined.formats.value.schema


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (None, "Option valueSchema is missing: name a file that protoc"),
        ("missing.desc", "names the file missing.desc, and it cannot be read"),
        ("base64:AAAA#", "Option valueSchema has no descriptors of Protobuf"),
        ("base64:#air.Flight", "asks for message air.Flight, and the descriptors have none"),
    ],
)
def test_descriptors_that_are_none_are_told(schema: str | None, why: str) -> None:
    with pytest.raises(OptionError, match=re.escape(why)):
        schemas.values_type("value", Format("protobuf", schema), ())


def test_a_message_that_holds_itself_has_no_column() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="tree.proto")
    message = file.message_type.add(name="Tree")
    message.field.add(name="left", number=1, type=11, label=OPTIONAL, type_name=".Tree")
    with pytest.raises(OptionError, match="Message Tree of Protobuf holds itself"):
        protobuf_schema.arrow_type(protobuf_schema.read(descriptors(file), "Tree", "valueSchema"))


@pytest.mark.parametrize(
    ("row", "kind", "why"),
    [
        ({"speed": 1}, [("speed", pa.int32())], "value.speed is not in the descriptor"),
        ({"r_i32": [1, None]}, [("r_i32", pa.list_(pa.int32()))], "value.r_i32 holds null in a row"),
        ({"enu": "GREEN"}, [("enu", pa.string())], "none of RED, BLUE, BELOW"),
        ({"r_i32": 1}, [("r_i32", pa.int32())], "value.r_i32 is repeated in its descriptor"),
        ({"i32": 2**40}, [("i32", pa.int64())], "A row does not fit the descriptor of value"),
    ],
)
def test_rows_that_the_descriptor_has_no_place_for_are_told(row: dict[str, Any], kind: Any, why: str) -> None:
    schema, _, _ = read_everything()
    with pytest.raises(OptionError, match=re.escape(why)):
        ProtobufEncoder(schema, "value").encode(pa.array([row], pa.struct(kind)))
