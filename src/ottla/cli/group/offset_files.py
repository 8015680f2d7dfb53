"""Files of committed offsets: CSV as kafka-consumer-groups --export writes it, columns with blanks as rpk reads them, and JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ottla.errors import KafkaError

MOST = (1 << 63) - 1
COLUMNS = ("group", "topic", "partition", "offset")
_JSON = re.compile(r"\s*(\[\s*)?\{\s*[\"}]")
"""The beginning of JSON. CSV quotes a group id that has a quotation mark, so that it begins with one."""


class OffsetRow(NamedTuple):
    """A committed offset in a file. The group is None if the command line names the group."""

    group: str | None
    topic: str
    partition: int
    offset: int
    metadata: str = ""
    leader_epoch: int = -1


def csv_text(rows: Iterable[OffsetRow], *, groups: bool) -> str:
    """Return rows as CSV: topic,partition,offset, with `groups` preceded by the group. There is no line of names."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(row[not groups : 4] for row in rows)
    return text.getvalue()


def json_text(rows: Iterable[OffsetRow]) -> str:
    return "".join(f"{json.dumps(row._asdict(), ensure_ascii=False)}\n" for row in rows)


def parse_offsets(text: str, source: str) -> list[OffsetRow]:
    """Return the rows of a file, in either format. Raises `KafkaError` with the number of the first wrong line."""
    text = text.removeprefix("\ufeff")
    is_json = _JSON.match(text) is not None
    rows: list[OffsetRow] = []
    seen: set[tuple[str | None, str, int]] = set()
    for number, values in _json_values(text, source) if is_json else _csv_values(text, source):
        row = _row(values, f"{source}, line {number}")
        if row[:3] in seen:
            raise KafkaError(f"{source}, line {number}: {row.topic}-{row.partition} is there twice; remove one of the lines.")
        seen.add(row[:3])
        rows.append(row)
    if not rows:
        raise KafkaError(f"{source} has no offsets: its lines are topic,partition,offset or group,topic,partition,offset.")
    if len({row.group is None for row in rows}) > 1:
        raise KafkaError(f"{source} names a group in some lines only: name it in all of them, or in none.")
    return rows


def _csv_values(text: str, source: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for fields in reader:
            # rpk separates columns by blanks, which can otherwise be part of a group's id.
            cells = fields[0].split() if len(fields) == 1 else [*fields[:-3], *(field.strip() for field in fields[-3:])]
            if not any(cells) or tuple(cells) in (COLUMNS, COLUMNS[1:]):
                continue
            if len(cells) not in (3, 4):
                wanted = "topic,partition,offset or group,topic,partition,offset"
                raise KafkaError(
                    f"{source}, line {reader.line_num}: {len(cells)} columns ({','.join(cells)!r:.40}); a line is {wanted}."
                )
            yield reader.line_num, dict(zip(COLUMNS[-len(cells) :], cells, strict=True))
    except csv.Error as error:
        raise KafkaError(f"{source}, line {reader.line_num}: this is not CSV ({error}); correct it.") from None


def _json_values(text: str, source: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Yield the objects of lines of JSON, or of one array."""
    lines: Iterable[tuple[int, str]] = enumerate(text.split("\n"), 1)
    if text.lstrip().startswith("["):
        lines = [(1, text)]
    for number, line in lines:
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise KafkaError(f"{source}, line {number}: this is not JSON ({error}); write an object in each line.") from None
        for value in found if isinstance(found, list) else [found]:
            if not isinstance(value, dict):
                raise KafkaError(f"{source}, line {number}: {value!r:.40} is not an object with topic, partition and offset.")
            yield number, value


def _row(values: Mapping[str, object], where: str) -> OffsetRow:
    group, topic, metadata = values.get("group"), values.get("topic"), values.get("metadata") or ""
    if not isinstance(topic, str) or not topic:
        raise KafkaError(f"{where}: the topic is missing; a line is topic,partition,offset.")
    if not isinstance(metadata, str) or not isinstance(group, str | None) or group == "":
        raise KafkaError(f"{where}: a group and metadata are texts; correct them.")
    if _has_surrogates(f"{group}{topic}{metadata}"):
        raise KafkaError(f"{where}: the group, the topic or the metadata of {topic!r:.40} is not UTF-8; correct it.")
    partition = _number(values.get("partition"), f"{where}: a partition", (1 << 31) - 1)
    epoch = values.get("leader_epoch", -1)
    leader_epoch = -1 if epoch in (-1, None) else _number(epoch, f"{where}: a leader epoch", (1 << 31) - 1)
    return OffsetRow(group, topic, partition, _number(values.get("offset"), f"{where}: an offset", MOST), metadata, leader_epoch)


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)


def _number(value: object, name: str, most: int) -> int:
    text = str(value)
    if isinstance(value, bool | float) or not (text.isascii() and text.isdecimal()) or len(text) > 19 or int(text) > most:
        raise KafkaError(f"{name} is a whole number from 0 to {most}, not {value!r:.40}; correct it.")
    return int(text)
