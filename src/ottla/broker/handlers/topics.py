"""CreateTopics, DeleteTopics and CreatePartitions (KIP-4, KIP-195, KIP-464, KIP-516).

Served by the controller; a name that a request has twice is refused. The reply is sent when the change is complete, or after
`timeout_ms`. CreateTopics accepts -1 for defaults from version 4 on and returns configs from 5 on; DeleteTopics accepts topic ids
from 6 on. Versions without THROTTLING_QUOTA_EXCEEDED are never refused because of a quota (KIP-599).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.broker.security.rights import Rights
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.parts import Parts
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.settings import BrokerSettings, SettingsInForce
from ottla.broker.settings.setting_sources import as_emulated, described_topic
from ottla.broker.topics.topics import ExpectedTopic, Incomplete, Topics
from ottla.cluster.acls import CLUSTER_NAME
from ottla.cluster.decision import Decision
from ottla.cluster.image import ClusterImage
from ottla.cluster.topics import MOST_PARTITIONS, TWICE, TopicSpec
from ottla.ports import Steps
from ottla.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from ottla.wire.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.errors import (
    ERRORS,
    INVALID_REQUEST,
    NONE,
    THROTTLING_QUOTA_EXCEEDED,
    TOPIC_AUTHORIZATION_FAILED,
    TOPIC_DELETION_DISABLED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from ottla.wire.schema import Message

BY_DEFAULT = UNSAID = -1
NO_ID = bytes(16)
BY_ID_FROM = 6
DISABLED_CODE_FROM = 3

STRICT_CREATION_FROM, STRICT_DELETION_FROM, STRICT_GROWTH_FROM = 6, 5, 3
"""The first versions whose clients support a refusal because of a quota (KIP-599)."""
EXCEEDED = "The throttling quota has been exceeded: try again after the response's throttle time."

DELETED = "Another request has deleted the topic meanwhile: create it again."

Created = CreateTopicsResponse.CreatableTopicResult
Grown = CreatePartitionsResponse.CreatePartitionsTopicResult
Deleted = DeleteTopicsResponse.DeletableTopicResult
DeleteState = DeleteTopicsRequest.DeleteTopicState


class CreateContext(NamedTuple):
    """The parts of the broker that CreateTopics uses."""

    topics: Topics
    settings: SettingsInForce
    quotas: ClientQuotas
    rights: Rights


class ChangeContext(NamedTuple):
    """The parts of the broker that DeleteTopics and CreatePartitions use."""

    topics: Topics
    cluster: ClusterImage
    settings: SettingsInForce
    quotas: ClientQuotas
    rights: Rights


@serves(
    CreateTopicsRequest,
    Need(Operation.CREATE, Resource.TOPIC, "topics.name", instead=Operation.CREATE),
    controller_only=True,
    to_the_end=True,
    parts=Parts(((("topics",), ("topics",)),), things=20, whole_bytes=512, unique=("name",)),
)
def create_topics(request: Request[CreateTopicsRequest], context: CreateContext) -> Steps[Reply]:
    """Create topics, each with its own result. The topics are visible to every API when the response is sent."""
    body, settings = request.body, context.settings.value
    wanted = [_new_topic(settings, topic) for topic in body.topics if not request.repeats(topic.name)]
    whole = request.whole
    room = MOST_PARTITIONS if whole is None else MOST_PARTITIONS - whole.made
    throttled = list[Decision]()
    if context.quotas.is_on:
        would = yield from context.topics.create(wanted, validate_only=True, room=room)
        throttled = [one for one in would if not _admitted(context.quotas, request, STRICT_CREATION_FROM, one, len(one.replicas))]
    beyond = {one.name for one in throttled}
    admitted = [topic for topic in wanted if topic.name not in beyond]
    decided = yield from context.topics.create(admitted, validate_only=body.validate_only, room=room)
    decisions = {one.name: one for one in decided} | {one.name: _throttle_decision(one.name) for one in throttled}
    if whole is not None:
        whole.made += sum(len(one.replicas) for one in decisions.values() if not one.error_code)
    configs = {topic.name: topic.configs for topic in wanted}
    told = as_emulated(settings, request.release)
    response = CreateTopicsResponse(topics=[_result_of(told, decision, configs[name]) for name, decision in decisions.items()])
    _hide_configs(response.topics, context.rights.answers(request.peer, Operation.DESCRIBE_CONFIGS, Resource.TOPIC))
    response.topics += [
        _refuse_repeated(name) for name in {topic.name: None for topic in body.topics if request.repeats(topic.name)}
    ]
    made = [] if body.validate_only else [one for one in decisions.values() if not one.error_code]
    expected = {one.name: ExpectedTopic(one.topic_id, len(one.replicas)) for one in made}
    incomplete = _incomplete({topic.name: topic for topic in response.topics})
    return (yield from context.topics.reply(response, expected, request.now, body.timeout_ms, incomplete))


def _incomplete(results: Mapping[str, Created | Deleted | Grown]) -> Incomplete:
    """Return a callback that sets the error code in the result of a topic."""

    def incomplete(name: str, error_code: int) -> None:
        results[name].error_code = error_code
        results[name].error_message = DELETED if error_code == UNKNOWN_TOPIC_OR_PARTITION else ERRORS[error_code].sentence

    return incomplete


def _admitted(quotas: ClientQuotas, request: Request[Message], strict_from: int, decision: Decision, partitions: int) -> bool:
    """Return whether a client's quota permits a decision. A decision with an error uses no quota.

    Versions before `strict_from` are never refused.
    """
    if decision.error_code or not quotas.is_on:
        return True
    is_strict = request.version >= strict_from
    return quotas.admits(request.peer.principal, request.client_id, partitions, is_strict=is_strict)


def _throttle_decision(name: str) -> Decision:
    return Decision(name, THROTTLING_QUOTA_EXCEEDED, EXCEEDED)


def _hide_configs(created: list[Created], seen: Mapping[str, bool]) -> None:
    """Remove the configs of created topics whose configs the client may not describe."""
    for topic in created:
        if not topic.error_code and not seen[topic.name]:
            topic.topic_config_error_code = TOPIC_AUTHORIZATION_FAILED
            topic.num_partitions = topic.replication_factor = UNSAID
            topic.configs = None


def _refuse_repeated(name: str) -> Created:
    return Created(name=name, error_code=INVALID_REQUEST, error_message=TWICE.format(name))


def _new_topic(settings: BrokerSettings, topic: CreateTopicsRequest.CreatableTopic) -> TopicSpec:
    partitions, replication_factor = topic.num_partitions, topic.replication_factor
    if not topic.assignments:
        partitions = settings.num_partitions if partitions == BY_DEFAULT else partitions
        by_default = settings.default_replication_factor
        replication_factor = by_default if replication_factor == BY_DEFAULT else replication_factor
    return TopicSpec(
        topic.name,
        partitions,
        replication_factor,
        tuple((assigned.partition_index, tuple(assigned.broker_ids)) for assigned in topic.assignments[: MOST_PARTITIONS + 1]),
        {config.name: config.value for config in topic.configs},
    )


def _result_of(told: BrokerSettings, decision: Decision, configs: Mapping[str, str | None]) -> Created:
    if decision.error_code:
        return Created(name=decision.name, error_code=decision.error_code, error_message=decision.message)
    texts = {name: text for name, text in configs.items() if text is not None}
    return Created(
        name=decision.name,
        topic_id=decision.topic_id,
        error_message=None,
        num_partitions=len(decision.replicas),
        replication_factor=len(decision.replicas[0]),
        configs=[
            CreateTopicsResponse.CreatableTopicConfigs(
                name=row.name,
                value=row.value,
                read_only=row.read_only,
                config_source=row.source,
                is_sensitive=row.is_sensitive,
            )
            for row in described_topic(told, texts)
        ],
    )


@serves(
    DeleteTopicsRequest,
    controller_only=True,
    to_the_end=True,
    parts=Parts(
        ((("topics",), ("responses",)), (("topic_names",), ("responses",))),
        things=50,
        whole_bytes=1024,
        unique=("name", "topic_id"),
    ),
)
def delete_topics(request: Request[DeleteTopicsRequest], context: ChangeContext) -> Steps[Reply]:
    """Delete topics by name or, from version 6 on, by id; a topic that is named twice is not deleted."""
    body, cluster = request.body, context.cluster
    states = body.topics if request.version >= BY_ID_FROM else [DeleteState(name=name) for name in body.topic_names]
    if not context.settings.value.delete_topic_enable:
        error_code = TOPIC_DELETION_DISABLED if request.version >= DISABLED_CODE_FROM else INVALID_REQUEST
        sentence = "This broker deletes no topics: set delete.topic.enable=true and start it again."
        return DeleteTopicsResponse(responses=[_refuse(state, error_code, sentence) for state in states])
    times = Counter(_name(cluster, state) for state in states)
    times.update({_name(cluster, state): 1 for state in states if request.repeats(*_request_key(state, request.version))})
    results = {_name(cluster, state): _deletable(cluster, state, times) for state in states}
    if not context.rights.may(request.peer, Operation.DELETE, Resource.CLUSTER, CLUSTER_NAME):
        _refuse_denied(request, results.values(), cluster, context.rights)
    return (yield from _delete(request, context, list(results.values())))


def _refuse_denied(
    request: Request[DeleteTopicsRequest], results: Iterable[Deleted], cluster: ClusterImage, rights: Rights
) -> None:
    """Refuse topics that the client may not delete. Clients that may not describe a topic can't learn whether it exists."""
    seen = rights.answers(request.peer, Operation.DESCRIBE, Resource.TOPIC)
    may_delete = rights.answers(request.peer, Operation.DELETE, Resource.TOPIC)
    denied = []
    for result in results:
        name = cluster.name_of(result.topic_id) if result.name is None else result.name
        if name is None or may_delete[name] or (result.error_code and seen[name]) or result.error_code == INVALID_REQUEST:
            continue
        if result.name is None and seen[name]:
            result.name = name
        denied.append(name)
        result.error_code = TOPIC_AUTHORIZATION_FAILED
        result.error_message = ERRORS[TOPIC_AUTHORIZATION_FAILED].sentence
    if denied:
        rights.log_refusal(request.peer, Operation.DELETE, Resource.TOPIC, denied, request.api.name, request.now)


def _delete(request: Request[DeleteTopicsRequest], context: ChangeContext, results: list[Deleted]) -> Steps[Reply]:
    cluster = context.cluster
    for result in results if context.quotas.is_on else ():
        _count_deletion(request, context, result)
    found = [result for result in results if not result.error_code]
    decisions = yield from context.topics.delete([_known_name(cluster, result) for result in found])
    for result, decision in zip(found, decisions, strict=True):
        result.error_code, result.error_message = decision.error_code, decision.message
        result.name, result.topic_id = decision.name, decision.topic_id
    response = DeleteTopicsResponse(responses=results)
    incomplete = _incomplete({result.name: result for result in results if result.name is not None})
    expected = {decision.name: ExpectedTopic(decision.topic_id, 0) for decision in decisions if not decision.error_code}
    return (yield from context.topics.reply(response, expected, request.now, request.body.timeout_ms, incomplete))


def _count_deletion(request: Request[DeleteTopicsRequest], context: ChangeContext, result: Deleted) -> None:
    """Refuse a deletion that exceeds the client's quota."""
    if not result.error_code:
        topic = context.cluster.topics[_known_name(context.cluster, result)]
        if not _admitted(context.quotas, request, STRICT_DELETION_FROM, Decision(topic.name), len(topic.partitions)):
            result.error_code, result.error_message = THROTTLING_QUOTA_EXCEEDED, EXCEEDED


def _request_key(state: DeleteState, version: int) -> tuple[object, ...]:
    """Return the key by which a request names a topic: its name, and its id in versions with topic ids."""
    return (state.name, state.topic_id) if version >= BY_ID_FROM else (state.name,)


def _name(cluster: ClusterImage, state: DeleteState) -> tuple[str | None, bytes]:
    """Return the key of a topic: (name, `NO_ID`) if its name is given or found by its id, else the given name and id."""
    if state.name is None and (name := cluster.name_of(state.topic_id)) is not None:
        return name, NO_ID
    return state.name, NO_ID if state.name is not None and state.topic_id == NO_ID else state.topic_id


def _known_name(cluster: ClusterImage, result: Deleted) -> str:
    name = cluster.name_of(result.topic_id) if result.name is None else result.name
    assert name is not None
    return name


def _refuse(state: DeleteState, error_code: int, sentence: str) -> Deleted:
    return Deleted(name=state.name, topic_id=state.topic_id, error_code=error_code, error_message=sentence)


def _deletable(cluster: ClusterImage, state: DeleteState, times: Counter[tuple[str | None, bytes]]) -> Deleted:
    if state.name is not None and state.topic_id != NO_ID:
        return _refuse(state, INVALID_REQUEST, "You may not specify both topic name and topic id: give one of them.")
    if state.name is None and state.topic_id == NO_ID:
        return _refuse(state, INVALID_REQUEST, "Neither topic name nor id were specified: give one of them.")
    if times[_name(cluster, state)] > 1:
        what = "id" if state.name is None else "name"
        return _refuse(state, INVALID_REQUEST, f"Duplicate topic {what}: the request names it more than once.")
    if state.name is None and cluster.name_of(state.topic_id) is None:
        return _refuse(state, UNKNOWN_TOPIC_ID, "This server does not host this topic ID: refresh the metadata.")
    if state.name is not None and cluster.topics.get(state.name) is None:
        return _refuse(
            state, UNKNOWN_TOPIC_OR_PARTITION, f"This server does not host this topic-partition: there is no topic {state.name!r}."
        )
    return Deleted(name=state.name, topic_id=state.topic_id, error_code=NONE)


@serves(
    CreatePartitionsRequest,
    Need(Operation.ALTER, Resource.TOPIC, "topics.name"),
    controller_only=True,
    to_the_end=True,
    parts=Parts(((("topics",), ("results",)),), things=20, whole_bytes=512, unique=("name",)),
)
def create_partitions(request: Request[CreatePartitionsRequest], context: ChangeContext) -> Steps[Reply]:
    """Add partitions to topics; a topic that is named twice is left unchanged."""
    times = Counter(topic.name for topic in request.body.topics)
    response, expected = CreatePartitionsResponse(), dict[str, ExpectedTopic]()
    for topic in {topic.name: topic for topic in request.body.topics}.values():
        known = context.cluster.topics.get(topic.name)
        is_named_once = times[topic.name] == 1 and not request.repeats(topic.name)
        decision = (yield from _grown(context, topic, request)) if is_named_once else _twice(topic.name)
        response.results.append(Grown(name=topic.name, error_code=decision.error_code, error_message=decision.message))
        if not decision.error_code and not request.body.validate_only:
            expected[topic.name] = ExpectedTopic(
                decision.topic_id, topic.count, known is not None and known.topic_id == decision.topic_id
            )
    incomplete = _incomplete({result.name: result for result in response.results})
    return (yield from context.topics.reply(response, expected, request.now, request.body.timeout_ms, incomplete))


def _twice(name: str) -> Decision:
    return Decision(name, INVALID_REQUEST, TWICE.format(name))


def _grown(
    context: ChangeContext, topic: CreatePartitionsRequest.CreatePartitionsTopic, request: Request[CreatePartitionsRequest]
) -> Steps[Decision]:
    topics = context.topics
    assignments = None if topic.assignments is None else [assigned.broker_ids for assigned in topic.assignments]
    if context.quotas.is_on:
        decision = yield from topics.add_partitions(topic.name, topic.count, assignments, validate_only=True)
        if not _admitted(context.quotas, request, STRICT_GROWTH_FROM, decision, len(decision.replicas)):
            return _throttle_decision(topic.name)
    return (yield from topics.add_partitions(topic.name, topic.count, assignments, validate_only=request.body.validate_only))
