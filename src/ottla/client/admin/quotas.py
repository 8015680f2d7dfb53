"""An admin client's requests about client quotas (KIP-546). The module sends nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ottla.client.arguments import check_mapping, text
from ottla.client.errors import raise_for
from ottla.wire.api.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from ottla.wire.api.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse

EXACTLY, THE_DEFAULT = 0, 1
DEFAULT: Final = ""
"""The name of the default entity: its quotas apply to all users, client ids or addresses without a quota of their own."""


class QuotaOf(NamedTuple):
    """The entity to which a quota applies: a user, a client id, both together, or an address. `DEFAULT` ("") is the default
    entity.
    """

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def __str__(self) -> str:
        return ", ".join(f"{kind} {name or '<default>'}" for kind, name in _names_of(self))


class ClientQuota(NamedTuple):
    """The quotas of an entity, by Kafka's names: producer_byte_rate, request_percentage and so on."""

    entity: QuotaOf
    quotas: dict[str, float]


def _names_of(entity: QuotaOf) -> Iterator[tuple[str, str]]:
    for kind, name in zip(("user", "client-id", "ip"), entity, strict=True):
        if name is not None:
            yield kind, text(f"The {kind} of a quota", name)


def describe_quotas_request(entity: QuotaOf) -> DescribeClientQuotasRequest:
    """Build the request for the entities that include all names of `entity`. An `entity` without names selects all entities."""
    component = DescribeClientQuotasRequest.ComponentData
    return DescribeClientQuotasRequest(
        components=[
            component(entity_type=kind, match_type=EXACTLY if name else THE_DEFAULT, match=name or None)
            for kind, name in _names_of(entity)
        ]
    )


def read_quotas(answer: DescribeClientQuotasResponse) -> list[ClientQuota]:
    """Return the quotas, sorted by entity. Raises `BrokerError`."""
    raise_for(answer.error_code, "Describing quotas", answer.error_message)
    found = []
    for entry in answer.entries or ():
        names = {each.entity_type: each.entity_name or DEFAULT for each in entry.entity}
        entity = QuotaOf(names.get("user"), names.get("client-id"), names.get("ip"))
        found.append(ClientQuota(entity, {value.key: value.value for value in sorted(entry.values, key=lambda value: value.key)}))
    return sorted(found, key=lambda quota: [(name is not None, name or "") for name in quota.entity])


def alter_quotas_request(entity: QuotaOf, quotas: Mapping[str, float | None], *, validate_only: bool) -> AlterClientQuotasRequest:
    """Build the request that sets `quotas`, and removes each quota whose value is None."""
    made = AlterClientQuotasRequest
    named = [made.EntityData(entity_type=kind, entity_name=name or None) for kind, name in _names_of(entity)]
    ops = [made.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in check_mapping("quotas", quotas).items()]
    return made(entries=[made.EntryData(entity=named, ops=ops)], validate_only=validate_only)


def check_quotas(answer: AlterClientQuotasResponse) -> None:
    """Raise an exception for the first entity whose quotas were not changed."""
    for entry in answer.entries:
        raise_for(entry.error_code, "Altering quotas", entry.error_message)
