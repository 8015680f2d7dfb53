"""How a client reaches a cluster: it asks whom to ask, keeps that in mind, and asks anew when it was told so or not answered.

It has the same face as a `ClientLink`, so that clients of a lone broker are clients of a cluster too. Knows which field of a
request says whom it is for; knows nothing of what is asked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from ottla.sim.cluster_host import ClusterHost
from ottla.sim.network import REFUSED_MS, ClientLink, NetworkFaults, Seen, Watch
from ottla.sim.world import World
from ottla.wire import errors as codes
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.schema import Message, Struct

PRODUCE, FETCH, METADATA, FIND_COORDINATOR, DELETE_RECORDS = 0, 1, 3, 10, 21
METADATA_VERSION, FIND_VERSION = 9, 1
GROUP_KEY, TRANSACTION_KEY = 0, 1
OF_TRANSACTIONS = frozenset((22, 24, 25, 26))
OF_GROUPS = frozenset((8, 9, 11, 12, 13, 14, 28, 68))
OF_CONTROLLER = frozenset((19, 20, 37, 43, 45))
ANYBODY, CONTROLLER = ("anybody",), ("controller",)

Target = tuple[object, ...]
"""Whom a request is for: the leader of (topic, partition), the coordinator of (kind, key), or anybody."""

STALE = frozenset(
    (
        codes.NOT_LEADER_OR_FOLLOWER,
        codes.NOT_COORDINATOR,
        codes.COORDINATOR_NOT_AVAILABLE,
        codes.LEADER_NOT_AVAILABLE,
        codes.FENCED_LEADER_EPOCH,
        codes.UNKNOWN_LEADER_EPOCH,
        codes.UNKNOWN_TOPIC_OR_PARTITION,
        codes.NOT_CONTROLLER,
        codes.KAFKA_STORAGE_ERROR,
        codes.OFFSET_NOT_AVAILABLE,
    )
)
"""What makes a client ask anew whom to ask."""


class RoutedLink:
    """A client process's connections to a cluster, one to each broker.

    What was sent on one that is given up may still arrive, unless `cuts_given_up`.
    """

    def __init__(self, world: World, hosts: Mapping[int, ClusterHost], link_faults: NetworkFaults, numbers: Iterator[int]) -> None:
        self._world = world
        self._hosts = hosts
        self._link_faults = link_faults
        self._numbers = numbers
        self._links: dict[int, ClientLink] = {}
        self._opened: list[ClientLink] = []
        self._found: dict[Target, int] = {}
        self._epochs: dict[Target, int] = {}
        """The leader epochs that came with leaders: who is not of that epoch must not answer (KIP-320)."""
        self._is_cut = False
        self.cuts_given_up = False

    def cut(self) -> None:
        """Let nothing arrive any more, of what is on its way either."""
        self._is_cut = True
        for link in self._opened:
            link.cut()

    def request(self, key: int, version: int, body: Message, answered: Seen, timeout_ms: int, watch: Watch | None = None) -> None:
        """Send a request to whom it is for. `answered` is called once: with the response, or with None if none came in time."""
        if isinstance(body, FetchRequest) and sum(len(topic.partitions) for topic in body.topics) > 1:
            self._fetch(version, body, answered, timeout_ms, watch)
            return
        target = target_of(key, body)
        self._find(target, timeout_ms, partial(self._send, target, key, version, body, answered, timeout_ms, watch))

    def to(self, node_id: int) -> ClientLink:
        """The connection to one broker."""
        link = self._links.get(node_id)
        if link is None:
            link = self._links[node_id] = ClientLink(self._world, self._hosts[node_id], self._link_faults, next(self._numbers))
            self._opened.append(link)
            if self._is_cut:
                link.cut()
        return link

    def _send(
        self,
        target: Target,
        key: int,
        version: int,
        body: Message,
        answered: Seen,
        timeout_ms: int,
        watch: Watch | None,
        node_id: int,
    ) -> None:
        if node_id < 0:
            self._world.after(REFUSED_MS, lambda: answered(None))
            return

        def heard(response: Any) -> None:
            if response is None:
                self._give_up(node_id)
            if response is None or STALE & set(error_codes(response)):
                self._found.pop(target, None)
            answered(response)

        told = _in_epoch(body, self._epochs.get(target, -1)) if isinstance(body, FetchRequest) else body
        self.to(node_id).request(key, version, told, heard, timeout_ms, watch)

    def _give_up(self, node_id: int) -> None:
        """The connection is of no use any more: the next request goes over another one."""
        link = self._links.pop(node_id, None)
        if link is not None and self.cuts_given_up:
            link.cut()
        self._found = {target: node for target, node in self._found.items() if node != node_id}

    def _fetch(self, version: int, body: FetchRequest, answered: Seen, timeout_ms: int, watch: Watch | None) -> None:
        """Fetch each partition from its leader, and answer as if one broker had them all."""
        parts = [
            dataclasses.replace(body, topics=[dataclasses.replace(topic, partitions=[partition])])
            for topic in body.topics
            for partition in topic.partitions
        ]
        answers: list[Any] = []

        def one(response: Any) -> None:
            answers.append(response)
            if len(answers) == len(parts):
                there = [each for each in answers if each is not None]
                responses = [topic for each in there for topic in each.responses]
                answered(dataclasses.replace(there[0], responses=responses) if there else None)

        for part in parts:
            self.request(FETCH, version, part, one, timeout_ms, watch)

    def _find(self, target: Target, timeout_ms: int, found: Any) -> None:
        """Call `found(node_id)`, with -1 where nobody knows."""
        known = self._found.get(target)
        if target == ANYBODY:
            found(self._anybody())
        elif known is not None:
            found(known)
        else:
            key, version, body = _question(target)

            def told(response: Any) -> None:
                node_id = -1 if response is None else _answer(target, response)
                if node_id in self._hosts:
                    self._found[target] = node_id
                    self._epochs[target] = _leader_epoch(target, response)
                found(node_id if node_id in self._hosts else -1)

            asked = self._anybody()
            self.to(asked).request(key, version, body, told, timeout_ms)

    def _anybody(self) -> int:
        return self._world.random.choice(sorted(self._hosts))


def target_of(key: int, body: Any) -> Target:
    """Whom a request is for."""
    if key == PRODUCE:
        return body.topic_data[0].name, body.topic_data[0].partition_data[0].index
    if key == FETCH and body.topics:
        return body.topics[0].topic, body.topics[0].partitions[0].partition
    if key == DELETE_RECORDS:
        return body.topics[0].name, body.topics[0].partitions[0].partition_index
    if key in OF_TRANSACTIONS:
        name = getattr(body, "transactional_id", None) or getattr(body, "v3_and_below_transactional_id", None)
        return (TRANSACTION_KEY, name) if name else ANYBODY
    if key in OF_GROUPS:
        return GROUP_KEY, body.group_id
    return CONTROLLER if key in OF_CONTROLLER else ANYBODY


def error_codes(message: Any) -> Iterable[int]:
    """All error codes in a response."""
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        if field.name.endswith("error_code"):
            yield value
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, Struct | Message):
                    yield from error_codes(each)


def _question(target: Target) -> tuple[int, int, Message]:
    first, *rest = target
    if isinstance(first, int):
        return FIND_COORDINATOR, FIND_VERSION, FindCoordinatorRequest(key=str(rest[0]), key_type=first)
    topics = [] if target == CONTROLLER else [MetadataRequest.MetadataRequestTopic(name=str(first))]
    return METADATA, METADATA_VERSION, MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def _in_epoch(body: FetchRequest, leader_epoch: int) -> FetchRequest:
    """A fetch of one partition, by who knows its leader's epoch."""
    topics = [
        dataclasses.replace(
            topic, partitions=[dataclasses.replace(part, current_leader_epoch=leader_epoch) for part in topic.partitions]
        )
        for topic in body.topics
    ]
    return dataclasses.replace(body, topics=topics)


def _leader_epoch(target: Target, response: Any) -> int:
    first, *rest = target
    if isinstance(first, int) or target == CONTROLLER:
        return -1
    epochs = (part.leader_epoch for topic in response.topics for part in topic.partitions if part.partition_index == rest[0])
    return next(epochs, -1)


def _answer(target: Target, response: Any) -> int:
    first, *rest = target
    if isinstance(first, int):
        return -1 if response.error_code else int(response.node_id)
    if target == CONTROLLER:
        return int(response.controller_id)
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.partition_index == rest[0]:
                return int(partition.leader_id)
    return -1
