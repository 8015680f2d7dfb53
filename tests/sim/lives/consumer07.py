"""A consumer of Kafka 0.7 as a simulated process: the group's machine as it is, with a reader that takes what there is.

It does what the driver of a real one does: a rebalance when something has changed, commits now and then, nothing read without
having looked whether the session may be over. Knows nothing of what must be true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from ottla.client.types import TopicPartition
from ottla.kafka07.client.group import Group07, Round07, Subscription
from ottla.ports import Done, DuplicateEntry, NoEntry, Steps, StorageFailed, VersionConflict
from ottla.sim.process import SimProcess
from ottla.sim.shared_registry import SimSharedRegistry
from tests.sim.lives.consumer07_ledger import Ledger07

READ_MS, COMMIT_MS, BACKOFF_MS = 100, 500, 1_000
MOST_READ = 5
FAILURES = (DuplicateEntry, NoEntry, VersionConflict, StorageFailed)


def drive(steps: Steps[Any], over: Callable[[Any, Exception | None], None], process: SimProcess) -> None:
    """Do the steps on the process's thread; `over` gets what they come to, or what they raise."""

    def resume(failure: StorageFailed | None) -> None:
        if process.has_ended:
            return
        try:
            start = steps.send(failure)
        except StopIteration as end:
            over(end.value, None)
            return
        except FAILURES as refused:
            over(None, refused)
            return
        if start is None:
            process.post(lambda: resume(None))
        else:
            start(resume)

    resume(None)


class SimConsumer07:
    """One member. `ends` are the ends of all partitions that there are."""

    def __init__(
        self,
        process: SimProcess,
        registry: SimSharedRegistry,
        ledger: Ledger07,
        subscription: Subscription,
        ends: Mapping[TopicPartition, int],
    ) -> None:
        self.name = process.name
        self.process = process
        self.registry = registry
        self.is_leaving = False
        self.rounds = 0
        self._ledger = ledger
        self._ends = ends
        self._places: dict[TopicPartition, int | None] = {}
        """Where it reads; None until it knows what was committed."""
        self._going: set[TopicPartition] = set()
        self._lives = 0
        self._again = True
        self._is_busy = False
        self._is_waiting = False
        self.group = Group07(registry, "g", new_id=self._new_id, give_up=self._give_up, changed=self._changed)
        self.group.subscribe(subscription)
        process.post(self._read)
        process.post(self._commit)

    def owns(self) -> Iterable[TopicPartition]:
        """What it believes to own now."""
        if self.process.has_ended or self.process.clock.now().mono_ms >= self.registry.session_end_ms():
            return ()
        return self.group.owned

    @property
    def is_quiet(self) -> bool:
        """Whether it does nothing but read, and has read all that is its."""
        places = self._places
        return (
            not (self._again or self._is_busy or self._is_waiting or self.process.is_paused)
            and places.keys() == self.group.owned
            and all(places[where] == self._ends.get(where, 0) for where in places)
        )

    def leave(self) -> None:
        """Go in order."""
        if not self._is_busy:
            self._go()

    def die(self) -> None:
        """Be killed: nobody is told."""
        self.process.end()
        self.registry.lose_connection()

    def _go(self) -> None:
        self._is_busy = True
        self._commit_places(self._placed(self.group.owned), lambda: drive(self.group.leave(), self._gone, self.process))

    def _gone(self, value: object, failure: Exception | None) -> None:
        self.registry.close()
        self.process.end()

    def _new_id(self) -> str:
        self._lives += 1
        return f"g_{self.name}-{self._lives}"

    # --- rebalances

    def _changed(self) -> None:
        self._again = True
        self.process.post(self._rebalance)

    def _rebalance(self) -> None:
        if self._is_busy or not self._again:
            return
        self._again, self._is_busy = False, True
        self._forget_what_is_gone()
        drive(self.group.rebalance(), self._rebalanced, self.process)

    def _rebalanced(self, found: Round07 | None, failure: Exception | None) -> None:
        self.rounds += 1
        self._is_busy = False
        if self.is_leaving:
            self._go()
            return
        self._adopt()
        if found is None or found.awaited:
            self._wait()
        if self._again:
            self.process.post(self._rebalance)

    def _wait(self) -> None:
        """Rebalance again after a while."""
        if not self._is_waiting:
            self._is_waiting = True
            self.process.world.after(BACKOFF_MS, lambda: self.process.post(self._waited))

    def _waited(self) -> None:
        self._is_waiting = False
        self._changed()

    def _adopt(self) -> None:
        new = sorted(self.group.owned - self._places.keys())
        self._places.update(dict.fromkeys(new))
        if new:
            drive(self.group.fetch_committed(new), partial(self._adopted, new), self.process)

    def _adopted(self, new: list[TopicPartition], committed: dict[TopicPartition, int] | None, failure: Exception | None) -> None:
        self._forget_what_is_gone()
        for where in new:
            if where not in self._places or self._places[where] is not None:
                continue
            if committed is None:
                del self._places[where]
                self._wait()
            else:
                self._places[where] = committed.get(where, 0)
                self._ledger.begins(self.name, where, committed.get(where, 0))

    def _give_up(self, partitions: list[TopicPartition], done: Done) -> None:
        self._going |= set(partitions)
        world = self.process.world
        world.after(world.random.randrange(300), lambda: self.process.post(partial(self._finished, partitions, done)))

    def _finished(self, partitions: list[TopicPartition], done: Done) -> None:
        """The user has finished with records in hand."""

        def over() -> None:
            for where in partitions:
                self._places.pop(where, None)
            self._going -= set(partitions)
            done(None)

        self._forget_what_is_gone()
        self._commit_places(self._placed(partitions), over)

    def _forget_what_is_gone(self) -> None:
        self.group.drop_if_expired(self.process.clock.now().mono_ms)
        for where in self._places.keys() - self.group.owned:
            del self._places[where]

    # --- reading

    def _read(self) -> None:
        self.process.world.after(READ_MS, lambda: self.process.post(self._read))
        self._forget_what_is_gone()
        for where, place in self._places.items():
            left = self._ends.get(where, 0) - (place or 0)
            if place is not None and left > 0 and where not in self._going:
                self._places[where] = end = place + min(left, self.process.world.random.randrange(1, MOST_READ))
                self._ledger.reads(self, where, end)
        self._ledger.check()

    def _commit(self) -> None:
        self.process.world.after(COMMIT_MS, lambda: self.process.post(self._commit))
        self._commit_places(self._placed(self.group.owned), lambda: None)

    def _placed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        known = ((where, self._places.get(where)) for where in partitions if where in self.group.owned)
        return {where: place for where, place in known if place is not None}

    def _commit_places(self, places: dict[TopicPartition, int], over: Callable[[], None]) -> None:
        if places:
            drive(self.group.commit(places, as_member=True), lambda value, failure: over(), self.process)
        else:
            over()
