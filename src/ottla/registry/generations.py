"""The two directories of a registry: which of their journals is the newest, and which commits are certain.

A commit is acknowledged after it is on stable storage in the first directory and then written in the other one, the copy. If the
copy ends before the last commit of the first journal, this commit can be torn, and was never acknowledged. Any other fault is
damage. It is repaired from the other directory if the journal there is whole. The count of commits reveals commits that both
journals have lost. The module uses the disk port and `lines`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from ottla.ports import Disk, RegistryDamaged, StorageFailed
from ottla.registry import lines
from ottla.registry.count import COUNT, read_count
from ottla.registry.lines import JournalReading
from ottla.registry.tree import Tree

log = logging.getLogger("ottla.registry")

FIRST, COPY = "registry", "registry.copy"
DIRECTORIES = (FIRST, COPY)
JOURNAL = ".journal"
DIGITS = 20
ROOM_BYTES = 1 << 16
"""The number of zeros, in bytes, that extend a journal."""

SPARE_BYTES = 1 << 15
"""The number of zeros, in bytes, reserved for changes that succeed even on a full disk."""

REMEDY = "run `ottla registry check` for the details, and `ottla registry restore` to restore the most complete copy"


def journal_name(commits: int) -> str:
    """Return the file name of the journal that begins after `commits` commits: `00000000000000000042.journal` for 42."""
    return f"{commits:0{DIGITS}d}{JOURNAL}"


def numbers(disk: Disk, directory: str) -> list[int]:
    """Return the sorted numbers in the names of a directory's journals.

    Each number is the count of commits before the journal begins. Raises `StorageFailed`.
    """
    names = (name.removesuffix(JOURNAL) for name in disk.list(directory) if name.endswith(JOURNAL))
    return sorted(int(name) for name in names if len(name) == DIGITS and name.isascii() and name.isdigit())


def is_begun(disk: Disk) -> bool:
    """Return whether the registry was ever created: one of its two directories contains a journal. Raises `StorageFailed`."""
    return any(numbers(disk, directory) for directory in DIRECTORIES)


def read_journal(disk: Disk, path: str) -> JournalReading:
    """Read a journal. If the file is missing, return an empty reading. Raises `StorageFailed` if the file cannot be read."""
    if not disk.exists(path):
        return JournalReading(path, fault=0, is_there=False)
    return lines.read(path, disk.read_file(path))


@dataclass(slots=True)
class Found:
    """The newest journal of the registry, read from both directories.

    `best` is the copy to use, and `others` are the copies that differ from it and must be repaired.
    """

    number: int
    best: JournalReading
    others: list[JournalReading]


def find(disk: Disk) -> Found | None:
    """Read the newest journal in both directories, or return None if the registry was never created.

    Raises `RegistryDamaged` and `StorageFailed`.
    """
    present = {number for directory in DIRECTORIES for number in numbers(disk, directory)}
    count = read_count(disk)
    if not present and count >= 0:
        raise RegistryDamaged(f"there is no journal in {FIRST} and {COPY}, but {COUNT} counts {count} commits: {REMEDY}")
    if not present:
        return None
    number = max(present)
    first = read_journal(disk, f"{FIRST}/{journal_name(number)}")
    path = f"{COPY}/{journal_name(number)}"
    if first.is_whole and disk.exists(path) and disk.read_file(path) == first.data:
        return Found(number, _newest(first, count), [])
    copy = read_journal(disk, path)
    best = choose(first, copy)
    content = best.data[: best.end]
    others = [one for one in (first, copy) if not one.is_whole or one.data[: one.end] != content]
    return Found(number, _newest(best, count), others)


def _newest(reading: JournalReading, count: int) -> JournalReading:
    """Return the reading. Raises `RegistryDamaged` if it has fewer commits than `count`, or names a newer journal."""
    if reading.continued:
        raise RegistryDamaged(f"{reading.path} is not the newest journal of the registry, and the newest is missing: {REMEDY}")
    if reading.commits < count:
        raise RegistryDamaged(f"{reading.path} and its copy end at commit {reading.commits}, but {COUNT} counts {count}: {REMEDY}")
    return reading


def choose(first: JournalReading, copy: JournalReading) -> JournalReading:
    """Return the copy of the journal that certainly has every acknowledged commit. Raises `RegistryDamaged` if neither has."""
    for one in (first, copy):
        if one.newer_format:
            sentence = f"{one.path} has format {one.newer_format}, newer than {lines.FORMAT}: start the newer version that wrote it"
            raise RegistryDamaged(sentence)
    best, other = (first, copy) if (first.commits, first.is_whole) >= (copy.commits, copy.is_whole) else (copy, first)
    if best.commits < 0:
        raise _damaged_twice(first, copy)
    if other.commits >= 0 and other.data[: other.end] != best.data[: other.end]:
        raise RegistryDamaged(f"{first.path} and {copy.path} contain different commits: {REMEDY}")
    # A copy with fewer commits lost lines in a power cut. The first journal may then be torn. It cannot be truncated, because the
    # zeros that a commit overwrites were durable before the commit.
    is_torn = best is first and 0 <= copy.commits < first.commits and first.fault < len(first.data)
    if not (best.is_whole or is_torn) or best.reaches_beyond(best) or other.reaches_beyond(best):
        raise _damaged_twice(first, copy)
    return best


def _damaged_twice(*readings: JournalReading) -> RegistryDamaged:
    return RegistryDamaged(f"the registry is damaged twice ({_faults(*readings)}): {REMEDY}")


def _faults(*readings: JournalReading) -> str:
    return " and ".join(f"{one.path} {fault(one)}" for one in readings)


def fault(reading: JournalReading) -> str:
    """Return a description of a journal's fault, to follow its path in a message."""
    if not reading.is_there:
        return "is missing"
    if reading.fault == len(reading.data):
        return f"was cut at byte {reading.fault}"
    if reading.is_whole:
        return f"ends at commit {reading.commits}"
    return f"cannot be read from byte {reading.fault} on"


def mend(disk: Disk, found: Found) -> None:
    """Make the files in `found.others` equal to `found.best`, and log each repair. Raises `StorageFailed`."""
    best = found.best
    for one in found.others:
        if one is best:
            log.info("%s ended with a commit that was never acknowledged: dropped; commit %d is the last", one.path, best.commits)
        elif one.is_whole and one.commits == best.commits - 1 and one.path.startswith(f"{COPY}/"):
            log.info("%s lacked the last commit: brought up to commit %d", one.path, best.commits)
        else:
            log.warning("%s %s: repaired from %s up to commit %d", one.path, fault(one), best.path, best.commits)
        if one.commits < 0:
            disk.make_dir(one.path.rpartition("/")[0])
            disk.write_file(one.path, with_room(best.data[: best.end]))
        else:
            _write_on(disk, one, best)


def _write_on(disk: Disk, one: JournalReading, best: JournalReading) -> None:
    """Append to the copy `one` the lines of `best` that `one` lacks. Its whole lines stay unchanged."""
    file = disk.open(one.path)
    rest = best.data[one.end : best.end]
    file.write(one.end, rest + bytes(max(ROOM_BYTES, file.size - one.end - len(rest))))
    file.sync()


def with_room(content: bytes) -> bytes:
    return content + bytes(ROOM_BYTES)


def compose(tree: Tree, commits: int) -> tuple[bytes, int]:
    """Return (the bytes of a new journal with these entries, the checksum of its last line)."""
    text, chain = lines.write(lines.head(commits, len(tree)), 0)
    parts = [text]
    for path, node in tree.entries():
        text, chain = lines.write(lines.entry(path, node), chain)
        parts.append(text)
    return b"".join(parts), chain


def begin(disk: Disk, tree: Tree, commits: int, directories: Iterable[str] = DIRECTORIES) -> tuple[int, int]:
    """Write a new journal to each directory, durable on return.

    Return (its end, the checksum of its last line). Raises `StorageFailed`.
    """
    content, chain = compose(tree, commits)
    for directory in directories:
        disk.make_dir(directory)
        disk.write_file(f"{directory}/{journal_name(commits)}", with_room(content))
    return len(content), chain


def remove_unfinished(disk: Disk) -> None:
    """Remove temporary files that a previous process left incomplete. Raises `StorageFailed`."""
    for directory in DIRECTORIES:
        for name in disk.list(directory):
            if name.endswith(".tmp"):
                disk.remove(f"{directory}/{name}")


def forget(disk: Disk, kept: int) -> None:
    """Remove all journals except the newest `kept` journals.

    If the disk refuses to remove a file, a later call removes the file.
    """
    for directory in DIRECTORIES:
        for number in numbers(disk, directory)[:-kept]:
            try:
                disk.remove(f"{directory}/{journal_name(number)}")
            except StorageFailed as failure:
                log.warning("an old journal of the registry could not be removed: %s", failure)
