"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: settings of topics, of groups and of this broker.

A change is checked whole before any of it is made; each resource of a request has its own result.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, TypeVar

from ottla.broker.identity import BrokerIdentity
from ottla.broker.serving.authorization import Need, Operation
from ottla.broker.serving.later import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.settings import BrokerSettings, Listener, SettingError, SettingsInForce, TopicSettings
from ottla.broker.settings.described import (
    DEFAULT_CONFIG,
    MIN_INSYNC_REPLICAS,
    DescribedSetting,
    as_told,
    described_broker,
    described_changes,
    described_group,
    described_topic,
)
from ottla.broker.settings.group import GroupConfigs, group_value
from ottla.broker.settings.kinds import LIST
from ottla.broker.settings.setting import Reach, Setting, SettingsOf
from ottla.broker.topics.configs import DynamicConfigs
from ottla.cluster.image import ClusterImage
from ottla.cluster.names import name_error
from ottla.wire.api.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ottla.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from ottla.wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from ottla.wire.errors import INVALID_CONFIG, INVALID_REQUEST, INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = range(4)

DescribedResource = DescribeConfigsRequest.DescribeConfigsResource
AlteredResource = AlterConfigsRequest.AlterConfigsResource | IncrementalAlterConfigsRequest.AlterConfigsResource
Altering = Request[AlterConfigsRequest] | Request[IncrementalAlterConfigsRequest]
Describing = Request[DescribeConfigsRequest]
Altered = AlterConfigsResponse.AlterConfigsResourceResponse
IncrementallyAltered = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
R = TypeVar("R", AlterConfigsRequest.AlterConfigsResource, IncrementalAlterConfigsRequest.AlterConfigsResource)
Described = DescribeConfigsResponse.DescribeConfigsResult
Entry = DescribeConfigsResponse.DescribeConfigsResourceResult


class ConfigRefused(Exception):
    """A resource that can't be described or changed: Kafka's code and a sentence."""

    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message


class _ConfigRooms(NamedTuple):
    """What the handlers of this module take."""

    identity: BrokerIdentity
    cluster: ClusterImage
    settings: SettingsInForce
    configs: DynamicConfigs


class ConfigChange(NamedTuple):
    """One change of one setting."""

    name: str
    operation: int
    value: str | None


@serves(DescribeConfigsRequest, Need(Operation.DESCRIBE_CONFIGS, None, "resources.resource_name"))
def describe_configs(
    request: Request[DescribeConfigsRequest],
    identity: BrokerIdentity,
    cluster: ClusterImage,
    settings: SettingsInForce,
    configs: DynamicConfigs,
) -> Reply:
    """Describe settings: all of a resource, or those that it names (an empty list names all)."""
    rooms = _ConfigRooms(identity, cluster, settings, configs)
    response = DescribeConfigsResponse(results=[_described(rooms, resource, request) for resource in request.body.resources])
    if request.version == 0:
        for entry in (entry for result in response.results for entry in result.configs):
            entry.is_default = entry.config_source == DEFAULT_CONFIG  # all that version 0 tells of where a value comes from
    return response


def _described(rooms: _ConfigRooms, resource: DescribedResource, request: Describing) -> Described:
    body = request.body
    kind, name = resource.resource_type, resource.resource_name
    try:
        rows = _rows(rooms, kind, name, request)
    except ConfigRefused as refused:
        return Described(error_code=refused.error_code, error_message=refused.message, resource_type=kind, resource_name=name)
    wanted = set(resource.configuration_keys or ())
    entries = [_entry(row, body) for row in rows if not wanted or row.name in wanted]
    return Described(error_message="", resource_type=kind, resource_name=name, configs=entries)


def _rows(rooms: _ConfigRooms, kind: int, name: str, request: Describing) -> Iterable[DescribedSetting]:
    told = as_told(rooms.settings.value, request.release)
    if kind == TOPIC:
        return described_topic(told, _topic_configs(rooms, name))
    if kind == GROUP:
        return described_group(rooms.settings.value, _group_configs(rooms, name))
    if kind != BROKER:
        raise ConfigRefused(
            INVALID_REQUEST,
            f"Resource type {kind} has no settings here: ask for a topic ({TOPIC}), a broker ({BROKER}) or a group ({GROUP}).",
        )
    if _node_id(rooms, name) is None:
        return described_changes(told.of_all_brokers)
    return described_broker(_with_addresses(told, rooms, request))


def _topic_configs(rooms: _ConfigRooms, name: str) -> Mapping[str, str]:
    """What was set for a topic that is there."""
    topic = rooms.cluster.topics.get(name)
    if topic is not None:
        return topic.configs
    sentence = name_error(name)
    if sentence is not None:
        raise ConfigRefused(INVALID_TOPIC_EXCEPTION, sentence)
    raise ConfigRefused(UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist: create it first.")


def _group_configs(rooms: _ConfigRooms, name: str) -> Mapping[str, str]:
    """What was set for a group, which need not be there."""
    if not name:
        raise ConfigRefused(INVALID_REQUEST, "Group name must not be empty: name a group.")
    return rooms.cluster.group_configs.get(name, {})


def _node_id(rooms: _ConfigRooms, name: str, what: str = "Broker id", or_all: str = " or empty string") -> int | None:
    """The broker that a resource names: this one, or None for all of them. The words are Kafka's, and differ from API to API."""
    if not name:
        return None
    if not re.fullmatch("-?[0-9]{1,10}", name):
        raise ConfigRefused(INVALID_REQUEST, f"{what} must be an integer, but it is: {name}")
    if int(name) != rooms.identity.node_id:
        sentence = (
            f"Unexpected broker id, expected {rooms.identity.node_id}{or_all}, but received {int(name)}: ask that broker itself."
        )
        raise ConfigRefused(INVALID_REQUEST, sentence)
    return rooms.identity.node_id


def _with_addresses(settings: BrokerSettings, rooms: _ConfigRooms, request: Describing) -> BrokerSettings:
    """What is in force without having been set: the numbers and the address that start-up found."""
    peer = request.peer
    listener = Listener(peer.listener, peer.local_host, peer.local_port)
    node_id = str(rooms.identity.node_id)
    found = {"broker.id": node_id, "listeners": str(listener), "node.id": node_id} | settings.given
    return BrokerSettings(found, of_all_brokers=settings.of_all_brokers, of_this_broker=settings.of_this_broker)


def _entry(row: DescribedSetting, body: DescribeConfigsRequest) -> Entry:
    synonyms = [
        DescribeConfigsResponse.DescribeConfigsSynonym(name=name, value=value, source=source)
        for name, value, source in (row.synonyms if body.include_synonyms else ())
    ]
    return Entry(
        name=row.name,
        value=row.value,
        read_only=row.read_only,
        config_source=row.source,
        is_sensitive=row.is_sensitive,
        synonyms=synonyms,
        config_type=row.type_code,
        documentation=row.documentation if body.include_documentation else None,
    )


@serves(AlterConfigsRequest, Need(Operation.ALTER_CONFIGS, None, "resources.resource_name"))
def alter_configs(
    request: Request[AlterConfigsRequest],
    identity: BrokerIdentity,
    cluster: ClusterImage,
    settings: SettingsInForce,
    configs: DynamicConfigs,
) -> Reply:
    """Replace all settings that a resource has of its own by those given."""
    rooms, body = _ConfigRooms(identity, cluster, settings, configs), request.body
    results = []
    for resource, times in _counted(body.resources):
        operations = [ConfigChange(config.name, SET, config.value) for config in resource.configs]
        code, message = _altered(rooms, request, resource, operations, {}, times)
        results.append(
            Altered(
                error_code=code, error_message=message, resource_type=resource.resource_type, resource_name=resource.resource_name
            )
        )
    return AlterConfigsResponse(responses=results)


@serves(IncrementalAlterConfigsRequest, Need(Operation.ALTER_CONFIGS, None, "resources.resource_name"))
def incremental_alter_configs(
    request: Request[IncrementalAlterConfigsRequest],
    identity: BrokerIdentity,
    cluster: ClusterImage,
    settings: SettingsInForce,
    configs: DynamicConfigs,
) -> Reply:
    """Change some of a resource's settings, and leave the others (KIP-339)."""
    rooms, body = _ConfigRooms(identity, cluster, settings, configs), request.body
    results = []
    for resource, times in _counted(body.resources):
        operations = [ConfigChange(config.name, config.config_operation, config.value) for config in resource.configs]
        code, message = _altered(rooms, request, resource, operations, None, times)
        results.append(
            IncrementallyAltered(
                error_code=code, error_message=message, resource_type=resource.resource_type, resource_name=resource.resource_name
            )
        )
    return IncrementalAlterConfigsResponse(responses=results)


def _counted(resources: Iterable[R]) -> Iterator[tuple[R, int]]:
    """Each resource with the number of times that the request names it."""
    named = [(resource, (resource.resource_type, resource.resource_name)) for resource in resources]
    times = Counter(name for _, name in named)
    return ((resource, times[name]) for resource, name in named)


def _altered(
    rooms: _ConfigRooms,
    request: Altering,
    resource: AlteredResource,
    operations: list[ConfigChange],
    base: Mapping[str, str] | None,
    times: int,
) -> tuple[int, str | None]:
    """Make one resource's changes over `base` (None: over what it has); returns (error code, sentence)."""
    alter: dict[int, Callable[[_ConfigRooms, Altering, str, list[ConfigChange], Mapping[str, str] | None], tuple[int, str | None]]]
    alter = {TOPIC: _alter_topic, BROKER: _alter_broker, GROUP: _alter_group}
    kind = resource.resource_type
    try:
        if times > 1:
            raise ConfigRefused(INVALID_REQUEST, f"Each resource must appear at most once: {resource.resource_name!r} does not.")
        _check(operations)
        if kind not in alter:
            raise ConfigRefused(
                INVALID_REQUEST, f"Unknown resource type {kind}: only topics, brokers and groups have settings to change."
            )
        return alter[kind](rooms, request, resource.resource_name, operations, base)
    except ConfigRefused as refused:
        return refused.error_code, refused.message
    except SettingError as error:
        return INVALID_CONFIG, str(error)


def _check(operations: list[ConfigChange]) -> None:
    for name, times in Counter(operation.name for operation in operations).items():
        if times > 1:
            raise ConfigRefused(INVALID_REQUEST, f"Error due to duplicate config keys: give {name} once.")
    for name, operation, value in operations:
        if operation not in (SET, DELETE, APPEND, SUBTRACT):
            raise ConfigRefused(
                INVALID_REQUEST, f"Unknown operations type {operation}: set (0), delete (1), append (2) or subtract (3) {name}."
            )
        if value is None and operation != DELETE:
            raise ConfigRefused(INVALID_REQUEST, f"Null value not supported for : {name}; give one, or delete it for the default.")


def _check_lists(operations: list[ConfigChange], declared: type[SettingsOf], sentence: str) -> None:
    """Only to lists can anything be appended; `sentence` has room for the verb and the name."""
    for name, what, _ in operations:
        setting = declared.DECLARED.get(name)
        if what in (APPEND, SUBTRACT) and (setting is None or setting.kind is not LIST):
            unknown = setting is None and declared is BrokerSettings
            verb = "APPEND" if what == APPEND else "SUBTRACT"
            verb = verb.lower() if declared is BrokerSettings else verb
            raise ConfigRefused(INVALID_CONFIG, f"Unknown config name: {name}" if unknown else sentence.format(verb, name))


def _alter_topic(
    rooms: _ConfigRooms, request: Altering, name: str, operations: list[ConfigChange], base: Mapping[str, str] | None
) -> tuple[int, str | None]:
    if not name:
        raise ConfigRefused(INVALID_REQUEST, "Default topic resources are not allowed: name a topic.")
    present = _topic_configs(rooms, name)
    _check_lists(operations, TopicSettings, "Can't {} to key {} because its type is not LIST: set it instead.")
    in_force = partial(rooms.settings.value.topic_value, overrides=present)
    after = _changed(present if base is None else base, operations, TopicSettings, in_force)
    decision = rooms.configs.set_topic(name, after, request.now, validate_only=request.body.validate_only)
    return decision.error_code, decision.message


def _alter_group(
    rooms: _ConfigRooms, request: Altering, name: str, operations: list[ConfigChange], base: Mapping[str, str] | None
) -> tuple[int, str | None]:
    if not name:
        raise ConfigRefused(INVALID_REQUEST, "Default group resources are not allowed: name a group.")
    present = _group_configs(rooms, name)
    _check_lists(operations, GroupConfigs, "Can't {} to key {} because its type is not LIST: set it instead.")
    in_force = partial(group_value, rooms.settings.value, overrides=present)
    after = _changed(present if base is None else base, operations, GroupConfigs, in_force)
    decision = rooms.configs.set_group(name, after, validate_only=request.body.validate_only)
    return decision.error_code, decision.message


def _alter_broker(
    rooms: _ConfigRooms, request: Altering, name: str, operations: list[ConfigChange], base: Mapping[str, str] | None
) -> tuple[int, str | None]:
    node_id = _node_id(rooms, name, "Node id", "")
    settings = rooms.settings.value
    _check_lists(operations, BrokerSettings, "Config value {} is not allowed for config key: {}; it is no list, so set it.")
    _check_reach(operations, node_id)
    present = settings.of_all_brokers if node_id is None else settings.of_this_broker
    after = _changed(present if base is None else base, operations, BrokerSettings, settings.value)
    try:
        rooms.configs.set_broker(node_id, after, request.now, validate_only=True)
    except SettingError as error:
        raise ConfigRefused(INVALID_REQUEST, str(error)) from None
    if request.release.eligible_replicas:
        _check_replicas(operations, node_id, keeps=base is None)
    decision = rooms.configs.set_broker(node_id, after, request.now, validate_only=request.body.validate_only)
    return decision.error_code, decision.message


def _check_reach(operations: list[ConfigChange], node_id: int | None) -> None:
    """Whether these can be changed while a broker runs, and for whom."""
    found = [(operation.name, *_declared(operation.name)) for operation in operations if operation.operation != DELETE]
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


def _declared(name: str) -> tuple[Setting[object] | None, bool]:
    """The broker setting of this name, and whether the name is for one listener (listener.name.NAME.SETTING)."""
    prefixed = re.fullmatch(r"listener\.name\.[^.]+\.(.+)", name)
    return BrokerSettings.DECLARED.get(prefixed[1] if prefixed else name), prefixed is not None


def _check_replicas(operations: list[ConfigChange], node_id: int | None, *, keeps: bool) -> None:
    """With eligible leader replicas (KIP-966) min.insync.replicas is set for all brokers, always, and for no single one.

    `keeps`: what the request does not name stays as it is.
    """
    named = {operation.name: operation.operation for operation in operations}
    if node_id is not None and MIN_INSYNC_REPLICAS in named:
        sentence = f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled: set it for all brokers."
        raise ConfigRefused(INVALID_CONFIG, sentence)
    if node_id is None and named.get(MIN_INSYNC_REPLICAS, SET if keeps else DELETE) == DELETE:
        sentence = f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled: set it to what it shall be."
        raise ConfigRefused(INVALID_CONFIG, sentence)


def _changed(
    before: Mapping[str, str], operations: list[ConfigChange], declared: type[SettingsOf], in_force: Callable[[str], object]
) -> dict[str, str]:
    """The texts of a resource after the operations; `in_force` has the values by name that it goes by now."""
    after = dict(before)
    for operation in operations:
        setting = declared.DECLARED.get(operation.name)
        _apply(after, operation, None if setting is None else setting.show(in_force(operation.name)))
    return after


def _apply(after: dict[str, str], operation: ConfigChange, in_force: str | None) -> None:
    """One operation on the texts of a resource; `in_force` is what a list that was not set of its own begins with."""
    name, what, value = operation
    if what == DELETE:
        after.pop(name, None)
        return
    assert value is not None
    if what == SET:
        after[name] = value
        return
    present: list[str] = list(LIST.parse(after.get(name, in_force or "")))
    given = LIST.parse(value)
    if what == APPEND:
        items = present + [item for item in given if item not in present]
    else:
        items = [item for item in present if item not in given]
    after[name] = ",".join(items)
