"""BrokerHeartbeat (API key 63): a broker keeps its registration with the controller alive.

KIP-631. Version 1 adds failed directories (KIP-858), 2 cordoned directories (KIP-1066).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Uuid, i16, i32, i64, since


class BrokerHeartbeatRequest(Message, key=63, valid="0-2", flexible="0+"):
    """A broker's heartbeat to the controller.

    It has the last metadata offset that the broker has applied, and whether the broker requests to be fenced or to shut down.
    """

    broker_id: i32 = since()
    broker_epoch: i64 = since(default=-1)
    current_metadata_offset: i64 = since()
    want_fence: bool = since()
    want_shut_down: bool = since()
    offline_log_dirs: list[Uuid] = since("1+", tag=0)
    cordoned_log_dirs: list[Uuid] | None = since("2+", tag=1, default=None)


class BrokerHeartbeatResponse(Message, key=63, valid="0-2", flexible="0+"):
    """The controller's answer to a heartbeat: whether the broker has caught up, is fenced, and should shut down."""

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    is_caught_up: bool = since()
    is_fenced: bool = since(default=True)
    should_shut_down: bool = since()
