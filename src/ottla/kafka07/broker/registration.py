"""The registration of this broker in the ZooKeeper of 0.7, where its clients find it: the broker's id, and its topics' partitions.

The entries are ephemeral. They are created when the broker listens, created again in each new session, and updated with the
topics. A topic is registered if it can serve clients of 0.7: its cleanup policy is delete, and all its partitions are on this
broker alone. Without ZooKeeper, clients need the broker's address. The module uses ZooKeeper as a registry, and the image.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from itertools import islice
from typing import Final

from ottla.broker.failures import CONFLICTS
from ottla.broker.scheduler import Scheduler
from ottla.broker.settings import SettingsInForce
from ottla.cluster.image import ClusterImage, TopicImage
from ottla.ports import NEW, Change, NoEntry, Now, RegistryAway, SessionEvent, SharedRegistry, Steps

log = logging.getLogger("ottla.broker")

LOOK_MS: Final = 250
"""The interval in ms of checks for created, extended or deleted topics."""
RETRY_MS: Final = 1000
"""The time in ms after which a failed registration is repeated."""
UNREACHED_MS: Final = 10_000
LOOKED_AT_ONCE: Final = 500
COMMITTED_AT_ONCE: Final = 100

IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"


class Registration07:
    """The ZooKeeper entries of this broker. `begin` creates them; the end of the broker's session removes them."""

    def __init__(
        self, registry: SharedRegistry, image: ClusterImage, settings: SettingsInForce, scheduler: Scheduler, node_id: int
    ) -> None:
        self._registry = registry
        self._image = image
        self._settings = settings
        self._scheduler = scheduler
        self._node_id = node_id
        self._host, self._port = "", -1
        self._value = b""
        self._told: dict[str, int] = {}
        self._has_session = False
        self._has_id = False
        self._waits_until_ms = 0
        self._is_refused = False
        self._seen_changes = -1
        self._again_ms = 0

    def begin(self, host: str, port: int) -> None:
        """Register this address, now or once ZooKeeper is reached, and keep the entries up to date."""
        now = self._scheduler.now()
        self._host, self._port = host, port
        self._registry.on_session(self._on_session_event)
        self._scheduler.at("unreached 0.7", now.mono_ms + UNREACHED_MS, self._warn_unreached)
        self._scheduler.every("look for 0.7", lambda: LOOK_MS, self._register_if_changed, now)

    def _on_session_event(self, event: SessionEvent) -> None:
        now = self._scheduler.now()
        match event:
            case SessionEvent.AWAY | SessionEvent.ENDED:
                self._scheduler.at("unreached 0.7", now.mono_ms + UNREACHED_MS, self._warn_unreached)
            case SessionEvent.BEGUN | SessionEvent.BACK:
                self._scheduler.cancel("unreached 0.7")
        if event is SessionEvent.BEGUN:
            # A unique value identifies the entry as created in this session.
            self._value = f"{self._host}-{now.wall_ms}:{self._host}:{self._port}".encode()
            # An existing entry of this id is probably of the previous session, and is removed when that session ends.
            self._waits_until_ms = now.mono_ms + self._registry.timeout_ms * 5 // 4
        if event in (SessionEvent.BEGUN, SessionEvent.ENDED):
            self._scheduler.drop("register for 0.7")
            self._told, self._has_id, self._is_refused = {}, False, False
        self._has_session = event in (SessionEvent.BEGUN, SessionEvent.BACK)
        self._seen_changes = -1

    def _warn_unreached(self, now: Now) -> None:
        log.warning(
            "the ZooKeeper of ottla.kafka07.zookeeper.connect is not reached: clients of Kafka 0.7 that look there do not find "
            "this broker, which goes on trying",
            extra={"cause": "kafka 0.7 unreached"},
        )

    def _register_if_changed(self, now: Now) -> None:
        if self._has_session and self._seen_changes != self._image.changes and now.mono_ms >= self._again_ms:
            self._scheduler.begin("register for 0.7", self._register(), self._on_registered, self._retry_later)

    def _on_registered(self, seen_changes: int) -> None:
        self._seen_changes = seen_changes

    def _retry_later(self, failure: Exception) -> None:
        """Schedule another attempt to register: after a pause, or when ZooKeeper is reached again."""
        self._again_ms = self._scheduler.now().mono_ms + RETRY_MS
        if not isinstance(failure, RegistryAway):
            sentence = "the topics could not be registered for clients of Kafka 0.7; it is retried: %s"
            log.warning(sentence, failure, extra={"cause": "kafka 0.7 refused"})

    def _register(self) -> Steps[int]:
        """Register this broker and the topics in the cluster image. Return the value of `image.changes` for the registered
        topics.
        """
        while not self._has_id:
            self._has_id = yield from self._is_id_made()
            if not self._has_id:
                yield self._scheduler.rest(RETRY_MS)
        seen = self._image.changes
        wanted: dict[str, int] = {}
        for number, topic in enumerate(list(self._image.topics.values()), 1):
            if self._is_registrable(topic):
                wanted[topic.name] = len(topic.partitions)
            if not number % LOOKED_AT_ONCE:
                yield None
        for name in [name for name in self._told if name not in wanted]:
            with suppress(NoEntry):  # the entry is already removed
                yield from self._registry.commit([Change(self._path(name), None)])
            del self._told[name]
        new = iter([(name, count) for name, count in wanted.items() if self._told.get(name) != count])
        while some := dict(islice(new, COMMITTED_AT_ONCE)):
            changes = [Change(self._path(name), str(count).encode(), ephemeral=True) for name, count in some.items()]
            yield from self._registry.commit(changes)
            self._told |= some
        return seen

    def _is_id_made(self) -> Steps[bool]:
        """Create the entry of this broker's id. Return False if another broker or session still has the entry."""
        path = f"{IDS}/{self._node_id}"
        try:
            yield from self._registry.commit([Change(path, self._value, NEW, ephemeral=True)])
        except CONFLICTS:
            (entry,) = yield from self._registry.read([path])
            if entry is None or entry.value != self._value:
                self._refuse(b"" if entry is None else entry.value)
                return False
        log.info("registered as broker %d at %s:%d for clients of Kafka 0.7", self._node_id, self._host, self._port)
        return True

    def _refuse(self, value: bytes) -> None:
        if value and not self._is_refused and self._scheduler.now().mono_ms >= self._waits_until_ms:
            self._is_refused = True
            log.error(
                "Broker %d is already registered in the ZooKeeper of ottla.kafka07.zookeeper.connect, as %s: stop that one, or "
                "give this one another number with --node-id, or another path in that setting.",
                self._node_id,
                value.decode(errors="replace"),
            )

    def _is_registrable(self, topic: TopicImage) -> bool:
        """Return whether to register a topic: this broker can serve all its partitions to clients of 0.7."""
        if topic.is_internal or not topic.partitions or self._settings.value.log_config(topic.configs).compacts:
            return False
        return all(partition.replicas == (self._node_id,) for partition in topic.partitions)

    def _path(self, topic: str) -> str:
        return f"{TOPICS}/{topic}/{self._node_id}"
