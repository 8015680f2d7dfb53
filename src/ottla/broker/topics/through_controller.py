"""Topics that a broker of a cluster has the controller make: internal ones, and those that clients bring into being by naming them.

Knows how the controller is asked; decides nothing. A topic is there when the controller has told this broker who leads it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from ottla.broker.interbroker.broker_requests import BrokerAsker
from ottla.broker.scheduler import Scheduler
from ottla.broker.settings import SettingsInForce
from ottla.broker.topics.defaults import default_topic, topic_on
from ottla.cluster.decision import Decision
from ottla.cluster.image import NO_LEADER, ClusterImage
from ottla.ports import Now, Steps
from ottla.wire.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.errors import LEADER_NOT_AVAILABLE, NONE, NOT_CONTROLLER, TOPIC_ALREADY_EXISTS, error_name

log = logging.getLogger("ottla.broker")

LANE: Final = "topics"
LOOK_AGAIN_MS: Final = 10
MOST_WAIT_MS: Final = 5_000
"""How long a client waits for the leaders of a topic that the controller has made."""
MANY_BROKERS: Final = 1 << 15
"""Internal topics have as many replicas as the settings say, or are not made: fewer brokers than that may be up at first."""

Topic = CreateTopicsRequest.CreatableTopic
Config = CreateTopicsRequest.CreatableTopicConfig
Placed = CreateTopicsRequest.CreatableReplicaAssignment


class TopicsThroughController:
    """Has topics made with this broker's defaults."""

    def __init__(self, image: ClusterImage, settings: SettingsInForce, asker: BrokerAsker, scheduler: Scheduler) -> None:
        self._image = image
        self._settings = settings
        self._asker = asker
        self._scheduler = scheduler

    def begin(self, names: Sequence[str], now: Now) -> list[Decision]:
        """Have these made, unless that is under way. None of them is there yet."""
        for name in names:
            self._scheduler.begin(("create", name), self._asked([self._topic(name)]), self._told, urgent=True)
        return [Decision(name, LEADER_NOT_AVAILABLE) for name in names]

    def made(self, names: Sequence[str], now: Now) -> Steps[list[Decision]]:
        """Have these made and wait for their leaders; one that has none in time has the error LEADER_NOT_AVAILABLE."""
        return (yield from self._led((yield from self._asked(list(map(self._topic, names))))))

    def made_on(self, name: str, node_id: int, now: Now) -> Steps[Decision]:
        """The same for one topic, with all its partitions on this broker alone."""
        spec = topic_on(name, self._settings.value, node_id)
        placed = [Placed(partition_index=index, broker_ids=list(replicas)) for index, replicas in spec.assignments]
        topic = Topic(name=name, num_partitions=-1, replication_factor=-1, assignments=placed)
        (decision,) = yield from self._led((yield from self._asked([topic])))
        return decision

    def _led(self, decisions: list[Decision]) -> Steps[list[Decision]]:
        """Wait until those that are made have their leaders."""
        until_ms = self._scheduler.now().mono_ms + MOST_WAIT_MS
        made = [each.name for each in decisions if each.error_code in (NONE, TOPIC_ALREADY_EXISTS)]
        while not all(map(self._is_led, made)) and self._scheduler.now().mono_ms < until_ms:
            yield self._scheduler.rest(LOOK_AGAIN_MS)
        return [
            Decision(each.name, LEADER_NOT_AVAILABLE) if each.name in made and not self._is_led(each.name) else each
            for each in decisions
        ]

    def _asked(self, topics: list[Topic]) -> Steps[list[Decision]]:
        """What the controller says; LEADER_NOT_AVAILABLE if there is none that answers."""
        response: CreateTopicsResponse | None = None
        if self._image.controller_id >= 0:
            request = CreateTopicsRequest(topics=topics, timeout_ms=self._settings.value.request_timeout_ms)
            response = yield from self._asker.answer(self._image.controller_id, request, lane=LANE)
        told = {} if response is None else {topic.name: topic for topic in response.topics}
        decisions = []
        for asked in topics:
            topic = told.get(asked.name)
            error_code = LEADER_NOT_AVAILABLE if topic is None or topic.error_code == NOT_CONTROLLER else topic.error_code
            decisions.append(Decision(asked.name, error_code, None if topic is None else topic.error_message))
        return decisions

    def _topic(self, name: str) -> Topic:
        spec = default_topic(name, self._settings.value, MANY_BROKERS)
        return Topic(
            name=name,
            num_partitions=spec.partitions,
            replication_factor=spec.replication_factor,
            configs=[Config(name=config, value=text) for config, text in spec.configs.items()],
        )

    def _is_led(self, name: str) -> bool:
        topic = self._image.topics.get(name)
        return topic is not None and all(one.leader != NO_LEADER for one in topic.partitions)

    def _told(self, decisions: list[Decision]) -> None:
        for decision in decisions:
            if decision.error_code not in (NONE, TOPIC_ALREADY_EXISTS, LEADER_NOT_AVAILABLE):
                why = decision.message or error_name(decision.error_code)
                sentence = "%s cannot be created, and has no coordinator until then: %s"
                log.warning(sentence, decision.name, why, extra={"cause": decision.name})
