"""AddRaftVoter (API key 80): a controller joins the voters.

KIP-853. Version 1 can request a response before the change is committed.
"""

from __future__ import annotations

from ottla.wire.api.describe_quorum import DescribeQuorumResponse
from ottla.wire.schema import Message, Uuid, i16, i32, since


class AddRaftVoterRequest(Message, key=80, valid="0-1", flexible="0+"):
    """A request to add a controller to the voters of the metadata quorum, with its id, directory and listeners."""

    cluster_id: str | None = since()
    timeout_ms: i32 = since()
    voter_id: i32 = since()
    voter_directory_id: Uuid = since()
    listeners: list[DescribeQuorumResponse.Listener] = since()
    ack_when_committed: bool = since("1+", default=True)


class AddRaftVoterResponse(Message, key=80, valid="0-1", flexible="0+"):
    """The answer to an AddRaftVoter request: an error code, 0 if the voter was added."""

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since(ignorable=True)
