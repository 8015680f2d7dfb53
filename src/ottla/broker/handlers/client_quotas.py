"""DescribeClientQuotas and AlterClientQuotas: quotas by user, client id and address (KIP-546, KIP-612).

All match types and `strict` are served. An address is never combined with a user or a client id. Versions differ in encoding only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.broker.quotas.quota_changes import Op, QuotaChanges, Wanted
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.parts import ResponseWriter
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.cluster.image import ClusterImage
from ottla.cluster.quotas import CLIENT_ID, IP, TYPES, USER, QuotaEntity, RefusedQuota, entity_of
from ottla.ports import Steps
from ottla.wire.api.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from ottla.wire.api.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from ottla.wire.errors import INVALID_REQUEST, UNSUPPORTED_VERSION

MOST_THINGS: Final = 3000
ENTITIES_AT_ONCE: Final = 200
"""Entities compared between two pauses."""
EXACTLY, THE_DEFAULT, ANY = 0, 1, 2

Altered = AlterClientQuotasResponse.EntryData
AlteredEntity = AlterClientQuotasResponse.EntityData
Described = DescribeClientQuotasResponse.EntryData
DescribedEntity = DescribeClientQuotasResponse.EntityData
Value = DescribeClientQuotasResponse.ValueData
Component = DescribeClientQuotasRequest.ComponentData


@serves(AlterClientQuotasRequest, Need(Operation.ALTER_CONFIGS, Resource.CLUSTER), most=MOST_THINGS, to_the_end=True)
def alter_client_quotas(request: Request[AlterClientQuotasRequest], changes: QuotaChanges) -> Steps[Reply]:
    """Set and remove quotas; each entity has its own result."""
    body = request.body
    wanted = [_parse_entry(entry) for entry in body.entries]
    decisions = yield from changes.alter(wanted, validate_only=body.validate_only)
    results = [
        Altered(
            error_code=decision.error_code,
            error_message=decision.message,
            entity=[AlteredEntity(entity_type=each.entity_type, entity_name=each.entity_name) for each in entry.entity],
        )
        for entry, decision in zip(body.entries, decisions, strict=True)
    ]
    return AlterClientQuotasResponse(entries=results)


def _parse_entry(entry: AlterClientQuotasRequest.EntryData) -> Wanted:
    ops: list[Op] = [(op.key, None if op.remove else op.value) for op in entry.ops]
    try:
        return entity_of([(each.entity_type, each.entity_name) for each in entry.entity]), ops
    except RefusedQuota as refused:
        return refused, ops


@serves(DescribeClientQuotasRequest, Need(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER), most=MOST_THINGS)
def describe_client_quotas(request: Request[DescribeClientQuotasRequest], cluster: ClusterImage) -> Steps[Reply]:
    """Describe the quotas of all entities that match a filter."""
    components = request.body.components
    for number, component in enumerate(components):
        refused = _refusal(component, components[:number])
        if refused is not None:
            error_code = INVALID_REQUEST if component.entity_type in ("", *TYPES) else UNSUPPORTED_VERSION
            return DescribeClientQuotasResponse(error_code=error_code, error_message=refused, entries=None)
    kinds = {component.entity_type for component in components}
    if IP in kinds and kinds & {USER, CLIENT_ID}:
        sentence = "Invalid entity filter component combination. IP filter component should not be used with user or clientId."
        return DescribeClientQuotasResponse(error_code=INVALID_REQUEST, error_message=sentence, entries=None)
    quotas, strict = list(cluster.quotas.items()), request.body.strict
    writer = ResponseWriter(request, ("entries",), DescribeClientQuotasResponse(error_message=None, entries=[]))
    for begin in range(0, len(quotas), ENTITIES_AT_ONCE):
        some = quotas[begin : begin + ENTITIES_AT_ONCE]
        found = [_describe(*each) for each in some if _fits(each[0], components, strict=strict)]
        yield from writer.put((DescribeClientQuotasResponse(error_message=None, entries=found),))
    return writer.reply()


def _refusal(component: Component, before: list[Component]) -> str | None:
    """Return an error message for an invalid component of a filter. Return None if the component is valid."""
    kind, match_type, match = component.entity_type, component.match_type, component.match
    if not kind:
        return f"Invalid empty entity type: there are {', '.join(TYPES)}."
    if any(other.entity_type == kind for other in before):
        return f"Entity type {kind} cannot appear more than once in the filter."
    if kind not in TYPES:
        return f"Unsupported entity type {kind}: there are {', '.join(TYPES)}."
    if match_type not in (EXACTLY, THE_DEFAULT, ANY):
        return f"Unknown match type {match_type}: there are 0 (exactly), 1 (the default) and 2 (any)."
    if match_type == EXACTLY and match is None:
        return "Request specified MATCH_TYPE_EXACT, but set match string to null: give the name."
    if match_type != EXACTLY and match is not None:
        name = "MATCH_TYPE_DEFAULT" if match_type == THE_DEFAULT else "MATCH_TYPE_SPECIFIED"
        return f"Request specified {name}, but also specified a match string: leave it out."
    return None


def _fits(entity: QuotaEntity, components: list[Component], *, strict: bool) -> bool:
    names = entity.names
    if strict and len(names) != len(components):
        return False
    return all(
        component.entity_type in names and (component.match_type == ANY or names[component.entity_type] == component.match)
        for component in components
    )


def _describe(entity: QuotaEntity, quotas: Mapping[str, float]) -> Described:
    named = [DescribedEntity(entity_type=kind, entity_name=name) for kind, name in entity.names.items()]
    return Described(entity=named, values=[Value(key=key, value=value) for key, value in quotas.items()])
