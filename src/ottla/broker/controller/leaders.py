"""Partitions without a leader, or with replicas that are gone: elections, written, then told. Knows one term of the controller."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable

from ottla.broker.controller.term import ControllerTerm
from ottla.broker.interbroker.versions import Switch
from ottla.broker.scheduler import Steps
from ottla.cluster.controller import elections
from ottla.cluster.controller.context import ControllerContext, LeaderAndIsr, TopicPartition
from ottla.cluster.image import NO_LEADER

log = logging.getLogger("ottla.broker")

TOLD_AT_ONCE = 200

UNCLEAN = "unclean.leader.election.enable"


class LeaderChanges:
    """Changes leaders and in-sync replicas of one term. What has to be told is in the term's requests, and not yet sent."""

    def __init__(self, term: ControllerTerm) -> None:
        self._term = term
        self._context = term.context

    def settle(self, partitions: Iterable[TopicPartition], *, is_unclean: bool = False) -> Steps[list[TopicPartition]]:
        """Elect a leader where there is none, and let replicas that are offline leave the in-sync ones; returns what changed.

        Topics that are to be deleted are left alone. `is_unclean` lets any replica lead, whatever the topics say.
        """
        wanted = [one for one in partitions if one[0] not in self._term.deletions]
        new = {one for one in wanted if one not in self._context.leaders}
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
        for first in range(0, len(changed), TOLD_AT_ONCE):
            self.tell(changed[first : first + TOLD_AT_ONCE], new)
            yield None
        leaderless = sum(1 for one in wanted if self._context.needs_leader(one))
        if leaderless:
            log.warning("%d partitions have no leader: none of their replicas in sync is online", leaderless)
        return changed

    def tell(self, changed: Iterable[TopicPartition], new: Container[TopicPartition] = ()) -> None:
        """Have the replicas of these partitions hear who leads, and all brokers of it."""
        for one in changed:
            self._term.requests.lead(self._context.assignment(one).replicas, one, is_new=one in new)

    def tell_slowly(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """Have replicas hear who leads, with pauses, where all brokers know it: partitions that have a leader and are to stay."""
        for number, one in enumerate(partitions, 1):
            if one in self._context.leaders and one[0] not in self._term.deletions:
                self._term.requests.lead(self._context.assignment(one).replicas, one, is_known=True)
            if number % TOLD_AT_ONCE == 0:
                yield None

    def without_leader(self) -> list[TopicPartition]:
        """The partitions that nobody leads, topics that are to be deleted left out."""
        context, deletions = self._context, self._term.deletions
        return [one for one in context.partitions() if one[0] not in deletions and context.needs_leader(one)]

    def _unclean_topics(self, partitions: Iterable[TopicPartition]) -> Steps[set[str]]:
        """The topics, of those where nobody in sync is online, that rather lose records than wait."""
        context = self._context
        asked = {one[0] for one in partitions if one in context.leaders and self._is_stuck(one)}
        if not asked:
            return asked
        configs = yield from self._term.reader.configs(sorted(asked))
        default = str(self._term.settings.unclean_leader_election_enable)
        return {name for name in asked if configs.get(name, {}).get(UNCLEAN, default).strip().lower() == "true"}

    def _is_stuck(self, partition: TopicPartition) -> bool:
        context = self._context
        return context.needs_leader(partition) and not set(context.online(partition)) & set(context.leaders[partition].isr)


def led_by(context: ControllerContext, node_id: int) -> list[TopicPartition]:
    """The partitions that a broker leads, and others hold too."""
    held = sorted(context.held_by([node_id]))
    return [
        one for one in held if context.leaders.get(one, _NOBODY).leader == node_id and len(context.assignment(one).replicas) > 1
    ]


_NOBODY = LeaderAndIsr(NO_LEADER, 0, ())
