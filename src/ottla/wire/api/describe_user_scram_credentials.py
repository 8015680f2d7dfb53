"""DescribeUserScramCredentials (API key 50): the SCRAM credentials of users, without secrets. KIP-554."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i8, i16, i32, since


class DescribeUserScramCredentialsRequest(Message, key=50, valid="0", flexible="0+"):
    """A request for the SCRAM credentials of some users; null means all users."""

    class UserName(Struct):
        name: str = since()

    users: list[DescribeUserScramCredentialsRequest.UserName] | None = since()


class DescribeUserScramCredentialsResponse(Message, key=50, valid="0", flexible="0+"):
    """The SCRAM mechanisms and iteration counts of each user, never the secrets."""

    class CredentialInfo(Struct):
        mechanism: i8 = since()
        iterations: i32 = since()

    class DescribeUserScramCredentialsResult(Struct):
        user: str = since()
        error_code: i16 = since()
        error_message: str | None = since()
        credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo] = since()

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since()
    results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult] = since()
