"""A life of share coordinators: leaders ask the persister, while the broker is killed, loses power and its disk fails.

Every choice comes from the seed. The ledger knows what states are possible; each result is compared with it, and at the end each
state is read, twice, with a restart between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import NamedTuple

from ottla.cluster.names import SHARE_STATE_TOPIC
from ottla.coord.share_state.inputs import (
    DeleteState,
    InitializeState,
    ReadState,
    SharePartitionKey,
    SharePlace,
    StateOperation,
    StateResult,
    WriteState,
)
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.errors import NONE, TOPIC_ALREADY_EXISTS
from tests.sim.lives.share_state_ledger import Asked, ShareStateLedger
from tests.support.machine import Machine

GROUPS = ("g", "h:i")
TOPICS = ("t", "u")
PARTITIONS = 2
STEPS = 150
OFFSETS = 30
PEACE_MS = 60_000
"""How long operations may take once nothing fails any more; the persister gives up before."""


class ShareStateLifeResult(NamedTuple):
    """What happened in one seed."""

    lives: int
    acknowledged: int
    pruned: int


class ShareStateLife:
    """One broker with share coordinators, and who asks them."""

    def __init__(self, seed: int, *, tell: bool = False) -> None:
        self.random = random = Random(seed)
        self.tell = tell
        self.machine = Machine(
            share_coordinator_state_topic_num_partitions=2,
            share_coordinator_snapshot_update_records_per_snapshot=random.choice((0, 1, 3, 500)),
            share_coordinator_cold_partition_snapshot_interval_ms=random.choice((500, 5_000, 300_000)),
            share_coordinator_state_topic_prune_interval_ms=random.choice((300, 3_000, 300_000)),
        )
        self.ledger = ShareStateLedger()
        self.lives = 1
        self.is_harmed = False
        """Whether a sync may have failed since the start, so that the broker cannot be stopped in order."""
        self.topic_ids: dict[str, bytes] = {}
        self.epochs: dict[SharePartitionKey, list[int]] = {}
        """The newest state epoch and leader epoch of each share partition."""
        self.offsets: dict[SharePartitionKey, int] = {}
        for name in TOPICS:
            self._create(name)

    def live(self) -> ShareStateLifeResult:
        """Live, then let peace come, and compare. Raises AssertionError."""
        for _ in range(STEPS):
            act = self.random.choices(*zip(*self._acts(), strict=True))[0]
            if self.tell:
                print(f"{self.machine.clock.now().mono_ms:>8} {act.__name__.strip('_')}")
            act()
        self._make_peace()
        pruned = self._start_offsets()
        for _ in range(2):
            self._read_all()
            self._restart()
        self._read_all()
        self._check_deletions()
        return ShareStateLifeResult(self.lives, self.ledger.acknowledged, pruned)

    def _acts(self) -> list[tuple[Callable[[], None], float]]:
        return [
            (self._write, 30),
            (self._read, 8),
            (self._initialize, 8),
            (self._summarize, 4),
            (self._delete, 1),
            (self._pass_time, 20),
            (self._settle, 12),
            (self._wait_long, 3),
            (self._cut_power, 1.5),
            (self._kill, 1),
            (self._restart, 1),
            (self._fill_disk, 0.7),
            (self._fail_disk, 0.7),
            (self._make_anew, 0.7),
        ]

    def _key(self) -> SharePartitionKey:
        name = self.random.choice(TOPICS)
        return SharePartitionKey(self.random.choice(GROUPS), self.topic_ids[name], self.random.randrange(PARTITIONS))

    def _epochs(self, key: SharePartitionKey) -> list[int]:
        return self.epochs.setdefault(key, [0, 0])

    def _some_epochs(self, key: SharePartitionKey) -> tuple[int, int]:
        """The newest epochs, or those of one that was fenced."""
        state, leader = self._epochs(key)
        if self.random.random() < 0.1:
            return max(0, state - self.random.randrange(2)), max(0, leader - self.random.randrange(3))
        return state, leader

    def _initialize(self) -> None:
        key = self._key()
        epochs = self._epochs(key)
        if self.random.random() < 0.3:
            epochs[0] += 1
        start = self.random.choice((-1, self.random.randrange(OFFSETS)))
        self._ask(StateOperation.INITIALIZE, key, InitializeState(*key[1:], self._some_epochs(key)[0], start))

    def _write(self) -> None:
        """Write some batches; a start offset moves on, and sometimes back, as after offsets were altered."""
        key, batches = self._key(), []
        for _ in range(self.random.randrange(4)):
            first = self.random.randrange(OFFSETS)
            last = first + self.random.randrange(6)
            batches.append((first, last, self.random.choice((0, 2, 4)), self.random.randrange(1, 4)))
        start = self.offsets.get(key, 0)
        if self.random.random() < 0.3:
            start = self.offsets[key] = max(0, start + self.random.randrange(-2, 6)) % OFFSETS
        start = -1 if self.random.random() < 0.5 else start
        state, leader = self._some_epochs(key)
        place = WriteState(*key[1:], state, leader, start, self.random.randrange(5), tuple(batches))
        self._ask(StateOperation.WRITE, key, place)

    def _read(self) -> None:
        key = self._key()
        if self.random.random() < 0.3:
            self._epochs(key)[1] += 1
        self._ask(StateOperation.READ, key, ReadState(*key[1:], self._some_epochs(key)[1]))

    def _summarize(self) -> None:
        key = self._key()
        self._ask(StateOperation.READ_SUMMARY, key, ReadState(*key[1:], 0))

    def _delete(self) -> None:
        key = self._key()
        self._ask(StateOperation.DELETE, key, DeleteState(*key[1:]))

    def _ask(self, operation: StateOperation, key: SharePartitionKey, place: SharePlace) -> None:
        asked = self.ledger.ask(key, operation, place)
        persist = getattr(self.machine.broker.share_states.persister, operation.name.lower())
        persist(key.group_id, (place,), partial(self._answer, self.lives, key, asked))

    def _answer(self, life: int, key: SharePartitionKey, asked: Asked, results: Sequence[StateResult]) -> None:
        assert life == self.lives, "a broker that has ended answers"
        self.ledger.answer(key, asked, results[0])

    def _pass_time(self) -> None:
        """Run what is due; what is to be synced waits."""
        self.machine.broker.run_timers(self.machine.clock.advance(self.random.choice((0, 1, 10, 100))))

    def _settle(self) -> None:
        self.machine.settle()

    def _wait_long(self) -> None:
        for _ in range(10):
            self.machine.pass_time(self.random.choice((10, 400)))

    def _cut_power(self) -> None:
        self._end()
        self.is_harmed = False
        self.machine.cut_power(self.random.randrange(1 << 30))

    def _kill(self) -> None:
        self._end()
        self.machine.kill()

    def _restart(self) -> None:
        self.machine.settle()
        self._end()
        if self.is_harmed:
            self.machine.kill()
        else:
            self.machine.restart()

    def _end(self) -> None:
        """End a life of the broker: what was under way happened or not."""
        self.lives += 1
        self.ledger.restart()

    def _fill_disk(self) -> None:
        """Have the disk refuse appends for a while."""
        disk = self.machine.disk
        disk.capacity_bytes = disk.used_bytes + self.random.randrange(200)
        for _ in range(self.random.randrange(4)):
            self._write()
            self.machine.pass_time(50)
        disk.capacity_bytes = None

    def _fail_disk(self) -> None:
        """Have a sync or an append fail; a partition whose sync failed is offline until the broker starts again."""
        self.is_harmed = True
        self.machine.disk.fail(self.random.randrange(6), count=self.random.choice((1, 3)))
        for _ in range(3):
            self._write()
            self.machine.pass_time(20)
        self.machine.disk.heal()
        if self.random.random() < 0.7:
            self._restart_after_failure()

    def _restart_after_failure(self) -> None:
        self.is_harmed = False
        self._end()
        self.machine.kill()

    def _make_anew(self) -> None:
        """Delete a topic and create it again, sometimes with a power cut soon after."""
        name = self.random.choice(TOPICS)
        topic = DeleteTopicsRequest.DeleteTopicState(name=name)
        gone = self.topic_ids[name]
        self.ledger.forget(gone)
        self.machine.ask(20, 6, DeleteTopicsRequest(topics=[topic], timeout_ms=1_000))
        if self.random.random() < 0.5:
            self._cut_power()
        self._create(name)

    def _create(self, name: str) -> None:
        topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1)
        for _ in range(100):
            response = self.machine.ask(19, 7, CreateTopicsRequest(topics=[topic], timeout_ms=1_000))
            if response.topics[0].error_code != TOPIC_ALREADY_EXISTS:
                break
            if self.is_harmed:  # nothing is deleted after the sync of a directory has failed
                self._restart_after_failure()
            self.machine.pass_time(100)  # a deletion that was interrupted goes on
        assert response.topics[0].error_code == NONE, f"{name} was not created: {response.topics[0]}"
        self.topic_ids[name] = response.topics[0].topic_id

    def _make_peace(self) -> None:
        """Let everything be answered, start the broker again, as a sync may have failed, and let everything be answered."""
        self.machine.disk.heal()
        self._settle_all()
        self._restart_after_failure()
        self._settle_all()

    def _settle_all(self) -> None:
        for _ in range(PEACE_MS // 100):
            if self.ledger.is_quiet:
                return
            self.machine.pass_time(100)
        raise AssertionError("an operation was not answered in time")

    def _read_all(self) -> None:
        """Read each state as its newest leader. A summary tells whether there is one."""
        for key in self.ledger.keys:
            self._ask(StateOperation.READ_SUMMARY, key, ReadState(*key[1:], 0))
            self._ask(StateOperation.READ, key, ReadState(*key[1:], self._epochs(key)[1] + 1))
            self._epochs(key)[1] += 1
        self._settle_all()

    def _start_offsets(self) -> int:
        """Return how many records were pruned."""
        partitions = self.machine.broker.partitions
        found = [partitions.get(SHARE_STATE_TOPIC, index) for index in range(2)]
        return sum(one.log.log_start_offset for one in found if one is not None)

    def _check_deletions(self) -> None:
        """Check that no coordinator knows a topic that is gone."""
        self.machine.pass_time(1_000)
        shards = self.machine.broker.share_states.coordinators.shards
        left = {key for shard in shards for key in shard.machine.states if key.topic_id not in self.topic_ids.values()}
        assert not left, f"states of deleted topics are left: {left}"
