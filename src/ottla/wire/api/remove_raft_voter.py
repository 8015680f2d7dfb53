"""RemoveRaftVoter (API key 81): a controller leaves the voters.

KIP-853.
"""

from __future__ import annotations

from ottla.wire.schema import Message, Uuid, i16, i32, since


class RemoveRaftVoterRequest(Message, key=81, valid="0", flexible="0+"):
    """Id and directory of the voter."""

    cluster_id: str | None = since()
    voter_id: i32 = since()
    voter_directory_id: Uuid = since()


class RemoveRaftVoterResponse(Message, key=81, valid="0", flexible="0+"):
    """The error, if the voter was not removed."""

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since(ignorable=True)
