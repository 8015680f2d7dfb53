"""The two text formats of metrics that Prometheus reads: its own, version 0.0.4, and OpenMetrics 1.0.

The text is made in pieces, so that its maker can let other threads run between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from ottla.broker.metrics.declaration import DeclaredMetric, Distribution, MetricKind, MetricRows, Row

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PIECE_ROWS: Final = 100
"""Rows in one piece of the text."""
RANGE: Final = re.compile(r"\s*([\w.+*-]+/[\w.+*-]+)\s*(;.*)?")


def negotiate(accept: str) -> str:
    """Return the content type for a request's Accept header: OpenMetrics if the client prefers it, else Prometheus's text."""
    wanted = {"text/plain": 0.0, "application/openmetrics-text": 0.0, "*/*": 0.0}
    for part in accept.split(","):
        found = RANGE.fullmatch(part)
        if found is not None and found[1].lower() in wanted:
            wanted[found[1].lower()] = max(wanted[found[1].lower()], _quality(found[2] or ""))
    plain = max(wanted["text/plain"], wanted["*/*"])
    return OPENMETRICS if wanted["application/openmetrics-text"] >= max(plain, 0.001) else TEXT


def _quality(parameters: str) -> float:
    """Return the quality value among a media range's parameters, 1 without a valid one."""
    for parameter in parameters.split(";"):
        name, _, value = parameter.strip().partition("=")
        if name.strip().lower() == "q":
            try:
                return min(max(float(value), 0.0), 1.0)
            except ValueError:
                return 1.0
    return 1.0


def render(samples: MetricRows, content_type: str) -> Iterator[str]:
    """Yield the text of all metrics, in pieces."""
    is_open = content_type == OPENMETRICS
    for metric, rows in samples.rows.items():
        yield _head(metric, metric.family if is_open else metric.name)
        for start in range(0, len(rows), PIECE_ROWS):
            yield "".join([line for row in rows.part(start, start + PIECE_ROWS) for line in _lines(metric, row)])
    if is_open:
        yield "# EOF\n"


def _head(metric: DeclaredMetric, name: str) -> str:
    explanation = metric.help.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {name} {explanation}\n# TYPE {name} {metric.kind.value}\n"


def _lines(metric: DeclaredMetric, row: Row) -> Iterable[str]:
    labels, value = row
    text = ",".join(f'{name}="{escape(label)}"' for name, label in zip(metric.labels, labels, strict=False))
    if not isinstance(value, Distribution):
        return (f"{metric.name}{{{text}}} {value}\n" if text else f"{metric.name} {value}\n",)
    return _distribution_lines(metric, text, value)


def _distribution_lines(metric: DeclaredMetric, labels: str, value: Distribution) -> Iterator[str]:
    """Yield the lines of a summary, whose unit is a millisecond as Kafka's, or of a histogram in seconds."""
    comma, braces = f"{labels}," if labels else "", f"{{{labels}}}" if labels else ""
    factor = 1000.0 if metric.kind is MetricKind.SUMMARY else 1.0
    if metric.kind is MetricKind.SUMMARY:
        for quantile, duration_s in value.quantiles:
            yield f'{metric.name}{{{comma}quantile="{quantile}"}} {duration_s * factor:.6g}\n'
    else:
        for limit_s, count in value.buckets:
            limit = "+Inf" if limit_s == float("inf") else f"{limit_s:.9g}"
            yield f'{metric.name}_bucket{{{comma}le="{limit}"}} {count}\n'
    yield f"{metric.name}_sum{braces} {value.sum_s * factor:.9g}\n"
    yield f"{metric.name}_count{braces} {value.count}\n"


def escape(label: str) -> str:
    """Return a label's value with the characters escaped that the formats reserve."""
    if "\\" in label or '"' in label or "\n" in label:
        return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return label
