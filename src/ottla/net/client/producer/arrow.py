"""Tables of Arrow as rows to send. Needs pyarrow, which is imported on first use."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.client.arguments import short_repr, text
from ottla.client.errors import BrokerError, SettingError
from ottla.wire.errors import MESSAGE_TOO_LARGE

if TYPE_CHECKING:
    import pyarrow

    from ottla.records.batches.rows import Rows

CHUNK_ROWS = 16_384
"""The rows that are queued at a time: few enough for the processor's cache. The producer waits for memory in between."""


def table_rows(
    table: pyarrow.Table | pyarrow.RecordBatch, *, key: str | None, value: str | None, headers: str | None, timestamp: str | None
) -> Iterator[Rows]:
    """Yield the rows of a table in parts. The arguments name its columns, as in `send_table`.

    Raises `TypeError` for what is no table and for a column of a wrong type, and `SettingError` for a missing column.
    """
    try:
        import pyarrow
    except ImportError as missing:
        raise ImportError("send_table() needs pyarrow: install it with pip install 'ottla[arrow]'.") from missing
    from ottla.records.batches.arrow import arrow_rows

    if not isinstance(table, pyarrow.Table | pyarrow.RecordBatch):
        raise TypeError(f"send_table() takes a pyarrow.Table or RecordBatch, not {short_repr(table)}.")
    columns = _columns_to_send(table, {"value": value, "key": key, "timestamp": timestamp, "headers": headers})
    for argument, name in columns.items():
        _CHECKS[argument](table.schema.field(_position(table, name)))
    if "timestamp" in columns:
        _check_since_1970(table.column(_position(table, columns["timestamp"])), columns["timestamp"])
    now_ms = time.time_ns() // 1_000_000
    whole = table if isinstance(table, pyarrow.Table) else pyarrow.Table.from_batches([table])
    places = {argument: _position(table, name) for argument, name in columns.items()}
    for part in whole.to_batches(max_chunksize=CHUNK_ROWS):
        values = part.column(places["value"])
        keys, times, of_headers = (part.column(places[of]) if of in places else None for of in ("key", "timestamp", "headers"))
        yield arrow_rows(values, keys, now_ms if times is None else times, of_headers)


def _columns_to_send(table: pyarrow.Table | pyarrow.RecordBatch, named: dict[str, str | None]) -> dict[str, str]:
    """Return the names of the columns to send, by argument: the named ones, or if none is, all columns of the table."""
    columns = {argument: text(argument, name) for argument, name in named.items() if name is not None}
    if columns:
        return {"value": "value"} | columns
    if "value" in (names := table.schema.names) and (others := [name for name in names if name not in named]):
        raise SettingError(
            f"The table's column {others[0]!r} is no part of a record: name the columns to send, such as value='value', or drop it."
        )
    return {argument: argument for argument in named if argument == "value" or argument in names}


def _position(table: pyarrow.Table | pyarrow.RecordBatch, name: str) -> int:
    found: list[int] = table.schema.get_all_field_indices(name)
    if len(found) != 1:
        columns = ", ".join(table.schema.names) or "none"
        raise SettingError(f"The table has {len(found)} columns {name!r}, not one: name one of its columns ({columns}).")
    return found[0]


def _check_binary(field: pyarrow.Field) -> None:
    from pyarrow import types

    kinds = (
        types.is_binary, types.is_large_binary, types.is_string, types.is_large_string, types.is_binary_view, types.is_string_view,
    )  # fmt: skip
    if not any(is_of(field.type) for is_of in kinds):
        raise TypeError(f"Column {field.name!r} of the table is of type {field.type}: cast it to binary or string.")


def _check_times(field: pyarrow.Field) -> None:
    from pyarrow import types

    if not (types.is_integer(field.type) or types.is_timestamp(field.type)):
        raise TypeError(f"Column {field.name!r} of the table is of type {field.type}: cast it to int64 (ms) or timestamp.")


def _check_since_1970(times: pyarrow.Array | pyarrow.ChunkedArray, name: str) -> None:
    """Raise `SettingError` for a timestamp before 1970, which `send` refuses too. So no row is queued before it is found."""
    from pyarrow import compute, int64

    least = compute.min(times.cast(int64())).as_py()
    if least is not None and least < 0:
        raise SettingError(f"Column {name!r} of the table has the timestamp {compute.min(times)}: give times since 1970.")


def _check_headers(field: pyarrow.Field) -> None:
    from pyarrow import types

    kind = field.type
    if types.is_list(kind) or types.is_large_list(kind):
        of_header = kind.value_type
        if types.is_struct(of_header) and of_header.num_fields == 2:
            name, value = of_header.field(0).type, of_header.field(1).type
            if (types.is_string(name) or types.is_large_string(name)) and (types.is_binary(value) or types.is_large_binary(value)):
                return
    raise TypeError(f"Column {field.name!r} of the table is of type {kind}: cast it to list<struct<name: string, value: binary>>.")


_CHECKS = {"value": _check_binary, "key": _check_binary, "timestamp": _check_times, "headers": _check_headers}


def row_too_large(number: int) -> BrokerError:
    """Return the exception for a row of a table that exceeds `max_request_size`."""
    return BrokerError(
        MESSAGE_TOO_LARGE, "send_table()", f"Row {number} exceeds max_request_size: the {number} rows before it are queued."
    )
