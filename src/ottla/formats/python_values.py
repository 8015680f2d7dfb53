"""The conversion of single values to Python objects for an Arrow type.

It is used for values that bulk readers reject, and for formats without a bulk reader.

Numbers are given as texts (`Number`), so that no digit is lost before the type is known.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from ottla.formats.bulk import Misfit
from ottla.formats.decimals import parse_rounded

Maker = Callable[[Any], Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CYCLE = timedelta(days=146_097)
"""400 years, after which the calendar repeats."""


class Number(str):
    """A number in JSON as its text, so that no digit is lost."""

    __slots__ = ()


def plain(value: Any) -> Any:
    """Return a value that `json.dumps` accepts: each `Number` in it becomes an int or a float."""
    if isinstance(value, Number):
        return int(value) if re.fullmatch(r"-?\d+", value) else float(value)
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def _short_text(value: Any) -> str:
    text = json.dumps(plain(value), ensure_ascii=False).encode(errors="backslashreplace").decode()
    return text if len(text) <= 40 else f"{text[:37]}..."


def type_name(kind: pa.DataType) -> str:
    """Return the name of a type in SQL, as in Spark. A long name is shortened."""
    found = _sql_name(kind)
    return found if len(found) <= 40 else f"{found[:37]}..."


def _sql_name(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        return f"STRUCT<{','.join(f'{field.name.upper()}:{_sql_name(field.type)}' for field in kind)}>"
    if pa.types.is_map(kind):
        return f"MAP<{_sql_name(kind.key_type)},{_sql_name(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"ARRAY<{_sql_name(kind.value_type)}>"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    return _SQL_NAMES.get(kind, "TIMESTAMP" if pa.types.is_timestamp(kind) else str(kind).upper())


_SQL_NAMES: dict[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN", pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT",
    pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.date32(): "DATE",
}  # fmt: skip


def _misfit(value: Any, kind: pa.DataType) -> Misfit:
    return Misfit(f"{_short_text(value)} is no {type_name(kind)}")


def maker(kind: pa.DataType) -> Maker:
    """Return the converter to `kind` for values parsed from JSON. The converter raises `Misfit`."""
    whole = _maker(kind)

    def make(value: Any) -> Any:
        if value is None:
            return None
        try:
            return whole(value)
        except (ValueError, TypeError, OverflowError, InvalidOperation) as error:
            raise error if isinstance(error, Misfit) else _misfit(value, kind) from None

    return make


def _maker(kind: pa.DataType) -> Maker:
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_list(kind):
        item = maker(kind.value_type)
        return lambda value: [item(each) for each in _of(list, value, kind)]
    if pa.types.is_map(kind):
        key, item = maker(kind.key_type), maker(kind.item_type)
        return lambda value: [(key(name), item(each)) for name, each in _of(dict, value, kind).items()]
    if pa.types.is_integer(kind):
        return _integer(kind)
    if pa.types.is_decimal(kind):
        return lambda value: _decimal(value, kind)
    if pa.types.is_timestamp(kind):
        return lambda value: timestamp(_of(str, value, kind))
    for test, make in _SIMPLE.items():
        if test(kind):
            return make
    raise TypeError(f"No format holds values of type {kind}: choose another, such as string or binary.")


def _of(wanted: type, value: Any, kind: pa.DataType) -> Any:
    if not isinstance(value, wanted) or (wanted is str and isinstance(value, Number)):
        raise _misfit(value, kind)
    return value


def _struct(kind: pa.StructType) -> Maker:
    makers = {field.name: maker(field.type) for field in kind}

    def make(value: Any) -> dict[str, Any]:
        found: Mapping[str, Any] = _of(dict, value, kind)
        made = {}
        for name, each in makers.items():
            try:
                made[name] = each(found.get(name))
            except Misfit as error:
                raise Misfit(f"{name}: {error}") from None
        return made

    return make


def _integer(kind: pa.DataType) -> Maker:
    most = 1 << (kind.bit_width - 1)

    def make(value: Any) -> int:
        if not isinstance(value, Number) or not re.fullmatch(r"-?\d+", value) or len(value) > 20:
            raise _misfit(value, kind)
        number = int(value)
        if not -most <= number < most:
            raise _misfit(value, kind)
        return number

    return make


def _to_float(value: Any) -> float:
    if not isinstance(value, Number) and value not in ("NaN", "Infinity", "-Infinity"):
        raise ValueError
    number = float(value)
    if math.isinf(number) and value not in ("Infinity", "-Infinity"):
        raise OverflowError
    return number


def _decimal(value: Any, kind: pa.DataType) -> Decimal:
    """Round a number to the scale of `kind`, like Spark. Raises `Misfit` if it has too many digits then."""
    if not isinstance(value, str):
        raise TypeError
    made = parse_rounded(value, kind.scale)
    if len(made.as_tuple().digits) > kind.precision:
        raise OverflowError
    return made


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _text(value: Any) -> str:
    """Return a text. A value that is not a text becomes its JSON, as from Spark's from_json."""
    made = str(value) if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))
    made.encode()  # a lone surrogate cannot be encoded as UTF-8
    return made


def _bytes(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError
    return base64.b64decode(value, validate=True)


def _date(value: Any) -> int:
    """Return a date as the number of days since 1970."""
    if not isinstance(value, str) or not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
        raise TypeError
    return timestamp(value) // (86_400 * 1_000_000)


def timestamp(text: str) -> int:
    """Return a time in ISO 8601 as microseconds since 1970; one without a zone is in UTC.

    The result is the same for types with and without a zone.
    """
    if not re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        raise ValueError
    # Python has no year 0, and no year after 9999 in another zone. The calendar repeats every 400 years.
    moved = text.startswith("0000")
    found = datetime.fromisoformat("0400" + text[4:] if moved else text)
    since = found.replace(tzinfo=UTC) - _EPOCH - (found.utcoffset() or timedelta(0)) - moved * _CYCLE
    return since // timedelta(microseconds=1)


_SIMPLE: dict[Callable[[pa.DataType], bool], Maker] = {
    pa.types.is_boolean: _boolean,
    pa.types.is_floating: _to_float,
    pa.types.is_string: _text,
    pa.types.is_binary: _bytes,
    pa.types.is_date32: _date,
}
