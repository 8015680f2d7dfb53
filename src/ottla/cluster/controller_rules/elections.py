"""Elections of leaders: one function for each reason. They read the context and change nothing.

Each returns the state to write, or None if no replica can be elected or nothing would change.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.cluster.controller_rules.context import RECOVERING, ControllerContext, LeaderAndIsr, TopicPartition
from ottla.cluster.image import NO_LEADER


def first_leader(context: ControllerContext, partition: TopicPartition) -> LeaderAndIsr | None:
    """Return the first state of a new partition: all online replicas are in sync, and the first of them leads."""
    online = context.online(partition)
    return LeaderAndIsr(online[0], 0, online, controller_epoch=context.epoch) if online else None


def offline_leader(
    context: ControllerContext, partition: TopicPartition, *, is_unclean: bool, tells_recovery: bool
) -> LeaderAndIsr | None:
    """Return the state with an online in-sync replica as leader: the present leader, else the first one in the assignment.

    If no in-sync replica is online, `is_unclean` elects the first online replica, which can lack records. With `tells_recovery`
    (from 3.2 on, KIP-704), its state is `RECOVERING`.
    """
    state = context.leaders[partition]
    online = context.online(partition)
    isr = _without_restarted(context, _keep(state.isr, online))
    leader = next((node for node in online if node in isr), None)
    if leader is not None:
        return state.with_leader(state.leader if state.leader in isr else leader, isr)
    if not is_unclean or not online:
        return None
    elected = state.with_leader(online[0], online[:1])
    return elected._replace(leader_recovery_state=RECOVERING) if tells_recovery else elected


def preferred_leader(context: ControllerContext, partition: TopicPartition) -> LeaderAndIsr | None:
    """Return the state with the first replica as leader, if it is online and in sync."""
    state, replicas = context.leaders[partition], context.assignment(partition).replicas
    if not replicas or replicas[0] not in state.isr or not context.is_online(replicas[0], partition):
        return None
    return state.with_leader(replicas[0], state.isr)


def leader_instead(context: ControllerContext, partition: TopicPartition) -> LeaderAndIsr | None:
    """Return the state with a new leader, and without brokers that shut down in the ISR; None if no replica can lead."""
    state = context.leaders[partition]
    leader = next((node for node in context.online(partition) if node in state.isr), None)
    return None if leader is None else state.with_leader(leader, _others(state.isr, context.shutting_down))


def without_offline(context: ControllerContext, partition: TopicPartition) -> LeaderAndIsr | None:
    """Return the state without offline replicas in the in-sync set. If the leader is offline, the state has no leader.

    If all in-sync replicas are offline, the set stays unchanged: each has every acknowledged record, and can lead when it is online
    again. Apache Kafka keeps only one of them. Both Kafka and Ottla refuse a broker that returns without its data directory.
    """
    state = context.leaders[partition]
    there = context.online(partition, is_stopping_counted=True)
    leader = state.leader if state.leader in there else NO_LEADER
    isr = _without_restarted(context, _keep(state.isr, there)) or state.isr
    return None if (leader, isr) == (state.leader, state.isr) else state.with_leader(leader, isr)


def without_follower(context: ControllerContext, partition: TopicPartition, node_id: int) -> LeaderAndIsr | None:
    """Return the state without a stopping follower in the in-sync set; None if the set lacks it or has no other member."""
    state = context.leaders[partition]
    isr = _others(state.isr, {node_id})
    return None if isr == state.isr or not isr else state.with_leader(state.leader, isr)


def _without_restarted(context: ControllerContext, isr: tuple[int, ...]) -> tuple[int, ...]:
    """Return the in-sync replicas except brokers in `begun_anew`, which can lack records. If none is left, return all."""
    return _others(isr, context.begun_anew) or isr


def _keep(nodes: Iterable[int], kept: Iterable[int]) -> tuple[int, ...]:
    return tuple(node for node in nodes if node in kept)


def _others(nodes: Iterable[int], gone: Iterable[int]) -> tuple[int, ...]:
    return tuple(node for node in nodes if node not in gone)
