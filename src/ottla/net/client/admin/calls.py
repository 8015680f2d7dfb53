"""What all calls of an admin client share: its settings, its connections, and requests to the controller or to any broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ottla.client.admin.results import CallOptions, Results, checked_options, outcome
from ottla.client.errors import BrokerError, KafkaError, UnknownTopic
from ottla.client.settings.clients import AdminSettings
from ottla.client.types import TopicPartition
from ottla.net.client.admin.bulk import (
    AT_A_TIME,
    UNKNOWN_TOPIC,
    BulkCall,
    Locate,
    Outcomes,
    Query,
    on_controller,
    on_leaders,
    on_nodes,
    send,
)
from ottla.net.client.cluster import ClusterLinks
from ottla.wire.errors import NOT_CONTROLLER
from ottla.wire.schema import Message

Response = TypeVar("Response", bound=Message)
Result = TypeVar("Result")
Key = TypeVar("Key")
Value = TypeVar("Value")
Wanted = TypeVar("Wanted")
Read = Callable[[Any], Outcomes[Key, Value]]
"""A function that yields (item, result or error) from the body of an answer."""


class AdminCalls:
    """The base of the parts of `AsyncAdmin`."""

    _settings: AdminSettings
    _cluster: ClusterLinks

    async def _query_items(
        self,
        keys: Iterable[Key],
        locate: Locate[Key],
        query: Query[Key, Value],
        options: CallOptions,
        *,
        is_change: bool = False,
        at_a_time: int = AT_A_TIME,
        final_codes: frozenset[int] = UNKNOWN_TOPIC,
    ) -> Results[Key, Value]:
        """Return the results of a call about several items. Raise the first error, unless `options` say otherwise."""
        timeout_ms = checked_options(options)
        call = BulkCall(self._cluster, keys, locate, query, is_change=is_change, final_codes=final_codes)
        results = await call.run(timeout_ms, at_a_time)
        return results.raise_first() if options.get("check", True) else results

    async def _query_leaders(
        self,
        wanted: Mapping[TopicPartition, Wanted],
        build: Callable[[Mapping[TopicPartition, Wanted]], Message],
        read: Callable[[Any], Iterable[tuple[TopicPartition, int, Value]]],
        doing: str,
        options: CallOptions,
        *,
        api_key: int = -1,
        check: Callable[[Wanted, int], KafkaError | None] = lambda value, version: None,
    ) -> Results[TopicPartition, Value]:
        """Send requests about partitions to their leaders. `doing` begins the errors.

        `build` makes a request, and `read` yields (partition, error code, result) from its answer. `check` returns the error of a
        partition whose wanted value the leader's version of `api_key` does not have.
        """
        cluster = self._cluster

        async def query(node_id: int, some: list[TopicPartition]) -> Outcomes[TopicPartition, Value]:
            version = (await cluster.link(node_id)).version(api_key)
            outcomes: list[tuple[TopicPartition, Value | KafkaError]] = []
            outcomes += [(where, error) for where in some if (error := check(wanted[where], version)) is not None]
            refused = dict(outcomes)
            rest = {where: wanted[where] for where in some if where not in refused}
            for where, code, value in read(await cluster.request(node_id, build(rest))) if rest else ():
                if code:
                    cluster.metadata.forget_leader(*where)
                outcomes.append((where, outcome(code, value, f"{doing} {where.topic}-{where.partition}")))
            return outcomes

        locate = on_leaders(cluster, doing)
        return await self._query_items(wanted, locate, query, options, final_codes=frozenset())

    async def _each_broker(self, query: Query[int, Value], options: CallOptions) -> Results[int, Value]:
        """Return the results of one request to each broker, by node id."""
        timeout_ms = checked_options(options)
        await self._cluster.retry(lambda: self._cluster.refresh([]), timeout_ms=timeout_ms)
        nodes = sorted(self._cluster.metadata.nodes)
        return await self._query_items(nodes, on_nodes(self._cluster, lambda node_id: node_id), query, options)

    async def _change_items(
        self, keys: Iterable[Key], build: Callable[[list[Key]], Message], read: Read[Key, Value], options: CallOptions
    ) -> Results[Key, Value]:
        """Send a change of several items to the controller. `build` makes the request, and `read` yields items and outcomes."""
        cluster = self._cluster

        async def query(node_id: int, some: list[Key]) -> Outcomes[Key, Value]:
            return read(await send(cluster, node_id, build(some)))

        return await self._query_items(keys, on_controller(cluster), query, options, is_change=True)

    async def _change_all(self, body: Message, read: Read[Key, Value], options: CallOptions) -> Results[Key, Value]:
        """Send a change whose answer names the items, because the request means all of them."""

        def separate(answer: Any) -> Results[Key, Value]:
            outcomes = list(read(answer))
            errors = {key: found for key, found in outcomes if isinstance(found, KafkaError)}
            return Results({key: found for key, found in outcomes if not isinstance(found, KafkaError)}, errors)

        results = await self._change(body, separate, checked_options(options))
        return results.raise_first() if options.get("check", True) else results

    async def _change(self, body: Message, read: Callable[[Response], Result], timeout_ms: int | None = None) -> Result:
        """Send a change to the controller, and after NOT_CONTROLLER to the next controller, for up to `timeout_ms`.

        Return the result of `read` for the answer. A change whose answer was lost is not repeated: it may have been applied.
        """

        async def change() -> Result | KafkaError:
            link = await self._cluster.controller()
            try:
                return read(await link.request(body, self._settings.request_timeout_ms))
            except KafkaError as error:
                if isinstance(error, BrokerError) and error.code == NOT_CONTROLLER:
                    raise
                return error

        done = await self._cluster.retry(change, timeout_ms=timeout_ms)
        if isinstance(done, KafkaError):
            raise done
        return done

    async def _request_any(self, body: Message, read: Callable[[Response], Result], node_id: int | None = None) -> Result:
        """Return the result of `read` for the answer of a broker (None: of any), with retries.

        Raises `UnknownTopic` at once, although Kafka calls it retriable, because a missing topic does not appear by waiting.
        """

        async def attempt() -> Result | UnknownTopic:
            answer = await (self._cluster.request_any(body) if node_id is None else self._cluster.request(node_id, body))
            try:
                return read(answer)
            except UnknownTopic as error:
                return error

        done = await self._cluster.retry(attempt)
        if isinstance(done, UnknownTopic):
            raise done
        return done

    async def _refresh(self) -> None:
        """Request the brokers and the controller of the cluster, with retries."""
        await self._cluster.retry(lambda: self._cluster.refresh([]))
