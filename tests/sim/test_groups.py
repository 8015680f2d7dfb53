"""Groups of members of both protocols live through deaths, bad networks and jumping clocks: a share of what `make sim` does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.client.consumer.membership import Revoke
from ottla.client.types import TopicPartition
from ottla.coord.consumer import slow_target, target
from ottla.coord.consumer.assign import draft, uneven, uniform
from ottla.coord.consumer.assign import range as ranges
from ottla.sim.host import Host
from ottla.sim.network import NetworkFaults
from ottla.sim.world import World
from ottla.wire.api.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.errors import UNKNOWN_MEMBER_ID
from tests.sim import groups
from tests.sim.lives import group_crowd, group_life
from tests.sim.lives.classic_member import SimClassicMember
from tests.sim.lives.group_ledger import GroupLedger, Seat
from tests.sim.seeds import Violation

SHARES = 10
SHARES_OF_STREAMS = 4
SEEDS_PER_SHARE = 15
T = TopicPartition("t", 0)
GIVE_UP = SimClassicMember._revoke


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.rows(5, seconds=1)
def test_what_must_be_true_of_groups_is_true_whatever_happens(share: int) -> None:
    for seed in range(share * SEEDS_PER_SHARE, (share + 1) * SEEDS_PER_SHARE):
        lived = groups.live(seed)  # raises what was violated
        assert lived.seed == seed
        assert lived.beats <= 2 * group_life.MOST_BEATS


@pytest.mark.parametrize("share", range(SHARES_OF_STREAMS))
@pytest.mark.rows(2, seconds=3)
def test_what_must_be_true_of_streams_groups_is_true_whatever_happens(share: int) -> None:
    for seed in range(share * SEEDS_PER_SHARE, (share + 1) * SEEDS_PER_SHARE):
        assert groups.live(seed, kind=group_crowd.STREAMS).beats <= 2 * group_life.MOST_BEATS


@pytest.mark.parametrize("share", range(2))
def test_groups_that_are_assigned_in_the_smallest_slices_live_through_everything_too(
    monkeypatch: pytest.MonkeyPatch, share: int
) -> None:
    monkeypatch.setattr(target, "MOST_AT_ONCE", -1)
    monkeypatch.setattr(slow_target, "STORED_AT_ONCE", 1)
    for module in (target, draft, ranges, uneven, uniform):
        monkeypatch.setattr(module, "BETWEEN_PAUSES", 1)
    for seed in range(share * SEEDS_PER_SHARE, (share + 1) * SEEDS_PER_SHARE):
        assert groups.live(seed).beats <= 2 * group_life.MOST_BEATS


def test_what_a_static_member_gave_up_without_a_word_is_read_after_the_next_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """With Kafka too: where it dies between giving up and joining again, all settles once somebody else joins again."""
    monkeypatch.setattr(group_crowd, "STRATEGIES", (("cooperative-sticky",),))
    plan = group_life.GroupPlan(("classic",), members=1, topics=1, trouble_ms=15_000, link_faults=NetworkFaults())
    monkeypatch.setattr(group_life, "plan", lambda world, kind: plan)
    life = group_life.GroupLife(0)
    died: list[str] = []

    def give_up(member: SimClassicMember, step: Revoke, later: Callable[[], None]) -> None:
        if member.instance_id is None or died:
            GIVE_UP(member, step, later)
        else:
            died.append(member.name)
            member.die()
            del life.crowd.members[member.name]
            life.crowd._begin(member.name)

    monkeypatch.setattr(SimClassicMember, "_revoke", give_up)
    monkeypatch.setattr(life, "_trouble", lambda: None)
    life.world.after(plan.trouble_ms // 2, lambda: life.crowd._begin("c1"))
    assert life.live().beats > group_life.MOST_BEATS
    assert died


@pytest.mark.parametrize("kind", [*group_crowd.KINDS, group_crowd.STREAMS])
def test_a_seed_is_lived_the_same_way_every_time(kind: str) -> None:
    assert groups.live(3, kind=kind) == groups.live(3, kind=kind)


def test_a_violation_names_the_command_that_shows_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_life, "MOST_BEATS", 0)
    with pytest.raises(
        Violation, match=r"seed 5: .*soon settled: not in 0 heartbeats.*python -m tests.sim.groups --seed 5 --kind classic"
    ):
        groups.live(5, kind="classic")


def test_the_command_tells_what_was_lived(capsys: pytest.CaptureFixture[str]) -> None:
    assert groups.main(["--seeds", "2", "--jobs", "1"]) == 0
    assert "lived 2 seeds in" in capsys.readouterr().out
    assert groups.main(["--seeds", "80", "--seconds", "0", "--jobs", "1"]) == 2


@pytest.fixture
def ledger() -> GroupLedger:
    return GroupLedger(Host(World(1), group_life.SETTINGS))


class Process:
    """A member that exists only for the ledger."""

    group_id, member_id, generation, alive = "g", "m", 1, True

    def __init__(self, name: str) -> None:
        self.name = name


def commit(ledger: GroupLedger, offset: int, code: int = 0) -> None:
    part = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[part])]
    body = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=1, member_id="m", topics=topics)
    done = OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=0, error_code=code)
    answer = OffsetCommitResponse(topics=[OffsetCommitResponse.OffsetCommitResponseTopic(name="t", partitions=[done])])
    ledger.committing(Process("m"), body)(answer)


def test_two_owners_are_a_violation_if_the_coordinator_knows_both(ledger: GroupLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Process("one"), Process("other")
    ledger.take(one, [T])
    ledger.take(other, [T])
    monkeypatch.setattr(ledger, "_is_known", lambda reader: True)
    with pytest.raises(Violation, match="one owner: t-0 of group g is read by one and other"):
        ledger.check()
    one.alive = False
    ledger.check()


def test_commits_that_go_back_and_commits_that_are_lost_are_violations(ledger: GroupLedger) -> None:
    commit(ledger, 5)
    ledger.read("g", T, 5)
    with pytest.raises(Violation, match="commits stay: t-0 of g is said to have 3") as lost:
        ledger.read("g", T, 3)
    assert "acknowledged was 5" in str(lost.value)
    with pytest.raises(Violation, match="commits grow"):
        commit(ledger, 4)


def test_a_commit_that_nobody_was_told_of_may_be_there_or_not(ledger: GroupLedger) -> None:
    commit(ledger, 5)
    part = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=9)
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[part])]
    ledger.committing(Process("m"), OffsetCommitRequest(group_id="g", topics=topics))(None)
    ledger.read("g", T, 5)
    ledger.read("g", T, 9)
    with pytest.raises(Violation, match="commits stay"):
        ledger.read("g", T, 7)


def test_a_fenced_member_that_is_obeyed_is_a_violation(ledger: GroupLedger) -> None:
    commit(ledger, 5, UNKNOWN_MEMBER_ID)
    with pytest.raises(Violation, match="the fenced are deaf"):
        commit(ledger, 6)


def test_what_a_classic_group_forgets_with_its_broker_is_forgotten_here_too(ledger: GroupLedger) -> None:
    ledger.told_gone(Seat("g", "m", 1), lasting=False)
    ledger.broker_died()
    commit(ledger, 6)
    assert (ledger.commits, ledger.refused) == (1, 0)
    ledger.told_gone(Seat("g", "m", 1), lasting=True)
    ledger.broker_died()
    with pytest.raises(Violation, match="the fenced are deaf"):
        commit(ledger, 7)


def test_a_member_that_was_taken_in_again_may_come_to_an_epoch_of_the_past(ledger: GroupLedger) -> None:
    """A group that was empty begins anew, as on Apache Kafka, and counts its epochs from the beginning."""
    commit(ledger, 5, UNKNOWN_MEMBER_ID)
    ledger.admitted("g", "m", 2)
    with pytest.raises(Violation, match="the fenced are deaf"):
        commit(ledger, 6)
    ledger.admitted("g", "m", 1)
    commit(ledger, 7)
    assert ledger.commits == 2
