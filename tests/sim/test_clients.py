"""The shipped clients live through lost connections, wrong answers and dying brokers: a share of what `make sim` does."""

from __future__ import annotations

import pytest

from ottla.sim.world import World
from tests.sim import clients
from tests.sim.lives import client_life
from tests.sim.seeds import Violation
from tests.support.kinds import one_of_each

SHARES, SEEDS_PER_SHARE = 6, 4


@pytest.mark.parametrize("share", one_of_each(range(SHARES), 0, 1, seconds=4))
def test_what_must_be_true_of_clients_is_true_whatever_happens(share: int) -> None:
    for seed in range(share * SEEDS_PER_SHARE, (share + 1) * SEEDS_PER_SHARE):
        lived = clients.live(seed)  # raises what was violated
        assert lived.seed == seed
        assert lived.callbacks


def test_these_seeds_meet_every_kind_of_trouble() -> None:
    plans = [client_life.plan(World(seed)) for seed in range(SHARES * SEEDS_PER_SHARE)]
    assert {plan.kind for plan in plans} == set(client_life.KINDS)
    for fault in ("delay", "lose", "silence", "refuse", "split"):
        assert any(getattr(plan.streams, fault) for plan in plans), fault
    for lie in ("error", "stale"):
        assert any(getattr(plan.lies, lie) for plan in plans), lie


def test_a_seed_is_lived_the_same_way_every_time() -> None:
    assert clients.live(1) == clients.live(1)


def test_a_violation_names_the_command_that_shows_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_life, "PATIENCE_MS", 0)
    with pytest.raises(
        Violation, match=r"seed 1: .*progress once quiet: WritingProgram end: not in 0 ms.*python -m tests.sim.clients --seed 1"
    ):
        clients.live(1)


def test_the_command_tells_what_was_lived(capsys: pytest.CaptureFixture[str]) -> None:
    assert clients.main(["--seeds", "2", "--jobs", "1"]) == 0
    assert "lived 2 seeds in" in capsys.readouterr().out
