"""The cluster's topics: decisions of `ottla.cluster`, committed, and made real as logs. Knows no wire formats and no files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ottla.broker.releases.traits import UNSEEN_MS
from ottla.broker.serving.purgatory import Reply
from ottla.broker.settings import SettingsInForce, topic_config_error
from ottla.broker.topics.commits import Commits, storage_refused
from ottla.broker.topics.defaults import default_topic, topic_on
from ottla.broker.topics.deletions import Deletions, note
from ottla.broker.topics.reconciler import LogReconciler
from ottla.cluster import layout
from ottla.cluster import topics as cluster_topics
from ottla.cluster.decision import Decision
from ottla.cluster.image import ClusterImage
from ottla.cluster.topics import TopicSpec
from ottla.ports import Entry, Now, Steps, StorageFailed
from ottla.wire.errors import UNKNOWN_SERVER_ERROR, UNKNOWN_TOPIC_OR_PARTITION
from ottla.wire.schema import Message

Late = Callable[[str], None]
"""Called with a topic that is not as it was to be when time is up."""

_RESERVED_IDS = (bytes(16), bytes(15) + b"\x01")


class Topics:
    """Creates, grows and deletes topics. What is decided is in the registry and in the image when the steps are over, which must be
    taken to their end.

    The logs are not yet as the image says: thousands of them take long, so callers have `LogReconciler` see to them. `changed`
    hears of topics that came, grew or went, and `deleted` of those whose offsets have to be forgotten.
    """

    def __init__(
        self,
        image: ClusterImage,
        commits: Commits,
        logs: LogReconciler,
        deletions: Deletions,
        settings: SettingsInForce,
        random_bytes: Callable[[int], bytes],
        changed: Callable[[list[str]], None],
        deleted: Callable[[list[str], Now], None],
    ) -> None:
        self._image = image
        self._logs = logs
        self._deletions = deletions
        self.made_by_default: dict[str, int] = {}
        """When each topic that a name alone created lately was created (ms, monotonic)."""
        self._commits = commits
        self._settings = settings
        self._new_id: Callable[[], bytes] = partial(new_topic_id, random_bytes)
        self._changed = changed
        self._deleted = deleted

    def create(
        self, wanted: Sequence[TopicSpec], now: Now, *, validate_only: bool = False, room: int = cluster_topics.MOST_PARTITIONS
    ) -> Steps[list[Decision]]:
        """Create these topics; each has a decision of its own. With `validate_only` all is decided and nothing created.

        All of them together have at most `room` partitions.
        """

        decide = partial(self._creation, wanted, room)
        if validate_only:
            return decide()
        return self._committed((yield from self._commits.commit_slowly(partial(self._freed, decide, now))))

    def create_by_default(self, names: Iterable[str], now: Now) -> list[Decision]:
        """Create topics by name alone, and their logs, now."""
        decide = partial(self._freed, partial(self._creation, self._by_default(names)), now)
        decisions = self._noted(self._committed(self._commits.commit(decide)), now)
        self._logs.follow_at_once([decision.name for decision in decisions if decision.is_made], now)
        return decisions

    def create_named(self, names: Iterable[str], now: Now) -> Steps[list[Decision]]:
        """Create topics by name alone: internal ones have their own settings, others the defaults."""
        return self._noted((yield from self.create(self._by_default(names), now)), now)

    def create_on(self, name: str, node_id: int, now: Now) -> Steps[list[Decision]]:
        """Create a topic by name alone, with all its partitions on one broker."""
        return self._noted((yield from self.create([topic_on(name, self._settings.value, node_id)], now)), now)

    def _by_default(self, names: Iterable[str]) -> list[TopicSpec]:
        return [default_topic(name, self._settings.value, len(self._image.brokers)) for name in names]

    def _creation(self, wanted: Sequence[TopicSpec], room: int = cluster_topics.MOST_PARTITIONS) -> list[Decision]:
        return cluster_topics.create(self._image, wanted, self._new_id, topic_config_error, room)

    def _freed(self, decide: Callable[[], list[Decision]], now: Now) -> list[Decision]:
        """What is decided, once nothing is left of former topics of these names."""
        decisions = decide()
        try:
            self._logs.free([decision.name for decision in decisions if decision.is_made], now)
        except StorageFailed as failure:
            return storage_refused(decisions, failure)
        return decisions

    def _noted(self, decisions: list[Decision], now: Now) -> list[Decision]:
        made = [decision.name for decision in decisions if decision.is_made]
        lately = {name: at_ms for name, at_ms in self.made_by_default.items() if now.mono_ms - at_ms < UNSEEN_MS}
        self.made_by_default = lately | dict.fromkeys(made, now.mono_ms)
        return decisions

    def delete(self, names: Iterable[str], now: Now) -> Steps[list[Decision]]:
        """Delete topics with all their records and the offsets that groups committed for them."""
        wanted = list(names)
        decisions = yield from self._commits.commit_slowly(lambda: [self._deletion(name) for name in wanted])
        gone = [decision.name for decision in decisions if decision.is_made]
        if gone:
            self._forget(gone, now)
        return decisions

    def _forget(self, gone: list[str], now: Now) -> None:
        """These topics are out of the registry."""
        self._deletions.begin(gone)
        self._changed(gone)
        self._deleted(gone, now)

    def reply(self, response: Message, expected: Mapping[str, int], now: Now, timeout_ms: int, late: Late) -> Steps[Reply]:
        """The response, once these topics have so many partitions, or with 0 are gone; with -1 nothing is expected.

        A lone broker sees to it however long that takes. In a cluster, `late` hears of those that are not so after `timeout_ms`.
        """
        yield from ()
        return self._logs.reply(response, list(expected), now)

    def _deletion(self, name: str) -> Decision:
        topic = self._image.topics.get(name)
        if topic is None:
            return Decision(name, UNKNOWN_TOPIC_OR_PARTITION, f"Topic {name!r} no longer exists: it was deleted.")
        decision = cluster_topics.delete(topic)
        return replace(decision, changes=(*decision.changes, note(name)))

    def add_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None, *, validate_only: bool = False
    ) -> Steps[Decision]:
        """Let a topic have `count` partitions; the new ones begin empty."""

        path = layout.topic_path(name)

        def decide(entries: Mapping[str, Entry | None]) -> list[Decision]:
            try:
                topic = cluster_topics.stored(name, entries[path]) if path in entries else self._image.topics.get(name)
            except ValueError as error:
                sentence = f"The registry's entry {path} cannot be parsed ({error}): repair it with ZooKeeper's own tools."
                return [Decision(name, UNKNOWN_SERVER_ERROR, sentence)]
            decision = cluster_topics.add_partitions(self._image, name, topic, count, assignments)
            return [replace(decision, changes=(), states=()) if validate_only else decision]

        (decision,) = self._committed((yield from self._commits.commit_read((path,), decide)))
        return decision

    def _committed(self, decisions: list[Decision]) -> list[Decision]:
        """Note who leads the new partitions, once they have their logs, and publish what changed."""
        made = [decision for decision in decisions if decision.is_made]
        for decision in made:
            self._logs.lead_later(decision.topic_id, decision.states)
        if made:
            self._changed([decision.name for decision in made])
        return decisions


def new_topic_id(random_bytes: Callable[[int], bytes]) -> bytes:
    """16 random bytes as a version 4 UUID, none of those that Kafka reserves."""
    while True:
        raw = bytearray(random_bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        topic_id = bytes(raw)
        # Tools read an id on their command line, where one that begins with "-" looks like an option.
        if topic_id not in _RESERVED_IDS and not layout.uuid_text(topic_id).startswith("-"):
            return topic_id
