"""Settings that are changed while the broker runs: of topics, of groups and of brokers. Kept in the registry, in force at once.

Knows which settings there are from their declarations; knows no requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ottla.broker.settings import SettingsInForce, topic_config_error
from ottla.broker.settings.group import group_config_error
from ottla.broker.topics.commits import Commits
from ottla.cluster import groups, layout, topics
from ottla.cluster.decision import Decision
from ottla.cluster.image import ClusterImage
from ottla.log.config import LogConfig
from ottla.ports import Change, Now


class DynamicConfigs:
    """Replaces all the settings of resources. `configure` lets the logs of a topic follow."""

    def __init__(
        self,
        image: ClusterImage,
        commits: Commits,
        settings: SettingsInForce,
        node_id: int,
        configure: Callable[[str, LogConfig, Now], None],
    ) -> None:
        self._image = image
        self._commits = commits
        self._settings = settings
        self._node_id = node_id
        self._configure = configure

    def load(self) -> None:
        """Put in force what was set for this broker in an earlier life: at start-up, before logs are opened."""
        configs = self._image.broker_configs
        if configs:
            self._settings.change(configs.get(None, {}), configs.get(self._node_id, {}))

    def of_topic(self, name: str, configs: Mapping[str, str | None]) -> Decision:
        """Decide to replace the settings of a topic that exists."""
        return topics.set_configs(self._image.topics[name], configs, topic_config_error)

    def of_group(self, group_id: str, configs: Mapping[str, str]) -> Decision:
        """Decide to replace the settings of a group; its members are told with their next heartbeats."""
        return groups.set_configs(group_id, configs, partial(group_config_error, self._settings.value))

    def commit(self, decisions: Sequence[Decision], now: Now) -> list[Decision]:
        """Make what was decided about topics and groups, all of it with one change of the registry; logs follow at once."""
        made = [decision for decision in decisions if decision.is_made]
        committed = iter(self._commits.commit(lambda: made))
        results = [next(committed) if decision.is_made else decision for decision in decisions]
        self._configure_logs([decision.name for decision in results if decision.is_made], now)
        return results

    def set_broker(self, node_id: int | None, configs: Mapping[str, str], now: Now, *, validate_only: bool = False) -> Decision:
        """Replace what was set while they run for one broker, or with None for all; logs follow at once. Raises `SettingError`."""
        ours = self._settings.value
        if node_id is None:
            ours.changed(configs, ours.of_this_broker)
        else:
            ours.changed(ours.of_all_brokers, configs)
        if validate_only:
            return Decision("")
        change = Change(layout.broker_config_path(node_id), layout.config_json(configs))
        (decision,) = self._commits.commit(lambda: [Decision("", changes=(change,))])
        self.load()
        self._configure_logs(list(self._image.topics), now)
        return replace(decision, changes=())

    def _configure_logs(self, names: list[str], now: Now) -> None:
        for name in names:
            topic = self._image.topics.get(name)
            if topic is not None:
                self._configure(name, self._settings.value.log_config(topic.configs), now)
