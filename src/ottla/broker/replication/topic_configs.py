"""Configs of topics that are new to this broker, read from the registry before their logs are opened.

Depends on the cluster image and the shared registry. Notifications report later changes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ottla.broker.settings.values import refused_topic_values
from ottla.cluster import layout
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata import MetadataSink, NewTopicConfigs
from ottla.ports import SharedRegistry, Steps

log = logging.getLogger("ottla.broker")

READ_AT_ONCE = 500


class TopicConfigs:
    """Loads configs into the image. Configs that could not be read remain pending."""

    def __init__(self, registry: SharedRegistry, image: ClusterImage, sink: MetadataSink) -> None:
        self._registry = registry
        self._image = image
        self._sink = sink
        self._owed: set[str] = set()

    def load(self, topics: Iterable[tuple[str, bytes]]) -> Steps[None]:
        """Read the configs of topics (name, id) that are not in the image. Raise `RegistryAway`."""
        new = {name: topic_id for name, topic_id in topics if self._is_new(name, topic_id)}
        self._owed.update(new)
        names = list(new)
        for start in range(0, len(names), READ_AT_ONCE):
            some = names[start : start + READ_AT_ONCE]
            entries = yield from self._registry.read([layout.topic_config_path(name) for name in some])
            for name, entry in zip(some, entries, strict=True):
                self._owed.discard(name)
                configs = self._parse(name, None if entry is None else entry.value)
                self._sink.learn([NewTopicConfigs(name, new[name], configs)])

    def pending(self, names: Iterable[str]) -> list[str]:
        """Return the topics whose configs could not be read yet."""
        return [name for name in names if name in self._owed]

    def _parse(self, name: str, value: bytes | None) -> dict[str, str]:
        """Return the configs in a topic's registry entry. Log a damaged entry, and return no configs."""
        path = layout.topic_config_path(name)
        try:
            configs = layout.configs_in(value)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            log.error(
                "The registry's entry %s cannot be parsed (%s): topic %s has the defaults until it is set.",
                path,
                error,
                name,
            )
            return {}
        for sentence in refused_topic_values(configs):
            log.error("Topic %s has the default instead of the value of the registry's entry %s: %s", name, path, sentence)
        return configs

    def _is_new(self, name: str, topic_id: bytes) -> bool:
        if name in self._owed:
            return True
        if name in self._image.topics:
            return not self._image.is_known(name, topic_id)
        return name not in self._image.configs_ahead
