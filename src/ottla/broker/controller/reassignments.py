"""Partition reassignments, within one controller term (KIP-455).

Tools before 2.6 write their reassignments to the registry (`REASSIGNMENTS`). An AlterPartitionReassignments request for a partition
replaces its written reassignment.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from ottla.broker.controller.leader_elections import LeaderChanges
from ottla.broker.controller.partition_walk import chosen, each, in_pieces
from ottla.broker.controller.term import ControllerTerm
from ottla.broker.controller.topic_changes import TopicChanges
from ottla.broker.failures import CONFLICTS, MOST_RACES
from ottla.cluster import layout
from ottla.cluster.controller_rules import reassignments
from ottla.cluster.controller_rules.context import ReplicaAssignment, TopicPartition
from ottla.cluster.controller_rules.entries import topic_value
from ottla.cluster.controller_rules.reassignments import REASSIGNMENTS, Fault
from ottla.ports import Change, Steps
from ottla.wire.errors import NONE, UNKNOWN_SERVER_ERROR, UNKNOWN_TOPIC_OR_PARTITION

log = logging.getLogger("ottla.broker")

JUDGED_AT_ONCE = 80
"""Reassignments validated between two pauses: their target replicas, and the number of replicas."""

Targets = Mapping[TopicPartition, Sequence[int] | None]
"""The target replicas of each partition; None cancels its reassignment."""
Moves = dict[TopicPartition, ReplicaAssignment]
Faults = dict[TopicPartition, Fault]
"""An error code and a message per partition. The code is NONE if the partition's reassignment is ongoing or complete."""

BEING_DELETED = "The partition does not exist: its topic is being deleted."
ALTERED = "The topic was changed concurrently: try again."


class Reassignments:
    """The controller's partition reassignments, during one controller epoch.

    `changed` is called when the registry entry that reassignment tools write changes.
    """

    def __init__(self, term: ControllerTerm, leaders: LeaderChanges, topics: TopicChanges, changed: Callable[[str], None]) -> None:
        self._term = term
        self._context = term.context
        self._leaders = leaders
        self._topics = topics
        self._changed = changed

    def alter(self, targets: Targets, *, may_resize: bool) -> Steps[Faults]:
        """Start or cancel reassignments on request. `may_resize` permits another replication factor."""
        faults, moves = yield from self._check_all(targets, may_resize=may_resize)
        yield from self._forget_written(lambda partition, replicas: partition in moves)
        return faults | (yield from self._begin(moves))

    def find_ongoing(self, partitions: Iterable[TopicPartition] | None) -> Steps[dict[TopicPartition, ReplicaAssignment]]:
        """Return the ongoing reassignments of `partitions`, or of all partitions if None."""
        context = self._context
        asked = context.reassigning if partitions is None else partitions
        found: Moves = {}
        for some in in_pieces(asked):
            assigned = ((one, context.assignment(one)) for one in some)
            found.update((one, assignment) for one, assignment in assigned if assignment.is_being_reassigned)
            yield None
        return found

    def resume(self) -> Steps[None]:
        """Resume the reassignments of the previous term."""
        yield from self.process_requested()
        yield from self._advance(list(self._context.reassigning))

    def resume_on(self, nodes: Iterable[int]) -> Steps[None]:
        """Resume the reassignments that wait for a replica on one of these new brokers."""
        joined = set(nodes)
        reassigning = self._context.reassigning
        moving = yield from chosen(reassigning, lambda one: not joined.isdisjoint(self._context.assignment(one).replicas))
        yield from self._advance(moving)

    def in_sync(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """Complete the reassignments whose target replicas are now in sync."""
        moving = yield from chosen(partitions, self._context.reassigning.__contains__)
        complete = yield from chosen(moving, partial(reassignments.is_complete, self._context))
        if complete:
            yield from self._complete(complete)

    def process_requested(self) -> Steps[None]:
        """Start the reassignments that a tool has written to the registry, and watch the entry for further ones."""
        moves = yield from self._read_requested()
        if not moves:
            return
        faults, wanted = yield from self._check_all(dict(moves))
        faults |= yield from self._begin({one: to for one, to in wanted.items() if self._context.assignment(one) != to})
        failed = {one: fault for one, fault in faults.items() if fault[0] != NONE}
        for (name, index), (_, sentence) in failed.items():
            log.warning("the reassignment of %s-%d that a tool requested was refused: %s", name, index, sentence)
        moving = self._context.reassigning
        yield from self._forget_written(lambda partition, replicas: partition in failed or partition not in moving)

    def _check_all(self, targets: Targets, *, may_resize: bool = True) -> Steps[tuple[Faults, Moves]]:
        faults: Faults = {}
        moves: Moves = {}
        for some in in_pieces(targets.items(), JUDGED_AT_ONCE):
            for partition, target in some:
                judged = self._judged_one(partition, target, may_resize=may_resize)
                if isinstance(judged, ReplicaAssignment):
                    moves[partition] = judged
                else:
                    faults[partition] = judged
            yield None
        return faults, moves

    def _judged_one(
        self, partition: TopicPartition, target: Sequence[int] | None, *, may_resize: bool
    ) -> ReplicaAssignment | Fault:
        if partition[0] in self._term.deletions:
            return UNKNOWN_TOPIC_OR_PARTITION, BEING_DELETED
        judged = reassignments.request_reassignment(self._context, partition, target)
        if isinstance(judged, ReplicaAssignment):  # a fault of the replicas takes precedence over their number
            judged = reassignments.request_reassignment(self._context, partition, target, may_resize=may_resize)
        return judged

    def _begin(self, moves: Moves) -> Steps[Faults]:
        """Start reassignments, and return a fault per partition. Write targets first, so that a later controller can resume."""
        faults: Faults = {}
        for some in (yield from _by_topic(moves)):
            before = {one: self._context.assignment(one) for one in some}
            yield None
            if not (yield from self._note(some)):
                faults |= dict.fromkeys(some, (UNKNOWN_SERVER_ERROR, ALTERED))
                continue
            yield from each(before.items(), self._stop_unneeded)
            yield from self._advance(list(some))
            faults |= dict.fromkeys(some, (NONE, ""))
        return faults

    def _stop_unneeded(self, moved: tuple[TopicPartition, ReplicaAssignment]) -> None:
        """Delete the replicas that are in the previous assignment of a partition, but not in its new one."""
        partition, before = moved
        assignment = self._context.assignment(partition)
        unneeded = [node for node in before.replicas if node not in assignment.replicas]
        self._term.requests.stop(unneeded, partition, is_deleted=True)

    def _advance(self, partitions: Sequence[TopicPartition]) -> Steps[None]:
        """Complete reassignments whose targets are in sync. For the others, send the leader to all origin and target replicas."""
        complete = set((yield from chosen(partitions, partial(reassignments.is_complete, self._context))))
        left = [one for one in partitions if one not in complete]
        yield from each((yield from self._term.states.change(left, reassignments.updated_partitions)), self._log_move)
        yield from self._term.send()
        if complete:
            yield from self._complete([one for one in partitions if one in complete])

    def _log_move(self, partition: TopicPartition) -> None:
        assignment = self._context.assignment(partition)
        self._term.requests.lead(assignment.origin, partition)
        self._term.requests.lead(assignment.adding, partition, is_new=True)

    def _complete(self, partitions: Sequence[TopicPartition]) -> Steps[None]:
        """Reduce replicas to the target, delete the other replicas, and write that the reassignment is complete."""
        settled = yield from self._term.states.change(partitions, reassignments.restrict_to_target)
        over: Moves = {}

        def end(one: TopicPartition) -> None:
            assignment = self._context.assignment(one)
            over[one] = ReplicaAssignment(assignment.target)
            self._context.assign(one, over[one])
            self._term.requests.stop(assignment.removing, one, is_deleted=True)

        yield from each(settled, end)
        yield from self._leaders.announce(settled)
        yield from self._term.send()
        for some in (yield from _by_topic(over)):
            if not (yield from self._note(some)):
                log.error(
                    "topic %s changes continuously: its reassignments ended, but their end was not stored", next(iter(some))[0]
                )
        yield from self._forget_written(lambda partition, replicas: partition in over)
        yield from self._topics.resume(over)
        if over:
            log.info("%d partitions have moved", len(over))

    def _note(self, assignments: Mapping[TopicPartition, ReplicaAssignment]) -> Steps[bool]:
        """Write new assignments of partitions of one topic to the topic's registry entry. Return whether that succeeded."""
        name = next(iter(assignments))[0]
        for _ in range(MOST_RACES):
            entry = (yield from self._term.reader.topics([name])).get(name)
            if entry is None:
                return False
            after = entry.assignments | {index: assignment for (_, index), assignment in assignments.items()}
            topic_id = entry.topic_id or self._context.topic_ids.get(name)
            try:
                yield from self._term.commit([Change(layout.topic_path(name), topic_value(topic_id, after), entry.version)])
            except CONFLICTS:
                continue
            yield from each(assignments.items(), lambda move: self._context.assign(*move))
            return True
        return False

    def _read_requested(self) -> Steps[dict[TopicPartition, tuple[int, ...]]]:
        """Return the reassignments that tools wrote to the registry and that are not removed yet."""
        value = yield from self._term.reader.value(REASSIGNMENTS, self._changed)
        if value is None:
            return {}
        try:
            return reassignments.moves_wanted(value)
        except ValueError as error:
            log.error("the registry's entry %s cannot be parsed (%s), and nothing is reassigned: remove it", REASSIGNMENTS, error)
            return {}

    def _forget_written(self, is_over: Callable[[TopicPartition, Sequence[int]], bool]) -> Steps[None]:
        """Remove completed reassignments from the tools' entry, and the entry itself when it is empty."""
        moves = yield from self._read_requested()
        left = {partition: replicas for partition, replicas in moves.items() if not is_over(partition, replicas)}
        if left != moves:
            value = reassignments.value_of(left) if left else None
            try:
                yield from self._term.commit([Change(REASSIGNMENTS, value)])
            except CONFLICTS:
                log.info("a tool has changed what it wants moved")


def _by_topic(moves: Moves) -> Steps[list[Moves]]:
    topics: dict[str, Moves] = {}
    for some in in_pieces(moves.items()):
        for partition, assignment in some:
            topics.setdefault(partition[0], {})[partition] = assignment
        yield None
    return list(topics.values())
