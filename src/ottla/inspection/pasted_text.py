"""Bytes in pasted text: hex digits, output of xxd, hexdump or Wireshark, or a bytes literal from a Python log.

The module does not interpret the bytes.
"""

from __future__ import annotations

import ast
import re
import string
from itertools import pairwise

_DUMPED = re.compile(
    r"^\s*([0-9a-f]{4,16}):?\s+((?:[0-9a-f]{2}){1,2}(?: {1,2}(?:[0-9a-f]{2}){1,2})*)(?:\s{2,}.*|\s*\|.*)?\s*$", re.I
)
"""A line of a dump: its position, bytes singly or in pairs, and perhaps the same bytes as characters."""
_END = re.compile(r"^\s*[0-9a-f]{4,16}:?\s*$", re.I)
"""The last line of hexdump: the position after the last byte."""
_PRINTABLE = frozenset(string.printable.encode())


class NotBytes(ValueError):
    """The text cannot be read as bytes. The message says why, and which texts can."""


def is_text(data: bytes) -> bool:
    return bool(data) and _PRINTABLE.issuperset(data)


def bytes_of(text: str) -> bytes:
    """Return the bytes that a text denotes. Raises `NotBytes`."""
    stripped = text.strip()
    if stripped[:2] in ("b'", 'b"'):
        return _literal(stripped)
    dumped = _dumped(stripped)
    data = _hex(stripped) if dumped is None else dumped
    if not data:
        raise NotBytes("The input is empty: give a frame as hex, or a file with --file.")
    return data


def _literal(text: str) -> bytes:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = None
    if not isinstance(value, bytes):
        raise NotBytes("The input is an incomplete bytes literal of Python: give all of it, with both quotes.")
    return value


def _dumped(text: str) -> bytes | None:
    """Return the bytes of a dump. Return None if the positions show that the text is not a dump. Raises `NotBytes`."""
    lines = [line for line in text.splitlines() if not _END.match(line)]
    found = [_DUMPED.match(line) for line in lines]
    rows = [(int(one[1], 16), bytes.fromhex(one[2].replace(" ", ""))) for one in found if one is not None]
    if not rows or len(rows) < len(lines) or rows[0][0] != 0 or (len(rows) == 1 and ":" not in lines[0] and "  " not in lines[0]):
        return None
    if any(at + len(data) != next_at for (at, data), (next_at, _) in pairwise(rows)):
        if all(":" in line for line in lines):
            raise NotBytes("Lines are missing in the dump: each should begin where the one before ends; give all of them.")
        return None
    return b"".join(data for _, data in rows)


def _hex(text: str) -> bytes:
    digits = "".join(text.split()).lower().replace("0x", "").replace(":", "").replace("\\x", "").replace(",", "")
    try:
        return bytes.fromhex(digits)
    except ValueError as error:
        wrong = next((digit for digit in digits if digit not in "0123456789abcdef"), "")
        reason = f"{wrong!r} is not a hex digit" if wrong else "a hex digit is missing: there is an odd number of them"
        raise NotBytes(f"The input is not hex: {reason}; give bytes as pairs of hex digits, or a file with --file.") from error
