"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and DescribeDelegationToken (KIP-48, KIP-373).

Refused unless the client is authenticated by SASL or a TLS certificate, and not by a delegation token. Version 3 of
CreateDelegationToken and DescribeDelegationToken added an owner other than the requester.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.broker.security.rights import Rights
from ottla.broker.security.tokens import DelegationTokens
from ottla.broker.serving.authorization import Operation, Resource
from ottla.broker.serving.parts import Budget, ResponseWriter
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Peer, Request
from ottla.broker.serving.routes import serves
from ottla.broker.settings import SecurityProtocol
from ottla.cluster.decision import Decision
from ottla.cluster.tokens import MOST_BYTES, USER, DelegationToken
from ottla.ports import Steps
from ottla.wire.api.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from ottla.wire.api.describe_delegation_token import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse
from ottla.wire.api.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ottla.wire.api.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from ottla.wire.errors import (
    DELEGATION_TOKEN_AUTH_DISABLED,
    DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    INVALID_PRINCIPAL_TYPE,
    INVALID_REQUEST,
    NONE,
)

NO_TIME: Final = -1
"""The timestamps in a response without a token."""
REQUESTERS_FROM: Final = 3
"""The first version with the requester of a token, who may differ from its owner."""
NO_TYPE: Final = ":"
"""The beginning of an owner whose principal type is missing."""
MOST_RENEWERS: Final = 10_000
MOST_OWNERS: Final = 10_000
LOOKED_AT_ONCE: Final = 2000
"""Tokens and renewers processed between two pauses."""

Renewer = DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer
Described = DescribeDelegationTokenResponse.DescribedDelegationToken


class TokenContext(NamedTuple):
    """The parts of the broker that the handlers use."""

    tokens: DelegationTokens
    rights: Rights


@serves(CreateDelegationTokenRequest, most=MOST_RENEWERS, to_the_end=True)
def create_delegation_token(request: Request[CreateDelegationTokenRequest], context: TokenContext) -> Steps[Reply]:
    """Create a token for the client, or for another owner if the client may act for it."""
    body, requester = request.body, request.peer.principal
    owner = f"{body.owner_principal_type or ''}:{body.owner_principal_name}" if body.owner_principal_name else requester
    if sum(len(each.principal_name) for each in body.renewers) > MOST_BYTES:
        answer = _about(requester, requester, request.version)
        answer.error_code = INVALID_REQUEST
        return answer
    renewers = [f"{each.principal_type}:{each.principal_name}" for each in body.renewers]
    answer = _about(owner, requester, request.version)
    answer.error_code = _create_fault(context, request.peer, owner, renewers)
    if answer.error_code:
        return answer
    if not context.tokens.is_on:
        answer.error_code = DELEGATION_TOKEN_AUTH_DISABLED
        return answer
    decision = yield from context.tokens.create(owner, requester, renewers, body.max_lifetime_ms, request.now)
    answer.error_code = decision.error_code
    token = context.tokens.token(decision.name)
    if token is not None and not decision.error_code:
        answer.issue_timestamp_ms, answer.max_timestamp_ms = token.issue_ms, token.max_ms
        answer.expiry_timestamp_ms = token.expiry_ms
        answer.token_id, answer.hmac = token.token_id, context.tokens.proof(token.token_id)
    return answer


@serves(RenewDelegationTokenRequest, to_the_end=True)
def renew_delegation_token(request: Request[RenewDelegationTokenRequest], context: TokenContext) -> Reply:
    body = request.body
    steps = context.tokens.renew(bytes(body.hmac), request.peer.principal, body.renew_period_ms, request.now)
    return _change_token(context, request.peer, steps, RenewDelegationTokenResponse)


@serves(ExpireDelegationTokenRequest, to_the_end=True)
def expire_delegation_token(request: Request[ExpireDelegationTokenRequest], context: TokenContext) -> Reply:
    """Set the expiry of a token. A negative period expires it now, and the response then has the current time."""
    body, now = request.body, request.now
    steps = context.tokens.expire(bytes(body.hmac), request.peer.principal, body.expiry_time_period_ms, now)
    return _change_token(context, request.peer, steps, ExpireDelegationTokenResponse, now.wall_ms)


@serves(DescribeDelegationTokenRequest, most=MOST_OWNERS)
def describe_delegation_token(request: Request[DescribeDelegationTokenRequest], context: TokenContext) -> Steps[Reply]:
    """Describe the tokens that the client owns, may renew or may otherwise see; with `owners`, only tokens of these owners."""
    refusal = _refusal(context.tokens, request.peer)
    if refusal:
        return DescribeDelegationTokenResponse(error_code=refusal)
    asked = request.body.owners
    owners = None if asked is None else {f"{owner.principal_type}:{owner.principal_name}" for owner in asked}
    writer = ResponseWriter(request, ("tokens",), DescribeDelegationTokenResponse())
    budget = Budget(LOOKED_AT_ONCE)
    for token in context.tokens.all():
        if (owners is None or token.is_of(owners)) and _may_see(context.rights, request.peer, token):
            shown = _describe(token, context.tokens.proof(token.token_id), request.version)
            yield from writer.put((DescribeDelegationTokenResponse(tokens=[shown]),))
        yield from budget.spend(1 + len(token.renewers))
    return writer.reply()


def _change_token(
    context: TokenContext,
    peer: Peer,
    steps: Steps[Decision],
    response: type[RenewDelegationTokenResponse | ExpireDelegationTokenResponse],
    gone_ms: int = NO_TIME,
) -> Steps[Reply]:
    """Run a change if the client may request it, and return the response with the token's expiry in ms.

    `gone_ms` replaces the expiry of a token that no longer exists.
    """
    refusal = _refusal(context.tokens, peer)
    if refusal:
        return response(error_code=refusal, expiry_timestamp_ms=NO_TIME)
    decision = yield from steps
    if decision.error_code:
        return response(error_code=decision.error_code, expiry_timestamp_ms=0)
    token = context.tokens.token(decision.name)
    return response(error_code=NONE, expiry_timestamp_ms=gone_ms if token is None else token.expiry_ms)


def _create_fault(context: TokenContext, peer: Peer, owner: str, renewers: list[str]) -> int:
    if not _may_request(peer):
        return DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if owner.startswith(NO_TYPE):
        return INVALID_PRINCIPAL_TYPE
    if owner != peer.principal and not context.rights.may(peer, Operation.CREATE_TOKENS, Resource.USER, owner):
        return DELEGATION_TOKEN_AUTHORIZATION_FAILED
    return NONE if all(renewer.startswith(USER) for renewer in renewers) else INVALID_PRINCIPAL_TYPE


def _refusal(tokens: DelegationTokens, peer: Peer) -> int:
    if not _may_request(peer):
        return DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return NONE if tokens.is_on else DELEGATION_TOKEN_AUTH_DISABLED


def _may_request(peer: Peer) -> bool:
    if peer.authentication is not None:
        return not peer.authentication.by_token
    return peer.security_protocol is SecurityProtocol.SSL and peer.principal != "User:ANONYMOUS"


def _may_see(rights: Rights, peer: Peer, token: DelegationToken) -> bool:
    return (
        token.is_of((peer.principal,))
        or rights.may(peer, Operation.DESCRIBE, Resource.DELEGATION_TOKEN, token.token_id)
        or rights.may(peer, Operation.DESCRIBE_TOKENS, Resource.USER, token.owner)
    )


def _about(owner: str, requester: str, version: int) -> CreateDelegationTokenResponse:
    """Return a CreateDelegationToken response with the owner and the requester, but without a token."""
    answer = CreateDelegationTokenResponse(
        issue_timestamp_ms=NO_TIME, expiry_timestamp_ms=NO_TIME, max_timestamp_ms=NO_TIME, token_id="", hmac=b""
    )
    answer.principal_type, _, answer.principal_name = owner.partition(":")
    if version >= REQUESTERS_FROM:
        answer.token_requester_principal_type, _, answer.token_requester_principal_name = requester.partition(":")
    return answer


def _describe(token: DelegationToken, proof: bytes, version: int) -> Described:
    shown = Described(
        issue_timestamp=token.issue_ms,
        expiry_timestamp=token.expiry_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=proof,
        renewers=[
            Renewer(principal_type=kind, principal_name=name)
            for kind, _, name in (renewer.partition(":") for renewer in token.renewers)
        ],
    )
    shown.principal_type, _, shown.principal_name = token.owner.partition(":")
    if version >= REQUESTERS_FROM:
        shown.token_requester_principal_type, _, shown.token_requester_principal_name = token.requester.partition(":")
    return shown
