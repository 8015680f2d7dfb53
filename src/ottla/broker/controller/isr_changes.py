"""Changes of in-sync replicas by leaders: by AlterPartition (KIP-497), or in the registry by leaders before 2.7.

Works within one controller term.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.broker.controller.leader_elections import LeaderChanges
from ottla.broker.controller.term import ControllerTerm
from ottla.cluster.controller_rules.alter_partition import fault, read_broker_epochs, requested_state
from ottla.cluster.controller_rules.context import ControllerContext, LeaderAndIsr, TopicPartition
from ottla.cluster.controller_rules.entries import ISR_CHANGES, changed_isrs
from ottla.ports import Steps
from ottla.wire.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.wire.errors import INVALID_UPDATE_VERSION, NONE, STALE_BROKER_EPOCH, UNKNOWN_TOPIC_ID

PartitionResult = AlterPartitionResponse.PartitionData
TopicResult = AlterPartitionResponse.TopicData

BY_ID_FROM = 2


class IsrChanges:
    """The controller's processing of ISR changes that leaders request, during one controller epoch.

    `altered` is called with the partitions of each AlterPartition request, even if the request is refused.
    """

    def __init__(self, term: ControllerTerm, leaders: LeaderChanges, altered: Callable[[Iterable[TopicPartition]], None]) -> None:
        self._tell = altered
        self._term = term
        self._context = term.context
        self._leaders = leaders

    def publish_notified(self, names: list[str]) -> Steps[list[TopicPartition]]:
        """Send to all brokers the states that leaders have written, remove the notifications, and return the partitions."""
        found = yield from self._term.reader.notifications(ISR_CHANGES, names, changed_isrs)
        partitions = list({one: None for some in found for one in some if self._context.assignment(one).replicas})
        yield from self._term.states.read_again(partitions)
        yield from self._leaders.elect(partitions)  # a leader may have added a replica to the ISR while its broker was lost
        self._term.requests.add_metadata_for_all(partitions)
        yield from self._term.send()
        yield from self._term.states.remove(f"{ISR_CHANGES}/{name}" for name in names)
        return partitions

    def alter(self, request: AlterPartitionRequest, version: int) -> Steps[AlterPartitionResponse]:
        """Process AlterPartition. All brokers receive metadata of its partitions, even if a change is refused."""
        broker = self._context.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return AlterPartitionResponse(error_code=STALE_BROKER_EPOCH)
        wanted, epochs = dict[TopicPartition, LeaderAndIsr](), dict[TopicPartition, dict[int, int]]()
        for topic in request.topics:
            name = self._context.names.get(topic.topic_id) if version >= BY_ID_FROM else topic.topic_name
            if name is not None:
                wanted.update(
                    ((name, one.partition_index), requested_state(one, request.broker_id, version)) for one in topic.partitions
                )
                epochs.update(((name, one.partition_index), read_broker_epochs(one)) for one in topic.partitions)
        codes = yield from self._write_permitted(wanted, epochs, version)
        self._term.requests.add_metadata_for_all(wanted)
        yield from self._term.send()
        self._tell(wanted)
        return AlterPartitionResponse(topics=[self._result(topic, codes, version) for topic in request.topics])

    def _write_permitted(
        self, wanted: dict[TopicPartition, LeaderAndIsr], epochs: dict[TopicPartition, dict[int, int]], version: int
    ) -> Steps[dict[TopicPartition, int]]:
        """Write the permitted states, and return an error code per partition. It is NONE if the partition already has the state."""
        codes = {one: fault(self._context, one, state, epochs[one], version) for one, state in wanted.items()}
        admitted = [one for one, code in codes.items() if code is None]

        def choose(context: ControllerContext, one: TopicPartition) -> LeaderAndIsr | None:
            codes[one] = fault(context, one, wanted[one], epochs[one], version)
            return wanted[one] if codes[one] is None else None

        changed = set((yield from self._term.states.change(admitted, choose)))
        return {one: (NONE if one in changed else INVALID_UPDATE_VERSION) if code is None else code for one, code in codes.items()}

    def _result(self, topic: AlterPartitionRequest.TopicData, codes: dict[TopicPartition, int], version: int) -> TopicResult:
        if version < BY_ID_FROM:
            result = TopicResult(topic_name=topic.topic_name)
            name: str | None = topic.topic_name
        else:
            result = TopicResult(topic_id=topic.topic_id)
            name = self._context.names.get(topic.topic_id)
        for one in topic.partitions:
            key = (name or "", one.partition_index)
            code = UNKNOWN_TOPIC_ID if name is None else codes[key]
            result.partitions.append(self._describe(key, code))
        return result

    def _describe(self, partition: TopicPartition, code: int) -> PartitionResult:
        state = self._context.leaders.get(partition)
        if code or state is None:
            return PartitionResult(partition_index=partition[1], error_code=code)
        return PartitionResult(
            partition_index=partition[1],
            leader_id=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            leader_recovery_state=state.leader_recovery_state,
            partition_epoch=state.partition_epoch,
        )
