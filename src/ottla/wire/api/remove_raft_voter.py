"""RemoveRaftVoter (API key 81): a controller leaves the voters. KIP-853."""

from __future__ import annotations

from ottla.wire.schema import Message, Uuid, i16, i32, since


class RemoveRaftVoterRequest(Message, key=81, valid="0", flexible="0+"):
    """A request to remove a controller from the voters of the metadata quorum, by its id and directory."""

    cluster_id: str | None = since()
    voter_id: i32 = since()
    voter_directory_id: Uuid = since()


class RemoveRaftVoterResponse(Message, key=81, valid="0", flexible="0+"):
    """The answer to a RemoveRaftVoter request: an error code, 0 if the voter was removed."""

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since(ignorable=True)
