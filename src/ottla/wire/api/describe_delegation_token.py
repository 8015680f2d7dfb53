"""DescribeDelegationToken (API key 41): the delegation tokens of owners.

KIP-48. Version 3 adds the requester of each token (KIP-373).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, i64, since


class DescribeDelegationTokenRequest(Message, key=41, valid="0-3", flexible="2+"):
    """A request for the delegation tokens of some owners. Null means all tokens that the client is allowed to describe."""

    class DescribeDelegationTokenOwner(Struct):
        principal_type: str = since()
        principal_name: str = since()

    owners: list[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None = since()


class DescribeDelegationTokenResponse(Message, key=41, valid="0-3", flexible="2+"):
    """The delegation tokens that match the request."""

    class DescribedDelegationTokenRenewer(Struct):
        principal_type: str = since()
        principal_name: str = since()

    class DescribedDelegationToken(Struct):
        principal_type: str = since()
        principal_name: str = since()
        token_requester_principal_type: str = since("3+")
        token_requester_principal_name: str = since("3+")
        issue_timestamp: i64 = since()
        expiry_timestamp: i64 = since()
        max_timestamp: i64 = since()
        token_id: str = since()
        hmac: bytes = since()
        renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer] = since()

    error_code: i16 = since()
    tokens: list[DescribeDelegationTokenResponse.DescribedDelegationToken] = since()
    throttle_time_ms: i32 = since()
