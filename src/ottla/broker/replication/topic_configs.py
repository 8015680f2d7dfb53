"""Settings of topics that are new to this broker, read from the registry before their logs are opened.

Knows the image and the registry that brokers share. What changes afterwards is told by notifications.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ottla.broker.scheduler import Steps
from ottla.broker.settings.values import refused_topic_values
from ottla.cluster import layout
from ottla.cluster.image import NO_TOPIC_ID, ClusterImage
from ottla.ports import SharedRegistry

log = logging.getLogger("ottla.broker")

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
                    self._take_in(name, entry.value)

    def _take_in(self, name: str, value: bytes) -> None:
        """Let the image know the settings of a topic; one topic's damage keeps this broker from no other."""
        path = layout.topic_config_path(name)
        try:
            self._image.apply(path, value)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            log.error(
                "The registry's entry %s can't be understood (%s): the defaults hold for topic %s until it is set.",
                path,
                error,
                name,
            )
            return
        for sentence in refused_topic_values(self._image.configs_ahead.get(name, {})):
            log.error("Topic %s has the default instead of what the registry's entry %s says: %s", name, path, sentence)

    def _is_new(self, name: str, topic_id: bytes) -> bool:
        known = self._image.topics.get(name)
        if known is None:
            return name not in self._image.configs_ahead
        return known.topic_id != topic_id and NO_TOPIC_ID not in (known.topic_id, topic_id)

    def of(self, name: str) -> dict[str, str]:
        """What is set for a topic."""
        known = self._image.topics.get(name)
        return self._image.configs_ahead.get(name, {}) if known is None else known.configs
