"""Looking at all copies of a registry there are, and putting one back. Knows the disk port and lines; knows no topics."""

from __future__ import annotations

from ottla.ports import Disk
from ottla.registry import count
from ottla.registry.generations import COPY, DIRECTORIES, FIRST, begin, journal_name, numbers, read_journal
from ottla.registry.lines import JournalReading
from ottla.registry.tree import Tree

NEW = ".new"
DAMAGED = ".damaged"
BEFORE = ".before"
"""How what was there is kept, if it was whole, and is of another time."""


def survey(disk: Disk) -> list[JournalReading]:
    """Read every journal in both directories, the newest first; one that its twin has and that is missing, too."""
    present = {number for directory in DIRECTORIES for number in numbers(disk, directory)}
    return [
        read_journal(disk, f"{directory}/{journal_name(number)}")
        for number in sorted(present, reverse=True)
        for directory in DIRECTORIES
    ]


def best_of(readings: list[JournalReading]) -> JournalReading | None:
    """The one that holds most, as far as it is whole; None if nothing can be read of any."""
    return max((one for one in readings if one.commits >= 0), key=lambda one: (one.commits, one.is_whole), default=None)


def finish(disk: Disk) -> bool:
    """Go on where an earlier `put_back` ended half-way; True if one did. Raises `StorageFailed`."""
    new = FIRST + NEW
    if disk.exists(FIRST) or not disk.exists(new):
        return False
    disk.rename(new, FIRST)
    return True


def put_back(disk: Disk, tree: Tree, commits: int, kept_as: str = DAMAGED) -> list[str]:
    """Let the registry hold this, after so many commits, and keep what was there; returns under which names.

    Nothing is renamed before the new journals are on stable storage. Raises `StorageFailed`.
    """
    fresh = [directory + NEW for directory in (FIRST, COPY)]
    for directory in fresh:
        if disk.exists(directory):
            disk.remove_tree(directory)
    begin(disk, tree, commits, fresh)
    count.forget(disk)  # it may tell of commits that are lost
    kept = []
    for directory, new in zip((FIRST, COPY), fresh, strict=True):
        if disk.exists(directory):
            kept.append(_unused(disk, directory + kept_as))
            disk.rename(directory, kept[-1])
        disk.rename(new, directory)
    return kept


def _unused(disk: Disk, name: str) -> str:
    number = 1
    while disk.exists(f"{name}.{number}"):
        number += 1
    return f"{name}.{number}"
