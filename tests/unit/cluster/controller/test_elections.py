"""Who is elected for each reason to ask, of replicas some of which are offline, stopping, or not in sync."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.cluster.controller_rules import elections
from ottla.cluster.controller_rules.context import (
    RECOVERED,
    RECOVERING,
    ControllerContext,
    LeaderAndIsr,
    LiveBroker,
    ReplicaAssignment,
)

PARTITION = ("t", 0)


def context(
    replicas: tuple[int, ...], live: set[int], state: LeaderAndIsr | None = None, **more: tuple[int, ...]
) -> ControllerContext:
    made = ControllerContext(epoch=7)
    made.brokers = {node: LiveBroker(node, 100 + node, ()) for node in live}
    made.set_topic("t", None, {0: ReplicaAssignment(replicas)})
    made.shutting_down.update(more.get("stopping", ()))
    if state is not None:
        made.leaders[PARTITION] = state
    return made


def test_a_new_partition_is_led_by_its_first_replica_that_is_online() -> None:
    assert elections.first_leader(context((1, 2, 3), {2, 3}), PARTITION) == LeaderAndIsr(2, 0, (2, 3), controller_epoch=7)
    assert elections.first_leader(context((1, 2, 3), {4}), PARTITION) is None


def test_an_offline_leader_is_followed_by_the_first_replica_in_sync() -> None:
    known = context((1, 2, 3), {2, 3}, LeaderAndIsr(1, 4, (1, 3)))
    elected = elections.offline_leader(known, PARTITION, is_unclean=True, tells_recovery=True)
    assert elected == LeaderAndIsr(3, 5, (3,), RECOVERED)


def test_nobody_leads_who_is_not_in_sync_unless_the_topic_says_so() -> None:
    known = context((1, 2, 3), {2, 3}, LeaderAndIsr(1, 4, (1,)))
    assert elections.offline_leader(known, PARTITION, is_unclean=False, tells_recovery=True) is None
    unclean = elections.offline_leader(known, PARTITION, is_unclean=True, tells_recovery=True)
    assert unclean == LeaderAndIsr(2, 5, (2,), RECOVERING)
    of_old = elections.offline_leader(known, PARTITION, is_unclean=True, tells_recovery=False)
    assert of_old == LeaderAndIsr(2, 5, (2,), RECOVERED)


def test_a_broker_that_is_about_to_stop_hands_over_and_leaves_the_in_sync_replicas() -> None:
    known = context((1, 2), {1, 2}, LeaderAndIsr(1, 3, (1, 2)), stopping=(1,))
    assert elections.leader_instead(known, PARTITION) == LeaderAndIsr(2, 4, (2,))
    assert elections.leader_instead(context((1, 2), {1, 2}, LeaderAndIsr(1, 3, (1,)), stopping=(1,)), PARTITION) is None
    following = context((1, 2), {1, 2}, LeaderAndIsr(2, 3, (1, 2)), stopping=(1,))
    assert elections.without_follower(following, PARTITION, 1) == LeaderAndIsr(2, 4, (2,))


def test_replicas_that_are_all_offline_stay_in_sync_so_that_any_may_lead_again() -> None:
    gone = elections.without_offline(context((1, 2, 3), set(), LeaderAndIsr(1, 3, (1, 2))), PARTITION)
    assert gone == LeaderAndIsr(-1, 4, (1, 2))
    assert elections.without_offline(context((1, 2, 3), set(), LeaderAndIsr(-1, 4, (1, 2))), PARTITION) is None


NODES = st.integers(1, 5)


@given(
    replicas=st.lists(NODES, min_size=1, max_size=4, unique=True),
    live=st.sets(NODES),
    stopping=st.sets(NODES),
    in_sync=st.integers(1, 4),
    leads=st.booleans(),
)
def test_a_clean_election_never_leaves_the_in_sync_replicas(
    replicas: list[int], live: set[int], stopping: set[int], in_sync: int, leads: bool
) -> None:
    isr = tuple(replicas[-in_sync:])
    state = LeaderAndIsr(isr[0] if leads else -1, 9, isr)
    known = context(tuple(replicas), live, state, stopping=tuple(stopping & live))
    found = [
        elections.offline_leader(known, PARTITION, is_unclean=False, tells_recovery=True),
        elections.leader_instead(known, PARTITION),
        elections.without_offline(known, PARTITION),
    ]
    for one in found:
        if one is not None:
            assert one.isr
            assert set(one.isr) <= set(isr)
            assert one.leader in (-1, *one.isr)
            assert one.leader_epoch == 10
            assert one.leader == -1 or one.leader in live
