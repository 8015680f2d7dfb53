"""Regular expressions of subscriptions and of lists, matched by RE2, whose time is linear in the text whatever the pattern.

Kafka compiles them with RE2/J, which has the same syntax. A pattern must match a whole name. Three limits keep a hostile
pattern from holding up the broker: what it may contain, the memory of its automaton, and the work done in one slice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

MOST_CHARACTERS = 8_192
"""Of a pattern; a longer one takes long to compile, even if only to find that it is too large."""

MOST_CLASSES = 64
"""Classes of Unicode characters in a pattern: each has hundreds of ranges, and costs as much as hundreds of characters."""

MEMORY_BYTES = 512 << 10
"""For a pattern's automaton: some 30,000 steps."""

SLICE_WORK = 4_000_000
"""Steps of the automaton times characters of names, at most, that one slice takes: several milliseconds at the worst."""


_CLASS = re.compile(r"\\[pP]")


class IllegalPattern(ValueError):
    """No regular expression, or one that needs too much: a sentence that says why."""


class CompiledPattern(Protocol):
    """What RE2 compiles a pattern to."""

    @property
    def programsize(self) -> int: ...

    def fullmatch(self, text: str, /) -> object | None: ...


class PatternOptions(Protocol):
    """Options of RE2's compiler."""

    max_mem: int
    log_errors: bool
    never_capture: bool


class PatternEngine(Protocol):
    """The module `re2`."""

    error: type[Exception]

    def Options(self) -> PatternOptions: ...

    def compile(self, pattern: str, options: PatternOptions, /) -> CompiledPattern: ...


class Matcher:
    """A compiled pattern; made by `matcher`."""

    def __init__(self, pattern: str, compiled: CompiledPattern) -> None:
        self.pattern = pattern
        self._matches = compiled.fullmatch
        self._characters_at_once = max(1, SLICE_WORK // compiled.programsize)

    def matching(self, names: Iterable[str]) -> frozenset[str]:
        """Those of the names that match."""
        matches = self._matches
        return frozenset(name for name in names if matches(name) is not None)

    def part(self, names: Sequence[str], at: int, most: int | None = None) -> tuple[frozenset[str], int]:
        """Match as many names from `at` on as a few milliseconds allow, and no more than `most`.

        Returns those that match, and where to go on.
        """
        characters, end = 0, at
        last = len(names) if most is None else min(len(names), at + most)
        while end < last and characters < self._characters_at_once:
            characters += len(names[end])
            end += 1
        return self.matching(names[at:end]), end


@lru_cache(64)
def matcher(pattern: str) -> Matcher:
    """The matcher of a pattern; the last ones are kept. Raises `IllegalPattern`."""
    excess = _excess(pattern)
    if excess is not None:
        raise IllegalPattern(excess)
    engine = _engine()
    try:
        return Matcher(pattern, _compiled(engine, pattern))
    except (engine.error, UnicodeEncodeError) as error:
        raise IllegalPattern(f"It can't be compiled: {_reason(error)}.") from error


def _engine() -> PatternEngine:
    """Imported with the first pattern: most groups have none."""
    try:
        import re2
    except ImportError as error:
        raise IllegalPattern("This broker lacks what compiles patterns: install google-re2 beside it.") from error
    engine: PatternEngine = re2
    return engine


def _compiled(engine: PatternEngine, pattern: str) -> CompiledPattern:
    options = engine.Options()
    options.max_mem = MEMORY_BYTES
    options.log_errors = False
    # What groups capture is nobody's business, and finding it makes a match with thousands of them slow.
    options.never_capture = True
    return engine.compile(pattern, options)


def _excess(pattern: str) -> str | None:
    """What the pattern has too much of; None if nothing."""
    if len(pattern) > MOST_CHARACTERS:
        return f"It has {len(pattern)} characters: {MOST_CHARACTERS} are the most that a pattern may have."
    classes = len(_CLASS.findall(pattern))
    if classes > MOST_CLASSES:
        return f"It has {classes} classes such as \\p{{L}}: {MOST_CLASSES} are the most that a pattern may have."
    return None


def _reason(error: Exception) -> str:
    """The engine's message, which it gives as bytes."""
    said = error.args[0] if error.args else error
    return said.decode(errors="replace") if isinstance(said, bytes) else str(error)
