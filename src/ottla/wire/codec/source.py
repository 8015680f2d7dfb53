"""Python source being written: lines with their depth, the names they refer to, and the compiled function in the end."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    """One generated function. Its text is in `linecache`, so that tracebacks and debuggers show it."""

    def __init__(self, head: str, names: dict[str, Any]) -> None:
        self._lines = [head]
        self._depth = 1
        self._names = dict(names)
        self._known: dict[int, str] = {}
        self._count = 0

    def __call__(self, *lines: str) -> None:
        indent = "    " * self._depth
        self._lines += [indent + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Lines written inside stand one level deeper, below `head`."""
        self(head)
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self("pass")
        self._depth -= 1

    def local(self, prefix: str) -> str:
        """A variable name used nowhere else in the function."""
        self._count += 1
        return f"{prefix}{self._count}"

    def bind(self, prefix: str, value: Any) -> str:
        """The name by which the function sees `value`; the same value keeps its name."""
        if id(value) not in self._known:
            self._known[id(value)] = self.local(f"{prefix}_")
            self._names[self._known[id(value)]] = value
        return self._known[id(value)]

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def compile(self, filename: str) -> Callable[..., Any]:
        text = self.text
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
        exec(compile(text, filename, "exec"), self._names)
        made: Callable[..., Any] = self._names[text[4 : text.index("(")]]
        return made
