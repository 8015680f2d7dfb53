"""Transactions in a simulated cluster: programs that copy, write and take over, while their coordinators and leaders move.

`transaction_ledger` knows what must be true, and `transaction_programs` who does what.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import NamedTuple

from ottla.coord.transactions.transaction import PREPARED
from ottla.sim.network import NetworkFaults, RequestLink
from ottla.sim.world import World
from ottla.wire.api.produce import ProduceRequest
from tests.sim.lives.cluster_work import Act, ClusterAround, ClusterWork
from tests.sim.lives.transaction_clients import LEADER, Rest, Script, SimClient, SimRequest
from tests.sim.lives.transaction_ledger import TransactionLedger
from tests.sim.lives.transaction_programs import PRODUCE, PRODUCE_VERSION, TOPICS, SimPrograms, source_batches
from tests.sim.seeds import Violation

INTERVAL_MS = 1_000
TIMEOUTS_MS = (2_000, 6_000)
FILL_MS = 20_000
"""So long may it take until what is to be copied is there."""
LONGEST_END_MS = 40_000
"""So long may markers take in peace: a request may take 30 s to fail (request.timeout.ms)."""
RETRY_MS = 100
SETTINGS = {
    "transaction.two.phase.commit.enable": "true",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(INTERVAL_MS),
}


class CopyingPlan(NamedTuple):
    """What programs there are: a `ProgramsPlan`."""

    copiers: int
    writers: int
    partitions: int
    records: int
    protocol: str
    by_group: bool
    members: str
    prepares: bool


def copying_plan(random: Random) -> CopyingPlan:
    """Few programs, as brokers are what there are many of."""
    by_group = random.random() < 0.5
    partitions = random.choice((1, 2))
    return CopyingPlan(
        copiers=2 if by_group else random.randrange(1, partitions + 1),
        writers=random.randrange(3),
        partitions=partitions,
        records=random.choice((3, 6)),
        protocol=random.choice(("older", "newer", "both")),
        by_group=by_group,
        members=random.choice(("consumer", "classic", "both")),
        prepares=random.random() < 0.3,
    )


class SimSource(SimClient):
    """It writes what there is to copy."""

    def __init__(self, world: World, connect: Callable[[], RequestLink], batches: Sequence[ProduceRequest]) -> None:
        self._batches = batches
        super().__init__(world, "the source", connect)

    def script(self) -> Script:
        for body in self._batches:
            while True:
                (response,) = yield [SimRequest(LEADER, PRODUCE, PRODUCE_VERSION, body)]
                if response is not None and not response.responses[0].partition_responses[0].error_code:
                    break
                yield Rest(RETRY_MS)


class ClusterCopying(ClusterWork):
    """All programs with transactions."""

    def __init__(self, plan: CopyingPlan) -> None:
        self._plan = plan
        self._around: ClusterAround
        self._programs: SimPrograms
        self.ledger: TransactionLedger

    @property
    def topics(self) -> Mapping[str, int]:
        return dict.fromkeys(TOPICS, self._plan.partitions)

    def begin(self, around: ClusterAround) -> None:
        self._around = around
        world = around.world
        self.ledger = TransactionLedger(around.view, INTERVAL_MS, around.ids, has_stale_answers=True)
        source = SimSource(world, self._good_link, source_batches(self._plan, world.clock.now().wall_ms))
        if not world.run(FILL_MS, lambda: not source.alive):
            raise Violation(f"heals: in {FILL_MS} ms without trouble the records to copy could not be written")
        self._programs = SimPrograms(
            world, self._link, self.ledger, self._plan, around.topic_ids, around.say, timeouts_ms=TIMEOUTS_MS
        )
        self._programs.begin_all()

    def _link(self) -> RequestLink:
        return self._around.link(self._around.link_faults)

    def _good_link(self) -> RequestLink:
        return self._around.link(NetworkFaults())

    def acts(self) -> Sequence[Act]:
        programs = self._programs
        return (3, programs.somebody_dies), (3, programs.somebody_stands_still), (3, programs.somebody_is_replaced)

    def go_on(self) -> None:
        self._programs.go_on()

    def look(self) -> None:
        self._programs.mind()

    def undone(self) -> list[str]:
        return self._programs.undone(self._around.view)

    def check(self) -> None:
        """Once all has been copied, what anybody has left open ends by its timeout, and what stands behind it is copied, too.

        An end may be on its way to a leader by a connection of which the network has lost all: it is sent again when nothing was
        answered for so long as a request may take.
        """
        world = self._around.world
        self.ledger.broker_started()
        world.run(max(TIMEOUTS_MS) + 2 * INTERVAL_MS)
        if not world.run(LONGEST_END_MS, self._has_ended_all):
            raise Violation(f"ended in time: {', '.join(self._ending())} not in {LONGEST_END_MS} ms")
        if not world.run(LONGEST_END_MS, self._is_copied):
            raise Violation(f"soon done: not in {LONGEST_END_MS} ms after all had ended: {', '.join(self.undone())}")
        self.ledger.broker_started()
        self.ledger.look()
        self._programs.check(self._good_link)

    def _is_copied(self) -> bool:
        return self._around.world.happened % 20 == 0 and not self.undone()

    def _has_ended_all(self) -> bool:
        return self._around.world.happened % 20 == 0 and not self._ending()

    def _ending(self) -> list[str]:
        """What is decided, and not written everywhere."""
        return [known.transactional_id for known in self._around.view.transactions() if known.status in PREPARED]
