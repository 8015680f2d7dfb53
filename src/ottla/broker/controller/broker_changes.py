"""The controller's reactions to brokers that register, disappear, shut down or lose a log directory, within one controller term."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import chain

from ottla.broker.controller.leader_elections import LeaderChanges
from ottla.broker.controller.partition_walk import chosen, each, in_pieces
from ottla.broker.controller.term import ControllerTerm
from ottla.cluster import layout
from ottla.cluster.controller_rules import elections, entries
from ottla.cluster.controller_rules.context import ControllerContext, LeaderAndIsr, LiveBroker, TopicPartition
from ottla.cluster.controller_rules.entries import LOG_DIR_EVENTS, failed_broker
from ottla.ports import Change, Steps
from ottla.wire.api.leader_and_isr import LeaderAndIsrResponse
from ottla.wire.errors import BROKER_NOT_AVAILABLE, KAFKA_STORAGE_ERROR, NONE, STALE_BROKER_EPOCH

log = logging.getLogger("ottla.broker")

UNKNOWN_EPOCH = -1
"""The broker epoch of a request that contains no broker epoch, as from brokers before 2.2."""


class BrokerChanges:
    """The controller's reactions to brokers that join, leave, restart or shut down, during one controller epoch."""

    def __init__(self, term: ControllerTerm, leaders: LeaderChanges) -> None:
        self._term = term
        self._context = term.context
        self._leaders = leaders

    def apply_registrations(self, there: Mapping[int, LiveBroker]) -> Steps[set[int]]:
        """Apply the set of registered brokers, and return the ids of brokers that are new or have another broker epoch."""
        known = self._context.brokers
        lost = {node for node, broker in known.items() if node not in there or there[node].epoch != broker.epoch}
        joined = {node for node in there if node in lost or node not in known}
        altered = [broker for node, broker in there.items() if node not in joined and broker != known[node]]
        if lost:
            yield from self._lose(lost)
        for node in sorted(joined):
            self._context.brokers[node] = there[node]
            self._term.open_way(node)
        for broker in altered:
            self._alter(broker)
        if joined:
            yield from self._add_brokers(joined)
        if altered:
            self._term.requests.add_metadata_for_all()
            yield from self._term.send()
        if lost or joined:
            yield from self.note_seen()
        return joined

    def restarted_brokers(self) -> Steps[set[int]]:
        """Return the ids of brokers that registered again while no controller was active, and may have lost records."""
        value = yield from self._term.reader.value(layout.SEEN_BROKERS)
        try:
            seen = {} if value is None else entries.broker_epochs(value)
        except ValueError as error:
            log.error("the registry's entry %s cannot be parsed (%s): it is rewritten", layout.SEEN_BROKERS, error)
            seen = {}
        brokers = self._context.brokers
        found = {node for node, epoch in seen.items() if node in brokers and brokers[node].epoch != epoch}
        if found:
            log.info("brokers %s were restarted without a controller", sorted(found))
        return found

    def note_seen(self) -> Steps[None]:
        """Write the epochs of the current registrations to the registry, for the next controller."""
        yield from self._term.commit([Change(layout.SEEN_BROKERS, entries.broker_epochs_value(self._context.brokers.values()))])

    def partitions_on(self, node_ids: set[int]) -> Steps[list[TopicPartition]]:
        """Return the partitions that have a replica on one of these brokers. Each partition is listed once."""
        context = self._context
        return chosen(context.partitions() if node_ids else (), lambda one: context.is_held(one, node_ids))

    def _lose(self, lost: set[int]) -> Steps[None]:
        log.info("brokers %s are no longer alive", sorted(lost))
        held = dict[int, list[TopicPartition]]()
        for node in lost:
            held[node] = yield from self.partitions_on({node})
        for node in lost:
            self._context.remove_broker(node)
            self._term.close_way(node)
        for node in lost:
            for some in in_pieces(held[node]):
                self._term.deletions.halt_failed(node, some)
                yield None
        partitions = dict.fromkeys(chain(*held.values()))
        yield from self._reload_states(lost, partitions)
        yield from self.lose_replicas(partitions)

    def _reload_states(self, lost: set[int], partitions: Iterable[TopicPartition]) -> Steps[None]:
        """Reload the states of `partitions` whose known leader and ISR contain no lost broker, because the registry can differ.

        A leader before 2.7 writes an ISR to the registry itself and notifies the controller seconds later. The written ISR can
        therefore contain a broker that is lost by now.
        """
        leaders = self._context.leaders
        sure = yield from chosen(
            partitions, lambda one: one in leaders and lost.isdisjoint((leaders[one].leader, *leaders[one].isr))
        )
        for some in in_pieces(sure):
            yield from self._term.states.read_again(some)

    def lose_replicas(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """Elect leaders for partitions with offline replicas, and send metadata to all brokers even if no state changes."""
        yield from self._leaders.elect(partitions)
        self._term.requests.add_metadata_for_all()
        yield from self._term.send()

    def _add_brokers(self, joined: set[int]) -> Steps[None]:
        """Send metadata to all brokers, elect leaders, then send the new brokers their replicas.

        The first metadata for a new broker contains all topics, because the broker serves clients from it. One LeaderAndIsr
        request names all replicas of the new broker, because the broker treats the request as complete.
        """
        log.info("brokers %s have joined", sorted(joined))
        context, requests = self._context, self._term.requests
        requests.add_metadata(context.brokers.keys() - joined)
        yield from self._term.send()
        # Coordinators treat topics that are missing from their first metadata as deleted.
        requests.add_metadata(joined, context.leaders)
        yield from self._term.send()
        yield from self._leaders.elect((yield from self._leaders.without_leader()))
        for node in joined:
            held = yield from chosen((yield from self.partitions_on({node})), self._leaders.has_led)
            yield from each(held, partial(requests.lead, (node,)))
        yield from self._term.send()

    def _alter(self, broker: LiveBroker) -> None:
        before = self._context.brokers[broker.node_id]
        self._context.brokers[broker.node_id] = broker
        if broker.endpoints != before.endpoints:
            self._term.open_way(broker.node_id)

    def stop(self, node_id: int, epoch: int) -> Steps[tuple[int, list[TopicPartition]]]:
        """Prepare the controlled shutdown of a broker: move leadership away and stop its followers.

        Return an error code, and the partitions that the broker still leads.
        """
        context, broker = self._context, self._context.brokers.get(node_id)
        if broker is None:
            return BROKER_NOT_AVAILABLE, []
        if epoch not in (UNKNOWN_EPOCH, broker.epoch):
            return STALE_BROKER_EPOCH, []
        log.info("broker %d is about to stop", node_id)
        held = yield from chosen((yield from self.partitions_on({node_id})), self._can_be_left)
        led = yield from chosen(held, lambda one: context.leaders[one].leader == node_id)
        if not context.brokers.keys() - context.shutting_down - {node_id}:
            return NONE, led  # no other broker could lead: as long as this one runs, new topics need it as their leader
        context.shutting_down.add(node_id)
        followed = yield from chosen(held, lambda one: context.leaders[one].leader != node_id)
        yield from self._leaders.announce((yield from self._term.states.change(led, elections.leader_instead)))
        yield from self._term.send()
        yield from each(followed, partial(self._term.requests.stop, (node_id,), is_deleted=False))
        yield from self._leaders.announce((yield from self._term.states.change(followed, _without(node_id))))
        yield from self._term.send()
        return NONE, (yield from chosen(led, lambda one: context.leaders[one].leader == node_id))

    def _can_be_left(self, partition: TopicPartition) -> bool:
        return len(self._context.assignment(partition).replicas) > 1 and self._leaders.has_led(partition)

    def log_dirs_failed(self, names: list[str]) -> Steps[None]:
        """Send LeaderAndIsr to brokers that reported a failed log directory, because their responses name the lost replicas."""
        nodes = set((yield from self._term.reader.notifications(LOG_DIR_EVENTS, names, failed_broker)))
        for node in nodes:
            held = yield from chosen((yield from self.partitions_on({node})), self._context.leaders.__contains__)
            yield from each(held, partial(self._term.requests.lead, (node,)))
        yield from self._term.send()
        yield from self._term.states.remove(f"{LOG_DIR_EVENTS}/{name}" for name in names)

    def roles_answered(self, node_id: int, response: LeaderAndIsrResponse) -> Steps[None]:
        """Record the failed and usable replicas of a LeaderAndIsr response, and elect leaders for both."""
        if node_id not in self._context.brokers:
            return
        failed = self._context.failed.setdefault(node_id, set())
        lost, back = list[TopicPartition](), list[TopicPartition]()
        for errors in in_pieces(self._errors(response)):
            back += [one for one, code in errors if code == NONE and one in failed]
            failed.difference_update(one for one, code in errors if code == NONE)
            new = [one for one, code in errors if code == KAFKA_STORAGE_ERROR and one not in failed]
            failed.update(new)
            lost += new
            yield None
        if lost:
            log.warning("broker %d cannot use %d of its replicas", node_id, len(failed))
            yield from self.lose_replicas(lost)
        if back:
            log.info("broker %d can use %d of its replicas again", node_id, len(back))
            yield from self._leaders.elect(back)
            self._term.requests.add_metadata_for_all(back)
            yield from self._term.send()

    def _errors(self, response: LeaderAndIsrResponse) -> Iterable[tuple[TopicPartition, int]]:
        for one in response.partition_errors:
            yield (one.topic_name, one.partition_index), one.error_code
        for topic in response.topics:
            name = self._context.names.get(topic.topic_id)
            if name is not None:
                yield from (((name, one.partition_index), one.error_code) for one in topic.partition_errors)


def _without(node_id: int) -> Callable[[ControllerContext, TopicPartition], LeaderAndIsr | None]:
    def choose(context: ControllerContext, partition: TopicPartition) -> LeaderAndIsr | None:
        return elections.without_follower(context, partition, node_id)

    return choose
