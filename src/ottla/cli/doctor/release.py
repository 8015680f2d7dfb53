"""The release of Apache Kafka whose requests a broker serves."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.wire import releases


def release_like(highest: Mapping[int, int]) -> str | None:
    """Return the newest release whose versions a broker serves, of all APIs that it serves at all; None if there is none.

    `highest` has the highest version of each API key that the broker serves. APIs that it lacks are not compared: which ones a
    broker has depends on ZooKeeper and KRaft, too. Of releases that
    differ in their APIs alone, the one is returned of which the fewest are missing.
    """
    best, found = (-1, 0), None
    for name in releases.NAMES:
        known = releases.highest(name)
        shared = {key: version for key, version in known.items() if key in highest}
        likeness = (sum(shared.values()), len(shared) - len(known))
        if all(highest[key] >= version for key, version in shared.items()) and likeness >= best:
            best, found = likeness, name
    return found
