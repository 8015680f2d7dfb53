"""Calls of an admin client about quotas, users, ACLs and delegation tokens."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from functools import partial

from ottla.client import arguments
from ottla.client.admin import acls, tokens, users
from ottla.client.admin.acls import AclRule
from ottla.client.admin.quotas import ClientQuota, QuotaOf, alter_quotas_request, check_quotas, describe_quotas_request, read_quotas
from ottla.client.admin.tokens import AT_ONCE_MS, BROKER_DEFAULT_MS, TokenDescription
from ottla.client.admin.users import DEFAULT_ITERATIONS, DEFAULT_MECHANISM
from ottla.net.client.admin.calls import AdminCalls


class AccessCalls(AdminCalls):
    """The methods of `AsyncAdmin` about quotas, users, ACLs and delegation tokens."""

    async def describe_quotas(
        self, user: str | None = None, client_id: str | None = None, ip: str | None = None
    ) -> list[ClientQuota]:
        """Return client quotas (KIP-546): all of them, or those of a user, client id or address. "" is the default entity."""
        return await self._request_any(describe_quotas_request(QuotaOf(user, client_id, ip)), read_quotas)

    async def alter_quotas(
        self,
        quotas: Mapping[str, float | None],
        user: str | None = None,
        client_id: str | None = None,
        ip: str | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Set quotas of a user, a client id, both together, or an address.

        `quotas` maps Kafka's names to values; None removes a quota. "" is the default entity. Raises `BrokerError`
        (INVALID_REQUEST) for an invalid quota.
        """
        request = alter_quotas_request(QuotaOf(user, client_id, ip), quotas, validate_only=validate_only)
        await self._change(request, check_quotas)

    async def list_users(self, *names: str) -> users.Users:
        """Return the SCRAM iterations of users, by name and mechanism (KIP-554). Without `names`, return all users."""
        return await self._request_any(users.describe_request(arguments.names("A user's name", names)), users.read_users)

    async def set_user_password(
        self, name: str, password: str, *, mechanism: str = DEFAULT_MECHANISM, iterations: int = DEFAULT_ITERATIONS
    ) -> None:
        """Set a user's SCRAM password (KIP-554). The broker receives a salted hash, never the password.

        Raises `SettingError` for a name or password that clients encode differently, and `BrokerError` for iterations outside 4096
        to 16384.
        """
        algorithm = users.algorithm_of(mechanism)
        request = await asyncio.to_thread(users.set_password_request, name, password, algorithm, iterations, os.urandom)
        await self._change(request, users.check_altered)

    async def remove_user(self, name: str, *, mechanism: str = DEFAULT_MECHANISM) -> None:
        """Remove a user's credential for a SCRAM mechanism. Raises `BrokerError` (RESOURCE_NOT_FOUND)."""
        await self._change(users.remove_request(name, mechanism), users.check_altered)

    async def list_acls(self, principal: str | None = None, resource: str | None = None, name: str | None = None) -> list[AclRule]:
        """Return ACLs (KIP-140): all of them, or the ACLs of a principal ("User:alice"), a resource type or a resource name."""
        return await self._request_any(acls.describe_request(principal, resource, name), acls.read_rules)

    async def create_acls(self, rules: Iterable[AclRule]) -> None:
        """Create ACLs. Raises `SettingError` for words that Kafka does not have, and `BrokerError` for an invalid ACL."""
        await self._change(acls.create_request(rules), acls.check_created)

    async def delete_acls(self, rules: Iterable[AclRule]) -> list[AclRule]:
        """Delete exactly these ACLs. Return the ACLs that existed and are deleted."""
        return await self._change(acls.delete_request(rules), acls.read_deleted)

    async def create_delegation_token(
        self, *, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int = BROKER_DEFAULT_MS
    ) -> TokenDescription:
        """Create a delegation token (KIP-48), for this client's user or for another `owner`, such as "User:alice" (KIP-373).

        `renewers` are principals that may renew it. Raises `BrokerError`, such as DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for a client
        that is not authenticated, or is by a token.
        """
        wanted = arguments.several("renewers", renewers)
        request = tokens.create_token_request(owner, wanted, max_lifetime_ms)
        return await self._change(request, partial(tokens.read_created, renewers=wanted))

    async def describe_delegation_tokens(self, *owners: str) -> list[TokenDescription]:
        """Return the delegation tokens of `owners`, or all, among the tokens that this client's user may describe (KIP-48)."""
        return await self._request_any(tokens.describe_tokens_request(owners), tokens.read_tokens)

    async def renew_delegation_token(self, hmac: bytes, period_ms: int = BROKER_DEFAULT_MS) -> int:
        """Let a token expire `period_ms` from now, at most at its maximum lifetime. Return the time in ms since 1970."""
        return await self._change(tokens.renew_token_request(hmac, period_ms), tokens.read_expiry)

    async def expire_delegation_token(self, hmac: bytes, period_ms: int = AT_ONCE_MS) -> int:
        """End a token `period_ms` from now, by default at once. Return the time in ms since 1970."""
        return await self._change(tokens.expire_token_request(hmac, period_ms), tokens.read_expiry)
