"""Error responses for requests to groups that the coordinator cannot decide. The module uses only messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Never

from ottla.coord.kinds import KINDS
from ottla.coord.offsets import StableFetch, commit_refused, pending_refused
from ottla.coord.outcome import TopicsDeleted, TopicsForgotten
from ottla.coord.records import TransactionEnded
from ottla.wire.api.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.api.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ottla.wire.api.txn_offset_commit import TxnOffsetCommitRequest

FetchGroup = OffsetFetchRequest.OffsetFetchRequestGroup


def refuse(body: object, error_code: int) -> object:
    """Return the reply to a request, or to part of one, with `error_code` in every error field."""
    return _REFUSED[type(body)](body, error_code)  # type: ignore[arg-type]  # the table's keys are the bodies' types


def _delete(body: DeleteGroupsRequest, error_code: int) -> DeleteGroupsResponse:
    result = DeleteGroupsResponse.DeletableGroupResult
    return DeleteGroupsResponse(results=[result(group_id=group_id, error_code=error_code) for group_id in body.groups_names])


def _forget_topics(body: TopicsDeleted, error_code: int) -> TopicsForgotten:
    return TopicsForgotten(body.names, error_code)


def _fetch(body: FetchGroup, error_code: int) -> OffsetFetchResponse.OffsetFetchResponseGroup:
    return OffsetFetchResponse.OffsetFetchResponseGroup(group_id=body.group_id, error_code=error_code)


_REFUSED: dict[type, Callable[[Never, int], object]] = {
    OffsetCommitRequest: commit_refused,
    TxnOffsetCommitRequest: pending_refused,
    TransactionEnded: lambda body, error_code: error_code,
    OffsetDeleteRequest: lambda body, error_code: OffsetDeleteResponse(error_code=error_code),
    ListGroupsRequest: lambda body, error_code: ListGroupsResponse(error_code=error_code),
    FetchGroup: _fetch,
    StableFetch: lambda body, error_code: _fetch(body.wanted, error_code),
    DeleteGroupsRequest: _delete,
    TopicsDeleted: _forget_topics,
}
for _kind in KINDS:
    _REFUSED.update(_kind.refusals)
