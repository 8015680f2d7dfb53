"""UpdateMetadata: the controller tells every broker what there is in the cluster, and who leads what."""

from __future__ import annotations

from ottla.broker.replication.cluster_news import ClusterNews
from ottla.broker.replication.controller_words import brokers, topics
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.purgatory import Purgatory, Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.serving.slices import Slices
from ottla.ports import Steps
from ottla.wire.api.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

SLICES = Slices(
    ((("topic_states", "partition_states"), ()), (("ungrouped_partition_states",), ())), whole_bytes=8192, asked_whole=True
)


@serves(UpdateMetadataRequest, Need(Operation.CLUSTER_ACTION, Resource.CLUSTER), cluster_only=True, slices=SLICES)
def update_metadata(request: Request[UpdateMetadataRequest], news: ClusterNews, purgatory: Purgatory) -> Reply:
    """Take all of it into this broker's image of the cluster."""
    return purgatory.run(_taken(request, news), to_the_end=True)


def _taken(request: Request[UpdateMetadataRequest], news: ClusterNews) -> Steps[Reply]:
    body, version = request.body, request.version
    live, told = brokers(body, version), (topics(part, version) for part in request.parts())
    error_code = yield from news.take(body.controller_epoch, body.broker_epoch, body.controller_id, live, told)
    return UpdateMetadataResponse(error_code=error_code)
