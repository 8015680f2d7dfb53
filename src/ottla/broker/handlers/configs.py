"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: settings of topics, of groups and of this broker.

A change is checked whole before any of it is made; each resource of a request has its own result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from ottla.broker.broker import Broker
from ottla.broker.described import DEFAULT_CONFIG, Row, described_broker, described_changes, described_group, described_topic
from ottla.broker.request import Handlers, Reply, Request
from ottla.broker.settings import BrokerSettings, SettingError, TopicSettings
from ottla.broker.settings.group import GroupConfigs, group_value
from ottla.broker.settings.kinds import LIST
from ottla.broker.settings.setting import SettingsOf
from ottla.cluster.names import name_error
from ottla.wire.api.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ottla.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from ottla.wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from ottla.wire.errors import INVALID_CONFIG, INVALID_REQUEST, INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = range(4)

Resource = DescribeConfigsRequest.DescribeConfigsResource
Described = DescribeConfigsResponse.DescribeConfigsResult
Entry = DescribeConfigsResponse.DescribeConfigsResourceResult


class Refused(Exception):
    """A resource that can't be described or changed: Kafka's code and a sentence."""

    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message


class Operation(NamedTuple):
    name: str
    operation: int
    value: str | None


def handle_describe_configs(broker: Broker, request: Request) -> Reply:
    """Describe settings: all of a resource, or those that it names (an empty list names all)."""
    response = DescribeConfigsResponse(results=[_described(broker, resource, request) for resource in request.body.resources])
    if request.version == 0:
        for entry in (entry for result in response.results for entry in result.configs):
            entry.is_default = entry.config_source == DEFAULT_CONFIG  # all that version 0 tells of where a value comes from
    return response


def _described(broker: Broker, resource: Resource, request: Request) -> Described:
    body: DescribeConfigsRequest = request.body
    kind, name = resource.resource_type, resource.resource_name
    try:
        rows = _rows(broker, kind, name, request)
    except Refused as refused:
        return Described(error_code=refused.error_code, error_message=refused.message, resource_type=kind, resource_name=name)
    wanted = set(resource.configuration_keys or ())
    entries = [_entry(row, body) for row in rows if not wanted or row.setting.name in wanted]
    return Described(error_message="", resource_type=kind, resource_name=name, configs=entries)


def _rows(broker: Broker, kind: int, name: str, request: Request) -> Iterable[Row]:
    if kind == TOPIC:
        return described_topic(broker.settings, _topic_configs(broker, name))
    if kind == GROUP:
        return described_group(broker.settings, _group_configs(broker, name))
    if kind != BROKER:
        raise Refused(
            INVALID_REQUEST,
            f"Resource type {kind} has no settings here: ask for a topic ({TOPIC}), a broker ({BROKER}) or a group ({GROUP}).",
        )
    if _node_id(broker, name) is None:
        return described_changes(broker.settings.of_all_brokers)
    return described_broker(_with_addresses(broker, request))


def _topic_configs(broker: Broker, name: str) -> Mapping[str, str]:
    """What was set for a topic that is there."""
    topic = broker.topics.get(name)
    if topic is not None:
        return topic.configs
    sentence = name_error(name)
    if sentence is not None:
        raise Refused(INVALID_TOPIC_EXCEPTION, sentence)
    raise Refused(UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name!r} here: create it first.")


def _group_configs(broker: Broker, name: str) -> Mapping[str, str]:
    """What was set for a group, which need not be there."""
    if not name:
        raise Refused(INVALID_REQUEST, "The group's name is empty: name a group.")
    return broker.topics.image.group_configs.get(name, {})


def _node_id(broker: Broker, name: str) -> int | None:
    """The broker that a resource names: this one, or None for all of them."""
    if not name:
        return None
    if not name.isdecimal():
        raise Refused(INVALID_REQUEST, f"A broker is named by its number, not by {name!r}.")
    if int(name) != broker.node_id:
        raise Refused(INVALID_REQUEST, f"This is broker {broker.node_id}: ask broker {name} itself, or name none for all of them.")
    return broker.node_id


def _with_addresses(broker: Broker, request: Request) -> BrokerSettings:
    """What is in force without having been set: the numbers and addresses that start-up found."""
    settings = broker.settings
    host, port = broker.advertised(request.peer)
    address = f"{request.peer.listener}://{f'[{host}]' if ':' in host else host}:{port}"
    node_id = str(broker.node_id)
    found = {"advertised.listeners": address, "broker.id": node_id, "listeners": address, "node.id": node_id} | settings.given
    return BrokerSettings(found, of_all_brokers=settings.of_all_brokers, of_this_broker=settings.of_this_broker)


def _entry(row: Row, body: DescribeConfigsRequest) -> Entry:
    synonyms = [
        DescribeConfigsResponse.DescribeConfigsSynonym(name=name, value=value, source=source)
        for name, value, source in (row.synonyms if body.include_synonyms else ())
    ]
    return Entry(
        name=row.setting.name,
        value=row.value,
        read_only=row.read_only,
        config_source=row.source,
        is_sensitive=row.setting.is_sensitive,
        synonyms=synonyms,
        config_type=row.setting.kind.code,
        documentation=row.setting.documentation if body.include_documentation else None,
    )


def handle_alter_configs(broker: Broker, request: Request) -> Reply:
    """Replace all settings that a resource has of its own by those given."""
    Result = AlterConfigsResponse.AlterConfigsResourceResponse
    body: AlterConfigsRequest = request.body
    results = []
    for resource, times in _counted(body.resources):
        operations = [Operation(config.name, SET, config.value) for config in resource.configs]
        code, message = _altered(broker, request, resource, operations, {}, times)
        results.append(
            Result(
                error_code=code, error_message=message, resource_type=resource.resource_type, resource_name=resource.resource_name
            )
        )
    return AlterConfigsResponse(responses=results)


def handle_incremental_alter_configs(broker: Broker, request: Request) -> Reply:
    """Change some of a resource's settings, and leave the others (KIP-339)."""
    Result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    body: IncrementalAlterConfigsRequest = request.body
    results = []
    for resource, times in _counted(body.resources):
        operations = [Operation(config.name, config.config_operation, config.value) for config in resource.configs]
        code, message = _altered(broker, request, resource, operations, None, times)
        results.append(
            Result(
                error_code=code, error_message=message, resource_type=resource.resource_type, resource_name=resource.resource_name
            )
        )
    return IncrementalAlterConfigsResponse(responses=results)


def _counted(resources: Iterable[Any]) -> Iterator[tuple[Any, int]]:
    """Each resource with the number of times that the request names it."""
    named = [(resource, (resource.resource_type, resource.resource_name)) for resource in resources]
    times = Counter(name for _, name in named)
    return ((resource, times[name]) for resource, name in named)


def _altered(
    broker: Broker, request: Request, resource: Any, operations: list[Operation], base: Mapping[str, str] | None, times: int
) -> tuple[int, str | None]:
    """Make one resource's changes over `base` (None: over what it has); returns (error code, sentence)."""
    alter: Callable[[Broker, Request, str, list[Operation], Mapping[str, str] | None], tuple[int, str | None]]
    alter = {TOPIC: _alter_topic, BROKER: _alter_broker, GROUP: _alter_group}.get(resource.resource_type, _alter_nothing)
    try:
        if times > 1:
            raise Refused(INVALID_REQUEST, f"The request names {resource.resource_name!r} twice: name it once.")
        _check(operations)
        return alter(broker, request, resource.resource_name, operations, base)
    except Refused as refused:
        return refused.error_code, refused.message
    except SettingError as error:
        return INVALID_CONFIG, str(error)


def _check(operations: list[Operation]) -> None:
    for name, times in Counter(operation.name for operation in operations).items():
        if times > 1:
            raise Refused(INVALID_REQUEST, f"{name} is given twice: give it once.")
    for name, operation, value in operations:
        if operation not in (SET, DELETE, APPEND, SUBTRACT):
            raise Refused(
                INVALID_REQUEST, f"There is no operation {operation}: set (0), delete (1), append (2) or subtract (3) {name}."
            )
        if value is None and operation != DELETE:
            raise Refused(INVALID_REQUEST, f"{name} is given without a value: give one, or delete it for the default.")


def _alter_nothing(
    broker: Broker, request: Request, name: str, operations: list[Operation], base: Mapping[str, str] | None
) -> tuple[int, str | None]:
    raise Refused(INVALID_REQUEST, f"Only settings of topics ({TOPIC}), brokers ({BROKER}) and groups ({GROUP}) can be changed.")


def _alter_topic(
    broker: Broker, request: Request, name: str, operations: list[Operation], base: Mapping[str, str] | None
) -> tuple[int, str | None]:
    present = _topic_configs(broker, name)
    in_force = partial(broker.settings.topic_value, overrides=present)
    after = _changed(present if base is None else base, operations, TopicSettings, in_force)
    outcome = broker.topics.set_configs(name, after, request.now, validate_only=request.body.validate_only)
    return outcome.error_code, outcome.message


def _alter_group(
    broker: Broker, request: Request, name: str, operations: list[Operation], base: Mapping[str, str] | None
) -> tuple[int, str | None]:
    present = _group_configs(broker, name)
    in_force = partial(group_value, broker.settings, overrides=present)
    after = _changed(present if base is None else base, operations, GroupConfigs, in_force)
    outcome = broker.topics.set_group_configs(name, after, request.now, validate_only=request.body.validate_only)
    return outcome.error_code, outcome.message


def _alter_broker(
    broker: Broker, request: Request, name: str, operations: list[Operation], base: Mapping[str, str] | None
) -> tuple[int, str | None]:
    node_id = _node_id(broker, name)
    settings = broker.settings
    for operation in operations:
        if not BrokerSettings.find(operation.name).dynamic:
            raise Refused(INVALID_REQUEST, f"{operation.name} is read at the start only: set it there, and start the broker again.")
    present = settings.of_all_brokers if node_id is None else settings.of_this_broker
    after = _changed(present if base is None else base, operations, BrokerSettings, settings.value)
    outcome = broker.topics.set_broker_configs(node_id, after, request.now, validate_only=request.body.validate_only)
    return outcome.error_code, outcome.message


def _changed(
    before: Mapping[str, str], operations: list[Operation], declared: type[SettingsOf], in_force: Callable[[str], Any]
) -> dict[str, str]:
    """The texts of a resource after the operations; `in_force` has the values by name that it goes by now."""
    after = dict(before)
    for operation in operations:
        setting = declared.DECLARED.get(operation.name)
        _apply(after, operation, declared, None if setting is None else setting.show(in_force(operation.name)))
    return after


def _apply(after: dict[str, str], operation: Operation, declared: type[SettingsOf], in_force: str | None) -> None:
    """One operation on the texts of a resource; `in_force` is what a list that was not set of its own begins with."""
    name, what, value = operation
    if what == DELETE:
        after.pop(name, None)
        return
    assert value is not None
    if what == SET:
        after[name] = value
        return
    setting = declared.find(name)
    if setting.kind is not LIST:
        verb = "appended to" if what == APPEND else "subtracted from"
        raise Refused(INVALID_CONFIG, f"{name} is no list, so nothing can be {verb} it: set it instead.")
    present: list[str] = list(LIST.parse(after.get(name, in_force or "")))
    given = LIST.parse(value)
    if what == APPEND:
        items = present + [item for item in given if item not in present]
    else:
        items = [item for item in present if item not in given]
    after[name] = ",".join(items)


HANDLERS: Handlers = {
    32: (range(5), handle_describe_configs),
    33: (range(3), handle_alter_configs),
    44: (range(2), handle_incremental_alter_configs),
}
