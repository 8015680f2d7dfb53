"""The forms of numbers, texts and times in templates, such as `{big32}` or `{base64}`: how each is printed and read. Pure.

A form that can only be printed has no reader, since its end in the input is not known.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from ottla.cli.record_format.tokens import BadTemplate

SHOWN = 20
"""The number of bytes of the input that a message shows."""
_SIGNED_BYTES = 4
"""The size in bytes from which on numbers are signed, as in kcat: -1 is null. Smaller ones have no room for a sign."""
NumberReader = Callable[[bytes, int, bool], tuple[int, int]]
"""Reads a number: from data, position and whether the input has ended, to the number and the position behind it."""


class BadInput(ValueError):
    """Raised for input that is not a valid record. The caller adds the line number to the text."""


class Incomplete(Exception):
    """Raised if the input ends within a record, so that the record is parsed again when more input has arrived."""


class NumberForm(NamedTuple):
    """A form in which numbers are printed and read. `encode` is None for decimal digits."""

    encode: Callable[[int], bytes] | None
    read: NumberReader | None


def number_form(name: str | None) -> NumberForm:
    """Return the form of a number by its name in braces. Raises `BadTemplate`."""
    if name in (None, "", "ascii", "number"):
        return NumberForm(None, _decimal)
    if name == "bool":
        return NumberForm(lambda number: b"true" if number else b"false", None)
    if name == "hex":
        return NumberForm(lambda number: b"%x" % (number & 0xFFFFFFFFFFFFFFFF), None)
    found = re.fullmatch(r"(big|little)(8|16|32|64)|hex(4|8|16|32|64)", "big8" if name == "byte" else name or "")
    if found is None:
        known = "ascii, big8 to big64, little8 to little64, byte, hex, hex4 to hex64 or bool"
        raise BadTemplate(f"{{{name}}} is no form of a number: use {known}")
    if found[3]:
        return _hex_form(int(found[3]) // 4)
    return _binary_form("big" if found[1] == "big" else "little", int(found[2]) // 8)


_DIGITS = re.compile(rb"-?\d+")


def _decimal(data: bytes, at: int, is_end: bool) -> tuple[int, int]:
    found = _DIGITS.match(data, at, at + SHOWN)
    if not is_end and (len(data) == at or data[at : at + 2] == b"-" or (found and found.end() == len(data))):
        raise Incomplete
    if found is None:
        raise BadInput(f"a number is expected, and there is {shown_at(data, at)}.")
    return int(found[0]), found.end()


def _hex_form(digits: int) -> NumberForm:
    mask = (1 << 4 * digits) - 1

    def read(data: bytes, at: int, is_end: bool) -> tuple[int, int]:
        raw = _exactly(data, at, digits, is_end)
        try:
            number = int(raw, 16)
        except ValueError:
            raise BadInput(f"{shown(raw)} is not a hexadecimal number of {digits} digits.") from None
        return number - (mask + 1 if digits >= 2 * _SIGNED_BYTES and number > mask // 2 else 0), at + digits

    return NumberForm(lambda number: b"%0*x" % (digits, number & mask), read)


def _binary_form(order: Literal["big", "little"], count: int) -> NumberForm:
    mask = (1 << 8 * count) - 1

    def read(data: bytes, at: int, is_end: bool) -> tuple[int, int]:
        raw = _exactly(data, at, count, is_end)
        return int.from_bytes(raw, order, signed=count >= _SIGNED_BYTES), at + count

    return NumberForm(lambda number: (number & mask).to_bytes(count, order), read)


def _exactly(data: bytes, at: int, count: int, is_end: bool) -> bytes:
    raw = data[at : at + count]
    if len(raw) < count:
        if not is_end:
            raise Incomplete
        raise BadInput(f"a number of {count} bytes is expected, and the input ends after {len(raw)}.")
    return raw


class TextForm:
    """A form in which text is printed and read: here, unchanged bytes; subclasses have other forms.

    `needs_end` says that in the input, only the text that follows in the template, or a size, ends the text. Otherwise `end` finds
    the end.
    """

    needs_end = True
    can_print = can_read = True

    def encode(self, data: bytes) -> bytes:
        return data

    def encoded_size(self, size: int) -> int:
        """Return how many bytes of the input represent `size` bytes of text."""
        return size

    def decode(self, raw: bytes) -> bytes:
        """Return the bytes that a part of the input represents. Raises `BadInput`."""
        return raw

    def end(self, data: bytes, at: int, is_end: bool) -> int:
        """Return the position after the text that begins at `at`. Raises `Incomplete` and `BadInput`."""
        return len(data)


class _HexText(TextForm):
    """Two hexadecimal digits for each byte."""

    def encode(self, data: bytes) -> bytes:
        return data.hex().encode()

    def encoded_size(self, size: int) -> int:
        return 2 * size

    def decode(self, raw: bytes) -> bytes:
        try:
            return binascii.unhexlify(raw)
        except ValueError:
            raise BadInput(f"{shown(raw)} is not hexadecimal.") from None


class _Base64Text(TextForm):
    """Base64, with or without padding."""

    def __init__(self, *, is_padded: bool) -> None:
        self._is_padded = is_padded

    def encode(self, data: bytes) -> bytes:
        return base64.b64encode(data) if self._is_padded else base64.b64encode(data).rstrip(b"=")

    def encoded_size(self, size: int) -> int:
        return -(-size // 3) * 4 if self._is_padded else -(-size * 4 // 3)

    def decode(self, raw: bytes) -> bytes:
        try:
            return base64.b64decode(raw if self._is_padded else raw + b"=" * (-len(raw) % 4), validate=True)
        except ValueError:
            raise BadInput(f"{shown(raw)} is not base64.") from None


class _JsonText(TextForm):
    """The form JSON: a string in output, any JSON value in input. The value shows its own end, and is sent unchanged."""

    needs_end = False

    def encode(self, data: bytes) -> bytes:
        return json.dumps(data.decode(errors="replace"), ensure_ascii=False).encode()

    def decode(self, raw: bytes) -> bytes:
        try:
            json.loads(raw)
        except (ValueError, RecursionError):
            raise BadInput(f"{shown(raw)} is not JSON.") from None
        return raw

    def end(self, data: bytes, at: int, is_end: bool) -> int:
        depth = 0
        for part in _JSON_PARTS.finditer(data, at):
            if part.end() == len(data) and not is_end and not (depth == 1 and part[0] in b"}]"):
                raise Incomplete
            if part[0] == b'"':  # the string's end is still to come
                break
            depth += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(part[0], 0)
            if depth <= 0:
                return part.end()
        if not is_end:
            raise Incomplete
        return len(data)


_JSON_PARTS = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]|[^\s"{}\[\],:]+|"', re.DOTALL)
"""Strings, brackets, numbers or words, and the beginning of a string that is not complete."""


class _MatchedText(TextForm):
    """Everything that a regular expression matches in the input."""

    needs_end = can_print = False

    def __init__(self, pattern: str) -> None:
        """Compile the regular expression that the text must match. Raises `BadTemplate`."""
        try:
            self._pattern = re.compile(pattern.encode())
        except re.error as error:
            raise BadTemplate(f"{{re}}: {pattern!r} is no regular expression ({error})") from None

    def end(self, data: bytes, at: int, is_end: bool) -> int:
        found = self._pattern.match(data, at)
        if not is_end and (found is None or found.end() == len(data)):
            raise Incomplete
        if found is None:
            raise BadInput(f"{self._pattern.pattern.decode(errors='replace')!r} does not match {shown_at(data, at)}.")
        return found.end()


class PackedText(TextForm):
    """A form that prints packed numbers, by the letters of kcat's -s and of rpk.

    < and > set the order of bytes, which is big-endian at first. b, B, h, H, i, I, q and Q are numbers, c and . a byte, s the rest,
    x a blank, and $ the end.
    """

    can_read = False

    def __init__(self, letters: str) -> None:
        """Check the letters, each of which stands for a packed number, byte or text. Raises `BadTemplate` for another letter."""
        if wrong := [letter for letter in letters if letter not in "<>s$xc. bBhHiIqQ"]:
            known = "<, >, x, b, B, h, H, i, I, q, Q, c, ., s and $"
            raise BadTemplate(f"unpack has no letter {wrong[0]!r}: its letters are {known}")
        self._letters = letters

    def encode(self, data: bytes) -> bytes:
        order, at, found = ">", 0, b""
        for letter in self._letters:
            if letter in "<>":
                order = letter
            elif letter == "s":
                found, at = found + data[at:], len(data)
            elif letter == "$":
                if at != len(data):
                    return found + b"<unpack: bytes are left>"
            elif letter in "x ":
                found += b" "
            else:
                code = order + ("c" if letter == "." else letter)
                size = struct.calcsize(code)
                if len(data) < at + size:
                    return found + b"<unpack: too short>"
                (part,) = struct.unpack_from(code, data, at)
                found += part if isinstance(part, bytes) else str(part).encode()
                at += size
        return found


PLAIN = TextForm()
_TEXT_FORMS: dict[str, TextForm] = {
    "hex": _HexText(), "base64": _Base64Text(is_padded=True), "base64raw": _Base64Text(is_padded=False), "json": _JsonText(),
}  # fmt: skip


def text_form(name: str | None) -> TextForm:
    """Return the form of a text by its name in braces. Raises `BadTemplate`."""
    kind, equals, argument = (name or "").partition("=")
    if not kind:
        return PLAIN
    if kind == "re" and equals:
        return _MatchedText(argument)
    if kind.startswith("unpack"):
        return PackedText(_quoted(name or "", "unpack"))
    if kind not in _TEXT_FORMS:
        raise BadTemplate(f"{{{name}}} is no form of a text: use {', '.join(_TEXT_FORMS)}, unpack[…] or re#…#")
    return _TEXT_FORMS[kind]


def _quoted(form: str, name: str) -> str:
    """Return the text in the brackets of a form such as `strftime[%F]`. Raises `BadTemplate` without brackets."""
    kind, equals, argument = form.partition("=")
    if kind != name or not equals:
        raise BadTemplate(f"{form} lacks its brackets: write {name}[…]")
    return argument


_GO = {
    "2006": "%Y", "January": "%B", "Jan": "%b", "Monday": "%A", "Mon": "%a", "MST": "%Z", "-0700": "%z", "01": "%m", "02": "%d",
    "15": "%H", "03": "%I", "04": "%M", "05": "%S", "06": "%y", "PM": "%p", ".000000": ".%f", ".000": ".\3", "Z07:00": "\1",
    "-07:00": "\2", "%": "%%",
}  # fmt: skip
"""The parts of a layout of Go's time, and the codes of strftime. Milliseconds and offsets with a colon have no code before 3.12."""
_GO_PARTS = re.compile("|".join(map(re.escape, sorted(_GO, key=len, reverse=True))))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_layout(form: str | None) -> str | None:
    """Return the layout of `{strftime[…]}`, `{strptime[…]}` or `{go[…]}`; None for a form of numbers. Raises `BadTemplate`."""
    for name in ("strftime", "strptime", "go"):
        if form is not None and form.startswith(name):
            layout = _quoted(form, name)
            return _GO_PARTS.sub(lambda part: _GO[part[0]], layout) if name == "go" else layout
    return None


def time_printer(layout: str, *, utc: bool) -> Callable[[int], bytes]:
    """Return the function that formats a timestamp as text."""

    def encode(ms: int) -> bytes:
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

    return encode


def shown(raw: bytes) -> str:
    """Return the beginning of some bytes for a message."""
    return repr(raw[:SHOWN].decode(errors="backslashreplace")) + ("…" if len(raw) > SHOWN else "")


def shown_at(data: bytes, at: int) -> str:
    """Return the beginning of the input at a position for a message."""
    return shown(data[at : at + SHOWN + 1]) if at < len(data) else "nothing more"
