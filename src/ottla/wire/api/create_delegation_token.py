"""CreateDelegationToken (API key 38): a delegation token is created. KIP-48. Version 3 allows another owner (KIP-373)."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, i64, since


class CreateDelegationTokenRequest(Message, key=38, valid="0-3", flexible="2+"):
    """A request for a new delegation token, with the principals that can renew it and its maximum lifetime."""

    class CreatableRenewers(Struct):
        principal_type: str = since()
        principal_name: str = since()

    owner_principal_type: str | None = since("3+")
    owner_principal_name: str | None = since("3+")
    renewers: list[CreateDelegationTokenRequest.CreatableRenewers] = since()
    max_lifetime_ms: i64 = since()


class CreateDelegationTokenResponse(Message, key=38, valid="0-3", flexible="2+"):
    """The new delegation token: its id, its times and its HMAC."""

    error_code: i16 = since()
    principal_type: str = since()
    principal_name: str = since()
    token_requester_principal_type: str = since("3+")
    token_requester_principal_name: str = since("3+")
    issue_timestamp_ms: i64 = since()
    expiry_timestamp_ms: i64 = since()
    max_timestamp_ms: i64 = since()
    token_id: str = since()
    hmac: bytes = since()
    throttle_time_ms: i32 = since()
