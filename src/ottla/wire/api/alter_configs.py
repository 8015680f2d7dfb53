"""AlterConfigs (API key 33): settings are replaced as a whole. IncrementalAlterConfigs replaces it (KIP-339)."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i8, i16, i32, since


class AlterConfigsRequest(Message, key=33, valid="0-2", flexible="2+"):
    """A request to replace all settings of resources. Settings that are left out return to their defaults."""

    class AlterableConfig(Struct):
        name: str = since()
        value: str | None = since()

    class AlterConfigsResource(Struct):
        resource_type: i8 = since()
        resource_name: str = since()
        configs: list[AlterConfigsRequest.AlterableConfig] = since()

    resources: list[AlterConfigsRequest.AlterConfigsResource] = since()
    validate_only: bool = since()


class AlterConfigsResponse(Message, key=33, valid="0-2", flexible="2+"):
    """The answer to an AlterConfigs request: an error code for each resource."""

    class AlterConfigsResourceResponse(Struct):
        error_code: i16 = since()
        error_message: str | None = since()
        resource_type: i8 = since()
        resource_name: str = since()

    throttle_time_ms: i32 = since()
    responses: list[AlterConfigsResponse.AlterConfigsResourceResponse] = since()
