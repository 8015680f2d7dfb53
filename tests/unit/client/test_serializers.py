"""Serializers by name against the bytes of Java's, round trips, and what a serializer refuses."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.consumer.deserializing_cursor import DeserializingCursor
from ottla.client.consumer.fetcher import Chunk
from ottla.client.errors import DeserializationFailed, KafkaError, SerializationFailed, SettingError
from ottla.client.serializers import FORMATS, FieldSerializer, RecordDeserializer
from ottla.client.settings.clients import ConsumerSettings, ProducerSettings, parse
from ottla.client.types import TopicPartition
from ottla.records.batches.builder import build

WHERE = TopicPartition("flights", 0)
JAVA = [
    ("bytes", b"\0\xff", "00ff"),  # ByteArraySerializer
    ("str", "é∆", "c3a9e28886"),  # StringSerializer
    ("bool", True, "01"),  # BooleanSerializer
    ("bool", False, "00"),
    ("int16", -2, "fffe"),  # ShortSerializer
    ("int32", 5_000, "00001388"),  # IntegerSerializer
    ("int32", -1, "ffffffff"),
    ("int64", 1 << 40, "0000010000000000"),  # LongSerializer
    ("float32", 1.5, "3fc00000"),  # FloatSerializer
    ("float64", -2.25, "c002000000000000"),  # DoubleSerializer
    ("uuid", uuid.UUID("123e4567-e89b-12d3-a456-426614174000"), b"123e4567-e89b-12d3-a456-426614174000".hex()),  # UUIDSerializer
    ("json", {"to": "Zürich", "gates": [1, 2.5, None, True]}, '{"to":"Zürich","gates":[1,2.5,null,true]}'.encode().hex()),
]
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bytes": st.binary(),
    "str": st.text(),
    "bool": st.booleans(),
    "int16": st.integers(-(1 << 15), (1 << 15) - 1),
    "int32": st.integers(-(1 << 31), (1 << 31) - 1),
    "int64": st.integers(-(1 << 63), (1 << 63) - 1),
    "float32": st.floats(width=32, allow_nan=False),
    "float64": st.floats(allow_nan=False),
    "uuid": st.uuids(),
    "json": st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)),
}


@pytest.mark.parametrize(("name", "value", "data"), JAVA)
def test_a_named_format_has_the_bytes_of_java(name: str, value: object, data: str) -> None:
    assert FORMATS[name].serialize(value) == bytes.fromhex(data)
    assert FORMATS[name].deserialize(bytes.fromhex(data)) == value


def test_every_format_has_bytes_of_java_and_a_round_trip() -> None:
    assert {name for name, _, _ in JAVA} == set(FORMATS) == set(VALUES)


@given(st.sampled_from(sorted(VALUES)).flatmap(lambda name: st.tuples(st.just(name), VALUES[name])))
def test_what_is_written_is_read(case: tuple[str, Any]) -> None:
    name, value = case
    data = FORMATS[name].serialize(value)
    assert data is not None
    assert FORMATS[name].deserialize(data) == value


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("bytes", "text", "a value of type str"),
        ("str", b"bytes", "only strings"),
        ("str", "\ud800", "surrogates"),
        ("bool", 1, "only True and False"),
        ("int16", 1 << 15, "short|number"),
        ("int32", 1.5, "integer"),
        ("int32", True, "no numbers"),
        ("int64", "5", "a value of type str"),
        ("float64", {}, "a value of type dict"),
        ("float32", 1e300, "too large"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "uuid.UUID"),
        ("json", {1, 2}, "a value of type set"),
        ("json", float("nan"), "JSON compliant"),
    ],
)
def test_a_value_that_a_format_does_not_have_is_refused_with_topic_and_type(name: str, value: object, sentence: str) -> None:
    with pytest.raises(SerializationFailed, match=f"(?s)topic flights .*({sentence})") as caught:
        FieldSerializer("value", FORMATS[name].serialize).serialize("flights", value)
    assert (caught.value.topic, caught.value.field) == ("flights", "value")
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("str", b"\xff"), ("bool", b"\2"), ("bool", b""), ("int16", b"\0"), ("int32", b"\0" * 8), ("int64", b""), ("float32", b"1"),
        ("float64", b"\0" * 4), ("uuid", b"5"), ("uuid", b"-" * 36), ("json", b"{"),
    ],
)  # fmt: skip
def test_bytes_of_another_format_are_not_read(name: str, data: bytes) -> None:
    with pytest.raises(ValueError, match=r"[a-z]"):
        FORMATS[name].deserialize(data)


def test_null_passes_by_every_serializer() -> None:
    def refuse(value: object) -> bytes:
        raise AssertionError(value)

    assert FieldSerializer("key", refuse).serialize("flights", None) is None
    null = cursor([None], refuse).next_records(1)[0]
    assert null.value is None


def test_a_function_that_returns_no_bytes_is_refused() -> None:
    returns_text: Any = json.dumps
    with pytest.raises(SerializationFailed, match="it returned a str, not bytes"):
        FieldSerializer("value", returns_text).serialize("flights", {})


async def coroutine_function(value: object) -> bytes:
    return b""


@pytest.mark.parametrize("given", ["int", 5, b"str", coroutine_function])
def test_what_is_no_serializer_is_refused(given: object) -> None:
    with pytest.raises(SettingError, match=r"value_serializer (is a coroutine.*: give a plain|must be a function or one of bytes)"):
        parse(ProducerSettings, {"value_serializer": given})
    with pytest.raises(SettingError, match="key_deserializer"):
        parse(ConsumerSettings, {"key_deserializer": given})


def test_settings_that_do_not_fit_serializers_are_refused() -> None:
    for misspelt in ("skips", "Raise", None, "", "no/topic", "x" * 250):
        with pytest.raises(SettingError, match="on_bad_record"):
            parse(ConsumerSettings, {"value_deserializer": "str", "on_bad_record": misspelt})
    with pytest.raises(SettingError, match=r"headers, which need Kafka 0\.11"):
        parse(ConsumerSettings, {"value_deserializer": "str", "on_bad_record": "dead", "api_version": "0.10.2"})
    with pytest.raises(SettingError, match="include_control_records"):
        parse(ConsumerSettings, {"value_deserializer": "str", "include_control_records": True})
    with pytest.raises(SettingError, match="Consumer has no setting value_serializer; did you mean value_deserializer"):
        parse(ConsumerSettings, {"value_serializer": "str"})
    with pytest.raises(SettingError, match="Producer has no setting key_deserializer; did you mean key_serializer"):
        parse(ProducerSettings, {"key_deserializer": "str"})


def cursor(values: list[bytes | None], function: Any = FORMATS["int32"].deserialize) -> DeserializingCursor:
    data = build(None, values, [0] * len(values), None)
    return DeserializingCursor(Chunk(WHERE, [memoryview(data)], 0, len(values)), RecordDeserializer(None, function))


NUMBERS: list[bytes | None] = [b"\0\0\0\0", b"\0\0\0\1", b"bad", b"\0\0\0\3"]


def test_a_record_that_cannot_be_read_stops_the_list_before_it_and_the_next_call_raises() -> None:
    one = cursor(NUMBERS)
    assert [record.value for record in one.next_records(4)] == [0, 1]
    for _ in range(2):
        with pytest.raises(DeserializationFailed, match=r"The value at offset 2 of flights-0 .*seek\(\) to offset 3") as caught:
            one.next_records(4)
        assert caught.value.data == caught.value.record.value == b"bad"
        assert (caught.value.topic, caught.value.partition, caught.value.offset, caught.value.field) == ("flights", 0, 2, "value")
        assert one.position() == 2


def test_a_record_that_cannot_be_read_stops_iteration_after_those_before_it() -> None:
    one, read = cursor(NUMBERS), list[int]()
    with pytest.raises(DeserializationFailed):
        read.extend(record.value or 0 for record in one.each())
    assert read == [0, 1]
    assert one.position() == one.first_unprocessed() == 2


def test_a_record_that_is_dropped_while_it_is_deserialized_is_not_handed_out() -> None:
    def deserialize(data: bytes) -> int:
        if data[-1]:
            assert one.drop() == 1
        return data[-1]

    one = cursor([b"\0", b"\1", b"\2"], deserialize)
    assert [record.value for record in one.each()] == [0]


def test_an_error_of_a_registry_is_not_taken_for_a_bad_record() -> None:
    def away(data: bytes) -> object:
        raise KafkaError("The registry is away: start it.")

    with pytest.raises(KafkaError, match="away") as caught:
        cursor([b""], away).next_records(1)
    assert not isinstance(caught.value, DeserializationFailed)
