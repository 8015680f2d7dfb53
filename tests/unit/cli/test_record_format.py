"""Records that `ottla consume` prints come back through `ottla produce`, and the documentation has every token."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.cli.consume.renderers import JsonRendering, RecordRun
from ottla.cli.consume.values import AUTO, Binary, decoder
from ottla.cli.record_format.input_records import InputRecord
from ottla.cli.record_format.input_steps import TemplateSplitter
from ottla.cli.record_format.input_template import input_template
from ottla.cli.record_format.json_records import json_line, json_lines, json_record
from ottla.cli.record_format.output_template import NO_BATCH, Template
from ottla.cli.record_format.tokens import LITERALS, TOKENS, BadTemplate, literal, pieces_of
from ottla.records.batches.record import ConsumerRecord

BYTES = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=4), BYTES), max_size=3).map(tuple)
RECORDS = st.builds(
    lambda offset, time, key, value, headers, partition: ConsumerRecord(offset, time, 0, key, value, headers, ("flüge", partition)),
    st.integers(0, 1 << 62),
    st.integers(0, 1 << 42),
    BYTES,
    BYTES,
    HEADERS,
    st.integers(0, 99),
)
WIDE = st.sampled_from(["big32", "big64", "little32", "little64", "hex32", "hex64"])
TEXT = st.sampled_from(["", "{hex}", "{base64}", "{base64raw}"])
BETWEEN = st.text(max_size=5).filter(lambda text: "\\" not in text).map(literal)


def sized(size: str, text: str, form: str, encoding: str) -> str:
    return f"%{size}{{{form}}}%{text}{encoding}"


@st.composite
def templates(draw: st.DrawFn) -> str:
    """Return a template with sizes, of all fields in any order, with texts between them."""
    of_header = sized("K", "k", draw(WIDE), draw(TEXT)) + draw(BETWEEN) + sized("V", "v", draw(WIDE), draw(TEXT))
    fields = [
        sized("K", "k", draw(WIDE), draw(TEXT)),
        sized(draw(st.sampled_from("VS")), draw(st.sampled_from("vs")), draw(WIDE), draw(TEXT)),
        sized("T", "t", draw(st.sampled_from(["big8", "hex16", "byte"])), draw(TEXT)),
        f"%H{{{draw(WIDE)}}}%h{{{of_header}}}",
        f"%p{{{draw(WIDE)}}}",
        f"%d{{{draw(st.sampled_from(['big64', 'little64', 'hex64']))}}}",
        f"%o{{{draw(st.sampled_from(['big64', 'hex64']))}}}",
    ]
    return "".join(field + draw(BETWEEN) for field in draw(st.permutations(fields)))


def sent(record: ConsumerRecord, topic: str | None) -> InputRecord:
    return InputRecord(record.value, record.key, record.headers, record.partition, record.timestamp, topic)


@settings(max_examples=40)
@given(templates(), st.lists(RECORDS, max_size=4))
def test_a_template_with_sizes_keeps_any_record(text: str, records: Sequence[ConsumerRecord]) -> None:
    printed = Template(text)
    data = b"".join(line + printed.end for line in printed.lines(records))
    splitter = TemplateSplitter(input_template(text))
    assert [*splitter.split(data), *splitter.finish()] == [sent(record, "flüge") for record in records]


@settings(max_examples=40)
@given(st.lists(RECORDS, max_size=4))
def test_json_keeps_any_record(records: list[ConsumerRecord]) -> None:
    decode = decoder(AUTO, None, Binary.BASE64)
    lines = JsonRendering(decode, decode).lines(RecordRun(records, NO_BATCH), 1)
    assert [json_record(line) for line in lines] == [sent(record, None) for record in records]


@pytest.mark.parametrize("value", [b"\x81\xa1a\xcc\xc8", b"\x92\xc4\x01\xff\xc0", b'{"base64": "YQ=="}', b"\xef\xbb\xbf"])
def test_json_of_bytes_that_are_of_a_format_by_chance_keeps_them(value: bytes) -> None:
    record = ConsumerRecord(0, 0, 0, None, value, (), ("t", 0))
    (line,) = JsonRendering(None, decoder(AUTO, None, Binary.BASE64)).lines(RecordRun([record], NO_BATCH), 1)
    found = json_record(line)
    assert found is not None
    assert found.value == value


@pytest.mark.parametrize("letter", TOKENS)
def test_the_documentation_has_every_token(letter: str) -> None:
    _, meaning, _, field, kcat, rpk = TOKENS[letter]
    read = {None: "no", "": "left out"}.get(field, "yes")
    cells = (f"`%{letter}`", meaning, "yes" if kcat else "", "yes" if rpk else "", read)
    row = " | ".join(cell.replace("%|", "%\\|") for cell in cells)
    assert f"| {row} |" in (Path(__file__).parents[3] / "docs" / "command.md").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("letter", [chr(code) for code in range(32, 127) if chr(code) not in {*TOKENS, *LITERALS}])
def test_any_other_character_is_no_token(letter: str) -> None:
    with pytest.raises(BadTemplate, match="there is no"):
        pieces_of(f"%{letter}")


@given(st.lists(RECORDS, max_size=5))
def test_many_records_have_the_json_of_each(records: list[ConsumerRecord]) -> None:
    assert json_lines(records) == [json_line(record, NO_BATCH, record.key, record.value) for record in records]
