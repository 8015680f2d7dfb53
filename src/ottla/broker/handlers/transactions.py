"""The transaction APIs: AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, WriteTxnMarkers, DescribeTransactions, ListTransactions.

Each request goes to the coordinator of its transactional id; the rules of transactions are in `coord`. Version 2 of the three
producer APIs added PRODUCER_FENCED. AddPartitionsToTxn is for brokers and for several transactions from 4 on (KIP-890), and EndTxn
bumps the producer's epoch from 5 on.

InitProducerId returns a new producer id, or the next epoch of a transactional id (KIP-98). Version 3 added the producer's own
id and epoch (KIP-360), 4 PRODUCER_FENCED, 6 two-phase commit (KIP-939). Version 6 is announced only if two-phase commit is
enabled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter

from ottla.broker.coordination.groups import GroupShards
from ottla.broker.coordination.markers import MarkerAppender, wait_replicated
from ottla.broker.coordination.transactions import TransactionCoordinators, TransactionShards
from ottla.broker.partitions.partition import Partition
from ottla.broker.security.rights import Rights
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.parts import Parts
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.topics.producer_ids import ProducerIds
from ottla.cluster.acls import CLUSTER_NAME
from ottla.cluster.image import ClusterImage
from ottla.cluster.names import OFFSETS_TOPIC
from ottla.coord.coordinator_partitions import partition_of
from ottla.coord.transactions.additions import AddPartitions
from ottla.coord.transactions.descriptions import without_ids
from ottla.coord.transactions.inputs import Ended, EndTransaction, ListedSome, ListSome, init_refused
from ottla.coord.transactions.transaction import VERSION_WITH_EPOCHS, Partitions, TopicPartition
from ottla.ports import Steps
from ottla.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from ottla.wire.api.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.wire.api.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.api.list_transactions import ListTransactionsRequest
from ottla.wire.api.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from ottla.wire.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    INVALID_PRODUCER_EPOCH,
    INVALID_REQUEST,
    NONE,
    OPERATION_NOT_ATTEMPTED,
    PRODUCER_FENCED,
    TRANSACTION_ABORTABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
)

Topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
PartitionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult
TransactionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
MarkerResult = WriteTxnMarkersResponse.WritableTxnMarkerResult
MarkerTopic = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
MarkerPartition = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult

MOST_PARTITIONS = 10_000
"""Upper limit of partitions added at once, because a transaction is stored as a whole."""
MOST_FILTERS = 10_000
"""Upper limit of filters in ListTransactions: states and producer ids together."""
FENCED_FROM = 2
"""The first version of the three producer requests with PRODUCER_FENCED. Earlier versions get INVALID_PRODUCER_EPOCH."""
MANY_FROM = 4
"""The first version of AddPartitionsToTxn for brokers, with several transactions."""
EPOCHS_FROM = 5
"""The first version of EndTxn with an epoch for each transaction (KIP-890)."""

NO_PRODUCER_ID, NO_EPOCH = -1, -1
INIT_FENCED_FROM = 4
"""The first version with PRODUCER_FENCED. Clients of earlier versions get INVALID_PRODUCER_EPOCH."""


@serves(
    InitProducerIdRequest,
    Need(Operation.WRITE, Resource.TRANSACTIONAL_ID, "transactional_id"),
    Need(Operation.TWO_PHASE_COMMIT, Resource.TRANSACTIONAL_ID, "transactional_id", when=attrgetter("enable_2pc")),
)
def init_producer_id(
    request: Request[InitProducerIdRequest],
    producer_ids: ProducerIds,
    coordinators: TransactionShards,
    rights: Rights,
) -> Steps[Reply]:
    """Return a new id with epoch 0, or the decision of a transactional id's coordinator.

    An idempotent producer that already has an id gets a new id, because there is nothing to fence. If the registry can't
    be written, the error is COORDINATOR_LOAD_IN_PROGRESS, which every client retries.
    """
    if request.body.transactional_id is None and not _may_write(request, rights):
        return init_refused(CLUSTER_AUTHORIZATION_FAILED)
    if producer_ids.is_empty:
        yield from producer_ids.wait()
    body = request.body
    if body.transactional_id:

        def finish(response: InitProducerIdResponse) -> InitProducerIdResponse:
            if response.error_code == PRODUCER_FENCED and request.version < INIT_FENCED_FROM:
                response.error_code = INVALID_PRODUCER_EPOCH
            return response

        return coordinators.request(body.transactional_id, body, request, finish, blocking=True)
    error_code = _error(body)
    if error_code:
        return init_refused(error_code)
    producer_id = producer_ids.next()
    if producer_id is None:
        return init_refused(COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _may_write(request: Request[InitProducerIdRequest], rights: Rights) -> bool:
    """Return whether a client may be an idempotent producer, which requires permission to write to some topic (KIP-679)."""
    peer = request.peer
    return rights.may(peer, Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, CLUSTER_NAME) or rights.allows_some(
        peer, Operation.WRITE, Resource.TOPIC
    )


def _error(body: InitProducerIdRequest) -> int:
    if body.transactional_id is not None:
        return INVALID_REQUEST
    if (body.producer_id == NO_PRODUCER_ID) != (body.producer_epoch == NO_EPOCH):
        return INVALID_REQUEST
    return NONE


@serves(
    AddPartitionsToTxnRequest,
    Need(Operation.CLUSTER_ACTION, Resource.CLUSTER, versions=AddPartitionsToTxnRequest.WIRE.valid[MANY_FROM:]),
    Need(Operation.WRITE, Resource.TRANSACTIONAL_ID, "v3_and_below_transactional_id", versions=range(MANY_FROM)),
    Need(Operation.WRITE, Resource.TOPIC, "v3_and_below_topics.name", versions=range(MANY_FROM)),
    most=MOST_PARTITIONS,
)
def add_partitions_to_txn(
    request: Request[AddPartitionsToTxnRequest], cluster: ClusterImage, transactions: TransactionCoordinators
) -> Steps[Reply]:
    """Add partitions to a transaction. If any partition does not exist, add none."""
    add = _added_to_several if request.version >= MANY_FROM else _add
    return (yield from add(request, cluster, transactions))


def _add(request: Request[AddPartitionsToTxnRequest], cluster: ClusterImage, transactions: TransactionCoordinators) -> Steps[Reply]:
    body = request.body
    topics = body.v3_and_below_topics
    unknown = _unknown(cluster, topics)
    if unknown or request.denied is not None:
        results = _results(topics, lambda place: UNKNOWN_TOPIC_OR_PARTITION if place in unknown else OPERATION_NOT_ATTEMPTED)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
    part = AddPartitions(
        body.v3_and_below_transactional_id, body.v3_and_below_producer_id, body.v3_and_below_producer_epoch, _places(topics)
    )
    added = yield from transactions.add(part, request)
    error_code = _older(added.error_code, request.version)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(topics, lambda place: error_code))


def _added_to_several(
    request: Request[AddPartitionsToTxnRequest], cluster: ClusterImage, transactions: TransactionCoordinators
) -> Steps[Reply]:
    """Add partitions to each transaction. With several transactions, none waits for markers, which would delay the others."""
    response = AddPartitionsToTxnResponse()
    for transaction in request.body.transactions:
        response.results_by_transaction.append((yield from _added_to_one(transaction, request, cluster, transactions)))
        yield None
    return response


def _added_to_one(
    transaction: Transaction,
    request: Request[AddPartitionsToTxnRequest],
    cluster: ClusterImage,
    transactions: TransactionCoordinators,
) -> Steps[TransactionResult]:
    unknown = frozenset() if transaction.verify_only else _unknown(cluster, transaction.topics)
    if unknown:
        results = _results(
            transaction.topics, lambda place: UNKNOWN_TOPIC_OR_PARTITION if place in unknown else OPERATION_NOT_ATTEMPTED
        )
        return TransactionResult(transactional_id=transaction.transactional_id, topic_results=results)
    part = AddPartitions(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        _places(transaction.topics),
        transaction_version=VERSION_WITH_EPOCHS,
        verify_only=transaction.verify_only,
    )
    if not part.verify_only and len(request.body.transactions) == 1:
        added = yield from transactions.add(part, request)
    else:
        added = yield from transactions.coordinators.request_steps(part.transactional_id, part, request)
    results = _results(transaction.topics, lambda place: added.error_of(place, TRANSACTION_ABORTABLE))
    return TransactionResult(transactional_id=transaction.transactional_id, topic_results=results)


def _places(topics: Iterable[Topic]) -> Partitions:
    return frozenset((topic.name, index) for topic in topics for index in topic.partitions)


def _unknown(cluster: ClusterImage, topics: Iterable[Topic]) -> Partitions:
    """Return the partitions that do not exist."""
    found: set[TopicPartition] = set()
    for topic in topics:
        image = cluster.topics.get(topic.name)
        count = 0 if image is None else len(image.partitions)
        found.update((topic.name, index) for index in topic.partitions if not 0 <= index < count)
    return frozenset(found)


def _results(topics: Iterable[Topic], error_of: Callable[[TopicPartition], int]) -> list[TopicResult]:
    return [
        TopicResult(
            name=topic.name,
            results_by_partition=[
                PartitionResult(partition_index=index, partition_error_code=error_of((topic.name, index)))
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def _older(error_code: int, version: int) -> int:
    return INVALID_PRODUCER_EPOCH if error_code == PRODUCER_FENCED and version < FENCED_FROM else error_code


@serves(
    AddOffsetsToTxnRequest,
    Need(Operation.WRITE, Resource.TRANSACTIONAL_ID, "transactional_id"),
    Need(Operation.READ, Resource.GROUP, "group_id"),
)
def add_offsets_to_txn(
    request: Request[AddOffsetsToTxnRequest],
    transactions: TransactionCoordinators,
    groups: GroupShards,
) -> Steps[Reply]:
    """Add the partition with a group's offsets to a transaction."""
    if (yield from groups.ensure()):
        return AddOffsetsToTxnResponse(error_code=COORDINATOR_NOT_AVAILABLE)
    body = request.body
    place = (OFFSETS_TOPIC, partition_of(body.group_id, groups.count))
    part = AddPartitions(body.transactional_id, body.producer_id, body.producer_epoch, frozenset((place,)))
    added = yield from transactions.add(part, request)
    return AddOffsetsToTxnResponse(error_code=_older(added.error_code, request.version))


@serves(EndTxnRequest, Need(Operation.WRITE, Resource.TRANSACTIONAL_ID, "transactional_id"))
def end_txn(request: Request[EndTxnRequest], coordinators: TransactionShards) -> Reply:
    """Commit or abort a transaction. The response is sent once the decision is durable; markers follow."""
    body = request.body

    def finish(ended: Ended) -> EndTxnResponse:
        error_code = _older(ended.error_code, request.version)
        return EndTxnResponse(error_code=error_code, producer_id=ended.producer_id, producer_epoch=ended.producer_epoch)

    version = VERSION_WITH_EPOCHS if request.version >= EPOCHS_FROM else 0
    part = EndTransaction(body.transactional_id, body.producer_id, body.producer_epoch, body.committed, version)
    return coordinators.request(body.transactional_id, part, request, finish, blocking=True)


@serves(WriteTxnMarkersRequest, Need(Operation.CLUSTER_ACTION, Resource.CLUSTER, instead=Operation.ALTER), most=MOST_PARTITIONS)
def write_txn_markers(request: Request[WriteTxnMarkersRequest], markers: MarkerAppender) -> Steps[Reply]:
    """Write the transaction markers in a request of another broker or of an operator.

    All markers are appended before the wait for stable storage and replicas begins.
    """
    response = WriteTxnMarkersResponse()
    written: dict[Partition, list[MarkerPartition]] = {}
    for wanted in request.body.markers:
        result = MarkerResult(producer_id=wanted.producer_id)
        response.markers.append(result)
        for topic in wanted.topics:
            parts: list[MarkerPartition] = []
            result.topics.append(MarkerTopic(name=topic.name, partitions=parts))
            for index in topic.partition_indexes:
                error_code, partition = markers.append(
                    topic.name,
                    index,
                    wanted.producer_id,
                    wanted.producer_epoch,
                    wanted.coordinator_epoch,
                    request.now,
                    committed=wanted.transaction_result,
                    transaction_version=wanted.transaction_version,
                )
                parts.append(MarkerPartition(partition_index=index, error_code=error_code))
                if partition is not None:
                    written.setdefault(partition, []).append(parts[-1])
                yield None
    for partition, error_code in (yield from wait_replicated(list(written))).items():
        for part in written[partition]:
            part.error_code = error_code
    return response


@serves(
    DescribeTransactionsRequest,
    Need(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, "transactional_ids"),
    parts=Parts(((("transactional_ids",), ("transaction_states",)),), things=100, whole_bytes=512),
)
def describe_transactions(request: Request[DescribeTransactionsRequest], coordinators: TransactionShards, rights: Rights) -> Reply:
    """Describe transactions, with the topics that the client may describe."""
    seen = rights.answers(request.peer, Operation.DESCRIBE, Resource.TOPIC)

    def combine(messages: list[DescribeTransactionsResponse]) -> DescribeTransactionsResponse:
        states = [state for each in messages for state in each.transaction_states]
        for state in states:
            state.topics = [topic for topic in state.topics if seen[topic.topic]]
        return DescribeTransactionsResponse(transaction_states=states)

    parts = ((name, DescribeTransactionsRequest(transactional_ids=[name])) for name in request.body.transactional_ids)
    return coordinators.request_several(parts, request, combine)


@serves(ListTransactionsRequest, most=MOST_FILTERS)
def list_transactions(
    request: Request[ListTransactionsRequest],
    coordinators: TransactionShards,
    rights: Rights,
) -> Steps[Reply]:
    """List the transactional ids that the client may describe: one coordinator after the other, some ids at a time."""
    found = without_ids(request.body)
    found.error_code = found.error_code or coordinators.loading_error
    if found.error_code:
        return found
    for _, shard in coordinators.present():
        part: ListSome | None = ListSome(request.body)
        while part is not None:
            listed: ListedSome = yield from coordinators.requested_of(shard, part, request)
            if listed.response.error_code:
                return listed.response
            found.transaction_states += [
                each
                for each in listed.response.transaction_states
                if rights.may(request.peer, Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, each.transactional_id)
            ]
            part = listed.following
            yield None
    return found
