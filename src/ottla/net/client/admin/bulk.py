"""Calls about many items: each broker gets the items that it is responsible for, in few requests, and each item has an outcome.

Items whose errors are retriable are requested again, alone, until the timeout of the call. Items of a broker that does not answer
keep no others waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Generic, TypeVar

from ottla.client.admin.results import Results
from ottla.client.connection.connection import AnswerBody
from ottla.client.connection.older_brokers import SEVERAL_FROM_FIND_COORDINATOR
from ottla.client.connection.versions import FIND_COORDINATOR
from ottla.client.errors import BrokerError, KafkaError, UnknownTopic, broker_error
from ottla.client.types import TopicPartition
from ottla.net.client.cluster import ClusterLinks
from ottla.net.client.coordinator import NOUNS, find_coordinator
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.errors import (
    LEADER_NOT_AVAILABLE,
    NOT_CONTROLLER,
    THROTTLING_QUOTA_EXCEEDED,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from ottla.wire.schema import Message

Key = TypeVar("Key")
Value = TypeVar("Value")

AT_A_TIME: Final = 500
"""The maximum number of items in one request. It keeps a broker's answer quick."""
KEYS_AT_A_TIME: Final = 1_000
"""The maximum number of groups or transactional ids whose coordinators one request finds."""
LOOK_UPS_AT_ONCE: Final = 50
"""The maximum number of requests in flight that find one coordinator each, for brokers before Kafka 3.0."""
ANY_NODE: Final = -1
UNKNOWN_TOPIC: Final = frozenset({UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID})
"""The errors of topics that do not exist. A caller who waits for a topic repeats the call."""
REFUSED_UNCHANGED: Final = frozenset({NOT_CONTROLLER, THROTTLING_QUOTA_EXCEEDED})
"""The errors with which a broker refuses a change before it begins, so that the change can be sent again."""

Located = tuple[Mapping[int, Sequence[Key]], Mapping[Key, KafkaError]]
"""The items of each node, by its id, and the errors of items whose node was not found."""
Locate = Callable[[list[Key]], Awaitable[Located[Key]]]
Outcomes = Iterable[tuple[Key, Value | KafkaError]]
Query = Callable[[int, list[Key]], Awaitable[Outcomes[Key, Value]]]


async def send(cluster: ClusterLinks, node_id: int, body: Message) -> AnswerBody:
    """Return the answer of the broker `node_id`, or of any broker for `ANY_NODE`, without retries."""
    return await (cluster.request_any(body) if node_id < 0 else cluster.request(node_id, body))


class BulkCall(Generic[Key, Value]):
    """One call about several items. `locate` finds the node of each, and `query` sends one request about items of one node."""

    def __init__(
        self,
        cluster: ClusterLinks,
        keys: Iterable[Key],
        locate: Locate[Key],
        query: Query[Key, Value],
        *,
        is_change: bool = False,
        final_codes: frozenset[int] = UNKNOWN_TOPIC,
    ) -> None:
        """Create a call. With `is_change`, a request whose answer was lost is not repeated, because it may have been applied.

        Items with an error of `final_codes` are not requested again, though others can succeed later with it.
        """
        self._cluster = cluster
        self._keys = list(dict.fromkeys(keys))
        self._locate, self._query = locate, query
        self._is_change, self._final_codes = is_change, final_codes
        self._rest = dict.fromkeys(self._keys)
        self._found: dict[Key, Value] = {}
        self._errors: dict[Key, KafkaError] = {}
        self._last: dict[Key, KafkaError] = {}
        """The last retriable error of each item."""

    async def run(self, timeout_ms: int | None = None, at_a_time: int = AT_A_TIME) -> Results[Key, Value]:
        """Return the results and errors of all items, in their order, at the latest after `timeout_ms`."""
        if self._rest:
            try:
                await self._cluster.retry(lambda: self._attempt(at_a_time), timeout_ms=timeout_ms)
            except KafkaError as error:
                for key in self._rest:
                    self._errors[key] = self._last.get(key, error) if error.retriable else error
        found, errors = self._found, self._errors
        return Results(
            {key: found[key] for key in self._keys if key in found}, {key: errors[key] for key in self._keys if key in errors}
        )

    async def _attempt(self, at_a_time: int) -> None:
        """Request all items that have no outcome yet. Raises the error of an item that can succeed later."""
        located, lost = await self._locate(list(self._rest))
        placed = lost.keys() | {key for group in located.values() for key in group}
        for key in [key for key in self._rest if key not in placed]:
            self._record(key, _left_out(key), is_final=True)
        for key, error in lost.items():
            # Fresh metadata says so: another try would find the same.
            self._record(key, error, is_final=not error.retriable or isinstance(error, UnknownTopic))
        await asyncio.gather(*(self._query_node(node_id, list(group), at_a_time) for node_id, group in located.items()))
        for key in self._rest:
            raise self._last[key]

    async def _query_node(self, node_id: int, group: list[Key], at_a_time: int) -> None:
        for start in range(0, len(group), at_a_time):
            some = group[start : start + at_a_time]
            try:
                outcomes = dict(await self._query(node_id, some))
            except KafkaError as error:
                for key in group[start:]:
                    self._record(key, error, is_final=self._is_change or not error.retriable)
                return
            for key in some:
                outcome = outcomes[key] if key in outcomes else _left_out(key)
                if isinstance(outcome, KafkaError):
                    self._record(key, outcome, is_final=not self._can_repeat(outcome))
                else:
                    self._found[key] = outcome
                    self._rest.pop(key, None)

    def _can_repeat(self, error: KafkaError) -> bool:
        if self._is_change:
            return isinstance(error, BrokerError) and error.code in REFUSED_UNCHANGED
        return error.retriable and error.code not in self._final_codes

    def _record(self, key: Key, error: KafkaError, *, is_final: bool) -> None:
        if is_final:
            self._errors[key] = error
            self._rest.pop(key, None)
        else:
            self._last[key] = error


def _left_out(key: object) -> KafkaError:
    return broker_error(UNKNOWN_SERVER_ERROR, str(key), "The broker's answer leaves it out.")


def on_any(cluster: ClusterLinks) -> Locate[Key]:
    """Return the locator of items that any broker serves."""

    async def locate(keys: list[Key]) -> Located[Key]:
        await cluster.any_link()
        return {ANY_NODE: keys}, {}

    return locate


def on_controller(cluster: ClusterLinks) -> Locate[Key]:
    """Return the locator of items that the controller serves. The controller is looked up at each try."""

    async def locate(keys: list[Key]) -> Located[Key]:
        await cluster.controller()
        return {cluster.metadata.controller_id: keys}, {}

    return locate


def on_nodes(cluster: ClusterLinks, node_of: Callable[[Key], int | None], otherwise: Locate[Key] | None = None) -> Locate[Key]:
    """Return the locator of items that one broker each serves, or for `node_of` None, the locator `otherwise`."""
    tries = 0

    async def locate(keys: list[Key]) -> Located[Key]:
        nonlocal tries
        tries += 1
        if tries > 1 or any(node_of(key) not in {None, *cluster.metadata.nodes} for key in keys):
            await cluster.refresh([])
        live = sorted(cluster.metadata.nodes)
        grouped: dict[int, list[Key]] = {}
        lost: dict[Key, KafkaError] = {}
        for key in keys:
            node_id = node_of(key)
            if node_id is not None and node_id not in cluster.metadata.nodes:
                lost[key] = KafkaError(f"There is no broker {node_id} now: the cluster has {', '.join(map(str, live))}.")
            elif node_id is not None:
                grouped.setdefault(node_id, []).append(key)
        elsewhere = [key for key in keys if node_of(key) is None]
        if elsewhere and otherwise is not None:
            located, more = await otherwise(elsewhere)
            for node_id, group in located.items():
                grouped.setdefault(node_id, []).extend(group)
            lost |= more
        return grouped, lost

    return locate


def on_leaders(cluster: ClusterLinks, doing: str) -> Locate[TopicPartition]:
    """Return the locator of partitions, by their leaders. `doing` begins the errors of partitions without one."""
    tries = 0

    async def locate(keys: list[TopicPartition]) -> Located[TopicPartition]:
        nonlocal tries
        tries += 1
        grouped, leaderless = cluster.metadata.by_leader(keys)
        if leaderless or tries > 1:
            await cluster.refresh(sorted({where.topic for where in (keys if tries > 1 else leaderless)}))
            grouped, leaderless = cluster.metadata.by_leader(keys)
        codes = {where: cluster.metadata.partition_error(*where) or LEADER_NOT_AVAILABLE for where in leaderless}
        return grouped, {where: broker_error(code, f"{doing} {where.topic}-{where.partition}") for where, code in codes.items()}

    return locate


def on_coordinators(cluster: ClusterLinks, key_type: int) -> Locate[str]:
    """Return the locator of groups or transactional ids, by their coordinators: one request finds many (KIP-699, Kafka 3.0)."""

    async def locate(keys: list[str]) -> Located[str]:
        link = await cluster.any_link()
        if len(keys) == 1 or link.version(FIND_COORDINATOR) < SEVERAL_FROM_FIND_COORDINATOR:
            return await _coordinators_singly(cluster, keys, key_type)
        grouped: dict[int, list[str]] = {}
        lost: dict[str, KafkaError] = {}
        for start in range(0, len(keys), KEYS_AT_A_TIME):
            request = FindCoordinatorRequest(coordinator_keys=keys[start : start + KEYS_AT_A_TIME], key_type=key_type)
            answer = await cluster.request_any(request)
            for found in answer.coordinators:
                if found.error_code:
                    lost[found.key] = broker_error(found.error_code, f"{NOUNS[key_type]} {found.key}", found.error_message)
                else:
                    cluster.metadata.set_address(found.node_id, found.host, found.port)
                    grouped.setdefault(found.node_id, []).append(found.key)
        return grouped, lost

    return locate


async def _coordinators_singly(cluster: ClusterLinks, keys: list[str], key_type: int) -> Located[str]:
    grouped: dict[int, list[str]] = {}
    lost: dict[str, KafkaError] = {}

    async def find(key: str) -> None:
        try:
            grouped.setdefault(await find_coordinator(cluster, key, key_type), []).append(key)
        except BrokerError as error:
            lost[key] = error

    for start in range(0, len(keys), LOOK_UPS_AT_ONCE):
        await asyncio.gather(*map(find, keys[start : start + LOOK_UPS_AT_ONCE]))
    return grouped, lost
