"""The protocol as one self-contained HTML page: it uses no script, font or other file, and is light or dark like the system."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from textwrap import wrap

from ottla.cli.protocol.grammar import TYPES, about, grammar, rows, sentence
from ottla.cli.protocol.text import flexible_text
from ottla.inspection.api_names import spec
from ottla.version import VERSION
from ottla.wire.apis import API, Api
from ottla.wire.errors import ERRORS
from ottla.wire.headers import RequestHeader, ResponseHeader
from ottla.wire.schema import Message
from ottla.wire.stored_messages import others

GRAMMAR_COLUMNS = 118
STYLE = """
:root {
  color-scheme: light dark;
  --ink: #1d2430; --dim: #667080; --line: #dde2ea; --paper: #ffffff; --wash: #f5f7fa; --mark: #0b63b5;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #dfe4ec; --dim: #95a0b2; --line: #323a48; --paper: #14181f; --wash: #1c222c; --mark: #76b7f5;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.55 system-ui, sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 1.5rem 1.25rem 5rem; }
h1 { font-size: 1.7rem; margin: .5rem 0; }
h2 { font-size: 1.35rem; margin: 3rem 0 .3rem; padding-top: 1rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.6rem 0 .3rem; }
p { max-width: 52rem; margin: .4rem 0; }
a { color: var(--mark); text-decoration: none; }
a:hover { text-decoration: underline; }
h2 a { color: inherit; }
small, .dim { color: var(--dim); }
code, pre, td.name, td.type { font-family: ui-monospace, "SFMono-Regular", Menlo, Consolas, monospace; font-size: .86em; }
pre { background: var(--wash); border: 1px solid var(--line); border-radius: 6px;
  padding: .7rem .9rem; margin: .3rem 0 .6rem; white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.5; }
details details { margin-left: 1.1rem; }
details { margin: .25rem 0; }
summary { cursor: pointer; }
summary:hover { color: var(--mark); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .6rem 0; width: 100%; }
th { text-align: left; font-weight: 600; color: var(--dim); font-size: .85em; }
h2:first-child { border: 0; margin: 0; padding: 0; }
th, td { padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td { white-space: nowrap; }
td.text { white-space: normal; width: 60%; }
tr:target, h2:target { background: var(--wash); }
"""


def whole_page() -> str:
    """Return a page with every API, header and stored message, and with the types and the errors."""
    body = [
        *_opening("Kafka's protocol", "Every API, every version ever valid, every field and error code, as Ottla declares them."),
        '<p><a href="#types">Types</a> · <a href="#apis">APIs</a> · <a href="#headers">Headers</a> · '
        '<a href="#stored">Stored and nested messages</a> · <a href="#errors">Errors</a></p>',
        *_types(),
        '<h2 id="apis">APIs</h2>',
        *_api_table(),
        '<h2 id="headers">Headers</h2>',
        *_message(RequestHeader, list(RequestHeader.WIRE.valid)),
        *_message(ResponseHeader, list(ResponseHeader.WIRE.valid)),
    ]
    for api in API.values():
        body += _api(api, list(api.versions))
    body.append('<h2 id="stored">Stored and nested messages</h2>')
    for cls in others().values():
        if cls not in (RequestHeader, ResponseHeader):
            body += _message(cls, list(cls.WIRE.valid))
    return _page("Kafka's protocol", [*body, *_errors()])


def page_of(thing: Api | type[Message], versions: list[int]) -> str:
    """Return a page with one API or message in some of its versions. It also has the types, and for an API the errors."""
    name = thing.name if isinstance(thing, Api) else thing.__name__
    shown = f" version {versions[0]}" if len(versions) == 1 else ""
    about_it = _api(thing, versions) if isinstance(thing, Api) else _message(thing, versions)
    body = [*about_it, *_types(), *(_errors() if isinstance(thing, Api) else ())]
    return _page(f"{name}{shown}", body)


def _page(title: str, body: list[str]) -> str:
    head = '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    inside = "\n".join(["<body>", "<main>", *body, "</main>", "</body>"])
    return f"{head}{view}<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n{inside}\n</html>\n"


def _opening(title: str, text: str) -> Iterator[str]:
    yield f"<h1>{escape(title)}</h1>"
    yield f"<p>{escape(text)} <small>Made by Ottla {VERSION}.</small></p>"


def _types() -> Iterator[str]:
    yield '<h2 id="types">Types</h2>'
    yield "<p>All numbers are big-endian. What the names in the grammars mean:</p>"
    yield from _table(("type", ""), [(f"<code>{escape(name)}</code>", _prose(text)) for name, text in TYPES])


def _api_table() -> Iterator[str]:
    cells = [
        (str(api.key), f'<a href="#{api.name}">{api.name}</a>', spec(api.versions), flexible_text(api), _prose(about(api)[0]))
        for api in API.values()
    ]
    yield from _table(("key", "API", "versions", "flexible", ""), cells)


def _errors() -> Iterator[str]:
    yield '<h2 id="errors">Errors</h2>'
    cells = [
        (str(error.code), f"<code>{error.name}</code>", "yes" if error.retriable else "no", _prose(error.sentence))
        for error in ERRORS.values()
    ]
    yield from _table(("code", "error", "retriable", ""), cells)


def _api(api: Api, versions: list[int]) -> Iterator[str]:
    purpose, history = about(api)
    yield f'<h2 id="{api.name}"><a href="#{api.name}">{api.name}</a> <small>API key {api.key}</small></h2>'
    yield f"<p>{_prose(purpose)}</p>"
    yield f"<p>{_prose(history)}</p>" if history else ""
    flexible = flexible_text(api)
    yield f'<p class="dim">Versions {spec(api.versions)}, flexible {flexible}. {escape(_headers(api, versions))}</p>'
    yield from _message(api.request, versions)
    yield from _message(api.response, versions)


def _headers(api: Api, versions: list[int]) -> str:
    """Return a sentence about the header versions of the API's versions."""
    pairs: dict[tuple[int, int], list[int]] = {}
    for version in versions:
        pairs.setdefault((api.request_headers[version], api.response_headers[version]), []).append(version)
    parts = (
        f"request header {one} and response header {two} in {spec(range(found[0], found[-1] + 1))}"
        for (one, two), found in pairs.items()
    )
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _message(cls: type[Message], versions: list[int]) -> Iterator[str]:
    """Render docstring, grammars (the newest one open), and the table of fields."""
    yield f'<h3 id="{cls.__name__}">{cls.__name__}</h3>'
    yield f"<p>{_prose(sentence(cls))}</p>"
    *older, newest = versions
    yield _grammar(cls, newest, " open")
    if older:
        yield f"<details><summary>Older versions, {spec(range(older[0], older[-1] + 1))}</summary>"
        yield from (_grammar(cls, version) for version in reversed(older))
        yield "</details>"
    only = versions[0] if len(versions) == 1 else None
    cells = [
        (
            f'<span style="padding-left:{1.2 * row.depth:.1f}em">{row.name}</span>',
            escape(row.type),
            row.versions,
            row.nullable,
            row.tag,
            f"<code>{escape(row.default)}</code>",
            "ignorable" if row.ignorable else "",
        )
        for row in rows(cls, only)
    ]
    if cells:
        yield from _table(("field", "type", "versions", "nullable", "tag", "default", ""), cells)


def _grammar(cls: type[Message], version: int, attribute: str = "") -> str:
    text = escape("\n".join(_wrapped(line) for line in grammar(cls, version)))
    return f"<details{attribute}><summary>Version {version}</summary><pre>{text}</pre></details>"


def _wrapped(line: str) -> str:
    """Divide a long line of a grammar. All lines but the first are indented, and a tag stays with its field."""
    further = " " * (len(line) - len(line.lstrip()) + 4)
    kept = line.replace("<tag: ", "<tag:\xa0")
    lines = wrap(kept, GRAMMAR_COLUMNS, subsequent_indent=further, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\xa0", " ")


def _prose(text: str) -> str:
    """Render a sentence, with names in backticks as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _table(heads: tuple[str, ...], cells: Sequence[tuple[str, ...]]) -> Iterator[str]:
    yield '<div class="wide"><table><thead><tr>' + "".join(f"<th>{head}</th>" for head in heads) + "</tr></thead><tbody>"
    kinds = [_kind(head, at, len(heads)) for at, head in enumerate(heads)]
    for line in cells:
        yield "<tr>" + "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, line, strict=True)) + "</tr>"
    yield "</tbody></table></div>"


def _kind(head: str, at: int, count: int) -> str:
    if head in ("field", "type") and count > 2:
        return ' class="name"' if head == "field" else ' class="type"'
    return ' class="text"' if at == count - 1 and count < 7 else ""
