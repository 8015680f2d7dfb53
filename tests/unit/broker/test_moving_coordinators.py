"""A coordinator is where its partition's leader is: it comes when its records were read, and goes with that role."""

from __future__ import annotations

import pytest

from ottla.broker.coordination.coordinators import CoordinatorKind, CoordinatorMoves, CoordinatorRooms, Coordinators
from ottla.broker.coordination.replay import stored_records
from ottla.broker.partitions.partition import Partition, Role
from ottla.cluster.decision import Decision
from ottla.coord.coordinator_partitions import partition_of
from ottla.coord.runtime.machine import KeyAndValue
from ottla.coord.runtime.record_reader import RecordReader
from ottla.ports import Steps
from ottla.wire.errors import COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, LEADER_NOT_AVAILABLE, NONE, NOT_COORDINATOR
from tests.support.counters import TOPIC, Add, Counted, Counters, Look, WaitFor, decode, refused
from tests.support.machine import Machine, create_topic_of

CHUNK_BYTES = 1_000
KIND = CoordinatorKind(
    TOPIC, Counters, lambda partition: stored_records(partition, RecordReader(decode), CHUNK_BYTES), refused
)  # fmt: skip


class Moving:
    """A broker whose partitions of counters change their role as a test says."""

    def __init__(self) -> None:
        self.machine = Machine(num_partitions=3)
        broker = self.machine.broker
        self.counters = Coordinators(
            KIND, CoordinatorRooms(broker.image, self._create, broker.partitions, broker.scheduler, broker.changes)
        )
        self.moves = CoordinatorMoves([self.counters])

    def _create(self, name: str) -> Steps[Decision]:
        """Create the topic on this broker, which leads none of its partitions yet."""
        decision = yield from self.machine.broker.by_name.create_internal(name)
        for partition in self.machine.broker.partitions:
            partition.role = Role.FOLLOWER
        return decision

    def create(self) -> list[int]:
        return create_topic_of(self.counters, self.machine)

    def partition(self, name: str) -> Partition:
        found = self.machine.broker.partitions.get(TOPIC, partition_of(name, 3))
        assert found is not None
        return found

    def lead(self, name: str) -> None:
        """Lead the partition of a counter; whoever looks finds its coordinator being loaded."""
        partition = self.partition(name)
        partition.role = Role.LEADER
        partition.leader_epoch += 1
        self.moves.on_election(partition)

    def lead_no_more(self, name: str) -> None:
        partition = self.partition(name)
        partition.role = Role.FOLLOWER
        self.moves.on_resignation(partition)

    def load(self) -> None:
        while self.counters.loading_error:
            self.machine.pass_time(1)

    def fill(self, name: str, last: int) -> None:
        """Append so many records that they are read in several slices."""
        shard = self.counters.of(self.partition(name))
        assert shard is not None
        for _ in range(40):
            records: list[KeyAndValue] = [(name.encode(), b"%d" % last)] * 500
            assert shard.log.append(records, self.machine.clock.now()) == NONE

    def ask(self, body: Add | Look | WaitFor) -> list[Counted]:
        """What is answered, as soon as it is."""
        answers: list[Counted] = []
        shard = self.counters.of(self.partition(body.name))
        if shard is None:
            return [Counted(-1, self.counters._absence(partition_of(body.name, 3)))]
        shard.request(body, answers.append, self.machine.clock.now())
        self.machine.settle()
        return answers


def moving_with_a_leader() -> Moving:
    moving = Moving()
    assert moving.create() == [NONE]
    moving.lead("a")
    moving.load()
    return moving


def test_a_coordinator_comes_with_the_leadership_of_its_partition() -> None:
    moving = Moving()
    moving.create()
    assert moving.ask(Add("a", 1)) == [Counted(-1, NOT_COORDINATOR)]
    moving.lead("a")
    moving.load()
    assert moving.ask(Add("a", 1)) == [Counted(1)]


def test_clients_come_again_while_the_controller_creates_the_topic(caplog: pytest.LogCaptureFixture) -> None:
    moving = Moving()

    def create(name: str) -> Steps[Decision]:
        return Decision(name, LEADER_NOT_AVAILABLE)
        yield

    moving.counters._create = create
    assert moving.create() == [COORDINATOR_NOT_AVAILABLE]
    assert not caplog.records


def test_one_that_leads_is_loaded_when_it_is_asked_though_its_loading_failed_before() -> None:
    moving = moving_with_a_leader()
    moving.ask(Add("a", 3))
    shard = moving.counters.of(moving.partition("a"))
    assert shard is not None
    shard.unload()
    assert moving.ask(Look("a")) == [Counted(3)]


def test_it_goes_at_once_and_refuses_whoever_waits() -> None:
    moving = moving_with_a_leader()
    waiting = moving.ask(WaitFor("a", 5))
    moving.lead_no_more("a")
    assert waiting == [Counted(-1, NOT_COORDINATOR)]
    assert moving.ask(Look("a")) == [Counted(-1, NOT_COORDINATOR)]


def test_the_next_one_reads_what_the_log_holds() -> None:
    moving = moving_with_a_leader()
    for _ in range(200):
        moving.ask(Add("a", 1))
    moving.lead_no_more("a")
    moving.lead("a")
    moving.load()
    assert moving.ask(Look("a")) == [Counted(200)]


def test_it_is_read_in_slices_while_others_are_told_that_it_is_on_its_way() -> None:
    moving = moving_with_a_leader()
    moving.fill("a", 500)
    moving.lead_no_more("a")
    moving.lead("a")
    assert moving.ask(Add("a", 1)) == [Counted(-1, COORDINATOR_LOAD_IN_PROGRESS)]
    moving.load()
    assert moving.ask(Add("a", 1)) == [Counted(501)]


def test_what_is_appended_while_it_is_read_counts_too() -> None:
    moving = moving_with_a_leader()
    moving.fill("a", 500)
    shard = moving.counters.of(moving.partition("a"))
    assert shard is not None
    moving.lead_no_more("a")
    moving.lead("a")
    assert moving.counters.loading_error
    assert shard.log.append([(b"a", b"7")], moving.machine.clock.now()) == NONE
    moving.load()
    assert moving.ask(Look("a")) == [Counted(7)]


def test_a_new_epoch_of_the_same_leader_leaves_it_as_it_is() -> None:
    moving = moving_with_a_leader()
    waiting = moving.ask(WaitFor("a", 5))
    moving.lead("a")
    assert not moving.counters.loading_error
    moving.ask(Add("a", 5))
    assert waiting == [Counted(5)]


def test_what_is_being_read_when_the_leadership_goes_never_coordinates() -> None:
    moving = moving_with_a_leader()
    moving.fill("a", 300)
    moving.lead_no_more("a")
    moving.lead("a")
    assert moving.counters.loading_error
    moving.lead_no_more("a")
    moving.machine.pass_time(100)
    assert moving.ask(Look("a")) == [Counted(-1, NOT_COORDINATOR)]
    moving.lead("a")
    moving.load()
    assert moving.ask(Look("a")) == [Counted(300)]


def test_timers_of_one_that_is_gone_do_nothing() -> None:
    moving = moving_with_a_leader()
    moving.ask(Add("a", 1))
    end = moving.partition("a").log.log_end_offset
    moving.lead_no_more("a")
    moving.machine.pass_time(120_000)
    assert moving.partition("a").log.log_end_offset == end


def test_what_it_knew_is_freed_in_slices() -> None:
    moving = moving_with_a_leader()
    shard = moving.counters.of(moving.partition("a"))
    assert shard is not None
    values = shard.machine.values
    values.update({str(number): number for number in range(10_000)})
    moving.lead_no_more("a")
    assert values
    sizes = []
    while values:
        sizes.append(len(values))
        moving.machine.pass_time(1)
    assert len(sizes) > 10
