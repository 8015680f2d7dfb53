"""DescribeClientQuotas (API key 48): quotas that match a filter.

KIP-546.
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, f64, i8, i16, i32, message, since, struct


@message(key=48, valid="0-1", flexible="1+")
class DescribeClientQuotasRequest(Message):
    """The filter."""

    @struct
    class ComponentData(Struct):
        entity_type: str = since()
        match_type: i8 = since()
        match: str | None = since()

    components: list[DescribeClientQuotasRequest.ComponentData] = since()
    strict: bool = since()


@message(key=48, valid="0-1", flexible="1+")
class DescribeClientQuotasResponse(Message):
    """The quotas, by entity."""

    @struct
    class EntityData(Struct):
        entity_type: str = since()
        entity_name: str | None = since()

    @struct
    class ValueData(Struct):
        key: str = since()
        value: f64 = since()

    @struct
    class EntryData(Struct):
        entity: list[DescribeClientQuotasResponse.EntityData] = since()
        values: list[DescribeClientQuotasResponse.ValueData] = since()

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since()
    entries: list[DescribeClientQuotasResponse.EntryData] | None = since()
