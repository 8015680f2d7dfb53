"""DescribeUserScramCredentials and AlterUserScramCredentials: the SCRAM credentials of users (KIP-554).

Served for SCRAM-SHA-256 and SCRAM-SHA-512. No response contains a secret. Version 0 is the only version.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from ottla.broker.security.credentials import Credentials
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.parts import ResponseWriter
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.cluster.scram import ScramRemoval, ScramUpsertion
from ottla.ports import Steps
from ottla.wire.api.alter_user_scram_credentials import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
from ottla.wire.api.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse
from ottla.wire.errors import DUPLICATE_RESOURCE, RESOURCE_NOT_FOUND

MOST_USERS: Final = 3000
USERS_AT_ONCE: Final = 50
"""Users described between two pauses."""

Altered = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
Described = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
Info = DescribeUserScramCredentialsResponse.CredentialInfo


@serves(
    AlterUserScramCredentialsRequest,
    Need(Operation.ALTER, Resource.CLUSTER),
    controller_only=True,
    most=MOST_USERS,
    to_the_end=True,
)
def alter_user_scram_credentials(request: Request[AlterUserScramCredentialsRequest], credentials: Credentials) -> Steps[Reply]:
    """Set and remove credentials; each user has its own result."""
    body = request.body
    removals = [ScramRemoval(each.name, each.mechanism) for each in body.deletions]
    upsertions = [
        ScramUpsertion(each.name, each.mechanism, each.iterations, bytes(each.salt), bytes(each.salted_password))
        for each in body.upsertions
    ]
    decisions = yield from credentials.alter(removals, upsertions)
    results = [Altered(user=one.name, error_code=one.error_code, error_message=one.message) for one in decisions]
    return AlterUserScramCredentialsResponse(results=results)


@serves(DescribeUserScramCredentialsRequest, Need(Operation.DESCRIBE, Resource.CLUSTER), most=MOST_USERS)
def describe_user_scram_credentials(
    request: Request[DescribeUserScramCredentialsRequest], credentials: Credentials
) -> Steps[Reply]:
    named = Counter(each.name for each in request.body.users or ())
    users = list(named or credentials.users())
    writer = ResponseWriter(request, ("results",), DescribeUserScramCredentialsResponse(error_message=None))
    for begin in range(0, len(users), USERS_AT_ONCE):
        some = users[begin : begin + USERS_AT_ONCE]
        results = [_describe(user, named[user], credentials) for user in some if named or credentials.of(user)]
        yield from writer.put((DescribeUserScramCredentialsResponse(error_message=None, results=results),))
    return writer.reply()


def _describe(user: str, times: int, credentials: Credentials) -> Described:
    if times > 1:
        sentence = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}; name it once."
        return Described(user=user, error_code=DUPLICATE_RESOURCE, error_message=sentence)
    found = credentials.of(user)
    if not found:
        sentence = f"Attempt to describe a user credential that does not exist: {user}; add one first."
        return Described(user=user, error_code=RESOURCE_NOT_FOUND, error_message=sentence)
    infos = [Info(mechanism=algorithm.number, iterations=credential.iterations) for algorithm, credential in found.items()]
    return Described(user=user, error_message=None, credential_infos=infos)
