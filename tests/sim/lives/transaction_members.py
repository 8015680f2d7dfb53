"""Simulated programs that copy as members of a group of the classic protocol: Ottla's own client machine, step by step.

Knows the machine's steps; knows nothing of what they mean.
"""

from __future__ import annotations

from typing import Any

from ottla.client.connection.versions import SPOKEN
from ottla.client.consumer.membership import Assign, Idle, Lead, Lose, Membership, Revoke, SendRequest
from ottla.client.errors import KafkaError, TimedOut
from ottla.client.settings.clients import ConsumerSettings
from ottla.client.types import TopicPartition
from ottla.sim.world import World
from tests.sim.lives.transaction_clients import GROUP, ClientEnded, Script, SimRequest
from tests.sim.lives.transaction_copiers import REBALANCE_MS, CopyTask, SimCopier
from tests.sim.lives.transaction_ledger import TransactionLedger
from tests.sim.lives.transaction_producer import ProducerWish

SESSION_MS, HEARTBEAT_MS, RETRY_MS = 3_000, 500, 100
MOST_STEPS = 20
STRATEGIES = (("range",), ("cooperative-sticky",))
"""All members of a group have the same."""


class SimClassicCopier(SimCopier):
    """One that shares its sources with others of its group, as their leader says (KIP-429, KIP-447).

    It takes steps of the group between transactions only, and commits offsets as the member that it is.
    """

    def __init__(self, world: World, connect: Any, ledger: TransactionLedger, wish: ProducerWish, task: CopyTask) -> None:
        settings = ConsumerSettings(
            group_id=task.group_id,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_interval_ms=REBALANCE_MS,
            retry_backoff_ms=RETRY_MS,
            partition_assignment_strategy=STRATEGIES[world.seed % 2],
        )
        self._membership = Membership(settings)
        self._membership.subscribe([task.sources[0].topic])
        super().__init__(world, connect, ledger, wish, task)

    def seat(self) -> dict[str, Any]:
        return {
            "generation_id_or_member_epoch": self._membership.generation_id,
            "member_id": self._membership.member_id,
        }

    def take_up(self, positions: dict[TopicPartition, int]) -> Script:
        """Take steps until the machine has nothing to do; what was lost or revoked is no more to be read, and what is new is."""
        machine = self._membership
        for _ in range(MOST_STEPS):
            step = machine.next(self.world.now_ms)
            if isinstance(step, Idle):
                return
            if isinstance(step, SendRequest):
                yield from self._ask(step)
            elif isinstance(step, Lead):
                machine.share_out({topic: len(self._task.sources) for topic in step.topics})
            elif isinstance(step, Assign):
                positions.update((yield from self.left_off(step.partitions)) if step.partitions else {})
                machine.finish_assign(self.world.now_ms)
            elif isinstance(step, Revoke | Lose):
                for place in step.partitions:
                    positions.pop(place, None)
                machine.finish_revoke(step.partitions)

    def _ask(self, step: SendRequest) -> Script:
        machine = self._membership
        ask = SimRequest(GROUP, step.api_key, SPOKEN[step.api_key][1], step.body, timeout_ms=step.timeout_ms)
        (response,) = yield [ask]
        try:
            if response is None:
                machine.broken(step, TimedOut("nobody answered"), self.world.now_ms)
            else:
                machine.on_answer(response, self.world.now_ms)
        except KafkaError as refused:
            raise ClientEnded(str(refused)) from refused
