"""Write the tables of docs/from-*.md, names of other clients and those of Ottla. `make docs` runs it.

The names are those of `ottla.client.other_clients`.

A page marks each table by two comments: `<!-- names: settings confluent-kafka -->`, or `methods` with a class, or `errors` with a
library, and `<!-- end -->`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ottla.client.other_clients import CLASSES, ERRORS, METHODS, SETTINGS, Equivalent

MARKED = re.compile(r"(<!-- names: (\w+) (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
PAGES = [Path(__file__).parents[1] / "docs" / f"from-{library}.md" for library in SETTINGS]


def with_tables(page: str) -> str:
    """Return a page with all tables up to date. Raises `KeyError` for a table of an unknown library or class."""
    return MARKED.sub(lambda found: "\n".join([found[1].rstrip(), *_table(found[2], found[3]), found[4]]), page)


def _table(kind: str, of: str) -> Iterator[str]:
    if kind == "methods":
        yield f"| `{of.rpartition('.')[2]}` | `ottla.{CLASSES[of]}` | difference |"
    else:
        yield f"| {of} | Ottla | difference |"
    yield "|---|---|---|"
    names: Mapping[str, Equivalent] = {"settings": SETTINGS, "methods": METHODS, "errors": ERRORS}[kind][of]
    for name, here in names.items():
        ours = f"`{here.name}`" if here.name else "none"
        yield f"| `{name}` | {ours} | {here.note} |" if here.note else f"| `{name}` | {ours} | |"


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
