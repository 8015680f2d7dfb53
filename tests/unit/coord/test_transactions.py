"""The machine of transactions: what it decides survives a restart, nothing ends twice, and whoever was fenced stays out."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coord.runtime.machine import Due, Input, Outcome
from ottla.coord.runtime.record_reader import RecordRows, UnreadableRecord
from ottla.coord.transactions import records
from ottla.coord.transactions.additions import Added, AddPartitions
from ottla.coord.transactions.descriptions import MOST_LISTED, without_ids
from ottla.coord.transactions.inputs import (
    Ended,
    EndTransaction,
    IdExpiryKey,
    ListedSome,
    ListSome,
    MarkersWritten,
    TimeoutsKey,
    TransactionSettings,
    WriteMarkers,
)
from ottla.coord.transactions.machine import MOST_AT_ONCE, TransactionMachine
from ottla.coord.transactions.records import TransactionReader, decode_record, encode_record
from ottla.coord.transactions.transaction import (
    LAST_EPOCH,
    Forgotten,
    Status,
    Stored,
    Transaction,
    with_opened,
)
from ottla.ports import Now
from ottla.wire import Unencodable
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.api.list_transactions import ListTransactionsRequest
from ottla.wire.errors import (
    CONCURRENT_TRANSACTIONS,
    INVALID_REGULAR_EXPRESSION,
    NONE,
    POLICY_VIOLATION,
    PRODUCER_FENCED,
)

PLACES = frozenset({("t", 0), ("t", 1)})
HOUR_MS = 3_600_000


class Coordinator:
    """A machine, and the records that it would have stored."""

    def __init__(self) -> None:
        self.ids = count(1_000)
        self.machine = self.new_machine()
        self.stored: list[tuple[bytes, bytes | None]] = []
        self.orders: list[WriteMarkers] = []
        self.ms = 1_000

    def new_machine(self) -> TransactionMachine:
        return TransactionMachine(TransactionSettings(), lambda: next(self.ids), lambda: self.machine.weight)

    def request(self, body: object) -> object:
        """The reply to an input, whose records take effect; None if there is none."""
        outcome: Outcome[Stored] = self.machine.decide(Input(body, token=1), Now(self.ms, self.ms))
        for record in outcome.records:
            self.stored.append(self.machine.encode(record))
            self.machine.apply(record)
        self.orders += [order for order in outcome.orders if isinstance(order, WriteMarkers)]
        return outcome.replies[0].message if outcome.replies else None

    def restart(self) -> None:
        """Lose all that is not stored."""
        self.machine = self.new_machine()
        for key, value in self.stored:
            record = decode_record(key, value)
            assert record is not None
            self.machine.apply(record)
        self.orders = [order for order in self.machine.recall(Now(self.ms, self.ms)).orders if isinstance(order, WriteMarkers)]

    def init(
        self, name: str = "a", producer_id: int = -1, producer_epoch: int = -1, *, keeps: bool = False
    ) -> InitProducerIdResponse:
        body = InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=60_000,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            keep_prepared_txn=keeps,
        )
        response = self.request(body)
        assert isinstance(response, InitProducerIdResponse)
        return response

    def carry_out(self) -> None:
        """Write all markers that were ordered."""
        orders, self.orders = self.orders, []
        for order in orders:
            self.request(MarkersWritten(order.transactional_id, order.producer_id, order.producer_epoch))


def test_what_was_decided_is_carried_out_after_a_restart() -> None:
    coordinator = Coordinator()
    known = coordinator.init()
    coordinator.request(AddPartitions("a", known.producer_id, 0, PLACES))
    assert coordinator.request(EndTransaction("a", known.producer_id, 0, committed=True)) == Ended(NONE, known.producer_id, 0)
    coordinator.restart()
    assert coordinator.orders == [WriteMarkers("a", known.producer_id, 0, True, PLACES, 0)]
    assert coordinator.init().error_code == CONCURRENT_TRANSACTIONS
    coordinator.carry_out()
    assert coordinator.machine.by_id["a"].status is Status.COMPLETE_COMMIT
    assert coordinator.init().producer_epoch == 1


def test_the_oldest_format_is_used_at_level_0_unless_a_client_uses_epochs() -> None:
    coordinator = Coordinator()
    coordinator.machine.configure(TransactionSettings(transaction_version=0))
    known = coordinator.init()
    coordinator.request(AddPartitions("a", known.producer_id, 0, PLACES))
    coordinator.request(EndTransaction("a", known.producer_id, 0, committed=True))
    coordinator.carry_out()
    coordinator.request(AddPartitions("a", known.producer_id, 0, PLACES, 2))
    coordinator.machine.configure(TransactionSettings(transaction_version=1))
    coordinator.init("b")
    formats = [value[1] for _, value in coordinator.stored if value is not None]
    assert formats == [0, 0, 0, 0, 1, 1]


def test_below_level_2_a_fenced_producer_does_not_recover() -> None:
    for level, error_code in ((2, NONE), (1, PRODUCER_FENCED)):
        coordinator = Coordinator()
        coordinator.machine.configure(TransactionSettings(transaction_version=level))
        known = coordinator.init()
        coordinator.request(AddPartitions("a", known.producer_id, 0, PLACES))
        assert coordinator.init().error_code == CONCURRENT_TRANSACTIONS
        coordinator.carry_out()
        assert coordinator.init("a", known.producer_id, 0).error_code == error_code


def test_markers_of_a_transaction_that_is_over_complete_nothing() -> None:
    coordinator = Coordinator()
    known = coordinator.init()
    coordinator.request(AddPartitions("a", known.producer_id, 0, PLACES, 2))
    coordinator.request(EndTransaction("a", known.producer_id, 0, committed=True, transaction_version=2))
    coordinator.carry_out()
    coordinator.request(AddPartitions("a", known.producer_id, 1, PLACES, 2))
    coordinator.request(EndTransaction("a", known.producer_id, 1, committed=False, transaction_version=2))
    coordinator.request(MarkersWritten("a", known.producer_id, 1))
    assert coordinator.machine.by_id["a"].status is Status.PREPARE_ABORT


def test_a_transaction_that_is_open_for_too_long_is_aborted_and_its_producer_fenced() -> None:
    coordinator = Coordinator()
    known = coordinator.init()
    coordinator.request(AddPartitions("a", known.producer_id, 0, PLACES))
    coordinator.ms += 60_000
    coordinator.request(Due(TimeoutsKey()))
    assert not coordinator.orders, "its time is just over"
    coordinator.ms += 1
    coordinator.request(Due(TimeoutsKey()))
    assert coordinator.orders == [WriteMarkers("a", known.producer_id, 1, False, PLACES, 2)]
    coordinator.carry_out()
    assert coordinator.request(AddPartitions("a", known.producer_id, 0, PLACES)) == Added(PRODUCER_FENCED)


def test_of_many_that_are_open_for_too_long_some_are_aborted_at_a_time() -> None:
    coordinator = Coordinator()
    for number in range(2 * MOST_AT_ONCE + 1):
        known = coordinator.init(f"t{number}")
        coordinator.request(AddPartitions(f"t{number}", known.producer_id, 0, PLACES))
    coordinator.ms += 60_001
    key, aborted = TimeoutsKey(), []
    for _ in range(3):
        outcome = coordinator.machine.decide(Input(Due(key)), Now(coordinator.ms, coordinator.ms))
        coordinator.request(Due(key))
        aborted.append(len(outcome.orders))
        (timer,) = outcome.timers
        assert isinstance(timer.key, TimeoutsKey)
        key = timer.key
    assert aborted == [MOST_AT_ONCE, MOST_AT_ONCE, 1]
    assert not coordinator.machine.ongoing
    assert key.at == 0, "the next look begins anew"


def test_an_id_that_nobody_uses_is_forgotten_unless_its_transaction_is_open() -> None:
    coordinator = Coordinator()
    for name in ("idle", "open"):
        known = coordinator.init(name)
    coordinator.request(AddPartitions("open", known.producer_id, 0, PLACES))
    coordinator.ms += 7 * 24 * HOUR_MS
    coordinator.request(Due(IdExpiryKey()))
    assert list(coordinator.machine.by_id) == ["open"]
    coordinator.restart()
    assert list(coordinator.machine.by_id) == ["open"]


def test_a_producer_whose_epochs_run_out_goes_on_with_a_new_id() -> None:
    coordinator = Coordinator()
    first = coordinator.init()
    known = coordinator.machine.by_id["a"]
    coordinator.machine.apply(known._replace(producer_epoch=LAST_EPOCH))
    ended = coordinator.request(EndTransaction("a", first.producer_id, LAST_EPOCH, committed=False, transaction_version=2))
    assert isinstance(ended, Ended)
    assert ended.error_code == NONE
    assert ended.producer_id != first.producer_id
    assert ended.producer_epoch == 0
    coordinator.carry_out()
    again = coordinator.request(EndTransaction("a", first.producer_id, LAST_EPOCH, committed=False, transaction_version=2))
    assert again == ended, "a retry of who has not heard of the new id"


def test_beyond_the_bound_new_ids_and_partitions_are_refused_until_others_expire(caplog: pytest.LogCaptureFixture) -> None:
    coordinator = Coordinator()
    limits = TransactionSettings(ottla_max_transactional_id_bytes=1_000_000, transactional_id_expiration_ms=HOUR_MS)
    coordinator.machine.configure(limits)
    codes = [coordinator.init(f"{number}{'x' * 30_000}").error_code for number in range(50)]
    assert codes == sorted(codes, key=(NONE, POLICY_VIOLATION).index)
    assert set(codes) == {NONE, POLICY_VIOLATION}
    assert coordinator.machine.weight <= 1_000_000
    assert {record.cause for record in caplog.records if hasattr(record, "cause")} == {"ottla.max.transactional.id.bytes"}
    known = coordinator.init(f"0{'x' * 30_000}")
    assert known.error_code == NONE, "it was there before"
    many = frozenset(("t", index) for index in range(10_000))
    adding = AddPartitions(f"0{'x' * 30_000}", known.producer_id, known.producer_epoch, many)
    assert coordinator.request(adding) == Added(POLICY_VIOLATION)
    coordinator.ms += 2 * HOUR_MS
    coordinator.request(Due(IdExpiryKey()))
    assert coordinator.machine.weight == 0
    assert coordinator.init("new").error_code == NONE


def test_of_many_states_of_an_id_the_last_is_read_alone_or_the_one_before_if_that_cannot_be() -> None:
    states = [Transaction(name, 7, epoch, 60_000, Status.EMPTY, 0) for epoch in range(3) for name in ("a", "b")]
    pairs = [encode_record(state, version=1) for state in states]
    pairs[5] = pairs[5][0], b"\0\x63"
    data, places = b"", []
    for key, value in pairs:
        assert value is not None
        places.append((len(data), len(key), len(data) + len(key), len(value)))
        data += key + value
    rows = RecordRows(data, range(len(places)), *(list(column) for column in zip(*places, strict=True)))
    read: list[int] = []

    def read_row(row: int) -> Stored | None:
        read.append(row)
        try:
            return reader.read(*rows.record(row))
        except UnreadableRecord:
            return None

    reader = TransactionReader()
    assert list(reader.read_all(rows, read_row)) == [states[4], states[3]]
    assert read == [4, 5, 3]


def listing(coordinator: Coordinator, **filters: object) -> tuple[list[str], int, int]:
    """The ids that are listed, the error code, and in how many steps."""
    part: ListSome | None = ListSome(ListTransactionsRequest(**filters))  # type: ignore[arg-type]  # names and types are those of the fields
    found: list[str] = []
    steps = error_code = 0
    while part is not None:
        listed = coordinator.request(part)
        assert isinstance(listed, ListedSome)
        found += [each.transactional_id for each in listed.response.transaction_states]
        part, steps, error_code = listed.following, steps + 1, listed.response.error_code
    return found, error_code, steps


def test_ids_are_listed_some_at_a_time() -> None:
    coordinator = Coordinator()
    names = [f"id-{number}" for number in range(3 * MOST_LISTED + 1)]
    for name in names:
        coordinator.init(name)
    assert listing(coordinator) == (names, NONE, 4)
    assert listing(coordinator, transactional_id_pattern="id-.?7") == (["id-7"] + [f"id-{tens}7" for tens in range(1, 10)], NONE, 4)
    assert listing(coordinator, state_filters=["Ongoing"]) == ([], NONE, 4)


@pytest.mark.slow
def test_a_pattern_that_is_dear_to_match_costs_no_step_more_than_its_share() -> None:
    coordinator = Coordinator()
    for number in range(300):
        coordinator.init(f"{'a' * 200}{number}")
    pattern = "(" + "|".join(f"(.*a){{20}}b{number}" for number in range(60)) + ")"
    found, error_code, steps = listing(coordinator, transactional_id_pattern=pattern)
    assert (found, error_code) == ([], NONE)
    assert steps > 1, "one that goes back and forth would never come to an end"


def test_a_pattern_is_one_of_re2_and_matches_whole_ids() -> None:
    coordinator = Coordinator()
    for name in ("ab", "abc"):
        coordinator.init(name)
    assert listing(coordinator, transactional_id_pattern="ab")[0] == ["ab"]
    assert listing(coordinator, transactional_id_pattern="")[0] == ["ab", "abc"]
    for illegal in ("(?=a)", "(a)\\1", "("):
        assert without_ids(ListTransactionsRequest(transactional_id_pattern=illegal)).error_code == INVALID_REGULAR_EXPRESSION


def has(status: Status, partitions: int = 0, *, version: int = 2, epoch: int = 5, **more: int) -> Transaction:
    """An id whose transaction has so many of two partitions."""
    places = frozenset(sorted(PLACES)[:partitions])
    return Transaction("a", 1, epoch, 60_000, status, 1, places, started_ms=1, transaction_version=version, **more)


@pytest.mark.parametrize(
    ("known", "is_open"),
    [
        (has(Status.EMPTY, version=0), True),
        (has(Status.COMPLETE_COMMIT), True),
        (has(Status.ONGOING, 1), True),
        (has(Status.PREPARE_COMMIT, 2), True),
        (has(Status.PREPARE_ABORT, 1), True),
        (has(Status.EMPTY, epoch=6), False),
        (has(Status.ONGOING, 2), False),
        (has(Status.PREPARE_COMMIT, 1, version=0), False),
        (has(Status.PREPARE_COMMIT, 1, epoch=6), False),
        (has(Status.ONGOING, 1, next_producer_id=1, next_producer_epoch=6), False),
        (has(Status.COMPLETE_COMMIT)._replace(producer_id=2), False),
    ],
)
def test_a_transaction_has_the_partitions_where_it_is_open_if_it_is_that_of_its_producer(known: Transaction, is_open: bool) -> None:
    found = with_opened(known, {(1, 5): PLACES}, 9)
    if not is_open:
        assert found is known
        return
    assert (found.status, found.partitions) == (Status.ONGOING, PLACES)
    assert (found.producer_id, found.producer_epoch, found.updated_ms) == (1, 5, 9)


def test_the_producer_id_that_follows_shows_that_the_one_before_is_done_with() -> None:
    ending = has(Status.PREPARE_COMMIT, 2, epoch=LAST_EPOCH + 1, next_producer_id=7)
    found = with_opened(ending, {(7, 0): frozenset({("t", 1)})}, 9)
    assert (found.status, found.partitions) == (Status.ONGOING, frozenset({("t", 1)}))
    assert (found.producer_id, found.producer_epoch) == (7, 0)
    assert with_opened(ending, {(1, LAST_EPOCH): PLACES}, 9) is ending


@given(
    name=st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200),
    places=st.frozensets(st.tuples(st.text(alphabet="abc.ü", min_size=1, max_size=70), st.integers(0, 2**31 - 1)), max_size=200),
    status=st.sampled_from(Status),
    version=st.integers(0, 2),
    before=st.integers(-1, 2**63 - 1),
    following=st.integers(-1, 1),
)
def test_a_packed_record_is_the_declared_one(
    name: str, places: frozenset[tuple[str, int]], status: Status, version: int, before: int, following: int
) -> None:
    known = Transaction(name, 2**62, 7, 60_000, status, 5, places, 4, before, following, transaction_version=version)
    key, value = encode_record(known, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "_pack", lambda record: None)
        patch.setattr(records, "_key", lambda name: None)
        assert encode_record(known, 1) == (key, value)
    assert decode_record(key, value) == known._replace(partitions=frozenset() if status is Status.EMPTY else places)


@pytest.mark.parametrize("name", ["a" * 32_767, "a" * 32_768, "\ud800"])
def test_an_id_that_has_no_room_in_a_key_is_refused(name: str) -> None:
    if len(name) == 32_767:
        assert len(encode_record(Forgotten(name), 1)[0]) == 32_771
        return
    with pytest.raises(Unencodable):
        encode_record(Forgotten(name), 1)
