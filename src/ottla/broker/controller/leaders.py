"""Leader elections for partitions without a leader or with offline replicas: written to the registry, then sent to brokers.

Works within one controller term.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable

from ottla.broker.controller.partition_walk import chosen, each
from ottla.broker.controller.term import ControllerTerm
from ottla.broker.releases.interbroker_versions import Switch
from ottla.cluster.controller_rules import elections
from ottla.cluster.controller_rules.context import ControllerContext, LeaderAndIsr, TopicPartition
from ottla.ports import Steps

log = logging.getLogger("ottla.broker")

UNCLEAN = "unclean.leader.election.enable"


class LeaderChanges:
    """Leader and ISR changes of one term. Methods queue requests in the term's `requests`, and the caller sends them."""

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
        """Queue LeaderAndIsr requests for the replicas of these partitions, and metadata for all brokers."""
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
