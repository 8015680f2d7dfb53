"""An admin client's requests about the features of a cluster (KIP-584). The module sends nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.client.arguments import check_mapping, whole
from ottla.client.errors import raise_for
from ottla.version import VERSION
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.api.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
OFF: Final = 0


class FeatureDescription(NamedTuple):
    """A feature: the lowest and highest level that the answering broker supports, and the finalized level, 0 for none."""

    name: str
    lowest: int
    highest: int
    level: int


class ClusterFeatures(NamedTuple):
    """The finalized features of a cluster, by name.

    `epoch` grows with each change of a feature. It is -1 if the cluster has no features.
    """

    features: dict[str, FeatureDescription]
    epoch: int


def features_request() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="ottla", client_software_version=VERSION)


def read_features(answer: ApiVersionsResponse) -> ClusterFeatures:
    """Return the features of the cluster. Raises `BrokerError`.

    In responses before version 4, brokers omit the supported range of features whose lowest level is 0.
    """
    raise_for(answer.error_code, "Describing features")
    levels = {found.name: found.max_version_level for found in answer.finalized_features}
    ranges = {found.name: (found.min_version, found.max_version) for found in answer.supported_features}
    features = {
        name: FeatureDescription(name, *ranges.get(name, (OFF, levels.get(name, OFF))), levels.get(name, OFF))
        for name in sorted(levels.keys() | ranges.keys())
    }
    return ClusterFeatures(features, answer.finalized_features_epoch)


def read_api_versions(answer: ApiVersionsResponse) -> dict[int, int]:
    """Return the highest version of each API that the broker serves, by key. Raises `BrokerError`."""
    raise_for(answer.error_code, "Describing the versions of APIs")
    return {api.api_key: api.max_version for api in answer.api_keys}


def update_features_request(
    levels: Mapping[str, int], upgrade_type: int, timeout_ms: int, *, validate_only: bool
) -> UpdateFeaturesRequest:
    update = UpdateFeaturesRequest.FeatureUpdateKey
    return UpdateFeaturesRequest(
        timeout_ms=timeout_ms,
        feature_updates=[
            update(feature=name, max_version_level=whole("The level of a feature", level), upgrade_type=upgrade_type)
            for name, level in check_mapping("levels", levels).items()
        ],
        validate_only=validate_only,
    )


def check_updated(answer: UpdateFeaturesResponse) -> None:
    """Raise an exception for the first error code in the answer. Do nothing if all features were updated."""
    raise_for(answer.error_code, "Updating features", answer.error_message)
    for result in answer.results:
        raise_for(result.error_code, f"Feature {result.feature}", result.error_message)
