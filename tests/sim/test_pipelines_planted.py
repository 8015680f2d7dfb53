"""Mistakes planted into writing once are found by the simulation, under the name of what is not true any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from ottla.coord.runtime.machine import Outcome
from ottla.coord.transactions.machine import TransactionMachine
from ottla.once import committer, writer
from ottla.once.decisions import BatchDecision
from ottla.once.fates import Fate
from ottla.once.steps import BeginId, Decide, EndHanded, NoteFinished
from tests.sim import pipelines
from tests.sim.lives import pipeline_life
from tests.sim.lives.pipeline_process import SimPipelineProcess
from tests.sim.seeds import Violation

MOST_SEEDS = 400

CARRY_OUT = SimPipelineProcess._carry_out
TAKEN = writer._reserve_id


def forget_to_keep_it(process: SimPipelineProcess, work: Any, step: Any, told: Any) -> None:
    if isinstance(step, Decide):
        told(None)
    else:
        CARRY_OUT(process, work, step, told)


def commit_before_it_is_kept(process: SimPipelineProcess, work: Any, step: Any, told: Any) -> None:
    if isinstance(step, Decide) and step.decision.transactions:
        CARRY_OUT(
            process, work, EndHanded(step.decision.transactions, committed=True), lambda _: CARRY_OUT(process, work, step, told)
        )
    else:
        CARRY_OUT(process, work, step, told)


def end_nothing_of_before(work: Any, *rest: Any) -> Iterator[Any]:
    return iter(())


def any_is_open(handed: Any, seen: Any) -> Fate:
    return Fate.OPEN


def covers_nothing(decision: BatchDecision, batch_id: int) -> bool:
    return False


def covers_too_much(decision: BatchDecision, batch_id: int) -> bool:
    return decision.batch_id >= batch_id


def clear_nothing(*args: Any, **more: Any) -> Iterator[Any]:
    return iter(())


def abort_what_was_decided(work: Any, handed: Any, clock: Any, *, recorded: bool) -> Iterator[Any]:
    yield EndHanded(tuple(handed), committed=False)


def use_ids_again_at_once(work: Any, ids: writer.OwnIds) -> Iterator[Any]:
    ids.handed = {name: (-1, handed) for name, (_, handed) in ids.handed.items()}
    return TAKEN(work, ids)


def keep_the_epoch(process: SimPipelineProcess, work: Any, step: Any, told: Any) -> None:
    # Whoever starts again asks about transactions where nobody noted that they are committed.
    if isinstance(step, NoteFinished) or (isinstance(step, BeginId) and step.transactional_id in process._identities):
        told(None)
    else:
        CARRY_OUT(process, work, step, told)


def look_nowhere(work: Any) -> Iterator[Any]:
    yield from ()


def recall_nothing(machine: Any, now: Any) -> Outcome[Any]:
    return Outcome()


def keep_the_timeouts(process: SimPipelineProcess, transactions: Any, told: Any) -> None:
    told(list(transactions))


class PlantedMistake(NamedTuple):
    """What is wrong instead of what, and the name of what is not true then. `seed`: one of the first that show it."""

    name: str
    owner: object
    attribute: str
    wrong: Callable[..., Any]
    seed: int = 0


MISTAKES = {
    "keeps no decision": PlantedMistake("nothing twice", SimPipelineProcess, "_carry_out", forget_to_keep_it),
    "commits before the decision is kept": PlantedMistake(
        "nothing twice", SimPipelineProcess, "_carry_out", commit_before_it_is_kept
    ),
    "does not finish what was decided": PlantedMistake("nothing lost", committer, "_finish", end_nothing_of_before),
    "takes any transaction for open": PlantedMistake("is torn", committer, "fate_of", any_is_open, 1600),
    "writes a decided batch again": PlantedMistake("nothing twice", BatchDecision, "covers", covers_nothing),
    "takes a void batch for written": PlantedMistake("nothing lost", BatchDecision, "covers", covers_too_much, 70),
    "uses an id again in the same batch": PlantedMistake("done in time", writer, "_reserve_id", use_ids_again_at_once, 7600),
    "uses an epoch again": PlantedMistake("nothing twice", SimPipelineProcess, "_carry_out", keep_the_epoch, 230),
    "clears nothing away": PlantedMistake("nothing hangs", committer, "_abort_others", clear_nothing, 5),
    "does not look whether a batch is decided": PlantedMistake("nobody waits for a timeout", writer, "_is_decided", look_nowhere),
    "forgets at a start which markers are due": PlantedMistake("nothing hangs", TransactionMachine, "recall", recall_nothing, 181),
    "prepares nothing": PlantedMistake("nothing prepared is torn", SimPipelineProcess, "_prepare", keep_the_timeouts, 18_400),
    "aborts what was decided": PlantedMistake(
        "stops only after a timeout", pipeline_life, "abort_batch", abort_what_was_decided, 1600
    ),
}


def live_many(seeds: range) -> None:
    for seed in seeds:
        pipelines.live(seed)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = MISTAKES[mistake]
    monkeypatch.setattr(planted.owner, planted.attribute, planted.wrong)
    with pytest.raises(Violation, match=planted.name):
        live_many(range(planted.seed, planted.seed + MOST_SEEDS))
