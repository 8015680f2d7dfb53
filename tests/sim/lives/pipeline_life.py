"""One seed of a pipeline: a query whose drivers and workers die, are repeated and go on as zombies; then peace, then the rows.

It plans as Spark does: a batch's rows are the same whenever it is run again, of the attempts of a partition one is taken, a batch
that was committed is not run again, and two drivers may run a batch at once where one is taken for dead. In every fourth seed
brokers die and start again, too. Everything comes from the seed. What must be true: every row of the input is visible exactly once,
and no transaction is open for longer than its timeout. In every third seed, brokers allow two-phase commit: then nothing that was
decided is torn, and what dead runs have prepared is open until the query writes its next batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from ottla.client.errors import KafkaError
from ottla.once.committer import CommitOutcome, Torn, abort_batch, commit_batch
from ottla.once.decisions import BatchDecision, Handed
from ottla.once.names import Work
from ottla.once.writer import OwnIds, TaskResult, write_batch
from ottla.sim.world import World
from tests.sim.lives.pipeline_brokers import DECISIONS, PipelineBrokers, Place, Row
from tests.sim.lives.pipeline_process import SimPipelineProcess
from tests.sim.seeds import Violation

NAME: Final = "query"
MOST_ATTEMPTS: Final = 4
PATIENCE_MS: Final = 3_600_000
"""So long, in simulated time and in peace, may it take until all batches are written."""


class PipelinePlan(NamedTuple):
    """What a seed is about. `rows[batch][partition]` are how many; `away_ms` is how long a query stays dead at most."""

    rows: tuple[tuple[int, ...], ...]
    workers: int
    transaction_version: int
    two_phase: bool
    timeout_ms: int
    trouble_ms: int
    away_ms: int
    lost: float
    tries: int
    kills: float
    zombies: float
    speculates: float
    deaths: int


class PipelineResult(NamedTuple):
    """The result of a seed. `torn`: whoever was to commit stayed away for longer than the timeout, and the query says so."""

    seed: int
    plan: PipelinePlan
    happened: int
    runs: int
    attempts: int
    starts: int
    voided: int
    torn: bool


class SimPipelineWorker:
    """A process that runs tasks one after the other, and keeps the transactional ids of each run."""

    def __init__(self, process: SimPipelineProcess, name: str) -> None:
        self.process = process
        self.ids = OwnIds(name)
        self.task: tuple[int, int] | None = None


class SimQueryRun:
    """A driver and its workers, from the start of a query to its end, or beyond it: a driver taken for dead may go on."""

    def __init__(self, life: PipelineLife, number: int, batch_id: int) -> None:
        self.life, self.number, self.batch_id = life, number, batch_id
        self.world = life.world
        self.ended = False
        self._workers = [self._new_worker() for _ in range(life.plan.workers)]
        self._waiting: list[tuple[int, int]] = []
        self._results: dict[int, TaskResult] = {}
        self._attempts: Counter[int] = Counter()
        self._committer = life.new_process()

    def _new_worker(self) -> SimPipelineWorker:
        return SimPipelineWorker(self.life.new_process(), f"w{self.life.next_number()}")

    def _work(self) -> Work:
        return Work(NAME, f"run{self.number}", self.batch_id)

    def begin_batch(self) -> None:
        """Plan the tasks of a batch, unless another driver has begun it."""
        if self.batch_id >= len(self.life.plan.rows):
            self.end(None)
            return
        self._results.clear()
        self._attempts.clear()
        self._waiting = [(self.batch_id, partition) for partition in range(len(self.life.plan.rows[self.batch_id]))]
        self._give_out()

    def _give_out(self) -> None:
        for worker in self._workers:
            if self._waiting and worker.task is None and not self.ended:
                self._start(worker, *self._waiting.pop(0))

    def _start(self, worker: SimPipelineWorker, batch_id: int, partition: int) -> None:
        self.life.attempts += 1
        self._attempts[partition] += 1
        worker.task = (batch_id, partition)
        rows = self.life.rows_of(batch_id, partition)
        worker.process.write(rows)
        work = self._work()
        steps = write_batch(work, worker.ids, looks_first=self.world.chance(0.7))
        worker.process.run(work, steps, partial(self._task_ended, worker, batch_id, partition))
        if self.life.trouble and self.world.chance(self.life.plan.kills):
            self.world.after(self.world.random.randrange(200), partial(self._kill, worker))
        if self.life.trouble and self.world.chance(self.life.plan.speculates):
            self.world.after(self.world.random.randrange(100), partial(self._speculate, batch_id, partition))

    def _speculate(self, batch_id: int, partition: int) -> None:
        if batch_id == self.batch_id and partition not in self._results and not self.ended:
            self._waiting.append((batch_id, partition))
            self._give_out()

    def _kill(self, worker: SimPipelineWorker) -> None:
        if worker in self._workers and worker.task is not None:
            self._workers.remove(worker)
            if not self.world.chance(self.life.plan.zombies):  # one that only seems to be dead goes on
                worker.process.kill()
            self._workers.append(self._new_worker())
            self._failed(*worker.task)
            self._give_out()

    def _task_ended(self, worker: SimPipelineWorker, batch_id: int, partition: int, result: Any) -> None:
        worker.task = None
        if worker not in self._workers:
            return
        if isinstance(result, KafkaError):
            self._failed(batch_id, partition)
        elif batch_id == self.batch_id and not self.ended and partition not in self._results:
            self._results[partition] = result
            if len(self._results) == len(self.life.plan.rows[batch_id]):
                self._commit(batch_id)
        self._give_out()

    def _failed(self, batch_id: int, partition: int) -> None:
        if batch_id != self.batch_id or self.ended or partition in self._results:
            return
        if self._attempts[partition] >= MOST_ATTEMPTS:
            self._abort()
        else:
            self._waiting.append((batch_id, partition))
            self._give_out()

    def _handed(self) -> list[Handed]:
        return [each.transaction for each in self._results.values() if each.transaction is not None]

    def _commit(self, batch_id: int) -> None:
        self._waiting.clear()
        if self.world.chance(0.2):  # Spark may have another process commit
            self._committer = self.life.new_process()
        found = any(each.found_decided for each in self._results.values())
        steps = commit_batch(self._work(), self._handed(), self.life.wall_ms, found_decided=found)
        self._committer.run(self._work(), steps, partial(self._committed, batch_id))

    def _committed(self, batch_id: int, outcome: Any) -> None:
        if isinstance(outcome, Torn):
            self.life.stopped = outcome
            self.end(None)
        elif not isinstance(outcome, CommitOutcome):
            self._abort()
        elif not self.ended and self.life.log_commit(batch_id):
            self.batch_id += 1
            self.begin_batch()
        else:
            self.end(0)

    def _abort(self) -> None:
        if not self.ended:
            work, handed = self._work(), self._handed()
            self.life.new_process().run(work, abort_batch(work, handed, self.life.wall_ms, recorded=True), lambda outcome: None)
            self.end(self.world.random.randrange(2_000))

    def die(self) -> None:
        """The driver is dead, or only taken for dead, and so are its workers; another run begins."""
        if self.ended:
            return
        keeps = self.world.chance(self.life.plan.zombies)
        for process in (self._committer, *(worker.process for worker in self._workers)):
            if not (keeps and self.world.chance(0.7)):
                process.kill()
        away_ms = self.life.plan.away_ms if self.life.trouble else 1
        self.end(self.world.random.choice((10, 500, away_ms)), stays=keeps)

    def end(self, restart_ms: int | None, *, stays: bool = False) -> None:
        """No more batches here; `stays`: but this driver does not know it yet."""
        already, self.ended = self.ended, not stays
        if not already and restart_ms is not None and self.life.run is self:
            self.life.run = None
            self.world.after(restart_ms, self.life.start)


class PipelineLife:
    """The world of one seed."""

    def __init__(self, seed: int, *, tell: Callable[[str], None] | None = None) -> None:
        self.world = World(seed)
        self.plan = _plan(self.world, two_phase=seed % 3 == 2, deaths=seed % 4 == 1)
        self.tell = tell or (lambda sentence: None)
        self.brokers = PipelineBrokers(self.world, self.plan.transaction_version, two_phase=self.plan.two_phase)
        self.trouble = True
        self.run: SimQueryRun | None = None
        self.stopped: KafkaError | None = None
        self.attempts = 0
        self._committed = -1
        self._runs = self._count = 0

    def next_number(self) -> int:
        self._count += 1
        return self._count

    def wall_ms(self) -> int:
        return self.world.clock.now().wall_ms

    def new_process(self) -> SimPipelineProcess:
        lost = self.plan.lost if self.trouble else 0.0
        return SimPipelineProcess(
            self.world, self.brokers, timeout_ms=self.plan.timeout_ms, lost=lost, tries=self.plan.tries if self.trouble else 1_000
        )

    def rows_of(self, batch_id: int, partition: int) -> list[tuple[Place, list[Row]]]:
        """What a task writes, and where: a place for each few rows."""
        count = self.plan.rows[batch_id][partition]
        return [(("topic", (partition + at) % 3), [(batch_id, partition, at)]) for at in range(count)]

    def log_commit(self, batch_id: int) -> bool:
        """Spark's own log of commits: False for a driver that another one has overtaken, or that dies before."""
        if self._committed != batch_id - 1 or (self.trouble and self.world.chance(self.plan.kills / 2)):
            return False
        self._committed = batch_id
        return True

    def start(self) -> None:
        """Start the query where it was left."""
        if self.stopped is None:
            self._runs += 1
            self.tell(f"{self.world.now_ms} ms: run {self._runs} begins with batch {self._committed + 1}")
            self.run = SimQueryRun(self, self._runs, self._committed + 1)
            self.run.begin_batch()
            if self.trouble and self.world.chance(self.plan.kills * 3):
                self.world.after(self.world.random.randrange(1_500), self.run.die)

    @property
    def is_done(self) -> bool:
        return self.stopped is not None or self._committed == len(self.plan.rows) - 1

    def live(self) -> PipelineResult:
        """Raises `Violation`."""
        for _ in range(self.plan.deaths):
            away_ms = self.world.random.choice((5, 200, 3_000))
            self.world.after(self.world.random.randrange(2_000), partial(self.brokers.die, away_ms))
        self.start()
        self.world.run(self.plan.trouble_ms, lambda: self.is_done)
        self.trouble = False
        if not self.world.run(PATIENCE_MS, lambda: self.is_done):
            raise Violation(f"done in time: batch {self._committed + 1} is not written after {PATIENCE_MS} ms of peace")
        self.world.run(self.plan.timeout_ms * 2 + 10_000)
        if self.plan.two_phase and self.stopped is None:
            self._write_on()
        self._check()
        voided = sum(isinstance(each.value, BatchDecision) and not each.value.transactions for each in self.brokers.logs[DECISIONS])
        torn = self.stopped is not None
        return PipelineResult(
            self.world.seed, self.plan, self.world.happened, self._runs, self.attempts, self.brokers.starts, voided, torn
        )

    def _write_on(self) -> None:
        """Start the query again for one more batch, in peace."""
        self.plan = self.plan._replace(rows=(*self.plan.rows, (1,)))
        if self.run is not None:
            self.run.end(None)
        self.start()
        if not self.world.run(PATIENCE_MS, lambda: self.is_done):
            raise Violation("done in time: the last batch is not written")
        self.world.run(self.plan.timeout_ms * 2 + 10_000)

    def _check(self) -> None:
        stored = [row for place, log in self.brokers.logs.items() if place != DECISIONS for row in log]
        if hangs := [row.value for row in stored if row.committed is None]:
            raise Violation(f"nothing hangs: {hangs} are in a transaction that nobody ends")
        if not (self.plan.kills or self.plan.lost or self.plan.deaths) and self.brokers.timed_out:
            raise Violation(f"nobody waits for a timeout: {self.brokers.timed_out} transactions were left to theirs")
        seen = Counter(row.value for row in stored if row.committed)
        if twice := sorted(value for value, count in seen.items() if count > 1):
            raise Violation(f"nothing twice: {twice}")
        if self.stopped is not None:
            if self.plan.two_phase:
                raise Violation(f"nothing prepared is torn: {self.stopped}")
            if not self.brokers.timed_out:
                raise Violation(f"stops only after a timeout: {self.stopped}")
            return
        tasks = [(batch, at) for batch, partitions in enumerate(self.plan.rows) for at in range(len(partitions))]
        wanted = {row for task in tasks for _, rows in self.rows_of(*task) for row in rows}
        if lost := sorted(wanted - seen.keys()):
            raise Violation(f"nothing lost: {lost}")


def _plan(world: World, *, two_phase: bool, deaths: bool) -> PipelinePlan:
    random = world.random
    partitions = random.randint(1, 4)
    bad = random.choice((0.0, 0.1, 0.3))
    return PipelinePlan(
        rows=tuple(tuple(random.randint(0, 3) for _ in range(partitions)) for _ in range(random.randint(2, 5))),
        workers=random.randint(1, 4),
        transaction_version=random.choice((0, 1, 2, 2)),
        two_phase=two_phase,
        timeout_ms=random.choice((8_000, 30_000)),
        trouble_ms=60_000,
        away_ms=random.choice((1_000, 20_000, 90_000)),
        lost=random.choice((0.0, 0.05, 0.2)),
        tries=random.choice((3, 1_000)),
        kills=bad,
        zombies=random.choice((0.0, 0.5)),
        speculates=random.choice((0.0, 0.3)),
        deaths=random.randint(1, 4) if deaths else 0,
    )
