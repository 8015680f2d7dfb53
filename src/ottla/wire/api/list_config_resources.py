"""ListConfigResources (API key 74): the resources that have settings.

Version 0 lists only client metrics (KIP-714), 1 lists the requested types (KIP-1142).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i8, i16, i32, since


class ListConfigResourcesRequest(Message, key=74, valid="0-1", flexible="0+"):
    """A request for all resources of some types that have settings."""

    resource_types: list[i8] = since("1+")


class ListConfigResourcesResponse(Message, key=74, valid="0-1", flexible="0+"):
    """The names and the types of the resources that have settings."""

    class ConfigResource(Struct):
        resource_name: str = since()
        resource_type: i8 = since("1+", default=16, ignorable=True)

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    config_resources: list[ListConfigResourcesResponse.ConfigResource] = since()
