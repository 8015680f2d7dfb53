"""An admin client's requests about SCRAM users (KIP-554). The module sends nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from ottla.client.admin.results import Results, outcome
from ottla.client.arguments import text as check_text
from ottla.client.arguments import whole
from ottla.client.errors import KafkaError, broker_error, raise_for
from ottla.errors import SettingError
from ottla.sasl.saslprep import saslprep
from ottla.sasl.scram import ALGORITHMS, LEAST_ITERATIONS, SHA_256, Algorithm, nonce
from ottla.wire.api.alter_user_scram_credentials import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
from ottla.wire.api.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse
from ottla.wire.errors import NONE, RESOURCE_NOT_FOUND

DEFAULT_MECHANISM: Final = SHA_256.name
DEFAULT_ITERATIONS: Final = LEAST_ITERATIONS
_MOST_HASHED: Final = 1_000_000
"""The most iterations that are computed: half a second of processor time."""
_NAMES: Final = {algorithm.number: name for name, algorithm in ALGORITHMS.items()}

Users = Mapping[str, Mapping[str, int]]
"""user -> mechanism -> iterations"""


def algorithm_of(mechanism: str) -> Algorithm:
    """Return the algorithm of a SCRAM mechanism. Raises `SettingError`."""
    if mechanism not in ALGORITHMS:
        raise SettingError(f"{mechanism!r} is not a SCRAM mechanism: choose one of {', '.join(ALGORITHMS)}.")
    return ALGORITHMS[mechanism]


def set_passwords_request(
    passwords: Mapping[str, str], algorithm: Algorithm, iterations: int, random_bytes: Callable[[int], bytes]
) -> AlterUserScramCredentialsRequest:
    """Build the request that sets passwords of users. Raises `SettingError` for texts that clients encode differently.

    Hashing takes some milliseconds of processor time for each.
    """
    if whole("iterations", iterations, 1) > _MOST_HASHED:  # brokers allow fewer, but would be asked only after the hashing
        raise SettingError(f"iterations is at most {_MOST_HASHED}, not {iterations}: choose {LEAST_ITERATIONS} to 16384.")
    upsertions = []
    for user, password in passwords.items():
        for what, given in (("name", user), ("password", password)):
            if not check_text(f"A user's {what}", given, shown=False) or saslprep(given) != given:
                raise SettingError(
                    f"This {what} is empty, or has characters that clients encode differently (RFC 4013): choose another {what}."
                )
        salt = nonce(random_bytes).encode()
        upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
            name=user,
            mechanism=algorithm.number,
            iterations=iterations,
            salt=salt,
            salted_password=algorithm.salt_password(password, salt, iterations),
        )
        upsertions.append(upsertion)
    return AlterUserScramCredentialsRequest(upsertions=upsertions)


def remove_request(users: Iterable[str], mechanism: str) -> AlterUserScramCredentialsRequest:
    """Build the request that removes credentials of users. Raises `SettingError`."""
    deletion, number = AlterUserScramCredentialsRequest.ScramCredentialDeletion, algorithm_of(mechanism).number
    return AlterUserScramCredentialsRequest(deletions=[deletion(name=user, mechanism=number) for user in users])


def read_altered(answer: AlterUserScramCredentialsResponse) -> Iterator[tuple[str, KafkaError | None]]:
    """Yield (user, its error or None) for each user in the answer."""
    for result in answer.results:
        yield result.user, outcome(result.error_code, None, f"User {result.user}", result.error_message)


def describe_request(users: Collection[str]) -> DescribeUserScramCredentialsRequest:
    named = DescribeUserScramCredentialsRequest.UserName
    return DescribeUserScramCredentialsRequest(users=[named(name=user) for user in users] if users else None)


def read_users(answer: DescribeUserScramCredentialsResponse) -> Results[str, Mapping[str, int]]:
    """Return the users that have credentials, and the errors of others. Raises `BrokerError` if all were refused."""
    raise_for(answer.error_code, "Describing users", answer.error_message)
    found: Results[str, Mapping[str, int]] = Results()
    for result in sorted(answer.results, key=lambda result: result.user):
        if result.error_code not in (NONE, RESOURCE_NOT_FOUND):
            found.errors[result.user] = broker_error(result.error_code, f"User {result.user}", result.error_message)
        elif not result.error_code:
            found[result.user] = {_NAMES.get(info.mechanism, "unknown"): info.iterations for info in result.credential_infos}
    return found
