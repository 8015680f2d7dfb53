"""DescribeConfigs (API key 32): settings of topics, brokers, groups and others.

Version 1 adds sources and synonyms (KIP-226), 3 types and documentation (KIP-569).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i8, i16, i32, since


class DescribeConfigsRequest(Message, key=32, valid="0-4", flexible="4+"):
    """A request for the settings of resources. For each resource it has the names of the settings, or null for all."""

    class DescribeConfigsResource(Struct):
        resource_type: i8 = since()
        resource_name: str = since()
        configuration_keys: list[str] | None = since()

    resources: list[DescribeConfigsRequest.DescribeConfigsResource] = since()
    include_synonyms: bool = since("1+")
    include_documentation: bool = since("3+")


class DescribeConfigsResponse(Message, key=32, valid="0-4", flexible="4+"):
    """The requested settings of each resource, each with its source, type and synonyms."""

    class DescribeConfigsSynonym(Struct):
        name: str = since("1+")
        value: str | None = since("1+")
        source: i8 = since("1+")

    class DescribeConfigsResourceResult(Struct):
        name: str = since()
        value: str | None = since()
        read_only: bool = since()
        is_default: bool = since("0")
        config_source: i8 = since("1+", default=-1, ignorable=True)
        is_sensitive: bool = since()
        synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym] = since("1+", ignorable=True)
        config_type: i8 = since("3+", ignorable=True)
        documentation: str | None = since("3+", ignorable=True)

    class DescribeConfigsResult(Struct):
        error_code: i16 = since()
        error_message: str | None = since()
        resource_type: i8 = since()
        resource_name: str = since()
        configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult] = since()

    throttle_time_ms: i32 = since()
    results: list[DescribeConfigsResponse.DescribeConfigsResult] = since()
