"""Formats of keys and values as options name them, and the types that a schema's text names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")

from pyspark.sql.types import ArrayType, DecimalType, IntegerType, MapType, StringType, StructField, StructType

from ottla.spark.errors import OptionError
from ottla.spark.formats.choice import DROP, FAIL, PERMISSIVE, Format, Formats
from ottla.spark.formats.ddl import SIMPLE, columns_of
from ottla.spark.formats.schemas import values_type
from ottla.spark.options import read_options, source_shape, write_options
from ottla.spark.schema import check_read_schema, check_write_schema, source_schema

GIVEN = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
READ = {**GIVEN, "subscribe": "flights"}
JSON = {"valueFormat": "json", "valueSchema": "carrier STRING, delay INT"}


def test_a_format_is_what_its_options_say() -> None:
    options = read_options({**READ, **JSON, "mode": "failfast"}, streaming=False)
    assert options.formats == Formats(value=Format("json", "carrier STRING, delay INT"), mode=FAIL)
    assert read_options(READ, streaming=True).formats == Formats()
    assert write_options({**GIVEN, "valueFormat": "JSON", "keyFormat": "json"}).formats.formats_by_column().keys() == {
        "key",
        "value",
    }


def test_bad_values_have_a_column_unless_they_are_left_out_or_end_the_query() -> None:
    assert source_shape({**READ, **JSON}).columns[-1] == "corruptValue"
    assert source_shape({**READ, **JSON, "columns": "value,offset"}).columns == ("value", "offset", "corruptValue")
    assert source_shape({**READ, **JSON, "columns": "offset"}).columns == ("offset",)
    for mode in (DROP, FAIL):
        assert "corruptValue" not in source_shape({**READ, **JSON, "mode": mode}).columns
    assert "corruptValue" not in source_shape({**READ, **JSON, "deadLetterTopic": "bad"}).columns


def test_dead_letters_go_to_the_brokers_that_are_read_from() -> None:
    options = read_options({**READ, **JSON, "deadLetterTopic": "bad", "kafka.isolation.level": "read_committed"}, streaming=False)
    assert options.dead_letters is not None
    assert options.dead_letters.bootstrap_servers == "127.0.0.1:9092"
    assert options.formats.dead_letter_topic == "bad"
    assert options.formats.mode == DROP


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"valueFormat": "jsn"}, "Option valueFormat must be one of json"),
        ({"valueSchema": "a INT"}, "Option valueSchema needs valueFormat"),
        ({"mode": "FAILFAST"}, "Option mode needs keyFormat or valueFormat"),
        ({**JSON, "mode": "lenient"}, "Option mode must be one of PERMISSIVE, DROPMALFORMED, FAILFAST"),
        ({**JSON, "mode": PERMISSIVE, "deadLetterTopic": "bad"}, "deadLetterTopic goes without mode PERMISSIVE"),
        ({"valueFromat": "json"}, "did you mean valueFormat?"),
        ({"valueFormat": "csv", "schemaRegistry": "http://h:1"}, "schemaRegistry is for the formats avro, json, protobuf"),
        ({"keyFormat": "arrow"}, "Option keyFormat cannot be arrow"),
        ({"keyFormat": "json", "valueFormat": "arrow"}, "keyFormat goes without valueFormat arrow"),
        ({**JSON, "delimiter": ",,"}, "Option delimiter must be one ASCII character"),
    ],
)
def test_options_of_formats_that_do_not_fit_are_told(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=re.escape(sentence)):
        read_options({**READ, **options}, streaming=False)


def test_ddl_names_every_type() -> None:
    text = ", ".join(f"{name}_1 {name.upper()}" for name in SIMPLE)
    assert [field.dataType for field in columns_of(text, "valueSchema").fields] == list(SIMPLE.values())
    nested = columns_of(
        "struct<`odd name`: array<map<string, decimal(8, 2)>>, x: dec COMMENT 'a, b', `a``b` struct<y:int>>", "valueSchema"
    )
    assert nested == StructType(
        [
            StructField("odd name", ArrayType(MapType(StringType(), DecimalType(8, 2)))),
            StructField("x", DecimalType(10, 0)),
            StructField("a`b", StructType([StructField("y", IntegerType())])),
        ]
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a", "a word is expected at the end"),
        ("a INTT", "there is no type INTT"),
        ("a INT b INT", ", is expected where b stands"),
        ("a INT, a STRING", "the name a stands twice"),
        ("a INT NOT NULL", "leave it out"),
        ("a ARRAY<INT", "> is expected at the end"),
        ("a DECIMAL(50, 2)", "precision is 1 to 38"),
        ("dep-delay INT", "put unusual names in backquotes"),
        ("struct<a: int> b", "nothing is expected after the last >"),
        ("a " + "array<" * 200, "nested more than 100 deep"),
        (", a INT", "a name is expected where , stands"),
    ],
)
def test_ddl_that_is_none_is_told_with_what_was_expected(text: str, why: str) -> None:
    with pytest.raises(OptionError, match=re.escape(why)) as caught:
        columns_of(text, "valueSchema")
    assert "Option valueSchema must be columns such as" in str(caught.value)


def test_a_schema_may_stand_in_a_file_and_be_sparks_own_json(tmp_path: Path) -> None:
    wanted = columns_of("carrier STRING, delay INT", "valueSchema")
    for name, text in {"a.ddl": "carrier STRING,\n delay INT\n", "a.json": json.dumps(wanted.jsonValue())}.items():
        (tmp_path / name).write_text(text)
        assert values_type("value", Format("json", str(tmp_path / name)), ()) == wanted
    with pytest.raises(OptionError, match=r"names the file \S+, and it cannot be read"):
        values_type("value", Format("json", str(tmp_path / "missing.ddl")), ())
    with pytest.raises(OptionError, match="Option keySchema is missing"):
        values_type("key", Format("json"), ())
    with pytest.raises(OptionError, match="JSON Schema without properties"):
        values_type("key", Format("json", "{}"), ())
    with pytest.raises(OptionError, match='without "type": "struct"'):
        values_type("key", Format("csv", "{}"), ())


def test_a_typed_column_may_have_any_type_that_its_format_holds() -> None:
    formats = Formats(value=Format("json", "a INT"))
    schema = source_schema(("offset", "value", "corruptValue"), {"value": columns_of("a INT", "valueSchema")})
    check_read_schema(schema, formats)
    check_write_schema(StructType([schema["value"]]), "topic", formats=formats)
    for text, why in {
        "value STRING": "Column value is STRING, and valueFormat json needs a STRUCT",
        "value STRUCT<a: MAP<INT, INT>>": "the keys of a MAP must be STRING",
        "value STRUCT<a: INT>, corruptKey BINARY": "Column corruptKey holds what does not fit keyFormat",
        "corruptValue BINARY": "read the column value too",
    }.items():
        with pytest.raises(OptionError, match=re.escape(why)):
            check_read_schema(columns_of(text, "schema"), formats)
    for name, text, why in [
        ("csv", "value STRUCT<a: ARRAY<INT>>", "valueFormat csv cannot hold value.a, which is ARRAY<INT>"),
        ("arrow", "value STRUCT<a: INT>, key STRING", "which has no key of each row"),
    ]:
        with pytest.raises(OptionError, match=re.escape(why)):
            check_write_schema(columns_of(text, "schema"), "topic", formats=Formats(value=Format(name)))
    with pytest.raises(OptionError, match="Column value cannot be STRUCT"):
        check_read_schema(schema)
    with pytest.raises(OptionError, match="Column corruptValue holds what does not fit valueFormat"):
        source_schema(("corruptValue",))
