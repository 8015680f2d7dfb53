"""Regular expressions of subscriptions and of list requests. RE2 matches every pattern in a time linear in the text.

Kafka uses RE2/J, which has the same syntax. A pattern must match a whole name. Three limits prevent a hostile pattern from
blocking the broker: the pattern's content, its automaton's memory, and the work between two pauses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

MOST_CHARACTERS = 8_192
"""The longest pattern, in characters. A longer pattern takes long to compile, even if its automaton is refused as too large."""

MOST_CLASSES = 64
"""The most classes of Unicode characters in a pattern, because each class costs as much as hundreds of characters."""

MEMORY_BYTES = 512 << 10
"""The most memory of a pattern's automaton, in bytes: about 30,000 steps."""

SLICE_WORK = 4_000_000
"""The most work between two pauses, as the automaton's steps times the names' characters: at worst several milliseconds."""


_CLASS = re.compile(r"\\[pP]")


class IllegalPattern(ValueError):
    """A regular expression is invalid or exceeds a limit. The text says why, in one sentence."""


class CompiledPattern(Protocol):
    """The part of RE2's compiled pattern that this module uses."""

    @property
    def programsize(self) -> int: ...

    def fullmatch(self, text: str, /) -> object | None: ...

    def search(self, text: str, /) -> object | None: ...


class PatternOptions(Protocol):
    """The options of RE2's compiler that this module sets."""

    max_mem: int
    log_errors: bool
    never_capture: bool


class PatternEngine(Protocol):
    """The part of the module `re2` that this module uses."""

    error: type[Exception]

    def Options(self) -> PatternOptions: ...

    def compile(self, pattern: str, options: PatternOptions, /) -> CompiledPattern: ...


class Matcher:
    """A compiled pattern. `matcher` creates it."""

    def __init__(self, pattern: str, compiled: CompiledPattern) -> None:
        self.pattern = pattern
        self._matches = compiled.fullmatch
        self._characters_at_once = max(1, SLICE_WORK // compiled.programsize)

    def match(self, names: Iterable[str]) -> frozenset[str]:
        matches = self._matches
        return frozenset(name for name in names if matches(name) is not None)

    def part(self, names: Sequence[str], at: int, most: int | None = None) -> tuple[frozenset[str], int]:
        """Match names from index `at` on: at most `most` names, and no longer than a few milliseconds.

        Return the matching names, and the index at which the next call continues.
        """
        characters, end = 0, at
        last = len(names) if most is None else min(len(names), at + most)
        while end < last and characters < self._characters_at_once:
            characters += len(names[end])
            end += 1
        return self.match(names[at:end]), end


@lru_cache(64)
def matcher(pattern: str) -> Matcher:
    """Return the matcher of a pattern, perhaps from a cache. Raises `IllegalPattern` if it is invalid or exceeds a limit."""
    return Matcher(pattern, compile_pattern(pattern))


@lru_cache(64)
def compile_pattern(pattern: str) -> CompiledPattern:
    """Return a compiled pattern, perhaps from a cache. Raises `IllegalPattern` if it is invalid or exceeds a limit."""
    excess = _excess(pattern)
    if excess is not None:
        raise IllegalPattern(excess)
    engine = _engine()
    try:
        return _compile(engine, pattern)
    except (engine.error, UnicodeEncodeError) as error:
        raise IllegalPattern(f"It cannot be compiled: {_reason(error)}.") from error


def _engine() -> PatternEngine:
    """Import and return the module `re2`. It is imported only for the first pattern, because most groups have no pattern."""
    try:
        import re2
    except ImportError as error:
        raise IllegalPattern("This broker has no regular expressions: install google-re2.") from error
    engine: PatternEngine = re2
    return engine


def _compile(engine: PatternEngine, pattern: str) -> CompiledPattern:
    options = engine.Options()
    options.max_mem = MEMORY_BYTES
    options.log_errors = False
    # Without captures: they are not used, and thousands of them make a match slow.
    options.never_capture = True
    return engine.compile(pattern, options)


def _excess(pattern: str) -> str | None:
    """Return a sentence that says which limit the pattern exceeds; None if it exceeds no limit."""
    if len(pattern) > MOST_CHARACTERS:
        return f"It has {len(pattern)} characters, more than the {MOST_CHARACTERS} allowed."
    classes = len(_CLASS.findall(pattern))
    if classes > MOST_CLASSES:
        return f"It has {classes} classes such as \\p{{L}}, more than the {MOST_CLASSES} allowed."
    return None


def _reason(error: Exception) -> str:
    """Return the text of RE2's error message, which can be bytes."""
    said = error.args[0] if error.args else error
    return said.decode(errors="replace") if isinstance(said, bytes) else str(error)
