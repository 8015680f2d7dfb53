"""Topic creation, growth and deletion, within one controller term.

A broker or a tool creates a topic by writing its entry; the controller then elects leaders. An entry under `DELETIONS`
requests the deletion of a topic. The topic's own entry is removed when every broker has deleted its replicas of the topic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping

from ottla.broker.controller.leader_elections import LeaderChanges
from ottla.broker.controller.partition_walk import each, in_pieces, split
from ottla.broker.controller.term import ControllerTerm
from ottla.broker.failures import CONFLICTS
from ottla.broker.releases.interbroker_versions import Switch
from ottla.broker.retries import Repeats
from ottla.cluster import layout
from ottla.cluster.controller_rules.context import ReplicaAssignment, TopicPartition
from ottla.cluster.controller_rules.entries import DELETIONS, TopicEntry, topic_value
from ottla.cluster.controller_rules.requests import ControlRequest
from ottla.ports import Change, Steps
from ottla.wire.api.stop_replica import StopReplicaResponse
from ottla.wire.errors import NONE

log = logging.getLogger("ottla.broker")

REMOVED_AT_ONCE = 200
"""Partitions whose states are removed in one commit."""

DELETED_AGAIN_MS, MOST_DELETED_AGAIN_MS = 10_000, 300_000
"""First and longest pause before a failed deletion of replicas is retried, in ms."""


class TopicChanges:
    """The controller's creations and deletions of topics, during one controller epoch.

    `new_id` generates the id of a topic that has none.
    """

    def __init__(
        self, term: ControllerTerm, leaders: LeaderChanges, new_id: Callable[[], bytes], changed: Callable[[str], None]
    ) -> None:
        self._term = term
        self._context = term.context
        self._leaders = leaders
        self._new_id = new_id
        self._changed = changed
        self._refused: set[str] = set()
        """Topics with replicas that a broker failed to delete since the last retry."""
        self._is_pausing = False
        self._left: set[str] = set()
        """Topics with a failed deletion that are not deleted yet."""
        self._repeats = Repeats(DELETED_AGAIN_MS, MOST_DELETED_AGAIN_MS)

    def update_topics(self, names: Collection[str]) -> Steps[None]:
        """Apply the names of all topics with an entry: elect leaders for new topics, and forget missing topics."""
        for name in self._context.topics.keys() - names:
            yield from self._drop(name)
        new = [name for name in names if name not in self._context.topics]
        if new:
            yield from self._leaders.elect((yield from self.read(new)))
            yield from self._term.send()

    def read(self, names: list[str]) -> Steps[list[TopicPartition]]:
        """Load the entries of these topics into the context, watch them, and return the new partitions."""
        topics = yield from self._term.reader.topics(names, self._changed)
        if self._term.protocol.has(Switch.TOPIC_IDS):
            yield from self._assign_ids({name: topic for name, topic in topics.items() if topic.topic_id is None})
        new = list[TopicPartition]()
        for name, topic in topics.items():
            new += yield from self._add_partitions(name, topic.topic_id, topic.assignments)
        return new

    def _add_partitions(
        self, name: str, topic_id: bytes | None, assignments: Mapping[int, ReplicaAssignment]
    ) -> Steps[list[TopicPartition]]:
        """Add partitions to the context, and return the new ones."""
        new = self._context.set_topic(name, topic_id, {})
        for some in in_pieces(assignments.items()):
            new += self._context.set_topic(name, topic_id, dict(some))
            yield None
        return new

    def _drop(self, name: str) -> Steps[None]:
        """Remove a deleted topic from the context."""
        yield from each(self._context.partitions([name]), self._context.remove_partition)
        self._context.remove_topic(name)
        self._term.deletions.forget(name)
        self._left.discard(name)
        if not self._left:
            self._repeats.over()

    def _assign_ids(self, topics: Mapping[str, TopicEntry]) -> Steps[None]:
        """Write ids for topics without one: topics created before 2.8 or by older tools (KIP-516)."""
        for name, topic in topics.items():
            topic_id = self._new_id()
            try:
                value = topic_value(topic_id, topic.assignments)
                yield from self._term.commit([Change(layout.topic_path(name), value, topic.version)])
            except CONFLICTS:  # the watch on the changed entry leads to another read
                log.info("topic %s was changed while it was to get an id", name)
            else:
                self._context.topic_ids[name] = topic_id
                self._context.names[topic_id] = name

    def grown(self, name: str) -> Steps[None]:
        """Add the new partitions of a topic, and elect their leaders. Reassignments process changes of existing partitions."""
        if name not in self._context.topics:
            return
        topics = yield from self._term.reader.topics([name], self._changed)
        known = self._context.topics[name]
        new = {index: one for index, one in topics[name].assignments.items() if index not in known} if name in topics else {}
        if new and name in self._term.deletions:
            log.warning("topic %s gets no more partitions: it is being deleted", name)
        elif new:
            yield from self._leaders.elect((yield from self._add_partitions(name, topics[name].topic_id, new)))
            yield from self._term.send()

    def to_be_deleted(self, names: Iterable[str]) -> Steps[None]:
        """Start the requested topic deletions.

        A request is removed if the topic does not exist or `delete.topic.enable` is false.
        """
        noted = list(names)
        may = self._term.settings.delete_topic_enable
        void = [name for name in noted if not may or name not in self._context.topics]
        for name in void:
            if name in self._context.topics:
                log.warning("topic %s is not deleted: set delete.topic.enable=true, and delete it again", name)
            else:
                log.info("removed the request to delete topic %s, which does not exist", name)
            yield from self._term.commit([Change(f"{DELETIONS}/{name}", None)])
        wanted = [name for name in noted if name not in void]
        self._announce_deleted([name for name in wanted if name not in self._term.deletions])
        self._term.deletions.queue(wanted)
        yield from self.advance()

    def _announce_deleted(self, names: Iterable[str]) -> None:
        """Queue metadata that removes these topics for all brokers, also for brokers without replicas of them."""
        partitions = list(self._context.partitions(names))
        if partitions:
            self._term.requests.add_metadata_for_all(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """Resume the deletion of topics whose partitions have a broker back, or a completed reassignment."""
        names = {name for name, _ in partitions if name in self._term.deletions}
        self._term.deletions.resume(names)
        self._announce_deleted(names)
        yield from self.advance()

    def advance(self) -> Steps[None]:
        """Request the deletion of all eligible replicas, and finish deletions that have no replica left."""
        deletions, requests = self._term.deletions, self._term.requests
        over, waiting = split(sorted(deletions.topics), deletions.is_over)
        yield from self._remove_all(over)
        for name in waiting:
            yield None
            beginning = yield from deletions.begin(name)
            yield from each(beginning.items(), lambda asked: requests.stop(asked[1], asked[0], is_deleted=True))
        yield from self._term.send()

    def on_stop_response(self, request: ControlRequest, response: StopReplicaResponse) -> Steps[None]:
        """Record a broker's StopReplica response: which replicas it deleted, and which it failed to delete."""
        codes = {(one.topic_name, one.partition_index): one.error_code for one in response.partition_errors}
        yield None
        failures = 0
        for some in in_pieces(request.deleted):
            failed = [one for one in some if codes.get(one, response.error_code) != NONE]
            failures += len(failed)
            self._term.deletions.halt_failed(request.node_id, failed)
            self._term.deletions.mark_deleted(request.node_id, set(some).difference(failed))
            yield None
        if failures:
            sentence = "broker %d could not delete %d replicas, for the cause in its log: the request is retried"
            self._repeats.log_once(log, logging.WARNING, sentence, request.node_id, failures)
            self._refused.update(name for name, _ in request.deleted)
            self._left |= self._refused
        yield from self.advance()

    def retry(self) -> Steps[None]:
        """Retry failed deletions: a disk error may be transient."""
        refused, self._refused, self._is_pausing = self._refused, set(), False
        self._term.deletions.resume(refused)
        yield from self.advance()

    def begin_pause(self) -> int | None:
        """Return the time in ms after which failed deletions must be retried.

        Return None if no deletion failed, or if the wait has already begun.
        """
        if not self._refused or self._is_pausing:
            return None
        self._is_pausing = True
        return self._repeats.pause_ms()

    def _remove_all(self, names: Iterable[str]) -> Steps[None]:
        """Remove topics without replicas, several small topics at a time."""
        some, size = list[str](), 0
        for name in names:
            partitions = len(self._context.topics.get(name, ()))
            if some and size + partitions > REMOVED_AT_ONCE:
                yield from self._remove_some(some)
                some, size = [], 0
            some.append(name)
            size += partitions
        if some:
            yield from self._remove_some(some)

    def _remove_some(self, names: list[str]) -> Steps[None]:
        """Remove the entries of topics: first the states of large topics in several commits, then all other entries in one.

        The last commit also removes the deletion requests, so that an interrupted removal is repeated. If it conflicts with a
        removal by another program, its entries are removed in further commits.
        """
        for name in names:
            yield from self._remove_states(name)
        configs = yield from self._term.reader.configs(names)
        paths = {
            name: [layout.topic_path(name), f"{DELETIONS}/{name}", *([layout.topic_config_path(name)] if name in configs else [])]
            for name in names
        }
        try:
            yield from self._term.commit([Change(path, None) for name in names for path in paths[name]])
        except CONFLICTS as conflict:
            log.info("somebody else has removed %s of topics that are deleted", conflict)
            yield from self._term.states.remove(path for name in names for path in paths[name])
        log.info("deleted topic %s%s", names[0], f" and {len(names) - 1} more" if len(names) > 1 else "")
        for name in names:
            yield from self._drop(name)

    def _remove_states(self, name: str) -> Steps[None]:
        partitions = [(name, index) for index in self._context.topics.get(name, ())]
        if len(partitions) <= REMOVED_AT_ONCE:  # they are removed with the entry above them
            return
        for some in in_pieces(partitions, REMOVED_AT_ONCE):
            states = yield from self._term.reader.states(some)
            paths = [layout.state_path(*one).removesuffix("/state") for one in some if one in states]
            if paths:
                yield from self._term.commit([Change(path, None) for path in paths])
