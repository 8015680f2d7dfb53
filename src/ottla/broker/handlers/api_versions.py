"""ApiVersions: the APIs and versions that are served, and the levels of features (KIP-35, KIP-584).

Client and broker have not agreed on a version yet, so that an unknown version is answered in version 0 (KIP-511). Version 3 added
the client's name and features, 4 features whose range begins at 0 (KIP-1022), 5 the id of the node that the client wants
(KIP-1242).
"""

from __future__ import annotations

import re
from functools import lru_cache

from ottla.broker.identity import BrokerIdentity
from ottla.broker.releases import TODAY, find
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import Served, serves
from ottla.broker.telemetry.client_metrics import ClientMetrics
from ottla.broker.topics.features import Features
from ottla.cluster.features import OFF
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.api.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.api.push_telemetry import PushTelemetryRequest
from ottla.wire.errors import INVALID_REQUEST, NONE, REBOOTSTRAP_REQUIRED, UNSUPPORTED_VERSION

PRODUCE = ProduceRequest.WIRE.key
TELEMETRY = (GetTelemetrySubscriptionsRequest.WIRE.key, PushTelemetryRequest.WIRE.key)
NAMED_FROM = 3
FEATURES_FROM_0_FROM = 4
ADDRESSED_FROM = 5

UNKNOWN_NODE = -1

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.\-]*[a-zA-Z0-9])?")


@serves(ApiVersionsRequest)
def api_versions(
    request: Request[ApiVersionsRequest], identity: BrokerIdentity, served: Served, features: Features, metrics: ClientMetrics
) -> Reply:
    """Return the supported versions of each API; an unknown version of this request is answered in version 0 (KIP-511)."""
    body, told = request.body, _announced_apis(served, request.release.name, with_telemetry=metrics.has_subscriptions)
    if request.asked_version != request.version:
        told = [each for each in told if request.release.announces_to_newer(each.api_key)]
        return ApiVersionsResponse(error_code=UNSUPPORTED_VERSION, api_keys=told)
    error_code = _error(identity, body, request.version)
    if error_code:
        return ApiVersionsResponse(error_code=error_code)
    request.peer.client_software_name = body.client_software_name
    request.peer.client_software_version = body.client_software_version
    if request.peer.authentication is not None:
        request.peer.authentication.record_api_versions()
    return _add_features(ApiVersionsResponse(api_keys=told), request, features)


def _add_features(response: ApiVersionsResponse, request: Request[ApiVersionsRequest], features: Features) -> ApiVersionsResponse:
    """Add the supported features and the finalized levels. Omit features whose range begins at 0 before version 4 (KIP-1022)."""
    offered = request.release.features
    if not offered:
        return response
    response.supported_features = [
        ApiVersionsResponse.SupportedFeatureKey(name=feature.name, min_version=feature.lowest, max_version=feature.highest)
        for feature in offered
        if feature.lowest or request.version >= FEATURES_FROM_0_FROM
    ]
    response.finalized_features = [
        ApiVersionsResponse.FinalizedFeatureKey(
            name=feature.name, min_version_level=features.level(feature), max_version_level=features.level(feature)
        )
        for feature in offered
        if features.level(feature) != OFF
    ]
    response.finalized_features_epoch = features.epoch
    return response


def _error(identity: BrokerIdentity, body: ApiVersionsRequest, version: int) -> int:
    if version >= NAMED_FROM and not (
        _SOFTWARE.fullmatch(body.client_software_name) and _SOFTWARE.fullmatch(body.client_software_version)
    ):
        return INVALID_REQUEST
    if version >= ADDRESSED_FROM and (
        body.cluster_id not in (None, identity.cluster_id) or body.node_id not in (UNKNOWN_NODE, identity.node_id)
    ):
        # KIP-1242: the client reached another broker than the intended one.
        return REBOOTSTRAP_REQUIRED
    return NONE


@lru_cache(64)
def _announced_apis(served: Served, name: str, *, with_telemetry: bool) -> list[ApiVersionsResponse.ApiVersion]:
    """Return the APIs that a release announces.

    APIs of client metrics are announced only if there are subscriptions: librdkafka logs a line for each client that asks for them.
    Apache Kafka announces them only with a receiver of metrics.

    Without a release, every API begins at version 0, as in Kafka until 3.9. Clients of 0.10 to 2.0, whose newest Fetch is 3 to 8,
    then find a common version; newer clients use the highest.
    """
    release = find(name) if name else TODAY
    # If Produce does not begin at version 0, librdkafka assumes that the broker has no codecs, and disables compression. Kafka 4
    # therefore announces versions that it does not support.
    return [
        ApiVersionsResponse.ApiVersion(
            api_key=key, min_version=0 if key == PRODUCE else versions.start, max_version=versions.stop - 1
        )
        for key, versions in served.versions(release).items()
        if release.announces(key) and (with_telemetry or key not in TELEMETRY)
    ]
