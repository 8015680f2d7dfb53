"""The statements of a script for `ottla pipeline sql`: Spark's SQL, with topics as tables to read and write. Pure.

CREATE TABLE flights (origin STRING, delay INT) USING ottla OPTIONS (subscribe 'flights-eu', valueFormat 'json')
CREATE TEMPORARY VIEW late AS SELECT origin FROM flights WHERE delay > 15
INSERT INTO late_flights SELECT origin AS key, origin, delay FROM late
SELECT * FROM late
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ottla.pipelines.errors import PipelineError

_TOKEN = re.compile(r"""--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|\w+|.""", re.DOTALL)
_CREATE = re.compile(r"CREATE\s+TABLE\s+(`[^`]+`|\w+)\s*", re.IGNORECASE)
_USING = re.compile(r"USING\s+ottla\b\s*", re.IGNORECASE)
_OPTIONS = re.compile(r"OPTIONS\s*(?=\()", re.IGNORECASE)
_OPTION = re.compile(r"""\s*['"`]?([\w.]+)['"`]?\s*(?:=\s*|\s+)(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([\w.]+))\s*(?:,|$)""")
_INSERT = re.compile(r"INSERT\s+INTO\s+(?:TABLE\s+)?(`[^`]+`|[\w.]+)\s+(?=SELECT\b|WITH\b|FROM\b|\(|VALUES\b)", re.IGNORECASE)
_SELECT = re.compile(r"(SELECT|WITH|FROM|VALUES)\b", re.IGNORECASE)
EXAMPLE = "write CREATE TABLE name (column TYPE, …) USING ottla OPTIONS (subscribe 'topic')"


@dataclass(frozen=True, slots=True)
class CreateTable:
    """A CREATE TABLE statement for a topic. `columns` is DDL for the fields of values; None means the columns of a Kafka record."""

    name: str
    columns: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InsertInto:
    """An INSERT INTO statement: a query whose rows are written to a topic."""

    table: str
    query: str


@dataclass(frozen=True, slots=True)
class ShowRows:
    """A SELECT statement: a query whose rows are shown."""

    query: str


@dataclass(frozen=True, slots=True)
class ForSpark:
    """A statement for Spark itself: SET, CREATE TEMPORARY VIEW and others."""

    text: str


Statement = CreateTable | InsertInto | ShowRows | ForSpark


def statements_of(script: str) -> list[Statement]:
    """Return the statements of a script, in order. Raises `PipelineError`."""
    return [_statement(text) for text in split(script)]


def split(script: str) -> Iterator[str]:
    """Yield the statements between semicolons, without comments. Semicolons within quotes do not separate statements."""
    text = ""
    for token in [*_TOKEN.findall(script), ";"]:
        if token == ";":
            if text.strip():
                yield text.strip()
            text = ""
        else:
            text += " " if token.startswith(("--", "/*")) else token


def words_of(text: str) -> set[str]:
    """Return all words of a text that can be names of tables: plain words, and names in backticks."""
    return {token.strip("`") for token in _TOKEN.findall(text) if re.fullmatch(r"\w+|`[^`]+`", token)}


def _statement(text: str) -> Statement:
    if match := _CREATE.match(text):
        return _table(match[1].strip("`"), text[match.end() :])
    if match := _INSERT.match(text):
        return InsertInto(match[1].strip("`"), text[match.end() :])
    return ShowRows(text) if _SELECT.match(text) else ForSpark(text)


def _table(name: str, rest: str) -> CreateTable:
    columns, options = None, {}
    if rest.startswith("("):
        columns, rest = _split_parentheses(name, rest)
    if match := _USING.match(rest):
        rest = rest[match.end() :]
    if match := _OPTIONS.match(rest):
        inside, rest = _split_parentheses(name, rest[match.end() :])
        options = _options(name, inside)
    if rest:
        raise PipelineError(f"CREATE TABLE {name} is followed by {rest[:30]!r}: {EXAMPLE}.")
    return CreateTable(name, columns, options)


def _split_parentheses(name: str, text: str) -> tuple[str, str]:
    """Return the contents of the parentheses with which a text begins, and the text after them."""
    depth = at = 0
    for token in _TOKEN.findall(text):
        depth += (token == "(") - (token == ")")
        at += len(token)
        if depth == 0:
            return text[1 : at - 1].strip(), text[at:].strip()
    raise PipelineError(f"A parenthesis of CREATE TABLE {name} is not closed: {EXAMPLE}.")


def _options(name: str, text: str) -> dict[str, str]:
    found, at = {}, 0
    while at < len(text):
        match = _OPTION.match(text, at)
        if match is None:
            raise PipelineError(f"The options of CREATE TABLE {name} cannot be read at {text[at : at + 30].strip()!r}: {EXAMPLE}.")
        found[match[1]] = next(value for value in match.groups()[1:] if value is not None)
        at = match.end()
    return found
