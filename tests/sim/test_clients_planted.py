"""Mistakes planted into the clients are found by their simulation, under the name of what is not true any more."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.consumer import fetcher
from ottla.client.consumer.cursor import Progress
from ottla.client.consumer.membership import Membership
from ottla.client.consumer.visible_batches import visible
from ottla.client.producer.accumulator import PendingBatch
from ottla.client.producer.partition_queue import NO_SEQUENCE, Lane, Outgoing
from ottla.client.producer.sender import Sender
from ottla.client.producer.transactions import ProducerTransactions
from ottla.client.types import OffsetAndMetadata
from ottla.net.client.consumer.fetch_driver import FetchDriver
from ottla.net.client.consumer.membership_driver import MembershipDriver
from ottla.net.client.producer.delivery_callbacks import AwaitedCallbacks
from ottla.net.client.producer.produce_driver import ProduceDriver
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
ON_DONE = ProduceDriver._on_done
ERROR = Membership._on_error


def number_anew(lane: Lane, batch: Outgoing, not_before_ms: int) -> None:
    batch.sequence = NO_SEQUENCE
    REPEAT(lane, batch, not_before_ms)


def take_silence_for_success(sender: Sender, send: Any, error: Any, now_ms: int, **more: Any) -> None:
    sender._requests[send.node_id] -= 1
    for batch in send.batches:
        if not batch.done:
            sender._finish(batch, base_offset=0)


def requeue_newest_first(lane: Lane) -> None:
    if not lane.under_way:
        lane.queue.extendleft(sorted(lane.returned, key=lambda batch: batch.place))
        lane.returned.clear()
        if lane.resetting:
            lane.restart()


def count_from_one(batch: PendingBatch, index: int) -> Any:
    found = OUTCOME(batch, index)
    return found._replace(offset=found.offset + 1)


def call_twice(callbacks: AwaitedCallbacks, delivery: Any, on_delivery: Any) -> None:
    ADD(callbacks, delivery, on_delivery)
    ADD(callbacks, delivery, on_delivery)


def purge_what_was_sent(lane: Lane) -> list[Outgoing]:
    unsent = [*lane.queue, *lane.returned]
    lane.queue.clear()
    lane.returned.clear()
    return unsent


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


def join_with_all(machine: Membership, now_ms: int) -> Any:
    machine._rejoin = False
    return machine._join()


def stay_out(machine: Membership, code: int, now_ms: int) -> None:
    ERROR(machine, code, now_ms)
    machine._not_before_ms = 1 << 60


def pump_again_at_once(driver: FetchDriver, error: Any) -> None:
    driver._tasks.soon(lambda: pump_again_at_once(driver, error))


MISTAKES = {
    "numbers repeated batches anew": Mistake("none doubled", Lane, "repeat", number_anew),
    "takes silence for success": Mistake("acknowledged stays", Sender, "broken", take_silence_for_success),
    "repeats the newest first": Mistake("order", Lane, "requeue_returned", requeue_newest_first),
    "counts offsets from one": Mistake("acknowledged stays", PendingBatch, "outcome", count_from_one),
    "calls callbacks twice": Mistake("told once", AwaitedCallbacks, "add", call_twice),
    "purges what was sent": Mistake("told once", Lane, "pop_unsent", purge_what_was_sent),
    "commits what is fetched": Mistake("commits are earned", Progress, "positions", commit_what_is_fetched),
    "shows aborted records": Mistake("no gaps", fetcher, "visible", show_aborted),
    "commits always": Mistake("whole or not at all", ProducerTransactions, "end_request", commit_always),
    "opens the newest chunk": Mistake("no gaps", Progress, "begin", open_the_newest),
    "reads on what it gave back": Mistake("one owner", MembershipDriver, "_give_up", keep_reading),
    "joins with all its partitions": Mistake("one owner", Membership, "_next_out", join_with_all),
    "stays out after an error": Mistake("progress once quiet", Membership, "_on_error", stay_out),
    "forgets what it lost": Mistake("exactly once", Progress, "remove", Progress.drop),
    "asks without a pause": Mistake("no busy loop", FetchDriver, "_fail", pump_again_at_once),
}


@pytest.mark.parametrize("mistake", one_of_each(MISTAKES, "counts offsets from one", "calls callbacks twice", seconds=15))
def test_a_mistake_is_found_and_named(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, owner, attribute, wrong, first = MISTAKES[mistake]
    monkeypatch.setattr(owner, attribute, wrong)
    assert name in found(name, clients.live, range(first, first + MOST_SEEDS))
