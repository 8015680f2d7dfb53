"""UnregisterBroker (API key 64): a broker that is gone is removed from the metadata.

KIP-631.
"""

from __future__ import annotations

from ottla.wire.schema import Message, i16, i32, message, since


@message(key=64, valid="0", flexible="0+")
class UnregisterBrokerRequest(Message):
    """The broker's id."""

    broker_id: i32 = since()


@message(key=64, valid="0", flexible="0+")
class UnregisterBrokerResponse(Message):
    """The error, if the broker was not removed."""

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since()
