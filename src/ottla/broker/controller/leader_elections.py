"""Leader elections on request: by ElectLeaders, by tools before 2.2 through the registry, and by the timer, within one term."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from ottla.broker.controller.leaders import LeaderChanges
from ottla.broker.controller.partition_walk import chosen, in_pieces
from ottla.broker.controller.term import ControllerTerm
from ottla.broker.failures import CONFLICTS
from ottla.cluster.controller_rules import elections, reassignments
from ottla.cluster.controller_rules.context import TopicPartition
from ottla.cluster.controller_rules.reassignments import PREFERRED_ELECTIONS, Fault
from ottla.ports import Change, Steps
from ottla.wire.errors import (
    ELECTION_NOT_NEEDED,
    ELIGIBLE_LEADERS_NOT_AVAILABLE,
    ERRORS,
    INVALID_TOPIC_EXCEPTION,
    NONE,
    PREFERRED_LEADER_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
)

log = logging.getLogger("ottla.broker")

NOT_NEEDED = "Leader election not needed for topic partition."


class RequestedElections:
    """Leader elections for operators, tools and the leader imbalance check. `changed` watches the entry that tools write."""

    def __init__(self, term: ControllerTerm, leaders: LeaderChanges, changed: Callable[[str], None]) -> None:
        self._term = term
        self._context = term.context
        self._leaders = leaders
        self._changed = changed

    def elect(self, partitions: Iterable[TopicPartition] | None, *, is_unclean: bool) -> Steps[dict[TopicPartition, Fault]]:
        """Elect the preferred leaders of these partitions, or of all partitions if None.

        With `is_unclean`, elect any replica of each partition that has no leader. Return an error code and a message per
        partition; the code is NONE if the leader changed.
        """
        asked = self._context.partitions() if partitions is None else partitions
        found = dict[TopicPartition, Fault | None]()
        for some in in_pieces(asked):
            found.update((one, self._refusal(one, is_unclean=is_unclean)) for one in some)
            yield None
        wanted = [one for one, fault in found.items() if fault is None]
        if is_unclean:
            yield from self._leaders.elect(wanted, is_unclean=True)
            led = set((yield from chosen(wanted, lambda one: not self._context.needs_leader(one))))
        else:
            changed = yield from self._term.states.change(wanted, elections.preferred_leader)
            yield from self._leaders.announce(changed)
            led = set(changed)
        yield from self._term.send()
        code = ELIGIBLE_LEADERS_NOT_AVAILABLE if is_unclean else PREFERRED_LEADER_NOT_AVAILABLE
        missed: Fault = code, ERRORS[code].sentence
        return {one: fault or ((NONE, "") if one in led else missed) for one, fault in found.items()}

    def _refusal(self, partition: TopicPartition, *, is_unclean: bool) -> Fault | None:
        replicas, state = self._context.assignment(partition).replicas, self._context.leaders.get(partition)
        if partition[0] not in self._context.topics:
            return UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {partition[0]}: refresh the metadata."
        if not replicas:
            return UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {partition[0]}-{partition[1]}: refresh the metadata."
        if partition[0] in self._term.deletions:
            return INVALID_TOPIC_EXCEPTION, "The topic is being deleted."
        if is_unclean and self._context.needs_leader(partition):
            return None
        if not is_unclean and (state is None or state.leader != replicas[0]):
            return None if state is not None else (PREFERRED_LEADER_NOT_AVAILABLE, "The partition never had a leader.")
        return ELECTION_NOT_NEEDED, NOT_NEEDED

    def balance(self) -> Steps[None]:
        """Elect preferred leaders for brokers above `leader.imbalance.per.broker.percentage`."""
        percentage = self._term.settings.leader_imbalance_per_broker_percentage
        moving, deletions = self._context.reassigning, self._term.deletions
        there = yield from chosen(self._context.partitions(), lambda one: one not in moving and one[0] not in deletions)
        missed = yield from reassignments.imbalanced(self._context, there, percentage)
        yield from self._release(missed, "leaders were out of balance")

    def written(self) -> Steps[None]:
        """Run the preferred elections that a tool wrote to the registry, remove the entry, and watch it again."""
        value = yield from self._term.reader.value(PREFERRED_ELECTIONS, self._changed)
        if value is None:
            return
        try:
            yield from self._release(reassignments.elections_wanted(value), "a tool requested it")
        except ValueError as error:
            log.error("the registry's entry %s cannot be parsed (%s), and is removed", PREFERRED_ELECTIONS, error)
        try:
            yield from self._term.commit([Change(PREFERRED_ELECTIONS, None)])
        except CONFLICTS:
            log.info("a tool cancelled the election of preferred leaders")
        yield from self._term.reader.value(PREFERRED_ELECTIONS, self._changed)

    def _release(self, partitions: Sequence[TopicPartition], why: str) -> Steps[None]:
        found = yield from self.elect(partitions, is_unclean=False)
        given = sum(code == NONE for code, _ in found.values())
        if given:
            log.info("%d partitions are led by their first replicas again: %s", given, why)
