"""Mistakes planted into the clients are found by their simulation, under the name of what is not true any more."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from ottla.client.consumer import fetcher
from ottla.client.consumer.cursor import Progress
from ottla.client.consumer.membership import Assign, Idle, Membership, Phase
from ottla.client.consumer.visible_batches import visible
from ottla.client.errors import KafkaError
from ottla.client.producer.accumulator import PendingBatch
from ottla.client.producer.partition_queue import NO_SEQUENCE, Lane, Outgoing
from ottla.client.producer.sender import Sender
from ottla.client.producer.transactions import ProducerTransactions
from ottla.client.types import OffsetAndMetadata
from ottla.net.client.consumer.membership_driver import MembershipDriver
from ottla.net.client.producer.delivery_callbacks import AwaitedCallbacks
from tests.sim import clients
from tests.support.kinds import one_of_each
from tests.support.planted import Mistake, found

MOST_SEEDS = 40

REPEAT = Lane.repeat
OUTCOME = PendingBatch.outcome
POSITIONS = Progress.positions
VISIBLE = visible
END = ProducerTransactions.end_request
ADD = AwaitedCallbacks.add
ADD_BATCH = Sender.add
ERROR = Membership._on_error


def number_anew(lane: Lane, batch: Outgoing, not_before_ms: int) -> None:
    batch.sequence = NO_SEQUENCE
    REPEAT(lane, batch, not_before_ms)


def take_silence_for_success(sender: Sender, send: Any, error: Any, now_ms: int, **more: Any) -> None:
    sender._requests[send.node_id] -= 1
    for batch in send.batches:
        if not batch.done:
            sender._finish(batch, base_offset=0)


def put_in_front(sender: Sender, batch: Outgoing) -> None:
    ADD_BATCH(sender, batch)
    queue = sender._lanes[batch.where].queue
    queue.rotate(1)


def count_from_one(batch: PendingBatch, index: int) -> Any:
    found = OUTCOME(batch, index)
    return found._replace(offset=found.offset + 1)


def call_twice(callbacks: AwaitedCallbacks, delivery: Any, on_delivery: Any) -> None:
    ADD(callbacks, delivery, on_delivery)
    ADD(callbacks, delivery, on_delivery)


def report_no_failures(callbacks: AwaitedCallbacks, delivery: Any, on_delivery: Any) -> None:
    def call_if_written(done: Any) -> None:
        with suppress(KafkaError):
            done.result(0)
            on_delivery(done)

    ADD(callbacks, delivery, call_if_written)


def commit_what_is_fetched(progress: Progress) -> Any:
    readings = progress._fetcher
    ahead = {where: readings.state_of(where).fetch_offset for where in readings.partitions}
    return POSITIONS(progress) | {where: OffsetAndMetadata(offset) for where, offset in ahead.items() if offset >= 0}


def show_aborted(records: Any, aborted: Any, **more: Any) -> Any:
    return VISIBLE(records, (), **more)


def commit_always(machine: ProducerTransactions) -> Any:
    request = END(machine)
    if request is not None:
        request.committed = True
    return request


def open_the_newest(progress: Progress, chunk: Any) -> Any:
    progress._cursors.append(progress._open_cursor(chunk))
    return progress._cursors[-1]


async def keep_reading(driver: MembershipDriver, partitions: Any) -> None:
    """Let the group have what is read on."""


def keep_all(machine: Membership, now_ms: int) -> Any:
    """Read what is assigned beside what was assigned before, without giving that up."""
    return Assign([where for where in machine._target if where not in machine.owned])


def stay_out(machine: Membership, code: int, now_ms: int) -> None:
    ERROR(machine, code, now_ms)
    machine._not_before_ms = 1 << 60


def idle_for_no_time(machine: Membership, now_ms: int) -> Any:
    return machine.heartbeat() if now_ms >= machine._heartbeat_ms else Idle(now_ms)


MISTAKES = {
    "numbers repeated batches anew": Mistake("none doubled", Lane, "repeat", number_anew),
    "takes silence for success": Mistake("acknowledged stays", Sender, "broken", take_silence_for_success),
    "sends the newest batch first": Mistake("order", Sender, "add", put_in_front),
    "counts offsets from one": Mistake("acknowledged stays", PendingBatch, "outcome", count_from_one),
    "calls callbacks twice": Mistake("told once", AwaitedCallbacks, "add", call_twice),
    "reports no failures": Mistake("told once", AwaitedCallbacks, "add", report_no_failures, 2),
    "commits what is fetched": Mistake("commits are earned", Progress, "positions", commit_what_is_fetched, 2),
    "shows aborted records": Mistake("no gaps", fetcher, "visible", show_aborted, 12),
    "commits always": Mistake("whole or not at all", ProducerTransactions, "end_request", commit_always, 42),
    "opens the newest chunk": Mistake("no gaps", Progress, "begin", open_the_newest, 12),
    "reads on what it gave back": Mistake("one owner", MembershipDriver, "_give_up", keep_reading, 1),
    "keeps what it was to give up": Mistake("one owner", Membership, "_STEPS", {**Membership._STEPS, Phase.ADOPT: keep_all}, 12),
    "stays out after an error": Mistake("progress once quiet", Membership, "_on_error", stay_out, 1),
    "forgets what it lost": Mistake("exactly once", Progress, "remove", Progress.drop, 24),
    "waits for no time": Mistake("no busy loop", Membership, "_STEPS", {**Membership._STEPS, Phase.STABLE: idle_for_no_time}, 1),
}


@pytest.mark.parametrize("mistake", one_of_each(MISTAKES, "counts offsets from one", "calls callbacks twice", seconds=15))
def test_a_mistake_is_found_and_named(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, owner, attribute, wrong, first = MISTAKES[mistake]
    monkeypatch.setattr(owner, attribute, wrong)
    assert name in found(name, clients.live, range(first, first + MOST_SEEDS))
