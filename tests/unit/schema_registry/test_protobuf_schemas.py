"""Schemas of Protobuf in the registry: parsed, written, and compared."""

from __future__ import annotations

import base64

import pytest
from google.protobuf import descriptor_pb2

from ottla.schema_registry.protobuf.schema import parse
from ottla.schema_registry.refusals import InvalidSchema

EVERYTHING = """
/* a comment */ syntax = 'proto3';
package air.traffic;  // another
import public "google/protobuf/timestamp.proto"; import "google/protobuf/any.proto";
option java_package = "org." "air"; option java_multiple_files = true; option optimize_for = SPEED;
option (own).way = { a: 1 b: [1, 2] };
message Flight {
  option deprecated = false;
  string id = 1 [json_name = "ID", deprecated = true, (rule) = -5];
  optional int32 late = 2; repeated sint64 times = 0x3 [packed = false];
  oneof plane { option (x) = 1.5; Plane jet = 4; string glider = 5; }
  map<string, Plane> by_name = 6; map<int32, air.traffic.Flight.Kind> kinds = 7;
  reserved 100 to 200, 300, 400 to max; reserved "gone", "lost";
  .google.protobuf.Timestamp at = 8; google.protobuf.Any any = 9; Kind kind = 10;
  message Plane { string message = 1; bool reserved = 2; Inner option = 3; message Inner {} };
  enum Kind { option allow_alias = true; A = 0; B = -1 [deprecated = true]; C = -1; reserved -5 to -3, 9 to max; reserved "Z"; }
  optional string oneof = 11;
}
service Tower { option deprecated = true; rpc Land (stream Flight) returns (Flight.Plane)
  { option idempotency_level = IDEMPOTENT; };
  rpc Start(Flight) returns (stream .air.traffic.Flight); }
"""
OLDER = """
syntax = "proto2";
message Old {
  required int32 a = 1 [default = -5]; optional string b = 2 [default = "x\\"\\n"]; optional bytes c = 3 [default = "\\001\\xff"];
  optional double d = 4 [default = inf]; repeated group Part = 5 { optional bool e = 1 [default = true]; }
  extensions 100 to 199, 500 to max; optional E f = 6 [default = TWO];
  enum E { ONE = 1; TWO = 2; }
  extend Old { optional int32 g = 150; }
}
extend Old { repeated string h = 151; optional group Added = 152 { optional int32 i = 1; } }
"""


@pytest.mark.parametrize("text", [EVERYTHING, OLDER, 'syntax = "proto3";', "", "message A { optional A a = 1; }"])
def test_canonical_texts_are_stable(text: str) -> None:
    schema = parse(text, {}, True)
    again = parse(schema.text, {}, True)
    assert again.text == schema.text
    assert again.file == schema.file
    normal = schema.normalize()
    assert parse(normal, {}, True).normalize() == normal


@pytest.mark.parametrize("text", [EVERYTHING, OLDER])
def test_a_descriptor_is_the_same_schema_as_its_text(text: str) -> None:
    schema = parse(text, {}, True)
    assert parse(schema.format_as("serialized"), {}, True).text == schema.text


def test_descriptors_have_what_the_text_says() -> None:
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(parse(EVERYTHING, {}, True).format_as("serialized")))
    flight = file.message_type[0]
    by_name = {field.name: field for field in flight.field}
    assert by_name["jet"].type_name == ".air.traffic.Flight.Plane"
    assert by_name["late"].proto3_optional
    assert [each.name for each in flight.oneof_decl] == ["plane", "_late", "_oneof"]
    assert flight.oneof_decl[by_name["late"].oneof_index].name == "_late"
    assert by_name["by_name"].type_name == ".air.traffic.Flight.ByNameEntry"
    assert [(each.start, each.end) for each in flight.reserved_range] == [(100, 201), (300, 301), (400, 536870912)]
    assert [(each.start, each.end) for each in flight.enum_type[0].reserved_range] == [(-5, -3), (9, 2147483647)]
    assert file.options.java_package == "org.air"
    assert file.public_dependency == [0]
    old = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(parse(OLDER, {}, True).format_as("serialized")))
    assert [field.default_value for field in old.message_type[0].field] == ["-5", 'x"\n', "\\001\\377", "inf", "", "TWO"]


NO_SCHEMAS = [
    "message",
    "message A {",
    "message A { }}",
    'syntax = "proto4";',
    'syntax = "proto3"; message A { string a = 0; }',
    'syntax = "proto3"; message A { string a = 1; string b = 1; }',
    'syntax = "proto3"; message A { string a = 1; string a = 2; }',
    'syntax = "proto3"; message A { Nothing a = 1; }',
    'syntax = "proto3"; message A { string a = 19000; }',
    'syntax = "proto3"; message A { string a = 536870912; }',
    'syntax = "proto3"; message A { oneof b { repeated string a = 1; } }',
    'syntax = "proto3"; message A { map<double, string> a = 1; }',
    'syntax = "proto3"; enum A { B = 1; }',
    'syntax = "proto3"; import "elsewhere.proto";',
    'syntax = "proto3"; import "default.proto";',
    'syntax = "proto3"; import "google/protobuf/../x.proto";',
    "message A { int32 a = 1; }",
    'syntax = "proto3"; message A { string a = 1 [deprecated = 5]; }',
    'syntax = "proto3"; message A { string a = 1 [default = "\\',
    'syntax = "proto3"; message A { string a = 1 [json_name = five]; }',
    'syntax = "proto3"; enum K { X = 0;',
    '{"type":"string"}',
    "\0",
    "message A {" * 100,
    "message A { optional string a = 1 [(b) = {{{{",
]


@pytest.mark.parametrize("text", NO_SCHEMAS)
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse(text, {}, True)


def test_references_are_imports() -> None:
    plane = 'syntax = "proto3"; package air; message Plane { string name = 1; }'
    text = 'syntax = "proto3"; package air; import "air/plane.proto"; message Flight { Plane plane = 1; }'
    schema = parse(text, {"air/plane.proto": plane}, True)
    assert list(schema.files) == ["air/plane.proto", "default.proto"]
    circle = 'syntax = "proto3"; import "b.proto"; message A {}', 'syntax = "proto3"; import "a.proto"; message B {}'
    with pytest.raises(InvalidSchema, match="circle"):
        parse('syntax = "proto3"; import "a.proto";', {"a.proto": circle[0], "b.proto": circle[1]}, True)


def reasons(new: str, old: str) -> list[str]:
    """Return the kinds of the differences for which `new` cannot read data of `old`."""
    new, old = (f'syntax = "proto3"; {text}' for text in (new, old))
    found = parse(new, {}, True).unreadable(parse(old, {}, True), reader="new", writer="old")
    return [each.split("'")[1] for each in found]


ROWS = [
    ("message A { int32 a = 1; }", "message A { int32 a = 1; }", []),
    ("message A { int64 a = 1; }", "message A { int32 a = 1; }", []),
    ("message A { bool a = 1; }", "message A { uint64 a = 1; }", []),
    ("message A { K a = 1; } enum K { X = 0; }", "message A { int32 a = 1; }", []),
    ("message A { sint32 a = 1; }", "message A { int32 a = 1; }", ["FIELD_SCALAR_KIND_CHANGED"]),
    ("message A { string a = 1; }", "message A { bytes a = 1; }", []),
    ("message A { float a = 1; }", "message A { double a = 1; }", ["FIELD_SCALAR_KIND_CHANGED"]),
    ("message A { repeated int32 a = 1; }", "message A { int32 a = 1; }", ["FIELD_NUMERIC_LABEL_CHANGED"]),
    ("message A { repeated string a = 1; }", "message A { string a = 1; }", []),
    ("message A { int32 b = 1; }", "message A { int32 a = 1; }", []),
    ("message A { }", "message A { int32 a = 1; }", []),
    ("message A { int32 a = 1; int32 b = 2; }", "message A { int32 a = 1; }", []),
    ("package b; message A { }", "package a; message A { }", ["PACKAGE_CHANGED"]),
    ("message B { }", "message A { } message B { }", ["MESSAGE_REMOVED"]),
    ("message B { } message A { }", "message A { } message B { }", []),
    ("message A { } enum K { X = 0; }", "message A { } enum K { X = 0; Y = 1; }", []),
    ("message A { B a = 1; } message B {}", "message A { int32 a = 1; } message B {}", ["FIELD_KIND_CHANGED"]),
    (
        "message A { B a = 1; } message B {} message C {}",
        "message A { C a = 1; } message B {} message C {}",
        ["FIELD_NAMED_TYPE_CHANGED"],
    ),
    ("message A { map<string, int32> a = 1; }", "message A { map<string, int64> a = 1; }", []),
    ("message A { map<string, string> a = 1; }", "message A { map<string, int64> a = 1; }", ["FIELD_SCALAR_KIND_CHANGED"]),
    ("message A { string a = 1; }", "message A { map<string, int64> a = 1; }", ["FIELD_KIND_CHANGED"]),
    (
        "message A { oneof o { int32 a = 1; int32 b = 2; } }",
        "message A { int32 a = 1; int32 b = 2; }",
        ["MULTIPLE_FIELDS_MOVED_TO_ONEOF"],
    ),
    ("message A { oneof o { int32 a = 1; } }", "message A { int32 a = 1; }", []),
    ("message A { oneof o { int32 a = 1; int32 b = 2; } }", "message A { oneof o { int32 a = 1; } }", []),
    ("message A { oneof o { int32 a = 1; } }", "message A { oneof o { int32 a = 1; int32 b = 2; } }", ["ONEOF_FIELD_REMOVED"]),
    ("message A { }", "message A { oneof o { int32 a = 1; int32 b = 2; } }", []),
    (
        "message A { oneof o { int32 a = 1; int32 b = 2; } }",
        "message A { oneof o { int32 a = 1; } int32 b = 2; }",
        ["FIELD_MOVED_TO_EXISTING_ONEOF"],
    ),
    ("message A { message B { string a = 1; } }", "message A { message B { int32 a = 1; } }", ["FIELD_SCALAR_KIND_CHANGED"]),
    ("message A { A a = 1; string b = 2; }", "message A { A a = 1; int32 b = 2; }", ["FIELD_SCALAR_KIND_CHANGED"]),
]


@pytest.mark.parametrize(("new", "old", "expected"), ROWS)
def test_differences_have_their_kind(new: str, old: str, expected: list[str]) -> None:
    assert reasons(new, old) == expected


def test_required_fields_of_proto2_stay() -> None:
    with_a, without = (parse(text, {}, True) for text in ("message A { required int32 a = 1; }", "message A { }"))
    assert "REQUIRED_FIELD_ADDED" in with_a.unreadable(without, reader="new", writer="old")[0]
    assert "REQUIRED_FIELD_REMOVED" in without.unreadable(with_a, reader="new", writer="old")[0]
