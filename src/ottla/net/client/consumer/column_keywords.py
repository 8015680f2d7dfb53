"""The keyword arguments of a consumer's `batches` about the columns of its Arrow batches, for type checkers and editors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    import pyarrow

Format = Literal["json", "csv", "avro", "protobuf", "arrow"]
Schema: TypeAlias = "pyarrow.Schema | pyarrow.StructType | Mapping[str, Any] | str | Path"


class ColumnKeywords(TypedDict, total=False):
    """The keyword arguments of `batches` about columns."""

    columns: Iterable[str]
    key_format: Format
    key_schema: Schema
    value_format: Format
    value_schema: Schema
    schema_registry: str
    delimiter: str
