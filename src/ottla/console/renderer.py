"""Pages as HTML. Jinja escapes every value; nothing is marked as safe but our own charts and links.

A page's live parts are regions: `{% call region("brokers") %} … {% endcall %}` in a template. They are found by making the page.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ottla.console import charts
from ottla.console.config import LOGINS, ConsoleConfig
from ottla.console.declarations import Page
from ottla.console.paths import path_of
from ottla.version import VERSION

NOTHING = "\u2013"
"""A dash, in place of an unknown number."""
TOKEN = f"token-{secrets.token_hex(16)}"
"""Stands in pages for the token of the viewer's session, because viewers of the same page share its HTML."""


@dataclass(frozen=True, slots=True)
class ShownPage:
    """What a page is made of, besides its content: where it is, who sees it, and what happened."""

    page: Page | None
    path: str = "/"
    query: Mapping[str, Any] = field(default_factory=dict)
    user: str = ""
    notice: str = ""
    problem: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    """The values of a form that was refused, which is shown again."""


class PageRenderer:
    """Makes HTML of the console's templates."""

    def __init__(self, config: ConsoleConfig, pages: tuple[Page, ...]) -> None:
        self._environment = Environment(
            loader=PackageLoader("ottla.console"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self._environment.filters.update(
            size=size_text, count=count_text, moment=moment_text, ago=ago_text, lasting=duration_text, rate=rate_text
        )
        self._environment.globals.update(
            menu=[page for page in pages if page.menu],
            read_only=config.read_only,
            registry=bool(config.schema_registry),
            servers=config.client.get("bootstrap_servers", ""),
            needs_login=config.needs_login,
            mechanisms=LOGINS,
            version=VERSION,
            spark=charts.spark,
            bar=charts.bar,
            to=lambda pattern, **names: path_of(pattern, names),
        )

    def render(self, template: str, data: object, shown: ShownPage) -> tuple[str, dict[str, str]]:
        """Return a page's HTML and its regions. `TOKEN` stands for the token of the session."""
        regions: dict[str, str] = {}

        def region(name: str, title: str = "", caller: Callable[[], str] = str) -> Markup:
            html = Markup('<section class="region" id="{name}" data-region{label}>{body}</section>').format(
                name=name, label=Markup(' aria-label="{}"').format(title) if title else "", body=caller()
            )
            regions[name] = str(html)
            return html

        def link(**changes: object) -> str:
            """Return the page's own address with other values in its query. None takes a value out."""
            query = {name: value for name, value in {**shown.query, **changes}.items() if value not in (None, "", [])}
            return shown.path + ("?" + urlencode(query, doseq=True) if query else "")

        live = shown.page.refresh_s if shown.page is not None else 0.0
        html = self._environment.get_template(template).render(
            data=data, shown=shown, region=region, link=link, token=TOKEN, here=link(), is_live=live > 0
        )
        return html, regions


def size_text(size: float | None) -> str:
    """Return a number of bytes for people, in units of 1024."""
    if size is None or size < 0:
        return NOTHING
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    amount = float(size)
    for unit in units:
        if amount < 1024 or unit == units[-1]:
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"


def count_text(number: float | None) -> str:
    """Return a number with groups of three digits."""
    return NOTHING if number is None else f"{number:,}".replace(",", "\u202f")


def rate_text(number: float | None) -> str:
    """Return a number a second."""
    if number is None:
        return NOTHING
    return f"{number:,.0f}/s".replace(",", "\u202f") if number >= 10 or number == 0 else f"{number:.1f}/s"


def moment_text(time_ms: int | None) -> Markup:
    """Return a time (ms since 1970) in UTC, which the page's module shows in the viewer's zone."""
    if time_ms is None or time_ms < 0:
        return Markup(NOTHING)
    try:
        at = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return Markup("{}").format(f"{time_ms} ms")
    return Markup('<time datetime="{}">{}</time>').format(
        at.isoformat(timespec="milliseconds"), at.strftime("%Y-%m-%d %H:%M:%S UTC")
    )


def ago_text(time_ms: int | None) -> str:
    """Return how long ago a time (ms since 1970) was."""
    return NOTHING if time_ms is None or time_ms < 0 else duration_text(max(time.time() * 1000 - time_ms, 0)) + " ago"


def duration_text(duration_ms: float | None) -> str:
    """Return a duration in ms for people, by its largest unit."""
    if duration_ms is None or duration_ms < 0:
        return NOTHING
    seconds = duration_ms / 1000
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
