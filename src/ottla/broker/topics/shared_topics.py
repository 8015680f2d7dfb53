"""The topics of a cluster: decided here, committed in the registry that brokers share, and made real by the controller.

Nothing is in the image before the controller has told this broker of it, so replies wait for that, as long as the client says.
Knows no logs and no wire formats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ottla.broker.releases.interbroker_versions import Switch
from ottla.broker.serving.purgatory import Purgatory, Reply
from ottla.broker.settings import SettingsInForce
from ottla.broker.topics.commits import Commits
from ottla.broker.topics.deletions import Deletions, note
from ottla.broker.topics.reconciler import LogReconciler
from ottla.broker.topics.topics import Late, Topics
from ottla.cluster.decision import Decision
from ottla.cluster.image import NO_LEADER, NO_TOPIC_ID, ClusterImage
from ottla.cluster.topics import MOST_PARTITIONS, TopicSpec
from ottla.ports import Now, Steps
from ottla.wire.errors import TOPIC_ALREADY_EXISTS, UNKNOWN_TOPIC_OR_PARTITION
from ottla.wire.schema import Message

LOOK_AGAIN_MS = 10
"""How often it is looked whether the controller has told."""

GOING_MS = 2_000
"""How long a topic is waited for that is on its way out, so that its name can be given again."""


class SharedTopics(Topics):
    """Creates, grows and deletes topics through entries that the controller watches, and leaves logs to it."""

    def __init__(
        self,
        image: ClusterImage,
        commits: Commits,
        logs: LogReconciler,
        deletions: Deletions,
        settings: SettingsInForce,
        random_bytes: Callable[[int], bytes],
        purgatory: Purgatory,
    ) -> None:
        super().__init__(image, commits, logs, deletions, settings, random_bytes, lambda names: None, lambda names, now: None)
        self._purgatory = purgatory
        self._random_id, self._new_id = self._new_id, self._id_if_any

    def _id_if_any(self) -> bytes:
        """Before 2.8 topics have no ids: none, so that a broker of that time can share the cluster."""
        has_ids = self._settings.value.inter_broker_protocol_version.has(Switch.TOPIC_IDS)
        return self._random_id() if has_ids else NO_TOPIC_ID

    def create(
        self, wanted: Sequence[TopicSpec], now: Now, *, validate_only: bool = False, room: int = MOST_PARTITIONS
    ) -> Steps[list[Decision]]:
        """As of a lone broker. A name that nobody hears of any more may still be going: it is waited for, not long."""
        decisions = yield from super().create(wanted, now, validate_only=validate_only, room=room)
        until_ms = self._purgatory.now().mono_ms + GOING_MS
        while (going := [one.name for one in decisions if self._is_going(one)]) and self._purgatory.now().mono_ms < until_ms:
            yield self._purgatory.rest(LOOK_AGAIN_MS)
            again = yield from super().create([one for one in wanted if one.name in going], now, room=room)
            found = {one.name: one for one in again}
            decisions = [found.get(one.name, one) for one in decisions]
        return decisions

    def _is_going(self, decision: Decision) -> bool:
        return decision.error_code == TOPIC_ALREADY_EXISTS and decision.name not in self._image.topics

    def reply(self, response: Message, expected: Mapping[str, int], now: Now, timeout_ms: int, late: Late) -> Steps[Reply]:
        """As of a lone broker, but no longer than the client waits: then the controller goes on without it."""
        until_ms = now.mono_ms + timeout_ms
        while left := [name for name, count in expected.items() if not self._is_so(name, count)]:
            if self._purgatory.now().mono_ms >= until_ms:
                break
            yield self._purgatory.rest(LOOK_AGAIN_MS)
        for name in left:
            late(name)
        return response

    def _is_so(self, name: str, count: int) -> bool:
        topic = self._image.topics.get(name)
        if topic is None or count <= 0:
            return count < 0 or (topic is None and not count)
        return len(topic.partitions) >= count and all(one.leader != NO_LEADER for one in topic.partitions)

    def _freed(self, decide: Callable[[], list[Decision]], now: Now) -> list[Decision]:
        return decide()

    def _committed(self, decisions: list[Decision]) -> list[Decision]:
        return decisions

    def _deletion(self, name: str) -> Decision:
        """A note: the controller removes the entries of the topic when every broker has deleted its replicas."""
        topic = self._image.topics.get(name)
        if topic is None:
            return Decision(name, UNKNOWN_TOPIC_OR_PARTITION, f"Topic {name!r} no longer exists: it was deleted.")
        return Decision(name, changes=(note(name),), topic_id=topic.topic_id)

    def _forget(self, gone: list[str], now: Now) -> None:
        """The controller tells all brokers, this one too."""
