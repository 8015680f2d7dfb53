"""The names of the files that are kept beside a log's segments for clients of Kafka 0.7."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.log.names import parse_file_name

POSITIONS_07: Final = ".positions07"
KEPT_07: Final = ".kept07"
"""The suffixes of a sidecar, and of the file of compressed messages kept for the sidecar."""


def bases_07(names: Iterable[str], suffix: str = POSITIONS_07) -> list[int]:
    """Return the base offsets of a partition's sidecars, in order."""
    parsed = [parse_file_name(name) for name in names if name.endswith(suffix)]
    return sorted(known[0] for known in parsed if known and known[1] == suffix)
