"""A simulated consumer of the classic group protocol: Ottla's own client machine, driven in the simulated world.

Knows the machine's steps and how long they may take; knows nothing of what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ottla.client.connection.versions import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SPOKEN
from ottla.client.consumer.membership import Assign, Lead, Lose, Membership, Phase, Revoke, SendRequest
from ottla.client.errors import KafkaError, TimedOut
from ottla.client.settings.clients import ConsumerSettings
from ottla.sim.network import RequestLink
from ottla.sim.world import World
from tests.sim.lives.group_ledger import GroupLedger, Seat
from tests.sim.lives.group_members import REQUEST_TIMEOUT_MS, SLOW_GIVING, SLOWEST_GIVING_MS, SimMember, TopicView


class SimClassicMember(SimMember):
    """A member of the classic protocol."""

    def __init__(
        self,
        world: World,
        link: RequestLink,
        ledger: GroupLedger,
        cluster: TopicView,
        settings: ConsumerSettings,
        name: str,
        topics: list[str],
    ) -> None:
        self.machine = Membership(settings)
        super().__init__(world, link, ledger, cluster, self.machine.group_id, name)
        self._step_number = 0
        self._known: Mapping[str, int] = {}
        self.machine.subscribe(topics)
        self.soon(0, self._go_on)

    @property
    def member_id(self) -> str:
        return self.machine.member_id

    @property
    def instance_id(self) -> str | None:
        return self.machine.settings.group_instance_id

    @property
    def generation(self) -> int:
        return self.machine.generation_id

    @property
    def epoch(self) -> int:
        return self.machine.generation_id if self.machine.phase in (Phase.STABLE, Phase.ADOPT, Phase.OUT) else -1

    @property
    def is_settled(self) -> bool:
        return self.machine.phase is Phase.STABLE

    def topics(self) -> list[str]:
        return self.machine.topics

    def join_again(self) -> None:
        """Ask for a rebalance."""
        self.machine.rejoin()
        self._go_on()

    def refused(self, code: int, seat: Seat) -> None:
        self.machine.commit_refused(code, seat.generation)

    def leave(self) -> None:
        def said() -> None:
            ask = self.machine.leave()
            if ask is None:
                self.die()
            else:
                self.ask(LEAVE_GROUP, SPOKEN[LEAVE_GROUP][1], ask.body, lambda response: self.die(), REQUEST_TIMEOUT_MS)
                self.give(list(self.positions))

        self._step_number += 1
        self.commit(said)

    def _go_on(self) -> None:
        """Take steps until one takes time."""
        if not self.alive:
            return
        self._step_number += 1
        number = self._step_number

        def later(ms: int = 0) -> None:
            self.soon(ms, lambda: self._go_on() if number == self._step_number else None)

        step = self.machine.next(self.world.now_ms)
        if isinstance(step, SendRequest):
            self._ask(step, later)
        elif isinstance(step, Revoke):
            self._revoke(step, later)
        elif isinstance(step, Lose):
            self._lose(step)
            later()
        elif isinstance(step, Assign):
            self.take(step.partitions)
            self.machine.finish_assign(self.world.now_ms)
            later()
        elif isinstance(step, Lead):
            self.machine.share_out({topic: count for topic, count in self.cluster.counts().items() if topic in step.topics})
            later()
        else:
            later(max(1, step.until_ms - self.world.now_ms))

    def _ask(self, step: SendRequest, later: Callable[[], None]) -> None:
        if step.api_key == JOIN_GROUP:
            self._known = self.cluster.counts()
        elif step.api_key == HEARTBEAT and dict(self.cluster.counts()) != dict(self._known):
            self._known = self.cluster.counts()
            self.machine.rejoin()

        def answered(response: Any) -> None:
            try:
                if response is None:
                    self.machine.broken(step, TimedOut("nobody answered"), self.world.now_ms)
                else:
                    self.machine.on_answer(response, self.world.now_ms)
            except KafkaError:
                self.die()
                return
            later()

        self.ask(step.api_key, SPOKEN[step.api_key][1], step.body, answered, step.timeout_ms)

    def _revoke(self, step: Revoke, later: Callable[[], None]) -> None:
        def done() -> None:
            self.give(step.partitions)
            self.machine.finish_revoke(step.partitions)
            later()

        slow_ms = self.world.random.randrange(SLOWEST_GIVING_MS) if self.world.chance(SLOW_GIVING) else 0
        self.commit(lambda: self.soon(slow_ms, done))

    def _lose(self, step: Lose) -> None:
        if not self.machine.member_id:
            self.commit_all_the_same()
        self.give(step.partitions)
        self.machine.finish_revoke(step.partitions)
