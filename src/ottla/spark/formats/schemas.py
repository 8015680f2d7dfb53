"""Which columns a format's values have: by DDL, by Spark's own JSON of a schema, or by a file that holds either."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql.types import DataType, StructType

from ottla.spark.errors import OptionError
from ottla.spark.formats.choice import Format
from ottla.spark.formats.ddl import columns_of


def schema_text(text: str, option: str) -> str:
    """The schema itself, where the option may name the file that holds it. Raises `OptionError`."""
    stripped = text.strip()
    path = Path(stripped)
    if "\n" in stripped or len(stripped) > 1024 or " " in stripped or not path.suffix:
        return stripped
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise OptionError(f"Option {option} names the file {stripped}, and it cannot be read: {error}.") from None


def values_type(column: str, chosen: Format, topics: Sequence[str]) -> DataType:
    """The type that decoded keys or values have. Raises `OptionError`."""
    option = f"{column}Schema"
    if chosen.schema is None:
        raise OptionError(f"Option {option} is missing: give the columns in the values, such as carrier STRING, delay INT.")
    text = schema_text(chosen.schema, option)
    return _spark_schema(text, option) if text.startswith("{") else columns_of(text, option)


def _spark_schema(text: str, option: str) -> StructType:
    try:
        found = json.loads(text)
        if found.get("type") == "struct":
            return StructType.fromJson(found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OptionError(f"Option {option} is no schema that Spark writes as JSON: {error}.") from None
    raise OptionError(f'Option {option} holds JSON without "type": "struct", as df.schema.json() writes it: give that, or DDL.')
