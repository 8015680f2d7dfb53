"""A tree of values as lines for people, and as plain values for JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

from ottla.wire.apis import API
from ottla.wire.errors import ERRORS
from ottla.wire.inspection.tree import ARRAY, LEAF, ValueNode

ONE_LINE = 170
"""The maximum length, in characters, of structs and arrays that are printed on one line."""
CUT_AT = 160
"""The number of characters shown of a text or of hex digits, unless all are requested."""


class Lines:
    """A printer of trees of `ValueNode`. With `places`, each line begins with the byte position of its value."""

    def __init__(self, *, places: bool = True, cut_at: int | None = CUT_AT) -> None:
        self._places = places
        self._cut_at = cut_at

    def of(self, node: ValueNode, depth: int = 0) -> Iterator[str]:
        for child in node.below:
            yield from self._lines(child, depth)

    def _lines(self, node: ValueNode, depth: int) -> Iterator[str]:
        if node.kind == LEAF:
            yield self._line(node, depth, self.leaf(node))
            return
        flat = self._flat(node)
        if flat is not None and (node.folded or len(flat) + 2 * depth <= ONE_LINE):
            yield self._line(node, depth, flat)
            return
        count = f"{len(node.below)}" if node.kind == ARRAY and not node.note else ""
        yield self._line(node, depth, ", ".join(filter(None, (count, node.note))))
        yield from self.of(node, depth + 1)

    def _line(self, node: ValueNode, depth: int, text: str) -> str:
        place = (f"{node.start:>7}  " if node.start >= 0 else " " * 9) if self._places else ""
        head = node.name if node.name.startswith("[") else f"{node.name}:"
        return f"{place}{'  ' * depth}{head} {text}".rstrip()

    def _flat(self, node: ValueNode) -> str | None:
        """Return a node as one line if it has only leaves and arrays of leaves. Return None if it has deeper nodes or notes."""
        if node.folded:
            return node.note
        if node.note:
            return None if node.below else node.note
        parts = [self._flat_part(child, node.kind != ARRAY) for child in node.below]
        if None in parts:
            return None
        if node.kind == ARRAY:
            return f"[{', '.join(filter(None, parts))}]"
        return ", ".join(f"{child.name}: {part}" for child, part in zip(node.below, parts, strict=True))

    def _flat_part(self, node: ValueNode, arrays: bool) -> str | None:
        if node.kind == LEAF:
            return self.leaf(node)
        return self._flat(node) if arrays and node.kind == ARRAY else None

    def leaf(self, node: ValueNode) -> str:
        """Format one value, with its meaning in parentheses."""
        note = node.note or meaning(node)
        if node.value is None and node.note:
            return node.note
        return f"{self.value(node)} ({note})" if note else self.value(node)

    def value(self, node: ValueNode) -> str:
        value = node.value
        if value is None or isinstance(value, bool):
            return "null" if value is None else str(value).lower()
        if isinstance(value, str):
            return self._cut(json.dumps(value, ensure_ascii=False), len(value.encode()))
        if not isinstance(value, bytes | bytearray | memoryview):
            return str(value)
        if is_uuid(node):
            return uuid_text(value)
        text = printable(value)
        if not value:
            return "empty"
        shown = self._cut(json.dumps(text, ensure_ascii=False) if text is not None else f"0x{bytes(value).hex()}", len(value))
        return shown if shown.endswith("bytes)") else f"{shown} ({size_text(len(value))})"

    def _cut(self, text: str, size: int) -> str:
        if self._cut_at is None or len(text) <= self._cut_at:
            return text
        return f"{text[: self._cut_at]}… ({size_text(size)})"


def size_text(size: int) -> str:
    return "1 byte" if size == 1 else f"{size} bytes"


def meaning(node: ValueNode) -> str:
    """Return the name of a value that is an error code or an API key. Return an empty string for values of other fields."""
    if node.field is None or node.value is None:
        return ""
    if node.name == "error_code":
        error = ERRORS.get(node.value)
        return error.name if error else "unknown error"
    if node.name in ("api_key", "request_api_key"):
        return API[node.value].name if node.value in API else "unknown API"
    return ""


def printable(data: bytes | bytearray | memoryview) -> str | None:
    """Return bytes as text if they are printable, else None."""
    try:
        text = str(data, "utf-8")
    except UnicodeDecodeError:
        return None
    return text if all(letter.isprintable() or letter in "\n\r\t" for letter in text) else None


def is_uuid(node: ValueNode) -> bool:
    return node.field is not None and node.field.kind == "16s"


def uuid_text(value: bytes | bytearray | memoryview) -> str:
    """Format 16 bytes as Kafka does: base64url without padding."""
    return base64.urlsafe_b64encode(bytes(value)).decode().rstrip("=")


def as_json(node: ValueNode) -> object:
    """Convert a tree to dictionaries, lists and plain values.

    Bytes become an object with their count, and with text if they are printable, else with hex digits.
    """
    if node.kind == ARRAY:
        return [as_json(child) for child in node.below]
    if node.kind != LEAF:
        return {child.name: as_json(child) for child in node.below}
    value = node.value
    if not isinstance(value, bytes | bytearray | memoryview):
        return value
    if is_uuid(node):
        return uuid_text(value)
    text = printable(value)
    return {"bytes": len(value), "text": text} if text is not None else {"bytes": len(value), "hex": bytes(value).hex()}
