"""AlterConfigs and IncrementalAlterConfigs: the settings of topics, groups and brokers (KIP-133, KIP-339).

All changes of a resource are checked before any is made; each resource has a result of its own. AlterConfigs replaces all settings
of a resource, and IncrementalAlterConfigs changes the named settings, and levels of loggers. Other resource types are refused.
Versions differ in encoding only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ottla.broker.handlers.broker_loggers import alter_loggers
from ottla.broker.handlers.client_metrics_configs import altered_subscription
from ottla.broker.handlers.config_resources import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    ConfigRefused,
    group_configs,
    named_broker,
    topic_configs,
)
from ottla.broker.identity import BrokerIdentity
from ottla.broker.serving.authorization import Need, Operation
from ottla.broker.serving.parts import Parts
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.settings import BrokerSettings, SettingError, SettingsInForce, TopicSettings
from ottla.broker.settings.broker_security import bare
from ottla.broker.settings.changes import APPEND, DELETE, SET, SUBTRACT, ConfigChange, apply_changes
from ottla.broker.settings.group import GroupConfigs, group_value
from ottla.broker.settings.kinds import LIST
from ottla.broker.settings.setting import Reach, Setting, SettingsOf
from ottla.broker.settings.setting_sources import MIN_INSYNC_REPLICAS
from ottla.broker.topics.configs import DynamicConfigs
from ottla.cluster.decision import Decision
from ottla.cluster.image import ClusterImage
from ottla.ports import Loggers, Steps
from ottla.wire.api.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ottla.wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from ottla.wire.errors import INVALID_CONFIG, INVALID_REQUEST

Altering = Request[AlterConfigsRequest] | Request[IncrementalAlterConfigsRequest]
AlteredResource = AlterConfigsRequest.AlterConfigsResource | IncrementalAlterConfigsRequest.AlterConfigsResource
Altered = AlterConfigsResponse.AlterConfigsResourceResponse


class AlterContext(NamedTuple):
    """The parts of the broker that the handlers use."""

    identity: BrokerIdentity
    cluster: ClusterImage
    settings: SettingsInForce
    configs: DynamicConfigs
    loggers: Loggers


Alter = Callable[[AlterContext, Altering, str, list[ConfigChange], Mapping[str, str] | None], Decision]
"""Decides changes of a named resource, based on the given configs or, if None, on its current configs.

Raises `ConfigRefused`.
"""


MOST_CHANGES = 5000
"""Upper limit of settings per resource in a request; a few hundred exist."""
ONE_BY_ONE = Parts(((("resources",), ("responses",)),), things=10, whole_bytes=1024, unique=("resource_type", "resource_name"))


@serves(AlterConfigsRequest, Need(Operation.ALTER_CONFIGS, None, "resources.resource_name"), parts=ONE_BY_ONE, to_the_end=True)
def alter_configs(request: Request[AlterConfigsRequest], context: AlterContext) -> Steps[Reply]:
    """Replace all configs of a resource by the configs in the request."""
    resources = request.body.resources
    changes = [[ConfigChange(each.name, SET, each.value) for each in one.configs[: MOST_CHANGES + 1]] for one in resources]
    decisions = yield from _decide_all(context, request, resources, changes, {})
    results = [_result(*each) for each in zip(resources, decisions, strict=True)]
    return AlterConfigsResponse(responses=results)


@serves(
    IncrementalAlterConfigsRequest,
    Need(Operation.ALTER_CONFIGS, None, "resources.resource_name"),
    parts=ONE_BY_ONE,
    to_the_end=True,
)
def incremental_alter_configs(request: Request[IncrementalAlterConfigsRequest], context: AlterContext) -> Steps[Reply]:
    """Change the configs of a resource that the request names, and keep its other configs (KIP-339)."""
    resources = request.body.resources
    changes = [
        [ConfigChange(each.name, each.config_operation, each.value) for each in one.configs[: MOST_CHANGES + 1]]
        for one in resources
    ]
    decisions = yield from _decide_all(context, request, resources, changes, None)
    results = [_result(*each) for each in zip(resources, decisions, strict=True)]
    return IncrementalAlterConfigsResponse(responses=results)


def _decide_all(
    context: AlterContext,
    request: Altering,
    resources: Sequence[AlteredResource],
    changes: Sequence[list[ConfigChange]],
    base: Mapping[str, str] | None,
) -> Steps[list[Decision]]:
    """Return the decision for each resource. One commit makes all changes of topics and groups."""
    times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    decide = [
        partial(_alter, context, request, resource, wanted, base, times[resource.resource_type, resource.resource_name])
        for resource, wanted in zip(resources, changes, strict=True)
    ]
    if request.body.validate_only:
        return [one() for one in decide]
    decided: dict[int, Decision] = {}
    others: list[int] = []
    for number, resource in enumerate(resources):
        if resource.resource_type == BROKER_LOGGER:
            decided[number] = decide[number]()
        elif resource.resource_type == BROKER:
            decided[number] = yield from context.configs.commit_broker(decide[number], request.now)
        else:
            others.append(number)
    made = yield from context.configs.commit([decide[number] for number in others], request.now)
    decided |= zip(others, made, strict=True)
    return [decided[number] for number in range(len(resources))]


def _result(resource: AlteredResource, decision: Decision) -> Altered:
    return Altered(
        error_code=decision.error_code,
        error_message=decision.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _alter(
    context: AlterContext,
    request: Altering,
    resource: AlteredResource,
    changes: list[ConfigChange],
    base: Mapping[str, str] | None,
    times: int,
) -> Decision:
    """Decide the changes of one resource, based on `base` or, if None, on its current configs. `times`: how often it is named."""
    name = resource.resource_name
    alter: dict[int, Alter] = {
        TOPIC: _alter_topic,
        BROKER: _alter_broker,
        GROUP: _alter_group,
        CLIENT_METRICS: _alter_client_metrics,
    }
    if base is None:
        alter[BROKER_LOGGER] = _alter_logger
    kind = resource.resource_type
    try:
        if times > 1 or request.repeats(kind, name):
            raise ConfigRefused(INVALID_REQUEST, f"Each resource must appear at most once: {name!r} does not.")
        _check(changes)
        if kind not in alter:
            raise ConfigRefused(
                INVALID_REQUEST, f"Unknown resource type {kind}: this request changes those of {', '.join(map(str, alter))}."
            )
        return alter[kind](context, request, name, changes, base)
    except ConfigRefused as refused:
        return Decision(name, refused.error_code, refused.message)
    except SettingError as error:
        return Decision(name, INVALID_CONFIG, str(error))


def _check(changes: list[ConfigChange]) -> None:
    """Refuse changes that are invalid for any resource."""
    if len(changes) > MOST_CHANGES:
        raise ConfigRefused(INVALID_REQUEST, f"More than {MOST_CHANGES} settings of a resource are given: change fewer at a time.")
    for name, times in Counter(change.name for change in changes).items():
        if times > 1:
            raise ConfigRefused(INVALID_REQUEST, f"Error due to duplicate config keys: give {name} once.")
    for name, operation, value in changes:
        if operation not in (SET, DELETE, APPEND, SUBTRACT):
            raise ConfigRefused(
                INVALID_REQUEST, f"Unknown operations type {operation}: set (0), delete (1), append (2) or subtract (3) {name}."
            )
        if value is None and operation != DELETE:
            raise ConfigRefused(INVALID_REQUEST, f"Null value not supported for : {name}; give one, or delete it for the default.")


def _check_lists(changes: list[ConfigChange], declared: type[SettingsOf], sentence: str) -> None:
    """Refuse to append to a setting that is not a list; `sentence` has placeholders for the verb and the name."""
    for name, operation, _ in changes:
        setting = declared.DECLARED.get(name)
        if operation in (APPEND, SUBTRACT) and (setting is None or setting.kind is not LIST):
            unknown = setting is None and declared is BrokerSettings
            verb = "APPEND" if operation == APPEND else "SUBTRACT"
            verb = verb.lower() if declared is BrokerSettings else verb
            raise ConfigRefused(INVALID_CONFIG, f"Unknown config name: {name}" if unknown else sentence.format(verb, name))


def _alter_topic(
    context: AlterContext, request: Altering, name: str, changes: list[ConfigChange], base: Mapping[str, str] | None
) -> Decision:
    if not name:
        raise ConfigRefused(INVALID_REQUEST, "Default topic resources are not allowed: name a topic.")
    present = topic_configs(context.cluster, name)
    _check_lists(changes, TopicSettings, "Can't {} to key {} because its type is not LIST: set it instead.")
    in_force = partial(context.settings.value.topic_value, overrides=present)
    after = apply_changes(present if base is None else base, changes, TopicSettings, in_force)
    return context.configs.of_topic(name, after)


def _alter_group(
    context: AlterContext, request: Altering, name: str, changes: list[ConfigChange], base: Mapping[str, str] | None
) -> Decision:
    if not name:
        raise ConfigRefused(INVALID_REQUEST, "Default group resources are not allowed: name a group.")
    present = group_configs(context.cluster, name)
    _check_lists(changes, GroupConfigs, "Can't {} to key {} because its type is not LIST: set it instead.")
    in_force = partial(group_value, context.settings.value, overrides=present)
    after = apply_changes(present if base is None else base, changes, GroupConfigs, in_force)
    return context.configs.of_group(name, after)


def _alter_broker(
    context: AlterContext, request: Altering, name: str, changes: list[ConfigChange], base: Mapping[str, str] | None
) -> Decision:
    node_id = named_broker(context.identity, name, "Node id", "")
    settings = context.settings.value
    _check_lists(changes, BrokerSettings, "Config value {} is not allowed for config key: {}; it is not a list, so set it.")
    _check_reach(changes, node_id)
    present = context.configs.broker_texts(node_id)
    after = apply_changes(present if base is None else base, changes, BrokerSettings, settings.value)
    try:
        decision = context.configs.of_broker(node_id, after)
    except SettingError as error:
        raise ConfigRefused(INVALID_REQUEST, str(error)) from None
    if request.release.eligible_replicas:
        _check_replicas(changes, node_id, keeps=base is None)
    return decision


def _alter_client_metrics(
    context: AlterContext, request: Altering, name: str, changes: list[ConfigChange], base: Mapping[str, str] | None
) -> Decision:
    present = context.cluster.client_metrics.get(name, {})
    after = altered_subscription(name, present if base is None else base, changes)
    return context.configs.of_client_metrics(name, after)


def _alter_logger(
    context: AlterContext, request: Altering, name: str, changes: list[ConfigChange], base: Mapping[str, str] | None
) -> Decision:
    alter_loggers(context.identity, context.loggers, name, changes, validate_only=request.body.validate_only)
    return Decision(name)


def _check_reach(changes: list[ConfigChange], node_id: int | None) -> None:
    """Refuse settings that can't change at runtime, or not at this level."""
    found = [(change.name, *_declaration(change.name)) for change in changes if change.operation != DELETE]
    known = [(name, setting, one_listener) for name, setting, one_listener in found if setting is not None]
    fixed = [name for name, setting, _ in known if not setting.dynamic]
    bare = [name for name, setting, one_listener in known if setting.reach is Reach.LISTENER and not one_listener]
    single = [name for name, setting, _ in known if setting.reach is not Reach.ALL]
    if fixed:
        raise ConfigRefused(
            INVALID_REQUEST, f"Cannot update these configs dynamically: [{','.join(fixed)}]; set them at the start of the broker."
        )
    if bare:
        sentence = "These security configs can be dynamically updated only per-listener using the listener prefix: "
        raise ConfigRefused(INVALID_REQUEST, f"{sentence}[{','.join(bare)}]")
    if single and node_id is None:
        sentence = "Cannot update these configs at default cluster level, broker id must be specified: "
        raise ConfigRefused(INVALID_REQUEST, f"{sentence}[{','.join(single)}]")


def _declaration(name: str) -> tuple[Setting[object] | None, bool]:
    """Return the broker setting of this name, and whether the name is for one listener (listener.name.NAME.SETTING)."""
    found = bare(name, BrokerSettings.DECLARED)
    return BrokerSettings.DECLARED.get(found), found != name


def _check_replicas(changes: list[ConfigChange], node_id: int | None, *, keeps: bool) -> None:
    """Refuse changes of min.insync.replicas that eligible leader replicas (KIP-966) forbid.

    The setting of the cluster must not be removed, and single brokers must not have their own. `keeps`: settings that the request
    does not name stay unchanged.
    """
    named = {change.name: change.operation for change in changes}
    if node_id is not None and MIN_INSYNC_REPLICAS in named:
        sentence = f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled: set it for all brokers."
        raise ConfigRefused(INVALID_CONFIG, sentence)
    if node_id is None and named.get(MIN_INSYNC_REPLICAS, SET if keeps else DELETE) == DELETE:
        sentence = f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled: set it to what it shall be."
        raise ConfigRefused(INVALID_CONFIG, sentence)
