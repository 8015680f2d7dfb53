"""An operator of a simulated cluster: makes and deletes topics, moves replicas, elects leaders, deletes records, sets settings.

What is asked may be lost, as may be the answer: in peace it is asked again until it is so. Knows requests, what may be answered to
them, and what the registry has to say in the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from ottla.client.types import TopicPartition
from ottla.sim.cluster_host import ClusterHost
from ottla.sim.ensemble import SimEnsemble
from ottla.sim.network import Seen, Watch
from ottla.sim.world import World
from ottla.wire import errors as codes
from ottla.wire.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from ottla.wire.api.create_partitions import CreatePartitionsRequest
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.delete_records import DeleteRecordsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.elect_leaders import ElectLeadersRequest
from ottla.wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.schema import Message
from tests.sim.lives.cluster_ledger import ClusterLedger
from tests.sim.lives.cluster_links import OF_CONTROLLER, RoutedLink
from tests.sim.lives.transaction_clients import LEADER, Rest, Script, SimClient, SimRequest
from tests.sim.seeds import Violation

CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS, CREATE_PARTITIONS = 19, 20, 21, 37
ELECT, ALTER_CONFIGS, REASSIGN = 43, 44, 45
TIMEOUT_MS, PATIENCE_MS = 3_000, 5_000
RETRY_MS = 300
TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
PREFERRED, UNCLEAN = 0, 1
MOST_TOPICS, MOST_PARTITIONS = 4, 4
ASTRAY = 0.3
"""How much of what is for the controller is sent to anybody."""
LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
RATE = "4000"
"""Bytes in a second of throttled replication."""

PASSING: Final = frozenset(
    (
        codes.NOT_CONTROLLER,
        codes.REQUEST_TIMED_OUT,
        codes.LEADER_NOT_AVAILABLE,
        codes.NOT_LEADER_OR_FOLLOWER,
        codes.KAFKA_STORAGE_ERROR,
        codes.BROKER_NOT_AVAILABLE,
        codes.UNKNOWN_TOPIC_OR_PARTITION,
    )
)
"""What may be answered to anything in times of trouble."""
EXPECTED: Mapping[int, frozenset[int]] = {
    CREATE_TOPICS: frozenset((codes.TOPIC_ALREADY_EXISTS, codes.INVALID_REPLICATION_FACTOR)),
    DELETE_TOPICS: frozenset(),
    DELETE_RECORDS: frozenset((codes.OFFSET_OUT_OF_RANGE,)),
    CREATE_PARTITIONS: frozenset(
        (codes.INVALID_PARTITIONS, codes.REASSIGNMENT_IN_PROGRESS, codes.INVALID_REPLICATION_FACTOR, codes.INVALID_TOPIC_EXCEPTION)
    ),
    ELECT: frozenset(
        (
            codes.ELECTION_NOT_NEEDED,
            codes.INVALID_TOPIC_EXCEPTION,
            codes.PREFERRED_LEADER_NOT_AVAILABLE,
            codes.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        )
    ),
    ALTER_CONFIGS: frozenset(),
    REASSIGN: frozenset((codes.NO_REASSIGNMENT_IN_PROGRESS, codes.INVALID_REPLICA_ASSIGNMENT)),
}


class Grown(Protocol):
    """Called for each partition that is there to be written to; one that `loses` may elect leaders that are not in sync."""

    def __call__(self, place: TopicPartition, *, loses: bool) -> None: ...


class OperatorLink(RoutedLink):
    """One whose requests for the controller may go to any broker."""

    def request(self, key: int, version: int, body: Message, answered: Seen, timeout_ms: int, watch: Watch | None = None) -> None:
        if key in OF_CONTROLLER and self._world.chance(ASTRAY):
            self.to(self._anybody()).request(key, version, body, answered, timeout_ms, watch)
        else:
            super().request(key, version, body, answered, timeout_ms, watch)


@dataclass(slots=True)
class OperatedTopic:
    """A topic of the operator's. `count` is how many partitions it has been asked to have; `known` is for whom it is there.

    `homes` are the brokers that held each of its partitions when it was last seen: those of which its deletion waits.
    """

    name: str
    count: int
    factor: int
    is_unclean: bool
    is_leaving: bool = False
    known: list[TopicPartition] = field(default_factory=list)
    homes: dict[int, set[int]] = field(default_factory=dict)


class ClusterOperator(SimClient):
    """Does what operators do to `topic`, which others write to, and to topics of its own, until it is told to tidy up.

    Whoever writes looks at `is_leaving`.
    """

    def __init__(
        self,
        world: World,
        connect: Callable[[], RoutedLink],
        hosts: Mapping[int, ClusterHost],
        ensemble: SimEnsemble,
        ledger: ClusterLedger,
        places: list[TopicPartition],
        grown: Grown,
        say: Callable[[str], None],
    ) -> None:
        self._hosts = hosts
        self._ensemble = ensemble
        self._ledger = ledger
        self._grown = grown
        self._say = say
        self._shared = OperatedTopic(places[0].topic, len(places), 3, is_unclean=False, known=list(places))
        self._topics: dict[str, OperatedTopic] = {}
        self._made = 0
        self._settings: dict[tuple[int, str, str], None] = {}
        self._is_over = False
        super().__init__(world, "the operator", connect)

    def tidy(self) -> None:
        """Have all that was begun brought to an end."""
        self._is_over = True

    def look(self) -> None:
        """Note who holds what is about to be deleted."""
        for topic in self._topics.values():
            if topic.is_leaving:
                self._note_homes(topic)

    def is_leaving(self, topic: str) -> bool:
        """Whether nobody needs to be served any more who writes there."""
        known = self._topics.get(topic)
        return known is not None and known.is_leaving

    def script(self) -> Script:
        random = self.world.random
        acts = [self._create, self._grow, self._delete, self._move, self._cancel, self._elect, self._delete_records, self._set]
        while not self._is_over:
            yield Rest(random.choice((100, 1_000, 4_000)))
            (act,) = random.choices(acts, (3, 2, 2, 4, 1, 3, 2, 3))
            yield from act()
            self._look()
        yield from self._tidy()

    # What it does

    def _create(self) -> Script:
        if len(self._topics) >= MOST_TOPICS:
            return
        random = self.world.random
        self._made += 1
        topic = OperatedTopic(
            f"made-{self._made}", random.choice((1, 2)), random.choice((2, 3, 3)), is_unclean=self.world.chance(0.3)
        )
        self._topics[topic.name] = topic
        if topic.is_unclean:
            self._ledger.may_lose(topic.name)
        self._say(f"{topic.name} is made{', and may lose records' if topic.is_unclean else ''}")
        yield from self._ask_to_create(topic)

    def _ask_to_create(self, topic: OperatedTopic) -> Script:
        body = CreateTopicsRequest(timeout_ms=TIMEOUT_MS)
        config = CreateTopicsRequest.CreatableTopicConfig(name="unclean.leader.election.enable", value="true")
        asked = CreateTopicsRequest.CreatableTopic(
            name=topic.name, num_partitions=topic.count, replication_factor=topic.factor, configs=[config] * topic.is_unclean
        )
        body.topics.append(asked)
        return (yield from self._ask(CREATE_TOPICS, 7, body, lambda response: [each.error_code for each in response.topics]))

    def _grow(self) -> Script:
        topic = self.world.random.choice([self._shared, *self._staying()])
        if topic.count >= MOST_PARTITIONS:
            return
        topic.count += 1
        self._say(f"{topic.name} gets {topic.count} partitions")
        body = CreatePartitionsRequest(timeout_ms=TIMEOUT_MS)
        body.topics.append(CreatePartitionsRequest.CreatePartitionsTopic(name=topic.name, count=topic.count, assignments=None))
        yield from self._ask(CREATE_PARTITIONS, 3, body, lambda response: [each.error_code for each in response.results])

    def _delete(self) -> Script:
        staying = self._staying()
        if staying:
            topic = self.world.random.choice(staying)
            topic.is_leaving = True
            self._say(f"{topic.name} is deleted")
            yield from self._ask_to_delete(topic)

    def _ask_to_delete(self, topic: OperatedTopic) -> Script:
        self._note_homes(topic)
        body = DeleteTopicsRequest(topic_names=[topic.name], timeout_ms=TIMEOUT_MS)
        return (yield from self._ask(DELETE_TOPICS, 5, body, lambda response: [each.error_code for each in response.responses]))

    def _move(self) -> Script:
        place = self._some_place()
        count = 3 if place.topic == self._shared.name else self._topics[place.topic].factor
        replicas = self.world.random.sample(sorted(self._hosts), count)
        self._say(f"{place.topic}-{place.partition} moves to {replicas}")
        yield from self._reassign([place], replicas)

    def _cancel(self) -> Script:
        place = self._some_place()
        self._say(f"the move of {place.topic}-{place.partition} is cancelled")
        yield from self._reassign([place], None)

    def _reassign(self, places: Iterable[TopicPartition], replicas: list[int] | None) -> Script:
        body = AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS)
        for topic, index in places:
            part = AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=index, replicas=replicas)
            body.topics.append(AlterPartitionReassignmentsRequest.ReassignableTopic(name=topic, partitions=[part]))
        return (
            yield from self._ask(
                REASSIGN,
                0,
                body,
                lambda response: [
                    response.error_code,
                    *(part.error_code for topic in response.responses for part in topic.partitions),
                ],
            )
        )

    def _elect(self) -> Script:
        place = self._some_place()
        is_unclean = place.topic in self._topics and self._topics[place.topic].is_unclean
        everywhere = not is_unclean and self.world.chance(0.3)
        self._say("all elect" if everywhere else f"{place.topic}-{place.partition} elects its leader")
        named = ElectLeadersRequest.TopicPartitions(topic=place.topic, partitions=[place.partition])
        body = ElectLeadersRequest(
            election_type=UNCLEAN if is_unclean else PREFERRED,
            topic_partitions=None if everywhere else [named],
            timeout_ms=TIMEOUT_MS,
        )
        yield from self._ask(
            ELECT,
            2,
            body,
            lambda response: [
                response.error_code,
                *(part.error_code for topic in response.replica_election_results for part in topic.partition_result),
            ],
        )

    def _delete_records(self) -> Script:
        place = self._some_place()
        end = self._ledger.committed_end(place)
        if not end or self.world.chance(0.5):
            return
        offset = self.world.random.randrange(end + 1)
        self._ledger.deletes(place, offset)
        self._say(f"records of {place.topic}-{place.partition} below {offset} are deleted")
        part = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=place.partition, offset=offset)
        topic = DeleteRecordsRequest.DeleteRecordsTopic(name=place.topic, partitions=[part])
        body = DeleteRecordsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
        yield from self._ask(DELETE_RECORDS, 2, body, lambda response: [response.topics[0].partitions[0].error_code])

    def _set(self) -> Script:
        random, shared = self.world.random, self._shared.name
        changes: list[tuple[int, str, str, str]] = random.choice(
            (
                [(TOPIC, shared, "min.insync.replicas", random.choice(("1", "2", "3")))],
                [(TOPIC, shared, "leader.replication.throttled.replicas", "*"), (BROKER, "", LEADER_RATE, RATE)],
                [(TOPIC, shared, "follower.replication.throttled.replicas", "*"), (BROKER, "", FOLLOWER_RATE, RATE)],
                [(BROKER, "", "log.retention.ms", random.choice(("604800000", "-1")))],
            )
        )
        for kind, name, setting, value in changes:
            self._say(f"{setting} of {name or 'all brokers'} is {value}")
            self._settings[kind, name, setting] = None
            yield from self._alter(kind, name, setting, value)

    def _alter(self, kind: int, name: str, setting: str, value: str | None) -> Script:
        changed = IncrementalAlterConfigsRequest.AlterableConfig(
            name=setting, config_operation=DELETE if value is None else SET, value=value
        )
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[changed])
        body = IncrementalAlterConfigsRequest(resources=[resource])
        return (yield from self._ask(ALTER_CONFIGS, 1, body, lambda response: [each.error_code for each in response.responses]))

    def _ask(self, key: int, version: int, body: Message, codes_of: Callable[[Any], list[int]]) -> Script:
        """Ask once; returns the error codes, or none if there was no answer."""
        (response,) = yield [SimRequest(LEADER, key, version, body, timeout_ms=PATIENCE_MS)]
        found = [] if response is None else codes_of(response)
        for code in found:
            if code and code not in PASSING and code not in EXPECTED[key]:
                raise Violation(f"no error without a cause: {self.name} got {codes.error_name(code)} for {body}")
        return found

    # What it knows

    def _staying(self) -> list[OperatedTopic]:
        return [topic for topic in self._topics.values() if not topic.is_leaving]

    def _some_place(self) -> TopicPartition:
        return self.world.random.choice([place for topic in (self._shared, *self._staying()) for place in topic.known])

    def _look(self) -> None:
        """Tell others of partitions that are there by now."""
        for topic in (self._shared, *self._staying()):
            for index in sorted(self._assignment(topic.name)):
                place = TopicPartition(topic.name, int(index))
                if place not in topic.known:
                    topic.known.append(place)
                    self._grown(place, loses=topic.is_unclean)

    def _note_homes(self, topic: OperatedTopic) -> None:
        entry = self._ensemble.get(f"/brokers/topics/{topic.name}")
        if entry is not None:
            told = json.loads(entry.value)
            leaving = told.get("removing_replicas", {})
            for index, replicas in told["partitions"].items():
                topic.homes[int(index)] = set(replicas).difference(leaving.get(index, ()))

    def _assignment(self, topic: str) -> Mapping[str, list[int]]:
        entry = self._ensemble.get(f"/brokers/topics/{topic}")
        return {} if entry is None else json.loads(entry.value)["partitions"]

    # In the end

    def _tidy(self) -> Script:
        """Bring about what was wanted; a few times each: whoever leads anew by then has not heard of all that came before."""
        for kind, name, setting in self._settings:
            while codes.NONE not in (yield from self._alter(kind, name, setting, None)):
                yield Rest(RETRY_MS)
        for topic in self._topics.values():
            yield from self._bring_about(topic)
        self._look()

    def _bring_about(self, topic: OperatedTopic) -> Script:
        while True:
            if topic.is_leaving:
                answers = yield from self._ask_to_delete(topic)
                if codes.UNKNOWN_TOPIC_OR_PARTITION in answers:
                    return
            else:
                answers = yield from self._ask_to_create(topic)
                if codes.TOPIC_ALREADY_EXISTS in answers:
                    return
            yield Rest(RETRY_MS)

    def undone(self) -> list[str]:
        """What is not as it should be yet."""
        if self.alive:
            return ["the operator goes on"]
        found = list[str]()
        if self._ensemble.get("/admin/reassign_partitions") is not None:
            found.append("moves are noted")
        found += [f"{name} is noted to be deleted" for name in self._ensemble.children("/admin/delete_topics")]
        for name in self._ensemble.children("/brokers/topics"):
            entry = self._ensemble.get(f"/brokers/topics/{name}")
            told = {} if entry is None else json.loads(entry.value)
            if told.get("adding_replicas") or told.get("removing_replicas"):
                found.append(f"{name} moves")
        gone = [topic for topic in self._topics.values() if topic.is_leaving]
        for name in (topic.name for topic in gone):
            if self._ensemble.get(f"/brokers/topics/{name}") or self._ensemble.get(f"/config/topics/{name}"):
                found.append(f"the registry still has {name}")
        for host in self._hosts.values():
            found += [f"{host.name} still has {held}" for held in self._held_in_vain(host, gone)]
            known = {} if host.broker is None else host.broker.image.topics
            found += [f"{host.name} still tells of {topic.name}" for topic in gone if topic.name in known]
        return found

    def _held_in_vain(self, host: ClusterHost, gone: Iterable[OperatedTopic]) -> Iterable[str]:
        """What a broker has of topics that are gone, and replicas that it serves though they are elsewhere.

        Files of a replica that moved away while its broker was dead or cut off stay, as those of Kafka's brokers do, also when the
        topic is deleted then: that waits for those alone that hold it.
        """
        files = host.disk.list("")
        for topic in gone:
            for name in (name for name in files if name.startswith(f"{topic.name}-")):
                number = int(name.removeprefix(f"{topic.name}-").partition(".")[0])
                if host.node_id in topic.homes.get(number, {host.node_id}) or self._serves(host, topic.name, number):
                    yield name
        for topic in (self._shared, *self._staying()):
            for index, replicas in self._assignment(topic.name).items():
                if host.node_id not in replicas and self._serves(host, topic.name, int(index)):
                    yield f"{topic.name}-{index}"

    def _serves(self, host: ClusterHost, topic: str, index: int) -> bool:
        held = None if host.broker is None else host.broker.partitions.get(topic, index)
        return held is not None and held.replicas is not None
