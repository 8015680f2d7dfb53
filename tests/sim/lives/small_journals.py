"""The journals of simulated brokers: small files and blocks of many sizes, so that files are left and used again all the time."""

from __future__ import annotations

from random import Random

SIZES, MOST_OF_A_PARTITION = (65_536, 65_536, 131_072, 0), (400, 2_000, 1 << 20)
"""The sizes of a journal's files, and the most bytes of a partition that go there: of much, its own file is synced."""

LEAST_ALIGNMENT = 512


def journal_settings(seed: int) -> dict[str, str]:
    """Choose the settings of a seed's journal, without a change to anything else of the seed."""
    random = Random(seed)
    return {
        "ottla.journal.bytes": str(random.choice(SIZES)),
        "ottla.journal.max.partition.bytes": str(random.choice(MOST_OF_A_PARTITION)),
    }


def journal_alignment(seed: int) -> int:
    """Choose the size of which a block is a multiple: with the largest, seven blocks fill a file."""
    return LEAST_ALIGNMENT << seed % 5
