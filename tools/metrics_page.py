"""Write the table of docs/metrics.md: every metric of a broker. `make docs` runs it as `python -m tools.metrics_page`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ottla.broker.metrics.broker_metrics import BROKER
from ottla.broker.metrics.declaration import DeclaredMetric, MetricKind
from ottla.broker.metrics.group_metrics import GROUPS
from ottla.broker.metrics.share_metrics import SHARES
from ottla.net.server.server_metrics import SERVER

PAGE = Path(__file__).parent.parent / "docs" / "metrics.md"
BEGIN = "<!-- made by tools.metrics_page from the declarations: change them, not this table -->"
END = "<!-- end of the table -->"


def declared() -> list[DeclaredMetric]:
    """Return every metric, in the order of the page."""
    return [each for part in (BROKER, GROUPS, SHARES, SERVER) for each in part.metrics]


def rewritten(page: str) -> str:
    """Return the page with its table made anew."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{''.join(_lines())}\n{END}{tail}"


def _lines() -> Iterator[str]:
    yield "| metric | kind | MBean of Kafka | |\n|---|---|---|---|\n"
    for each in declared():
        labels = f" {{{', '.join(each.labels)}}}" if each.labels else ""
        kind = each.kind.value if each.kind is not MetricKind.SUMMARY else "summary, ms"
        yield f"| `{each.name}`{labels} | {kind} | {f'`{each.bean}`' if each.bean else ''} | {each.help} |\n"


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text()))
