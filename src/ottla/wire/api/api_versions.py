"""ApiVersions (API key 18): the APIs and versions that the broker serves.

The response header never has tags. The response to an unknown newer version is of version 0, with UNSUPPORTED_VERSION and the list
of APIs (KIP-511). Version 3 names the client's software (KIP-511) and adds features (KIP-584), 4 corrects ranges that begin at 0,
5 checks cluster and node (KIP-1242).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, i64, since


class ApiVersionsRequest(Message, key=18, valid="0-5", flexible="3+"):
    """A request for the API versions of a broker, with the name and version of the client's software for the broker's log."""

    client_software_name: str = since("3+", ignorable=True)
    client_software_version: str = since("3+", ignorable=True)
    cluster_id: str | None = since("5+", default=None, ignorable=True)
    node_id: i32 = since("5+", default=-1, ignorable=True)


class ApiVersionsResponse(Message, key=18, valid="0-5", flexible="3+"):
    """The lowest and highest version of each API that the broker supports, and the cluster's features."""

    class ApiVersion(Struct):
        api_key: i16 = since()
        min_version: i16 = since()
        max_version: i16 = since()

    class SupportedFeatureKey(Struct):
        name: str = since("3+")
        min_version: i16 = since("3+")
        max_version: i16 = since("3+")

    class FinalizedFeatureKey(Struct):
        name: str = since("3+")
        max_version_level: i16 = since("3+")
        min_version_level: i16 = since("3+")

    error_code: i16 = since()
    api_keys: list[ApiVersionsResponse.ApiVersion] = since()
    throttle_time_ms: i32 = since("1+", ignorable=True)
    supported_features: list[ApiVersionsResponse.SupportedFeatureKey] = since("3+", tag=0, ignorable=True)
    finalized_features_epoch: i64 = since("3+", tag=1, default=-1, ignorable=True)
    finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey] = since("3+", tag=2, ignorable=True)
    zk_migration_ready: bool = since("3+", tag=3, ignorable=True)
