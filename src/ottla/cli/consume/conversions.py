"""The forms in which templates print numbers, bytes and times: the modifiers in braces, such as `{big32}` or `{base64}`. Pure."""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

_WIDTHS = {f"{kind}{bits}": (kind, bits) for kind in ("hex", "big", "little") for bits in (64, 32, 16, 8)} | {"hex4": ("hex", 4)}
_CLOSING = {"[": "]", "{": "}", "#": "#"}
_UNPACKED = "bBhHiIqQ"
_GO = {
    "2006": "%Y", "January": "%B", "Jan": "%b", "Monday": "%A", "Mon": "%a", "MST": "%Z", "-0700": "%z", "01": "%m", "02": "%d",
    "15": "%H", "03": "%I", "04": "%M", "05": "%S", "06": "%y", "PM": "%p", ".000000": ".%f", ".000": ".\3", "Z07:00": "\1",
    "-07:00": "\2", "%": "%%",
}  # fmt: skip
"""The parts of a layout of Go's time, and the codes of strftime. Milliseconds and offsets with a colon have no code before 3.12."""
_GO_PARTS = re.compile("|".join(map(re.escape, sorted(_GO, key=len, reverse=True))))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BadTemplate(ValueError):
    """A template that cannot be compiled; the message is a clause about the reason."""


def number_format(modifier: str) -> Callable[[int], bytes] | None:
    """Return the conversion of a number; None for decimal digits. Raises `BadTemplate`."""
    if modifier in ("", "ascii", "number"):
        return None
    if modifier == "bool":
        return lambda number: b"true" if number else b"false"
    if modifier == "byte":
        return lambda number: bytes((number & 0xFF,))
    if modifier == "hex":
        return lambda number: b"%x" % (number & 0xFFFFFFFFFFFFFFFF)
    if modifier not in _WIDTHS:
        raise BadTemplate(f"{{{modifier}}} is no form of a number: ascii, bool, byte, hex, {', '.join(_WIDTHS)} are")
    kind, bits = _WIDTHS[modifier]
    mask = (1 << bits) - 1
    if kind == "hex":
        return lambda number: b"%0*x" % (bits // 4, number & mask)
    if kind == "big":
        return lambda number: (number & mask).to_bytes(bits // 8, "big")
    return lambda number: (number & mask).to_bytes(bits // 8, "little")


def text_format(modifier: str) -> Callable[[bytes], bytes] | None:
    """Return the conversion of bytes; None to print them as they are. Raises `BadTemplate`."""
    if not modifier:
        return None
    if modifier.startswith("unpack"):
        return unpack_format(_strip_brackets(modifier.removeprefix("unpack"), "unpack"))
    found: dict[str, Callable[[bytes], bytes]] = {
        "hex": lambda data: data.hex().encode(),
        "base64": base64.b64encode,
        "base64raw": lambda data: base64.b64encode(data).rstrip(b"="),
        "json": lambda data: json.dumps(data.decode(errors="replace"), ensure_ascii=False).encode(),
    }
    if modifier not in found:
        raise BadTemplate(f"{{{modifier}}} is no form of bytes: {', '.join(found)} and unpack[…] are")
    return found[modifier]


def _strip_brackets(text: str, name: str) -> str:
    """Return the text within any number of brackets, braces and number signs, such as `[%F]` or `##%F##`. Raises `BadTemplate`."""
    inner = text
    while inner[:1] in _CLOSING and len(inner) > 1 and inner.endswith(_CLOSING[inner[0]]):
        inner = inner[1:-1]
    if inner == text:
        raise BadTemplate(f"{name}{text} lacks its brackets: write {name}[…]")
    return inner


def unpack_format(letters: str) -> Callable[[bytes], bytes]:
    """Return the conversion of packed numbers into text, by the letters of kcat and rpk. Raises `BadTemplate`.

    < and > set the order of bytes, which is big-endian at first. b, B, h, H, i, I, q and Q are numbers, c and . a byte, s the rest,
    x a blank, and $ the end.
    """
    if wrong := [letter for letter in letters if letter not in "<>s$xc. " and letter not in _UNPACKED]:
        raise BadTemplate(f"unpack has no letter {wrong[0]!r}: <, >, x, b, B, h, H, i, I, q, Q, c, ., s and $ are its letters")

    def unpack(data: bytes) -> bytes:
        order, at, shown = ">", 0, b""
        for letter in letters:
            if letter in "<>":
                order = letter
            elif letter == "s":
                shown, at = shown + data[at:], len(data)
            elif letter == "$":
                if at != len(data):
                    return shown + b"<unpack: bytes are left>"
            elif letter in "x ":
                shown += b" "
            else:
                code = order + ("c" if letter == "." else letter)
                size = struct.calcsize(code)
                if len(data) < at + size:
                    return shown + b"<unpack: too short>"
                (part,) = struct.unpack_from(code, data, at)
                shown += part if isinstance(part, bytes) else str(part).encode()
                at += size
        return shown

    return unpack


def time_format(modifier: str, *, utc: bool) -> Callable[[int], bytes] | None:
    """Return the conversion of a timestamp by strftime or by a layout of Go; None for a form of numbers. Raises `BadTemplate`."""
    if modifier.startswith("strftime"):
        layout = _strip_brackets(modifier.removeprefix("strftime"), "strftime")
    elif modifier.startswith("go"):
        layout = _GO_PARTS.sub(lambda part: _GO[part[0]], _strip_brackets(modifier.removeprefix("go"), "go"))
    else:
        return None

    def shown(ms: int) -> bytes:
        if ms < 0:
            return b"-"
        try:
            moment = _EPOCH + timedelta(milliseconds=ms)
            moment = moment if utc else moment.astimezone()
            text = moment.strftime(layout)
        except (OverflowError, ValueError, OSError):
            return b"%d" % ms
        offset = moment.strftime("%z")
        offset = f"{offset[:3]}:{offset[3:]}"
        zone = "Z" if utc else offset
        return text.replace("\3", f"{ms % 1000:03}").replace("\1", zone).replace("\2", offset).encode()

    return shown
