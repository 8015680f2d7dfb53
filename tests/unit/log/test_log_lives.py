"""Lives of logs as hypothesis makes them up: what `make sim` does by seeds, and shrunk when it fails."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.sim import invariants
from ottla.sim.power import PowerCut
from tests.sim.lives.life import LogLife

pytestmark = pytest.mark.expects_errors("old segments could not be deleted")  # when they are to go, the disk may refuse anything
SEEDS = st.integers(0, 2**32)


class LogThatLives(RuleBasedStateMachine):
    """Each rule lets one thing happen; the seed it draws says how."""

    life: LogLife

    @initialize(seed=SEEDS)
    def begins(self, seed: int) -> None:
        self.life = LogLife(Random(seed))

    @rule(seed=SEEDS, name=st.sampled_from(["append", "append_idempotently", "transact", "end_transaction"]))
    def appends(self, seed: int, name: str) -> None:
        self.does(name, seed)

    @rule(seed=SEEDS, name=st.sampled_from(["sync", "roll", "checkpoint", "stop", "revive"]))
    def keeps(self, seed: int, name: str) -> None:
        self.does(name, seed)

    @rule(seed=SEEDS, name=st.sampled_from(["pass_time", "delete_records", "change_policy", "meet_faults"]))
    def forgets_or_suffers(self, seed: int, name: str) -> None:
        self.does(name, seed)

    @rule(seed=SEEDS)
    @precondition(lambda self: self.life.config.compacts)
    def compacts(self, seed: int) -> None:
        self.does("compact", seed)

    @rule(seed=SEEDS)
    @precondition(lambda self: not self.life.config.compacts and not self.life.compacted_to)
    def truncates(self, seed: int) -> None:
        self.does("truncate", seed)

    @rule(seed=SEEDS)
    def loses_power(self, seed: int) -> None:
        self.life.random = Random(seed)
        self.life.restart()

    @rule(
        seed=SEEDS, name=st.sampled_from(["append", "transact", "roll", "checkpoint", "stop", "pass_time", "compact", "truncate"])
    )
    def loses_power_in_the_midst_of_work(self, seed: int, name: str) -> None:
        if (name == "compact") == self.life.config.compacts and (name != "truncate" or not self.life.compacted_to):
            self.life.disk.cut_soon(60, Random(seed))
            self.does(name, seed)
            self.life.disk.cut_at = -1

    def does(self, name: str, seed: int) -> None:
        self.life.random = Random(seed)
        try:
            getattr(self.life, name)()
        except PowerCut:
            self.life.restart()

    @invariant()
    def nothing_is_wrong(self) -> None:
        if hasattr(self, "life"):
            assert self.life.faults() == []

    def teardown(self) -> None:
        if hasattr(self, "life"):
            assert invariants.offsets_grow(self.life.log) == []


LogThatLives.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, report_multiple_bugs=False, suppress_health_check=list(HealthCheck)
)
TestLogThatLives = LogThatLives.TestCase
