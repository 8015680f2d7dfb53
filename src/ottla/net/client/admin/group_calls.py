"""Calls of an admin client about groups of all kinds and their offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from ottla.client import arguments
from ottla.client.admin import groups as group_requests
from ottla.client.admin.groups import GroupDescription, GroupListing, GroupMember, ShareOffset
from ottla.client.arguments import places
from ottla.client.consumer.committed_offsets import commit_request, committable, read_commit
from ottla.client.errors import raise_for
from ottla.client.types import ConsumerGroupMetadata, OffsetAndMetadata, Place, TopicPartition
from ottla.net.client.admin import groups
from ottla.net.client.admin.calls import AdminCalls, Response, Result
from ottla.net.client.coordinator import GROUP, find_coordinator
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.offset_commit import OffsetCommitResponse
from ottla.wire.errors import UNKNOWN_TOPIC_OR_PARTITION
from ottla.wire.schema import Message


class GroupCalls(AdminCalls):
    """The methods of `AsyncAdmin` about groups of all kinds and their offsets."""

    async def list_groups(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """Return the groups of all brokers, sorted by id. Without filters, return all of them.

        `states` are Kafka's names: Stable, Empty … (KIP-518). `types` are classic, consumer, share and streams (KIP-848).
        """
        return await groups.list_groups(self._cluster, arguments.several("states", states), arguments.several("types", types))

    async def _request_coordinator(self, group_id: str, body: Message, read: Callable[[Response], Result]) -> Result:
        """Return the result of `read` for the coordinator's answer. Retry while the request or `read` raises a retriable error."""
        arguments.text("A group's id", group_id)

        async def attempt() -> Result:
            await self._refresh()
            node_id = await find_coordinator(self._cluster, group_id, GROUP)
            return read(await self._cluster.request(node_id, body))

        return await self._cluster.retry(attempt)

    async def describe_group(self, group_id: str) -> GroupDescription:
        """Return the state and the members of a group of any kind. A group that does not exist has the state Dead."""
        return (await self.describe_groups(group_id))[group_id]

    async def describe_groups(self, *group_ids: str) -> dict[str, GroupDescription]:
        """Return the states and the members of groups by id: classic, consumer (KIP-848), share and streams groups.

        A group that does not exist has the state Dead.
        """
        return await groups.describe_groups(self._cluster, arguments.names("A group's id", group_ids))

    async def list_group_offsets(self, group_id: str, *, require_stable: bool = True) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that a group has committed.

        With `require_stable`, wait for transactions that are committing offsets (KIP-447).
        """
        return (await self.list_offsets_of_groups(group_id, require_stable=require_stable))[group_id]

    async def list_offsets_of_groups(
        self, *group_ids: str, require_stable: bool = True
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Return the offsets that groups have committed, by group id. `require_stable` is that of `list_group_offsets`."""
        names = arguments.names("A group's id", group_ids)
        return await groups.fetch_offsets(self._cluster, names, require_stable=require_stable)

    async def list_share_group_offsets(self, *group_ids: str) -> dict[str, dict[TopicPartition, ShareOffset]]:
        """Return the positions of share groups by group id and partition, with their lag (KIP-932; the lag since Kafka 4.2)."""
        return await groups.share_offsets(self._cluster, arguments.names("A group's id", group_ids))

    async def alter_group_offsets(self, group_id: str, offsets: Mapping[Place, OffsetAndMetadata | int]) -> None:
        """Commit offsets, by (topic, partition), for a group without members, whose consumers then continue from them.

        Raises `BrokerError` (UNKNOWN_MEMBER_ID) for a group that has members, and `UnknownTopic` before anything is committed.
        """
        wanted = committable(offsets)

        def check(answer: OffsetCommitResponse) -> None:
            for where, code in read_commit(answer):
                raise_for(code, f"Committing {where.topic}-{where.partition} for group {group_id}")

        arguments.text("A group's id", group_id)
        await self._cluster.confirm(sorted({where.topic for where in wanted}))
        for where in wanted:
            if not self._cluster.metadata.has(*where):
                raise_for(UNKNOWN_TOPIC_OR_PARTITION, f"Committing {where.topic}-{where.partition} for group {group_id}")
        await self._request_coordinator(group_id, commit_request(ConsumerGroupMetadata(group_id), wanted), check)

    async def delete_groups(self, *group_ids: str) -> None:
        """Delete groups that have no members, with their committed offsets (KIP-229).

        Raises `BrokerError`, such as NON_EMPTY_GROUP for a group that has members.
        """
        for group_id in arguments.names("A group's id", group_ids):
            await self._request_coordinator(group_id, DeleteGroupsRequest(groups_names=[group_id]), group_requests.check_groups)

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[tuple[str, int]]) -> None:
        """Delete committed offsets of a group that does not subscribe to their topics (KIP-496, Kafka 2.4).

        Raises `BrokerError`, such as GROUP_SUBSCRIBED_TO_TOPIC or GROUP_ID_NOT_FOUND.
        """
        request = group_requests.delete_offsets_request(group_id, places(partitions))
        await self._request_coordinator(group_id, request, partial(group_requests.check_deleted_offsets, group_id=group_id))

    async def remove_members(self, group_id: str, members: Iterable[str] | None, *, reason: str | None = None) -> list[GroupMember]:
        """Remove members from a classic or consumer group by member ids or instance ids (None: all). Return these members.

        A consumer that still runs joins again. Raises `BrokerError` (UNKNOWN_MEMBER_ID) before any is removed.
        """
        names = None if members is None else arguments.names("A member's id", arguments.several("members", members))
        arguments.text("A group's id", group_id)
        return await self._cluster.retry(lambda: groups.remove_members(self._cluster, group_id, names, reason))
