"""Typed columns of a consumer's batches: the same values as record by record, and what happens to values that do not fit."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.consumer.cursor import Cursor
from ottla.client.consumer.fetcher import Chunk
from ottla.client.errors import DeserializationFailed, SettingError
from ottla.client.types import TopicPartition
from ottla.formats.errors import OptionError
from ottla.records.batches.builder import build

pa = pytest.importorskip("pyarrow", reason="pyarrow is absent: pip install 'ottla[arrow]'")
fastavro = pytest.importorskip("fastavro", reason="fastavro is absent: pip install fastavro")

from ottla.net.client.consumer.typed_batches import COLUMNS, TypedBatches, parse  # noqa: E402 - after the check for pyarrow

WHERE = TopicPartition("flights", 3)
AVRO = {
    "type": "record",
    "name": "Flight",
    "fields": [{"name": "carrier", "type": ["null", "string"]}, {"name": "delay", "type": "int"}],
}
FLIGHT = pa.schema([("carrier", pa.string()), ("delay", pa.int32())])
ROWS = st.fixed_dictionaries({"carrier": st.none() | st.text(max_size=5), "delay": st.integers(-(2**31), 2**31 - 1)})
VALUES = st.lists(
    ROWS | st.none() | st.sampled_from([b"", b"{", b"\x02", b"\xff\xff", b'{"delay": "much"}']), min_size=1, max_size=12
)


def cursor_of(values: list[bytes | None], cut: int = 0) -> Cursor:
    """A cursor over two batches."""
    keys = [b"%d" % number for number in range(len(values))]
    data = b"".join(
        bytes(build(keys[start:end], values[start:end], 7, [[("h", b"1")]] * (end - start), base_offset=start))
        for start, end in ((0, cut), (cut, len(values)))
        if end > start
    )
    return Cursor(Chunk(WHERE, [memoryview(data)], 0, len(values)))


def avro(row: object) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, AVRO, row)
    return out.getvalue()


def read_avro(data: bytes) -> Any:
    source = io.BytesIO(data)
    found = fastavro.schemaless_reader(source, AVRO, None)
    if source.read(1):
        raise ValueError("bytes are left")
    return found


def read_json(data: bytes) -> Any:
    found = json.loads(data)
    if not isinstance(found, dict) or not isinstance(found["delay"], int):
        raise ValueError("no flight")
    return found


@given(values=VALUES, cut=st.integers(0, 12), name=st.sampled_from(["avro", "json"]))
@settings(max_examples=150, deadline=None)
def test_the_columns_have_what_decoding_record_by_record_returns(values: list[Any], cut: int, name: Any) -> None:
    write, read = (avro, read_avro) if name == "avro" else (lambda row: json.dumps(row).encode(), read_json)
    data = [write(value) if isinstance(value, dict) else value for value in values]
    expected: list[Any] = []
    bad: list[int] = []
    for offset, each in enumerate(data):
        try:
            expected.append(None if each is None else read(each))
        except (ValueError, EOFError, IndexError, KeyError, TypeError):
            bad.append(offset)
    typed = parse({"value_format": name, "value_schema": AVRO if name == "avro" else FLIGHT})
    part = typed.decode(cursor_of(data, min(cut, len(data))), raises=False)
    assert [row for batch in part.batches for row in batch["value"].to_pylist()] == expected
    assert [error.offset for error in part.bad] == bad
    assert [error.data for error in part.bad] == [data[offset] for offset in bad]
    assert part.end is None
    if not bad:
        return
    raising = cursor_of(data, min(cut, len(data)))
    if bad[0] == 0:
        with pytest.raises(DeserializationFailed, match="value at offset 0 of flights-3 cannot be read by value_format="):
            typed.decode(raising, raises=True)
        return
    part = typed.decode(raising, raises=True)
    assert [row for batch in part.batches for row in batch["offset"].to_pylist()] == list(range(bad[0]))
    assert (part.bad, part.end) == ([], bad[0])


def test_records_before_a_bad_one_are_handed_out_first_and_the_position_stays_there() -> None:
    typed = parse({"value_format": "json", "value_schema": FLIGHT})
    cursor = cursor_of([b'{"delay": 1}', b'{"delay": 2}', b"{", b'{"delay": 4}'])
    part = typed.decode(cursor, raises=True)
    assert cursor.claim_columns(part.end)
    assert (cursor.position(), cursor.first_unprocessed(), cursor.exhausted) == (2, 0, False)
    cursor.mark_processed()
    for _ in range(2):
        with pytest.raises(DeserializationFailed, match="offset 2"):
            typed.decode(cursor, raises=True)
        assert (cursor.position(), cursor.first_unprocessed(), cursor.held) == (2, 2, False)
    part = typed.decode(cursor, raises=False)
    assert [error.offset for error in part.bad] == [2]
    assert cursor.claim_columns(part.end)
    assert (cursor.position(), cursor.exhausted) == (4, True)


def test_a_chunk_that_was_dropped_meanwhile_is_not_handed_out() -> None:
    typed = parse({"value_format": "json", "value_schema": FLIGHT})
    cursor = cursor_of([b'{"delay": 1}', b"{"])
    part = typed.decode(cursor, raises=True)
    assert cursor.drop() == 0
    assert not cursor.claim_columns(part.end)
    assert cursor.exhausted


def test_columns_are_chosen_and_both_key_and_value_are_decoded() -> None:
    typed = parse({
        "columns": ["value", "offset", "key"], "value_format": "json", "value_schema": pa.struct([("delay", pa.int64())]),
        "key_format": "csv", "key_schema": pa.schema([("number", pa.int8())]), "delimiter": ";",
    })  # fmt: skip
    (batch,) = typed.decode(cursor_of([b'{"delay": 1, "more": 2}', None]), raises=True).batches
    assert batch.schema.names == ["value", "offset", "key"]
    assert batch.to_pylist() == [
        {"value": {"delay": 1}, "offset": 0, "key": {"number": 0}},
        {"value": None, "offset": 1, "key": {"number": 1}},
    ]


def test_a_value_of_arrow_has_many_rows_with_the_place_of_their_record() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, FLIGHT) as stream:
        stream.write_table(pa.table({"carrier": ["AA", "B6"], "delay": [1, 2]}, FLIGHT))
    typed = parse({"columns": ["offset", "value"], "value_format": "arrow", "value_schema": FLIGHT})
    part = typed.decode(cursor_of([sink.getvalue().to_pybytes(), b"none", sink.getvalue().to_pybytes()]), raises=False)
    (batch,) = part.batches
    assert batch["offset"].to_pylist() == [0, 0, 2, 2]
    assert [row["delay"] for row in batch["value"].to_pylist()] == [1, 2, 1, 2]
    assert [error.offset for error in part.bad] == [1]


def test_without_formats_keys_and_values_are_bytes() -> None:
    typed: TypedBatches = parse({})
    assert not typed.decodes
    (batch,) = typed.plain(cursor_of([b"a"]))
    assert batch.schema.names == list(COLUMNS)
    assert batch["value"].to_pylist() == [b"a"]
    (batch,) = parse({"columns": ["offset"]}).plain(cursor_of([b"a", b"b"]))
    assert batch.to_pydict() == {"offset": [0, 1]}


@pytest.mark.parametrize("is_file", [False, True])
def test_a_schema_of_json_is_a_dict_a_text_or_a_file(tmp_path: Path, *, is_file: bool) -> None:
    schema = {"type": "object", "properties": {"delay": {"type": "integer"}, "at": {"type": "string", "format": "date"}}}
    path = tmp_path / "flight.json"
    path.write_text(json.dumps(schema))
    for given_schema in (path, str(path)) if is_file else (schema, json.dumps(schema)):
        typed = parse({"value_format": "json", "value_schema": given_schema})
        (batch,) = typed.decode(cursor_of([b'{"delay": 1}']), raises=True).batches
        assert batch.schema.field("value").type == pa.struct([("delay", pa.int64()), ("at", pa.date32())])


@pytest.mark.parametrize("is_asked", [False, True])
def test_values_with_a_schema_id_are_read_with_the_schema_of_a_directory(tmp_path: Path, *, is_asked: bool) -> None:
    subject = tmp_path / "flights-value"
    subject.mkdir()
    (subject / "7.avsc").write_text(json.dumps(AVRO))
    framed = b"\0\0\0\0\7" + avro({"carrier": "AA", "delay": 5})
    wanted: dict[str, Any] = {"value_schema": pa.schema([("delay", pa.int64())])} if is_asked else {}
    typed = parse({"value_format": "avro", "schema_registry": str(tmp_path), **wanted})  # type: ignore[typeddict-item]  # any schema
    part = typed.decode(cursor_of([framed, b"\0\0\0\0\x08\0", avro({"carrier": None, "delay": 1})]), raises=False)
    (batch,) = part.batches
    assert batch["value"].to_pylist() == [{"delay": 5} if is_asked else {"carrier": "AA", "delay": 5}]
    assert ["no schema 8" in str(error) for error in part.bad] == [True, False]


@pytest.mark.parametrize(
    ("is_asked", "said"),
    [
        (True, "Schema 7 of the schema registry has no schema"),
        (False, "Subject flights-value of the schema registry has no schema"),
    ],
)
def test_errors_name_the_schema_that_cannot_be_read_whoever_uses_the_formats(tmp_path: Path, said: str, *, is_asked: bool) -> None:
    (tmp_path / "flights-value").mkdir()
    (tmp_path / "flights-value" / "7.avsc").write_text("{")
    wanted: dict[str, Any] = {"value_schema": FLIGHT} if is_asked else {}
    typed = parse({"value_format": "avro", "schema_registry": str(tmp_path), **wanted})  # type: ignore[typeddict-item]  # any schema
    with pytest.raises(OptionError, match=f"^{said}"):
        typed.decode(cursor_of([b"\0\0\0\0\7\0"]), raises=True)


@pytest.mark.parametrize(
    ("arguments", "kind", "said"),
    [
        (
            {"value_format": "jsn", "value_schema": FLIGHT},
            SettingError,
            "value_format must be one of json, csv, avro, protobuf, arrow",
        ),
        ({"key_format": "arrow", "key_schema": FLIGHT}, SettingError, "key_format must be one of json, csv, avro, protobuf, not"),
        ({"value_format": "json"}, SettingError, "value_format='json' needs value_schema"),
        ({"value_schema": FLIGHT}, SettingError, "value_schema needs value_format"),
        ({"value_format": "avro", "value_schema": FLIGHT}, SettingError, "the schema by which values were written in avro"),
        ({"value_format": "csv", "value_schema": "a INT"}, SettingError, "must be a pyarrow.Schema for csv"),
        ({"value_format": "json", "value_schema": pa.int32()}, SettingError, "value_schema must be a struct"),
        ({"value_format": "json", "value_schema": 5}, TypeError, "value_schema must be a pyarrow.Schema, a schema of the format"),
        ({"value_format": "avro", "value_schema": "{"}, SettingError, "value_schema has no schema of Avro"),
        ({"value_format": "avro", "value_schema": "absent.avsc"}, SettingError, "value_schema names the file absent.avsc"),
        ({"value_format": "protobuf", "value_schema": "absent.desc"}, SettingError, "value_schema names the file absent.desc"),
        ({"columns": "offset"}, TypeError, "columns must be a list of names"),
        ({"columns": ["offset", "offsets"]}, SettingError, "'offsets' is none of them"),
        ({"columns": []}, SettingError, "at least one"),
        ({"schema_registry": "http://localhost:1"}, SettingError, "schema_registry is for the formats avro, json, protobuf"),
        ({"schema_registry": "absent", "value_format": "avro"}, SettingError, "is not a URL such as"),
        ({"delimiter": ";;", "value_format": "csv", "value_schema": FLIGHT}, SettingError, "delimiter must be one ASCII character"),
        ({"colums": ["offset"]}, TypeError, "batches.. has no argument colums"),
        (
            {"value_format": "arrow", "value_schema": FLIGHT, "key_format": "json", "key_schema": FLIGHT},
            SettingError,
            "key_format goes without value_format='arrow'",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_what_to_do(arguments: Any, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        parse(arguments)
