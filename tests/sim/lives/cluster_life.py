"""One seed of a cluster: brokers, producers and readers live through trouble, then peace; then everything is checked.

Everything comes from the seed. Knows how bad it gets and when all must be well again; `cluster_ledger` knows what must be true.
Brokers are killed, lose power, stand still, lose their sessions and each other; the registry loses its quorum. Power fails only
where another in-sync replica of each partition lives, and who lost it comes back when the controller has noticed: of what is
acknowledged `ottla.acks.all.sync` promises that it is on stable storage of the leader, and no more. In some worlds each record is
flushed (`flush.messages`) before it counts: there power fails at any time, also everywhere at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from random import Random
from typing import Any, NamedTuple

from ottla.broker.partitions.partition import Partition
from ottla.client.types import TopicPartition
from ottla.cluster.controller_rules import entries
from ottla.ports import Change
from ottla.sim.cluster_host import PROTOCOL, ClusterHost
from ottla.sim.ensemble import SimEnsemble
from ottla.sim.links import LinkFaults, SimNetwork
from ottla.sim.network import NetworkFaults
from ottla.sim.process import MOST_DRIFT
from ottla.sim.shared_registry import REGISTRY, RegistryFaults
from ottla.sim.world import World
from tests.sim.lives import cluster_copying, cluster_groups
from tests.sim.lives.cluster_agreement import ClusterAgreement
from tests.sim.lives.cluster_clients import RESTS_MS, SimAppender, SimFollowingReader
from tests.sim.lives.cluster_copying import ClusterCopying, CopyingPlan, copying_plan
from tests.sim.lives.cluster_faults import CRUMBS, ClusterFaults, FaultsPlan, Losing, faults_plan
from tests.sim.lives.cluster_groups import ClusterGroups, GroupsPlan, groups_plan
from tests.sim.lives.cluster_ledger import ClusterLedger
from tests.sim.lives.cluster_links import RoutedLink
from tests.sim.lives.cluster_losses import ClusterLosses
from tests.sim.lives.cluster_operator import ClusterOperator, OperatorLink
from tests.sim.lives.cluster_view import ClusterView
from tests.sim.lives.cluster_work import ClusterAround, ClusterWork
from tests.sim.lives.given_ids import GivenIds
from tests.sim.lives.small_journals import journal_alignment, journal_settings
from tests.sim.seeds import Violation

TOPIC = "log"
REPLICAS = 3
MOST_BROKERS = 5
LOOK_MS = 500
QUESTION_MS = 50
"""So often it is asked in peace whether all is well."""
SESSION_MS = 3_000
START_MS = 20_000
"""So long may it take until there is a controller and the topic has leaders; nothing has gone wrong until then."""
PATIENCE_MS = 90_000
"""So long, in simulated time and in peace, may it take until all is well: sessions and timeouts pass several times."""
OPERATED = 0.5
"""How many seeds have an operator."""
STEADY = 0.3
"""In how many seeds records are written all through the trouble. In the others most are there after its first seconds."""
SETTINGS = {
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.wait.max.ms": "300",
    "replica.socket.timeout.ms": "3000",
    "controller.socket.timeout.ms": "3000",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "2",
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
    "auto.create.topics.enable": "false",
    "log.segment.delete.delay.ms": "1000",
    "log.message.timestamp.after.max.ms": str((1 << 63) - 1),
    "group.initial.rebalance.delay.ms": "0",
    **cluster_copying.SETTINGS,
    **cluster_groups.SETTINGS,
}
COPYING, GROUPS = 0.15, 0.25
"""How many seeds have programs with transactions, and how many have groups."""


FLUSHED_EACH, FLUSHED_FIRST = 10, 4
"""In every tenth world, from this one on, each record is flushed."""
FLUSHED = {"log.flush.interval.messages": "1"}


class ClusterPlan(NamedTuple):
    """What a seed is about. `calm` ones have only brokers that are killed and stopped; `flushed` ones lose all power at once."""

    brokers: int
    partitions: int
    appenders: int
    batches: int
    rests_ms: tuple[int, ...]
    trouble_ms: int
    calm: bool
    drifts: bool
    power: bool
    cuts: bool
    flushed: bool
    link_faults: NetworkFaults
    links: LinkFaults
    registry: RegistryFaults
    faults: FaultsPlan
    is_operated: bool
    copying: CopyingPlan | None
    groups: GroupsPlan | None


class ClusterLifeResult(NamedTuple):
    """The result of a seed."""

    seed: int
    plan: ClusterPlan
    happened: int
    frames: int
    lives: int
    acknowledged: int
    controllers: int
    healed_ms: int


def plan(world: World) -> ClusterPlan:
    """What a seed is about: each has its own share of bad luck."""
    random = world.random
    calm = random.random() < 0.2
    more = Random(f"{world.seed} work")
    copying = copying_plan(more) if more.random() < COPYING else None
    groups = groups_plan(more) if more.random() < GROUPS else None
    bad = 0.0 if calm else random.choice((0.0, 0.02, 0.1))
    brokers, partitions, appenders = random.choice((3, 3, 3, 4, MOST_BROKERS)), random.choice((1, 2, 4)), random.choice((1, 2, 4))
    batches, trouble_ms = random.choice((10, 30)), random.choice((10_000, 30_000, 60_000))
    is_steady = Random(f"rests {world.seed}").random() < STEADY
    return ClusterPlan(
        brokers=brokers,
        partitions=partitions,
        appenders=appenders,
        batches=batches,
        rests_ms=(0, trouble_ms // batches, 2 * trouble_ms // batches) if is_steady else RESTS_MS,
        trouble_ms=trouble_ms,
        calm=calm,
        drifts=not calm and random.random() < 0.5,
        power=not calm and random.random() < 0.5,
        cuts=not calm and random.random() < 0.7,
        flushed=world.seed % FLUSHED_EACH == FLUSHED_FIRST,
        link_faults=NetworkFaults(lose_request=bad, lose_answer=bad, repeat=0.0, delay=bad, longest_ms=2_000),
        links=LinkFaults(longest_ms=1_500, delay=bad, lose=bad / 4),
        registry=RegistryFaults(longest_ms=800, delay=bad, lose_answer=bad / 4),
        faults=faults_plan(Random(f"faults {world.seed}"), calm=calm, has_features=copying is not None or groups is not None),
        is_operated=Random(f"operator {world.seed}").random() < OPERATED,
        copying=copying,
        groups=groups,
    )


class ClusterLife:
    """One seed."""

    def __init__(self, seed: int, *, tell: bool = False) -> None:
        self.world = World(seed)
        self.tell = tell
        self.plan = plan(self.world)
        self.ensemble = SimEnsemble(self.world, timeout_ms=SESSION_MS)
        self.network = SimNetwork(self.world)
        self.hosts = {node_id: self._host(node_id) for node_id in range(1, self.plan.brokers + 1)}
        self.ledger = ClusterLedger(self.hosts, ignored=("__consumer_offsets", "__transaction_state"))
        self.agreement = ClusterAgreement(self.ensemble, self.hosts, self.ledger.loses)
        self.ledger.on_acknowledged.append(self.agreement.acknowledges)
        self.places = [TopicPartition(TOPIC, index) for index in range(self.plan.partitions)]
        self.written = list(self.places)
        self._numbers = count(1)
        self._is_over = False
        self._next_question_ms = 0
        self._other_places: list[TopicPartition] = []
        self._lost_power: set[int] = set()
        self._hears_in_order = not self.plan.links.delay and not self.plan.links.lose
        self._leaving: set[int] = set()
        self.view = ClusterView(self.world, self.hosts, self.ensemble)
        self.works = self._works()
        self.ids = GivenIds()
        losing = Losing(self._may_lose_power, self._lost_power, self._start)
        self.faults = ClusterFaults(self.world, self.hosts, self.ensemble, self.plan.faults, losing, self._say)
        self.losses = ClusterLosses(self.world, self.hosts, self.ensemble, self.network, losing, self._say)
        self.operator: ClusterOperator | None = None
        self.appenders: list[SimAppender] = []
        self.readers: list[SimFollowingReader] = []

    def _works(self) -> list[ClusterWork]:
        works: list[ClusterWork] = []
        if self.plan.copying is not None:
            works.append(ClusterCopying(self.plan.copying))
        if self.plan.groups is not None:
            works.append(ClusterGroups(self.plan.groups))
        return works

    def _host(self, node_id: int) -> ClusterHost:
        drift = self.world.random.uniform(-MOST_DRIFT, MOST_DRIFT) if self.plan.drifts else 0.0
        versions = self.plan.faults.versions
        settings = SETTINGS | (FLUSHED if self.plan.flushed else {}) | (CRUMBS if self.plan.faults.crumbs else {})
        settings |= {} if versions is None else {PROTOCOL: versions[0]}
        seed = self.world.seed * MOST_BROKERS + node_id
        settings |= journal_settings(seed)
        alignment = journal_alignment(seed)
        return ClusterHost(self.world, settings, node_id, self.ensemble, self.network, drift=drift, room_alignment=alignment)

    def live(self) -> ClusterLifeResult:
        """Live through trouble, then peace. Raises `Violation`."""
        self._make_topics()
        self._begin_works()
        self.network.faults = self.plan.links
        for host in self.hosts.values():
            host.set_faults(self.plan.registry)
        self._begin_clients()
        self.world.after(0, self._trouble)
        self.world.after(LOOK_MS, self._look)
        self.world.run(self.plan.trouble_ms)
        self._make_peace()
        began_ms = self.world.now_ms
        if not self.world.run(PATIENCE_MS, self._is_well):
            raise Violation(f"heals: not in {PATIENCE_MS} ms of peace: {self._what_is_not_well()}")
        healed_ms = self.world.now_ms - began_ms
        self._end_works()
        self.world.run(2_000)
        if not self.world.run(PATIENCE_MS, self._is_well):
            raise Violation(f"heals: not in {PATIENCE_MS} ms of peace, again: {self._what_is_not_well()}")
        self._check_all()
        epoch = self.ensemble.get("/controller_epoch")
        return ClusterLifeResult(
            self.world.seed,
            self.plan,
            self.world.happened,
            self.network.frames,
            sum(host.lives for host in self.hosts.values()),
            self.ledger.acknowledged,
            int(epoch.value) if epoch else 0,
            healed_ms,
        )

    def _say(self, what: str) -> None:
        if self.tell:
            print(f"{self.world.now_ms / 1000:9.3f} s  {what}")

    def _link(self, link_faults: NetworkFaults | None = None) -> RoutedLink:
        return RoutedLink(self.world, self.hosts, link_faults or self.plan.link_faults, self._numbers)

    # Before it begins

    def _make_topics(self) -> None:
        """Make the topics, as older tools do in the registry, and wait for leaders of their partitions."""
        self.world.run(3_000)
        self._make_topic(TOPIC, self.plan.partitions)
        for work in self.works:
            for topic, count_of_partitions in work.topics.items():
                self._make_topic(topic, count_of_partitions)
                self._other_places += [TopicPartition(topic, index) for index in range(count_of_partitions)]
        if not self.world.run(START_MS, self._is_led):
            raise Violation(f"heals: no leaders in {START_MS} ms after the topics were made")

    def _make_topic(self, topic: str, partitions: int) -> None:
        nodes = sorted(self.hosts)
        replicas = {str(at): [nodes[(at + number) % len(nodes)] for number in range(REPLICAS)] for at in range(partitions)}
        self.ensemble.put(Change(f"/brokers/topics/{topic}", json.dumps({"version": 1, "partitions": replicas}).encode()))

    def _begin_works(self) -> None:
        ids: dict[str, bytes] = {}
        for name in self.ensemble.children("/brokers/topics"):  # not of a broker: it may not have heard of all yet
            entry = self.ensemble.get(f"/brokers/topics/{name}")
            topic_id = None if entry is None else entries.topic(entry).topic_id
            if topic_id is not None:
                ids[name] = topic_id
        for work in self.works:
            work.begin(ClusterAround(self.world, self.view, self._link, self.plan.link_faults, ids, self.ids, self._say))

    def _begin_clients(self) -> None:
        for number in range(self.plan.appenders):
            is_idempotent = self.world.chance(0.7)
            self.appenders.append(
                SimAppender(
                    self.world,
                    f"appender-{number}",
                    self._link,
                    self.ledger,
                    self.written,
                    self.ids,
                    most=self.plan.batches,
                    is_idempotent=is_idempotent,
                    rests_ms=self.plan.rests_ms,
                )
            )
        for place in self.places:
            self._read(place)
        if self.plan.is_operated:
            connect = partial(OperatorLink, self.world, self.hosts, self.plan.link_faults, self._numbers)
            self.operator = ClusterOperator(
                self.world, connect, self.hosts, self.ensemble, self.ledger, self.places, self._grown, self._say
            )

    def _read(self, place: TopicPartition) -> None:
        self.readers.append(SimFollowingReader(self.world, self._link, place, partial(self.ledger.deleted, place)))

    def _grown(self, place: TopicPartition, *, loses: bool) -> None:
        """The operator has a partition more: somebody writes there, and others read."""
        self.places.append(place)
        if not loses:
            self._read(place)
        if place.topic == TOPIC:
            self.written.append(place)
        else:
            self.appenders.append(
                SimAppender(
                    self.world,
                    f"appender-{len(self.appenders)}",
                    self._link,
                    self.ledger,
                    [place],
                    self.ids,
                    most=self.world.random.choice((3, 10)),
                    is_idempotent=not loses and self.world.chance(0.5),
                    gives_up=partial(self._is_leaving, place.topic),
                )
            )

    def _is_leaving(self, topic: str) -> bool:
        return self.operator is not None and self.operator.is_leaving(topic)

    # Trouble

    def _trouble(self) -> None:
        if self._is_over:
            return
        self.world.after(self.world.random.randrange(500, 6_000), self._trouble)
        if (
            self._lost_power or self.losses.is_under_way
        ):  # until it is noticed everywhere, others are all that is left of what was not on stable storage
            return
        acts: list[tuple[float, Callable[[], None]]] = [(3, self._kill), (2, self._stop)]
        if not self.plan.calm:
            acts += [(3, self._stand_still), (2, self._expire), (2, self._lose_session_connection), (1, self._lose_quorum)]
        if self.plan.cuts:
            acts += [(4, self._cut), (2, self._cut_from_registry)]
        if self.plan.flushed:
            acts += [(3, self._cut_any_power), (2, self._cut_all_power)]
        elif self.plan.power:
            acts.append((3, self._cut_power))
        acts += self.faults.acts()
        acts += self.losses.acts(wipes=self.plan.faults.wipes, storms=self.plan.faults.storms)
        acts += [act for work in self.works for act in work.acts()]
        self.world.random.choices([act for _, act in acts], [weight for weight, _ in acts])[0]()

    def _somebody(self) -> ClusterHost | None:
        up = [host for host in self.hosts.values() if host.broker is not None]
        return self.world.random.choice(up) if up else None

    def _kill(self) -> None:
        host = self._somebody()
        if host is not None:
            self._say(f"{host.name} is killed")
            host.die(power_cut=False)
            self.world.after(self.world.random.choice((100, 1_000, 5_000, 12_000)), partial(self._start, host))

    def _stop(self) -> None:
        host = self._somebody()
        if host is not None:
            self._say(f"{host.name} stops")
            ms = self.world.random.choice((100, 1_000, 5_000))
            self._leaving.add(host.node_id)
            host.leave(lambda: self._has_left(host, ms))

    def _has_left(self, host: ClusterHost, ms: int) -> None:
        self._leaving.discard(host.node_id)
        if host.broker is None:
            self.world.after(ms, partial(self._start, host))

    def _cut_power(self) -> None:
        host = self._somebody()
        if host is None or not self._may_lose_power(host):
            return
        self._say(f"the power of {host.name} fails")
        self._lost_power.add(host.node_id)
        host.die(power_cut=True)
        self.world.after(1_000, partial(self._start, host))

    def _cut_any_power(self) -> None:
        host = self._somebody()
        if host is not None:
            self._lose_power(host)

    def _cut_all_power(self) -> None:
        for host in self.hosts.values():
            if host.broker is not None:
                self._lose_power(host)

    def _lose_power(self, host: ClusterHost) -> None:
        self._say(f"the power of {host.name} fails")
        host.die(power_cut=True)
        self.world.after(self.world.random.choice((100, 1_000, 5_000, 12_000)), partial(self._start, host))

    def _may_lose_power(self, host: ClusterHost) -> bool:
        """Whether others have all that it has, and go on until it is out of the in-sync sets."""
        if self._leaving or any(not each.is_member or each.process.is_paused for each in self.hosts.values()):
            return False
        if len(self.ensemble.children("/brokers/ids")) < len(self.hosts):
            return False
        self.network.cuts.heal_all()
        for topic, index, state in self.losses.states():
            others = [node for node in state["isr"] if node != host.node_id and self._has_role(node, topic, index, state)]
            if host.node_id in state["isr"] and not others:
                return False
        return True

    def _has_role(self, node_id: int, topic: str, index: str, state: Any) -> bool:
        """Whether a broker leads or follows as the registry says: the controller knows this life of it, and has told it."""
        broker = self.hosts[node_id].broker
        held = None if broker is None else broker.partitions.get(topic, int(index))
        return (
            held is not None and held.offline is None and held.replicas is not None and held.leader_epoch == state["leader_epoch"]
        )

    def _start(self, host: ClusterHost) -> None:
        """Begin its next life, as soon as nobody counts on what it has lost."""
        if host.broker is not None:
            return
        if host.node_id in self._lost_power:
            leaving = self.ensemble.children("/admin/delete_topics")
            if any(host.node_id in state["isr"] and topic not in leaving for topic, _, state in self.losses.states()):
                self.world.after(500, partial(self._start, host))
                return
            self._lost_power.discard(host.node_id)
        self._say(f"{host.name} starts")
        self.faults.starts(host)
        host.start()

    def _stand_still(self) -> None:
        host = self._somebody()
        if host is not None:
            ms = self.world.random.choice((200, 1_000, 3_000, 8_000))
            self._say(f"{host.name} stands still for {ms} ms")
            host.pause(ms)

    def _expire(self) -> None:
        host = self._somebody()
        if host is not None:
            self._say(f"the session of {host.name} expires")
            host.session.expire()

    def _lose_session_connection(self) -> None:
        host = self._somebody()
        if host is not None:
            self._say(f"{host.name} loses its connection to the registry")
            host.session.lose_connection()

    def _lose_quorum(self) -> None:
        ms = self.world.random.choice((500, 2_000, 6_000))
        self._say(f"the registry has no quorum for {ms} ms")
        self.ensemble.is_down = True
        self.world.after(ms, self.ensemble.restore_quorum)

    def _cut(self) -> None:
        one, other = self.world.random.sample(sorted(self.hosts), 2)
        self._cut_for_a_while(self.hosts[one].name, self.hosts[other].name)

    def _cut_from_registry(self) -> None:
        self._cut_for_a_while(self.hosts[self.world.random.choice(sorted(self.hosts))].name, REGISTRY)

    def _cut_for_a_while(self, one: str, other: str) -> None:
        both = self.world.chance(0.5)
        ms = self.world.random.choice((500, 2_000, 6_000, 12_000))
        self._say(f"{one} and {other} are cut{'' if both else ' one way'} for {ms} ms")
        self.network.cuts.cut(one, other, both=both)
        self.world.after(ms, lambda: self.network.cuts.heal(one, other))

    # Peace

    def _make_peace(self) -> None:
        self._is_over = True
        self._say("peace")
        self.network.cuts.heal_all()
        if self.operator is not None:
            self.operator.tidy()
        for link_faults in (self.plan.link_faults, self.plan.links, self.plan.registry):
            link_faults.clear_up()
        if self.ensemble.is_down:
            self.ensemble.restore_quorum()
        self.faults.make_peace()
        for host in self.hosts.values():
            self._start(host)
        for appender in self.appenders:
            appender.hurry()
        for work in self.works:
            work.go_on()

    def _end_works(self) -> None:
        """Wait until the work is done, and look whether it was done well."""
        for work in self.works:
            is_done = self.world.run(PATIENCE_MS, partial(self._is_done, work))
            if not is_done and work.insist():
                is_done = self.world.run(PATIENCE_MS, partial(self._is_done, work))
            if not is_done:
                raise Violation(f"soon done: not in {PATIENCE_MS} ms of peace: {', '.join(work.undone())}")
        for work in self.works:
            work.check()

    def _is_done(self, work: ClusterWork) -> bool:
        return self.world.happened % 20 == 0 and not work.undone()

    def _look(self) -> None:
        self.ledger.look()
        self.agreement.look()
        if self.operator is not None:
            self.operator.look()
        for work in self.works:
            work.look()
        self.world.after(LOOK_MS, self._look)

    def _staying(self) -> list[TopicPartition]:
        """The partitions that are there in the end."""
        return [*(place for place in self.places if not self._is_leaving(place.topic)), *self._other_places]

    def _replicas_of(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """How many replicas partitions have, as the registry says."""
        found: dict[TopicPartition, int] = {}
        for place in places:
            entry = self.ensemble.get(f"/brokers/topics/{place.topic}")
            told = {} if entry is None else json.loads(entry.value)["partitions"]
            found[place] = len(told.get(str(place.partition), ()))
        return found

    def _is_led(self) -> bool:
        return self.view.partitions().keys() >= {*self.places, *self._other_places}

    def _is_well(self) -> bool:
        if self.world.now_ms < self._next_question_ms:
            return False
        self._next_question_ms = self.world.now_ms + QUESTION_MS
        return not self._what_is_not_well()

    def _what_is_not_well(self) -> list[str]:
        found = [f"{host.name} is not registered" for host in self.hosts.values() if not host.is_member]
        found += [f"{self.hosts[node_id].name} stops" for node_id in self._leaving]
        found += [f"{self.hosts[node_id].name} has lost what others count on" for node_id in self._lost_power]
        found += [f"{each.name} goes on" for each in self.appenders if each.alive]
        found += [] if self.operator is None else self.operator.undone()
        if found:
            return found
        states = {(topic, int(index)): state for topic, index, state in self.losses.states()}
        leading, readers = self.view.partitions(), {reader.place: reader for reader in self.readers}
        for place, replicas in self._replicas_of(self._staying()).items():
            topic, index = place
            if place not in leading:
                found.append(f"{topic}-{index} has no leader")
                continue
            state = states[topic, index]
            if len(state["isr"]) < replicas:
                found.append(f"in sync of {topic}-{index} are {state['isr']}")
            elif not all(self._has_role(node, topic, str(index), state) for node in state["isr"]):
                found.append(f"not all in sync know their role in {topic}-{index}")
            else:
                found += _unread(leading[place], readers.get(place))
        return found or (self.agreement.misled() if self._hears_in_order else [])

    def _check_all(self) -> None:
        self.ledger.look()
        staying, leading = self._staying(), self.view.partitions()
        self.ledger.check_replicas(self._replicas_of(staying))
        read = {reader.place: reader.read for reader in self.readers}
        for place in staying:
            if place not in leading:
                raise Violation(f"heals: {place} has no leader any more")
            if place not in self._other_places:
                self.ledger.check_log(place, leading[place])
            if place in read:
                self.ledger.check_read(place, read[place], leading[place])


def _unread(leading: Partition, reader: SimFollowingReader | None) -> list[str]:
    end = leading.log.log_end_offset
    if leading.high_watermark < end:
        return [f"the high watermark of {leading} is {leading.high_watermark}, and its end {end}"]
    return [f"{reader.name} is at {reader.position} of {end}"] if reader is not None and reader.position < end else []
