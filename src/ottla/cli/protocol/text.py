"""The protocol as lines for a terminal: the layout of tables. Their content comes from `ottla.cli.protocol.grammar`."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence

from ottla.cli.protocol.grammar import about, grammar, rows, sentence
from ottla.inspection.api_names import spec
from ottla.wire.apis import API, Api
from ottla.wire.errors import ERRORS
from ottla.wire.schema import Message

_MOST_COLUMNS = 140
_HEADS = ("field", "type", "versions", "null", "tag", "default", "")


def width() -> int:
    return min(shutil.get_terminal_size((120, 24)).columns, _MOST_COLUMNS)


def table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """Return the lines of a table whose columns are as narrow as possible. The last column is wrapped at the terminal's edge."""
    widths = [max(len(line[at]) for line in (heads, *lines)) for at in range(len(heads) - 1)]
    indent = sum(widths) + 2 * len(widths)
    for line in (heads, *lines):
        left = "".join(f"{cell:<{size}}  " for cell, size in zip(line[:-1], widths, strict=True))
        last = textwrap.wrap(line[-1], max(width() - indent, 30)) or [""]
        yield (left + last[0]).rstrip()
        yield from (" " * indent + more for more in last[1:])


def overview_lines() -> Iterator[str]:
    """Yield a line for each API."""
    lines = [(str(api.key), api.name, spec(api.versions), flexible_text(api), about(api)[0]) for api in API.values()]
    yield from table(("key", "API", "versions", "flexible", ""), lines)
    yield ""
    yield "`ottla protocol API` shows one of them, `ottla protocol --errors` the error codes, `--html FILE` all on one page."


def error_lines() -> Iterator[str]:
    lines = [(str(error.code), error.name, "yes" if error.retriable else "no", error.sentence) for error in ERRORS.values()]
    yield from table(("code", "error", "retry", ""), lines)


def flexible_text(api: Api) -> str:
    """Return the range of versions with tagged fields."""
    first = next((version for version in api.versions if version in api.flexible), None)
    return "none" if first is None else f"{first}+"


def lines_of(thing: Api | type[Message], versions: list[int]) -> Iterator[str]:
    """Return the lines that describe an API or a message: the grammar of the last of `versions`, the fields of all."""
    if not isinstance(thing, Api):
        yield from _message_lines(thing, versions)
        return
    purpose, history = about(thing)
    yield f"{thing.name} (API key {thing.key}), versions {spec(thing.versions)}, flexible {flexible_text(thing)}"
    yield ""
    yield from textwrap.wrap(purpose, width())
    if history:
        yield ""
        yield from textwrap.wrap(history, width())
    version = versions[-1]
    yield ""
    yield f"Version {version}: request header {thing.request_headers[version]}, response header {thing.response_headers[version]}."
    for cls in (thing.request, thing.response):
        yield ""
        yield from _message_lines(cls, versions)
    if len(versions) > 1:
        yield ""
        yield f"Grammars are those of version {version}; --version N shows another, --html FILE all. --errors lists error codes."


def _message_lines(cls: type[Message], versions: list[int]) -> Iterator[str]:
    yield f"{cls.__name__}: {sentence(cls)}"
    yield ""
    for line in grammar(cls, versions[-1]):
        depth = len(line) - len(line.lstrip())
        indent = " " * (depth + 8)
        yield from textwrap.wrap(line, width() - 2, initial_indent="  ", subsequent_indent=indent, break_on_hyphens=False)
    only = versions[0] if len(versions) == 1 else None
    lines = [
        ("  " * (row.depth + 1) + row.name, row.type, row.versions, row.nullable, row.tag, row.default, "ignorable" * row.ignorable)
        for row in rows(cls, only)
    ]
    if lines:
        yield ""
        yield from table(("  field", *_HEADS[1:]), lines)
