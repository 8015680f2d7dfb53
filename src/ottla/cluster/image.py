"""This broker's image of the cluster: the content of the registry. After `load`, only `apply` changes it.

The module reads the registry's layout. `ottla.cluster.topics` makes decisions; logs are kept elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from ottla.cluster import acls, features, layout, tokens, unknown_users
from ottla.cluster.acls import Acls, Pattern
from ottla.cluster.names import INTERNAL, collision_key
from ottla.cluster.quotas import QuotaEntity, quotas_in
from ottla.ports import Change, Entries, Pauses, RegistryDamaged

K = TypeVar("K")
V = TypeVar("V")

NO_LEADER = -1
NO_TOPIC_ID = bytes(16)
READ_AT_ONCE = 500
"""The most partitions that are read from an entry between two pauses."""


@dataclass(slots=True)
class BrokerImage:
    """A registered broker. `endpoints` are (listener, host, port); empty if each client gets the address to which it connected."""

    node_id: int
    endpoints: tuple[tuple[str, str, int], ...] = ()
    rack: str | None = None


@dataclass(slots=True)
class PartitionImage:
    index: int
    leader: int = NO_LEADER
    leader_epoch: int = 0
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()


@dataclass(slots=True)
class TopicImage:
    """One topic; `partitions[i].index == i`. `configs` are the settings of its own, as texts."""

    name: str
    topic_id: bytes
    partitions: list[PartitionImage] = field(default_factory=list)
    configs: dict[str, str] = field(default_factory=dict)

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL


@dataclass(slots=True)
class TopicRead:
    """The parsed entry of a topic: the replicas of its partitions, and the partitions that are new to the image."""

    topic_id: bytes
    replicas: list[tuple[int, ...]] = field(default_factory=list)
    new: list[PartitionImage] = field(default_factory=list)


class ClusterImage:
    """Topics by name and by id, brokers, and settings. Any module can read it, but only `apply` changes it."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicImage] = {}
        self.brokers: dict[int, BrokerImage] = {}
        self.configs_ahead: dict[str, dict[str, str]] = {}
        """The settings of new topics before the image contains them. A former topic of the same name can still be in the image."""
        self.keeps_configs_ahead = False
        """Whether settings can arrive before their topic. True for brokers of a cluster, which get topics from the controller."""
        self.offline_replicas: dict[tuple[str, int], tuple[int, ...]] = {}
        """The replicas of a partition that are on a stopped broker or a failed disk, by the controller's last update."""
        self.broker_configs: dict[int | None, dict[str, str]] = {}
        self.group_configs: dict[str, dict[str, str]] = {}
        self.user_configs: dict[str, dict[str, str]] = {}
        """The settings of each user; the empty name is the default for users without settings of their own."""
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.tokens: dict[str, tokens.DelegationToken] = {}
        self.features = dict(features.NEWEST)
        """The level of each feature that is not off."""
        self.acls = Acls()
        self.unknown_users: unknown_users.UnknownUsers | None = None
        self.controller_id = -1
        self.controller_epoch = 0
        self.changes = 0
        """The number of changes so far, with which callers check whether results derived from the image are current."""
        self._names: dict[bytes, str] = {}
        self._alike: dict[str, str] = {}
        self._clients: Counter[str] = Counter()
        """The number of client ids with quotas, by user."""

    def may_go(self, user: str) -> bool:
        """Return whether a user's entry can be removed: in this image it has no children, which are quotas by client id."""
        return user not in self._clients

    def clients_of(self, user: str) -> int:
        """Return the number of client ids for which a user has quotas."""
        return self._clients[user]

    def name_of(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def has_partition(self, topic: str, index: int) -> bool:
        found = self.topics.get(topic)
        return found is not None and 0 <= index < len(found.partitions)

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        name = self._names.get(topic_id)
        return None if name is None else self.topics.get(name)

    def colliding(self, name: str) -> str | None:
        """Return another topic, whose name differs from `name` only in '.' and '_'; None if there is no such topic."""
        found = self._alike.get(collision_key(name))
        return None if found == name else found

    def partition_names(self) -> set[str]:
        """Return the directory names of all partitions of all topics."""
        return {f"{topic.name}-{one.index}" for topic in self.topics.values() for one in topic.partitions}

    def load(self, registry: Entries) -> None:
        """Load the whole registry into this image, which must be new. Raises `RegistryDamaged` and `StorageFailed`."""
        for path, error in self.load_all(registry):
            sentence = (
                f"The registry's entry {path} cannot be parsed ({layout.why(error)}): `ottla registry restore` restores a copy"
            )
            raise RegistryDamaged(sentence) from error

    def load_all(self, registry: Entries) -> Iterator[tuple[str, Exception]]:
        """Load the registry as `load` does, but skip entries that cannot be parsed: yield the path and the error of each."""
        for path in _paths(registry):
            entry = registry.get(path)
            if entry is None:
                continue
            try:
                self.apply(path, entry.value)
            except layout.NOT_UNDERSTOOD as error:
                yield path, error

    def apply_all(self, changes: Iterable[Change]) -> None:
        """Apply committed changes."""
        for change in changes:
            self.apply(change.path, change.value)

    def apply(self, path: str, value: bytes | None) -> None:
        """Apply the present value of an entry of the registry, or its deletion (None). Ignore entries that no image contains."""
        self.changes += 1
        match path.split("/")[1:]:
            case ["brokers", "topics", name]:
                self._apply_topic(name, value)
            case ["brokers", "topics", name, "partitions", index, "state"]:
                self._apply_state(name, int(index), value)
            case ["config", kind, who]:
                self._apply_configs(kind, who, value)
            case ["config", "users", user, "clients", client_id]:
                self._apply_quotas(QuotaEntity(layout.name_in(user), layout.name_in(client_id)), configs_in(value))
            case ["brokers", "ids", node_id]:
                self._apply_broker(int(node_id), value)
            case ["delegation_token", "tokens", token_id]:
                self._apply_token(token_id, value)
            case ["ottla", "unknown_users"]:
                self.unknown_users = None if value is None else unknown_users.read(value)
            case ["kafka-acl", kind, entry] | ["kafka-acl-extended", "prefixed", kind, entry]:
                self.acls.apply(kind, entry, value, is_prefixed=path.startswith(layout.ACLS[Pattern.PREFIXED]))
            case [of_all]:
                self._apply_of_all(of_all, value)

    def _apply_of_all(self, entry: str, value: bytes | None) -> None:
        match entry:
            case "feature":
                self.features = dict(features.NEWEST) if value is None else features.levels_in(value)
            case "controller":
                self.controller_id = -1 if value is None else layout.whole(layout.read(value)["brokerid"], lowest=-1)
            case "controller_epoch":
                self.controller_epoch = 0 if value is None else layout.whole(int(value))

    def _read_topic(self, name: str, value: bytes) -> Pauses[TopicRead]:
        stored = layout.read(value)
        topic_id = layout.uuid_bytes(stored["topic_id"]) if "topic_id" in stored else NO_TOPIC_ID
        placed, read = stored["partitions"], TopicRead(topic_id)
        known = self._partitions_of(name, topic_id)
        kinds: dict[tuple[int, ...], tuple[int, ...]] = {}  # ten thousand partitions have few distinct lists of replicas
        for start in range(0, len(placed), READ_AT_ONCE):
            indexes = range(start, min(start + READ_AT_ONCE, len(placed)))
            try:
                some = [tuple(placed[str(index)]) for index in indexes]
            except KeyError:
                raise ValueError(f"the partitions of topic {name} are not numbered from 0 without gaps") from None
            some = [kinds.get(nodes) or kinds.setdefault(nodes, layout.nodes(list(nodes))) for nodes in some]
            read.replicas += some
            new = zip(indexes, some, strict=True)
            read.new += [PartitionImage(index, NO_LEADER, 0, nodes) for index, nodes in new if index >= known]
            yield
        return read

    def _partitions_of(self, name: str, topic_id: bytes) -> int:
        known = self.topics.get(name)
        return len(known.partitions) if known is not None and known.topic_id == topic_id else 0

    def _apply_topic(self, name: str, value: bytes | None) -> None:
        if value is None:
            self.drop_topic(name)
            return
        read = _at_once(self._read_topic(name, value))
        known = self.put_topic(name, read.topic_id)
        for partition, nodes in zip(known.partitions, read.replicas, strict=False):
            partition.replicas = nodes
        known.partitions += read.new

    def put_topic(self, name: str, topic_id: bytes) -> TopicImage:
        """Return the topic of this name and id; create it if it is missing. Drop a topic of the same name with another id.

        A topic from before 2.8 has no id until an upgrade; the first id that arrives is set then.
        """
        known = self.topics.get(name)
        if known is not None and NO_TOPIC_ID in (known.topic_id, topic_id):
            known.topic_id = max(known.topic_id, topic_id)
            self.name_topic(name, known.topic_id)
        elif known is None or known.topic_id != topic_id:
            configs = self.configs_ahead.pop(name, {})
            self.drop_topic(name)
            known = self.topics[name] = TopicImage(name, topic_id, configs=configs)
            self.name_topic(name, topic_id)
            self._alike[collision_key(name)] = name
        return known

    def name_topic(self, name: str, topic_id: bytes) -> None:
        """Map a topic id to its name. The image need not contain the topic yet."""
        if topic_id != NO_TOPIC_ID:
            self._names[topic_id] = name

    def is_known(self, name: str, topic_id: bytes) -> bool:
        """Return whether the image has a topic of this name and id. If one id is missing (before 2.8), only the names count."""
        known = self.topics.get(name)
        return known is not None and (known.topic_id == topic_id or NO_TOPIC_ID in (known.topic_id, topic_id))

    def know_configs(self, name: str, topic_id: bytes, configs: dict[str, str]) -> None:
        """Set the settings of a topic. If the image has no topic of this name and id yet, keep the settings for `put_topic`."""
        self.changes += 1
        if self.is_known(name, topic_id):
            self.topics[name].configs = configs
        else:
            self.configs_ahead[name] = configs

    def drop_topic(self, name: str) -> TopicImage | None:
        """Remove a topic from the image and return it; None if the topic is not in the image."""
        known = self.topics.pop(name, None)
        self.configs_ahead.pop(name, None)
        if known is not None:
            self._names.pop(known.topic_id, None)
            self._alike.pop(collision_key(name), None)
        return known

    def _apply_state(self, name: str, index: int, value: bytes | None) -> None:
        topic = self.topics.get(name)
        if topic is None or index >= len(topic.partitions) or value is None:
            return
        stored = layout.read(value)
        partition = topic.partitions[index]
        leader, epoch = layout.whole(stored["leader"], lowest=NO_LEADER), layout.whole(stored["leader_epoch"])
        partition.leader, partition.leader_epoch, partition.isr = leader, epoch, layout.nodes(stored["isr"])

    def _apply_configs(self, kind: str, who: str, value: bytes | None) -> None:
        if kind == "topics":
            self._apply_topic_configs(who, value)
        elif kind == "brokers":
            self.broker_configs[None if who == layout.DEFAULT_ENTRY else int(who)] = configs_in(value)
        elif kind == "groups":
            self.group_configs[layout.name_in(who)] = configs_in(value)
        elif kind == "users":
            configs = configs_in(value)
            _set(self.user_configs, layout.name_in(who), configs)
            self._apply_quotas(QuotaEntity(layout.name_in(who)), configs)
        elif kind == "clients":
            self._apply_quotas(QuotaEntity(None, layout.name_in(who)), configs_in(value))
        elif kind == "ips":
            self._apply_quotas(QuotaEntity(ip=layout.name_in(who)), configs_in(value))

    def _apply_topic_configs(self, name: str, value: bytes | None) -> None:
        known, is_ahead = self.topics.get(name), name in self.configs_ahead
        if known is not None:
            known.configs = configs_in(value)
        if value is None:
            self.configs_ahead.pop(name, None)
        elif is_ahead or (known is None and self.keeps_configs_ahead):
            self.configs_ahead[name] = configs_in(value)

    def _apply_quotas(self, entity: QuotaEntity, configs: Mapping[str, str]) -> None:
        found, before = quotas_in(configs), entity in self.quotas
        _set(self.quotas, entity, found)
        if entity.user is not None and entity.client_id is not None and bool(found) is not before:
            self._clients[entity.user] += 1 if found else -1
            if not self._clients[entity.user]:
                del self._clients[entity.user]

    def _apply_token(self, token_id: str, value: bytes | None) -> None:
        if value is None:
            self.tokens.pop(token_id, None)
        else:
            self.tokens[token_id] = tokens.read(token_id, value)

    def _apply_broker(self, node_id: int, value: bytes | None) -> None:
        if value is None:
            self.brokers.pop(node_id, None)
            return
        stored = layout.read(value)
        endpoints = tuple(_endpoint(layout.text(text)) for text in stored["endpoints"])
        rack = stored.get("rack")
        self.brokers[node_id] = BrokerImage(layout.whole(node_id), endpoints, None if rack is None else layout.text(rack))


def configs_in(value: bytes | None) -> dict[str, str]:
    """Return the settings in an entry of the registry. Raises an exception of `layout.NOT_UNDERSTOOD` if it is invalid."""
    return {str(name): str(text) for name, text in layout.read(value)["config"].items()} if value else {}


def _endpoint(text: str) -> tuple[str, str, int]:
    name, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    return name, host.removeprefix("[").removesuffix("]"), int(port)


def _at_once(steps: Pauses[TopicRead]) -> TopicRead:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            read: TopicRead = end.value
            return read


def _paths(registry: Entries) -> Iterator[str]:
    """Yield the path of every entry that an image is loaded from, each topic before its states and settings."""
    yield layout.CONTROLLER
    yield layout.CONTROLLER_EPOCH
    yield layout.FEATURES
    yield layout.UNKNOWN_USERS
    yield from acls.paths(registry)
    yield from (f"{layout.BROKERS}/{node_id}" for node_id in registry.children(layout.BROKERS))
    yield from (f"{layout.BROKER_CONFIGS}/{who}" for who in registry.children(layout.BROKER_CONFIGS))
    for kind in (layout.GROUP_CONFIGS, layout.USER_CONFIGS, layout.CLIENT_CONFIGS, layout.IP_CONFIGS):
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


def _set(known: dict[K, dict[str, V]], name: K, values: dict[str, V]) -> None:
    """Set the values of a name; remove the name if `values` is empty."""
    if values:
        known[name] = values
    else:
        known.pop(name, None)
