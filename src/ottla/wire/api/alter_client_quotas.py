"""AlterClientQuotas (API key 49): quotas are changed. KIP-546."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, f64, i16, i32, since


class AlterClientQuotasRequest(Message, key=49, valid="0-1", flexible="1+"):
    """A request to set or remove quotas, by the user, client id or address to which they apply."""

    class EntityData(Struct):
        entity_type: str = since()
        entity_name: str | None = since()

    class OpData(Struct):
        key: str = since()
        value: f64 = since()
        remove: bool = since()

    class EntryData(Struct):
        entity: list[AlterClientQuotasRequest.EntityData] = since()
        ops: list[AlterClientQuotasRequest.OpData] = since()

    entries: list[AlterClientQuotasRequest.EntryData] = since()
    validate_only: bool = since()


class AlterClientQuotasResponse(Message, key=49, valid="0-1", flexible="1+"):
    """The answer to an AlterClientQuotas request: an error code for each entity."""

    class EntityData(Struct):
        entity_type: str = since()
        entity_name: str | None = since()

    class EntryData(Struct):
        error_code: i16 = since()
        error_message: str | None = since()
        entity: list[AlterClientQuotasResponse.EntityData] = since()

    throttle_time_ms: i32 = since()
    entries: list[AlterClientQuotasResponse.EntryData] = since()
