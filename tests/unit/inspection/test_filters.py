"""Filters of records: what they find in keys, values, headers and times, and what they refuse."""

from __future__ import annotations

import json

import pytest

from ottla.inspection.filters import LONGEST, BadFilter, RecordFilter
from ottla.records.batches.record import ConsumerRecord

VALUE = {"status": "error", "price": 7.5, "tags": ["a", "b"], "user": {"first name": "Ada", "age": 36}, "none": None}
RECORD = ConsumerRecord(
    5, 1_700_000_000_000, 0, b"k1", json.dumps(VALUE).encode(), (("trace", b"1"), ("trace", b"2"), ("empty", None)), ("flights", 3)
)
NULLS = ConsumerRecord(6, 1_700_000_000_000, 0, None, None, (), ("flights", 0))


@pytest.mark.parametrize(
    "text",
    [
        "value.status == 'error'",
        'value["status"] != "ok" and value.price > 5',
        "value.user['first name'] == 'Ada' and value.user.age // 6 * 2 + 1 == 13",
        "value.tags[0] == 'a' and value.tags[-1] == 'b' and value.tags[9] is None",
        "'b' in value.tags and 'c' not in value.tags",
        "value.none is None and value.missing is null and value.user.missing.more is None",
        "key == 'k1' and startswith(key, 'k') and endswith(key, '1') and key in ['k1', 'k2']",
        "'error' in value",
        "matches(value, 'pri.e') and upper(key) == 'K1' and lower(upper(key)) == key and len(key) == 2",
        "headers.trace == '2' and headers['trace'] == '2' and 'empty' in headers and headers.empty is None",
        "topic == 'flights' and partition == 3 and offset >= 5 and 4 < offset < 6",
        "timestamp == 1700000000000 and timestamp < '1h' and timestamp > '2023-11-14T00:00Z'",
        "not (offset == 6 or false) and true",
        "number('7.5') == value.price",
        "-offset == 0 - 5 and 'a' + 'b' == 'ab' and offset % 2 == 1 and offset / 2 == 2.5",
    ],
)
def test_a_true_filter_selects(text: str) -> None:
    chosen = RecordFilter(text)
    assert chosen.matches(RECORD)
    assert not RecordFilter(f"not ({text})").matches(RECORD)


@pytest.mark.parametrize(
    "text",
    [
        "value.a < 5",
        "key > 'a'",
        "value > 5",
        "offset / 0 == 1",
        "len(value) > 0",
        "number(key) == 1",
        "matches(topic, topic + '(')",
        "matches(topic, 5 + 5)",
        "key * 9 == 1",
    ],
)
def test_what_is_impossible_selects_nothing(text: str) -> None:
    assert not RecordFilter(text).matches(NULLS)


def test_a_value_that_is_no_json_has_no_fields_but_a_text() -> None:
    record = RECORD._replace(value=b"\xffplain")
    assert not RecordFilter("value.a == 1 or value.a != 1").matches(record)
    assert RecordFilter("endswith(value, 'plain')").matches(record)


def test_formats_decode_for_filters_once_a_record() -> None:
    decoded: list[bytes] = []

    def decode(data: bytes, topic: str) -> object:
        decoded.append(data)
        return {"size": len(data), "topic": topic}

    chosen = RecordFilter("value.size == 3 and value.topic == 'flights'", None, decode)
    assert chosen.matches(RECORD._replace(value=b"abc"))
    assert not chosen.matches(RECORD._replace(value=b"abcd"))
    assert decoded == [b"abc", b"abcd"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no expression"),
        ("value.a =", "no expression"),
        ("value.a = 1", "no expression"),
        ("open('x')", "no function of filters"),
        ("value.strip()", "no function of filters"),
        ("__import__('os')", "no function of filters"),
        ("().__class__", "has no fields"),
        ("topic.__class__", "has no fields"),
        ("len.__self__", "has no fields"),
        ("headers.a.b", "has no fields"),
        ("value[offset]", "not allowed"),
        ("value[0:1]", "not allowed"),
        ("value[-'a']", "not allowed"),
        ("lambda: 1", "not allowed"),
        ("[x for x in value]", "not allowed"),
        ("f'{value}'", "not allowed"),
        ("value ** 9", "not allowed"),
        ("(offset := 1)", "not allowed"),
        ("value if key else 1", "not allowed"),
        ("{1: 2}", "not allowed"),
        ("b'a' == key", "not allowed"),
        ("(*key, 1)", "not allowed"),
        ("r", "a record has no 'r'"),
        ("size > 5", "a record has no 'size'"),
        ("len(key, start=1)", "no function of filters"),
        ("timestamp > 'noon'", "'noon' is not a time"),
        ("matches(topic, '(')", "'(' is no regular expression of RE2: it cannot be compiled"),
        (r"matches(topic, '(a)\\1')", "is no regular expression of RE2"),
        ("matches(topic, 5)", "needs a text as its pattern"),
        ("1" * (LONGEST + 1), "characters"),
        ("(" * 3000 + "1" + ")" * 3000, "expression"),
        ("not " * 2000 + "1", ""),
    ],
)
def test_what_is_no_filter_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(BadFilter) as caught:
        RecordFilter(text)
    assert reason in str(caught.value)


def test_a_regular_expression_takes_a_time_linear_in_the_text() -> None:
    record = RECORD._replace(value=b"a" * 100_000)
    assert not RecordFilter("matches(value, '(a+)+$') and matches(value, '(a|aa)+b')").matches(record)


@pytest.mark.parametrize(
    "text",
    [
        "value.a == 1",
        "not value.a == 1",
        "len(value + value + value) > 0",
        "matches(value, '(a{1,200})b')",
        "upper(lower(upper(value))) == ''",
        "value in value in value in value in value",
    ],
)
def test_work_on_a_record_is_bounded_on_demand(text: str) -> None:
    chosen = RecordFilter(text, most_work=3000)
    assert not chosen.matches(RECORD._replace(value=b'{"a": 1' + b" " * 1000 + b"}"))
    assert chosen.too_large == 1
    assert RecordFilter("value.a == 1", most_work=3000).matches(RECORD._replace(value=b'{"a": 1}'))
    assert RecordFilter("matches(key, '^k[0-9]$') and len(key) == 2 and number(headers.trace) == 2", most_work=300).matches(RECORD)
