"""Mistakes planted into transactions are found by their simulation, under the name of what is not true any more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from ottla.broker.coordination import markers
from ottla.broker.coordination.coordinators import PartitionLog
from ottla.broker.coordination.guard import ADDS_FROM, Admission, TransactionGuard
from ottla.broker.coordination.markers import MarkerAppender, TransactionMarkers
from ottla.broker.partitions.partition import Partition
from ottla.coord import offsets
from ottla.coord.classic.group import ClassicGroup
from ottla.coord.consumer.group import ConsumerGroup
from ottla.coord.offsets import Offsets
from ottla.coord.records import OffsetPending
from ottla.coord.runtime.machine import Outcome, Timer
from ottla.coord.transactions import machine, producers
from ottla.coord.transactions.inputs import EndTransaction, TimeoutsKey
from ottla.coord.transactions.machine import TransactionMachine
from ottla.coord.transactions.transaction import Transaction
from ottla.log.cleaner.offset_map import OffsetMap
from ottla.log.log import Log
from ottla.log.producer_state.producers import Producers
from ottla.ports import Now
from ottla.sim.clock import EPOCH_MS
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.errors import NONE, PRODUCER_FENCED
from tests.sim import transactions
from tests.support.kinds import one_of_each
from tests.support.planted import Mistake, found

MOST_SEEDS = 40

APPEND = MarkerAppender.append
LEADER_OF = TransactionMarkers._leader_of
MARKER = markers.marker
WHEN_DURABLE = PartitionLog.when_durable
MEMBERSHIP = machine._membership_error
PREPARED = Transaction.prepare
ADMIT = TransactionGuard.admit
OFFSETS_APPLY = Offsets.apply
INIT = TransactionMachine._init_producer
RETAIN = OffsetMap.retain
END = TransactionMachine._end


def lose_a_marker(writer: MarkerAppender, topic: str, index: int, producer_id: int, *rest: Any, **more: Any) -> Any:
    if topic != "__consumer_offsets" and index == 1:
        return NONE, writer._partitions.get(topic, index)
    return APPEND(writer, topic, index, producer_id, *rest, **more)


def commit_what_is_aborted(*args: Any, committed: bool) -> bytearray:
    return MARKER(*args, committed=True)


def carry_orders_out_at_once(own: PartitionLog, told: Any) -> None:
    """Carry them out, and sync the markers before the end: otherwise few power cuts come between the two."""
    if told.func.__name__ == "_execute_orders":
        told(NONE)
        wanted = cast("Any", own._partition._want_sync).__self__._wanted
        if own._partition in wanted:
            wanted[own._partition] = wanted.pop(own._partition)
    else:
        WHEN_DURABLE(own, told)


def any_epoch(known: Transaction | None, body: Any) -> int:
    code = MEMBERSHIP(known, body)
    return NONE if code == PRODUCER_FENCED else code


def one_epoch_for_all(known: Transaction, *, transaction_version: int, **rest: Any) -> Transaction:
    return PREPARED(known, transaction_version=0, **rest)


def count_pending(own: Offsets, record: Any) -> None:
    OFFSETS_APPLY(own, record.offset if isinstance(record, OffsetPending) else record)


class OpenAdmission(Admission):
    """One that has nothing against anything."""

    def error_of(self, partition: Any, header: Any) -> int:
        return NONE


def admit_older(own: TransactionGuard, request: Any, parts: Any) -> Any:
    if request.version < ADDS_FROM:
        return OpenAdmission()
    return (yield from ADMIT(own, request, parts))


def keep_nothing(own: TransactionMachine, asked: Any, now: Any) -> Outcome[Any]:
    return INIT(own, replace(asked, body=replace(asked.body, keep_prepared_txn=False)), now)


def take_for_synced(partition: Partition, failure: Any) -> None:
    partition.record_sync(partition.log.log_end_offset, Now(0, 0))


def wait_for_what_is_gone(markers: TransactionMarkers, place: Any) -> int:
    leader = LEADER_OF(markers, place)
    return -1 if leader is None else leader


def end_by_level(own: TransactionMachine, asked: Any, now: Any) -> Outcome[Any]:
    version = min(asked.body.transaction_version, own.settings.transaction_version)
    return END(own, replace(asked, body=replace(asked.body, transaction_version=version)), now)


def retain_too_few(own: OffsetMap, *args: Any, **more: Any) -> tuple[int, int, int]:
    kept, tombstones, newest = RETAIN(own, *args, **more)
    return max(0, kept - 1), tombstones, newest


def look_by_the_wall_clock(own: TransactionMachine, now: Any) -> Timer:
    interval_ms = own.settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
    return Timer(TimeoutsKey(), max(now.mono_ms + 1, now.wall_ms - EPOCH_MS + interval_ms))


def newest_open(producers: Producers) -> int | None:
    return max(producers.open_transactions.values(), default=None)


def time_nothing_out(own: TransactionMachine, key: Any, now: Any) -> Outcome[Any]:
    return Outcome(timers=(own._next_timeouts(now),))


def recall_nothing(own: TransactionMachine, now: Any) -> Outcome[Any]:
    return Outcome(timers=(own._next_timeouts(now), own._next_expiry(now)))


def tell_at_once(partition: Partition, end: int, call: Callable[[int], None]) -> None:
    call(NONE)


def obey_producers(kind: type[ConsumerGroup] | type[ClassicGroup]) -> Callable[[Any, Any], int]:
    right: Callable[[Any, Any], int] = kind.commit_error
    return lambda group, commit: NONE if commit.is_transactional else right(group, commit)


KEEPING_NOTHING = {**machine._DECISIONS, InitProducerIdRequest: keep_nothing}
BY_LEVEL = {**machine._DECISIONS, EndTransaction: end_by_level}


MISTAKES = {
    "loses a marker": Mistake("nothing hangs", MarkerAppender, "append", lose_a_marker),
    "commits what is aborted": Mistake("only what is committed", markers, "marker", commit_what_is_aborted),
    "writes markers before the end is kept": Mistake(
        "whole or not at all", PartitionLog, "when_durable", carry_orders_out_at_once, 200
    ),
    "adds partitions for any epoch": Mistake("fenced for good", machine, "_membership_error", any_epoch, 4),
    "gives all transactions one epoch": Mistake("soon done", Transaction, "prepare", one_epoch_for_all, 4),
    "times nothing out": Mistake("ended in time", TransactionMachine, "_time_out", time_nothing_out),
    "counts offsets before the marker": Mistake("only what is committed", Offsets, "apply", count_pending),
    "takes late batches": Mistake("nothing hangs", TransactionGuard, "admit", admit_older),
    "forgets at a start what was about to end": Mistake("ended in time", TransactionMachine, "recall", recall_nothing, 1),
    "names no aborted transactions": Mistake("only what is committed", Log, "aborted_transactions", lambda *args: []),
    "looks at the newest open transaction": Mistake("only what is committed", Producers, "first_unstable_offset", newest_open),
    "answers before the sync": Mistake("nothing hangs", Partition, "when_synced", tell_at_once, 1),
    "fences nobody": Mistake("nothing comes late", Transaction, "fence", lambda known, version: known, 4),
    "obeys members of the past": Mistake("stable for good", ConsumerGroup, "commit_error", obey_producers(ConsumerGroup), 6),
    "keeps nothing for an outside coordinator": Mistake("prepared stays", machine, "_DECISIONS", KEEPING_NOTHING, 2),
    "ends what is prepared when its time is over": Mistake(
        "prepared stays", producers, "timeout_of", lambda body: body.transaction_timeout_ms, 2
    ),
    "takes a failed sync for a good one": Mistake("nothing hangs", Partition, "fail", take_for_synced, 808),
    "waits for topics that are gone": Mistake("ended in time", TransactionMarkers, "_leader_of", wait_for_what_is_gone, 10),
    "gives epochs only where the level says so": Mistake("prepared stays", machine, "_DECISIONS", BY_LEVEL, 39),
    "looks for what is overdue by the wall clock": Mistake(
        "ended in time", TransactionMachine, "_next_timeouts", look_by_the_wall_clock, 4
    ),
    "compacts the last record of a batch away": Mistake("nothing hangs", OffsetMap, "retain", retain_too_few),
    "obeys classic members of the past": Mistake("stable for good", ClassicGroup, "commit_error", obey_producers(ClassicGroup), 6),
    "tells unstable offsets": Mistake("once each", offsets, "_withhold", lambda *args: None, 6),
}


@pytest.mark.parametrize("mistake", one_of_each(MISTAKES, "answers before the sync", "commits what is aborted", seconds=15))
def test_a_mistake_is_found_and_named(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, owner, attribute, wrong, first = MISTAKES[mistake]
    monkeypatch.setattr(owner, attribute, wrong)
    assert name in found(name, transactions.live, range(first, first + MOST_SEEDS))
