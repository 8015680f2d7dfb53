"""UpdateFeatures: the levels of the cluster's features (KIP-584, KIP-778).

All updates are made, or none. Version 0 has `allow_downgrade`, which is ignored, as in Kafka 4; version 1 added upgrade types and
`validate_only`; version 2 has no results by feature.
"""

from __future__ import annotations

from ottla.broker.controller.controller import Controller
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.topics.features import Features
from ottla.cluster.features import UPGRADE, FeatureUpdate
from ottla.ports import Steps
from ottla.wire.api.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from ottla.wire.errors import ERRORS, NOT_CONTROLLER

UPGRADE_TYPES_FROM = 1
"""The first version with upgrade types. Earlier requests have `allow_downgrade`, which Kafka 4 ignores."""
NO_RESULTS_FROM = 2
MOST_UPDATES = 1000

Result = UpdateFeaturesResponse.UpdatableFeatureResult


@serves(UpdateFeaturesRequest, Need(Operation.ALTER, Resource.CLUSTER), controller_only=True, most=MOST_UPDATES, to_the_end=True)
def update_features(request: Request[UpdateFeaturesRequest], features: Features, controller: Controller) -> Steps[Reply]:
    """Change all requested levels, or none. All brokers must support them, because Kafka's brokers exit at an unsupported level."""
    body = request.body
    updates = [
        FeatureUpdate(each.feature, each.max_version_level, each.upgrade_type if request.version >= UPGRADE_TYPES_FROM else UPGRADE)
        for each in body.feature_updates
    ]
    offered = {feature.name: feature for feature in request.release.features}
    served = yield from controller.served_by_all(offered)
    if served is None:
        return UpdateFeaturesResponse(error_code=NOT_CONTROLLER, error_message=ERRORS[NOT_CONTROLLER].sentence)
    decision = yield from features.update(served, updates, validate_only=body.validate_only)
    if decision.error_code:
        return UpdateFeaturesResponse(error_code=decision.error_code, error_message=decision.message)
    named = body.feature_updates if request.version < NO_RESULTS_FROM else ()
    return UpdateFeaturesResponse(error_message=None, results=[Result(feature=each.feature, error_message=None) for each in named])
