"""The cluster id and the broker's own id, determined before a broker starts in a cluster.

Depends on the shared registry; no broker runs yet. A refusal raises `NotAMember` with a message.
"""

from __future__ import annotations

from contextlib import suppress

from ottla.broker.failures import CONFLICTS, MOST_RACES
from ottla.broker.membership.membership import NotAMember
from ottla.cluster import layout
from ottla.ports import NEW, Change, SharedRegistry, Steps


def cluster_id(registry: SharedRegistry) -> Steps[str | None]:
    """Return the cluster id in the registry; None if there is no cluster yet."""
    (entry,) = yield from registry.read([layout.CLUSTER_ID])
    if entry is None:
        return None
    try:
        found = layout.read(entry.value)["id"]
    except (ValueError, LookupError, TypeError):
        found = None
    if not isinstance(found, str):
        raise NotAMember(f"The registry's entry {layout.CLUSTER_ID} cannot be parsed: restore the value that Kafka or Ottla wrote.")
    return found


def begin_cluster(registry: SharedRegistry, own: str) -> Steps[str]:
    """Write `own` as the id of a new cluster, and return the cluster's id, which another broker may have written first."""
    with suppress(*CONFLICTS):
        yield from registry.commit([Change(layout.CLUSTER_ID, layout.cluster_id_json(own), NEW)])
    return (yield from cluster_id(registry)) or own


def make_persistent(registry: SharedRegistry) -> Steps[None]:
    """Create the entries that brokers and tools expect."""
    found = yield from registry.read(layout.PERSISTENT)
    for path, entry in zip(layout.PERSISTENT, found, strict=True):
        if entry is None:
            with suppress(*CONFLICTS):
                yield from registry.commit([Change(path, b"", NEW)])


def generated_node_id(registry: SharedRegistry, reserved: int) -> Steps[int]:
    """Return a generated broker id above `reserved`, from a counter in the registry."""
    for _ in range(MOST_RACES):
        (entry,) = yield from registry.read([layout.BROKER_SEQUENCE])
        with suppress(*CONFLICTS):
            yield from registry.commit([Change(layout.BROKER_SEQUENCE, b"", NEW if entry is None else entry.version)])
            if entry is not None:
                return reserved + entry.version + 1
    raise NotAMember("Many brokers request a node id at once: start this one again, or set --node-id.")
