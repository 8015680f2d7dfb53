"""UpdateMetadata: topics, leaders and brokers of the cluster, as the controller sends them to every broker.

An outdated controller epoch is refused. Version 5 groups partitions by topic, and 7 added topic ids.
"""

from __future__ import annotations

from ottla.broker.replication.controller_messages import Nodes, read_brokers, read_topics
from ottla.broker.replication.image_updates import ImageUpdates
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.parts import Parts
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.ports import Steps
from ottla.wire.api.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

PARTS = Parts(((("topic_states", "partition_states"), ()), (("ungrouped_partition_states",), ())), whole_bytes=8192, together=True)


@serves(UpdateMetadataRequest, Need(Operation.CLUSTER_ACTION, Resource.CLUSTER), cluster_only=True, parts=PARTS, to_the_end=True)
def update_metadata(request: Request[UpdateMetadataRequest], updates: ImageUpdates) -> Steps[Reply]:
    """Apply the brokers and topics of the request to this broker's cluster image."""
    body, version = request.body, request.version
    nodes = Nodes()
    live, told = read_brokers(body, version), (read_topics(part.body, version, nodes) for part in request.parts())
    error_code = yield from updates.apply(body.controller_epoch, body.broker_epoch, body.controller_id, live, told)
    return UpdateMetadataResponse(error_code=error_code)
