"""An admin client's requests about SCRAM users (KIP-554). The module sends nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from ottla.client.arguments import text as check_text
from ottla.client.arguments import whole
from ottla.client.errors import raise_for
from ottla.errors import SettingError
from ottla.sasl.saslprep import saslprep
from ottla.sasl.scram import ALGORITHMS, LEAST_ITERATIONS, SHA_256, Algorithm, nonce
from ottla.wire.api.alter_user_scram_credentials import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
from ottla.wire.api.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse
from ottla.wire.errors import RESOURCE_NOT_FOUND

DEFAULT_MECHANISM: Final = SHA_256.name
DEFAULT_ITERATIONS: Final = LEAST_ITERATIONS
_NAMES: Final = {algorithm.number: name for name, algorithm in ALGORITHMS.items()}

Users = Mapping[str, Mapping[str, int]]
"""user -> mechanism -> iterations"""


def algorithm_of(mechanism: str) -> Algorithm:
    """Return the algorithm of a SCRAM mechanism. Raises `SettingError`."""
    if mechanism not in ALGORITHMS:
        raise SettingError(f"{mechanism!r} is not a SCRAM mechanism: choose one of {', '.join(ALGORITHMS)}.")
    return ALGORITHMS[mechanism]


def set_password_request(
    user: str, password: str, algorithm: Algorithm, iterations: int, random_bytes: Callable[[int], bytes]
) -> AlterUserScramCredentialsRequest:
    """Build the request that sets a password. Raises `SettingError` for texts that clients encode differently.

    Hashing takes some milliseconds of processor time.
    """
    for what, text in (("name", user), ("password", password)):
        if not check_text(f"A user's {what}", text, shown=False) or saslprep(text) != text:
            raise SettingError(
                f"This {what} is empty, or has characters that clients encode differently (RFC 4013): choose another {what}."
            )
    whole("iterations", iterations, 1)
    salt = nonce(random_bytes).encode()
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=user,
        mechanism=algorithm.number,
        iterations=iterations,
        salt=salt,
        salted_password=algorithm.salt_password(password, salt, iterations),
    )
    return AlterUserScramCredentialsRequest(upsertions=[upsertion])


def remove_request(user: str, mechanism: str) -> AlterUserScramCredentialsRequest:
    """Build the request that removes a credential. Raises `TypeError`, `SettingError`."""
    check_text("A user's name", user)
    deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion(name=user, mechanism=algorithm_of(mechanism).number)
    return AlterUserScramCredentialsRequest(deletions=[deletion])


def check_altered(answer: AlterUserScramCredentialsResponse) -> None:
    """Raise `BrokerError` for the first user that was not changed."""
    for result in answer.results:
        raise_for(result.error_code, f"User {result.user}", result.error_message)


def describe_request(users: Collection[str]) -> DescribeUserScramCredentialsRequest:
    named = DescribeUserScramCredentialsRequest.UserName
    return DescribeUserScramCredentialsRequest(users=[named(name=user) for user in users] if users else None)


def read_users(answer: DescribeUserScramCredentialsResponse) -> Users:
    """Return the users that have credentials. Raises `BrokerError`."""
    raise_for(answer.error_code, "Describing users", answer.error_message)
    found = {}
    for result in sorted(answer.results, key=lambda result: result.user):
        if result.error_code != RESOURCE_NOT_FOUND:
            raise_for(result.error_code, f"User {result.user}", result.error_message)
            found[result.user] = {_NAMES.get(info.mechanism, "unknown"): info.iterations for info in result.credential_infos}
    return found
