"""One frame of Kafka 0.7 as a tree. Knows its requests and responses, and opens its message sets as far as they are sound."""

from __future__ import annotations

from ottla.cli.frames import Frame
from ottla.cli.names import NoSuchName
from ottla.records.batch import BadBatch
from ottla.records.codecs import CodecFailed
from ottla.records.kafka07 import messages, whole_bytes
from ottla.wire import kafka07
from ottla.wire.inspection.tree import ARRAY, LEAF, STRUCT, ValueNode, parent_of

LIMIT_BYTES = 64 * 1024 * 1024
"""The most memory that the messages of one set may take."""


def request(data: bytes, most: int | None) -> Frame:
    """Read a request, which says itself what it is; `most` bounds the messages shown of a set."""
    return _frame("request", kafka07.seen_request(data), data, most)


def response(name: str, data: bytes, most: int | None) -> Frame:
    """Read a response to a request of this name. Raises `NoSuchName`."""
    answered = {kafka07.title(of).removesuffix("Request").lower(): found for of, found in kafka07.RESPONSES.items()}
    wanted = name.lower().replace("_", "").removesuffix("response").removesuffix("request")
    if wanted not in answered:
        raise NoSuchName(f"In Kafka 0.7 nothing answers {name!r}: Fetch, MultiFetch and Offsets have responses.")
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
        return kafka07.ERRORS.get(value, "no error of Kafka 0.7").rstrip(".")
    if name == "type" and isinstance(value, int) and 0 <= value < len(kafka07.REQUESTS):
        return kafka07.title(kafka07.REQUESTS[value]).removesuffix("Request")
    return {-1: "latest", -2: "earliest"}.get(value, "") if name == "time" and isinstance(value, int) else ""


def _open(frame: Frame, node: ValueNode, path: str, most: int | None) -> None:
    """Replace the bytes of a set by its messages."""
    view = memoryview(node.value)
    node.kind, node.children, node.note = ARRAY, [], f"{len(view)} bytes"
    try:
        for index, message in enumerate(messages(view, limit_bytes=LIMIT_BYTES)):
            if most is not None and index >= most:
                node.add(ValueNode("…", LEAF, note="and more: --all shows them"))
                break
            row = node.add(ValueNode(f"[{index}]", STRUCT, children=[]))
            row.add(ValueNode("next_offset", LEAF, value=message.next_offset))
            row.add(ValueNode("magic", LEAF, value=message.magic))
            row.add(ValueNode("payload", LEAF, value=message.payload))
        left = len(view) - whole_bytes(view)
        if left:
            node.add(ValueNode("…", LEAF, note=f"{left} bytes of a message that is cut off"))
    except (BadBatch, CodecFailed) as fault:
        frame.faults.append(f"{path}: {fault}")
