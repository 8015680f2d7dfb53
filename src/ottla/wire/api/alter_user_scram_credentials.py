"""AlterUserScramCredentials (API key 51): SCRAM credentials are set or removed. KIP-554."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i8, i16, i32, since


class AlterUserScramCredentialsRequest(Message, key=51, valid="0", flexible="0+"):
    """A request to set salted SCRAM passwords of users, and to remove SCRAM mechanisms of users."""

    class ScramCredentialDeletion(Struct):
        name: str = since()
        mechanism: i8 = since()

    class ScramCredentialUpsertion(Struct):
        name: str = since()
        mechanism: i8 = since()
        iterations: i32 = since()
        salt: bytes = since()
        salted_password: bytes = since()

    deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion] = since()
    upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion] = since()


class AlterUserScramCredentialsResponse(Message, key=51, valid="0", flexible="0+"):
    """The answer to an AlterUserScramCredentials request: an error code for each user."""

    class AlterUserScramCredentialsResult(Struct):
        user: str = since()
        error_code: i16 = since()
        error_message: str | None = since()

    throttle_time_ms: i32 = since()
    results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult] = since()
