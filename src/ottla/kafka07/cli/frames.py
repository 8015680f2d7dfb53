"""One frame of Kafka 0.7 as a tree: requests and responses, with the intact messages of their message sets."""

from __future__ import annotations

from ottla.inspection.api_names import NoSuchName
from ottla.inspection.frames import Frame
from ottla.kafka07 import wire as kafka07
from ottla.kafka07.records.messages import RawMessage07, inner_set, raw_messages
from ottla.records.batches.header import BadBatch
from ottla.records.compression.codecs import NAMES, SNAPPY, CodecFailed
from ottla.wire.inspection.tree import ARRAY, LEAF, STRUCT, ValueNode, parent_of

LIMIT_BYTES = 64 * 1024 * 1024
"""The limit, in bytes, on memory for the messages of one set."""


def request(data: bytes, most: int | None) -> Frame:
    """Read a request, whose type is in its header. Show at most `most` messages of a set, or all if None."""
    return _frame("request", kafka07.seen_request(data), data, most)


def response(name: str, data: bytes, most: int | None) -> Frame:
    """Read a response to the request called `name`. Show at most `most` messages of a set. Raises `NoSuchName`."""
    answered = {kafka07.title(of).removesuffix("Request").lower(): found for of, found in kafka07.RESPONSES.items()}
    wanted = name.lower().replace("_", "").removesuffix("response").removesuffix("request")
    if wanted not in answered:
        raise NoSuchName(f"Kafka 0.7 has no response to {name!r}: choose Fetch, MultiFetch or Offsets.")
    return _frame("response", kafka07.seen_response(answered[wanted], data), data, most)


def _frame(kind: str, seen: kafka07.Seen07, data: bytes, most: int | None) -> Frame:
    name = kafka07.title(seen.message).removesuffix(kind.capitalize()) if seen.message else ""
    root = ValueNode("", STRUCT, 0, children=[])
    frame = Frame(kind, name, -1, len(data), body=root, release="0.7")
    branches = {"": root}
    for leaf in seen.leaves:
        parent, own = parent_of(branches, leaf.path, leaf.start)
        node = parent.add(ValueNode(own, LEAF, leaf.start, leaf.end, leaf.value, note=_note(own, leaf.value)))
        if own == "messages" and len(leaf.value):
            _open(frame, node, leaf.path, most)
    if seen.fault:
        frame.faults.append(str(seen.fault))
    return frame


def _note(name: str, value: object) -> str:
    if name == "error_code" and isinstance(value, int):
        return kafka07.ERRORS.get(value, "not an error of Kafka 0.7").rstrip(".")
    if name == "type" and isinstance(value, int) and 0 <= value < len(kafka07.REQUESTS):
        return kafka07.title(kafka07.REQUESTS[value]).removesuffix("Request")
    return {-1: "latest", -2: "earliest"}.get(value, "") if name == "time" and isinstance(value, int) else ""


def _open(frame: Frame, node: ValueNode, path: str, most: int | None) -> None:
    """Replace the bytes of the message set in `node` by child nodes, one for each message."""
    view = memoryview(node.value)
    node.kind, node.children, node.note = ARRAY, [], f"{len(view)} bytes"
    try:
        left = len(view) - _Opened07(most).add_to(node, view, 0)
        if left:
            node.add(ValueNode("…", LEAF, note=f"{left} bytes of a message that is cut off"))
    except (BadBatch, CodecFailed) as fault:
        frame.faults.append(f"{path}: {fault}")


class _Opened07:
    """The display of up to `most` messages of a set, nested ones included, within one limit of memory."""

    def __init__(self, most: int | None) -> None:
        self._left = most
        self._limit_bytes = LIMIT_BYTES

    def add_to(self, node: ValueNode, view: memoryview, depth: int) -> int:
        """Add a row for each whole message in `view` below a node; return their size. Raises `BadMessage` and `CodecFailed`."""
        end = 0
        for index, message in enumerate(raw_messages(view)):
            if self._left is not None:
                if self._left <= 0:
                    node.add(ValueNode("…", LEAF, note="and more: --all shows them"))
                    return len(view)
                self._left -= 1
            end = message.end
            row = node.add(ValueNode(f"[{index}]", STRUCT, children=[]))
            if not depth:
                row.add(ValueNode("next_offset", LEAF, value=end))
            row.add(ValueNode("magic", LEAF, value=message.magic))
            if message.codec:
                self._add_compressed(row, message, depth)
            else:
                row.add(ValueNode("payload", LEAF, value=message.payload))
        return end

    def _add_compressed(self, row: ValueNode, message: RawMessage07, depth: int) -> None:
        """Add a message's codec and its nested set below its row."""
        row.add(ValueNode("codec", LEAF, value=message.codec, note=NAMES[message.codec] if message.codec <= SNAPPY else ""))
        inner = inner_set(message, self._limit_bytes, depth)
        self._limit_bytes -= len(inner)
        opened = row.add(ValueNode("messages", ARRAY, children=[], note=f"{len(message.payload)} bytes, {len(inner)} opened"))
        left = len(inner) - self.add_to(opened, inner, depth + 1)
        if left:
            opened.add(ValueNode("…", LEAF, note=f"{left} bytes of a message that is cut off"))
