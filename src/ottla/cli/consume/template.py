"""Templates of records, `-f`: the tokens of kcat and of rpk, compiled to one function of many records. Pure.

| token | printed | kcat | rpk |
|---|---|---|---|
| `%v`, `%s` | the value | `%s` | `%v` |
| `%V`, `%S` | the size of the value in bytes, -1 for null (rpk: 0) | `%S` | `%V` |
| `%R` | the size of the value as 4 bytes, big-endian | `%R` | `%V{big32}` |
| `%k`, `%K` | the key, the size of the key | the same | the same |
| `%t`, `%p`, `%o` | topic, partition, offset | the same | the same |
| `%T` | the timestamp in ms | `%T` | `%d` |
| `%T{…}` | the size of the topic in a form of numbers, as `%t{length}` | | `%T{…}` |
| `%d` | the timestamp in ms, or as `%d{strftime[%F %T]}` or `%d{go[2006-01-02]}`, local or with --utc | | `%d`, in UTC |
| `%h` | the headers as name=value, with commas between | `%h` | `%h{%k=%v,}` |
| `%h{…}` | each header by a template of its own: `%k`, `%v`, `%K`, `%V` | | `%h{…}` |
| `%H` | the number of headers | | `%H` |
| `%e` | the leader epoch of the batch | | `%e` |
| `%x`, `%y` | producer id and producer epoch of the batch | | `%x`, `%y` |
| `%a{compression}`, `%a{timestamp-type}`, `%a{transactional-bit}`, `%a{control-bit}` | attributes | | the same |
| `%a{compression;number}` | an attribute in a form of numbers | | the same |
| `%[`, `%\\|`, `%]` | first offset, last stable offset and high watermark of the partition | | the same |
| `%i` | the number of the record in the output, from 1 | | `%i` |
| `%%`, `%{`, `%}` | a percent sign, braces | `%%` | the same |
| `\\n`, `\\r`, `\\t`, `\\\\`, `\\0`, `\\xFF` | characters and bytes | the same | the same |

Forms follow in braces. Of numbers: `ascii` (as without one), `hex`, `hex64` to `hex4`, `big64` to `big8`, `little64` to `little8`,
`byte`, `bool`. Of keys, values, topics and header values: `hex`, `base64`, `base64raw`, `json` (a JSON string), `unpack[…]`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ottla.cli.consume.conversions import BadTemplate, number_format, text_format, time_format
from ottla.records.batches.record import ConsumerRecord, Headers


class BatchInfo(NamedTuple):
    """The fields of a record's batch and partition that a record does not have itself. Unknown numbers are -1."""

    leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    compression: str = "none"
    compression_number: int = 0
    is_transactional: bool = False
    is_control: bool = False
    log_start_offset: int = -1
    last_stable_offset: int = -1
    high_watermark: int = -1


NO_BATCH = BatchInfo()
Lines = Callable[[Iterable[ConsumerRecord], BatchInfo, int], list[bytes]]
ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\", "0": b"\0", '"': b'"', "'": b"'"}
HEXADECIMAL = re.compile("[0-9a-fA-F]{2}")
NUMBERS = {
    "V": "-1 if r.value is None else len(r.value)", "S": "-1 if r.value is None else len(r.value)",
    "K": "-1 if r.key is None else len(r.key)", "p": "r.partition", "o": "r.offset", "T": "r.timestamp", "d": "r.timestamp",
    "H": "len(r.headers)", "e": "b.leader_epoch", "x": "b.producer_id", "y": "b.producer_epoch", "i": "i",
    "[": "b.log_start_offset", "|": "b.last_stable_offset", "]": "b.high_watermark",
}  # fmt: skip
"""The Python expression of each number: `r` is the record, `b` its batch, `i` the number in the output."""
TOPIC_SIZE = "len(r.topic.encode())"
TEXTS = {"v": "r.value", "s": "r.value", "k": "r.key"}
ATTRIBUTES = {
    "compression": "b.compression_number", "timestamp-type": "(-1 if r.timestamp < 0 else r.timestamp_type)",
    "transactional-bit": "int(b.is_transactional)", "control-bit": "int(b.is_control)",
}  # fmt: skip
OF_BATCHES = frozenset("exya[|]")
"""The tokens that need the batch of a record."""


class Token(NamedTuple):
    """A token of a template: its letter, and the text in braces after it, or None without braces."""

    letter: str
    modifier: str | None


class Template:
    """A compiled template. `needs_batches` says whether it prints fields of batches; `null` is printed for null keys and values."""

    def __init__(self, text: str, null: bytes = b"", *, utc: bool = False) -> None:
        """Compile the template in `text`. Raises `BadTemplate`."""
        self.needs_batches = self._numbered = False
        self._null, self._utc = null, utc
        self._names: dict[str, object] = {"n": null}
        pieces = list(_pieces(text))
        last = pieces[-1] if pieces else b""
        self.end = last if isinstance(last, bytes) else b""
        """The literal at the end, which is printed after each line: many lines are joined faster than they are formatted."""
        self._lines = self._compiled(pieces[:-1] if self.end else pieces)

    def _compiled(self, pieces: list[bytes | Token]) -> Lines:
        arguments = [self._expression(piece) for piece in pieces if isinstance(piece, Token)]
        if len(pieces) == len(arguments) == 1 and arguments[0][0] == b"%b":
            one = arguments[0][1]
        else:
            codes = iter([code for code, _ in arguments])
            layout = b"".join(piece.replace(b"%", b"%%") if isinstance(piece, bytes) else next(codes) for piece in pieces)
            one = f"{self._named(layout)} % ({''.join(f'{argument}, ' for _, argument in arguments)})"
        loop = "for i, r in enumerate(rs, i)" if self._numbered else "for r in rs"
        # The source consists of expressions of this module and of names: words of the template are only in `_names`.
        allowed = {"__builtins__": {"len": len, "int": int, "enumerate": enumerate}}
        made: Lines = eval(f"lambda rs, b, i: [{one} {loop}]", {**allowed, **self._names})
        return made

    def lines(self, records: Iterable[ConsumerRecord], batch: BatchInfo = NO_BATCH, first: int = 1) -> list[bytes]:
        """Return the printed line of each record, without the `end`. `first` is the number of the first record in the output."""
        return self._lines(records, batch, first)

    def _expression(self, token: Token) -> tuple[bytes, str]:
        """Return the code of %-formatting for a token, `%b` or `%d`, and its Python expression."""
        letter, modifier = token.letter, token.modifier or ""
        self._numbered = self._numbered or letter == "i"
        if letter in OF_BATCHES:
            self.needs_batches = True
        if letter in TEXTS:
            return self._text(TEXTS[letter], modifier)
        if letter == "t" and modifier != "length":
            return self._convert("r.topic.encode()", text_format(modifier))
        if letter == "h":
            return b"%b", f"{self._named(self._headers(token.modifier))}(r.headers)"
        if letter == "a":
            return self._attribute(modifier)
        if letter == "R":
            return self._number(NUMBERS["V"], "big32")
        if letter == "d" and (shown := time_format(modifier, utc=self._utc)) is not None:
            return self._convert("r.timestamp", shown)
        if letter == "t" or (letter == "T" and modifier):
            return self._number(TOPIC_SIZE, "" if letter == "t" else modifier)
        if letter not in NUMBERS:
            raise BadTemplate(f"there is no %{letter}: docs/command.md has the tokens, and `ottla consume --help` the usual ones")
        return self._number(NUMBERS[letter], modifier)

    def _named(self, value: object) -> str:
        name = f"c{len(self._names)}"
        self._names[name] = value
        return name

    def _convert(self, expression: str, convert: Callable[..., bytes] | None) -> tuple[bytes, str]:
        return b"%b", expression if convert is None else f"{self._named(convert)}({expression})"

    def _text(self, expression: str, modifier: str) -> tuple[bytes, str]:
        _, shown = self._convert(expression, text_format(modifier))
        if shown == expression:
            return b"%b", f"(n if (v := {expression}) is None else v)"
        return b"%b", f"(n if {expression} is None else {shown})"

    def _number(self, expression: str, modifier: str) -> tuple[bytes, str]:
        convert = number_format(modifier)
        return (b"%d", f"({expression})") if convert is None else self._convert(expression, convert)

    def _attribute(self, modifier: str) -> tuple[bytes, str]:
        name, numeric, form = modifier.partition(";")
        if name not in ATTRIBUTES:
            raise BadTemplate(f"%a has no {name or 'empty'!r}: it has {', '.join(ATTRIBUTES)}")
        if name == "compression" and not numeric:
            return b"%b", "b.compression.encode()"
        return self._number(ATTRIBUTES[name], form)

    def _headers(self, modifier: str | None) -> Callable[[Headers], bytes]:
        null = self._null
        if modifier is None:
            return lambda headers: b",".join(
                b"%b=%b" % (name.encode(), null if value is None else value) for name, value in headers
            )
        # A header is a record whose key is its name.
        each = Template(modifier, null)
        if each.needs_batches:
            raise BadTemplate("%h{…} has only %k, %v, %K and %V")

        def shown(headers: Headers) -> bytes:
            lines = each.lines(ConsumerRecord(0, 0, 0, name.encode(), value) for name, value in headers)
            return b"".join(line + each.end for line in lines)

        return shown


def escaped(literal: str) -> str:
    """Return a template that prints `literal`, whose escapes, such as \\n, keep their meaning."""
    return literal.replace("%", "%%").replace("{", "%{").replace("}", "%}")


def _pieces(text: str) -> Iterator[bytes | Token]:
    """Yield literal bytes and tokens. Raises `BadTemplate`."""
    literal = bytearray()
    at = 0
    while at < len(text):
        char, following = text[at], text[at + 1 : at + 2]
        if char not in "%\\":
            literal += char.encode("utf-8", "surrogateescape")
            at += 1
        elif char == "\\":
            byte, at = _escape(text, at)
            literal += byte
        elif not following:
            raise BadTemplate("it ends with a lone %: write %% for a percent sign")
        elif following in "%{}":
            literal += following.encode()
            at += 2
        else:
            if literal:
                yield bytes(literal)
                literal.clear()
            modifier, at = _modifier(text, at + 2)
            yield Token(following, modifier)
    if literal:
        yield bytes(literal)


def _escape(text: str, at: int) -> tuple[bytes, int]:
    """Return the byte of the escape at `at`, and the position after it. Raises `BadTemplate`."""
    letter, code = text[at + 1 : at + 2], text[at + 2 : at + 4]
    if letter == "x" and HEXADECIMAL.fullmatch(code):
        return bytes.fromhex(code), at + 4
    if letter in ESCAPES:
        return ESCAPES[letter], at + 2
    raise BadTemplate(f"\\{letter} is no escape: \\n, \\r, \\t, \\0, \\\\ and \\xFF are")


def _modifier(text: str, at: int) -> tuple[str | None, int]:
    """Return the text within the braces at `at`, None without braces, and the position after them. Raises `BadTemplate`."""
    if text[at : at + 1] != "{":
        return None, at
    depth = 0
    for end in range(at, len(text)):
        if text[end] in "{}" and text[end - 1] != "%":
            depth += 1 if text[end] == "{" else -1
            if not depth:
                return text[at + 1 : end], end + 1
    raise BadTemplate(f"the brace of {text[at - 2 :]!r} is not closed: add }}")
