r"""The tokens of templates, `-f`, of rpk and of kcat: one syntax and one table for output and input. Pure.

After a token, braces can name a form: `%v{hex}`, `%K{big32}`, `%d{strftime[%F %T]}`. Other characters are literal text; \t, \n, \r,
\0, \\, \", \' and \xNN are escapes, and `%%`, `%{` and `%}` a percent sign and braces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|.|$)", re.DOTALL)
_ESCAPES = {"t": b"\t", "n": b"\n", "r": b"\r", "0": b"\0", "\\": b"\\", '"': b'"', "'": b"'"}
_PART = re.compile(r"%(.?)|[^%]+", re.DOTALL)
_QUOTED = re.compile(r"(re|strftime|strptime|go|unpack)([^\w\s}])\2*")
_CLOSING = {"[": "]", "(": ")", "<": ">", "{": "}"}
LITERALS = "%{}"


class BadTemplate(ValueError):
    """A template that cannot be used; the message is a clause about the reason."""


class TokenKind(Enum):
    """The parts of a record that tokens stand for."""

    TEXT = "a text"
    SIZE = "the size of a text in bytes, -1 for null"
    NUMBER = "a number"
    HEADERS = "the headers"
    ATTRIBUTES = "attributes of the batch"


class Token(NamedTuple):
    """A token. `printed` is the Python expression of its value: `r` is the record, `b` its batch, `i` its number in the output.

    `field` is the field of an input record that the token sets. It is empty if the input of the token is read but not sent, and
    None if input cannot have the token.
    """

    kind: TokenKind
    meaning: str
    printed: str
    field: str | None
    kcat: bool = False
    rpk: bool = True


_KCAT = {"kcat": True, "rpk": False}
_BOTH = {"kcat": True, "rpk": True}
_VALUE_SIZE = "-1 if r.value is None else len(r.value)"
TOKENS = {
    "v": Token(TokenKind.TEXT, "the value", "r.value", "value"),
    "s": Token(TokenKind.TEXT, "the value", "r.value", "value", **_KCAT),
    "k": Token(TokenKind.TEXT, "the key", "r.key", "key", **_BOTH),
    "t": Token(TokenKind.TEXT, "the topic", "r.topic.encode()", "topic", **_BOTH),
    "V": Token(TokenKind.SIZE, "the size of the value in bytes, -1 for null", _VALUE_SIZE, "value"),
    "S": Token(TokenKind.SIZE, "the size of the value in bytes, -1 for null", _VALUE_SIZE, "value", **_KCAT),
    "R": Token(TokenKind.SIZE, "the size of the value as `{big32}`", _VALUE_SIZE, "value", **_KCAT),
    "K": Token(TokenKind.SIZE, "the size of the key, -1 for null", "-1 if r.key is None else len(r.key)", "key", **_BOTH),
    "T": Token(TokenKind.SIZE, "the size of the topic; without braces the timestamp, as in kcat, or in input before `%t` the size",
               "len(r.topic.encode())", "topic", **_BOTH),
    "p": Token(TokenKind.NUMBER, "the partition", "r.partition", "partition", **_BOTH),
    "o": Token(TokenKind.NUMBER, "the offset", "r.offset", "", **_BOTH),
    "d": Token(TokenKind.NUMBER, "the timestamp in ms since 1970, or by a form of times", "r.timestamp", "timestamp_ms"),
    "h": Token(TokenKind.HEADERS, "headers as `name=value,name=value`; `%h{…}`: each by a template of `%k`, `%v`, `%K`, `%V`",
               "r.headers", "headers", **_BOTH),
    "H": Token(TokenKind.NUMBER, "the number of headers", "len(r.headers)", "count"),
    "e": Token(TokenKind.NUMBER, "the leader epoch of the batch", "b.leader_epoch", ""),
    "x": Token(TokenKind.NUMBER, "the producer id", "b.producer_id", ""),
    "y": Token(TokenKind.NUMBER, "the producer epoch", "b.producer_epoch", ""),
    "i": Token(TokenKind.NUMBER, "the number of the record in the output, from 1", "i", ""),
    "a": Token(TokenKind.ATTRIBUTES, "`{compression}`, `{timestamp-type}`, `{transactional-bit}` or `{control-bit}`; a form of "
               "numbers can follow: `%a{compression;number}`", "", None),
    "[": Token(TokenKind.NUMBER, "the first offset of the partition", "b.log_start_offset", None),
    "|": Token(TokenKind.NUMBER, "the last stable offset of the partition", "b.last_stable_offset", None),
    "]": Token(TokenKind.NUMBER, "the high watermark of the partition", "b.high_watermark", None),
}  # fmt: skip
OF_HEADERS = frozenset("kvsKVS")
"""The tokens of a template of headers. The key of a header is its name."""


class TemplateToken(NamedTuple):
    """A token in a template: its letter, and the text in braces after it, or None without braces.

    Text in quotes of its own, such as `strftime[%F]` or `re##…##`, follows its name and an equals sign.
    """

    letter: str
    form: str | None

    @property
    def token(self) -> Token:
        return TOKENS[self.letter]


def pieces_of(text: str) -> list[bytes | TemplateToken]:
    """Return the literal texts and the tokens of a template. Raises `BadTemplate`."""
    found: list[bytes | TemplateToken] = []
    for piece in _pieces(text):
        if isinstance(piece, bytes) and found and isinstance(last := found[-1], bytes):
            found[-1] = last + piece
        else:
            found.append(piece)
    return found


def _pieces(text: str) -> Iterator[bytes | TemplateToken]:
    at = 0
    while part := _PART.match(text, at):
        at, letter = part.end(), part[1]
        if letter is None:
            yield unescape(part[0])
        elif not letter:
            raise BadTemplate("it ends with a lone %: write %% for a percent sign")
        elif letter in LITERALS:
            yield letter.encode()
        elif letter not in TOKENS:
            raise BadTemplate(f"there is no %{letter}: docs/command.md has the tokens, and --help the usual ones")
        else:
            form, at = _form(text, at)
            yield TemplateToken(letter, form)


def _form(text: str, at: int) -> tuple[str | None, int]:
    """Return the text within the braces at `at`, None without braces, and the position after them. Raises `BadTemplate`."""
    if text[at : at + 1] != "{":
        return None, at
    if quoted := _QUOTED.match(text, at + 1):
        name, mark = quoted[1], quoted[2]
        closing = _CLOSING.get(mark, mark) * (quoted.end() - quoted.start(2))
        end = text.find(closing + "}", quoted.end())
        if end >= 0:
            return f"{name}={text[quoted.end() : end]}", end + len(closing) + 1
    depth = 0
    for end in range(at, len(text)):
        if text[end] in "{}" and text[end - 1] != "%":
            depth += 1 if text[end] == "{" else -1
            if not depth:
                return text[at + 1 : end], end + 1
    raise BadTemplate(f"the brace of {text[at - 2 :][:20]!r} is not closed: add }}")


def unescape(text: str) -> bytes:
    r"""Return a text with \t, \n, \r, \0, \\ and \xNN replaced. Raises `BadTemplate` for another escape."""
    found, at = b"", 0
    for escape in _ESCAPE.finditer(text):
        found += text[at : escape.start()].encode("utf-8", "surrogateescape")
        name, at = escape[1], escape.end()
        if name.startswith("x") and len(name) == 3:
            found += bytes.fromhex(name[1:])
        elif name in _ESCAPES:
            found += _ESCAPES[name]
        else:
            raise BadTemplate(f"\\{name} is no escape: write \\t, \\n, \\r, \\0, \\\\ or \\xNN")
    return found + text[at:].encode("utf-8", "surrogateescape")


def literal(text: str) -> str:
    """Return a template that prints `text`, whose escapes, such as \\n, keep their meaning."""
    return text.replace("%", "%%").replace("{", "%{").replace("}", "%}")
