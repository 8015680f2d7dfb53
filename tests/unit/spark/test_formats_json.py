"""JSON: many values are decoded at once, those that do not fit are found among them, and rows become JSON again."""

from __future__ import annotations

import importlib
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is absent: pip install 'ottla[spark]'")
pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")
bulk = importlib.import_module("ottla.formats.bulk")
json_values = importlib.import_module("ottla.formats.json_values")
json_text = importlib.import_module("ottla.formats.json_values")

FLIGHT = pa.struct([("carrier", pa.string()), ("delay", pa.int32())])


def decode(values: list[bytes | None], kind: Any = FLIGHT) -> Any:
    return json_values.JsonDecoder(kind).decode(pa.array(values, pa.binary()))


def one(value: bytes, kind: Any) -> Any:
    """The one field of one value, or why it does not fit."""
    decoded = decode([value], pa.struct([("a", kind)]))
    return decoded.wrong[0] if decoded.wrong else decoded.values[0].as_py()["a"]


def encode(values: list[Any], kind: Any) -> list[Any]:
    found: list[Any] = json_text.JsonEncoder().encode(pa.array(values, kind)).to_pylist()
    return found


def test_fields_are_found_by_name_and_those_that_lack_are_null() -> None:
    decoded = decode([b'{"delay": 2, "carrier": "UA", "gate": [1, {}]}', b"{}", None, b"null", b'{"carrier": "\\u00e9"}'])
    assert decoded.values.to_pylist() == [
        {"carrier": "UA", "delay": 2},
        {"carrier": None, "delay": None},
        None,
        None,
        {"carrier": "é", "delay": None},
    ]
    assert decoded.wrong == {}


def test_bad_values_are_named_and_leave_their_neighbours_alone() -> None:
    values: list[bytes | None] = [b'{"carrier": "AA", "delay": %d}' % row for row in range(1000)]
    for row, bad in {0: b"", 499: b"delayed", 500: b'{"delay": "late"}', 999: b"\xff"}.items():
        values[row] = bad
    decoded = decode(values)
    assert {row: why.split(":")[0] for row, why in decoded.wrong.items()} == {
        0: "it is not JSON",
        499: "it is not JSON",
        500: "delay",
        999: "it is not UTF-8",
    }
    assert decoded.wrong[500] == 'delay: "late" is no INT'
    found = decoded.values.to_pylist()
    assert [row for row, each in enumerate(found) if each is None] == [0, 499, 500, 999]
    assert all(each["delay"] == row for row, each in enumerate(found) if each is not None)


def test_a_run_without_bad_values_is_read_at_once_and_one_bad_value_costs_a_few_reads_more() -> None:
    asked: list[int] = []

    def many(run: Any) -> Any:
        asked.append(len(run))
        return None if b"bad" in run.to_pylist() else pa.array([1] * len(run))

    def single(raw: bytes) -> int:
        if raw == b"bad":
            raise bulk.Misfit("it is bad")
        return 1

    few = bulk.as_objects(pa.int64(), single)
    good = [b"good"] * 64_000
    bulk.decode_many(pa.array(good, pa.binary()), pa.int64(), many, few)
    assert asked == [64_000]
    asked.clear()
    decoded = bulk.decode_many(pa.array([*good[:40_000], b"bad", *good[40_001:]], pa.binary()), pa.int64(), many, few)
    assert decoded.wrong == {40_000: "it is bad"}
    assert len(decoded.values) == 64_000
    assert len(asked) < 25


@pytest.mark.parametrize(
    "values",
    [
        [b'{"delay": 1}{"delay": 2}'],
        [b'{"delay": 1}}\n{"v":{"delay": 2}'],
        [b'{"delay": 1', b'"carrier": "x"}'],
        [b'{"delay": 1},"x":{"y":0', b'{"delay": 2}'],
        [b'{"carrier": "', b'"}'],
        [b'{"delay": 1}}\n{"v":{"delay": 2}', b'{"carrier": "'],
    ],
)
def test_a_value_cannot_end_another_or_begin_one(values: list[bytes | None]) -> None:
    decoded = decode([b'{"delay": 7}', *values, b'{"delay": 8}'])
    delays = [each and each["delay"] for each in decoded.values.to_pylist()]
    assert delays[0] == 7
    assert delays[-1] == 8
    assert len(delays) == len(values) + 2
    assert all(delays[row] is None for row in decoded.wrong)
    assert len(decoded.wrong) == sum(not _is_json(value) for value in values)


def _is_json(value: bytes | None) -> bool:
    try:
        json.loads(value or b"")
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    ("value", "kind", "wanted"),
    [
        (b'{"a": 1.5}', pa.float64(), 1.5),
        (b'{"a": NaN}', pa.float32(), pytest.approx(float("nan"), nan_ok=True)),
        (b'{"a": "-Infinity"}', pa.float64(), float("-inf")),
        (b'{"a": "2013-01-02"}', pa.date32(), date(2013, 1, 2)),
        (b'{"a": "2013-01-02T03:04:05.5+01:00"}', pa.timestamp("us", "UTC"), datetime(2013, 1, 2, 2, 4, 5, 500_000, UTC)),
        (b'{"a": "2013-01-02 03:04:05"}', pa.timestamp("us", "UTC"), datetime(2013, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (b'{"a": 1.25}', pa.decimal128(10, 2), Decimal("1.25")),
        (b'{"a": 1.255}', pa.decimal128(10, 2), Decimal("1.26")),
        (b'{"a": 1.50}', pa.string(), "1.50"),
        (b'{"a": {"b": [1, null]}}', pa.string(), '{"b":[1,null]}'),
        (b'{"a": "AAE="}', pa.binary(), b"\x00\x01"),
        (b'{"a": {"x": 1}}', pa.map_(pa.string(), pa.int32()), [("x", 1)]),
        (b'{"a": [{"b": 1}, {}, null]}', pa.list_(pa.struct([("b", pa.int8())])), [{"b": 1}, {"b": None}, None]),
        (b'{"a": 1, "a": 2}', pa.int32(), 2),
        (b'{"a": 300}', pa.int8(), "a: 300 is no TINYINT"),
        (b'{"a": 1.0}', pa.int32(), "a: 1.0 is no INT"),
        (b'{"a": "1"}', pa.int64(), 'a: "1" is no BIGINT'),
        (b'{"a": 12345}', pa.decimal128(4, 0), "a: 12345 is no DECIMAL(4,0)"),
        (b'{"a": "2013-13-01"}', pa.date32(), 'a: "2013-13-01" is no DATE'),
        (b'{"a": "\\ud800"}', pa.string(), 'a: "\\ud800" is no STRING'),
        (b'{"a": 1e999}', pa.float64(), "a: Infinity is no DOUBLE"),
        (b'{"a": [1]}', pa.list_(pa.string()), ["1"]),
    ],
)
def test_a_field_has_its_type_or_the_value_does_not_fit(value: bytes, kind: Any, wanted: Any) -> None:
    assert one(value, kind) == wanted


def test_deep_nesting_is_a_bad_value_and_no_more() -> None:
    assert "nested too deep" in one(b'{"a": ' + b'[{"b":' * 200_000, pa.int32())
    assert decode([b'{"delay": 1, "z": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"]).values[0].as_py()["delay"] == 1


def test_rows_become_json_as_spark_writes_it() -> None:
    kind = pa.struct(
        [
            ("carrier", pa.string()),
            ("gates", pa.list_(pa.int32())),
            ("more", pa.map_(pa.string(), pa.float64())),
            ("at", pa.timestamp("us", "Europe/Berlin")),
            ("day", pa.date32()),
            ("raw", pa.binary()),
            ("inner", pa.struct([("yes", pa.bool_()), ("price", pa.decimal128(8, 2))])),
        ]
    )
    full = {
        "carrier": 'a "b"\\\n\x01é',
        "gates": [1, None],
        "more": [('k"', 1.5), ("n", None), ("i", float("inf"))],
        "at": datetime(2013, 1, 2, 3, 4, 5, 6, UTC),
        "day": date(2013, 1, 2),
        "raw": b"\x00\x01",
        "inner": {"yes": True, "price": Decimal("1.20")},
    }
    rows: list[Any] = [full, None, {}, {"gates": []}, {"inner": {"price": None}}, {"carrier": ",,"}]
    first, *others = encode([{}, *rows], kind)[1:]
    assert json.loads(first) == {
        "carrier": 'a "b"\\\n\x01é',
        "gates": [1, None],
        "more": {'k"': 1.5, "n": None, "i": "Infinity"},
        "at": "2013-01-02T03:04:05.000006Z",
        "day": "2013-01-02",
        "raw": "AAE=",
        "inner": {"yes": True, "price": 1.2},
    }
    assert others == [None, b"{}", b'{"gates":[]}', b'{"inner":{}}', b'{"carrier":",,"}']


def test_what_is_written_is_read_again() -> None:
    rows: list[Any] = [{"carrier": f'c"{row}\\', "delay": row if row % 3 else None} for row in range(500)]
    rows.insert(7, None)
    assert decode(encode(rows, FLIGHT)).values.to_pylist() == rows
