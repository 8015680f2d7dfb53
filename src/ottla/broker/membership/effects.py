"""The effects of registry changes on this broker: logs apply configs, requests apply quotas. Independent of the registry."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.broker.scheduler import Scheduler
from ottla.broker.topics.configs import DynamicConfigs
from ottla.broker.topics.features import Features
from ottla.cluster import layout
from ottla.ports import Steps

QUOTA_KINDS = (layout.USER_CONFIGS, layout.CLIENT_CONFIGS, layout.IP_CONFIGS)


class Effects:
    """The updates after a change. ACLs, credentials and tokens need no update, because they are read from the image on each use.

    `settings_changed` is called after changes of topic or broker configs.
    """

    def __init__(
        self,
        configs: DynamicConfigs,
        quotas: ClientQuotas,
        features: Features,
        scheduler: Scheduler,
        settings_changed: Callable[[], None],
    ) -> None:
        self._configs = configs
        self._quotas = quotas
        self._features = features
        self._scheduler = scheduler
        self._settings_changed = settings_changed

    def take_effect(self, paths: Collection[str]) -> Steps[None]:
        """Apply the changed entries at these paths, which are in the image already."""
        if any(path.startswith(kind) for path in paths for kind in QUOTA_KINDS):
            self._quotas.load()
        if layout.FEATURES in paths:
            for tell in self._features.told:
                tell()
        topics = [path.removeprefix(f"{layout.TOPIC_CONFIGS}/") for path in paths if path.startswith(f"{layout.TOPIC_CONFIGS}/")]
        of_brokers = any(path.startswith(layout.BROKER_CONFIGS) for path in paths)
        if topics or of_brokers:
            yield from self._configs.changed_elsewhere(topics, self._scheduler.now(), of_brokers=of_brokers)
            self._settings_changed()
