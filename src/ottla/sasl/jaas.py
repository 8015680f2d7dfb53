"""A parser for `sasl.jaas.config`: one Java login module with its options, which contain names and passwords.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";

The module parses the syntax only. No error contains the value of an option.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

FLAGS = ("required", "requisite", "sufficient", "optional")
EXAMPLE = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="NAME" password="PASSWORD";'
_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | (?P<quoted> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
    | (?P<sign> [=;] )
    | (?P<word> [^\s"'=;]+ )""",
    re.X | re.S,
)
EQUALS, END = (True, "="), (True, ";")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


@dataclass(frozen=True, slots=True)
class LoginModule:
    """The name of a login module's Java class, and the module's options."""

    name: str
    options: Mapping[str, str] = field(repr=False)


def parse(text: str) -> LoginModule:
    """Parse the value of the setting. Raises `ValueError`, whose text must be preceded by the setting's name."""
    tokens = list(_tokens(text))
    if len(tokens) < 3 or tokens[-1] != END:
        raise ValueError(f"does not end with a semicolon after a login module and its options, as in {EXAMPLE}")
    (_, name), (_, flag), *rest = tokens[:-1]
    if END in rest:
        raise ValueError("names several login modules: leave one.")
    if flag.lower() not in FLAGS:
        raise ValueError(f"has no word {', '.join(FLAGS[:-1])} or {FLAGS[-1]} after its login module: write required there.")
    if len(rest) % 3 or any(sign != EQUALS for sign in rest[1::3]):
        raise ValueError('has options that are not NAME="VALUE": write them so, with spaces between them.')
    return LoginModule(name, {name: value for (_, name), (_, value) in zip(rest[::3], rest[2::3], strict=True)})


def _tokens(text: str) -> Iterator[tuple[bool, str]]:
    """Yield (whether it is a punctuation mark, the text) for each word or mark. Raises `ValueError`."""
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError('has a quotation mark that is not closed: write options as NAME="VALUE".')
        at = found.end()
        if found["quoted"] is not None:
            yield False, re.sub(r"\\(.)", lambda escaped: _ESCAPES.get(escaped[1], escaped[1]), found["quoted"][1:-1], flags=re.S)
        elif word := found["sign"] or found["word"]:
            yield word == found["sign"], word
