"""The life of a follower: a real broker whose leader, controller and registry are played, on a disk that refuses and loses.

Its leaders change, and have other records than the last one; they compact, delete, and go ahead while it is away. It compacts,
deletes and checkpoints its own log meanwhile, and is killed, or loses its power, at any operation of its disk. Whenever it is let
alone for a while it has to have what its leader has: `FollowerLedger` says what that means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from ottla.broker.broker import BrokerMachine
from ottla.broker.replication.replica import Replica
from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Peer
from ottla.broker.settings import BrokerSettings
from ottla.cluster import layout
from ottla.cluster.metadata import ClusterPorts
from ottla.log.names import CLEANED
from ottla.ports import Change, CommitSteps, Condition, Entry, SessionEvent, Steps, Syncable
from ottla.sim.clock import SimClock
from ottla.sim.disk import IO_ERROR, NO_SPACE, TOO_MANY_FILES
from ottla.sim.host import frame_of
from ottla.sim.power import FaultyDisk, PowerCut
from ottla.sim.registry import MemoryRegistry
from ottla.wire.api.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.api.stop_replica import StopReplicaRequest
from ottla.wire.api.update_metadata import UpdateMetadataRequest
from ottla.wire.framing import FrameHeader, decode_response, encode_request
from ottla.wire.schema import Message
from tests.sim.lives.follower_ledger import FollowerLedger
from tests.sim.lives.played_leader import PlayedLeader, PlayedLink
from tests.sim.lives.small_journals import journal_alignment, journal_settings
from tests.sim.seeds import Violation

TOPIC, TOPIC_ID = "t", bytes(range(16))
FOLLOWER, LEADER, CONTROLLER, BROKER_EPOCH = 1, 2, 9, 100
ACTS = 120
"""How much happens in one life."""

MOST_OPERATIONS = 60
"""How many operations of the disk may pass before it refuses, or the process ends."""

LEAVES_EACH, LEAVES_FIRST = 4, 3
"""In every fourth life, from this one on, the replica is moved away and back."""

MOST_REFUSALS = 20
"""How often a controller asks for the deletion of a replica before it waits for the next start of the broker."""

QUIET_TURNS = 400
"""How many turns a follower that nothing disturbs may take to have what its leader has."""

POLICIES = ("delete", "compact", "compact,delete")
FLUSHES_EACH, FLUSH_MESSAGES = 2, ("1", "1", "3")
"""In every second life, a follower makes records durable after so many, in its journal where that has room."""

SETTINGS = {
    "log.cleaner.backoff.ms": "50",
    "log.retention.check.interval.ms": "100",
    "log.segment.delete.delay.ms": "100",
    "replica.fetch.backoff.ms": "20",
    "num.replica.fetchers": "1",
}


class PlayedRegistry:
    """A registry that answers at once."""

    timeout_ms = 6000

    def __init__(self) -> None:
        self.entries = MemoryRegistry()

    def read(self, paths: Sequence[str], *, changed: Callable[[str], None] | None = None) -> Steps[list[Entry | None]]:
        yield None
        return [self.entries.get(path) for path in paths]

    def list(self, paths: Sequence[str], *, changed: Callable[[str], None] | None = None) -> Steps[list[list[str] | None]]:
        yield None
        return [self.entries.children(path) for path in paths]

    def commit(self, changes: Sequence[Change | Condition]) -> CommitSteps:
        yield None
        self.entries.commit([change for change in changes if isinstance(change, Change)])

    def session_end_ms(self) -> int:
        return 1 << 60

    def on_session(self, told: Callable[[SessionEvent], None]) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class FollowerResult:
    """What was lived."""

    seed: int
    policy: str
    records: int
    leaders: int
    ends: int
    refused: int
    settled: int


class FollowerLife:
    """One follower. Every choice comes from the seed."""

    def __init__(self, seed: int, *, tell: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.policy = self.random.choice(POLICIES)
        self.clock = SimClock()
        self.disk = FaultyDisk()
        self.disk.room_alignment = journal_alignment(seed)
        self.leader = PlayedLeader(self.random, self.clock.now().wall_ms - 1_000_000)
        self.link = PlayedLink(self.leader)
        self.registry = PlayedRegistry()
        self.ledger = FollowerLedger(self.leader, compacts="compact" in self.policy)
        self.leaders = self.ends = self.settled = 0
        self._is_leaving = False
        """Whether the controller deletes the replica, and has no answer yet: nothing of it need be kept."""
        self._durable_offset = 0
        """Of the log when the process ended last: what is below it may not be lost."""
        self._syncs_are_slow = self._ran_on = False
        """Whether the machine ran on since all logs were opened."""
        self.broker: BrokerMachine
        self._tell = tell or (lambda sentence: None)
        self._correlation_id = 0
        configs = {
            "cleanup.policy": self.policy,
            "internal.segment.bytes": str(self.random.choice((250, 500, 1500))),
            "index.interval.bytes": str(self.random.choice((0, 200, 1000))),
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": self.random.choice(("0", "100000")),
            "retention.ms": "-1",
        }
        if seed % FLUSHES_EACH:
            configs["flush.messages"] = Random(seed).choice(FLUSH_MESSAGES)
        self.registry.entries.commit([Change(layout.topic_config_path(TOPIC), layout.config_json(configs))])

    def live(self) -> FollowerResult:
        """Live the whole life. Raises `Violation` for what must not be."""
        self._start(clean=True)
        self._write()
        for _ in range(20):
            self._turn(20)
        self._turn(60_000)  # before the first checkpoint a power cut may leave what looks as if another broker had compacted it
        for number in range(ACTS):
            act = self.random.choice(self._acts())
            self._tell(
                f"{number}: {act.__name__.strip('_')}, leader {self.leader.start}-{self.leader.end} in {self.leader.leader_epoch}"
            )
            self._guarded(act)
        self._settle()
        return FollowerResult(self.seed, self.policy, self.leader.end, self.leaders, self.ends, self.disk.faults, self.settled)

    def _acts(self) -> list[Callable[[], None]]:
        acts = [self._write] * 6 + [self._copy] * 8 + [self._commit] * 4 + [self._pass_time] * 3
        acts += [self._change_leaders] * 3 + [self._refuse, self._end_soon, self._end_soon, self._settle, self._stop, self._stir]
        if self.seed % LEAVES_EACH == LEAVES_FIRST:
            acts += [self._leave_and_return] * 3
        if "compact" in self.policy:
            acts += [self._compact_leader]
        if "delete" in self.policy:
            acts += [self._delete]
        return acts

    # The leader

    def _write(self) -> None:
        for _ in range(self.random.randrange(1, 8)):
            self.leader.write()

    def _commit(self) -> None:
        self.leader.commit()

    def _compact_leader(self) -> None:
        self.leader.compact()

    def _delete(self) -> None:
        self.leader.delete_before(self.random.randrange(self.leader.start, self.leader.high_watermark + 1))

    def _leave_behind(self) -> None:
        """Have the leader begin, perhaps, where the follower is not yet."""
        self._write()
        self.leader.high_watermark = self.leader.end
        self.leader.delete_before(self.leader.end)
        self._write()

    def _change_leaders(self) -> None:
        """Have another one lead; seldom one that was out of sync."""
        is_unclean = self.policy == "compact" and self.random.random() < 0.4  # nothing is deleted that only the last one had
        least = self.leader.start if is_unclean else max(self.leader.start, self.leader.high_watermark)
        self.leaders += 1
        self.leader.give_way(self.random.choice((least, self.random.randrange(least, self.leader.end + 1))))
        for _ in range(self.random.randrange(6)):
            self.leader.write()
        self._tell_roles()

    # The follower

    @property
    def replica(self) -> Replica:
        found = self.broker.partitions.get(TOPIC, 0)
        assert isinstance(found, Replica), "the controller has said that it is one"
        return found

    def _copy(self) -> None:
        for _ in range(self.random.randrange(1, 5)):
            self._turn(self.random.choice((0, 1, 20)))

    def _pass_time(self) -> None:
        for _ in range(self.random.randrange(1, 12)):
            self._turn(self.random.choice((1, 20, 100)))
        if self.random.random() < 0.2:
            self._turn(60_000)  # a checkpoint is due

    def _turn(self, ms: int) -> None:
        self.link.answer()
        self.broker.run_timers(self.clock.advance(ms))
        self._run()

    def _run(self) -> None:
        self.broker.finish_bundle(self.clock.now())
        if self._syncs_are_slow:
            self.disk.run_syncs(self._is_slow)
            self.broker.finish_bundle(self.clock.now())
            return
        while self.disk.run_syncs():
            self.broker.finish_bundle(self.clock.now())

    def _is_slow(self, files: Sequence[Syncable]) -> bool:
        """Whether a sync takes longer still: large ones do, as of what compaction wrote."""
        return self.random.random() < (0.97 if any(file.path.endswith(CLEANED) for file in files) else 0.2)

    def _refuse(self) -> None:
        """Let the disk refuse something, soon."""
        reason = self.random.choice((IO_ERROR, IO_ERROR, NO_SPACE, TOO_MANY_FILES))
        self.disk.fail(self.random.randrange(MOST_OPERATIONS), reason, count=self.random.choice((1, 1, 3)))
        self._stir()

    def _end_soon(self) -> None:
        """Let the process, or the machine, end within the next operations of the disk."""
        self.disk.cut_soon(MOST_OPERATIONS, self.random)
        self._stir()

    def _stir(self) -> None:
        """Have its log change, above all at its end, perhaps while syncs take long."""
        acts = [self._write, self._commit, self._copy, self._copy, self._change_leaders, self._pass_time]
        if "delete" in self.policy:
            acts.append(self._leave_behind)
        self._syncs_are_slow = self.random.random() < 0.5
        for _ in range(16 if self._syncs_are_slow else 8):
            self.random.choice(acts)()
        self._syncs_are_slow = False

    def _stop(self) -> None:
        """Stop in order, and start again."""
        was_clean = self.broker.close()
        self.disk.kill()
        self.link.close()
        self._start(clean=was_clean)

    def _leave_and_return(self) -> None:
        """Have the controller move the replica to another broker, and back: it begins with nothing."""
        if self.random.random() < 0.5:
            self.disk.cut_soon(MOST_OPERATIONS, self.random)
        self._is_leaving = True
        self._tell_roles()
        self._stir()

    def _delete_replica(self) -> None:
        part = StopReplicaRequest.StopReplicaPartitionState(
            partition_index=0, leader_epoch=self.leader.leader_epoch, delete_partition=True
        )
        topic = StopReplicaRequest.StopReplicaTopicState(topic_name=TOPIC, partition_states=[part])
        stop = StopReplicaRequest(controller_id=CONTROLLER, controller_epoch=1, broker_epoch=BROKER_EPOCH, topic_states=[topic])
        for _ in range(MOST_REFUSALS):
            answer = self._ask(5, 4, stop)
            if answer is not None and not any(one.error_code for one in answer.partition_errors):
                self._is_leaving = False
                return

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except PowerCut:
            self._end()

    def _end(self) -> None:
        """End the process, or the machine, and start again, perhaps only to end again."""
        self.ends += 1
        self._syncs_are_slow = False
        self._note_durable()
        self._leave_process()
        is_kill = self.random.random() < 0.5
        self._tell("   killed" if is_kill else "   power cut")
        if is_kill:
            self.disk.kill()
        else:
            self.disk.crash(self.random)
            self._ran_on = False
        if self.random.random() < 0.3:
            self.disk.cut_soon(40, self.random)
        self._guarded(lambda: self._start(clean=False))

    def _leave_process(self) -> None:
        """Let nothing of the broker reach the disk any more, though its jobs end in their own ways."""
        self.link.close()
        self.disk.is_off = True
        while True:
            try:
                self.broker.scheduler.close()
                return
            except PowerCut:
                pass

    def _start(self, *, clean: bool) -> None:
        self.registry.entries = MemoryRegistry(self.registry.entries.tree)
        self.broker = BrokerMachine(
            settings=BrokerSettings.parse(SETTINGS | journal_settings(self.seed)),
            clock=self.clock,
            disk=self.disk,
            cluster=ClusterPorts(self.registry, self.link),
            node_id=FOLLOWER,
            cluster_id="simulated-cluster-id-0",
            random_bytes=self.random.randbytes,
        )
        self.disk.heal()  # a broker that cannot read its directory does not start
        self.broker.start(clean=clean, was_killed=self._ran_on)
        assert self.broker.replication is not None, "it is one of a cluster"
        self.broker.replication.manager.begin_registration(BROKER_EPOCH, self.clock.now())
        brokers = [
            UpdateMetadataRequest.UpdateMetadataBroker(
                id=node,
                endpoints=[UpdateMetadataRequest.UpdateMetadataEndpoint(port=9092, host=f"h{node}", listener="PLAINTEXT")],
            )
            for node in (FOLLOWER, LEADER)
        ]
        part = UpdateMetadataRequest.UpdateMetadataPartitionState(
            partition_index=0,
            controller_epoch=1,
            leader=LEADER,
            leader_epoch=self.leader.leader_epoch,
            isr=[LEADER],
            zk_version=0,
            replicas=[FOLLOWER, LEADER],
        )
        topic = UpdateMetadataRequest.UpdateMetadataTopicState(topic_name=TOPIC, topic_id=TOPIC_ID, partition_states=[part])
        told = UpdateMetadataRequest(
            live_brokers=brokers, controller_id=CONTROLLER, controller_epoch=1, broker_epoch=BROKER_EPOCH, topic_states=[topic]
        )
        self._ask(6, 8, told)
        self._tell_roles()
        self._ran_on |= self.broker.are_all_checked
        self._look_at_end()

    def _note_durable(self) -> None:
        found = self.broker.partitions.get(TOPIC, 0)
        if found is not None and found.offline is None and hasattr(found, "log"):  # not while it is opened
            log = found.log
            has_records = log.log_start_offset < log.durable_offset and not self._is_leaving
            self._durable_offset = log.durable_offset if has_records else 0

    def _look_at_end(self) -> None:
        """Raise `Violation` if the log lost what was durable. Nothing cuts it before its leader has answered."""
        found = self.broker.partitions.get(TOPIC, 0)
        if found is not None and found.offline is None and found.log.log_end_offset < self._durable_offset:
            raise Violation(f"keeps what is durable: it ends at {found.log.log_end_offset}, not at {self._durable_offset}")
        self._durable_offset = 0

    def _tell_roles(self) -> None:
        """Have the controller assign the role, after a deletion that it has no answer of."""
        returns = self._is_leaving
        if returns:
            self._delete_replica()
        if self._is_leaving:
            return
        state = LeaderAndIsrRequest.LeaderAndIsrPartitionState(
            partition_index=0,
            controller_epoch=1,
            leader=LEADER,
            leader_epoch=self.leader.leader_epoch,
            isr=[LEADER],
            partition_epoch=0,
            replicas=[FOLLOWER, LEADER],
        )
        topic = LeaderAndIsrRequest.LeaderAndIsrTopicState(topic_name=TOPIC, topic_id=TOPIC_ID, partition_states=[state])
        self._ask(
            4,
            7,
            LeaderAndIsrRequest(topic_states=[topic], controller_id=CONTROLLER, controller_epoch=1, broker_epoch=BROKER_EPOCH),
        )
        if returns and "compact" in self.policy:
            self.disk.heal()
            self.disk.cut_at = -1
            self._copy()
            self._turn(60_000)  # as at the very first start

    def _ask(self, key: int, version: int, body: Message) -> Any:
        """Send a request, and let it be served. Return the response; None if none came in time."""
        self._correlation_id += 1
        frame = memoryview(bytearray(b"".join(encode_request(FrameHeader(key, version, self._correlation_id, "life"), body))))[4:]
        answer = self.broker.receive(frame, Peer(1, "127.0.0.1", 50_000, "127.0.0.1", 9092), self.clock.now())
        self._run()
        for _ in range(100):
            if not isinstance(answer, DelayedReply) or answer.done:
                response = frame_of(answer.answer if isinstance(answer, DelayedReply) else answer)
                return None if response is None else decode_response(key, version, response)[1]
            self.broker.run_timers(self.clock.advance(10))
            self._run()
        return None

    # What must be true

    def _settle(self) -> None:
        """Let nothing disturb it for a while; then it has to have what its leader has."""
        self.disk.heal()
        self.disk.cut_at = -1
        for _ in range(3):
            self._online()
            self._be_quiet()
            if self.replica.offline is None:
                break  # or a sync had failed before
        self.settled += 1
        self.ledger.check(self.replica, self.disk, self.broker.cleaner.cleaned_offset(self.replica))

    def _be_quiet(self) -> None:
        if self.replica.offline is not None:
            raise Violation(f"stays online: {self.replica.offline}")
        log, leader = self.replica.log, self.leader
        for _ in range(QUIET_TURNS):
            is_there = log.log_end_offset == leader.end and log.leader_epoch == leader.epochs.at(leader.end - 1, -1)
            if is_there or self.replica.offline is not None:
                break
            self._turn(20)
        for _ in range(40 if "compact" in self.policy else 10):
            self._turn(50)

    def _online(self) -> None:
        """A disk that failed takes a replica offline, or keeps it from being deleted, until the broker starts again.

        Nothing else may do so.
        """
        found = self.broker.partitions.get(TOPIC, 0)
        if not self._is_leaving and found is not None and found.offline is None and not self.disk.has_failed_names:
            return
        self._leave_process()
        self.disk.kill()
        self._start(clean=False)
