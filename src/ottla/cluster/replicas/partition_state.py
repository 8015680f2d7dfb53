"""The controller's decision about a partition, as in LeaderAndIsr, and the change that a leader requests."""

from __future__ import annotations

from typing import NamedTuple

RECOVERED = 0
"""The recovery state of a leader that was elected cleanly, or that has reported its recovery (KIP-704)."""


class Assigned(NamedTuple):
    """The leader and replicas of a partition.

    `partition_epoch` is the version of the partition's state in the registry, `controller_epoch` the epoch of the controller that
    decided it. `adding_replicas` and `removing_replicas` are empty unless a reassignment is in progress (KIP-455).
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
    """A leader's request to replace the in-sync set of `leader_epoch` and `partition_epoch` with `isr`.

    `broker_epochs` are the broker epochs of the members' last fetches, in the order of `isr`; -1 if unknown (KIP-903).
    """

    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    controller_epoch: int
