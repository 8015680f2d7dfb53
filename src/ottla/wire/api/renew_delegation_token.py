"""RenewDelegationToken (API key 39): a delegation token lives longer.

KIP-48.
"""

from __future__ import annotations

from ottla.wire.schema import Message, i16, i32, i64, message, since


@message(key=39, valid="0-2", flexible="2+")
class RenewDelegationTokenRequest(Message):
    """The token's key, and for how long."""

    hmac: bytes = since()
    renew_period_ms: i64 = since()


@message(key=39, valid="0-2", flexible="2+")
class RenewDelegationTokenResponse(Message):
    """When it now expires."""

    error_code: i16 = since()
    expiry_timestamp_ms: i64 = since()
    throttle_time_ms: i32 = since()
