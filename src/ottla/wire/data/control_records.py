"""Keys and values of control records, and the records with which a metadata log begins and ends."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i16, i32, i64, since, u16


class ControlRecordTypeSchema(Message, valid="0"):
    """The key of a control record: its type.

    The types are 0 abort, 1 commit, 2 leader change, 3 and 4 snapshot header and footer, 5 KRaft version, 6 voters.
    """

    type: i16 = since()


class EndTxnMarker(Message, valid="0"):
    """The value of a transaction marker: the epoch of the coordinator that wrote the marker."""

    coordinator_epoch: i32 = since()


class LeaderChangeMessage(Message, valid="0-1", flexible="0+"):
    """The value of a leader change in a quorum, with its voters."""

    class Voter(Struct):
        voter_id: i32 = since()
        voter_directory_id: Uuid = since("1+")

    version: i16 = since()
    leader_id: i32 = since()
    voters: list[LeaderChangeMessage.Voter] = since()
    granting_voters: list[LeaderChangeMessage.Voter] = since()


class SnapshotHeaderRecord(Message, valid="0", flexible="0+"):
    """The value of a snapshot's header."""

    version: i16 = since()
    last_contained_log_timestamp: i64 = since()


class SnapshotFooterRecord(Message, valid="0", flexible="0+"):
    """The value of a snapshot's footer."""

    version: i16 = since()


class KRaftVersionRecord(Message, valid="0", flexible="0+"):
    """The value of a KRaft version record: the version of the quorum's protocol (KIP-853)."""

    version: i16 = since()
    kraft_version: i16 = since()


class VotersRecord(Message, valid="0", flexible="0+"):
    """The value of a voters record: the voters of the quorum with their listeners (KIP-853)."""

    class Endpoint(Struct):
        name: str = since()
        host: str = since()
        port: u16 = since()

    class KRaftVersionFeature(Struct):
        min_supported_version: i16 = since()
        max_supported_version: i16 = since()

    class Voter(Struct):
        voter_id: i32 = since()
        voter_directory_id: Uuid = since()
        endpoints: list[VotersRecord.Endpoint] = since()
        kraft_version_feature: VotersRecord.KRaftVersionFeature = since()

    version: i16 = since()
    voters: list[VotersRecord.Voter] = since()
