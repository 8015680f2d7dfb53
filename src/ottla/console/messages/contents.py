"""The bytes of keys, values and headers as text for people: a format that is guessed with a reason, or chosen. Pure.

Only the first `most` characters are made, so that a large value costs no more than a small one. A value that has more than
`MOST_DECODED` bytes is shown without being decoded.
"""

from __future__ import annotations

import base64
import codecs
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from ottla.errors import SettingError
from ottla.inspection.json_values import plain
from ottla.schemas.frames import FRAME_BYTES, framed_id
from ottla.schemas.libraries import first_line, library

AUTO, TEXT, JSON, REGISTRY, MSGPACK, HEX, BASE64 = "auto", "text", "json", "registry", "msgpack", "hex", "base64"
FORMATS = (AUTO, TEXT, JSON, REGISTRY, MSGPACK, HEX, BASE64)
NULL, EMPTY = "null", "empty"
MOST_DECODED = 1 << 20
"""The size of the largest value that is decoded, in bytes."""
_ROW_BYTES = 16
_INTEGER_BYTES = (2, 4, 8)
_MAPS_AND_ARRAYS = frozenset((*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF))
"""The first bytes of MessagePack's maps and arrays. Other values are too short to be recognised."""
_BINARY = re.compile("[\0-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]")
"""Control characters that texts do not have. ESC begins the colours of log lines."""
_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that are shown as escapes, because they are invisible or change the direction of what follows."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)

Decode = Callable[[bytes], object]


class LoadedSchema(NamedTuple):
    """A schema of a registry: its format and decoder, or the reason why it cannot be used."""

    format_name: str
    decode: Decode | None
    reason: str = ""


Schemas = Mapping[int, LoadedSchema]
"""Schema id -> the schema, as far as they are loaded."""
NO_SCHEMAS: Schemas = {}


@dataclass(frozen=True, slots=True)
class Content:
    """A key, a value or a header as text. `why` is the reason of the format, `size` the number of bytes, `is_cut` if there is more.

    `schema_id` is the id in the frame of a schema registry.
    """

    format: str
    text: str
    size: int
    why: str = ""
    is_cut: bool = False
    schema_id: int | None = None


class _Unfit(Exception):
    """Raised if bytes are not of a format; the message is a clause about the reason."""


@dataclass(frozen=True, slots=True)
class Presentation:
    """How content is shown: on one line of a list, or laid out over several. `most` bounds the number of characters."""

    most: int
    is_laid_out: bool

    def content(self, data: bytes | None, wanted: str = AUTO, schemas: Schemas = NO_SCHEMAS, size: int | None = None) -> Content:
        """Return the content in a format of `FORMATS`. `size` is that of the whole value, if `data` is only its beginning.

        Bytes that are not of the wanted format are shown in hex, with the reason.
        """
        if data is None:
            return Content(NULL, "", 0, "it is null; as a value, it deletes its key from a compacted topic")
        whole = len(data) if size is None else size
        if not whole:
            return Content(EMPTY, "", 0, "the value has no bytes")
        if wanted == AUTO:
            return self._guess(data, schemas, whole)
        makers: dict[str, Callable[[bytes, int, str], Content]] = {
            TEXT: self._text,
            JSON: self._json,
            MSGPACK: self._msgpack,
            REGISTRY: partial(self._decode_framed, schemas),
        }
        try:
            maker = makers.get(wanted)
            return self._hex(data, whole, "chosen", wanted) if maker is None else maker(data, whole, "chosen")
        except _Unfit as error:
            return self._hex(data, whole, f"{wanted} was chosen, but {error}")

    def _guess(self, data: bytes, schemas: Schemas, size: int) -> Content:
        said = ""
        if framed_id(data) is not None and schemas:
            try:
                return self._decode_framed(schemas, data, size, "it begins with the frame of a schema registry")
            except _Unfit as error:
                said = f"; {error}"
        for maker, why in ((self._json, "it is JSON"), (self._plain_text, "all its bytes are text")):
            try:
                return maker(data, size, why + said)
            except _Unfit:
                pass
        if data[0] in _MAPS_AND_ARRAYS:
            try:
                return self._msgpack(data, size, "all of it is one map or array of MessagePack" + said)
            except _Unfit:
                pass
        return self._hex(data, size, _binary_reason(data, size) + said)

    def _plain_text(self, data: bytes, size: int, why: str) -> Content:
        text = self._beginning(data, size, "strict")
        if _BINARY.search(text):
            raise _Unfit("it has control characters")
        return self._cut(TEXT, text, size, why, is_cut=size > len(data) or len(text) < len(data) // 4)

    def _text(self, data: bytes, size: int, why: str) -> Content:
        return self._cut(TEXT, self._beginning(data, size, "replace"), size, why, is_cut=size > 4 * self.most + 4)

    def _beginning(self, data: bytes, size: int, errors: str) -> str:
        """Return the first characters of UTF-8 text. With `errors` "strict", raises `_Unfit` for other bytes."""
        some = data[: 4 * self.most + 4]
        try:
            return codecs.getincrementaldecoder("utf-8")(errors).decode(some, len(some) == size)
        except UnicodeDecodeError:
            raise _Unfit("it is not UTF-8") from None

    def _json(self, data: bytes, size: int, why: str) -> Content:
        """Return objects and arrays with their numbers as they are written. Other JSON is text."""
        if data.lstrip()[:1] not in (b"{", b"["):
            raise _Unfit("it is no object or array of JSON")
        _check_size(data, size)
        try:
            text = data.decode()
            json.loads(text)
        except (ValueError, RecursionError):
            raise _Unfit("it is not JSON") from None
        return self._cut(JSON, _join_pieces(_tokens(text, is_laid_out=self.is_laid_out), self.most), size, why)

    def _decode_framed(self, schemas: Schemas, data: bytes, size: int, why: str) -> Content:
        schema_id = framed_id(data)
        if schema_id is None:
            raise _Unfit("it does not begin with the frame of a schema registry")
        found = schemas.get(schema_id, LoadedSchema("", None, "no schema registry is configured"))
        if found.decode is None:
            raise _Unfit(f"schema {schema_id} cannot be used: {found.reason}")
        _check_size(data, size)
        try:
            value = found.decode(data[FRAME_BYTES:])
        except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
            raise _Unfit(f"it does not fit schema {schema_id} ({first_line(error)})") from None
        shown = self._object(found.format_name, value, size, f"{why}, with schema {schema_id}")
        return Content(shown.format, shown.text, size, shown.why, shown.is_cut, schema_id)

    def _msgpack(self, data: bytes, size: int, why: str) -> Content:
        _check_size(data, size)
        try:
            value = library("msgpack", "msgpack").unpackb(data, strict_map_key=False, timestamp=3)
        except SettingError as error:
            raise _Unfit(first_line(error)) from None
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise _Unfit(f"it is no MessagePack ({first_line(error)})") from None
        return self._object(MSGPACK, value, size, why)

    def _object(self, format_name: str, value: object, size: int, why: str) -> Content:
        try:
            text = json.dumps(plain(value), ensure_ascii=False)
        except (RecursionError, ValueError):
            raise _Unfit("it is nested too deeply") from None
        return self._cut(format_name, _join_pieces(_tokens(text, is_laid_out=self.is_laid_out), self.most), size, why)

    def _hex(self, data: bytes, size: int, why: str, wanted: str = HEX) -> Content:
        if wanted == BASE64:
            text = base64.b64encode(data[: self.most // 4 * 3 + 3]).decode()
        elif self.is_laid_out:
            rows = self.most // 4 // _ROW_BYTES + 1
            text = "\n".join(_row(data, at) for at in range(0, min(len(data), rows * _ROW_BYTES), _ROW_BYTES))
            return Content(HEX, text, size, why, rows * _ROW_BYTES < size)
        else:
            text = data[: self.most // 2 + 1].hex()
        return self._cut(wanted, text, size, why, is_cut=size > len(data))

    def _cut(self, format_name: str, text: str, size: int, why: str, *, is_cut: bool = False) -> Content:
        shown = text[: self.most]
        if not shown.isprintable():
            shown = _CONTROL.sub(_escape, shown if self.is_laid_out else shown.replace("\n", "\u21b5").replace("\r", ""))
        return Content(format_name, shown, size, why, is_cut or len(text) > self.most)


def _escape(found: re.Match[str]) -> str:
    return repr(found[0])[1:-1] if found[0] != "\r" else ""


def _check_size(data: bytes, size: int) -> None:
    """Raise `_Unfit` for a value that is too large to be decoded, or of which only the beginning was kept."""
    if size > len(data):
        raise _Unfit("it is too large for a list: open the message")
    if size > MOST_DECODED:
        raise _Unfit(f"it has more than {MOST_DECODED} bytes, which is too many to decode it")


def _binary_reason(data: bytes, size: int) -> str:
    if size in _INTEGER_BYTES and len(data) == size:
        return f"it is not text; as a big-endian number it is {int.from_bytes(data, 'big', signed=True)}"
    return "it is not text"


def _row(data: bytes, at: int) -> str:
    """Return a line of a hex dump: position, bytes, and the characters of ASCII among them."""
    part = data[at : at + _ROW_BYTES]
    letters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
    return f"{at:08x}  {part[:8].hex(' '):23}  {part[8:].hex(' '):23}  {letters}"


def _join_pieces(pieces: Iterator[str], most: int) -> str:
    """Return the first pieces, until they have more than `most` characters."""
    made: list[str] = []
    length = 0
    for piece in pieces:
        made.append(piece[: most + 1])
        length += len(piece)
        if length > most:
            break
    return "".join(made)


def _tokens(text: str, *, is_laid_out: bool) -> Iterator[str]:
    """Yield the tokens of a JSON text unchanged, with line feeds and indentation between them, or else with single spaces."""
    depth, before = 0, ""
    for found in _TOKEN.finditer(text):
        token = found[0]
        if token in "]}":
            depth -= 1
            if is_laid_out and before not in "[{":
                yield "\n" + "  " * depth
        elif before and before in "[{,":
            yield "\n" + "  " * depth if is_laid_out else " " if before == "," else ""
        yield ": " if token == ":" else token
        if token in "[{":
            depth += 1
        before = token
