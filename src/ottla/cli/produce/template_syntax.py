r"""Templates of input, as -f takes them: the tokens of rpk's and kcat's formats, read from left to right. Pure.

| token | of | reads |
|---|---|---|
| `%v`, `%s` | rpk, kcat | the value: up to the text that follows in the template, or as many bytes as its size |
| `%k` | both | the key, in the same way |
| `%t` | both | the topic, instead of TOPIC |
| `%V`, `%S`; `%K`; `%T` before `%t` | rpk, kcat; both; rpk | the size of value, key or topic, before it; -1 is null |
| `%R` | kcat | the size of the value as a signed 32-bit number: `%V{big32}` |
| `%p` | both | the partition |
| `%d`; `%T` without `%t` after it | rpk; kcat | the timestamp in ms since 1970 |
| `%d{strftime[%F %T]}` | rpk | the timestamp by a format, in UTC without a zone |
| `%H` | rpk | the number of headers, before `%h{…}` |
| `%h{…}` | rpk | each header, by a template of its own with `%k`, `%v`, `%K`, `%V` |
| `%h` | kcat | headers as `name=value,name=value` |
| `%o`, `%e`, `%x`, `%y`, `%i` | rpk, kcat's `%o` | offset, leader epoch, producer id and epoch, count: left out |
| `%%`, `%{`, `%}` | both, rpk | a percent sign, a brace |

A number is decimal digits, or as its braces say: `{ascii}`, `{big8}` to `{big64}`, `{little8}` to `{little64}`, `{byte}`, `{hex4}`
to `{hex64}`; a size can also be a constant: `%K{3}`. Text is as it stands, or `{hex}`, `{base64}`, `{base64raw}`, `{json}` (a JSON
value) or `{re#…#}` (what a regular expression matches). Sizes count the bytes of what text stands for. Other characters, with \t,
\n, \r, \0, \\ and \xNN, must be in the input as they are in the template. At the end of the input the template's last text can be
missing.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import zip_longest

from ottla.cli.produce import template_steps as steps
from ottla.cli.produce.records import unescape

FIELDS = {"v": "value", "s": "value", "k": "key", "t": "topic"}
SIZES = {"V": "value", "S": "value", "R": "value", "K": "key", "T": "topic"}
NUMBERS = {"p": "partition", "d": "timestamp_ms", "H": "count", "o": "", "e": "", "x": "", "y": "", "i": ""}
LITERALS = "%{}"
NOT_INPUT = {"a": "attributes", "[": "the log's start", "|": "the last stable offset", "]": "the high watermark"}
_CLOSING = {"[": "]", "(": ")", "<": ">", "{": "}"}


class TemplateError(ValueError):
    """Raised for an invalid template. The text is a sentence for the user."""


def parse(template: str) -> list[steps.InputStep]:
    """Return the steps of a template. Raises `TemplateError` with a sentence."""
    found = _Syntax(template).parse()
    if not any(isinstance(step, steps.TextStep) and step.name in ("key", "value") for step in found):
        raise TemplateError("it has neither %v nor %k: add %v, the value.")
    if isinstance(last := found[-1], steps.LiteralStep):
        found[-1] = replace(last, is_last=True)
    return found


class _Syntax:
    """A parser that reads a template from left to right."""

    def __init__(self, text: str, *, of_header: bool = False) -> None:
        self._text = text
        self._at = 0
        self._of_header = of_header

    def parse(self) -> list[steps.InputStep]:
        found: list[steps.InputStep] = []
        while self._at < len(self._text):
            if self._text[self._at] == "%":
                _append(found, self._token())
            else:
                _append(found, steps.LiteralStep(self._literal()))
        return _checked(found)

    def _literal(self) -> bytes:
        end = self._text.find("%", self._at)
        raw = self._text[self._at : end if end >= 0 else len(self._text)]
        self._at += len(raw)
        try:
            return unescape(raw)
        except ValueError as error:
            raise TemplateError(f"{error}.") from None

    def _token(self) -> steps.InputStep:
        name = self._text[self._at + 1 : self._at + 2]
        self._at += 2
        if name and name in LITERALS:
            return steps.LiteralStep(name.encode())
        if name in NOT_INPUT:
            raise TemplateError(f"%{name} ({NOT_INPUT[name]}) can be printed, not read: leave it out.")
        if self._of_header and name not in {"k", "v", "K", "V"}:
            raise TemplateError(f"%{name} does not belong into %h{{…}}: use %k, %v, %K and %V there.")
        braces = self._braces()
        if name == "h":
            inner = None if braces is None else _Syntax(braces, of_header=True).parse()
            return steps.KcatHeadersStep() if inner is None else steps.HeadersStep(inner)
        if name in FIELDS:
            return _text_step(name, braces)
        if name == "R":
            return steps.SizeStep("value", steps.number_format("big32"))
        if name == "T" and braces is None and "%t" not in self._text[self._at :]:
            return steps.NumberStep("timestamp_ms", steps.number_format("ascii"))
        if name in SIZES:
            return _size_step(name, braces)
        if name in NUMBERS:
            return _number_step(name, braces)
        raise TemplateError(f"%{name} is no token: see `ottla produce --help` for those there are.")

    def _braces(self) -> str | None:
        """Return the text in braces after a token, or None without braces."""
        if self._text[self._at : self._at + 1] != "{":
            return None
        opened = self._at + 1
        quoted = re.compile(r"(?:re|strftime|strptime|go)([^\w\s])\1*").match(self._text, opened)
        if quoted:
            start, mark = quoted.end(), quoted[1]
            closing = _CLOSING.get(mark, mark) * (start - quoted.start(1))
            end = self._text.find(closing + "}", start)
            if end >= 0:
                self._at = end + len(closing) + 1
                return f"{self._text[opened : quoted.start(1)]}={self._text[start:end]}"
        depth = 1
        for at in range(opened, len(self._text)):
            depth += {"{": 1, "}": -1}.get(self._text[at], 0)
            if not depth:
                self._at = at + 1
                return self._text[opened:at]
        raise TemplateError(f"the brace in {self._text[opened - 3 :][:20]!r} is not closed: add }}.")


def _text_step(name: str, braces: str | None) -> steps.InputStep:
    kind, _, argument = (braces or "").partition("=")
    if kind == "re":
        try:
            return steps.TextStep(FIELDS[name], steps.matching(re.compile(argument.encode())))
        except re.error as error:
            raise TemplateError(f"%{name}{{re}}: {argument!r} is no regular expression ({error}).") from None
    if kind not in steps.ENCODINGS:
        raise TemplateError(f"%{name}{{{braces}}} is no text: use {', '.join(filter(None, steps.ENCODINGS))} or re#…#.")
    return steps.TextStep(FIELDS[name], steps.ENCODINGS[kind])


def _size_step(name: str, braces: str | None) -> steps.InputStep:
    if braces and braces.isdecimal():
        return steps.SizeStep(SIZES[name], steps.constant(int(braces)))
    return steps.SizeStep(SIZES[name], _number(name, braces))


def _number_step(name: str, braces: str | None) -> steps.InputStep:
    kind, _, argument = (braces or "").partition("=")
    if name == "d" and kind in ("strftime", "strptime"):
        return steps.TimeStep(argument)
    return steps.NumberStep(NUMBERS[name], _number(name, braces))


def _number(name: str, braces: str | None) -> steps.NumberFormat:
    try:
        return steps.number_format(braces or "ascii")
    except KeyError:
        known = "ascii, big8 to big64, little8 to little64, byte or hex4 to hex64"
        raise TemplateError(f"%{name}{{{braces}}} is no number: use {known}.") from None


def _append(found: list[steps.InputStep], step: steps.InputStep) -> None:
    """Append a step to `found`. Two literals in sequence become one literal."""
    if found and isinstance(step, steps.LiteralStep) and isinstance(last := found[-1], steps.LiteralStep):
        found[-1] = steps.LiteralStep(last.text + step.text)
    else:
        found.append(step)


def _checked(found: list[steps.InputStep]) -> list[steps.InputStep]:
    """Return steps that know where they end. Raises `TemplateError` for text without an end, and other contradictions."""
    checked: list[steps.InputStep] = []
    sized: set[str] = set()
    seen: set[str] = set()
    for step, following in zip_longest(found, found[1:]):
        name = getattr(step, "name", "")
        if name in seen:
            raise TemplateError(f"the {name.removesuffix('_ms')} comes twice, or before its size: correct the order.")
        if isinstance(step, steps.SizeStep):
            sized.add(name)
        elif name:
            seen.add(name)
        if isinstance(step, steps.HeadersStep) and "count" not in seen:
            raise TemplateError("%h{…} needs the number of headers before it: write %H.")
        checked.append(_with_end(step, following, name in sized) if isinstance(step, steps.DelimitedStep) else step)
    return checked


def _with_end(step: steps.DelimitedStep, following: steps.InputStep | None, is_sized: bool) -> steps.DelimitedStep:
    """Return a step that knows whether its size is read before, and the text that follows. Raises `TemplateError` without both."""
    end = following.text if isinstance(following, steps.LiteralStep) else None
    if isinstance(step, steps.TextStep):
        step = replace(step, is_sized=is_sized)
    if step.needs_end and following is not None and end is None:
        raise TemplateError(
            f"nothing divides the {step.name} from what follows: write a text between them, or the size before the {step.name}."
        )
    return replace(step, end=end)
