"""One process of a simulated pipeline: carries out the steps of the machines of `ottla.once`, until somebody kills it.

Requests take time, their answers may be lost, and a process may be killed between any two. Knows brokers and how to ask them again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from ottla.client.errors import BrokerError, KafkaError, TimedOut
from ottla.client.types import TopicPartition
from ottla.once.decisions import BatchDecision, Handed, decode, encode
from ottla.once.names import Work, decider_id_of, prefix_of
from ottla.once.steps import (
    AbortOwn,
    BeginId,
    ContinueId,
    Decide,
    DescribeIds,
    EndHanded,
    FenceCommitters,
    FenceWriter,
    Identified,
    ListOpen,
    NoteFinished,
    OpenWith,
    PrepareHanded,
    ReadBrokerClock,
    ReadDecision,
    Steps,
    WriteOn,
)
from ottla.sim.world import World
from tests.sim.lives.pipeline_brokers import DECISIONS, PipelineBrokers, Place, Row

DELAYS_MS: Final = (0, 1, 2, 30)
PAUSE_MS: Final = 1_500
PAUSES: Final = 0.01
"""How often a process pauses so long that others may take it for dead."""
RETRY_MS: Final = 20
FENCED_TIMEOUT_MS: Final = 1
DECIDER_TIMEOUT_MS: Final = 10_000

Told = Callable[[Any], None]


class SimPipelineProcess:
    """`lost` is the chance that a request or its answer is lost; it is sent so many `tries`."""

    def __init__(self, world: World, brokers: PipelineBrokers, *, timeout_ms: int, lost: float, tries: int) -> None:
        self._world, self._brokers = world, brokers
        self._timeout_ms, self._lost, self._tries = timeout_ms, lost, tries
        self.alive = True
        self._identities: dict[str, Identified] = {}
        self._rows: list[tuple[Place, list[Row]]] = []
        self._written = 0

    def kill(self) -> None:
        self.alive = False

    def write(self, rows: list[tuple[Place, list[Row]]]) -> None:
        """What the steps that write will write: the first of these opens the transaction."""
        self._rows, self._written = list(rows), 0

    def run(self, work: Work, steps: Steps[Any], then: Callable[[Any], None]) -> None:
        """Carry out steps; `then` hears of the result or the error, unless the process is killed."""
        self._go(work, steps, lambda: next(steps), then)

    def _go(self, work: Work, steps: Steps[Any], advance: Callable[[], Any], then: Callable[[Any], None]) -> None:
        if not self.alive:
            steps.close()
            return
        try:
            step = advance()
        except StopIteration as end:
            then(end.value)
            return
        except KafkaError as error:
            then(error)
            return

        def told(answer: Any) -> None:
            how = steps.throw if isinstance(answer, Exception) else steps.send
            self._go(work, steps, lambda: how(answer), then)

        self._carry_out(work, step, told)

    def _ask(self, call: Callable[[], Any], told: Told, tried: int = 1) -> None:
        """Ask brokers, again where that may help. The answer is what `call` returns, or the error that is left."""

        def arrive() -> None:  # what was sent arrives, whatever has become of its sender
            if self._world.chance(self._lost):  # on its way there
                self._world.after(RETRY_MS, again)
                return
            try:
                answer = call()
            except BrokerError as error:
                if error.retriable:
                    self._world.after(RETRY_MS, again)
                    return
                answer = error
            if self._world.chance(self._lost):  # on its way back
                self._world.after(RETRY_MS, again)
                return
            self._world.after(self._delay_ms(), partial(told, answer))

        def again() -> None:
            if self.alive and tried < self._tries:
                self._ask(call, told, tried + 1)
            elif self.alive:
                told(TimedOut("simulated"))

        self._world.after(self._delay_ms(), arrive)

    def _delay_ms(self) -> int:
        return PAUSE_MS if self._world.chance(PAUSES) else self._world.random.choice(DELAYS_MS)

    def _ask_all(self, calls: Sequence[Callable[[], Any]], told: Told) -> None:
        """Ask all at once; the answer is the list of answers, or the first error that ends the step."""
        answers: list[Any] = [None] * len(calls)
        left = len(calls)
        if not calls:
            told([])

        def one(index: int, answer: Any) -> None:
            nonlocal left
            answers[index] = answer
            left -= 1
            if left == 0:
                failed = [each for each in answers if isinstance(each, TimedOut)]
                told(failed[0] if failed else answers)

        for index, call in enumerate(calls):
            self._ask(call, partial(one, index))

    def _in_turn(self, calls: Sequence[Callable[[], Any]], told: Told) -> None:
        """Ask one after the other; the answer is the last one, or the first error."""

        def heard(answer: Any) -> None:
            if isinstance(answer, Exception) or len(calls) == 1:
                told(answer)
            else:
                self._in_turn(calls[1:], told)

        self._ask(calls[0], heard)

    def _carry_out(self, work: Work, step: Any, told: Told) -> None:
        brokers = self._brokers
        match step:
            case ReadDecision():
                self._ask(brokers.last_decision, told)
            case FenceCommitters() if decider_id_of(work.name) in self._identities:
                self._ask(brokers.last_decision, told)  # whoever leads by now has fenced this one: its decision will fail
            case FenceCommitters():
                init = partial(self._init, decider_id_of(work.name), DECIDER_TIMEOUT_MS)
                self._in_turn((init, brokers.last_decision), told)
            case Decide(decision):
                self._decide(work, decision, told)
            case DescribeIds(names):
                self._ask_all([partial(brokers.describe, name) for name in names], told)
            case PrepareHanded(transactions):
                self._prepare(transactions, told)
            case EndHanded(transactions, committed):
                self._end(transactions, committed, told)
            case ListOpen(prefix):
                self._ask(lambda: [name for name in brokers.open_ids(prefix) if name.startswith(prefix_of(work.name))], told)
            case FenceWriter(name):
                self._ask(partial(brokers.init, name, FENCED_TIMEOUT_MS), told)
            case _:
                self._own_step(work, step, told)

    def _own_step(self, work: Work, step: Any, told: Told) -> None:
        match step:
            case NoteFinished(decision):
                self._decide(work, decision, lambda answer: told(None))
            case ReadBrokerClock():
                self._ask(lambda: self._world.clock.now().wall_ms, told)
            case _:
                self._write_step(step, told)

    def _init(self, name: str, timeout_ms: int) -> None:
        self._identities[name] = self._brokers.init(name, timeout_ms)

    def _decide(self, work: Work, decision: BatchDecision, told: Told) -> None:
        name = decider_id_of(work.name)
        identity = self._identities[name]
        kept_as = decode(*encode(work.name, decision))
        kept = False

        def keep() -> None:
            nonlocal kept
            if not kept:  # the sequence of a batch that comes again tells that it is there already
                self._brokers.produce(name, identity, DECISIONS, [kept_as])
                kept = True

        def end() -> None:
            self._identities[name] = self._brokers.end(name, identity, committed=True)

        self._in_turn((keep, end), told)

    def _prepare(self, transactions: Sequence[Handed], told: Told) -> None:
        def call(handed: Handed) -> Handed | None:
            try:
                return self._brokers.prepare(handed)
            except BrokerError as error:
                if error.retriable:
                    raise
                return None

        if self._brokers.two_phase:
            self._ask_all([partial(call, each) for each in transactions], told)
        else:
            told(list(transactions))

    def _end(self, transactions: Sequence[Handed], committed: bool, told: Told) -> None:
        def call(handed: Handed) -> bool:
            identity = Identified(*handed.ends_as)
            try:
                self._brokers.end(handed.transactional_id, identity, committed=committed)
            except BrokerError as error:
                if error.retriable:
                    raise
                return False
            return True

        self._ask_all([partial(call, each) for each in transactions], told)

    def _write_step(self, step: Any, told: Told) -> None:
        match step:
            case BeginId(name):
                self._ask(partial(self._init, name, self._timeout_ms), told)
            case ContinueId(name, identity):
                self._identities[name] = identity
                told(None)
            case OpenWith(name):
                if self._rows:
                    self._in_turn((self._producing(name), lambda: True), told)
                else:
                    told(False)
            case WriteOn(name):
                places = tuple(TopicPartition(*place) for place in sorted({place for place, _ in self._rows}))
                handed = Handed(name, *self._identities[name], sum(len(rows) for _, rows in self._rows), places)
                calls = [self._producing(name, at) for at in range(1, len(self._rows))]
                self._in_turn((*calls, lambda: handed), told)
            case AbortOwn(name):
                self._ask(partial(self._give_up, name), told)

    def _producing(self, name: str, at: int = 0) -> Callable[[], None]:
        place, rows = self._rows[at]
        identity = self._identities[name]

        def call() -> None:
            if self._written <= at:
                self._brokers.produce(name, identity, place, rows)
                self._written = at + 1

        return call

    def _give_up(self, name: str) -> None:
        self._identities[name] = self._brokers.end(name, self._identities[name], committed=False)
