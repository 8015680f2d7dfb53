"""AlterClientQuotas (API key 49): quotas are changed.

KIP-546.
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, f64, i16, i32, message, since, struct


@message(key=49, valid="0-1", flexible="1+")
class AlterClientQuotasRequest(Message):
    """The quotas to set or remove, by entity."""

    @struct
    class EntityData(Struct):
        entity_type: str = since()
        entity_name: str | None = since()

    @struct
    class OpData(Struct):
        key: str = since()
        value: f64 = since()
        remove: bool = since()

    @struct
    class EntryData(Struct):
        entity: list[AlterClientQuotasRequest.EntityData] = since()
        ops: list[AlterClientQuotasRequest.OpData] = since()

    entries: list[AlterClientQuotasRequest.EntryData] = since()
    validate_only: bool = since()


@message(key=49, valid="0-1", flexible="1+")
class AlterClientQuotasResponse(Message):
    """The error of each entity."""

    @struct
    class EntityData(Struct):
        entity_type: str = since()
        entity_name: str | None = since()

    @struct
    class EntryData(Struct):
        error_code: i16 = since()
        error_message: str | None = since()
        entity: list[AlterClientQuotasResponse.EntityData] = since()

    throttle_time_ms: i32 = since()
    entries: list[AlterClientQuotasResponse.EntryData] = since()
