"""Calls of an admin client about quotas, users, ACLs and delegation tokens."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Unpack

from ottla.client import arguments
from ottla.client.admin import acls, tokens, users
from ottla.client.admin.acls import AclRule, AclRuleFilter
from ottla.client.admin.quotas import (
    ClientQuota,
    QuotaOf,
    alter_quotas_request,
    checked_entity,
    describe_quotas_request,
    read_altered,
    read_quotas,
)
from ottla.client.admin.results import CallOptions, ResultList, Results
from ottla.client.admin.tokens import AT_ONCE_MS, BROKER_DEFAULT_MS, TokenDescription
from ottla.client.admin.users import DEFAULT_ITERATIONS, DEFAULT_MECHANISM
from ottla.net.client.admin.bulk import Outcomes, on_controller, send
from ottla.net.client.admin.calls import AdminCalls
from ottla.wire.schema import Message


class AccessCalls(AdminCalls):
    """The methods of `AsyncAdmin` about quotas, users, ACLs and delegation tokens."""

    async def describe_quotas(
        self,
        user: str | None = None,
        client_id: str | None = None,
        ip: str | None = None,
        *,
        any_of: Iterable[str] = (),
        strict: bool = False,
    ) -> list[ClientQuota]:
        """Return client quotas (KIP-546): all of them, or those of a user, client id or address. "" is the default entity.

        `any_of` are types of entities ("user", "client-id", "ip") with any name. With `strict`, entities of further types are
        left out: `user="alice"` does not return `alice` together with a client id.
        """
        return await self._request_any(describe_quotas_request(QuotaOf(user, client_id, ip), any_of, strict=strict), read_quotas)

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
        await self.alter_quotas_of({QuotaOf(user, client_id, ip): quotas}, validate_only=validate_only)

    async def alter_quotas_of(
        self,
        changes: Mapping[QuotaOf, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        **options: Unpack[CallOptions],
    ) -> Results[QuotaOf, None]:
        """Set quotas of several entities, as `alter_quotas` does."""
        wanted = {checked_entity(each): quotas for each, quotas in arguments.check_mapping("changes", changes).items()}

        def build(some: list[QuotaOf]) -> Message:
            return alter_quotas_request({each: wanted[each] for each in some}, validate_only=validate_only)

        return await self._change_items(wanted, build, read_altered, options)

    async def list_users(self, *names: str, check: bool = True) -> Results[str, Mapping[str, int]]:
        """Return the SCRAM iterations of users, by name and mechanism (KIP-554). Without `names`, return all users."""
        found = await self._request_any(users.describe_request(arguments.names("A user's name", names)), users.read_users)
        return found.raise_first() if check else found

    async def set_user_password(
        self, name: str, password: str, *, mechanism: str = DEFAULT_MECHANISM, iterations: int = DEFAULT_ITERATIONS
    ) -> None:
        """Set a user's SCRAM password (KIP-554). The broker receives a salted hash, never the password.

        Raises `SettingError` for a name or password that clients encode differently and for more than a million iterations, and
        `BrokerError` for other iterations outside 4096 to 16384.
        """
        await self.set_user_passwords({name: password}, mechanism=mechanism, iterations=iterations)

    async def set_user_passwords(
        self,
        passwords: Mapping[str, str],
        *,
        mechanism: str = DEFAULT_MECHANISM,
        iterations: int = DEFAULT_ITERATIONS,
        **options: Unpack[CallOptions],
    ) -> Results[str, None]:
        """Set the SCRAM passwords of several users, by name, as `set_user_password` does."""
        algorithm = users.algorithm_of(mechanism)
        wanted = arguments.check_mapping("passwords", passwords)
        request = await asyncio.to_thread(users.set_passwords_request, wanted, algorithm, iterations, os.urandom)
        by_name = {each.name: each for each in request.upsertions}

        def build(some: list[str]) -> Message:
            return replace(request, upsertions=[by_name[name] for name in some])

        return await self._change_items(by_name, build, users.read_altered, options)

    async def remove_user(self, name: str, *, mechanism: str = DEFAULT_MECHANISM) -> None:
        """Remove a user's credential for a SCRAM mechanism. Raises `BrokerError` (RESOURCE_NOT_FOUND)."""
        await self.remove_users(name, mechanism=mechanism)

    async def remove_users(
        self, *names: str, mechanism: str = DEFAULT_MECHANISM, **options: Unpack[CallOptions]
    ) -> Results[str, None]:
        """Remove the credentials of several users for a SCRAM mechanism, as `remove_user` does."""
        algorithm = users.algorithm_of(mechanism)
        wanted = arguments.names("A user's name", names)
        build = partial(users.remove_request, mechanism=algorithm.name)
        return await self._change_items(wanted, build, users.read_altered, options)

    async def list_acls(
        self,
        principal: str | None = None,
        resource: str | None = None,
        name: str | None = None,
        *,
        pattern: str | None = None,
        host: str | None = None,
        operation: str | None = None,
        permission: str | None = None,
    ) -> list[AclRule]:
        """Return ACLs (KIP-140): all of them, or those with all the given attributes of `AclRule`.

        `pattern` "match" selects the ACLs that apply to the resource `name`, by wildcards and prefixes, too (KIP-290).
        """
        wanted = AclRuleFilter(principal, operation, resource, name, pattern, host, permission)
        return await self._request_any(acls.describe_request(wanted), acls.read_rules)

    async def create_acls(self, rules: Iterable[AclRule], **options: Unpack[CallOptions]) -> Results[AclRule, None]:
        """Create ACLs. Raises `SettingError` for words that Kafka does not have, and `BrokerError` for an invalid ACL."""
        wanted = arguments.each_is(AclRule, "rules", rules)
        acls.create_request(wanted)  # raises an exception for any wrong word before the first request

        async def query(node_id: int, some: list[AclRule]) -> Outcomes[AclRule, None]:
            return acls.read_created(await send(self._cluster, node_id, acls.create_request(some)), some)

        return await self._query_items(wanted, on_controller(self._cluster), query, options, is_change=True)

    async def delete_acls(self, rules: Iterable[AclRule], **options: Unpack[CallOptions]) -> ResultList[AclRule]:
        """Delete exactly these ACLs. Return the ACLs that existed and are deleted. The `errors` are by ACL."""
        filters = [AclRuleFilter(*rule) for rule in arguments.each_is(AclRule, "rules", rules)]
        found = await self.delete_matching_acls(*filters, **options)
        deleted = sorted({rule for some in found.values() for rule in some})
        return ResultList(deleted, {AclRule(*map(str, each)): error for each, error in found.errors.items()})

    async def delete_matching_acls(
        self, *filters: AclRuleFilter, **options: Unpack[CallOptions]
    ) -> Results[AclRuleFilter, list[AclRule]]:
        """Delete all ACLs that match one of the filters. Return the deleted ACLs by filter."""
        wanted = arguments.each_is(AclRuleFilter, "filters", filters)
        acls.delete_request(wanted)  # raises an exception for any wrong word before the first request

        async def query(node_id: int, some: list[AclRuleFilter]) -> Outcomes[AclRuleFilter, list[AclRule]]:
            return acls.read_deleted(await send(self._cluster, node_id, acls.delete_request(some)), some)

        return await self._query_items(wanted, on_controller(self._cluster), query, options, is_change=True)

    async def create_delegation_token(
        self, *, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int = BROKER_DEFAULT_MS
    ) -> TokenDescription:
        """Create a delegation token (KIP-48), for this client's user or for another `owner`, such as "User:alice" (KIP-373).

        `renewers` are principals that may renew it. Raises `BrokerError`, such as DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for a client
        that has not authenticated, or has with a token.
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
