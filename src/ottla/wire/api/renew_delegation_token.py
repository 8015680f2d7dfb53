"""RenewDelegationToken (API key 39): a delegation token expires later.

KIP-48.
"""

from __future__ import annotations

from ottla.wire.schema import Message, i16, i32, i64, since


class RenewDelegationTokenRequest(Message, key=39, valid="0-2", flexible="2+"):
    """The token's HMAC, and the time to add."""

    hmac: bytes = since()
    renew_period_ms: i64 = since()


class RenewDelegationTokenResponse(Message, key=39, valid="0-2", flexible="2+"):
    """The expiry of the token."""

    error_code: i16 = since()
    expiry_timestamp_ms: i64 = since()
    throttle_time_ms: i32 = since()
