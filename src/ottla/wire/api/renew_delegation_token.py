"""RenewDelegationToken (API key 39): a delegation token expires later. KIP-48."""

from __future__ import annotations

from ottla.wire.schema import Message, i16, i32, i64, since


class RenewDelegationTokenRequest(Message, key=39, valid="0-2", flexible="2+"):
    """A request to renew a delegation token: the token's HMAC, and the new period until it expires."""

    hmac: bytes = since()
    renew_period_ms: i64 = since()


class RenewDelegationTokenResponse(Message, key=39, valid="0-2", flexible="2+"):
    """The answer to a RenewDelegationToken request: the time at which the token expires."""

    error_code: i16 = since()
    expiry_timestamp_ms: i64 = since()
    throttle_time_ms: i32 = since()
