"""The newest release of Apache Kafka that resembles a broker, by the versions of APIs that the broker serves."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.wire import releases


def release_like(highest: Mapping[int, int]) -> str | None:
    """Return the newest release that serves no higher version of any API than a broker does; None if there is none.

    `highest` has the broker's highest version by API key. APIs that the broker does not serve are not compared, because they also
    depend on ZooKeeper and KRaft. Of several equal releases, return the one with the fewest APIs that the broker lacks.
    """
    best, found = (-1, 0), None
    for name in releases.NAMES:
        known = releases.highest(name)
        shared = {key: version for key, version in known.items() if key in highest}
        likeness = (sum(shared.values()), len(shared) - len(known))
        if all(highest[key] >= version for key, version in shared.items()) and likeness >= best:
            best, found = likeness, name
    return found
