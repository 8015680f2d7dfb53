"""The protocol of Kafka 0.7 as lines for a terminal, and as values for programs, from its messages' declarations."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, Final

from ottla.cli.protocol.grammar import sentence
from ottla.cli.protocol.text import table, width
from ottla.inspection.api_names import NoSuchName
from ottla.kafka07 import wire as kafka07

TERMINALS: Final = {"i16": "INT16", "i32": "INT32", "i64": "INT64", "str": "STRING", "Messages": "MESSAGES", "Rest": "MESSAGES*"}
NOTES: Final = (
    ("size", "An INT32 before each request and response: how many bytes follow."),
    ("STRING", "An INT16 length, then UTF-8."),
    (
        "[field]",
        "An INT16 count, then the items; of offsets an INT32. The responses of MultiFetch have no count: they fill the frame.",
    ),
    ("MESSAGES", "An INT32 size in bytes, then messages; MESSAGES* go on to the end of the response. The last may be cut off."),
    (
        "message",
        "Its size (INT32), magic (INT8, 0 or 1), with magic 1 attributes (INT8), the CRC-32 of the payload (INT32), the payload.",
    ),
    ("attributes", "The codec: 0 none, 1 gzip, 2 snappy. A compressed payload is messages again; magic 0 has no attributes."),
)
"""The terms of the grammars, each with its explanation."""


def overview_lines() -> Iterator[str]:
    """Yield a line for each request."""
    yield from table(("type", "request", "answered", ""), [_row(kind) for kind in range(len(kafka07.REQUESTS))])
    yield ""
    yield from table(("in grammars", ""), NOTES)
    yield ""
    yield "`ottla protocol --release 0.7 REQUEST` shows one of them, `ottla protocol --release 0.7 --errors` the error codes."


def error_lines() -> Iterator[str]:
    yield from table(("code", ""), [(str(code), text) for code, text in kafka07.ERRORS.items()])


def lines_of(name: str) -> Iterator[str]:
    """Describe a request and its response. Raises `NoSuchName`."""
    kind = _find(name)
    request = kafka07.REQUESTS[kind]
    yield f"{_name(request)} of Kafka 0.7 (type {kind}), {'answered' if request in kafka07.RESPONSES else 'not answered'}"
    for cls in _both(kind):
        yield ""
        yield from textwrap.wrap(f"{kafka07.title(cls)}: {sentence(cls)}", width())
        yield ""
        yield from (f"  {line}" for line in _grammar(cls, kind))


def overview_json() -> list[dict[str, Any]]:
    return [_as_json(kind) for kind in range(len(kafka07.REQUESTS))]


def errors_json() -> list[dict[str, Any]]:
    return [{"code": code, "sentence": text} for code, text in kafka07.ERRORS.items()]


def json_of(name: str) -> dict[str, Any]:
    """Return a request and its response as JSON values. Raises `NoSuchName`."""
    return _as_json(_find(name))


def _as_json(kind: int) -> dict[str, Any]:
    described = [{"name": kafka07.title(cls), "about": sentence(cls), "grammar": list(_grammar(cls, kind))} for cls in _both(kind)]
    summary = {"type": kind, "name": _name(kafka07.REQUESTS[kind]), "release": "0.7", "request": described[0]}
    return summary | {"response": described[1] if len(described) > 1 else None}


def _find(name: str) -> int:
    """Return the type of a request by name ("multi_fetch", "FetchRequest") or by type. Raises `NoSuchName`."""
    wanted = name.replace("_", "").replace("-", "").lower().removesuffix("request").removesuffix("response")
    for kind, request in enumerate(kafka07.REQUESTS):
        if wanted in (str(kind), _name(request).lower()):
            return kind
    names = ", ".join(map(_name, kafka07.REQUESTS))
    raise NoSuchName(f"There is no request {name!r} in Kafka 0.7: it has {names}.")


def _row(kind: int) -> tuple[str, ...]:
    request = kafka07.REQUESTS[kind]
    return str(kind), _name(request), "yes" if request in kafka07.RESPONSES else "no", sentence(request)


def _both(kind: int) -> list[type[Any]]:
    """Return the class of a request, and the class of its response if it has one."""
    request = kafka07.REQUESTS[kind]
    return [request, kafka07.RESPONSES[request]] if request in kafka07.RESPONSES else [request]


def _name(request: type[Any]) -> str:
    return kafka07.title(request).removesuffix("Request")


def _grammar(cls: type[Any], kind: int) -> Iterator[str]:
    """Yield a message's grammar in the notation of Kafka's protocol guide."""
    is_request = cls in kafka07.REQUESTS
    title = kafka07.title(cls)
    words = title.removesuffix("Request").removesuffix("Response")
    head = ["size", "type"] if is_request else ["size"]
    yield f"{words} {title.removeprefix(words)} => {' '.join([*head, *_symbols(cls)])}"
    yield "  size => INT32"
    if is_request:
        yield f"  type => INT16, which is {kind}"
    yield from _rules(cls, 1)


def _symbols(cls: type[Any]) -> list[str]:
    return [f"[{name}]" if declared.startswith("list[") else name for name, declared in kafka07.layout(cls)]


def _rules(cls: type[Any], depth: int) -> Iterator[str]:
    for name, declared in kafka07.layout(cls):
        item = declared.removeprefix("list[").removesuffix("]")
        if item in TERMINALS:
            yield f"{'  ' * depth}{name} => {TERMINALS[item]}"
            continue
        of = getattr(kafka07, item)
        head = [] if of in kafka07.REQUESTS else ["size"]
        yield f"{'  ' * depth}{name} => {' '.join([*head, *_symbols(of)])}"
        yield from (f"{'  ' * (depth + 1)}{field} => INT32" for field in head)
        yield from _rules(of, depth + 1)
