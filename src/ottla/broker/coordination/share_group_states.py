"""The states of share partitions as group coordinators and their requests use them, through the persister.

It executes the coordinators' orders, and passes the results back to them. The rules are in `ottla.coord.share`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.coordination.coordinators import wait_for_answer
from ottla.broker.coordination.groups import GroupCoordinators
from ottla.broker.coordination.share_states import SharePersister
from ottla.broker.scheduler import Scheduler
from ottla.coord.runtime.shard import Shard
from ottla.coord.share_state.inputs import DeleteState, InitializeState, ReadState, StateResult
from ottla.ports import Steps
from ottla.wire.errors import error_name

if TYPE_CHECKING:
    from ottla.coord.group_machine import GroupMachine
    from ottla.coord.share.events import DeleteShares, InitializeShares, StatePlace

log = logging.getLogger("ottla.broker")


class ShareGroupStates:
    """The states of the share partitions of groups whose coordinators are on this broker."""

    def __init__(self, groups: GroupCoordinators, persister: SharePersister, scheduler: Scheduler) -> None:
        self._persister = persister
        self._scheduler = scheduler
        groups.carry_out |= {"InitializeShares": self._execute_initialization, "DeleteShares": self._execute_deletion}

    def initialize(self, group_id: str, state_epoch: int, places: Sequence[StatePlace]) -> Steps[Sequence[StateResult]]:
        """Initialize states, and return one result for each place."""
        return wait_for_answer(partial(self._persister.initialize, group_id, _initial_states(state_epoch, places)))

    def delete(self, group_id: str, places: Sequence[StatePlace]) -> Steps[Sequence[StateResult]]:
        """Delete states, and return one result for each place."""
        return wait_for_answer(partial(self._persister.delete, group_id, _without_offsets(places)))

    def read_summary(self, group_id: str, places: Sequence[StatePlace]) -> Steps[Sequence[StateResult]]:
        """Return the start offset of each place, or an error."""
        wanted = [ReadState(place.topic_id, place.partition, -1) for place in places]
        return wait_for_answer(partial(self._persister.read_summary, group_id, wanted))

    def _execute_initialization(self, shard: Shard[GroupMachine], order: InitializeShares) -> None:
        done = partial(self._end_initialization, shard, order)
        self._persister.initialize(order.group_id, _initial_states(order.state_epoch, order.places), done)

    def _end_initialization(self, shard: Shard[GroupMachine], order: InitializeShares, results: Sequence[StateResult]) -> None:
        from ottla.coord.share.events import SharesInitialized

        codes = tuple(result.error_code for result in results)
        shard.submit(SharesInitialized(order.group_id, order.places, codes), self._scheduler.now())

    def _execute_deletion(self, shard: Shard[GroupMachine], order: DeleteShares) -> None:
        self._persister.delete(order.group_id, _without_offsets(order.places), partial(_report, order.group_id))


def _initial_states(state_epoch: int, places: Sequence[StatePlace]) -> list[InitializeState]:
    return [InitializeState(place.topic_id, place.partition, state_epoch, place.start_offset) for place in places]


def _without_offsets(places: Sequence[StatePlace]) -> list[DeleteState]:
    return [DeleteState(place.topic_id, place.partition) for place in places]


def _report(group_id: str, results: Sequence[StateResult]) -> None:
    errors = [result.error_code for result in results if result.error_code]
    if errors:
        sentence = "group %s, which no longer exists: the state of %d share partitions could not be deleted (%s)"
        log.warning(sentence, group_id, len(errors), error_name(errors[0]), extra={"cause": "share state", "most": 3})
