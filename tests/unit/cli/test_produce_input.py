"""The input of `ottla produce`: lines, JSON and templates, in chunks of any size; and that what was printed can be read."""

from __future__ import annotations

import base64
import binascii
import json
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.cli.produce.line_failures import MOST_ENTRIES, LineFailures
from ottla.cli.produce.row_splitter import RowSplitter
from ottla.cli.record_format.forms import BadInput
from ottla.cli.record_format.input_records import Headers, InputRecord, LineSplitter, Splitter, completed, keyed_line
from ottla.cli.record_format.input_steps import TemplateSplitter
from ottla.cli.record_format.input_template import input_template
from ottla.cli.record_format.json_records import json_record
from ottla.cli.record_format.tokens import BadTemplate, unescape
from ottla.records.batches.columns import open_batches
from ottla.records.batches.rows import batches_of

Piece = TypeVar("Piece")


def all_of(splitter: Splitter[Piece], chunks: Iterable[bytes]) -> list[Piece]:
    found = [piece for chunk in chunks for piece in splitter.split(chunk)]
    return [*found, *splitter.finish()]


def chunks_of(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    ends = sorted({min(cut, len(data)) for cut in cuts})
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]


def read(template: str, data: bytes, cuts: Sequence[int] = ()) -> list[InputRecord]:
    return all_of(TemplateSplitter(input_template(template)), chunks_of(data, cuts))


CUTS = st.lists(st.integers(0, 60), max_size=4)


@given(st.lists(st.binary(max_size=6)), st.sampled_from([b"\n", b"\0", b"--", b"aab"]), CUTS)
def test_lines_are_the_same_in_chunks_of_any_size(lines: list[bytes], delimiter: bytes, cuts: list[int]) -> None:
    data = b"".join(line + delimiter for line in lines)
    *whole, rest = data.split(delimiter)
    assert all_of(LineSplitter(delimiter), chunks_of(data, cuts)) == [*whole, *filter(None, [rest])]
    assert all_of(LineSplitter(delimiter), chunks_of(data + b"x", cuts)) == (data + b"x").split(delimiter)


def test_an_empty_delimiter_makes_one_record_of_all() -> None:
    assert all_of(LineSplitter(b""), [b"a\n", b"b\0"]) == [b"a\nb\0"]
    assert all_of(LineSplitter(b""), []) == []


def test_a_splitter_begins_anew_after_its_end() -> None:
    lines, records = LineSplitter(b"\n"), TemplateSplitter(input_template("%k %v\n"))
    for _ in range(2):
        assert all_of(lines, [b"a\nb"]) == [b"a", b"b"]
        assert [record.value for record in all_of(records, [b"a b\nc d"])] == [b"b", b"d"]


def test_separators_are_unescaped() -> None:
    assert unescape(r"\t\n\r\0\\\x7c") == b"\t\n\r\0\\|"
    assert unescape("ä") == "ä".encode()
    for wrong in (r"\q", "\\", r"\x7"):
        with pytest.raises(ValueError, match="is no escape"):
            unescape(wrong)


def test_keys_stand_before_the_first_separator() -> None:
    record = keyed_line(b"::")
    assert record(b"a::b::c") == InputRecord(b"b::c", b"a")
    assert record(b"::") == InputRecord(b"", b"")
    with pytest.raises(BadInput, match="no key separator '::'"):
        record(b"a:b")


BYTES = st.none() | st.binary(max_size=12)
HEADERS = st.lists(st.tuples(st.text(max_size=4), BYTES), max_size=3).map(tuple)
RECORDS = st.builds(InputRecord, BYTES, BYTES, HEADERS, st.integers(0, 99), st.integers(0, 1 << 42), st.none())


def size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def framed(data: bytes | None, order: str) -> bytes:
    assert order in ("big", "little")
    return size(data).to_bytes(4, "big" if order == "big" else "little", signed=True) + (data or b"")


@given(st.lists(RECORDS, max_size=4), st.sampled_from(["big", "little"]), CUTS)
def test_binary_with_sizes_keeps_any_bytes_and_nulls(records: list[InputRecord], order: str, cuts: list[int]) -> None:
    one = f"%K{{{order}32}}%k%V{{{order}32}}%v"
    data = b"".join(
        framed(record.key, order)
        + framed(record.value, order)
        + b"%d,%d,%d " % (record.partition or 0, record.timestamp_ms or 0, len(record.headers))
        + b"".join(framed(name.encode(), order) + framed(value, order) for name, value in record.headers)
        for record in records
    )
    assert read(f"{one}%p,%d,%H %h{{{one}}}", data, cuts) == records


@given(st.lists(st.tuples(BYTES, BYTES), max_size=4), CUTS)
def test_sizes_in_digits_and_encoded_text_keep_any_bytes(pairs: list[tuple[bytes | None, bytes | None]], cuts: list[int]) -> None:
    encodings: dict[str, Callable[[bytes], bytes]] = {"hex": binascii.hexlify, "base64": base64.b64encode}
    for encoding, encode in encodings.items():
        data = b"".join(b"%d %b|%d;%b\n" % (size(k), encode(k or b""), size(v), encode(v or b"")) for k, v in pairs)
        found = read(rf"%K %k{{{encoding}}}|%V;%v{{{encoding}}}\n", data, cuts)
        assert [(record.key, record.value) for record in found] == pairs
    raw = b"".join(b"%d %b %d %b" % (size(k), k or b"", size(v), v or b"") for k, v in pairs)
    assert [(record.key, record.value) for record in read("%K %k %S %s", raw, cuts)] == pairs


@given(st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9)), max_size=4), CUTS)
def test_delimited_text_keeps_all_bytes_but_delimiters(pairs: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    pairs = [(k.replace(b"\t", b""), v.replace(b"\n", b"")) for k, v in pairs]
    data = b"".join(b"%b\t%b\n" % pair for pair in pairs)
    for given_data in (data, data.removesuffix(b"\n") if pairs and pairs[-1][1] else data):
        assert [(record.key, record.value) for record in read(r"%k\t%v\n", given_data, cuts)] == pairs


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=3), each, max_size=3),
    max_leaves=5,
)


@settings(max_examples=40)
@given(st.lists(JSON, max_size=4), CUTS)
def test_json_values_end_by_themselves(values: list[object], cuts: list[int]) -> None:
    data = b"".join(b"k %b\n" % json.dumps(value).encode() for value in values)
    assert [json.loads(record.value or b"") for record in read(r"%k %v{json}\n", data, cuts)] == values


@given(RECORDS)
def test_json_lines_keep_any_record(record: InputRecord) -> None:
    def shown(data: bytes | None) -> object:
        try:
            return None if data is None else data.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(data or b"").decode()}

    row = {
        "topic": "t",
        "key": shown(record.key),
        "value": shown(record.value),
        "headers": [{"key": name, "value": shown(value)} for name, value in record.headers],
        "partition": record.partition,
        "offset": 5,
        "timestamp": record.timestamp_ms,
    }
    assert json_record(json.dumps(row).encode()) == record


@pytest.mark.parametrize(
    ("line", "record"),
    [
        ("", None),
        ("  ", None),
        ("{}", InputRecord(None)),
        ('{"value": "COMMIT", "control": true, "producer_id": 1}', None),
        ('{"value": {"b": [1, "ä"]}, "key": 7}', InputRecord('{"b":[1,"ä"]}'.encode(), b"7")),
        ('{"payload": "p", "key": "k", "ts": 5, "tstype": "create", "broker": 1}', InputRecord(b"p", b"k", (), None, 5)),
        ('{"headers": {"a": "1", "b": null}}', InputRecord(None, None, (("a", b"1"), ("b", None)))),
        ('{"headers": ["a", "1", "a", "2"]}', InputRecord(None, None, (("a", b"1"), ("a", b"2")))),
        ('{"timestamp": "2023-11-14T22:13:20Z"}', InputRecord(None, timestamp_ms=1_700_000_000_000)),
        ('{"timestamp": -1}', InputRecord(None)),
    ],
)
def test_json_of_other_tools_is_read(line: str, record: InputRecord | None) -> None:
    assert json_record(line.encode()) == record


def test_bytes_in_the_json_of_kcat_stay_as_they_are() -> None:
    assert json_record(b'{"payload": "\xff\\u0000\xc3\xa4", "key": "\xfe"}') == InputRecord(b"\xff\0\xc3\xa4", b"\xfe")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[1]", "no object"),
        ('{"vlaue": 1}', "no field 'vlaue'"),
        ('{"value": "\\ud800"}', "surrogate"),
        ('{"value": {"base64": "???"}}', "value is not base64"),
        ('{"headers": [{"key": "h", "value": {"base64": 5}}]}', "header 'h' is not base64"),
        ('{"headers": 3}', "headers are no object"),
        ('{"headers": ["a"]}', "headers are no object"),
        ('{"partition": -1}', "partition is -1"),
        ('{"partition": true}', "partition is true"),
        ('{"timestamp": "yesterday"}', "the timestamp 'yesterday'"),
    ],
)
def test_wrong_json_is_named(line: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        json_record(line.encode("latin-1"))


@pytest.mark.parametrize(
    ("template", "data", "record"),
    [
        (r"%k %v\n", b"foo bar\n", InputRecord(b"bar", b"foo")),
        ("%T{4}%K{4}%V{4}%t%k%v", b"abcdEFGH1234", InputRecord(b"1234", b"EFGH", topic="abcd")),
        (r"%p %v\n", b"3 x\n", InputRecord(b"x", partition=3)),
        ("%K{big16} foo %k", b"\0\2 foo ab", InputRecord(None, b"ab")),
        (r"%v{re#...?#}\n", b"ab\n", InputRecord(b"ab")),
        (r"%k %v{json}", b'k {"a": "}"}', InputRecord(b'{"a": "}"}', b"k")),
        ("%T %k %s", b"1700000000000 k v", InputRecord(b"v", b"k", timestamp_ms=1_700_000_000_000)),
        ("%T %t %v", b"1 t v", InputRecord(b"v", topic="t")),
        (r"%d{strftime[%F %T]} %v\n", b"2023-11-14 22:13:20 v\n", InputRecord(b"v", timestamp_ms=1_700_000_000_000)),
        ("%R%s", b"\0\0\0\1v", InputRecord(b"v")),
        ("%R%s", b"\xff\xff\xff\xff", InputRecord(None)),
        ("%h|%s", b"a=1,b=,c|v", InputRecord(b"v", headers=(("a", b"1"), ("b", b""), ("c", None)))),
        ("%H %h{%k=%v;}%v", b"2 a=1;b=2;v", InputRecord(b"v", headers=(("a", b"1"), ("b", b"2")))),
        ("%K{hex8}%k%V{byte}%v", b"02ab\1c", InputRecord(b"c", b"ab")),
        ("%o %e %x %y %i %v", b"1 2 -1 -1 7 v", InputRecord(b"v")),
        (r"%%%{%v%}\x21", b"%{v}!", InputRecord(b"v")),
        ("%d %v", b"-1 v", InputRecord(b"v")),
        ("%v{base64raw}|", b"YQ|", InputRecord(b"a")),
    ],
)
def test_tokens_of_rpk_and_kcat(template: str, data: bytes, record: InputRecord) -> None:
    assert read(template, data) == [record]
    assert read(template, data, range(len(data))) == [record]


@pytest.mark.parametrize(
    ("template", "data", "why"),
    [
        (r"%k %v\n", b"foo\n", "' ' is expected, and there is nothing more"),
        ("%p %v", b"x v", "a number is expected, and there is 'x v'"),
        ("%V{big32}%v", b"\0\0\0\5ab", "has 5 bytes, and the input ends before"),
        ("%V{big32}%v", b"\0\0", "a number of 4 bytes is expected"),
        ("%V{big64}%v", b"\x7f" * 8, "at most 67108864 bytes"),
        ("%V %v", b"-2 x", "the size of the value is -2"),
        (r"%v{hex}\n", b"xx\n", "is not hexadecimal"),
        (r"%v{base64}\n", b"?\n", "is not base64"),
        (r"%v{json}\n", b"{]\n", "is not JSON"),
        (r"%v{re#[0-9]+#}\n", b"x\n", "does not match 'x"),
        ("%K{hex8}%k", b"zz", "is not a hexadecimal number"),
        (r"%t %v\n", b"\xff v\n", "the topic is not UTF-8"),
        ("%d{strftime[%F]} %v", b"today v", "does not have the form %F"),
        ("%H %h{%k=%v;}%v", b"-1 v", "the number of headers is -1"),
        ("%K{0}%k", b"x", "the template matches nothing"),
        ("a%v\n", b"b\n", "'a' is expected, and there is 'b"),
    ],
)
def test_input_that_does_not_fit_is_named(template: str, data: bytes, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        read(template, data)
    good = {"%k %v\n": b"a b\n"}.get(template, b"")
    splitter = TemplateSplitter(input_template(template))
    with pytest.raises(BadInput):  # the records before it are read
        all_of(splitter, [good, data])


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("", "neither %v nor %k"),
        ("%p", "neither %v nor %k"),
        ("%k%v", "nothing divides the key from what follows"),
        ("%h%v", "nothing divides the headers"),
        ("%v%V", "nothing divides the value"),
        ("%v %V", "before its size"),
        ("%v %v", "the value comes twice"),
        ("%p %p %v", "the partition comes twice"),
        ("%d %d %v", "the timestamp comes twice"),
        ("%h{%k=%v;}%v", "write %H"),
        ("%H %h{%p=%v;}%v", "%p does not belong into"),
        ("%H %h{%k%v;}%v", "nothing divides the key"),
        ("%z %v", "there is no %z"),
        ("%v{unpack[i]}", "printed, not read"),
        ("%K{bool}%k", "printed, not read"),
        ("%v%", "lone %"),
        ("%a %v", "printed, not read"),
        ("%v{rot13}", "rot13"),
        ("%K{big7}%k", "{big7} is no form of a number"),
        ("%v{re#(#}", "is no regular expression"),
        ("%v{hex", "is not closed"),
        (r"%v\q", "is no escape"),
    ],
)
def test_wrong_templates_are_refused(template: str, why: str) -> None:
    with pytest.raises(BadTemplate, match=why):
        input_template(template)


def test_records_are_completed_by_options() -> None:
    complete = completed(key=b"k", headers=(("h", b"1"),), partition=2, null=b"", encode=bytes.upper)
    assert complete(InputRecord(b"v")) == InputRecord(b"V", b"k", (("h", b"1"),), 2)
    own = InputRecord(b"", b"", (("a", None),), 0, 5)
    assert complete(own) == InputRecord(None, None, (("a", None), ("h", b"1")), 0, 5)


def test_undelivered_lines_are_joined_and_bounded() -> None:
    lost = LineFailures()
    for number in (3, 5, 6, 7):
        lost.add(number, "too large.")
    assert list(lost.sentences("line")) == ["line 3: too large.", "lines 5 to 7: too large."]
    for number in range(10, 10 + 4 * MOST_ENTRIES, 2):
        lost.add(number, "too large.")
    assert len(list(lost.rows())) == MOST_ENTRIES
    assert list(lost.sentences("line"))[-1] == f"and {lost.count - 4 - (MOST_ENTRIES - 2)} more lines"


def rows_and_others(
    splitter: RowSplitter, chunks: Iterable[bytes], interpret: Callable[[bytes], InputRecord]
) -> list[InputRecord | None]:
    """The records of all lines in their order, with None for a line that is no record."""
    found: list[InputRecord | None] = []

    def add(lines: list[bytes]) -> None:
        for line in lines:
            try:
                found.append(interpret(line))
            except BadInput:
                found.append(None)

    for chunk in chunks:
        rows, count, _ = splitter.split(chunk)
        for batch in batches_of(rows, array("i"), 0, count):
            found.extend(InputRecord(each.value, each.key, each.headers) for each in open_batches(batch).records())
        add(splitter.others())
    add(splitter.finish())
    return found


@given(
    lines=st.lists(st.text("ab:-", max_size=8).map(str.encode), max_size=12),
    end=st.sampled_from([b"", b"x", b"a:b"]),
    delimiter=st.sampled_from([b"\n", b"\0", b"\r\n", b"--", b"b"]),
    separator=st.sampled_from([b"", b":", b"::", b"-"]),
    null=st.sampled_from([None, b"", b"-", b"a"]),
    key=st.sampled_from([None, b"", b"a", b"key"]),
    headers=st.sampled_from([(), (("h", b"1"), ("i", None))]),
    cuts=CUTS,
)
def test_rows_are_the_records_of_lines_that_are_read_one_by_one(
    lines: list[bytes],
    end: bytes,
    delimiter: bytes,
    separator: bytes,
    null: bytes | None,
    key: bytes | None,
    headers: Headers,
    cuts: list[int],
) -> None:
    data = delimiter.join(lines) + end
    key = None if separator else key
    complete = completed(key=key, headers=headers, partition=None, null=null, encode=None)
    divide = keyed_line(separator) if separator else InputRecord

    def interpret(line: bytes) -> InputRecord:
        return complete(divide(line))

    one_by_one: list[InputRecord | None] = []
    for line in all_of(LineSplitter(delimiter), [data]):
        try:
            one_by_one.append(interpret(line))
        except BadInput:
            one_by_one.append(None)
    splitter = RowSplitter(delimiter, separator, null, InputRecord(None, key, headers))
    assert rows_and_others(splitter, chunks_of(data, cuts), interpret) == one_by_one
