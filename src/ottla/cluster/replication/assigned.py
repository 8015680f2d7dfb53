"""What the controller has decided of a partition, as LeaderAndIsr tells it, and what a leader wants changed. Knows no messages."""

from __future__ import annotations

from typing import NamedTuple

RECOVERED = 0
"""The leader was elected cleanly, or has said since then that it leads (KIP-704)."""


class Assigned(NamedTuple):
    """Who leads a partition, and who replicates it.

    `partition_epoch` is the version of the partition's state in the registry, `controller_epoch` that of the controller who
    decided it. `adding_replicas` and `removing_replicas` are those of a reassignment under way (KIP-455).
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    controller_epoch: int = 0
    is_new: bool = False
    leader_recovery_state: int = RECOVERED


class IsrChange(NamedTuple):
    """What a leader asks for: `isr` in place of the one that `leader_epoch` and `partition_epoch` have.

    `broker_epochs` are those with which the members fetched last, in the order of `isr`; -1 where unknown (KIP-903).
    """

    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    controller_epoch: int
