"""The checks of a leader's request for other in-sync replicas (AlterPartition, KIP-497). They only read the context."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.cluster.controller_rules.context import RECOVERED, RECOVERING, ControllerContext, LeaderAndIsr, TopicPartition
from ottla.wire.api.alter_partition import AlterPartitionRequest
from ottla.wire.errors import (
    FENCED_LEADER_EPOCH,
    INELIGIBLE_REPLICA,
    INVALID_REQUEST,
    INVALID_UPDATE_VERSION,
    NONE,
    NOT_CONTROLLER,
    OPERATION_NOT_ATTEMPTED,
    UNKNOWN_TOPIC_OR_PARTITION,
)

UNKNOWN = -1
EPOCHS_FROM, INELIGIBLE_FROM = 3, 2
"""The first AlterPartition versions with the replicas' broker epochs (KIP-903), and with the error INELIGIBLE_REPLICA (KIP-841)."""


def requested_state(partition: AlterPartitionRequest.PartitionData, leader: int, version: int) -> LeaderAndIsr:
    """Return the partition state that a leader requests in an AlterPartition request."""
    isr = [one.broker_id for one in partition.new_isr_with_epochs] if version >= EPOCHS_FROM else partition.new_isr
    recovery, epoch = partition.leader_recovery_state, partition.partition_epoch
    return LeaderAndIsr(leader, partition.leader_epoch, tuple(isr), recovery, partition_epoch=epoch)


def read_broker_epochs(partition: AlterPartitionRequest.PartitionData) -> dict[int, int]:
    """Return the broker epoch of each replica's last fetch, by broker id. Omit replicas with an unknown epoch (KIP-903)."""
    return {one.broker_id: one.broker_epoch for one in partition.new_isr_with_epochs if one.broker_epoch != UNKNOWN}


def fault(
    context: ControllerContext, partition: TopicPartition, wanted: LeaderAndIsr, epochs: Mapping[int, int], version: int
) -> int | None:
    """Return None if a leader's requested state can be written; NONE if it is the present state already; otherwise an error code.

    `epochs` is the result of `read_broker_epochs`. A joining replica must still have the broker epoch of its last fetch, because a
    broker that registered again can have lost its disk.
    """
    known = context.leaders.get(partition)
    if known is None:
        return UNKNOWN_TOPIC_OR_PARTITION
    if wanted.partition_epoch > known.partition_epoch or wanted.leader_epoch > known.leader_epoch:
        return NOT_CONTROLLER  # the leader has state of a later controller
    if wanted.leader_epoch < known.leader_epoch:
        return FENCED_LEADER_EPOCH
    if _is_there(known, wanted):
        return NONE
    if wanted.partition_epoch < known.partition_epoch:
        return INVALID_UPDATE_VERSION
    if wanted.leader != known.leader or not wanted.isr or not _recovers(known, wanted):
        return INVALID_REQUEST
    joining = set(wanted.isr).difference(known.isr)
    if not set(wanted.isr) <= context.live() or any(context.brokers[one].epoch != epochs[one] for one in joining & epochs.keys()):
        return INELIGIBLE_REPLICA if version >= INELIGIBLE_FROM else OPERATION_NOT_ATTEMPTED
    return None


def _is_there(known: LeaderAndIsr, wanted: LeaderAndIsr) -> bool:
    return (
        known.leader == wanted.leader
        and known.isr == wanted.isr
        and known.leader_recovery_state == wanted.leader_recovery_state
        and known.leader_epoch == wanted.leader_epoch
    )


def _recovers(known: LeaderAndIsr, wanted: LeaderAndIsr) -> bool:
    """Return whether a leader may request the recovery state in `wanted`.

    Only an election can make a leader RECOVERING, and it stays the only in-sync replica until it has recovered.
    """
    if wanted.leader_recovery_state == RECOVERING:
        return known.leader_recovery_state == RECOVERING and len(wanted.isr) == 1
    return wanted.leader_recovery_state == RECOVERED
