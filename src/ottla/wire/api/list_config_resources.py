"""ListConfigResources (API key 74): the resources that have settings.

Version 0 lists only client metrics (KIP-714), 1 lists the requested types (KIP-1142).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i8, i16, i32, message, since, struct


@message(key=74, valid="0-1", flexible="0+")
class ListConfigResourcesRequest(Message):
    """The resource types."""

    resource_types: list[i8] = since("1+")


@message(key=74, valid="0-1", flexible="0+")
class ListConfigResourcesResponse(Message):
    """Names and types."""

    @struct
    class ConfigResource(Struct):
        resource_name: str = since()
        resource_type: i8 = since("1+", default=16, ignorable=True)

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    config_resources: list[ListConfigResourcesResponse.ConfigResource] = since()
