"""The reading of all copies of a registry, and the restoration of one copy. It uses the disk port and `lines`, not topics."""

from __future__ import annotations

from ottla.ports import Disk
from ottla.registry import count
from ottla.registry.generations import COPY, DIRECTORIES, FIRST, begin, journal_name, numbers, read_journal
from ottla.registry.lines import JournalReading
from ottla.registry.tree import Tree

NEW = ".new"
DAMAGED = ".damaged"
BEFORE = ".before"
"""The suffix of replaced directories that are undamaged, but contain an older or newer state than the restored one."""


def survey(disk: Disk) -> list[JournalReading]:
    """Read every journal in both directories, the newest first. If a journal is missing in one directory, its reading is empty."""
    present = {number for directory in DIRECTORIES for number in numbers(disk, directory)}
    return [
        read_journal(disk, f"{directory}/{journal_name(number)}")
        for number in sorted(present, reverse=True)
        for directory in DIRECTORIES
    ]


def best_of(readings: list[JournalReading]) -> JournalReading | None:
    """Return the reading with the most commits, or None if no journal's entries can be read."""
    return max((one for one in readings if one.commits >= 0), key=lambda one: (one.commits, one.is_whole), default=None)


def finish(disk: Disk) -> bool:
    """Complete a `put_back` that was interrupted between its renames. Return whether one was. Raises `StorageFailed`."""
    new = FIRST + NEW
    if disk.exists(FIRST) or not disk.exists(new):
        return False
    disk.rename(new, FIRST)
    return True


def put_back(disk: Disk, tree: Tree, commits: int, kept_as: str = DAMAGED) -> list[str]:
    """Replace the registry by one with the entries of `tree`, after `commits` commits.

    Return the new names of the old directories, which are kept. Nothing is renamed before the new journals are on stable storage.
    Raises `StorageFailed`.
    """
    fresh = [directory + NEW for directory in (FIRST, COPY)]
    for directory in fresh:
        if disk.exists(directory):
            disk.remove_tree(directory)
    begin(disk, tree, commits, fresh)
    count.forget(disk)  # the count may include commits that are lost
    kept = []
    for directory, new in zip((FIRST, COPY), fresh, strict=True):
        if disk.exists(directory):
            kept.append(_unused_name(disk, directory + kept_as))
            disk.rename(directory, kept[-1])
        disk.rename(new, directory)
    return kept


def _unused_name(disk: Disk, name: str) -> str:
    number = 1
    while disk.exists(f"{name}.{number}"):
        number += 1
    return f"{name}.{number}"
