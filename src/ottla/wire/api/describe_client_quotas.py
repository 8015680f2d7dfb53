"""DescribeClientQuotas (API key 48): quotas that match a filter. KIP-546."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, f64, i8, i16, i32, since


class DescribeClientQuotasRequest(Message, key=48, valid="0-1", flexible="1+"):
    """A request for the quotas of all entities that match a filter."""

    class ComponentData(Struct):
        entity_type: str = since()
        match_type: i8 = since()
        match: str | None = since()

    components: list[DescribeClientQuotasRequest.ComponentData] = since()
    strict: bool = since()


class DescribeClientQuotasResponse(Message, key=48, valid="0-1", flexible="1+"):
    """The quotas that match the filter, by entity."""

    class EntityData(Struct):
        entity_type: str = since()
        entity_name: str | None = since()

    class ValueData(Struct):
        key: str = since()
        value: f64 = since()

    class EntryData(Struct):
        entity: list[DescribeClientQuotasResponse.EntityData] = since()
        values: list[DescribeClientQuotasResponse.ValueData] = since()

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since()
    entries: list[DescribeClientQuotasResponse.EntryData] | None = since()
