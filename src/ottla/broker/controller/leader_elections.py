"""Leader elections: for partitions without a leader or with offline replicas, by request, and by the timer, within one term.

Requests come as ElectLeaders, or from tools before 2.2 through the registry. Results are written to the registry, then sent to
brokers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Sequence

from ottla.broker.controller.partition_walk import chosen, each, in_pieces
from ottla.broker.controller.term import ControllerTerm
from ottla.broker.failures import CONFLICTS
from ottla.broker.releases.interbroker_versions import Switch
from ottla.cluster.controller_rules import elections, reassignments
from ottla.cluster.controller_rules.context import ControllerContext, LeaderAndIsr, TopicPartition
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

UNCLEAN = "unclean.leader.election.enable"


class LeaderChanges:
    """The controller's changes of leaders and ISRs, during one controller epoch.

    The methods only queue requests to brokers in the `requests` of the term. The caller sends them.
    """

    def __init__(self, term: ControllerTerm) -> None:
        self._term = term
        self._context = term.context

    def elect(self, partitions: Iterable[TopicPartition], *, is_unclean: bool = False) -> Steps[list[TopicPartition]]:
        """Elect leaders for partitions without one, remove offline replicas from the ISR, and return the changed partitions.

        Partitions under deletion are skipped. With `is_unclean`, a replica outside the ISR can win, regardless of the topic's
        setting.
        """
        leaders = self._context.leaders
        wanted = yield from chosen(partitions, lambda one: self._needs_leader(one) and not self._context.is_well(one))
        new = set((yield from chosen(wanted, lambda one: one not in leaders)))
        unclean = {name for name, _ in wanted} if is_unclean else (yield from self._unclean_topics(wanted))
        tells_recovery = self._term.protocol.has(Switch.LEADER_RECOVERY)

        def choose(context: ControllerContext, one: TopicPartition) -> LeaderAndIsr | None:
            if one not in context.leaders:
                return elections.first_leader(context, one)
            elected = None
            if context.needs_leader(one):
                may = one[0] in unclean
                elected = elections.offline_leader(context, one, is_unclean=may, tells_recovery=tells_recovery)
            return elected or elections.without_offline(context, one)

        changed = yield from self._term.states.change(wanted, choose)
        yield from self.announce(changed, new)
        leaderless = yield from chosen(wanted, self._context.needs_leader)
        if leaderless:
            log.warning("%d partitions have no leader: none of their replicas in sync is online", len(leaderless))
        return changed

    def announce(self, changed: Iterable[TopicPartition], new: Container[TopicPartition] = ()) -> Steps[None]:
        """Queue LeaderAndIsr requests to the replicas of the partitions `changed`, and UpdateMetadata requests to all brokers."""
        requests, context = self._term.requests, self._context
        return each(changed, lambda one: requests.lead(context.assignment(one).replicas, one, is_new=one in new))

    def announce_to_replicas(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """Queue LeaderAndIsr requests for these partitions, without metadata, which all brokers have.

        Skip partitions under deletion.
        """
        requests, context = self._term.requests, self._context
        there = yield from chosen(partitions, self.has_led)
        yield from each(there, lambda one: requests.lead(context.assignment(one).replicas, one, is_known=True))

    def has_led(self, partition: TopicPartition) -> bool:
        """Return whether a partition has, or had, a leader and is not being deleted."""
        return partition in self._context.leaders and self._needs_leader(partition)

    def _needs_leader(self, partition: TopicPartition) -> bool:
        """Return whether a partition needs a leader: it is not under deletion, or its reassignment must complete first."""
        return partition[0] not in self._term.deletions or partition in self._context.reassigning

    def without_leader(self) -> Steps[list[TopicPartition]]:
        """Return the partitions without a leader, except partitions of topics under deletion."""
        context = self._context
        return chosen(context.partitions(), lambda one: self._needs_leader(one) and context.needs_leader(one))

    def _unclean_topics(self, partitions: Iterable[TopicPartition]) -> Steps[set[str]]:
        """Return the topics that have a partition without online in-sync replicas and permit unclean leader election."""
        context = self._context
        stuck = yield from chosen(partitions, lambda one: one in context.leaders and self._is_stuck(one))
        asked = {name for name, _ in stuck}
        if not asked:
            return asked
        configs = yield from self._term.reader.configs(sorted(asked))
        default = str(self._term.settings.unclean_leader_election_enable)
        return {name for name in asked if configs.get(name, {}).get(UNCLEAN, default).strip().lower() == "true"}

    def _is_stuck(self, partition: TopicPartition) -> bool:
        context = self._context
        return context.needs_leader(partition) and not set(context.online(partition)) & set(context.leaders[partition].isr)


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
        missed = yield from reassignments.find_imbalanced(self._context, there, percentage)
        yield from self._release(missed, "leaders were out of balance")

    def process_requested(self) -> Steps[None]:
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
