"""The APIs of the share coordinator (KIP-932): InitializeShareGroupState, ReadShareGroupState, WriteShareGroupState,
DeleteShareGroupState and ReadShareGroupStateSummary.

Brokers send them to the coordinators of share partitions; the rules of states are in `coord`. A request without a group, or with a
topic without partitions, gets an empty response, as in Kafka. Version 1 of writes and summaries counts completed deliveries
(KIP-1226).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ottla.broker.coordination.share_messages import StatePlaceKey, places_of, to_response
from ottla.broker.coordination.share_states import ShareStateShards
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.parts import Parts
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Ready, Request
from ottla.broker.serving.routes import serves
from ottla.coord.share_state.inputs import (
    MOST_BATCHES,
    SharePartitionKey,
    SharePlace,
    StateOperation,
    StateRequest,
    StateResult,
    WriteState,
    divide_write,
)
from ottla.ports import Steps
from ottla.wire.api.delete_share_group_state import DeleteShareGroupStateRequest
from ottla.wire.api.initialize_share_group_state import InitializeShareGroupStateRequest
from ottla.wire.api.read_share_group_state import ReadShareGroupStateRequest
from ottla.wire.api.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from ottla.wire.api.write_share_group_state import WriteShareGroupStateRequest

OF_BROKERS: Final = Need(Operation.CLUSTER_ACTION, Resource.CLUSTER)
PARTS: Final = Parts(((("topics", "partitions"), ("results", "partitions")),), things=100)


@serves(InitializeShareGroupStateRequest, OF_BROKERS, parts=PARTS)
def initialize_share_group_state(request: Request[InitializeShareGroupStateRequest], shards: ShareStateShards) -> Reply:
    return _serve(StateOperation.INITIALIZE, request, shards)


@serves(ReadShareGroupStateRequest, OF_BROKERS, parts=PARTS)
def read_share_group_state(request: Request[ReadShareGroupStateRequest], shards: ShareStateShards) -> Reply:
    return _serve(StateOperation.READ, request, shards)


@serves(WriteShareGroupStateRequest, OF_BROKERS, parts=PARTS)
def write_share_group_state(request: Request[WriteShareGroupStateRequest], shards: ShareStateShards) -> Reply:
    return _serve(StateOperation.WRITE, request, shards)


@serves(DeleteShareGroupStateRequest, OF_BROKERS, parts=PARTS)
def delete_share_group_state(request: Request[DeleteShareGroupStateRequest], shards: ShareStateShards) -> Reply:
    return _serve(StateOperation.DELETE, request, shards)


@serves(ReadShareGroupStateSummaryRequest, OF_BROKERS, parts=PARTS)
def read_share_group_state_summary(request: Request[ReadShareGroupStateSummaryRequest], shards: ShareStateShards) -> Reply:
    return _serve(StateOperation.READ_SUMMARY, request, shards)


def _serve(operation: StateOperation, request: Request[Any], shards: ShareStateShards) -> Reply:
    """Pass the share partitions of a request to their coordinators, and return all results in one response."""
    body = request.body
    is_lenient = operation is StateOperation.INITIALIZE  # its topics without partitions are passed over
    if not body.group_id or not (is_lenient or all(topic.partitions for topic in body.topics)):
        return to_response(operation, {})
    places = places_of(operation, body.topics)
    if not places:
        return to_response(operation, {})
    if sum(len(place.batches) for place in places if isinstance(place, WriteState)) > MOST_BATCHES:
        return _write_slowly(request, places, shards)
    parts = _parts(operation, body.group_id, places, shards)

    def combine(answers: list[Sequence[StateResult]]) -> Ready:
        found = [pair for part, results in zip(parts, answers, strict=True) for pair in zip(part[1].places, results, strict=True)]
        return to_response(operation, _in_order(places, found))

    return shards.request_several(parts, request, combine)


def _write_slowly(request: Request[Any], places: Sequence[SharePlace], shards: ShareStateShards) -> Steps[Reply]:
    """Store one part after another of a request with many state batches. The first error of a share partition ends its write."""
    group_id, results = request.body.group_id, dict[StatePlaceKey, StateResult]()
    for place in places:
        key = SharePartitionKey(group_id, place.topic_id, place.partition)
        assert isinstance(place, WriteState), "other operations have no state batches"
        for part in divide_write(place):
            body = StateRequest(StateOperation.WRITE, group_id, [part])
            answer: Sequence[StateResult] = yield from shards.request_steps(key.coordinator_key(), body, request)
            results[key[1:]] = answer[0]
            yield None
            if answer[0].error_code:
                break
    return to_response(StateOperation.WRITE, results)


def _parts(
    operation: StateOperation, group_id: str, places: Sequence[SharePlace], shards: ShareStateShards
) -> list[tuple[str, StateRequest]]:
    """Return the part of a request for each coordinator, with a key of this coordinator."""
    by_index: dict[int, tuple[str, list[SharePlace]]] = {}
    for place in places:
        key = SharePartitionKey(group_id, place.topic_id, place.partition).coordinator_key()
        by_index.setdefault(shards.index_of(key), (key, []))[1].append(place)
    return [(key, StateRequest(operation, group_id, some)) for key, some in by_index.values()]


def _in_order(places: Sequence[SharePlace], found: Sequence[tuple[SharePlace, StateResult]]) -> dict[StatePlaceKey, StateResult]:
    """Return the results in the order of the request. A share partition that is named twice has its last result."""
    known = {(place.topic_id, place.partition): result for place, result in found}
    return {key: known[key] for key in [(place.topic_id, place.partition) for place in places]}
