"""Templates of records: every token of kcat and of rpk, every form, and what is no template."""

from __future__ import annotations

import datetime
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.record_format.output_template import BatchInfo, Template
from ottla.cli.record_format.tokens import BadTemplate, literal
from ottla.records.batches.builder import build
from ottla.records.batches.columns import open_batches
from ottla.records.batches.record import ConsumerRecord
from tests.unit.records.making import TIMES

RECORD = ConsumerRecord(343, 1_700_000_000_123, 0, b"key", b"value", (("H1", b"V1"), ("h2", None)), ("topic-é", 2))
NULLS = ConsumerRecord(0, -1, 1, None, None, (), ("t", 0))
BATCH = BatchInfo(
    4, 791, 1, "lz4", 3, is_transactional=True, is_control=False, log_start_offset=5, last_stable_offset=6, high_watermark=7
)


def printed(text: str, record: ConsumerRecord = RECORD, *, null: bytes = b"", utc: bool = True, number: int = 1) -> bytes:
    template = Template(text, null, utc=utc)
    (line,) = template.lines([record], BATCH, number)
    return line + template.end


KCAT = [
    ("%s", b"value"),
    ("%S", b"5"),
    ("%R", b"\0\0\0\5"),
    ("%k", b"key"),
    ("%K", b"3"),
    ("%T", b"1700000000123"),
    ("%h", b"H1=V1,h2="),
    ("%t", "topic-é".encode()),
    ("%p", b"2"),
    ("%o", b"343"),
    (r"a\n\r\t\x41\x00\\%%", b"a\n\r\tA\0\\%"),
    (r"Topic %t [%p] at offset %o: key %k: %s\n", "Topic topic-é [2] at offset 343: key key: value\n".encode()),
]
RPK = [
    ("%v|%V|%k|%K", b"value|5|key|3"),
    ("%T{ascii} %T{hex64} %T{hex32} %T{hex16} %T{hex8} %T{hex4} %T{hex}", b"8 0000000000000008 00000008 0008 08 8 8"),
    ("%K{big64}%K{big32}%K{big16}%K{big8}", b"\0\0\0\0\0\0\0\3\0\0\0\3\0\3\3"),
    ("%K{little64}%K{little32}%K{little16}%K{little8}", b"\3\0\0\0\0\0\0\0\3\0\0\0\3\0\3"),
    ("%K{byte}%K{bool}%K{number}", b"\3true3"),
    ("%H %p %o %e %x %y", b"2 2 343 4 791 1"),
    ("%[ %| %]", b"5 6 7"),
    ("%i", b"1"),
    ("%d", b"1700000000123"),
    ("%d{ascii} %d{hex}", b"1700000000123 18bcfe5687b"),
    ("%d{strftime[%F %T]}", b"2023-11-14 22:13:20"),
    ("%d{strftime##%F##} %d{strftime{%F}}", b"2023-11-14 2023-11-14"),
    ("%d{go[2006-01-02T15:04:05Z07:00]}", b"2023-11-14T22:13:20Z"),
    ("%d{go##Mon Jan 02 15:04:05.000 -07:00 2006##}", b"Tue Nov 14 22:13:20.123 +00:00 2023"),
    ("%d{go[100% Monday January 03:04 PM 06]}", b"100% Tuesday November 10:13 PM 23"),
    ("%k{hex} %k{base64} %v{base64} %v{base64raw}", b"6b6579 a2V5 dmFsdWU= dmFsdWU"),
    ("%t{hex}", "topic-é".encode().hex().encode()),
    ("%h{%k=%v,}", b"H1=V1,h2=,"),
    ("%h{ %K{ascii} %k %V %v{hex} }", b" 2 H1 2 5631  2 h2 -1  "),
    ("%h{%{%k%}}", b"{H1}{h2}"),
    ("%{%v%}", b"{value}"),
    ("%a{compression} %a{compression;number} %a{compression;hex8}", b"lz4 3 03"),
    ("%a{timestamp-type} %a{timestamp-type;big16}", b"0 \0\0"),
    ("%a{transactional-bit} %a{transactional-bit;bool}", b"1 true"),
    ("%a{control-bit} %a{control-bit;bool}", b"0 false"),
    ("%v{unpack[cc.s$]}", b"value"),
    ("%v{unpack#b#} %v{unpack{>H}}", b"118 30305"),
    ("%K{big32}%k%V{big32}%v", b"\0\0\0\3key\0\0\0\5value"),
]
OTTLA = [("%t{length}", b"8"), ("%v{json}", b'"value"'), ("", b""), ("only text\\n", b"only text\n")]


@pytest.mark.parametrize(("text", "expected"), [*KCAT, *RPK, *OTTLA])
def test_every_token_is_printed_as_kcat_and_rpk_print_it(text: str, expected: bytes) -> None:
    assert printed(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%v|%k|%V|%K|%S", b"NULL|NULL|-1|-1|-1"),
        ("%v{hex}|%k{base64}", b"NULL|NULL"),
        ("%R", b"\xff\xff\xff\xff"),
        ("%T %d %d{strftime[%F]}", b"-1 -1 -"),
        ("%h|%h{%k}|%H", b"||0"),
        ("%a{timestamp-type}", b"-1"),
        ("%K{hex8}%K{bool}", b"fftrue"),
    ],
)
def test_nulls_and_missing_times_have_their_text(text: str, expected: bytes) -> None:
    assert printed(text, NULLS, null=b"NULL") == expected


def test_records_are_numbered_and_each_has_a_line() -> None:
    template = Template("%i:%v\\n")
    assert template.lines([RECORD, NULLS], first=7) == [b"7:value", b"8:"]
    assert (template.end, template.needs_batches) == (b"\n", False)
    assert Template("%i").lines([RECORD, NULLS], first=7) == [b"7", b"8"]
    assert [Template(each).needs_batches for each in ("%e", "%a{control-bit}", "%]", "%o")] == [True, True, True, False]


def test_times_are_local_without_utc() -> None:
    local = datetime.datetime.fromtimestamp(1_700_000_000, datetime.UTC).astimezone().strftime("%F %T")
    assert printed("%d{strftime[%F %T]}", utc=False) == local.encode()
    offset = datetime.datetime.fromtimestamp(1_700_000_000, datetime.UTC).astimezone().isoformat()[-6:]
    assert printed("%d{go[Z07:00]}", utc=False) == offset.encode()


def test_a_time_that_no_calendar_has_is_printed_as_a_number() -> None:
    assert printed("%d{strftime[%F]}", RECORD._replace(timestamp=1 << 62)) == b"%d" % (1 << 62)


@pytest.mark.parametrize(
    ("letters", "data", "expected"),
    [
        ("<hH>hH", struct.pack("<hH", -2, 3) + struct.pack(">hH", -4, 5), b"-23-45"),
        ("bxB", b"\xff\xff", b"-1 255"),
        ("iIqQ", struct.pack(">iIqQ", -1, 2, -3, 4), b"-12-34"),
        ("c$", b"ab", b"a<unpack: bytes are left>"),
        ("i", b"ab", b"<unpack: too short>"),
        ("cs$", b"abc", b"abc"),
    ],
)
def test_packed_numbers_are_printed_by_their_letters(letters: str, data: bytes, expected: bytes) -> None:
    assert printed(f"%v{{unpack[{letters}]}}", RECORD._replace(value=data)) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("%z", "there is no %z"),
        ("%", "lone %"),
        ("100%", "lone %"),
        ("\\q", "\\q is no escape"),
        ("\\xg1", "\\x is no escape"),
        ("\\", "is no escape"),
        ("%v{zip}", "{zip} is no form of a text"),
        ("%o{big31}", "{big31} is no form of a number"),
        ("%v{hex", "is not closed"),
        ("%a", "%a has no attribute ''"),
        ("%a{color}", "%a has no attribute 'color'"),
        ("%a{compression;big31}", "is no form of a number"),
        ("%v{unpack[z]}", "unpack has no letter 'z'"),
        ("%v{unpack}", "lacks its brackets"),
        ("%d{strftime%F}", "lacks its brackets"),
        ("%d{time[%F]}", "is no form of a number"),
        ("%h{%o%e}", "%h{…} has only"),
        ("%v{re#a#}", "can be read, not printed"),
    ],
)
def test_what_is_no_template_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(BadTemplate) as caught:
        Template(text)
    assert reason in str(caught.value)


@given(st.binary(max_size=50), st.text(max_size=20).filter(lambda text: "\\" not in text))
def test_any_bytes_can_be_read_back(value: bytes, text: str) -> None:
    record = RECORD._replace(value=value)
    shown = printed(f"%V{{big32}}%v{literal(text)}%v{{hex}}", record)
    assert shown == len(value).to_bytes(4, "big") + value + text.encode() + value.hex().encode()


@given(st.text(max_size=50))
def test_texts_are_json_strings(text: str) -> None:
    assert (
        json.loads(printed("%v{json}", RECORD._replace(value=text.encode(errors="replace"))))
        == text.encode(errors="replace").decode()
    )


PLAIN_PIECES = st.sampled_from(["%v", "%s", "%k", "%t", "%p", "%o", "%d", "%T", "%V", "%S", "%K", "%%", r"\n", "|", " "])
RECORDS = st.lists(st.tuples(st.none() | st.binary(max_size=9), st.none() | st.binary(max_size=9), TIMES), min_size=1, max_size=9)


@given(pieces=st.lists(PLAIN_PIECES, min_size=1, max_size=6), records=RECORDS, null=st.binary(max_size=3))
def test_usual_templates_print_columns_as_they_print_records(
    pieces: list[str], records: list[tuple[bytes | None, bytes | None, int]], null: bytes
) -> None:
    template = Template("".join(pieces), null)
    keys, values, times = (list(column) for column in zip(*records, strict=True))
    columns = open_batches(build(keys, values, times))
    lines = template.line_format("topic-é", 2)
    assert lines is not None
    expected = b"".join(line + template.end for line in template.lines(columns.records(("topic-é", 2))))
    assert b"".join(bytes(block.data) for block in lines.blocks(columns)) == expected


@pytest.mark.parametrize("text", ["%v{hex}", "%h", "%i %v", "%o{big64}", "%e", "%d{strftime[%F]}", "%t{length}", "%H"])
def test_templates_of_other_tokens_need_records(text: str) -> None:
    assert Template(text).line_format("t", 0) is None
