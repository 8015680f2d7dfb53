"""Dynamic configs of topics, groups and brokers: stored in the registry and effective at once.

Depends on the declarations of settings, and not on requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from ottla.broker.settings import BrokerSettings, SettingError, SettingsInForce, topic_config_error
from ottla.broker.settings.broker_security import bare
from ottla.broker.settings.group import group_config_error
from ottla.broker.settings.setting import size_error
from ottla.broker.settings.values import refused_topic_values
from ottla.broker.topics.commits import Commits
from ottla.cluster import groups, layout, topics
from ottla.cluster.decision import Decision
from ottla.cluster.image import ClusterImage
from ottla.log.config import LogConfig
from ottla.ports import Change, Now, Steps

log = logging.getLogger("ottla.broker")

Decide = Callable[[], Decision]
Texts = dict[str, str]


def _is_valid(name: str, text: str) -> bool:
    """Return whether a dynamic broker setting has a valid value. Unknown settings are valid, as in Kafka."""
    setting = BrokerSettings.DECLARED.get(bare(name, BrokerSettings.DECLARED))
    if setting is None:
        return True
    try:
        setting.parse(text)
    except SettingError:
        return False
    return True


class DynamicConfigs:
    """The changes of dynamic configs of topics, groups and brokers. `configure` applies a topic's config to a partition's log."""

    def __init__(
        self,
        image: ClusterImage,
        commits: Commits,
        settings: SettingsInForce,
        node_id: int,
        configure: Callable[[str, int, LogConfig, Now], None],
    ) -> None:
        self._image = image
        self._commits = commits
        self._settings = settings
        self._node_id = node_id
        self._configure = configure

    def load(self) -> None:
        """Apply the dynamic configs of this broker at startup, before logs are opened.

        An invalid value is skipped; otherwise the broker could never start again.
        """
        configs = self._image.broker_configs
        if not configs:
            return
        of_all_brokers, of_this_broker = configs.get(None, {}), configs.get(self._node_id, {})
        try:
            self._settings.change(of_all_brokers, of_this_broker)
        except SettingError:
            self._settings.change(*self._without_bad(of_all_brokers, of_this_broker))

    def _without_bad(self, of_all_brokers: Mapping[str, str], of_this_broker: Mapping[str, str]) -> tuple[Texts, Texts]:
        """Return the configs that are valid together. Log invalid ones, whose settings stay unchanged."""
        found: tuple[Texts, Texts] = {}, {}
        before = self._settings.value.of_all_brokers, self._settings.value.of_this_broker
        for given, kept, present in zip((of_all_brokers, of_this_broker), found, before, strict=True):
            for name, text in given.items():
                kept[name] = text
                try:
                    self._settings.value.with_dynamic(*found)
                except SettingError as error:
                    del kept[name]
                    kept.update({name: present[name]} if name in present else {})
                    log.error("%s was set while the broker ran and cannot be applied: %s Set it again, or delete it.", name, error)
        return found

    def changed_elsewhere(self, topics: Collection[str], now: Now, *, of_brokers: bool) -> Steps[None]:
        """Apply config changes of other brokers to these topics, and with `of_brokers` also to this broker."""
        if of_brokers:
            self.load()
        for known in filter(None, map(self._image.topics.get, topics)):
            for sentence in refused_topic_values(known.configs):
                log.error("Topic %s has the default instead of what was set for it in the registry: %s", known.name, sentence)
        yield from self._configure_logs(list(self._image.topics) if of_brokers else topics, now)

    def of_topic(self, name: str, configs: Mapping[str, str | None]) -> Decision:
        """Decide to replace the configs of an existing topic."""
        return topics.set_configs(self._image.topics[name], configs, topic_config_error)

    def of_group(self, group_id: str, configs: Mapping[str, str]) -> Decision:
        """Decide to replace the configs of a group; members receive them with their next heartbeats."""
        return groups.set_configs(group_id, configs, partial(group_config_error, self._settings.value))

    def of_client_metrics(self, subscription: str, configs: Mapping[str, str]) -> Decision:
        """Decide to replace the configs of a subscription to client metrics; without configs, the subscription is removed."""
        path = layout.client_metrics_config_path(subscription)
        if configs:
            return Decision("", changes=(Change(path, layout.config_json(configs)),))
        return Decision("", changes=(Change(path, None),) if subscription in self._image.client_metrics else ())

    def broker_texts(self, node_id: int | None) -> Texts:
        """Return the dynamic configs of one broker, or of all brokers if `node_id` is None, as they are in the registry.

        They can be newer than the settings, if another broker has changed them. Instead of an invalid value, the value in force is
        returned, if there is one.
        """
        ours = self._settings.value
        in_force = ours.of_all_brokers if node_id is None else ours.of_this_broker
        found = dict(self._image.broker_configs.get(node_id, {}))
        for name in [name for name, text in found.items() if not _is_valid(name, text)]:
            if name in in_force:
                found[name] = in_force[name]
            else:
                del found[name]
        return found

    def of_broker(self, node_id: int | None, configs: Mapping[str, str]) -> Decision:
        """Decide to replace the dynamic configs of one broker, or of all brokers if `node_id` is None. Raises `SettingError`."""
        ours = self._settings.value
        if (sentence := size_error(configs)) is not None:
            raise SettingError(sentence)
        if node_id is None:
            self._settings.check(configs, ours.of_this_broker)
        else:
            self._settings.check(ours.of_all_brokers, configs)
        return Decision("", changes=(Change(layout.broker_config_path(node_id), layout.config_json(configs)),))

    def commit(self, decide: Sequence[Decide], now: Now) -> Steps[list[Decision]]:
        """Commit decisions about topics and groups in one change of the registry, and apply them to logs.

        The steps must run to their end.
        """
        results = yield from self._commits.commit_slowly(lambda: [one() for one in decide])
        yield from self._configure_logs([decision.name for decision in results if decision.is_made], now)
        return results

    def commit_broker(self, decide: Decide, now: Now) -> Steps[Decision]:
        """Commit a decision about brokers, and apply it to the settings and all logs. The steps must run to their end."""
        (decision,) = yield from self._commits.commit_slowly(lambda: [decide()])
        if decision.is_made:
            self.load()
            yield from self._configure_logs(list(self._image.topics), now)
        return decision

    def _configure_logs(self, names: Iterable[str], now: Now) -> Iterator[None]:
        """Apply each log's config, with a pause after each log. A config that changes during a pause is used from then on."""
        for name in names:
            made_of: tuple[object, object] = None, None
            index = 0
            while (topic := self._image.topics.get(name)) is not None and index < len(topic.partitions):
                if made_of[0] is not topic.configs or made_of[1] is not self._settings.value:
                    made_of = topic.configs, self._settings.value
                    config = self._settings.value.log_config(topic.configs)
                self._configure(name, index, config, now)
                index += 1
                yield
