"""DeleteGroups (API key 42): empty groups are deleted. KIP-229. Version 3 adds a message to the error."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, since


class DeleteGroupsRequest(Message, key=42, valid="0-3", flexible="2+"):
    """A request to delete groups, by group id."""

    groups_names: list[str] = since()


class DeleteGroupsResponse(Message, key=42, valid="0-3", flexible="2+"):
    """The answer to a DeleteGroups request: an error code for each group."""

    class DeletableGroupResult(Struct):
        group_id: str = since()
        error_code: i16 = since()
        error_message: str | None = since("3+", default=None, ignorable=True)

    throttle_time_ms: i32 = since()
    results: list[DeleteGroupsResponse.DeletableGroupResult] = since()
