"""UnregisterBroker (API key 64): a broker that is gone is removed from the metadata. KIP-631."""

from __future__ import annotations

from ottla.wire.schema import Message, i16, i32, since


class UnregisterBrokerRequest(Message, key=64, valid="0", flexible="0+"):
    """A request to remove the registration of a broker, by its id."""

    broker_id: i32 = since()


class UnregisterBrokerResponse(Message, key=64, valid="0", flexible="0+"):
    """The answer to an UnregisterBroker request: an error code, 0 if the broker was removed."""

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since()
