"""The kinds of findings of a check, and the values about a partition that a check needs."""

from __future__ import annotations

from typing import NamedTuple

from ottla.log.config import LogConfig
from ottla.log.partition_metadata import NO_TOPIC_ID

DAMAGED, TORN, DERIVED, LEFTOVER, NOTE, REFUSED = "damaged", "torn", "derived", "leftover", "note", "refused"
"""Kinds of findings.

DAMAGED: records are lost. TORN: a tail was never synced. DERIVED: a file can be rebuilt. LEFTOVER: the next start removes or
completes a file. NOTE: information only. REFUSED: a newer version's format, or another topic's directory.
"""
UNSERVED = "unserved"
"""The kind of a finding about sidecars: the records are complete, but some clients cannot read them."""
NEVER_SYNCED = "It was probably never synced: after a crash, the next start of a broker cuts it off."
FAULTS = (DAMAGED, TORN, DERIVED, REFUSED, UNSERVED)
"""The kinds of findings that a check reports as faults, and that a repair mends unless one of them is REFUSED."""
DAMAGED_COPY = ".damaged"
"""The suffix of a copy of what a repair changed or cut out."""
ANY_GAPS = LogConfig(cleanup_policy="compact,delete")
"""Settings that allow gaps between offsets, which compaction and former repairs leave."""


class Finding(NamedTuple):
    """A fault found by a check.

    `kind` is a constant such as `DAMAGED`, `path` a file or directory, `position` a byte in it or -1.
    """

    kind: str
    path: str
    position: int
    sentence: str


class Known(NamedTuple):
    """The values about one partition in the broker's checkpoints and registry. `topic_id` is the topic's id, or zeros.

    `was_killed`: the broker's process ended, but the operating system did not crash, so that no written data is lost.
    """

    recovery_point: int = 0
    log_start_offset: int = 0
    was_killed: bool = False
    topic_id: bytes = NO_TOPIC_ID


NOTHING_KNOWN = Known()
