"""A coordinator of share groups on a stage, with a persister that the test controls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.coord.consumer.assign import TopicShape
from ottla.coord.consumer.topics import KnownTopic, KnownTopics
from ottla.coord.group_machine import GroupMachine
from ottla.coord.memory import GroupMemory
from ottla.coord.outcome import TopicsChanged, TopicsDeleted
from ottla.coord.settings import GroupSettings
from ottla.coord.share.events import DeleteShares, InitializeShares, SharesInitialized
from ottla.coord.share.group import ShareGroup
from ottla.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ottla.wire.schema import Uuid
from tests.scenarios.stage import Stage

Held = dict[str, list[int]]


def topic_id(name: str, life: int = 1) -> Uuid:
    return f"{name}{life}".encode().ljust(16, b".")


class ShareStage(Stage):
    """A coordinator whose members send heartbeats. `orders` wait until `persist` executes them."""

    def __init__(self, **settings: int) -> None:
        super().__init__(GroupSettings(**{"group_share_assignment_interval_ms": 0, **settings}))  # type: ignore[arg-type]  # numbers only
        self.lives: dict[str, int] = {}

    def _new_machine(self) -> GroupMachine:
        machines: list[GroupMachine] = []
        memory = GroupMemory(lambda: machines[0].weight)
        machines.append(GroupMachine(self.settings, self._new_id, memory=memory))
        return machines[0]

    def create(self, **counts: int) -> None:
        """Create topics with these numbers of partitions, or add partitions."""
        for name in counts:
            self.lives.setdefault(name, 1)
        known = [KnownTopic(name, topic_id(name, self.lives[name]), TopicShape(count)) for name, count in counts.items()]
        self.tell(TopicsChanged(self.topics.with_changes(known), frozenset(counts), new=True))

    def delete(self, name: str) -> None:
        self.lives[name] += 1
        self.tell(TopicsChanged(self.topics.with_changes((), [name]), frozenset((name,)), new=False))
        self.tell(TopicsDeleted(frozenset((name,))))

    def heartbeat(
        self, member_id: str, epoch: int, names: Sequence[str] | None = None, group: str = "g", rack: str | None = None
    ) -> ShareGroupHeartbeatResponse:
        body = ShareGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            rack_id=rack,
            subscribed_topic_names=None if names is None else list(names),
        )
        response: ShareGroupHeartbeatResponse = self.request(body)
        return response

    def request(self, body: Any, version: int = 1) -> Any:
        """Put a request in, and return its reply, which must come at once."""
        return self.heard.pop(self.ask(body, version, "client"))

    def code(self, member_id: str, epoch: int, names: Sequence[str] | None = None, group: str = "g") -> int:
        error_code: int = self.heartbeat(member_id, epoch, names, group).error_code
        return error_code

    def join(self, *member_ids: str, names: Sequence[str] = ("t",)) -> None:
        """Let members join and initialize their partitions, and send heartbeats until nothing changes."""
        for member_id in member_ids:
            self.heartbeat(member_id, 0, names)
        self.persist()
        self.beat(*member_ids)

    def beat(self, *member_ids: str) -> None:
        """Send two heartbeats of each member: the last of the first round can change the assignment of all."""
        for member_id in (*member_ids, *member_ids):
            response = self.heartbeat(member_id, self.group.members[member_id].epoch)
            assert not response.error_code

    def persist(self, error_code: int = 0) -> list[Any]:
        """Execute all orders, with this result, and return them."""
        orders, self.orders = self.orders, []
        for order in orders:
            if isinstance(order, InitializeShares):
                self.tell(SharesInitialized(order.group_id, order.places, [error_code] * len(order.places)))
            else:
                assert isinstance(order, DeleteShares)
        return orders

    @property
    def group(self) -> ShareGroup:
        return self.machine.shares.groups["g"]

    def assigned(self, member_id: str) -> Held:
        """What a member reads, by topic name."""
        found = self.group.members[member_id].assigned
        return {self.name(topic): sorted(numbers) for topic, numbers in found.items()}

    def name(self, topic: Uuid) -> str:
        found = self.topics.with_id(topic)
        return topic.decode() if found is None else found.name


def held(response: ShareGroupHeartbeatResponse) -> list[list[int]] | None:
    """The partitions in a response; None if it has no assignment."""
    if response.assignment is None:
        return None
    return [list(topic.partitions) for topic in response.assignment.topic_partitions]


def known_topics(**counts: int) -> KnownTopics:
    return KnownTopics(KnownTopic(name, topic_id(name), TopicShape(count)) for name, count in counts.items())
