"""The leader's machine: who is in sync, and how far readers may see."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.cluster.replicas.leader import REFUSED_MS, LeaderState, LeaderTerms
from ottla.cluster.replicas.partition_state import Assigned

LAG_MS = 1000


def assigned(isr: tuple[int, ...] = (1, 2, 3), *, leader_epoch: int = 5, partition_epoch: int = 7) -> Assigned:
    return Assigned(1, leader_epoch, isr, partition_epoch, (1, 2, 3))


def leading(isr: tuple[int, ...] = (1, 2, 3), end_offset: int = 0) -> LeaderState:
    return LeaderState(1, LeaderTerms({1, 2, 3}, LAG_MS), assigned(isr), end_offset, 0)


def fetch(leader: LeaderState, node_id: int, offset: int, end_offset: int, now_ms: int = 0) -> None:
    leader.followers[node_id].record_fetch(offset, 0, end_offset, now_ms, -1)


def test_readers_see_what_all_in_sync_have() -> None:
    leader = leading()
    assert leader.high_watermark(10, 0, 1) == -1  # nobody has fetched yet
    fetch(leader, 2, 10, 10)
    fetch(leader, 3, 4, 10)
    assert leader.high_watermark(10, 0, 1) == 4


def test_the_high_watermark_waits_for_a_follower_that_keeps_up_though_it_is_not_in_sync_yet() -> None:
    leader = leading((1, 2))
    fetch(leader, 2, 10, 10)
    fetch(leader, 3, 9, 9)
    assert leader.high_watermark(10, LAG_MS, 1) == 9
    assert leader.high_watermark(10, LAG_MS + 1, 1) == 10  # it keeps up no more


def test_a_follower_that_is_not_alive_is_not_waited_for() -> None:
    leader = LeaderState(1, LeaderTerms({1, 2}, LAG_MS), assigned((1, 2)), 0, 0)
    fetch(leader, 2, 10, 10)
    fetch(leader, 3, 9, 9)
    assert leader.high_watermark(10, 0, 1) == 10


def test_the_high_watermark_rests_while_too_few_are_in_sync() -> None:
    leader = leading((1,))
    assert leader.is_under_min_isr(2)
    assert leader.high_watermark(10, 0, 2) == -1
    assert leader.high_watermark(10, 0, 1) == 10


def test_no_more_are_demanded_than_there_are() -> None:
    assert not leading((1, 2, 3)).is_under_min_isr(5)


def test_a_follower_joins_when_it_has_all_that_readers_see_and_all_from_before_the_leader_epoch() -> None:
    leader = leading((1, 2), end_offset=8)
    fetch(leader, 3, 6, 8)
    assert leader.expand(3, 5, 0) is None  # what lies between 6 and 8 may have been committed by the leader before
    fetch(leader, 3, 8, 8)
    change = leader.expand(3, 9, 0)
    assert change is None
    change = leader.expand(3, 8, 0)
    assert change is not None
    assert (change.isr, change.leader_epoch, change.partition_epoch) == ((1, 2, 3), 5, 7)


def test_a_joining_follower_holds_the_high_watermark_back_before_the_controller_has_agreed() -> None:
    leader = leading((1, 2))
    fetch(leader, 2, 10, 10)
    fetch(leader, 3, 4, 4)
    assert leader.expand(3, 4, 0) is not None
    assert leader.high_watermark(10, 2 * LAG_MS, 1) == 4
    assert leader.isr == (1, 2)


def test_a_leaving_follower_holds_the_high_watermark_back_until_the_controller_has_agreed() -> None:
    leader = leading()
    fetch(leader, 2, 10, 10, 5000)
    fetch(leader, 3, 4, 10)
    change = leader.shrink(10, 5000)
    assert change is not None
    assert change.isr == (1, 2)
    assert leader.high_watermark(10, 5000, 1) == 4
    assert leader.changed(change, (1, 2), 5, 8)
    assert leader.high_watermark(10, 5000, 1) == 10
    assert leader.partition_epoch == 8


def test_one_change_is_under_way_at_a_time() -> None:
    leader = leading((1, 2))
    fetch(leader, 3, 0, 0)
    assert leader.expand(3, 0, 0) is not None
    assert leader.shrink(10, 5000) is None
    assert leader.expand(3, 0, 0) is None


def test_an_answer_to_a_change_that_others_overtook_changes_nothing() -> None:
    leader = leading((1, 2))
    fetch(leader, 3, 0, 0)
    change = leader.expand(3, 0, 0)
    assert change is not None
    leader.lead(assigned((1,), leader_epoch=6, partition_epoch=9), 0, 0)
    assert not leader.changed(change, (1, 2, 3), 5, 8)
    assert (leader.isr, leader.partition_epoch) == ((1,), 9)


def test_a_refused_change_leaves_the_set_as_it_was() -> None:
    leader = leading((1, 2))
    fetch(leader, 3, 0, 0)
    change = leader.expand(3, 0, 0)
    assert change is not None
    leader.cancel_refused(change, 0)
    assert leader.maximal_isr == leader.isr == (1, 2)


def refused(leader: LeaderState, now_ms: int) -> None:
    change = leader.expand(3, 0, now_ms)
    assert change is not None
    leader.cancel_refused(change, now_ms)


def test_a_refused_follower_is_asked_for_again_after_a_pause() -> None:
    leader = leading((1, 2))
    fetch(leader, 3, 0, 0)
    refused(leader, 0)
    fetch(leader, 3, 0, 0, REFUSED_MS - 1)
    assert leader.expand(3, 0, REFUSED_MS - 1) is None
    change = leader.expand(3, 0, REFUSED_MS)
    assert change is not None
    assert leader.is_repeated(change)


def test_a_refused_follower_is_asked_for_again_at_once_when_its_broker_has_begun_anew() -> None:
    leader = leading((1, 2))
    fetch(leader, 3, 0, 0)
    refused(leader, 0)
    leader.followers[3].record_fetch(0, 0, 0, 1, 33)
    change = leader.expand(3, 0, 1)
    assert change is not None
    assert not leader.is_repeated(change)


def test_a_refused_follower_is_asked_for_again_at_once_in_a_new_leader_epoch() -> None:
    leader = leading((1, 2))
    fetch(leader, 3, 0, 0)
    refused(leader, 0)
    leader.lead(assigned((1, 2), leader_epoch=6, partition_epoch=8), 0, 1)
    fetch(leader, 3, 0, 0, 1)
    assert leader.expand(3, 0, 1) is not None


def test_a_leader_that_missed_a_leader_epoch_counts_no_follower_before_it_fetches_in_the_new_one() -> None:
    leader = leading((1, 2, 3))
    fetch(leader, 2, 120, 120)
    fetch(leader, 3, 110, 120)
    assert leader.high_watermark(120, 0, 2) == 110
    leader.lead(assigned((1, 2), leader_epoch=7, partition_epoch=9), 120, 1)  # in epoch 6 replica 3 led, and 2 truncated to 110
    assert leader.high_watermark(120, 1, 2) < 110
    assert leader.expand(3, 110, 1) is None
    assert leader.low_watermark(5) == -1
    fetch(leader, 2, 110, 120, 2)
    assert leader.high_watermark(120, 2, 2) == 110


def test_a_change_tells_with_which_epochs_its_members_fetched() -> None:
    leader = LeaderState(1, LeaderTerms({1, 2, 3}, LAG_MS, broker_epoch=11), assigned((1, 2)), 0, 0)
    leader.followers[3].record_fetch(0, 0, 0, 0, 33)
    change = leader.expand(3, 0, 0)
    assert change is not None
    assert change.broker_epochs == (11, -1, 33)


def test_a_stranger_is_not_counted() -> None:
    leader = leading()
    assert 9 not in leader.followers
    assert leader.expand(9, 0, 0) is None


def test_records_are_deleted_where_all_live_replicas_have_deleted_them() -> None:
    leader = leading()
    leader.followers[2].record_fetch(10, 3, 10, 0, -1)
    leader.followers[3].record_fetch(10, 7, 10, 0, -1)
    assert leader.low_watermark(5) == 3


class Replication(RuleBasedStateMachine):
    """A leader and its followers, of which each has a prefix of its log; the controller may answer late, or decide something."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.end_offset = 0
        self.ends = {2: 0, 3: 0}
        self.leader = leading()
        self.high_watermark = 0
        self.agreed = assigned()

    @rule(count=st.integers(1, 3))
    def append(self, count: int) -> None:
        self.end_offset += count
        self.look()

    @rule(node_id=st.sampled_from((2, 3)), count=st.integers(0, 3))
    def fetch(self, node_id: int, count: int) -> None:
        offset = self.ends[node_id] = min(self.ends[node_id] + count, self.end_offset)
        fetch(self.leader, node_id, offset, self.end_offset, self.now_ms)
        self.leader.expand(node_id, self.high_watermark, self.now_ms)
        self.look()

    @rule(ms=st.sampled_from((1, LAG_MS // 2, LAG_MS + 1)))
    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.leader.shrink(self.end_offset, self.now_ms)
        self.look()

    @precondition(lambda self: self.leader.pending)
    @rule(is_made=st.booleans())
    def answer(self, is_made: bool) -> None:
        change = self.leader.pending
        assert change is not None
        if is_made:
            self.agreed = self.agreed._replace(isr=change.isr, partition_epoch=self.agreed.partition_epoch + 1)
            self.leader.changed(change, change.isr, change.leader_epoch, self.agreed.partition_epoch)
        else:
            self.leader.cancel_refused(change, self.now_ms)
        self.look()

    @precondition(lambda self: self.leader.pending)
    @rule()
    def make_and_lose_the_answer(self) -> None:
        """The controller makes the change, and then elects: its answer never comes, the new leader epoch does."""
        change = self.leader.pending
        assert change is not None
        self.agreed = self.agreed._replace(isr=change.isr)
        self.elect()

    @rule()
    def elect(self) -> None:
        epochs = self.agreed.leader_epoch + 1, self.agreed.partition_epoch + 1
        self.agreed = self.agreed._replace(leader_epoch=epochs[0], partition_epoch=epochs[1])
        self.leader.lead(self.agreed, self.end_offset, self.now_ms)
        self.look()

    @rule(lost=st.integers(0, 3))
    def miss_a_leader_epoch(self, lost: int) -> None:
        """Another replica has led meanwhile, and followers have truncated what only this one had."""
        self.ends = {node_id: max(min(end, self.high_watermark), end - lost) for node_id, end in self.ends.items()}
        self.agreed = self.agreed._replace(leader_epoch=self.agreed.leader_epoch + 1)
        self.elect()

    def look(self) -> None:
        self.high_watermark = max(self.high_watermark, self.leader.high_watermark(self.end_offset, self.now_ms, 2))

    @invariant()
    def whoever_may_be_elected_has_all_that_readers_saw(self) -> None:
        for node_id in self.agreed.isr:
            assert self.ends.get(node_id, self.end_offset) >= self.high_watermark

    @invariant()
    def what_may_be_agreed_is_within_the_maximal_set(self) -> None:
        assert set(self.agreed.isr) <= set(self.leader.maximal_isr)


TestReplication = Replication.TestCase
TestReplication.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
