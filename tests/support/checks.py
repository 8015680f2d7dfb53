"""Produced batches looked at without a pause."""

from __future__ import annotations

from collections.abc import Callable

from ottla.records.batch import BatchHeader
from ottla.records.steps import finish
from ottla.records.verify import MOST_OPENED_BYTES, Demands, Verdict, check_slowly


def check_records(
    view: memoryview,
    header: BatchHeader,
    demands: Demands,
    now_ms: int,
    *,
    limit_bytes: int = MOST_OPENED_BYTES,
    taken: Callable[[memoryview], None] | None = None,
) -> Verdict:
    """`check_slowly` to its end."""
    return finish(check_slowly(view, header, demands, now_ms, limit_bytes=limit_bytes, taken=taken))
