"""The partitions whose ISR contains a broker with a lost data directory, and the broker's removal from each ISR.

Depends on the registry, and neither on a disk nor on the controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from ottla.broker.failures import CONFLICTS
from ottla.cluster import layout
from ottla.cluster.controller_rules import entries
from ottla.cluster.controller_rules.context import LeaderAndIsr, TopicPartition
from ottla.cluster.image import NO_LEADER
from ottla.ports import Change, SharedRegistry, Steps

AT_ONCE = 2000
"""Entries read in one request."""

TOLD_AT_ONCE = 3000
"""Upper limit of partitions in one notification of the controller."""


def in_sync_of(
    registry: SharedRegistry, node_id: int, places: Iterable[TopicPartition] | None = None
) -> Steps[dict[TopicPartition, LeaderAndIsr]]:
    """Return the states whose ISR contains the broker, among `places` or all partitions. Topics under deletion are skipped.

    States that can't be decoded are skipped, because the controller reports them.
    """
    found = dict[TopicPartition, LeaderAndIsr]()
    (leaving,) = yield from registry.list([entries.DELETIONS])
    gone = set(leaving or ())
    if places is None:
        places = yield from _all(registry)
    wanted = [one for one in places if one[0] not in gone]
    for first in range(0, len(wanted), AT_ONCE):
        some = wanted[first : first + AT_ONCE]
        read = yield from registry.read([layout.state_path(*one) for one in some])
        for one, entry in zip(some, read, strict=True):
            if entry is not None:
                with suppress(ValueError):
                    state = entries.state(entry)
                    if node_id in state.isr:
                        found[one] = state
    return found


def _all(registry: SharedRegistry) -> Steps[list[TopicPartition]]:
    (topics,) = yield from registry.list([layout.TOPICS])
    names = topics or []
    indexes = yield from registry.list([layout.partitions_path(name) for name in names])
    return [(name, int(index)) for name, some in zip(names, indexes, strict=True) for index in some or () if index.isdecimal()]


def leave_in_sync_sets(registry: SharedRegistry, node_id: int, counted: Mapping[TopicPartition, LeaderAndIsr]) -> Steps[bool]:
    """Remove the broker from the ISR of these partitions, and notify the controller.

    The new ISR contains the other in-sync replicas, or all other replicas if none was in sync. Without other replicas, the broker
    stays in the ISR. Return whether any partition had another replica. States that another broker changes meanwhile are kept.
    """
    changed, is_left = list[TopicPartition](), False
    for (name, index), state in counted.items():
        (topic,) = yield from registry.read([layout.topic_path(name)])
        replicas: tuple[int, ...] = ()
        if topic is not None:
            with suppress(ValueError, LookupError):
                replicas = entries.topic(topic).assignments[index].replicas
        others = _others(state.isr, node_id) or _others(replicas, node_id)
        if others:
            is_left = True
            leader = NO_LEADER if state.leader == node_id else state.leader
            value = entries.state_value(state.led(leader, others))
            with suppress(*CONFLICTS):
                yield from registry.commit([Change(layout.state_path(name, index), value, state.partition_epoch)])
                changed.append((name, index))
    for first in range(0, len(changed), TOLD_AT_ONCE):
        value = entries.changed_isrs_value(changed[first : first + TOLD_AT_ONCE])
        yield from registry.commit([Change(f"{entries.ISR_CHANGES}/isr_change_", value, sequential=True)])
    return is_left


def _others(nodes: Iterable[int], node_id: int) -> tuple[int, ...]:
    return tuple(node for node in nodes if node != node_id)
