"""The decoding of bytes fields in a frame: records, and values that clients put into fields of other messages.

The module uses `ottla.records` and a table of these fields. It prints nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ottla.inspection.tree import Lines, size_text
from ottla.records.batches.columns import Columns, Record, open_batches
from ottla.records.batches.header import HEADER_BYTES, MAGIC, MAGIC_POSITION, BadBatch, BatchHeader, batches, crc_is_valid
from ottla.records.compression import codecs
from ottla.records.message_sets.legacy import open_message_set
from ottla.wire.data import peek
from ottla.wire.data.control_records import ControlRecordTypeSchema, EndTxnMarker
from ottla.wire.faults import Malformed
from ottla.wire.inspection.tree import ARRAY, LEAF, STRUCT, ValueNode, plain_path, tree_of
from ottla.wire.schema import Message
from ottla.wire.stored_messages import INSIDE, record_types

LIMIT_BYTES = 64 * 1024 * 1024
"""The limit, in bytes, on memory for the records of one field."""

_HEADER_WIDTHS = (8, 4, 4, 1, 4, 2, 4, 8, 8, 8, 2, 4, 4)
_CONTROL = {
    0: "abort",
    1: "commit",
    2: "leader change",
    3: "snapshot header",
    4: "snapshot footer",
    5: "KRaft version",
    6: "voters",
}


@dataclass(slots=True)
class PayloadOpener:
    """A decoder of bytes fields.

    It decodes records of the internal topic `stored` further, and keeps at most `most` records of a batch.

    `faults` collects a sentence for each field that could not be decoded.
    """

    stored: str = ""
    most: int | None = None
    faults: list[str] = field(default_factory=list)

    def open_all(self, message: str, version: int, node: ValueNode, path: str = "") -> None:
        """Decode every field of a message whose bytes contain a known structure."""
        for child in node.below:
            here = child.name if not path else path + child.name if child.name.startswith("[") else f"{path}.{child.name}"
            if child.kind != LEAF:
                self.open_all(message, version, child, here)
            elif child.value and child.field is not None and child.field.kind == "records":
                self._records(child, f"{message} v{version}, {here}")
            elif child.value and (message, plain_path(here)) in INSIDE:
                _inside(child, INSIDE[message, plain_path(here)])

    # ---------------------------------------------------------------- records

    def _records(self, node: ValueNode, where: str) -> None:
        view = memoryview(node.value)
        start = node.end - len(view)
        node.kind, node.note, node.children = ARRAY, size_text(len(view)), []
        if len(view) <= MAGIC_POSITION:
            node.add(ValueNode("torn", LEAF, start, value=bytes(view), note="too short for a batch or message"))
        elif view[MAGIC_POSITION] >= MAGIC:
            self._batches(node, view, start, where)
        else:
            self._message_set(node, view, start, where)

    def _batches(self, node: ValueNode, view: memoryview, start: int, where: str) -> None:
        stop = 0
        try:
            for pos, header in batches(view):
                node.add(self._batch(view, pos, header, start, f"{where}[{len(node.below)}]"))
                stop = pos + header.size
        except BadBatch as bad:
            self.faults.append(f"{where} {bad}")
            return
        if stop < len(view):
            left = size_text(len(view) - stop)
            node.add(
                ValueNode(
                    "torn", LEAF, start + stop, value=None, note=f"{left} of a batch that is cut off, as fetches may end in one"
                )
            )

    def _batch(self, view: memoryview, pos: int, header: BatchHeader, start: int, where: str) -> ValueNode:
        node = ValueNode(f"batch at offset {header.base_offset}", STRUCT, start + pos, start + pos + header.size, children=[])
        at = start + pos
        for name, value, width in zip(header._fields, header, _HEADER_WIDTHS, strict=True):
            node.add(ValueNode(name, LEAF, at, at + width, value))
            at += width
        whole = view[pos : pos + header.size]
        notes = {child.name: child for child in node.below}
        notes["attributes"].note = attributes(header)
        notes["base_timestamp"].note, notes["max_timestamp"].note = moment(header.base_timestamp), moment(header.max_timestamp)
        notes["crc"].note = "right"
        if not crc_is_valid(whole):
            notes["crc"].note = "wrong: the batch was damaged"
            self.faults.append(f"{where} at byte {start + pos}: the CRC-32C of the batch is wrong.")
        try:
            opened = open_batches(whole, control=True, limit_bytes=LIMIT_BYTES)
        except (BadBatch, codecs.CodecFailed) as bad:
            self.faults.append(f"{where} at byte {start + pos + HEADER_BYTES}: its records cannot be opened: {bad}")
            return node
        self._rows(node, opened, header.is_control)
        return node

    def _message_set(self, node: ValueNode, view: memoryview, start: int, where: str) -> None:
        try:
            opened = open_message_set(view, limit_bytes=LIMIT_BYTES)
        except (BadBatch, codecs.CodecFailed) as bad:
            node.add(ValueNode("messages", LEAF, start, value=bytes(view)))
            self.faults.append(f"{where} {bad}")
            return
        magic = opened.runs[0].header if opened.runs else None
        kind = f"format {magic.magic}, {codecs.NAMES[magic.codec]}" if magic else "no whole message"
        inner = node.add(ValueNode("message set", STRUCT, start, node.end, note=kind, children=[]))
        self._rows(inner, opened, control=False)

    def _rows(self, node: ValueNode, opened: Columns, control: bool) -> None:
        shown = opened if self.most is None else opened.slice(0, self.most)
        rows = node.add(ValueNode("records", ARRAY, note=f"{len(opened)}", children=[]))
        found: list[Record] = shown.records()
        for index, record in enumerate(found):
            rows.add(self._row(index, record, control))
        if len(shown) < len(opened):
            rows.add(ValueNode("…", LEAF, note=f"{len(opened) - len(shown)} more: --all shows them"))

    def _row(self, index: int, record: Record, control: bool) -> ValueNode:
        node = ValueNode(f"[{index}]", STRUCT, children=[])
        node.add(ValueNode("offset", LEAF, value=record.offset))
        node.add(ValueNode("timestamp", LEAF, value=record.timestamp, note=moment(record.timestamp)))
        for item in _control(record) if control else self._item(record):
            node.add(item)
        if record.headers:
            node.add(_headers(record))
        return node

    def _item(self, record: Record) -> Iterator[ValueNode]:
        """Yield the key and the value of a record.

        Records of the internal topic are decoded as its messages if possible. Other keys and values stay bytes.
        """
        pair = record_types(self.stored).get(_type_of(record.key)) if self.stored and record.key else None
        if pair is None or record.key is None:
            yield ValueNode("key", LEAF, value=record.key)
            yield ValueNode("value", LEAF, value=record.value)
            return
        yield self._stored("key", pair[0], pair[0].WIRE.valid.start, record.key)
        if record.value is None:
            yield ValueNode("value", LEAF, note="a tombstone")
        else:
            yield self._stored("value", pair[1], _type_of(record.value), record.value)

    def _stored(self, name: str, cls: type[Message], version: int, data: bytes) -> ValueNode:
        if version not in cls.WIRE.valid:
            self.faults.append(f"{cls.__name__} has no version {version}: its value is shown as bytes.")
            return ValueNode(name, LEAF, value=data)
        node, fault = tree_of(cls, version, data, 2)
        if fault:
            self.faults.append(fault)
        self.open_all(cls.__name__, version, node)
        node.name, node.note = name, f"{cls.__name__} v{version}"
        _forget_places(node)
        return node


def _type_of(data: bytes | None) -> int:
    try:
        return peek(data or b"")
    except Malformed:
        return -1


def _headers(record: Record) -> ValueNode:
    """Return a record's headers as one line, because most records have few and small ones."""
    lines = Lines()
    node = ValueNode("headers", ARRAY, children=[], folded=True)
    texts = []
    for at, (name, value) in enumerate(record.headers):
        header = node.add(ValueNode(f"[{at}]", STRUCT, children=[]))
        header.add(ValueNode("key", LEAF, value=name))
        texts.append(f"{name} = {lines.value(header.add(ValueNode('value', LEAF, value=value)))}")
    node.note = ", ".join(texts)
    return node


def _control(record: Record) -> Iterator[ValueNode]:
    """Yield a control record's type and fields, such as the coordinator's epoch."""
    key, value = record.key or b"", record.value or b""
    root, _ = tree_of(ControlRecordTypeSchema, 0, key, 2)
    kind = next((child.value for child in root.below), -1)
    yield ValueNode("control", LEAF, value=kind, note=_CONTROL.get(kind, ""))
    marker, fault = tree_of(EndTxnMarker, 0, value, 2, whole=False)
    if kind in (0, 1) and not fault:
        yield from (ValueNode(child.name, LEAF, value=child.value) for child in marker.below)
    else:
        yield ValueNode("value", LEAF, value=record.value)


def _inside(node: ValueNode, cls: type[Message]) -> None:
    """Decode a value that a group member wrote for another member. A value in an unknown version stays bytes."""
    data = bytes(node.value)
    version = min(_type_of(data), cls.WIRE.valid.stop - 1)
    if version not in cls.WIRE.valid:
        return
    inner, fault = tree_of(cls, version, data, 2, whole=False)
    if fault:
        return
    _move(inner, node.end - len(data))
    node.kind, node.note, node.children = STRUCT, f"{cls.__name__} v{version}", inner.below


def _move(node: ValueNode, by: int) -> None:
    for child in node.below:
        child.start, child.end = child.start + by, child.end + by
        _move(child, by)


def _forget_places(node: ValueNode) -> None:
    node.start = node.end = -1
    for child in node.below:
        _forget_places(child)


# ------------------------------------------------------------------------- words


def attributes(header: BatchHeader) -> str:
    """Return the names of a batch's attributes."""
    codec = codecs.NAMES[header.codec] if header.codec < len(codecs.NAMES) else f"codec {header.codec}"
    codec = "uncompressed" if codec == "none" else codec
    words = [codec, "LogAppendTime" if header.timestamp_type else "CreateTime"]
    words += ["transactional"] if header.is_transactional else []
    words += ["control"] if header.is_control else []
    words += ["delete horizon"] if header.delete_horizon_ms is not None else []
    return ", ".join(words)


def moment(milliseconds: int) -> str:
    """Format a timestamp in UTC. Return an empty text for a negative one, and for one outside of Python's calendar."""
    try:
        when = datetime.fromtimestamp(milliseconds // 1000, UTC) if milliseconds >= 0 else None
    except (ValueError, OverflowError, OSError):
        return ""
    return f"{when:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z" if when else ""
