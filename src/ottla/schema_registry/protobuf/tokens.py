"""Tokens of Protobuf's schema language. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from ottla.schema_registry.refusals import InvalidSchema

NAME, NUMBER, STRING, SYMBOL, END = "name", "number", "string", "symbol", "end"
_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>0[xX][0-9A-Fa-f]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<symbol>[{}\[\]()<>;=,.:+/-])""",
    re.VERBOSE | re.ASCII,
)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|[xX]([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_CHARACTERS = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


class ProtoToken(NamedTuple):
    """A token and its position in the text."""

    kind: str
    text: str
    at: int


def tokens(text: str) -> list[ProtoToken]:
    """Return the tokens of a text without spaces and comments; the last one is `END`. Raises `InvalidSchema`."""
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise InvalidSchema(f"Syntax error {place(text, at)}: unexpected {text[at : at + 10]!r}")
        kind = match.lastgroup or ""
        if kind != "space":
            found.append(ProtoToken(kind, match[kind], at))
        at = match.end()
    return [*found, ProtoToken(END, "the end of the text", len(text))]


def place(text: str, at: int) -> str:
    """Return a position for messages."""
    line = text.count("\n", 0, at) + 1
    return f"in line {line}, column {at - (text.rfind(chr(10), 0, at) + 1) + 1}"


def unquote(literal: str) -> bytes:
    """Return the bytes of a string literal."""
    return _ESCAPE.sub(_character, literal[1:-1].encode())


def _character(match: re.Match[bytes]) -> bytes:
    octal, hexadecimal, short, long, other = match.groups()
    if octal is not None:
        return bytes([int(octal, 8) & 0xFF])
    if hexadecimal is not None:
        return bytes([int(hexadecimal, 16)])
    code = short or long
    if code is not None:
        return chr(min(int(code, 16), 0x10FFFF)).encode("utf-8", "replace")
    return _CHARACTERS.get(other, other)
