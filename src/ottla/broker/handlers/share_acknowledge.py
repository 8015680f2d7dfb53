"""ShareAcknowledge (KIP-932): a member acknowledges records that it has acquired, without a fetch.

The request continues the member's share session. Epoch -1 ends the session and releases what the member still holds; a session can
not begin here. Version 2 has renewals (KIP-1222). The response waits until the share coordinator has stored all changes.
"""

from __future__ import annotations

from functools import partial

from ottla.broker.handlers.share_fetch_reading import ShareContext, readable_topics
from ottla.broker.handlers.share_requests import (
    FIRST_VERSION,
    MOST_BYTES,
    MOST_ITEMS,
    acknowledge,
    batches_by_partition,
    end_session,
    request_fault,
)
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.share.acknowledgements import AcknowledgingMember, RecordAcknowledgements
from ottla.ports import Steps
from ottla.share.sessions import FINAL_EPOCH, FIRST_EPOCH, ShareSession
from ottla.wire.api.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from ottla.wire.errors import ERRORS, INVALID_SHARE_SESSION_EPOCH

PartitionData = ShareAcknowledgeResponse.PartitionData
TopicResponse = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse


@serves(
    ShareAcknowledgeRequest,
    Need(Operation.READ, Resource.GROUP, "group_id"),
    oldest=FIRST_VERSION,
    most=MOST_ITEMS,
    most_bytes=MOST_BYTES,
    to_the_end=True,
)
def share_acknowledge(request: Request[ShareAcknowledgeRequest], context: ShareContext) -> Steps[Reply]:
    """Respond with an error code for each partition, once all acknowledgements are stored or refused."""
    body = request.body
    fault = request_fault(context, body.group_id, body.member_id)
    if fault is not None:
        return ShareAcknowledgeResponse(error_code=fault[0], error_message=fault[1])
    session = _session(context, body)
    if isinstance(session, int):
        return ShareAcknowledgeResponse(error_code=session, error_message=ERRORS[session].sentence)
    member = AcknowledgingMember(
        session.group_id, session.member_id, request.version, readable_topics(context, request), is_renewal=body.is_renew_ack
    )
    acknowledgements = RecordAcknowledgements(context.shares, context.cluster.name_of, member)
    if body.share_session_epoch == FINAL_EPOCH:
        acknowledgements.at_end = partial(end_session, context, session)
    yield from acknowledge(acknowledgements, batches_by_partition(body.topics), request.now)
    return acknowledgements.reply(partial(_answer, context, acknowledgements, session.group_id))


def _session(context: ShareContext, body: ShareAcknowledgeRequest) -> ShareSession | int:
    """Return the session that a request continues or ends, or an error code."""
    if body.share_session_epoch == FIRST_EPOCH:
        return INVALID_SHARE_SESSION_EPOCH
    session = context.sessions.resume(str(body.group_id), str(body.member_id), body.share_session_epoch)
    if not isinstance(session, int) and body.share_session_epoch != FINAL_EPOCH:
        context.sessions.advance(session)
    return session


def _answer(context: ShareContext, acknowledgements: RecordAcknowledgements, group_id: str) -> ShareAcknowledgeResponse:
    topics: dict[bytes, TopicResponse] = {}
    for (topic_id, index), (error_code, message) in acknowledgements.results.items():
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = TopicResponse(topic_id=topic_id, partitions=[])
        topic.partitions.append(PartitionData(partition_index=index, error_code=error_code, error_message=message))
    lock_ms = context.shares.config(group_id).limits.lock_duration_ms
    return ShareAcknowledgeResponse(acquisition_lock_timeout_ms=lock_ms, responses=list(topics.values()))
