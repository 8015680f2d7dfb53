"""Transactions in one broker: what was decided is carried out whatever comes in between, and its partitions never stay open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.coordination import transactions
from ottla.broker.coordination.markers import MarkerAppender
from ottla.broker.serving.purgatory import DelayedReply
from ottla.cluster.names import TRANSACTIONS_TOPIC
from ottla.coord.coordinator_partitions import partition_of
from ottla.log.log import Log
from ottla.ports import StorageFailed, SyncFailed
from ottla.records.batches.builder import build
from ottla.sim.disk import SimFile
from ottla.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.api.describe_configs import DescribeConfigsRequest
from ottla.wire.api.describe_transactions import DescribeTransactionsRequest
from ottla.wire.api.end_txn import EndTxnRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.api.list_transactions import ListTransactionsRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.api.txn_offset_commit import TxnOffsetCommitRequest
from ottla.wire.api.write_txn_markers import WriteTxnMarkersRequest
from ottla.wire.errors import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_NOT_AVAILABLE,
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_REGULAR_EXPRESSION,
    INVALID_TXN_STATE,
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_COORDINATOR,
    NOT_ENOUGH_REPLICAS,
    TRANSACTION_COORDINATOR_FENCED,
    UNSTABLE_OFFSET_COMMIT,
)
from tests.support.machine import Machine
from tests.support.producing import create, delete
from tests.unit.broker.test_coordination import refuse

PRODUCE, OFFSET_FETCH, FIND, INIT, ADD, ADD_OFFSETS, END, MARKERS, TXN_COMMIT, DESCRIBE, LIST = (
    0,
    9,
    10,
    22,
    24,
    25,
    26,
    27,
    28,
    65,
    66,
)
DESCRIBE_CONFIGS = 32
ID = "t"


@pytest.fixture
def machine() -> Machine:
    return new_machine()


def new_machine(**settings: object) -> Machine:
    machine = Machine(transaction_state_log_num_partitions=3, offsets_topic_num_partitions=3, **settings)
    for key_type in (0, 1):
        machine.ask(FIND, 4, FindCoordinatorRequest(key_type=key_type, coordinator_keys=[ID]))
    create(machine, "a", 2)
    return machine


def test_filters_are_judged_where_nothing_was_transactional_yet() -> None:
    machine = Machine()
    illegal = machine.ask(LIST, 2, ListTransactionsRequest(state_filters=["Nothing"], transactional_id_pattern="("))
    assert (illegal.error_code, illegal.unknown_state_filters) == (INVALID_REGULAR_EXPRESSION, [])
    unknown = machine.ask(LIST, 2, ListTransactionsRequest(state_filters=["Nothing", "Empty"], transactional_id_pattern="a"))
    assert (unknown.error_code, unknown.unknown_state_filters) == (NONE, ["Nothing"])


@pytest.mark.parametrize(("given", "expected"), [({}, "2"), ({"transaction_state_log_min_isr": 3}, "3")])
def test_the_log_of_transactions_demands_as_many_replicas_in_sync_as_the_settings_say(
    given: dict[str, object], expected: str
) -> None:
    """Else a commit would rest on one replica in a cluster: min.insync.replicas of other topics is 1."""
    wanted = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=2, resource_name=TRANSACTIONS_TOPIC, configuration_keys=["min.insync.replicas"]
    )
    [found] = new_machine(**given).ask(DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=[wanted])).results
    assert [entry.value for entry in found.configs] == [expected]


class Transactional:
    """A producer with a transactional id, by hand."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        response = machine.ask(INIT, 4, InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000))
        assert response.error_code == NONE
        self.producer_id, self.epoch, self.sequence = response.producer_id, response.producer_epoch, 0

    def write(self, topic: str = "a", index: int = 0, version: int = 12) -> int:
        body = self.write_request(topic, index)
        code = self.machine.ask(PRODUCE, version, body).responses[0].partition_responses[0].error_code
        assert isinstance(code, int)
        return code

    def write_request(self, topic: str = "a", index: int = 0) -> ProduceRequest:
        records = build(
            None,
            [b"x"],
            self.machine.clock.now().wall_ms,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=True,
        )
        data = ProduceRequest.PartitionProduceData(index=index, records=records)
        topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=[data])]
        return ProduceRequest(transactional_id=ID, acks=-1, timeout_ms=1000, topic_data=topics)

    def commit_offset(self, group: str, offset: int) -> int:
        return self.committed(self.machine.ask(TXN_COMMIT, 5, self.commit_request(group, offset)))

    @staticmethod
    def committed(response: Any) -> int:
        code = response.topics[0].partitions[0].error_code
        assert isinstance(code, int)
        return code

    def add_request(self, group: str) -> AddOffsetsToTxnRequest:
        return AddOffsetsToTxnRequest(transactional_id=ID, producer_id=self.producer_id, producer_epoch=self.epoch, group_id=group)

    def commit_request(self, group: str, offset: int) -> TxnOffsetCommitRequest:
        part = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        return TxnOffsetCommitRequest(
            transactional_id=ID,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name="a", partitions=[part])],
        )

    def end_request(self, *, committed: bool = True) -> EndTxnRequest:
        return EndTxnRequest(transactional_id=ID, producer_id=self.producer_id, producer_epoch=self.epoch, committed=committed)

    def add(self) -> int:
        """Of a producer that speaks the older protocol."""
        of = AddPartitionsToTxnRequest
        body = of(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[of.AddPartitionsToTxnTopic(name="a", partitions=[0])],
        )
        code = self.machine.ask(ADD, 3, body).results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        assert isinstance(code, int)
        return code

    def add_offsets(self) -> int:
        body = AddOffsetsToTxnRequest(transactional_id=ID, producer_id=self.producer_id, producer_epoch=self.epoch, group_id="g")
        code = self.machine.ask(ADD_OFFSETS, 3, body).error_code
        assert isinstance(code, int)
        return code

    def end(self, *, committed: bool = True) -> int:
        response = self.machine.ask(END, 5, self.end_request(committed=committed))
        if not response.error_code:
            self.producer_id, self.epoch, self.sequence = response.producer_id, response.producer_epoch, 0
        code = response.error_code
        assert isinstance(code, int)
        return code


def state(machine: Machine) -> str:
    described = machine.ask(DESCRIBE, 0, DescribeTransactionsRequest(transactional_ids=[ID])).transaction_states[0]
    return str(described.transaction_state)


def hidden(machine: Machine, topic: str = "a", index: int = 0) -> int:
    """How many offsets of a partition readers of committed records may not see."""
    log = machine.broker.partitions.get(topic, index).log  # type: ignore[union-attr]  # it is there
    return int(log.log_end_offset - log.last_stable_offset)


def committed_offset(machine: Machine, group: str) -> Any:
    topics = [OffsetFetchRequest.OffsetFetchRequestTopics(name="a", partition_indexes=[0])]
    wanted = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=topics)
    answered = machine.ask(OFFSET_FETCH, 8, OffsetFetchRequest(groups=[wanted], require_stable=True))
    part = answered.groups[0].topics[0].partitions[0]
    return part.error_code or part.committed_offset


BEGINNINGS: list[Callable[[Transactional], int]] = [
    Transactional.write,
    lambda producer: producer.commit_offset("g", 1),
    Transactional.add,
    Transactional.add_offsets,
]


@pytest.mark.parametrize("begin", BEGINNINGS)
def test_what_begins_a_transaction_waits_for_the_markers_of_the_one_before(begin: Callable[[Transactional], int]) -> None:
    machine = new_machine(add_partitions_to_txn_retry_backoff_max_ms=60_000)
    producer = Transactional(machine)
    append, refusals = machine.broker.markers.append, list[int]()

    def late(*place: Any, **how: Any) -> Any:
        return (refusals.pop(), None) if refusals else append(*place, **how)

    machine.broker.markers.append = late  # type: ignore[method-assign]  # the first of each transaction is refused once
    for _ in range(3):
        assert begin(producer) == NONE
        refusals.append(COORDINATOR_NOT_AVAILABLE)
        assert producer.end() == NONE
        assert state(machine) == "PrepareCommit"


@pytest.mark.parametrize("begin", BEGINNINGS[:2])
def test_a_marker_that_comes_while_the_next_transaction_waits_does_not_refuse_it(begin: Callable[[Transactional], int]) -> None:
    machine = new_machine(add_partitions_to_txn_retry_backoff_max_ms=60_000)
    producer = Transactional(machine)
    assert begin(producer) == NONE
    append, refusals = machine.broker.markers.append, iter([True, True, False])

    def late(*place: Any, **how: Any) -> Any:
        return (COORDINATOR_NOT_AVAILABLE, None) if next(refusals) else append(*place, **how)

    machine.broker.markers.append = late  # type: ignore[method-assign]  # each is refused twice
    assert producer.end() == NONE
    assert state(machine) == "PrepareCommit"
    assert begin(producer) == NONE
    assert state(machine) == "Ongoing"


@pytest.mark.parametrize("begin", BEGINNINGS)
def test_who_waits_for_markers_that_cannot_be_written_hears_so_soon(
    machine: Machine, begin: Callable[[Transactional], int]
) -> None:
    producer = Transactional(machine)
    assert producer.write() == NONE
    append = machine.broker.markers.append
    machine.broker.markers.append = lambda *_, **__: (COORDINATOR_NOT_AVAILABLE, None)  # type: ignore[method-assign]  # none for now
    assert producer.end() == NONE
    began_ms = machine.clock.now().mono_ms
    assert begin(producer) == CONCURRENT_TRANSACTIONS
    assert machine.clock.now().mono_ms <= began_ms + 200
    machine.broker.markers.append = append  # type: ignore[method-assign]  # they can be written again
    machine.pass_time(10_000)
    assert begin(producer) == NONE


@pytest.mark.parametrize("ends", ["kill", "cut_power"])
def test_what_was_decided_is_carried_out_by_the_next_life(machine: Machine, ends: str) -> None:
    producer = Transactional(machine)
    assert [producer.write(index=index) for index in (0, 1)] == [NONE, NONE]
    machine.broker.markers.append = lambda *_, **__: (COORDINATOR_NOT_AVAILABLE, None)  # type: ignore[method-assign]  # none is written in this life
    assert producer.end() == NONE
    assert state(machine) == "PrepareCommit"
    assert hidden(machine) == 1
    if ends == "kill":
        machine.kill()
    else:
        machine.cut_power(1)
    machine.pass_time(1000)
    assert state(machine) == "CompleteCommit"
    assert [hidden(machine, index=index) for index in (0, 1)] == [0, 0]


@pytest.mark.parametrize("rounds", [0, 1])
def test_a_sync_that_ends_once_the_logs_are_closed_carries_nothing_out(machine: Machine, rounds: int) -> None:
    """A marker in a closed log lies beyond the end of its clean stop, so that the next start would take the partition offline."""
    producer = Transactional(machine)
    assert producer.write() == NONE
    with pytest.MonkeyPatch.context() as patch:
        run_syncs, runs = machine.disk.run_syncs, iter([1] * rounds)
        patch.setattr(machine.disk, "run_syncs", lambda: next(runs, 0) and run_syncs())
        machine.begin(END, 5, producer.end_request())
    assert is_ending(machine)
    machine.restart()
    assert [partition.offline for partition in machine.broker.partitions if partition.offline] == []
    machine.pass_time(1000)
    assert (state(machine), hidden(machine)) == ("CompleteCommit", 0)


def is_ending(machine: Machine) -> bool:
    """Without a question to the coordinator, whose answer would wait for a sync."""
    found = machine.broker.transactions.coordinators.machine_of(ID)
    return found is not None and found.is_ending(ID)


def begun_before_a_power_cut(producer: Transactional, seed: int) -> None:
    """A transaction of which the data's own file was synced, and the coordinator's was not."""
    machine = producer.machine
    machine.broker.receive(machine.frame_of(PRODUCE, 12, producer.write_request()), machine.peer, machine.clock.now())
    for file in machine.broker.partitions.get("a", 0).log.dirty_files():  # type: ignore[union-attr]  # it is there
        file.sync()
    machine.cut_power(seed)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("ended", [0, 1])
def test_records_that_outlive_the_news_of_their_transaction_are_part_of_it(machine: Machine, ended: int, seed: int) -> None:
    """Nor does the end of the transaction before, which may have to be carried out anew, end this one."""
    producer = Transactional(machine)
    for _ in range(ended):
        assert producer.write() == NONE
        assert producer.end() == NONE
        while is_ending(machine):
            machine.pass_time(1)
    begun_before_a_power_cut(producer, seed)
    for _ in range(3):
        machine.pass_time(1000)
        assert (state(machine), hidden(machine)) == ("Ongoing", 1)
    machine.kill()
    assert (state(machine), hidden(machine)) == ("Ongoing", 1)
    assert producer.end() == NONE
    machine.pass_time(1000)
    assert (state(machine), hidden(machine)) == ("CompleteCommit", 0)


def test_a_transaction_begun_before_a_power_cut_is_aborted_when_its_producer_is_gone(machine: Machine) -> None:
    begun_before_a_power_cut(Transactional(machine), 1)
    for _ in range(75):
        machine.pass_time(1_000)
    assert (state(machine), hidden(machine)) == ("CompleteAbort", 0)


def test_a_partition_opened_after_its_coordinator_is_added_with_the_next_records(machine: Machine) -> None:
    producer = Transactional(machine)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transactions, "with_opened", lambda known, opened, now_ms: known)
        begun_before_a_power_cut(producer, 1)
        machine.cut_power(3)
    producer.sequence = 1
    assert producer.write() == NONE
    assert producer.end() == NONE
    machine.pass_time(1000)
    assert (state(machine), hidden(machine)) == ("CompleteCommit", 0)


@pytest.mark.expects_errors("Input/output error")
@pytest.mark.parametrize(
    ("topic", "refusal", "later"),
    [("a", KAFKA_STORAGE_ERROR, KAFKA_STORAGE_ERROR), (TRANSACTIONS_TOPIC, NOT_COORDINATOR, NOT_ENOUGH_REPLICAS)],
)
def test_records_whose_transaction_could_not_be_kept_are_not_acknowledged(topic: str, refusal: int, later: int) -> None:
    """Produce has no error of its own for a coordinator that is gone before anything is written: Kafka says that replicas lack."""
    machine = new_machine(ottla_journal_bytes=0)
    producer = Transactional(machine)
    index = 0 if topic == "a" else partition_of(ID, 3)
    sync = SimFile.sync

    def failing(file: SimFile) -> None:
        if file.path.startswith(f"{topic}-{index}/"):
            raise SyncFailed(file.path, "Input/output error")
        sync(file)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimFile, "sync", failing)
        assert producer.write() == refusal
    assert producer.write() == later


@pytest.mark.expects_errors("No space left on device")
def test_a_partition_that_takes_no_marker_gets_it_when_it_can(machine: Machine) -> None:
    producer = Transactional(machine)
    producer.write()
    append = Log.append

    def full(log: Log, *rest: Any, **more: Any) -> Any:
        if log.path == "a-0":
            raise StorageFailed("a-0", "No space left on device")
        return append(log, *rest, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Log, "append", full)
        assert producer.end() == NONE
        machine.pass_time(1000)
        assert state(machine) == "PrepareCommit"
    for _ in range(10):
        machine.pass_time(100)
    assert state(machine) == "CompleteCommit"
    assert hidden(machine) == 0


def test_a_topic_that_is_deleted_keeps_no_transaction_from_its_end(machine: Machine) -> None:
    create(machine, "gone")
    producer = Transactional(machine)
    assert producer.write() == NONE
    assert producer.write("gone") == NONE
    delete(machine, "gone")
    assert producer.end() == NONE
    machine.pass_time(1000)
    assert state(machine) == "CompleteCommit"
    assert hidden(machine) == 0


@pytest.mark.parametrize("restarts", [False, True])
def test_offsets_in_a_transaction_count_once_it_is_committed_and_never_if_it_is_aborted(machine: Machine, restarts: bool) -> None:
    producer = Transactional(machine)
    for offset, committed in ((5, True), (9, False)):
        assert producer.commit_offset("g", offset) == NONE
        if restarts:
            machine.kill()
        assert committed_offset(machine, "g") == UNSTABLE_OFFSET_COMMIT
        assert producer.end(committed=committed) == NONE
        machine.pass_time(1000)
        assert committed_offset(machine, "g") == 5


def test_a_transaction_of_a_producer_that_is_gone_ends_by_itself(machine: Machine) -> None:
    producer = Transactional(machine)
    producer.write()
    machine.pass_time(59_000)
    machine.pass_time(1_000)
    assert state(machine) == "Ongoing"
    for _ in range(11):
        machine.pass_time(1_000)
    assert state(machine) == "CompleteAbort"
    assert hidden(machine) == 0


@pytest.mark.expects_errors("No space left on device", "cannot be created")
def test_who_adds_offsets_where_no_group_can_be_coordinated_is_told_so() -> None:
    machine = Machine(transaction_state_log_num_partitions=1)
    machine.ask(FIND, 4, FindCoordinatorRequest(key_type=1, coordinator_keys=[ID]))
    producer = Transactional(machine)
    machine.registry.commit = refuse  # type: ignore[method-assign]  # the one port whose faults can't be ordered
    body = AddOffsetsToTxnRequest(
        transactional_id=ID, producer_id=producer.producer_id, producer_epoch=producer.epoch, group_id="g"
    )
    assert machine.ask(ADD_OFFSETS, 4, body).error_code == COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(("id_ahead", "epochs_ahead"), [(0, 1), (1, 0)])
@pytest.mark.parametrize("is_open", [False, True])
def test_a_request_with_records_of_several_producers_writes_nothing(
    machine: Machine, *, is_open: bool, id_ahead: int, epochs_ahead: int
) -> None:
    producer = Transactional(machine)
    if is_open:
        assert producer.write() == NONE
    before = hidden(machine)
    batches = [
        build(
            None,
            [b"x"],
            machine.clock.now().wall_ms,
            producer_id=producer.producer_id + index * id_ahead,
            producer_epoch=producer.epoch + index * epochs_ahead,
            base_sequence=0,
            transactional=True,
        )
        for index in (0, 1)
    ]
    data = [ProduceRequest.PartitionProduceData(index=index, records=batch) for index, batch in enumerate(batches)]
    topics = [ProduceRequest.TopicProduceData(name="a", partition_data=data)]
    body = ProduceRequest(transactional_id=ID, acks=-1, timeout_ms=1000, topic_data=topics)
    answered = machine.ask(PRODUCE, 12, body).responses[0].partition_responses
    assert [part.error_code for part in answered] == [INVALID_PRODUCER_ID_MAPPING] * 2
    assert (hidden(machine), hidden(machine, index=1)) == (before, 0)


def test_nothing_is_kept_of_producers_that_no_coordinator_knows(machine: Machine) -> None:
    producer = Transactional(machine)
    for stranger in range(1_000, 1_050):
        producer.producer_id = stranger
        assert producer.write() == INVALID_PRODUCER_ID_MAPPING
    partition = machine.broker.partitions.get("a", 0)
    assert partition is not None
    assert not partition.log.producers.tokens
    assert not partition.log.producers.by_id


def test_markers_of_an_older_coordinator_are_refused(machine: Machine) -> None:
    producer = Transactional(machine)
    producer.write()

    def written(coordinator_epoch: int) -> int:
        topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic(name="a", partition_indexes=[0])
        marker = WriteTxnMarkersRequest.WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transaction_result=False,
            topics=[topic],
            coordinator_epoch=coordinator_epoch,
        )
        response = machine.ask(MARKERS, 1, WriteTxnMarkersRequest(markers=[marker]))
        code = response.markers[0].topics[0].partitions[0].error_code
        assert isinstance(code, int)
        return code

    assert written(7) == NONE
    assert hidden(machine) == 0
    assert written(6) == TRANSACTION_COORDINATOR_FENCED


@pytest.mark.parametrize(
    ("version", "raised", "error_code"),
    [(3, 0, INVALID_TXN_STATE), (5, 1, INVALID_PRODUCER_EPOCH)],
    ids=["of the same epoch", "of a newer epoch"],
)
def test_offsets_whose_transaction_ends_while_they_are_checked_are_refused(
    machine: Machine, version: int, raised: int, error_code: int
) -> None:
    """The coordinator knew their partition when it was asked, and the end of the transaction has been written there since."""
    producer = Transactional(machine)
    assert producer.commit_offset("g", 1) == NONE
    topic, index = "__consumer_offsets", partition_of("g", 3)
    now = machine.clock.now()
    machine.broker.receive(machine.frame_of(ADD_OFFSETS, 3, producer.add_request("another")), machine.peer, now)
    asked = machine.broker.receive(machine.frame_of(TXN_COMMIT, version, producer.commit_request("g", 2)), machine.peer, now)
    assert isinstance(asked, DelayedReply), "it waits for the coordinator, and that for the disk"
    code, _ = machine.broker.markers.append(topic, index, producer.producer_id, producer.epoch + raised, 0, now, committed=True)
    assert code == NONE
    machine.settle()
    machine.pass_time(100)
    assert producer.committed(machine.finish(TXN_COMMIT, version, asked)) == error_code
    assert hidden(machine, topic, index) == 0
    assert committed_offset(machine, "g") == 1


def test_a_partition_that_stays_offline_is_tried_ever_less_often_and_told_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    producer = Transactional(machine)
    assert producer.write("a", 0) == producer.write("a", 1) == NONE
    partition = machine.broker.partitions.get("a", 1)
    assert partition is not None
    tried: list[int] = []
    append = MarkerAppender.append

    def counted(writer: MarkerAppender, topic: str, index: int, *given: Any, **named: Any) -> Any:
        tried.append(index)
        return append(writer, topic, index, *given, **named)

    monkeypatch.setattr(MarkerAppender, "append", counted)
    monkeypatch.setattr(partition, "offline", "for a test")
    with caplog.at_level("WARNING", "ottla"):
        assert producer.end() == NONE
        for _ in range(600):
            machine.pass_time(100)
    assert tried.count(0) == 1
    assert 8 <= tried.count(1) <= 20, "in a minute"
    assert len([one for one in caplog.messages if "takes no end of the transaction" in one]) == 1
    monkeypatch.setattr(partition, "offline", None)
    for _ in range(100):
        machine.pass_time(100)
    assert partition.log.last_stable_offset == partition.log.log_end_offset
