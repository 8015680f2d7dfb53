"""The five messages of the share coordinator, converted from and to the values of `ottla.coord.share_state`.

Depends on neither coordinators nor connections: handlers and the persister share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from ottla.coord.share_state.inputs import (
    DeleteState,
    InitializeState,
    ReadState,
    SharePlace,
    StateOperation,
    StateResult,
    WriteState,
)
from ottla.wire.api.delete_share_group_state import DeleteShareGroupStateRequest, DeleteShareGroupStateResponse
from ottla.wire.api.initialize_share_group_state import InitializeShareGroupStateRequest, InitializeShareGroupStateResponse
from ottla.wire.api.read_share_group_state import ReadShareGroupStateRequest, ReadShareGroupStateResponse
from ottla.wire.api.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
)
from ottla.wire.api.write_share_group_state import WriteShareGroupStateRequest, WriteShareGroupStateResponse
from ottla.wire.schema import Message

Item = TypeVar("Item")
StatePlaceKey = tuple[bytes, int]
"""A topic id and a partition."""

StateBatchMessage = ReadShareGroupStateResponse.StateBatch


class StateApi(NamedTuple):
    """The messages of one operation, and functions that convert one partition of them."""

    request: Callable[..., Any]
    topic: Callable[..., Any]
    response: Callable[..., Any]
    result: Callable[..., Any]
    to_partition: Callable[[Any], Any]
    from_partition: Callable[[bytes, Any], SharePlace]
    to_result: Callable[[int, StateResult], Any]
    from_result: Callable[[Any], StateResult]


def _outcome(partition: int, result: StateResult) -> WriteShareGroupStateResponse.PartitionResult:
    return WriteShareGroupStateResponse.PartitionResult(
        partition=partition, error_code=result.error_code, error_message=result.error_message
    )


def _from_outcome(part: WriteShareGroupStateResponse.PartitionResult) -> StateResult:
    return StateResult(part.error_code, part.error_message)


def _to_write(place: WriteState) -> WriteShareGroupStateRequest.PartitionData:
    return WriteShareGroupStateRequest.PartitionData(
        partition=place.partition,
        state_epoch=place.state_epoch,
        leader_epoch=place.leader_epoch,
        start_offset=place.start_offset,
        delivery_complete_count=place.delivery_complete_count,
        state_batches=[
            StateBatchMessage(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
            for first, last, state, count in place.batches
        ],
    )


def _from_write(topic_id: bytes, part: WriteShareGroupStateRequest.PartitionData) -> WriteState:
    return WriteState(
        topic_id,
        part.partition,
        part.state_epoch,
        part.leader_epoch,
        part.start_offset,
        part.delivery_complete_count,
        _batches(part.state_batches),
    )


def _batches(batches: Iterable[StateBatchMessage]) -> tuple[tuple[int, int, int, int], ...]:
    return tuple((each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in batches)


def _to_read_result(partition: int, result: StateResult) -> ReadShareGroupStateResponse.PartitionResult:
    return ReadShareGroupStateResponse.PartitionResult(
        partition=partition,
        error_code=result.error_code,
        error_message=result.error_message,
        state_epoch=result.state_epoch,
        start_offset=result.start_offset,
        state_batches=[
            StateBatchMessage(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
            for first, last, state, count in result.batches
        ],
    )


def _from_read_result(part: ReadShareGroupStateResponse.PartitionResult) -> StateResult:
    return StateResult(
        part.error_code,
        part.error_message,
        state_epoch=part.state_epoch,
        start_offset=part.start_offset,
        batches=_batches(part.state_batches),
    )


def _to_summary(partition: int, result: StateResult) -> ReadShareGroupStateSummaryResponse.PartitionResult:
    return ReadShareGroupStateSummaryResponse.PartitionResult(
        partition=partition,
        error_code=result.error_code,
        error_message=result.error_message,
        state_epoch=result.state_epoch,
        leader_epoch=result.leader_epoch,
        start_offset=result.start_offset,
        delivery_complete_count=result.delivery_complete_count,
    )


def _from_summary(part: ReadShareGroupStateSummaryResponse.PartitionResult) -> StateResult:
    return StateResult(
        part.error_code, part.error_message, part.state_epoch, part.leader_epoch, part.start_offset, part.delivery_complete_count
    )


def _read_part(place: ReadState) -> ReadShareGroupStateRequest.PartitionData:
    return ReadShareGroupStateRequest.PartitionData(partition=place.partition, leader_epoch=place.leader_epoch)


def _read_place(topic_id: bytes, part: ReadShareGroupStateRequest.PartitionData) -> ReadState:
    return ReadState(topic_id, part.partition, part.leader_epoch)


APIS: Final[Mapping[StateOperation, StateApi]] = {
    StateOperation.INITIALIZE: StateApi(
        InitializeShareGroupStateRequest,
        InitializeShareGroupStateRequest.InitializeStateData,
        InitializeShareGroupStateResponse,
        InitializeShareGroupStateResponse.InitializeStateResult,
        lambda place: InitializeShareGroupStateRequest.PartitionData(
            partition=place.partition, state_epoch=place.state_epoch, start_offset=place.start_offset
        ),
        lambda topic_id, part: InitializeState(topic_id, part.partition, part.state_epoch, part.start_offset),
        _outcome,
        _from_outcome,
    ),
    StateOperation.READ: StateApi(
        ReadShareGroupStateRequest,
        ReadShareGroupStateRequest.ReadStateData,
        ReadShareGroupStateResponse,
        ReadShareGroupStateResponse.ReadStateResult,
        _read_part,
        _read_place,
        _to_read_result,
        _from_read_result,
    ),
    StateOperation.WRITE: StateApi(
        WriteShareGroupStateRequest,
        WriteShareGroupStateRequest.WriteStateData,
        WriteShareGroupStateResponse,
        WriteShareGroupStateResponse.WriteStateResult,
        _to_write,
        _from_write,
        _outcome,
        _from_outcome,
    ),
    StateOperation.DELETE: StateApi(
        DeleteShareGroupStateRequest,
        DeleteShareGroupStateRequest.DeleteStateData,
        DeleteShareGroupStateResponse,
        DeleteShareGroupStateResponse.DeleteStateResult,
        lambda place: DeleteShareGroupStateRequest.PartitionData(partition=place.partition),
        lambda topic_id, part: DeleteState(topic_id, part.partition),
        _outcome,
        _from_outcome,
    ),
    StateOperation.READ_SUMMARY: StateApi(
        ReadShareGroupStateSummaryRequest,
        ReadShareGroupStateSummaryRequest.ReadStateSummaryData,
        ReadShareGroupStateSummaryResponse,
        ReadShareGroupStateSummaryResponse.ReadStateSummaryResult,
        _read_part,
        _read_place,
        _to_summary,
        _from_summary,
    ),
}


def to_request(operation: StateOperation, group_id: str, places: Sequence[SharePlace]) -> Message:
    """Return the request for an operation on share partitions of a group."""
    api = APIS[operation]
    topics = [
        api.topic(topic_id=topic_id, partitions=list(map(api.to_partition, some)))
        for topic_id, some in _by_topic((place.topic_id, place) for place in places).items()
    ]
    message: Message = api.request(group_id=group_id, topics=topics)
    return message


def places_of(operation: StateOperation, topics: Iterable[Any]) -> list[SharePlace]:
    """Return the share partitions of a request's topics, in order."""
    convert = APIS[operation].from_partition
    return [convert(topic.topic_id, part) for topic in topics for part in topic.partitions]


def to_response(operation: StateOperation, results: Mapping[StatePlaceKey, StateResult]) -> Message:
    """Return the response with the result of each share partition."""
    api = APIS[operation]
    parts = _by_topic((topic_id, api.to_result(index, result)) for (topic_id, index), result in results.items())
    message: Message = api.response(results=[api.result(topic_id=topic_id, partitions=some) for topic_id, some in parts.items()])
    return message


def results_of(operation: StateOperation, response: Any) -> dict[StatePlaceKey, StateResult]:
    """Return the results in a response, by topic id and partition."""
    convert = APIS[operation].from_result
    return {(topic.topic_id, part.partition): convert(part) for topic in response.results for part in topic.partitions}


def _by_topic(items: Iterable[tuple[bytes, Item]]) -> dict[bytes, list[Item]]:
    found: dict[bytes, list[Item]] = {}
    for topic_id, item in items:
        found.setdefault(topic_id, []).append(item)
    return found
