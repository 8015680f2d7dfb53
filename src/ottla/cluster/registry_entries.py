"""Metadata events from the entries of a registry, and images loaded from a whole registry.

The module reads the registry's layout. A running broker's image gets topics and brokers from the controller instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ottla.cluster import acls, features, layout, tokens, unknown_users
from ottla.cluster.acls import Pattern
from ottla.cluster.controller_rules import entries
from ottla.cluster.image import NO_LEADER, NO_TOPIC_ID, BrokerImage, ClusterImage, PartitionImage
from ottla.cluster.metadata import (
    AclsChanged,
    ConfigKind,
    ConfigsChanged,
    FeaturesChanged,
    QuotasChanged,
    Setting,
    TokenChanged,
    UnknownUsersChanged,
    UserChanged,
)
from ottla.cluster.metadata_updates import apply_setting
from ottla.cluster.quotas import QuotaEntity, quotas_in
from ottla.ports import Change, Entries, Entry, RegistryDamaged


def settings_in(path: str, value: bytes | None, version: int = 0) -> list[Setting]:
    """Return the events of an entry, or of its removal (None). Other entries have none.

    Raises an exception of `layout.NOT_UNDERSTOOD` if the entry is invalid.
    """
    match path.split("/")[1:]:
        case ["config", "users", user, "clients", client_id]:
            return _quotas(QuotaEntity(layout.name_in(user), layout.name_in(client_id)), value)
        case ["config", kind, who]:
            return _configs(kind, who, value)
        case ["delegation_token", "tokens", token_id]:
            return [TokenChanged(token_id, None if value is None else tokens.read(token_id, value))]
        case ["ottla", "unknown_users"]:
            return [UnknownUsersChanged(None if value is None else unknown_users.read(value))]
        case ["kafka-acl", kind, entry] | ["kafka-acl-extended", "prefixed", kind, entry]:
            is_prefixed = path.startswith(layout.ACLS[Pattern.PREFIXED])
            return [AclsChanged(*acls.read(kind, entry, value, is_prefixed=is_prefixed))]
        case ["feature"]:
            none = value is None
            return [FeaturesChanged(dict(features.NEWEST) if value is None else features.levels_in(value), 0 if none else version)]
    return []


def _configs(kind: str, who: str, value: bytes | None) -> list[Setting]:
    configs = layout.configs_in(value)
    match kind:
        case "topics":
            return [ConfigsChanged(ConfigKind.TOPIC, who, configs)]
        case "brokers":
            return [ConfigsChanged(ConfigKind.BROKER, "" if who == layout.DEFAULT_ENTRY else str(int(who)), configs)]
        case "groups":
            return [ConfigsChanged(ConfigKind.GROUP, layout.name_in(who), configs)]
        case "client-metrics":
            return [ConfigsChanged(ConfigKind.CLIENT_METRICS, layout.name_in(who), configs)]
        case "users":
            user = layout.name_in(who)
            return [UserChanged(user, configs), *_quotas(QuotaEntity(user), value)]
        case "clients":
            return _quotas(QuotaEntity(None, layout.name_in(who)), value)
        case "ips":
            return _quotas(QuotaEntity(ip=layout.name_in(who)), value)
    return []


def _quotas(entity: QuotaEntity, value: bytes | None) -> list[Setting]:
    return [QuotasChanged(entity, quotas_in(layout.configs_in(value)))]


def load(image: ClusterImage, registry: Entries) -> None:
    """Load a whole registry into a new image. Raises `RegistryDamaged` and `StorageFailed`."""
    for path, error in load_all(image, registry):
        sentence = f"The registry's entry {path} cannot be parsed ({layout.why(error)}): `ottla registry restore` restores a copy"
        raise RegistryDamaged(sentence) from error


def load_all(image: ClusterImage, registry: Entries) -> Iterator[tuple[str, Exception]]:
    """Load a registry as `load` does, but skip entries that cannot be parsed: yield the path and the error of each."""
    for path in _paths(registry):
        entry = registry.get(path)
        if entry is None:
            continue
        try:
            apply_entry(image, path, entry.value, entry.version)
        except layout.NOT_UNDERSTOOD as error:
            yield path, error


def apply_all(image: ClusterImage, changes: Iterable[Change]) -> None:
    for change in changes:
        apply_entry(image, change.path, change.value)


def apply_entry(image: ClusterImage, path: str, value: bytes | None, version: int = 0) -> None:
    """Apply the present value of an entry, or its removal (None). Ignore entries that no image contains."""
    image.changes += 1
    match path.split("/")[1:]:
        case ["brokers", "topics", name]:
            _apply_topic(image, name, value)
        case ["brokers", "topics", name, "partitions", index, "state"]:
            _apply_state(image, name, int(index), value)
        case ["brokers", "ids", node_id]:
            _apply_broker(image, int(node_id), value)
        case ["controller"]:
            image.controller_id = -1 if value is None else layout.whole(layout.read(value)["brokerid"], lowest=-1)
        case ["controller_epoch"]:
            image.controller_epoch = 0 if value is None else layout.whole(int(value))
        case _:
            for event in settings_in(path, value, version):
                apply_setting(image, event)


def _apply_topic(image: ClusterImage, name: str, value: bytes | None) -> None:
    if value is None:
        image.drop_topic(name)
        return
    stored = entries.topic(Entry(value, 0))
    if stored.assignments.keys() != set(range(len(stored.assignments))):
        raise ValueError(f"the partitions of topic {name} are not numbered from 0 without gaps")
    replicas = [stored.assignments[index].replicas for index in range(len(stored.assignments))]
    partitions = image.put_topic(name, stored.topic_id or NO_TOPIC_ID).partitions
    for partition, nodes in zip(partitions, replicas, strict=False):
        partition.replicas = nodes
    new = range(len(partitions), len(replicas))
    partitions += [PartitionImage(index, NO_LEADER, 0, replicas[index]) for index in new]


def _apply_state(image: ClusterImage, name: str, index: int, value: bytes | None) -> None:
    topic = image.topics.get(name)
    if topic is not None and index < len(topic.partitions) and value is not None:
        stored, partition = entries.state(Entry(value, 0)), topic.partitions[index]
        partition.leader, partition.leader_epoch, partition.isr = stored.leader, stored.leader_epoch, stored.isr


def _apply_broker(image: ClusterImage, node_id: int, value: bytes | None) -> None:
    if value is None:
        image.brokers.pop(node_id, None)
        return
    stored = entries.broker(node_id, Entry(value, 0))
    image.brokers[node_id] = BrokerImage(node_id, tuple(one[:3] for one in stored.endpoints), stored.rack)


def _paths(registry: Entries) -> Iterator[str]:
    """Yield the path of every entry that an image is loaded from, each topic before its states and settings."""
    yield layout.CONTROLLER
    yield layout.CONTROLLER_EPOCH
    yield layout.FEATURES
    yield layout.UNKNOWN_USERS
    yield from acls.paths(registry)
    yield from (f"{layout.BROKERS}/{node_id}" for node_id in registry.children(layout.BROKERS))
    yield from (f"{layout.BROKER_CONFIGS}/{who}" for who in registry.children(layout.BROKER_CONFIGS))
    for kind in layout.OTHER_CONFIGS:
        yield from (f"{kind}/{entry}" for entry in registry.children(kind))
    for user in registry.children(layout.USER_CONFIGS):
        clients = f"{layout.USER_CONFIGS}/{user}/clients"
        yield from (f"{clients}/{entry}" for entry in registry.children(clients))
    yield from (layout.delegation_token_path(token_id) for token_id in registry.children(layout.DELEGATION_TOKENS))
    for name in registry.children(layout.TOPICS):
        yield layout.topic_path(name)
        above = layout.partitions_path(name)
        yield from (f"{above}/{index}/state" for index in registry.children(above))
        yield layout.topic_config_path(name)
