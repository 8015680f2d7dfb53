"""UpdateFeatures (API key 57): the cluster's features are raised or lowered.

KIP-584. Version 1 allows a dry run (KIP-778), 2 has errors only at the top level.
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i8, i16, i32, since


class UpdateFeaturesRequest(Message, key=57, valid="0-2", flexible="0+"):
    """A request to change the finalized levels of features."""

    class FeatureUpdateKey(Struct):
        feature: str = since()
        max_version_level: i16 = since()
        allow_downgrade: bool = since("0")
        upgrade_type: i8 = since("1+", default=1)

    timeout_ms: i32 = since(default=60000)
    feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey] = since()
    validate_only: bool = since("1+")


class UpdateFeaturesResponse(Message, key=57, valid="0-2", flexible="0+"):
    """The answer to an UpdateFeatures request: an error code for each feature."""

    class UpdatableFeatureResult(Struct):
        feature: str = since()
        error_code: i16 = since()
        error_message: str | None = since()

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since()
    results: list[UpdateFeaturesResponse.UpdatableFeatureResult] = since("0-1", ignorable=True)
