"""Packages stay small enough to read, and no two bear the same name.

Inner packages of the broker count for themselves. What imports what among them is a contract in pyproject.toml.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from tests.tree.source import sources

MOST_LINES = 10_000
"""Of one package; declarations of messages, which the protocol makes as long as they are, do not count."""


def test_no_package_of_the_broker_is_too_large() -> None:
    lines = Counter[str]()
    for source in sources("src/ottla/broker"):
        lines["/".join(source.path.split("/")[:4])] += len(source.lines)
    assert lines
    assert not {package: count for package, count in lines.items() if count > MOST_LINES}


def test_broker_and_cluster_have_no_packages_of_one_name() -> None:
    """What the cluster decides and what a broker carries out are two things: `controller_rules` and `controller`."""
    places = defaultdict[str, set[str]](set)
    for source in sources("src/ottla/broker", "src/ottla/cluster"):
        _, _, floor, *inner = source.path.split("/")[:-1]
        if inner:
            places[inner[0]].add(floor)
    assert places
    assert not {name for name, floors in places.items() if len(floors) > 1}
