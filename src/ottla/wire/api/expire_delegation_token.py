"""ExpireDelegationToken (API key 40): a delegation token expires earlier. KIP-48."""

from __future__ import annotations

from ottla.wire.schema import Message, i16, i32, i64, since


class ExpireDelegationTokenRequest(Message, key=40, valid="0-2", flexible="2+"):
    """A request to change when a delegation token expires: the token's HMAC, and the new period until it expires."""

    hmac: bytes = since()
    expiry_time_period_ms: i64 = since()


class ExpireDelegationTokenResponse(Message, key=40, valid="0-2", flexible="2+"):
    """The answer to an ExpireDelegationToken request: the time at which the token expires."""

    error_code: i16 = since()
    expiry_timestamp_ms: i64 = since()
    throttle_time_ms: i32 = since()
