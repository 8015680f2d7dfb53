"""Regular expressions of subscriptions and of lists, matched by RE2 in time linear in the text for any pattern.

Kafka compiles them with RE2/J, which has the same syntax. A pattern must match a whole name. Three limits keep a hostile
pattern from blocking the broker: its content, the memory of its automaton, and the work of one slice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

MOST_CHARACTERS = 8_192
"""The longest pattern, in characters; a longer one takes long to compile, even if the result is only that it is too large."""

MOST_CLASSES = 64
"""The most classes of Unicode characters in a pattern: each has hundreds of ranges, and costs as much as hundreds of characters."""

MEMORY_BYTES = 512 << 10
"""The most memory of a pattern's automaton, in bytes: about 30,000 steps."""

SLICE_WORK = 4_000_000
"""The most work of one slice, as steps of the automaton times characters of names: several milliseconds at worst."""


_CLASS = re.compile(r"\\[pP]")


class IllegalPattern(ValueError):
    """An invalid regular expression, or one above a limit: a sentence that says why."""


class CompiledPattern(Protocol):
    """RE2's compiled pattern."""

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
        """Return the names that match."""
        matches = self._matches
        return frozenset(name for name in names if matches(name) is not None)

    def part(self, names: Sequence[str], at: int, most: int | None = None) -> tuple[frozenset[str], int]:
        """Match as many names from `at` on as a few milliseconds allow, and no more than `most`.

        Return the matching names, and where to continue.
        """
        characters, end = 0, at
        last = len(names) if most is None else min(len(names), at + most)
        while end < last and characters < self._characters_at_once:
            characters += len(names[end])
            end += 1
        return self.matching(names[at:end]), end


@lru_cache(64)
def matcher(pattern: str) -> Matcher:
    """Return the matcher of a pattern; the last ones are cached. Raises `IllegalPattern`."""
    excess = _excess(pattern)
    if excess is not None:
        raise IllegalPattern(excess)
    engine = _engine()
    try:
        return Matcher(pattern, _compiled(engine, pattern))
    except (engine.error, UnicodeEncodeError) as error:
        raise IllegalPattern(f"It cannot be compiled: {_reason(error)}.") from error


def _engine() -> PatternEngine:
    """Return the module `re2`, imported with the first pattern: most groups have none."""
    try:
        import re2
    except ImportError as error:
        raise IllegalPattern("This broker has no regular expressions: install google-re2.") from error
    engine: PatternEngine = re2
    return engine


def _compiled(engine: PatternEngine, pattern: str) -> CompiledPattern:
    options = engine.Options()
    options.max_mem = MEMORY_BYTES
    options.log_errors = False
    # Captures are not used, and finding thousands of them makes a match slow.
    options.never_capture = True
    return engine.compile(pattern, options)


def _excess(pattern: str) -> str | None:
    """Return which limit the pattern exceeds, as a sentence; None if none."""
    if len(pattern) > MOST_CHARACTERS:
        return f"It has {len(pattern)} characters, more than the {MOST_CHARACTERS} allowed."
    classes = len(_CLASS.findall(pattern))
    if classes > MOST_CLASSES:
        return f"It has {classes} classes such as \\p{{L}}, more than the {MOST_CLASSES} allowed."
    return None


def _reason(error: Exception) -> str:
    """Return the engine's message, which it gives as bytes."""
    said = error.args[0] if error.args else error
    return said.decode(errors="replace") if isinstance(said, bytes) else str(error)
