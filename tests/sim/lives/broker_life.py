"""One seed of a broker that lives for weeks: busy hours, idle days, restarts, kills, power cuts, faults, jumping clocks.

All housekeeping is on at its default intervals. Everything comes from the seed. Beside what `broker_ledger`, `broker_groups` and
`broker_looks` name, a seed fails at once when, without a fault of the disk that was injected in this life of the broker,

partitions stay online   a partition is offline
nothing is told          an entry of level ERROR is logged; or a warning, by a start after an orderly stop
no error without a fault a request is answered with an error that its client did not bring about
stops are clean          an orderly stop says that it was none

and in any case when an exception escapes the broker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any, NamedTuple

from ottla.log.check.check import check_directory
from ottla.ports import RegistryDamaged, StorageFailed
from ottla.sim.disk import IO_ERROR, NO_SPACE, TOO_MANY_FILES
from ottla.sim.host import Host
from ottla.sim.world import World
from ottla.wire import errors as codes
from ottla.wire.api.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from ottla.wire.api.create_partitions import CreatePartitionsRequest
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.delete_records import DeleteRecordsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.sim.lives.broker_clients import SimClients, each
from tests.sim.lives.broker_groups import GROUPS, SimGroups
from tests.sim.lives.broker_ledger import DAY_MS, WEEK_MS, ObservedPartition
from tests.sim.lives.broker_looks import HousekeepingWatch, weight
from tests.sim.lives.broker_rot import BitRot, flip_in_journals, flip_in_registry
from tests.sim.lives.broker_topics import CHANGES, HOUR_MS, RequestedTopic, SimTopic, wanted
from tests.sim.lives.small_journals import journal_alignment, journal_settings
from tests.sim.seeds import Violation

ROT_WEIGHT = 0.7
"""How often a bit rots where disks have faults, beside other things that happen; writes have 30."""

CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS, ALTER_REPLICA_LOG_DIRS, CREATE_PARTITIONS, ALTER_CONFIGS = 19, 20, 21, 34, 37, 44
TOPIC_RESOURCE, SET = 2, 0
LOOK_MS = 6 * HOUR_MS
CALM_MS = HOUR_MS
MINUTE_MS = 60_000
NAMES = ("a", "b", "c", "d", "e")
SETTINGS = {"offsets.topic.num.partitions": "2", "offsets.topic.segment.bytes": str(1 << 20)}
MORE = 1.5
"""How much more than a fresh broker an old one may hold, and how many items on top, such as readers' positions."""
MORE_ITEMS = 3_000


class BrokerPlan(NamedTuple):
    """What a seed is about."""

    weeks: float
    faults: bool
    jumps: bool
    deaths: bool


class BrokerLifeResult(NamedTuple):
    """The result of a seed."""

    seed: int
    plan: BrokerPlan
    happened: int
    acknowledged: int
    commits: int
    lives: int
    faults: int


class LoggedEntries(logging.Handler):
    """Entries of the broker's log that a person would have to look at."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.errors: list[str] = []
        self.warnings: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        (self.errors if record.levelno >= logging.ERROR else self.warnings).append(record.getMessage())


class BrokerLife:
    """One seed. `topics` are the existing ones, by name."""

    def __init__(self, seed: int, *, weeks: float, tell: bool = False) -> None:
        self.world = World(seed)
        self.tell = tell
        random = self.world.random
        self.plan = BrokerPlan(weeks, faults=random.random() < 0.3, jumps=random.random() < 0.3, deaths=random.random() < 0.7)
        log_dirs = ("d2", "d3") if seed % 3 == 2 else ()
        settings = SETTINGS | journal_settings(seed)
        self.host = Host(self.world, settings, log_dirs=log_dirs, room_alignment=journal_alignment(seed))
        self.host.slow_syncs *= seed % 7 // 3 + 1
        self._rots, self._journal_rots = Random(seed), Random(~seed)
        """Of their own: what rots in the registry or in a journal changes nothing else of a seed."""
        self._entries = LoggedEntries()
        self.clients = SimClients(self.world, self.host, self._has_met_faults, self._entries.errors)
        self.groups = SimGroups(self.clients)
        self.topics: dict[str, SimTopic] = {}
        self._wanted: dict[str, RequestedTopic] = {}
        self._asked: set[str] = set()
        """Topics whose creation is not answered yet."""
        self._faults_before = 0
        self._suffers = False
        self._highest_wall_ms = self._highest_since_look_ms = self.world.clock.now().wall_ms
        self._began()

    def live(self) -> BrokerLifeResult:
        """Live the whole seed. Raises `Violation`, and whatever the broker raises."""
        world, random = self.world, self.world.random
        end_ms = int(self.plan.weeks * WEEK_MS)
        with self._listening():
            for _ in range(5):
                self._create()
            while world.now_ms < end_ms:
                for _ in range(random.randrange(3, 40)):
                    self._act()
                    self._pass(random.choice((10, 100, 1_000, 10_000, 60_000, 600_000)))
                self._look_closely()
                days = random.choice((0.05, 0.2, 0.5, 1, 1, 2, 4, 8))
                self._pass(min(int(days * DAY_MS), max(HOUR_MS, end_ms - world.now_ms)))
                self._look_closely()
            self._end()
        acknowledged, commits = self.clients.acknowledged, self.groups.commits
        return BrokerLifeResult(
            world.seed, self.plan, world.happened, acknowledged, commits, self.host.lives, self.host.disk.faults
        )

    # Time

    def _say(self, what: str) -> None:
        if self.tell:
            print(f"{self.world.now_ms / DAY_MS:9.5f} d  {what}")

    def _pass(self, ms: int) -> None:
        """Let time pass, and check the broker now and then."""
        while ms > 0:
            step = min(ms, LOOK_MS)
            self.world.run(step)
            ms -= step
            if self.host.broker is None:
                self._start()
            self._look()

    def _note_time(self) -> None:
        now_ms = self.world.clock.now().wall_ms
        self._highest_since_look_ms = max(self._highest_since_look_ms, now_ms)
        self._highest_wall_ms = max(self._highest_wall_ms, now_ms)

    # What happens

    def _act(self) -> None:
        acts: list[tuple[float, Callable[[], None]]] = [
            (30, self._write), (4, self._visit), (2, self._delete_records), (2, self._change), (1, self._create),
            (0.7, self._delete), (0.7, self._grow), (1, self._restart),
        ]  # fmt: skip
        if self.plan.deaths:
            acts.append((2, self._die))
        if self.plan.faults:
            acts += [(1.5, self._break), (0.7, self._lack_handles), (ROT_WEIGHT, self._rot)]
        if self.plan.jumps:
            acts.append((0.7, self._jump))
        if self.host.log_dirs:
            acts.append((3, self._move_replica))
        self.world.random.choices([act for _, act in acts], [weight for weight, _ in acts])[0]()

    def _some_topic(self) -> SimTopic | None:
        there = [topic for topic in self.topics.values() if not topic.is_leaving]
        return self.world.random.choice(there) if there else None

    def _write(self) -> None:
        """Write some batches, most of them to one partition."""
        topic = self._some_topic()
        if topic is None:
            return
        index = self.world.random.randrange(len(topic.pasts))
        for _ in range(self.world.random.randrange(1, 12)):
            if not topic.is_leaving:
                self.clients.write(topic, index)

    def _visit(self) -> None:
        topic = self._some_topic()
        if topic is not None:
            self.groups.visit(self.world.random.choice(GROUPS), topic)

    def _create(self) -> None:
        """Create a topic if a name is free, perhaps that of a deleted one."""
        left = [name for name in NAMES if name not in self.topics and name not in self._asked]
        if not left:
            return
        name = self.world.random.choice(left)
        one = self._wanted[name] = wanted(self.world.random)
        self._say(f"{name} is made: {one.partitions} partitions, {one.kind}")
        configs = [CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in one.configs.items()]
        topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=one.partitions, replication_factor=1, configs=configs)

        def answered(response: Any) -> None:
            self._asked.discard(name)
            if response is not None:
                self.clients.check(response.topics[0].error_code, f"CreateTopics of {name}")
                self._compare_topics()

        self._asked.add(name)
        self.clients.ask(CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic], timeout_ms=60_000), answered)

    def _delete(self) -> None:
        topic = self._some_topic()
        if topic is None:
            return
        self._say(f"{topic.name} is deleted")
        topic.is_leaving = True

        def answered(response: Any) -> None:
            if response is not None and self.clients.check(response.responses[0].error_code, f"DeleteTopics of {topic.name}"):
                self._compare_topics()

        self.clients.ask(DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=[topic.name], timeout_ms=60_000), answered)
        if self.world.chance(0.5):
            self._create()

    def _grow(self) -> None:
        topic = self._some_topic()
        if topic is None or len(topic.pasts) > 3:
            return
        count = len(topic.pasts) + 1
        self._say(f"{topic.name} shall have {count} partitions")
        wish = CreatePartitionsRequest.CreatePartitionsTopic(name=topic.name, count=count, assignments=None)

        def answered(response: Any) -> None:
            if response is not None:
                self.clients.check(response.results[0].error_code, f"CreatePartitions of {topic.name}")
                self._compare_topics()

        self.clients.ask(CREATE_PARTITIONS, 3, CreatePartitionsRequest(topics=[wish], timeout_ms=60_000), answered)

    def _delete_records(self) -> None:
        topic = self._some_topic()
        if topic is None or not topic.rules.deletes:
            return
        index = self.world.random.randrange(len(topic.pasts))
        past = topic.pasts[index]
        offset = self.world.random.choice((past.end, self.world.random.randrange(past.start, past.end + 1)))
        self._say(f"records of {past.name} below {offset} are deleted")
        past.delete(offset)

        def answered(response: Any) -> None:
            if response is None:
                return
            error_code = response.topics[0].partitions[0].error_code
            expected = (codes.UNKNOWN_TOPIC_OR_PARTITION,) if topic.is_leaving else ()
            if self.clients.check(error_code, f"DeleteRecords of {past.name}", *expected):
                past.has_deleted(offset)

        part = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=index, offset=offset)
        wish = DeleteRecordsRequest.DeleteRecordsTopic(name=topic.name, partitions=[part])
        self.clients.ask(DELETE_RECORDS, 2, DeleteRecordsRequest(topics=[wish], timeout_ms=60_000), answered)

    def _move_replica(self) -> None:
        """Move a replica to a log directory, perhaps the one in which it is, or end its move so."""
        topic, broker = self._some_topic(), self.host.broker
        if topic is None or broker is None:
            return
        index, directories = self.world.random.randrange(len(topic.pasts)), broker.log_directories
        path = directories.name_of(self.world.random.choice(directories.paths))
        self._say(f"{topic.name}-{index} moves to {path}")

        def answered(response: Any) -> None:
            if response is not None:
                expected = (codes.UNKNOWN_TOPIC_OR_PARTITION,) if topic.is_leaving else ()
                self.clients.check(response.results[0].partitions[0].error_code, f"AlterReplicaLogDirs of {topic.name}", *expected)

        wish = AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name=topic.name, partitions=[index])
        there = AlterReplicaLogDirsRequest.AlterReplicaLogDir(path=path, topics=[wish])
        self.clients.ask(ALTER_REPLICA_LOG_DIRS, 2, AlterReplicaLogDirsRequest(dirs=[there]), answered)

    def _change(self) -> None:
        """Change another setting of a topic, its cleanup policy included."""
        topic = self._some_topic()
        if topic is None:
            return
        random = self.world.random
        name, values = random.choice(CHANGES)
        value = random.choice(values)
        self._say(f"{topic.name} has {name}={value}")
        topic.configure(name, value)

        def answered(response: Any) -> None:
            if response is not None:
                self.clients.check(response.responses[0].error_code, f"IncrementalAlterConfigs of {topic.name}")
            self._disturb()

        config = IncrementalAlterConfigsRequest.AlterableConfig(name=name, config_operation=SET, value=value)
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=topic.name, configs=[config]
        )
        self.clients.ask(ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest(resources=[resource]), answered)

    # What befalls the broker

    def _restart(self) -> None:
        """Stop in order, and start after a while."""
        if self.host.broker is None:
            return
        self._look()
        self._say("the broker is stopped")
        self._stop()
        self.world.run(self.world.random.choice((0, 1_000, MINUTE_MS, DAY_MS)))
        if self.host.broker is None and self.plan.faults and self._rots.random() < 0.3:
            self._start_on_rot()
        self._start()

    def _stop(self) -> None:
        if not self.host.stop() and not self._has_met_faults():
            raise Violation(f"stops are clean: it was not; {self._entries.errors[:3]}")
        if self.host.was_clean:
            for topic in self.topics.values():
                for past in topic.pasts:
                    past.keep_all(past.end)

    def _die(self) -> None:
        """Kill the process or cut the power: at once, or in the middle of some work."""
        random = self.world.random
        self._look()
        self.host.cuts_power = random.random() < 0.6
        self._say(f"the broker will die{' of a power cut' if self.host.cuts_power else ''}")
        if random.random() < 0.7:
            self.host.disk.cut_soon(random.choice((10, 100)), random)
            for _ in range(random.randrange(1, 4)):
                if self.host.broker is not None:
                    random.choice((self._write, self._write, self._visit, self._delete, self._create, self._delete_records))()
                    self.world.run(random.choice((1, 100, 10 * MINUTE_MS)))
        if self.host.broker is not None:
            self.host.die(power_cut=self.host.cuts_power)
        self.world.run(random.choice((0, 1_000, MINUTE_MS, DAY_MS)))
        self._start()

    def _break(self) -> None:
        """Let the disk fail once or for a while; then restart the broker, as its log asks for."""
        random = self.world.random
        self._look()
        disk = self.host.disk
        reason = random.choice((IO_ERROR, NO_SPACE))
        self._say(f"the disk fails: {reason}")
        disk.fail(random.randrange(30), reason, count=random.choice((1, 1, 3, 50)))
        for _ in range(random.randrange(1, 5)):
            random.choice((self._write, self._write, self._visit, self._delete, self._create, self._delete_records))()
            self.world.run(random.choice((1, 100, 10 * MINUTE_MS, HOUR_MS)))
        disk.heal()
        if not self._has_met_faults():
            return
        self._say("the disk is well again")
        self.world.run(random.choice((1, 10 * MINUTE_MS, DAY_MS)))
        if self.host.broker is not None and random.random() < 0.5:
            self._stop()
        elif self.host.broker is not None:
            self.host.cuts_power = random.random() < 0.5
            self.host.die(power_cut=self.host.cuts_power)
        self._start()

    def _lack_handles(self) -> None:
        """Let the process lack file handles for a while, perhaps while it starts. Afterwards all goes on without a restart."""
        random = self.world.random
        self._look()
        self._say("there are no file handles")
        self._suffers = True
        if random.random() < 0.5:
            self._stop()
            self.host.disk.fail(random.randrange(4, 100), TOO_MANY_FILES, count=random.choice((1, 3, 50)))
            try:
                self._start()
            except StorageFailed:  # whatever supervises it starts it again
                self.host.disk.heal()
                self._start()
        else:
            self.host.disk.lacks_handles = True
            for _ in range(random.randrange(1, 5)):
                random.choice((self._write, self._write, self._visit, self._delete, self._create))()
                self.world.run(random.choice((1, 100, 10 * MINUTE_MS)))
            self.host.disk.lacks_handles = False
        self.host.disk.heal()
        self._say("there are file handles again")
        self.world.run(10 * MINUTE_MS)
        self._entries.errors.clear()
        self._faults_before, self._suffers = self.host.disk.faults, False
        self._look_closely()

    def _rot(self) -> None:
        """Let a bit rot of what is on stable storage; after a while somebody puts it right, and starts the broker again.

        The broker is also started when the bit is wrong: what it has read before is in memory, and not read again.
        """
        self._restart()
        random, topic = self.world.random, self._some_topic()
        if topic is None or self.host.broker is None:
            return
        index = random.randrange(len(topic.pasts))
        rot = BitRot(self.host, topic, index, lambda: self._entries.errors + self._entries.warnings)
        path = rot.begin()
        if path is None:
            return
        self._say(f"a bit of {path} rots")
        self._suffers = True
        self._end_life()
        self._start()
        for ms in (random.choice((1, HOUR_MS)), random.choice((1, DAY_MS))):
            rot.look(self.topics.values())
            self.world.run(ms)
        rot.look(self.topics.values())
        rot.end()
        self._say("the bit is right again")
        self._end_life()
        self._suffers = False
        self._start()

    def _start_on_rot(self) -> None:
        """Start after a bit of the registry has rotted, which the start mends."""
        path = flip_in_registry(self.host.disk, self._rots)
        flipped = f"nothing rots unseen: a bit of {path} was flipped"
        self._say(f"a bit of {path} rots")
        self._suffers = True
        try:
            self._start()
        except RegistryDamaged as refused:
            raise Violation(f"{flipped}, and the start does not mend it: {refused}") from refused
        if not any(path in entry for entry in self._entries.warnings):
            raise Violation(f"{flipped}, and the start says nothing of it")
        self._suffers = False
        self._look_closely()

    def _end_life(self) -> None:
        """Stop the broker, or kill it."""
        if self.world.chance(0.5):
            self._stop()
        else:
            self.host.die(power_cut=False)

    def _jump(self) -> None:
        ms = self.world.random.choice((-DAY_MS, -HOUR_MS, HOUR_MS, DAY_MS, WEEK_MS))
        self._say(f"the clock jumps by {ms} ms")
        self._look()
        self.world.clock.jump(ms)
        self.groups.clock_jumped()
        self._disturb()
        self._note_time()

    def _start(self) -> None:
        """Start the broker; it has met no fault in this life yet."""
        if self.host.broker is not None:
            return
        was_clean = self.host.was_clean
        if self.plan.faults and not self._has_met_faults() and self.host.ran_on:
            flip_in_journals(self.host.disk, self.host.log_dirs, self._journal_rots)
        if self.host.was_power_cut:
            self.clients.lost_power()
            for topic in self.topics.values():
                for past in topic.pasts:
                    past.lost_power()
        self._say("the broker starts")
        self._entries.errors.clear()
        self._entries.warnings.clear()
        self.host.start()
        if was_clean and self._entries.warnings and not self._has_met_faults():
            raise Violation(f"nothing is told: after an orderly stop a start said {self._entries.warnings[0]!r}")
        self._look_at_ends()
        self._began()
        self.groups.broker_started()
        self._compare_topics()
        self._look()
        self.clients.send_again()
        self._look_closely()

    def _look_at_ends(self) -> None:
        """Check after a start that each log has what was durable at the last power cut."""
        durable, self.host.durable = self.host.durable, {}
        for partition in self.host.broker.partitions if self.host.broker is not None else ():
            end = durable.get((partition.topic_id, partition.index), 0)
            if partition.offline is None and partition.log.log_end_offset < end:
                raise Violation(f"nothing is lost: {partition} ends at {partition.log.log_end_offset}, and was durable up to {end}")

    def _began(self) -> None:
        assert self.host.broker is not None, "it has just begun"
        self._faults_before = self.host.disk.faults
        self._looks = HousekeepingWatch(self.host.broker, self.host.disk)
        self._disturb()

    def _disturb(self) -> None:
        self._looks.disturb(self.world.clock.now())

    def _has_met_faults(self) -> bool:
        """Whether the disk failed in this life, or a bit of it is wrong: the broker may log it then, and go offline."""
        return self._suffers or self.host.disk.faults > self._faults_before

    # What must be true

    def _look(self) -> None:
        """Check, after everything that happens, what can be seen at little cost."""
        self._note_time()
        broker = self.host.broker
        if broker is None:
            return
        if self._has_met_faults():
            self._disturb()
            return
        if self._entries.errors:
            raise Violation(f"nothing is told: {self._entries.errors[0]}")
        offline = [f"{partition} ({partition.offline})" for partition in broker.partitions if partition.offline is not None]
        if offline:
            raise Violation(f"partitions stay online: {', '.join(offline)}")
        for topic, index in each(self.topics.values()):
            found = broker.partitions.get(topic.name, index)
            if found is not None and found.topic_id == topic.topic_id:
                log = found.log
                seen = ObservedPartition(log.log_start_offset, log.log_end_offset, log.size_bytes, self._highest_since_look_ms)
                topic.pasts[index].look(seen)
        self._looks.look(self.world.clock.now())
        self._highest_since_look_ms = self.world.clock.now().wall_ms

    def _look_closely(self) -> None:
        """Read everything: records, and what groups have committed."""
        self._look()
        if self.host.broker is None or self._has_met_faults():
            return
        there = [topic for topic in self.topics.values() if not topic.is_leaving]
        for topic, index in each(there):
            self.clients.read(topic, index, partial(topic.pasts[index].read, highest_wall_ms=self._highest_wall_ms))
        self.groups.read(there, self._highest_wall_ms, is_calm=self._looks.is_calm(self.world.clock.now(), CALM_MS))

    def _compare_topics(self) -> None:
        """Check that the existing topics are those created and not deleted since."""
        broker = self.host.broker
        if broker is None:
            return
        for name, topic in list(self.topics.items()):
            image = broker.image.topics.get(name)
            if image is None or image.topic_id != topic.topic_id:
                if not topic.is_leaving:
                    raise Violation(f"nothing is lost: topic {name} is no more, and nobody deleted it")
                del self.topics[name]
                self.groups.forget(topic)
                self.clients.forget(topic)
            else:
                topic.grow(len(image.partitions))
        for name, one in list(self._wanted.items()):
            image = broker.image.topics.get(name)
            if image is not None and name not in self.topics:
                self.topics[name] = SimTopic(name, one.kind, image.topic_id, one.partitions, one.configs)
                del self._wanted[name]

    def _end(self) -> None:
        """Pass two calm hours, stop in order, and compare a fresh start with what was before."""
        self._say("the end")
        self._pass(2 * HOUR_MS)
        broker = self.host.broker
        assert broker is not None, "nothing ended it"
        old = weight(broker)
        self._stop()
        findings = [str(finding) for finding in check_directory(self.host.disk, self.host.log_dirs)]
        if findings:
            raise Violation(f"nothing is lost: the stopped broker's directory is not sound: {findings[:3]}")
        self._start()
        fresh = weight(self.host.broker) if self.host.broker is not None else 0
        if old > MORE * fresh + MORE_ITEMS:
            raise Violation(f"memory is bounded: the broker held {old} items, and a fresh one holds {fresh}")

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Capture the broker's log, even where logging is disabled otherwise; it is shown only when this seed is told."""
        logger, disabled = logging.getLogger("ottla"), logging.root.manager.disable
        logging.disable(min(disabled, logging.INFO))
        propagated, logger.propagate = logger.propagate, self.tell
        logger.addHandler(self._entries)
        try:
            yield
        finally:
            logger.removeHandler(self._entries)
            logger.propagate = propagated
            logging.disable(disabled)


def escaped(failure: Exception) -> str:
    """Return the sentence for a violation, or for an exception that is none."""
    if isinstance(failure, Violation):
        return str(failure)
    kind = "an expected failure" if isinstance(failure, StorageFailed) else "an exception"
    return f"nothing escapes: {kind} did: {type(failure).__name__}: {failure}"
