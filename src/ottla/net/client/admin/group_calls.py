"""Calls of an admin client about groups of all kinds and their offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Unpack

from ottla.client import arguments
from ottla.client.admin import groups as asked
from ottla.client.admin.groups import GroupDescription, GroupListing, GroupMember, ShareOffset
from ottla.client.admin.results import CallOptions, ResultList, Results, checked_options, outcome
from ottla.client.arguments import places
from ottla.client.consumer.committed_offsets import commit_request, committable, read_commit
from ottla.client.errors import broker_error
from ottla.client.types import ConsumerGroupMetadata, OffsetAndMetadata, Place, TopicPartition
from ottla.net.client.admin import groups
from ottla.net.client.admin.bulk import Located, Outcomes, on_coordinators, send
from ottla.net.client.admin.calls import AdminCalls, Key, Read, Value
from ottla.net.client.coordinator import GROUP
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.offset_commit import OffsetCommitResponse
from ottla.wire.errors import UNKNOWN_TOPIC_OR_PARTITION
from ottla.wire.schema import Message

OFFSETS_AT_A_TIME = 100
"""The maximum number of groups whose offsets one request fetches, because each group can have many."""


class GroupCalls(AdminCalls):
    """The methods of `AsyncAdmin` about groups of all kinds and their offsets."""

    async def list_groups(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        protocol_types: Iterable[str] = (),
        **options: Unpack[CallOptions],
    ) -> ResultList[GroupListing]:
        """Return the groups of all brokers, sorted by id. Without filters, return all of them.

        `states` are Kafka's names: Stable, Empty … (KIP-518). `types` are classic, consumer, share and streams (KIP-848).
        `protocol_types` are consumer, connect, share … The `errors` are those of brokers, by node id.
        """
        filters = arguments.several("states", states), arguments.several("types", types)
        protocols = arguments.several("protocol_types", protocol_types)
        found = await self._each_broker(groups.listings_query(self._cluster, *filters), options)
        listed = [group for some in found.values() for group in some]
        return ResultList(await groups.filter_groups(self._cluster, listed, *filters, protocols), found.errors)

    async def _query_coordinators(
        self, group_ids: Iterable[str], build: Callable[[list[str]], Message], read: Read[str, Value], options: CallOptions
    ) -> Results[str, Value]:
        """Send one request to each coordinator of the groups. `build` makes it, and `read` yields groups and outcomes."""

        async def query(node_id: int, some: list[str]) -> Outcomes[str, Value]:
            return read(await self._cluster.request(node_id, build(some)))

        return await self._query_items(group_ids, on_coordinators(self._cluster, GROUP), query, options)

    async def _in_group(
        self,
        group_id: str,
        keys: Iterable[Key],
        build: Callable[[list[Key]], Message],
        read: Read[Key, None],
        options: CallOptions,
    ) -> Results[Key, None]:
        """Send a request about partitions or topics of one group to its coordinator."""
        find = on_coordinators(self._cluster, GROUP)
        arguments.text("A group's id", group_id)

        async def locate(some: list[Key]) -> Located[Key]:
            located, lost = await find([group_id])
            return dict.fromkeys(located, some), dict.fromkeys(some, lost[group_id]) if lost else {}

        async def query(node_id: int, some: list[Key]) -> Outcomes[Key, None]:
            return read(await send(self._cluster, node_id, build(some)))

        return await self._query_items(keys, locate, query, options)

    async def describe_group(self, group_id: str) -> GroupDescription:
        """Return the state and the members of a group of any kind. A group that does not exist has the state Dead."""
        return (await self.describe_groups(group_id))[group_id]

    async def describe_groups(
        self, *group_ids: str, authorized_operations: bool = False, **options: Unpack[CallOptions]
    ) -> Results[str, GroupDescription]:
        """Return the states and the members of groups by id: classic, consumer (KIP-848), share and streams groups.

        A group that does not exist has the state Dead. With `authorized_operations`, return what this client may do (KIP-430).
        """
        names = arguments.names("A group's id", group_ids)
        query = groups.descriptions_query(self._cluster, operations=authorized_operations)
        return await self._query_items(names, on_coordinators(self._cluster, GROUP), query, options)

    async def list_group_offsets(
        self, group_id: str, partitions: Iterable[tuple[str, int]] | None = None, *, require_stable: bool = True
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that a group has committed, in `partitions` or in all.

        With `require_stable`, wait for transactions that are committing offsets (KIP-447).
        """
        return (await self.list_offsets_of_groups(group_id, partitions=partitions, require_stable=require_stable))[group_id]

    async def list_offsets_of_groups(
        self,
        *group_ids: str,
        partitions: Iterable[tuple[str, int]] | None = None,
        require_stable: bool = True,
        **options: Unpack[CallOptions],
    ) -> Results[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Return the offsets that classic, consumer and streams groups have committed, by group id.

        `partitions` and `require_stable` are those of `list_group_offsets`.
        """
        names = arguments.names("A group's id", group_ids)
        wanted = None if partitions is None else places(partitions)
        query = groups.offsets_query(self._cluster, wanted, require_stable=require_stable)
        return await self._query_items(names, on_coordinators(self._cluster, GROUP), query, options, at_a_time=OFFSETS_AT_A_TIME)

    async def list_share_group_offsets(
        self, *group_ids: str, partitions: Iterable[tuple[str, int]] | None = None, **options: Unpack[CallOptions]
    ) -> Results[str, dict[TopicPartition, ShareOffset]]:
        """Return the positions of share groups by group id and partition, with their lag (KIP-932; the lag since Kafka 4.2)."""
        names = arguments.names("A group's id", group_ids)
        wanted = None if partitions is None else places(partitions)
        build = partial(asked.share_offsets_request, partitions=wanted)
        return await self._query_coordinators(names, build, asked.read_share_offsets, options)

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[Place, int], **options: Unpack[CallOptions]
    ) -> Results[TopicPartition, None]:
        """Set the start offsets of a share group without members, by (topic, partition) (KIP-932)."""
        wanted = arguments.by_place("offsets", offsets, partial(arguments.whole, "An offset"))

        def build(some: list[TopicPartition]) -> Message:
            return asked.alter_share_offsets_request(group_id, {where: wanted[where] for where in some})

        return await self._in_group(group_id, wanted, build, partial(asked.read_altered_share_offsets, group_id=group_id), options)

    async def delete_share_group_offsets(self, group_id: str, *topics: str, **options: Unpack[CallOptions]) -> Results[str, None]:
        """Delete the start offsets of a share group without members in topics (KIP-932)."""
        names = arguments.names("A topic's name", topics)
        build = partial(asked.delete_share_offsets_request, group_id)
        return await self._in_group(group_id, names, build, partial(asked.read_deleted_share_offsets, group_id=group_id), options)

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[Place, OffsetAndMetadata | int], **options: Unpack[CallOptions]
    ) -> Results[TopicPartition, None]:
        """Commit offsets, by (topic, partition), for a group without members, whose consumers then continue from them.

        Raises `BrokerError` (UNKNOWN_MEMBER_ID) for a group that has members, and `UnknownTopic` before anything is committed.
        With `check=False`, the offsets of all partitions that exist are committed.
        """
        wanted = committable(offsets)
        arguments.text("A group's id", group_id)
        timeout_ms, known = checked_options(options), self._cluster.metadata
        await self._cluster.retry(lambda: self._cluster.refresh(sorted({where.topic for where in wanted})), timeout_ms=timeout_ms)
        context = "Committing {0.topic}-{0.partition} for group {1}"
        codes = {where: 0 if known.has(*where) else known.partition_error(*where) or UNKNOWN_TOPIC_OR_PARTITION for where in wanted}
        unknown = {where: broker_error(code, context.format(where, group_id)) for where, code in codes.items() if code}
        if unknown and options.get("check", True):
            Results[TopicPartition, None]({}, unknown).raise_first()

        def build(some: list[TopicPartition]) -> Message:
            return commit_request(ConsumerGroupMetadata(group_id), {where: wanted[where] for where in some})

        def read(answer: OffsetCommitResponse) -> Outcomes[TopicPartition, None]:
            for where, code in read_commit(answer):
                yield where, outcome(code, None, context.format(where, group_id))

        done = await self._in_group(group_id, [where for where in wanted if where not in unknown], build, read, options)
        return Results(done, {**unknown, **done.errors})

    async def delete_groups(self, *group_ids: str, **options: Unpack[CallOptions]) -> Results[str, None]:
        """Delete groups of any kind that have no members, with their committed offsets (KIP-229).

        Raises `BrokerError`, such as NON_EMPTY_GROUP for a group that has members.
        """
        names = arguments.names("A group's id", group_ids)
        return await self._query_coordinators(
            names, lambda some: DeleteGroupsRequest(groups_names=some), asked.read_deleted_groups, options
        )

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[tuple[str, int]], **options: Unpack[CallOptions]
    ) -> Results[TopicPartition, None]:
        """Delete committed offsets of a group that does not subscribe to their topics (KIP-496, Kafka 2.4).

        Raises `BrokerError`, such as GROUP_SUBSCRIBED_TO_TOPIC or GROUP_ID_NOT_FOUND.
        """
        build = partial(asked.delete_offsets_request, group_id)
        read = partial(asked.read_deleted_offsets, group_id=group_id)
        return await self._in_group(group_id, places(partitions), build, read, options)

    async def remove_members(
        self, group_id: str, members: Iterable[str] | None, *, reason: str | None = None, **options: Unpack[CallOptions]
    ) -> ResultList[GroupMember]:
        """Remove members from a classic or consumer group by member ids or instance ids (None: all). Return these members.

        A consumer that still runs joins again. Raises `BrokerError` (UNKNOWN_MEMBER_ID) before any is removed. The `errors` are
        those of members that were not removed, by member id.
        """
        names = None if members is None else arguments.names("A member's id", arguments.several("members", members))
        arguments.text("A group's id", group_id)
        timeout_ms = checked_options(options)

        async def attempt() -> ResultList[GroupMember]:
            removed = await groups.remove_members(self._cluster, group_id, names, reason)
            return removed.raise_first() if options.get("check", True) else removed

        return await self._cluster.retry(attempt, timeout_ms=timeout_ms)
