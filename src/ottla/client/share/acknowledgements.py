"""Acknowledgements of acquired records: their types, and the runs of offsets in which requests contain them.

The module depends on neither sessions nor records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final, Literal, NamedTuple

from ottla.client.arguments import short_repr
from ottla.client.errors import SettingError
from ottla.wire.api.share_fetch import ShareFetchRequest


class AcknowledgeType(IntEnum):
    """The type of an acknowledgement: what becomes of a delivered record."""

    ACCEPT = 1
    """The record was processed. It is not delivered again."""
    RELEASE = 2
    """The record was not processed. It is delivered again, up to the group's `share.delivery.count.limit`."""
    REJECT = 3
    """The record cannot be processed. It is not delivered again."""
    RENEW = 4
    """The record is still being processed: its acquisition lock begins anew (KIP-1222, Kafka 4.2)."""


GAP: Final = 0
"""The type of acquired offsets without a record, for example after compaction or of a transaction's marker."""
TypeName = Literal["accept", "release", "reject", "renew"]
NAMES: Final[Mapping[str, AcknowledgeType]] = {each.name.lower(): each for each in AcknowledgeType}
RUN_BYTES: Final = 20
"""The size of one batch of acknowledgements in a request, beyond which types of single offsets take fewer bytes."""


class AcknowledgementRun(NamedTuple):
    """Successive offsets with the same type of acknowledgement, or `GAP`."""

    first: int
    last: int
    kind: int


def acknowledge_type(given: object) -> AcknowledgeType:
    """Return the type that a user named. Raises `SettingError`."""
    if isinstance(given, AcknowledgeType):
        return given
    found = NAMES.get(given) if isinstance(given, str) else None
    if found is None:
        raise SettingError(f"An acknowledgement is one of {', '.join(NAMES)}, or an AcknowledgeType, not {short_repr(given)}.")
    return found


def runs_of(decisions: Mapping[int, int]) -> list[AcknowledgementRun]:
    """Return the runs of single acknowledgements, by offset."""
    runs: list[AcknowledgementRun] = []
    for offset in sorted(decisions):
        kind = decisions[offset]
        if runs and runs[-1].last == offset - 1 and runs[-1].kind == kind:
            runs[-1] = runs[-1]._replace(last=offset)
        else:
            runs.append(AcknowledgementRun(offset, offset, kind))
    return runs


def join_runs(runs: Iterable[AcknowledgementRun]) -> list[AcknowledgementRun]:
    """Return the runs in the order of their offsets, with adjacent ones of the same type as one."""
    found: list[AcknowledgementRun] = []
    for run in sorted(runs):
        if found and found[-1].last == run.first - 1 and found[-1].kind == run.kind:
            found[-1] = found[-1]._replace(last=run.last)
        else:
            found.append(run)
    return found


def acknowledgement_batches(runs: Iterable[AcknowledgementRun]) -> list[ShareFetchRequest.AcknowledgementBatch]:
    """Return the batches of a request. Short runs that follow each other become one batch with a type for each offset."""
    made = ShareFetchRequest.AcknowledgementBatch
    batches: list[ShareFetchRequest.AcknowledgementBatch] = []
    for adjacent in _adjacent(join_runs(runs)):
        first, last = adjacent[0].first, adjacent[-1].last
        if len(adjacent) > 1 and last - first + 1 < len(adjacent) * RUN_BYTES:
            types = [run.kind for run in adjacent for _ in range(run.first, run.last + 1)]
            batches.append(made(first_offset=first, last_offset=last, acknowledge_types=types))
        else:
            batches += [made(first_offset=run.first, last_offset=run.last, acknowledge_types=[run.kind]) for run in adjacent]
    return batches


def _adjacent(runs: Sequence[AcknowledgementRun]) -> Iterator[list[AcknowledgementRun]]:
    """Yield the longest lists of runs without an offset between them."""
    group: list[AcknowledgementRun] = []
    for run in runs:
        if group and group[-1].last != run.first - 1:
            yield group
            group = []
        group.append(run)
    if group:
        yield group


def count_of(runs: Iterable[AcknowledgementRun]) -> int:
    """Return the number of records in runs, without gaps."""
    return sum(run.last - run.first + 1 for run in runs if run.kind != GAP)
