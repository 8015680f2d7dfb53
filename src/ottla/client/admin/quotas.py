"""An admin client's requests about client quotas (KIP-546). The module sends nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ottla.client.admin.results import outcome
from ottla.client.arguments import check_mapping, several, short_repr, text
from ottla.client.errors import KafkaError, SettingError, raise_for
from ottla.wire.api.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from ottla.wire.api.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse

EXACTLY, THE_DEFAULT, SPECIFIED = 0, 1, 2
TYPES: Final = ("user", "client-id", "ip")
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
    for kind, name in zip(TYPES, entity, strict=True):
        if name is not None:
            yield kind, text(f"The {kind} of a quota", name)


def describe_quotas_request(entity: QuotaOf, any_of: Iterable[str] = (), *, strict: bool = False) -> DescribeClientQuotasRequest:
    """Build the request for the entities that include all names of `entity`. An `entity` without names selects all entities.

    `any_of` are types whose name does not matter. With `strict`, entities have no other types. Raises `SettingError`.
    """
    component = DescribeClientQuotasRequest.ComponentData
    named = [
        component(entity_type=kind, match_type=EXACTLY if name else THE_DEFAULT, match=name or None)
        for kind, name in _names_of(entity)
    ]
    for kind in several("any_of", any_of):
        if kind not in TYPES:
            raise SettingError(f"{kind!r} is not a type of entities with quotas: choose one of {', '.join(TYPES)}.")
        named.append(component(entity_type=kind, match_type=SPECIFIED, match=None))
    return DescribeClientQuotasRequest(components=named, strict=strict)


def read_quotas(answer: DescribeClientQuotasResponse) -> list[ClientQuota]:
    """Return the quotas, sorted by entity. Raises `BrokerError`."""
    raise_for(answer.error_code, "Describing quotas", answer.error_message)
    found = [
        ClientQuota(_entity(entry.entity), {each.key: each.value for each in sorted(entry.values, key=lambda each: each.key)})
        for entry in answer.entries or ()
    ]
    return sorted(found, key=lambda quota: [(name is not None, name or "") for name in quota.entity])


def alter_quotas_request(changes: Mapping[QuotaOf, Mapping[str, float | None]], *, validate_only: bool) -> AlterClientQuotasRequest:
    """Build the request that sets quotas of entities, and removes each quota whose value is None."""
    made = AlterClientQuotasRequest
    entries = [
        made.EntryData(
            entity=[made.EntityData(entity_type=kind, entity_name=name or None) for kind, name in _names_of(entity)],
            ops=[
                made.OpData(key=key, value=value or 0.0, remove=value is None)
                for key, value in check_mapping("quotas", quotas).items()
            ],
        )
        for entity, quotas in changes.items()
    ]
    return made(entries=entries, validate_only=validate_only)


def read_altered(answer: AlterClientQuotasResponse) -> Iterator[tuple[QuotaOf, KafkaError | None]]:
    """Yield (entity, its error or None) for each entity in the answer."""
    for entry in answer.entries:
        yield _entity(entry.entity), outcome(entry.error_code, None, "Altering quotas", entry.error_message)


def checked_entity(given: object) -> QuotaOf:
    """Return `given` if it is a `QuotaOf`, otherwise raise `TypeError`."""
    if not isinstance(given, QuotaOf):
        raise TypeError(f"An entity with quotas is a QuotaOf, such as QuotaOf(user='alice'), not {short_repr(given)}.")
    return given


def _entity(
    parts: Iterable[DescribeClientQuotasResponse.EntityData | AlterClientQuotasResponse.EntityData],
) -> QuotaOf:
    names = {each.entity_type: each.entity_name or DEFAULT for each in parts}
    return QuotaOf(names.get("user"), names.get("client-id"), names.get("ip"))
