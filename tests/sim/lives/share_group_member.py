"""A simulated member of a share group: one heartbeat at a time. Knows nothing of how partitions are assigned, and reads none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.sim.network import RequestLink
from ottla.sim.world import World
from ottla.wire import errors as codes
from ottla.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.sim.lives.share_group_ledger import Assigned, ShareGroupLedger

SHARE_GROUP_HEARTBEAT, VERSION = 76, 1
HEARTBEAT_MS = 1_000
REQUEST_TIMEOUT_MS = 2_000
RETRY_MS = 100
REJOIN = frozenset({codes.UNKNOWN_MEMBER_ID, codes.FENCED_MEMBER_EPOCH, codes.GROUP_ID_NOT_FOUND})
"""Answers after which a member joins again."""


class SimShareMember:
    """One process. `assigned` is what it was told last, `epoch` is 0 while it is no member."""

    def __init__(
        self, world: World, link: RequestLink, ledger: ShareGroupLedger, group_id: str, name: str, topics: list[str]
    ) -> None:
        self.world, self.link, self.ledger = world, link, ledger
        self.group_id, self.name, self.topics = group_id, name, topics
        self.member_id = f"{name}-{world.random.getrandbits(32):08x}"
        self.alive = True
        self.epoch = 0
        self.assigned: Assigned = {}
        self._is_unsure = False
        self._still_until_ms = 0
        self._soon(0, self._beat)

    def die(self) -> None:
        """Die at once."""
        self.alive = False

    def leave(self) -> None:
        """Leave the group in order, whether the broker gets the message or not."""
        self.alive = False
        self.ledger.left(self)
        body = ShareGroupHeartbeatRequest(group_id=self.group_id, member_id=self.member_id, member_epoch=-1)
        self.link.request(SHARE_GROUP_HEARTBEAT, VERSION, body, lambda answer: None, REQUEST_TIMEOUT_MS)

    def stand_still(self, ms: int) -> None:
        """Do nothing for a while, as if suspended."""
        self._still_until_ms = self.world.now_ms + ms

    @property
    def is_settled(self) -> bool:
        """Whether it is a member, as far as it knows."""
        return self.epoch > 0

    def _soon(self, ms: int, call: Callable[[], None]) -> None:
        def due() -> None:
            if not self.alive:
                return
            wait_ms = self._still_until_ms - self.world.now_ms
            if wait_ms > 0:
                self.world.after(min(wait_ms, HEARTBEAT_MS), due)
            else:
                call()

        self.world.after(ms, due)

    def _beat(self) -> None:
        names, sent_ms = self.topics if self._is_unsure or not self.epoch else None, self.world.now_ms
        body = ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch, subscribed_topic_names=names
        )

        def answered(answer: Any) -> None:
            self._soon(0, lambda: self._answered(answer, sent_ms))

        self.link.request(SHARE_GROUP_HEARTBEAT, VERSION, body, answered, REQUEST_TIMEOUT_MS)

    def _answered(self, answer: Any, sent_ms: int) -> None:
        self._is_unsure = answer is None or bool(answer.error_code)  # as clients, it asks for the whole assignment then
        if self._is_unsure:
            if answer is not None and answer.error_code in REJOIN:
                self.ledger.fenced(self)
                self.epoch, self.assigned = 0, {}
            self._soon(RETRY_MS, self._beat)
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = {bytes(t.topic_id): frozenset(t.partitions) for t in answer.assignment.topic_partitions}
        self.ledger.heard(self, sent_ms)
        self._soon(HEARTBEAT_MS, self._beat)
