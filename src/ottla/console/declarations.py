"""What pages and actions of the console are declared with. The module sends nothing and depends on nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value")

View = Callable[..., Awaitable[object]]
"""An `async def` whose first argument is the `ClusterSession`. Its other parameters come from the path and the query, by name.

It returns a frozen dataclass of plain values: strings, numbers, None, lists, dictionaries by string, and such dataclasses. It
raises `KafkaError`, and `PageRefused` for a wrong parameter.
"""
DEADLINE_S = 3.0
"""The time, in s, for which a page waits for brokers."""
REFRESH_S = 2.0
"""The time, in s, between two refreshes of a live page."""


class PageRefused(Exception):
    """A request that the console refuses: the HTTP status, and one sentence for people."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its path with names in braces, its view, its template and the title of its tab.

    `menu` is its entry in the navigation, empty for a page that others link to. A page without `refresh_s` is not live. A page that
    `takes_post` accepts its parameters as a form, too, because they can be longer than a URL.
    """

    path: str
    view: View
    template: str
    title: str
    menu: str = ""
    refresh_s: float = REFRESH_S
    takes_post: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """A change, made by POST with a form or with JSON. `act` is a `View` that returns `Done`.

    `page` is the path of the page with the form, which is shown again with the error of an action that failed.
    """

    path: str
    act: View
    page: str


@dataclass(frozen=True, slots=True)
class Done:
    """The result of an action: one sentence, and the path of the page that is shown next (empty: the action's page)."""

    sentence: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class Download:
    """Bytes to save as a file. `view` is a `View` that returns `FileContent`."""

    path: str
    view: View


@dataclass(frozen=True, slots=True)
class FileContent:
    """The name and the bytes of a file."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Part(Generic[Value]):
    """A part of a page that was asked of brokers.

    `value` is None if there never was an answer. `trouble` is the sentence about the last request if it failed; `value` is then the
    last known one, of `as_of_ms`, the time in ms since 1970.
    """

    value: Value | None
    trouble: str = ""
    as_of_ms: int = 0
