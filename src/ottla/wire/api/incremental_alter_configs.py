"""IncrementalAlterConfigs (API key 44): single settings are changed. KIP-339."""

from __future__ import annotations

from ottla.wire.api.alter_configs import AlterConfigsResponse
from ottla.wire.schema import Message, Struct, i8, i32, since


class IncrementalAlterConfigsRequest(Message, key=44, valid="0-1", flexible="1+"):
    """A request to change single settings of resources: to set or delete each, or to append to or subtract from a list."""

    class AlterableConfig(Struct):
        name: str = since()
        config_operation: i8 = since()
        value: str | None = since()

    class AlterConfigsResource(Struct):
        resource_type: i8 = since()
        resource_name: str = since()
        configs: list[IncrementalAlterConfigsRequest.AlterableConfig] = since()

    resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource] = since()
    validate_only: bool = since()


class IncrementalAlterConfigsResponse(Message, key=44, valid="0-1", flexible="1+"):
    """The answer to an IncrementalAlterConfigs request: an error code for each resource."""

    throttle_time_ms: i32 = since()
    responses: list[AlterConfigsResponse.AlterConfigsResourceResponse] = since()
