"""Output templates, each compiled to one function that formats many records. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ottla.cli.record_format.forms import PLAIN, number_form, text_form, time_layout, time_printer
from ottla.cli.record_format.tokens import OF_HEADERS, TOKENS, BadTemplate, TemplateToken, TokenKind, pieces_of
from ottla.records.batches.lines import LineFormat
from ottla.records.batches.record import ConsumerRecord, Headers
from ottla.records.kernel_lines import KEY, KEY_BYTES, OFFSET, TIME, VALUE, VALUE_BYTES


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
ATTRIBUTES = {
    "compression": "b.compression_number", "timestamp-type": "(-1 if r.timestamp < 0 else r.timestamp_type)",
    "transactional-bit": "int(b.is_transactional)", "control-bit": "int(b.is_control)",
}  # fmt: skip
OF_BATCHES = frozenset("exya[|]")
"""The tokens that need the batch of a record."""

OF_COLUMNS = {
    "v": VALUE, "s": VALUE, "k": KEY, "o": OFFSET, "d": TIME, "T": TIME, "V": VALUE_BYTES, "S": VALUE_BYTES, "K": KEY_BYTES,
}  # fmt: skip
"""The tokens that are printed straight from columns, if they have no form."""


class Template:
    """A compiled template. `needs_batches` says whether it prints fields of batches; `null` is printed for null keys and values."""

    def __init__(self, text: str, null: bytes = b"", *, utc: bool = False) -> None:
        """Compile the template in `text`. Raises `BadTemplate`."""
        self.needs_batches = self._numbered = False
        self._null, self._utc = null, utc
        self._names: dict[str, object] = {"n": null}
        self._pieces = pieces = pieces_of(text)
        last = pieces[-1] if pieces else b""
        self.end = last if isinstance(last, bytes) else b""
        """The literal at the end, which is printed after each line: many lines are joined faster than they are formatted."""
        self._lines = self._compiled(pieces[:-1] if self.end else pieces)

    def _compiled(self, pieces: list[bytes | TemplateToken]) -> Lines:
        arguments = [self._expression(piece) for piece in pieces if isinstance(piece, TemplateToken)]
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

    def line_format(self, topic: str, partition: int) -> LineFormat | None:
        """Return the template as a format for columns of a partition; None if a token needs an object for each record."""
        of_partition = {"t": topic.encode(), "p": b"%d" % partition}
        fields: list[int | bytes] = []
        for piece in self._pieces:
            if isinstance(piece, bytes):
                fields.append(piece)
            elif piece.form is None and piece.letter in of_partition:
                fields.append(of_partition[piece.letter])
            elif piece.form is None and piece.letter in OF_COLUMNS:
                fields.append(OF_COLUMNS[piece.letter])
            else:
                return None
        return LineFormat(fields, self._null)

    def _expression(self, piece: TemplateToken) -> tuple[bytes, str]:
        """Return the code of %-formatting for a token, `%b` or `%d`, and its Python expression."""
        letter, form = piece
        kind, _, printed, *_ = piece.token
        self._numbered = self._numbered or letter == "i"
        if letter in OF_BATCHES:
            self.needs_batches = True
        if kind is TokenKind.HEADERS:
            return b"%b", f"{self._named(self._headers(form))}({printed})"
        if kind is TokenKind.ATTRIBUTES:
            return self._attribute(form or "")
        if kind is TokenKind.TEXT:
            return self._number(TOKENS["T"].printed, None) if form == "length" else self._text(letter, printed, form)
        if letter == "T" and form is None:
            return self._number(TOKENS["d"].printed, None)
        if letter == "d" and (layout := time_layout(form)) is not None:
            return b"%b", f"{self._named(time_printer(layout, utc=self._utc))}({printed})"
        return self._number(printed, "big32" if letter == "R" else form)

    def _named(self, value: object) -> str:
        name = f"c{len(self._names)}"
        self._names[name] = value
        return name

    def _text(self, letter: str, expression: str, form: str | None) -> tuple[bytes, str]:
        found = text_form(form)
        if not found.can_print:
            raise BadTemplate(f"%{letter}{{{form}}} can be read, not printed: use another form")
        shown = expression if found is PLAIN else f"{self._named(found.encode)}({expression})"
        if letter == "t":
            return b"%b", shown
        if found is PLAIN:
            return b"%b", f"(n if (v := {expression}) is None else v)"
        return b"%b", f"(n if {expression} is None else {shown})"

    def _number(self, expression: str, form: str | None) -> tuple[bytes, str]:
        encode = number_form(form).encode
        return (b"%d", f"({expression})") if encode is None else (b"%b", f"{self._named(encode)}({expression})")

    def _attribute(self, modifier: str) -> tuple[bytes, str]:
        name, numeric, form = modifier.partition(";")
        if name not in ATTRIBUTES:
            raise BadTemplate(f"%a has no attribute {name!r}: it has {', '.join(ATTRIBUTES)}")
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
        if any(isinstance(piece, TemplateToken) and piece.letter not in OF_HEADERS for piece in pieces_of(modifier)):
            raise BadTemplate("%h{…} has only %k, %v, %K and %V")

        def shown(headers: Headers) -> bytes:
            lines = each.lines(ConsumerRecord(0, 0, 0, name.encode(), value) for name, value in headers)
            return b"".join(line + each.end for line in lines)

        return shown
