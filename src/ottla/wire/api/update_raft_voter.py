"""UpdateRaftVoter (API key 82): a voter changes its listeners. KIP-853."""

from __future__ import annotations

from ottla.wire.api.describe_quorum import DescribeQuorumResponse
from ottla.wire.schema import Message, Struct, Uuid, i16, i32, since


class UpdateRaftVoterRequest(Message, key=82, valid="0", flexible="0+"):
    """A quorum voter's message to the leader: its new listeners, and its new range of supported quorum versions."""

    class KRaftVersionFeature(Struct):
        min_supported_version: i16 = since()
        max_supported_version: i16 = since()

    cluster_id: str | None = since()
    current_leader_epoch: i32 = since()
    voter_id: i32 = since()
    voter_directory_id: Uuid = since()
    listeners: list[DescribeQuorumResponse.Listener] = since()
    kraft_version_feature: UpdateRaftVoterRequest.KRaftVersionFeature = since()


class UpdateRaftVoterResponse(Message, key=82, valid="0", flexible="0+"):
    """The answer to an UpdateRaftVoter request: an error code, 0 if the listeners were accepted."""

    class CurrentLeader(Struct):
        leader_id: i32 = since(default=-1)
        leader_epoch: i32 = since(default=-1)
        host: str = since()
        port: i32 = since()

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    current_leader: UpdateRaftVoterResponse.CurrentLeader | None = since(tag=0, default=None)
