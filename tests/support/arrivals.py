"""What old producers send, taken at once."""

from __future__ import annotations

from ottla.ports import Buffer
from ottla.records.message_sets.up_conversion import Arrived, Terms, arrive
from ottla.records.pauses import finish


def accept(view: Buffer, terms: Terms | None = None) -> Arrived:
    """`arrive` without a pause."""
    return finish(arrive(view, terms or Terms()))
