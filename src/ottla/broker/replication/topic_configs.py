"""Settings of topics that are new to this broker, read from the registry before their logs are opened.

Knows the image and the registry that brokers share. What changes afterwards is told by notifications.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.scheduler import Steps
from ottla.cluster import layout
from ottla.cluster.image import NO_TOPIC_ID, ClusterImage
from ottla.ports import SharedRegistry

READ_AT_ONCE = 500


class TopicConfigs:
    """Lets the image know them."""

    def __init__(self, registry: SharedRegistry, image: ClusterImage) -> None:
        self._registry = registry
        self._image = image
        image.keeps_configs_ahead = True

    def learn(self, topics: Iterable[tuple[str, bytes]]) -> Steps[None]:
        """Read what is set for those of these topics (name, id) of which it is not known. Raises `RegistryAway`."""
        names = [name for name, topic_id in dict.fromkeys(topics) if self._is_new(name, topic_id)]
        for start in range(0, len(names), READ_AT_ONCE):
            some = names[start : start + READ_AT_ONCE]
            entries = yield from self._registry.read([layout.topic_config_path(name) for name in some])
            for name, entry in zip(some, entries, strict=True):
                self._image.configs_ahead[name] = {}
                if entry is not None and entry.value:
                    self._image.apply(layout.topic_config_path(name), entry.value)

    def _is_new(self, name: str, topic_id: bytes) -> bool:
        known = self._image.topics.get(name)
        if known is None:
            return name not in self._image.configs_ahead
        return known.topic_id != topic_id and NO_TOPIC_ID not in (known.topic_id, topic_id)

    def of(self, name: str) -> dict[str, str]:
        """What is set for a topic."""
        known = self._image.topics.get(name)
        return self._image.configs_ahead.get(name, {}) if known is None else known.configs
