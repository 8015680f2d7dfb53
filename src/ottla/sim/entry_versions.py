"""ZooKeeper's check whether a change of an entry applies, by the entry's version."""

from __future__ import annotations

from ottla.ports import NEW, EntryExists, NoEntry, VersionConflict


def check_version(path: str, known: int | None, wanted: int | None) -> None:
    """Compare the version of an entry with the expected version.

    `known` is None if the entry does not exist. `wanted` is None if any version is accepted, and `NEW` if the entry must not exist.
    Raises `EntryExists`, `NoEntry` or `VersionConflict`.
    """
    if wanted is None:
        return
    if wanted == NEW:
        if known is not None:
            raise EntryExists(path)
        return
    if known is None:
        raise NoEntry(path)
    if known != wanted:
        raise VersionConflict(f"{path} has version {known}, not {wanted}")
