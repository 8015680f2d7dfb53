"""FindCoordinator (API key 10): the coordinators of groups and transactions.

Version 1 adds transactions (KIP-98), 4 requests several keys (KIP-699), 5 can return TRANSACTION_ABORTABLE (KIP-890), 6 adds share
groups (KIP-932).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i8, i16, i32, since


class FindCoordinatorRequest(Message, key=10, valid="0-6", flexible="3+"):
    """A request for the coordinators of keys. The key type is 0 for groups, 1 for transactional ids, 2 for share groups."""

    key: str = since("0-3")
    key_type: i8 = since("1+")
    coordinator_keys: list[str] = since("4+")


class FindCoordinatorResponse(Message, key=10, valid="0-6", flexible="3+"):
    """The node id and the address of the coordinator of each key."""

    class Coordinator(Struct):
        key: str = since("4+")
        node_id: i32 = since("4+")
        host: str = since("4+")
        port: i32 = since("4+")
        error_code: i16 = since("4+")
        error_message: str | None = since("4+", ignorable=True)

    throttle_time_ms: i32 = since("1+", ignorable=True)
    error_code: i16 = since("0-3")
    error_message: str | None = since("1-3", ignorable=True)
    node_id: i32 = since("0-3")
    host: str = since("0-3")
    port: i32 = since("0-3")
    coordinators: list[FindCoordinatorResponse.Coordinator] = since("4+")
