"""Automatic creation of topics, by name, and of internal topics: the controller creates them with the broker's defaults.

Depends on the requests to the controller, and decides nothing. A topic exists once the controller has sent its leaders.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Final

from ottla.broker.interbroker.channels import BrokerRequester
from ottla.broker.releases.traits import UNSEEN_MS
from ottla.broker.scheduler import Scheduler, Waits
from ottla.broker.serving.metadata_waits import MetadataWaits
from ottla.broker.settings import BrokerSettings, SettingsInForce
from ottla.cluster.decision import Decision
from ottla.cluster.image import NO_LEADER, ClusterImage
from ottla.cluster.names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from ottla.cluster.topics import TopicSpec
from ottla.ports import Steps
from ottla.wire.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.errors import LEADER_NOT_AVAILABLE, NONE, NOT_CONTROLLER, TOPIC_ALREADY_EXISTS, error_name

log = logging.getLogger("ottla.broker")

LANE: Final = "topics"
MOST_WAIT_MS: Final = 5_000
"""Upper limit of a client's wait for the leaders of a topic that the controller has created, in ms."""
MANY_BROKERS: Final = 1 << 15
"""Assumed number of brokers while more can join, so that topics wait for enough live brokers for their replicas."""

Topic = CreateTopicsRequest.CreatableTopic
Config = CreateTopicsRequest.CreatableTopicConfig
Placed = CreateTopicsRequest.CreatableReplicaAssignment


def default_topic(name: str, settings: BrokerSettings, brokers: int) -> TopicSpec:
    """Return the specification of a topic in a cluster of `brokers` brokers."""
    configs: dict[str, str | None]
    if name == OFFSETS_TOPIC:
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(settings.offsets_topic_segment_bytes),
        }
        factor = min(settings.offsets_topic_replication_factor, brokers)
        return TopicSpec(name, settings.offsets_topic_num_partitions, factor, configs=configs)
    if name == TRANSACTIONS_TOPIC:
        factor = min(settings.transaction_state_log_replication_factor, brokers)
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(settings.transaction_state_log_min_isr),
            "segment.bytes": str(settings.transaction_state_log_segment_bytes),
        }
        return TopicSpec(name, settings.transaction_state_log_num_partitions, factor, configs=configs)
    if name == SHARE_STATE_TOPIC:
        factor = min(settings.share_coordinator_state_topic_replication_factor, brokers)
        configs = {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": str(settings.share_coordinator_state_topic_min_isr),
            "retention.ms": "-1",
            "segment.bytes": str(settings.share_coordinator_state_topic_segment_bytes),
        }
        return TopicSpec(name, settings.share_coordinator_state_topic_num_partitions, factor, configs=configs)
    return TopicSpec(name, settings.num_partitions, settings.default_replication_factor)


def _topic_on(name: str, settings: BrokerSettings, node_id: int) -> TopicSpec:
    """Return the specification of a topic with all partitions on one broker, regardless of the default replication factor."""
    return TopicSpec(name, -1, -1, tuple((index, (node_id,)) for index in range(settings.num_partitions)))


class TopicsByName:
    """Creation of topics by name alone. Internal topics have their own configs, and other topics the defaults.

    `is_alone`: no other broker can join, so internal topics have one replica, and their creation takes only a moment.
    """

    def __init__(
        self,
        image: ClusterImage,
        settings: SettingsInForce,
        asker: BrokerRequester,
        scheduler: Scheduler,
        metadata_waits: MetadataWaits,
        *,
        is_alone: bool,
    ) -> None:
        self.made_lately: dict[str, int] = {}
        """When each topic was last created by name alone, in monotonic ms."""
        self._image = image
        self._settings = settings
        self._asker = asker
        self._scheduler = scheduler
        self._metadata_waits = metadata_waits
        self._is_alone = is_alone
        self._creating: set[str] = set()
        self._refused: dict[str, Decision] = {}
        """The last refusals, by topic."""
        self._ends = Waits(scheduler)

    def create_internal(self, name: str) -> Steps[Decision]:
        """Create an internal topic, unless that is in progress. Return LEADER_NOT_AVAILABLE while it has no leaders.

        A single broker waits for the leaders, as long as a client waits for those of another topic. A cluster does not wait, as in
        Kafka, because the controller can be far away.
        """
        if name not in self._creating:
            self._creating.add(name)
            self._refused.pop(name, None)
            self._scheduler.begin(("create", name), self._create_internal(name), urgent=True)
        if self._is_alone:
            until_ms = self._scheduler.now().mono_ms + MOST_WAIT_MS
            yield from self._ends.until(lambda: name not in self._creating, until_ms, name)
        return Decision(name) if self._is_led(name) else self._refused.get(name, Decision(name, LEADER_NOT_AVAILABLE))

    def _create_internal(self, name: str) -> Steps[None]:
        try:
            decisions = yield from (self.create([name]) if self._is_alone else self._request([self._topic(name)]))
            self._refused |= {one.name: one for one in self._log_refusals(decisions)}
        finally:
            self._creating.discard(name)
            self._ends.notify(name)

    def create(self, names: Sequence[str]) -> Steps[list[Decision]]:
        """Create topics and wait for their leaders. A topic that has no leaders in time has the error LEADER_NOT_AVAILABLE."""
        return (yield from self._wait_for_leaders((yield from self._request(list(map(self._topic, names))))))

    def create_each(self, topics: Sequence[Topic]) -> Steps[list[Decision]]:
        """Create topics as given, and return the controller's decisions, without a wait for leaders."""
        return (yield from self._request(list(topics)))

    def made_on(self, name: str, node_id: int) -> Steps[Decision]:
        """Create a topic with all partitions on broker `node_id`, and wait for their leaders."""
        spec = _topic_on(name, self._settings.value, node_id)
        placed = [Placed(partition_index=index, broker_ids=list(replicas)) for index, replicas in spec.assignments]
        topic = Topic(name=name, num_partitions=-1, replication_factor=-1, assignments=placed)
        (decision,) = yield from self._wait_for_leaders((yield from self._request([topic])))
        return decision

    def _wait_for_leaders(self, decisions: list[Decision]) -> Steps[list[Decision]]:
        """Wait until the topics that the decisions created have leaders. Return the decisions.

        A topic without a leader in time gets the error LEADER_NOT_AVAILABLE.
        """
        until_ms = self._scheduler.now().mono_ms + MOST_WAIT_MS
        made = [each.name for each in decisions if is_there(each)]
        yield from self._metadata_waits.wait_until(lambda: all(map(self._is_led, made)), until_ms)
        return [
            Decision(each.name, LEADER_NOT_AVAILABLE) if is_there(each) and not self._is_led(each.name) else each
            for each in decisions
        ]

    def _request(self, topics: list[Topic]) -> Steps[list[Decision]]:
        """Send CreateTopics to the controller, and return its decisions; LEADER_NOT_AVAILABLE without a response."""
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
        self._note([each.name for each in decisions if not each.error_code])
        return decisions

    def _note(self, made: Collection[str]) -> None:
        now_ms = self._scheduler.now().mono_ms
        lately = {name: at_ms for name, at_ms in self.made_lately.items() if now_ms - at_ms < UNSEEN_MS}
        self.made_lately = lately | dict.fromkeys(made, now_ms)

    def _topic(self, name: str) -> Topic:
        spec = default_topic(name, self._settings.value, 1 if self._is_alone else MANY_BROKERS)
        return Topic(
            name=name,
            num_partitions=spec.partitions,
            replication_factor=spec.replication_factor,
            configs=[Config(name=config, value=text) for config, text in spec.configs.items()],
        )

    def _is_led(self, name: str) -> bool:
        topic = self._image.topics.get(name)
        return topic is not None and all(one.leader != NO_LEADER for one in topic.partitions)

    def _log_refusals(self, decisions: list[Decision]) -> list[Decision]:
        """Log the topics whose creation was refused, and return the decisions about them."""
        refused = [one for one in decisions if not is_there(one) and one.error_code != LEADER_NOT_AVAILABLE]
        for decision in refused:
            why = decision.message or error_name(decision.error_code)
            sentence = "%s cannot be made, and has no coordinator before it is: %s"
            log.warning(sentence, decision.name, why, extra={"cause": decision.name})
        return refused


def is_there(decision: Decision) -> bool:
    """Return whether the topic in a decision exists now, whether this decision or an earlier one created it."""
    return decision.error_code in (NONE, TOPIC_ALREADY_EXISTS)
