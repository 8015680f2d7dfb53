"""Descriptions of groups of any kind in slices, because a group can have thousands of members.

Of a kind of groups it knows the messages, the topics in a description and the size of a member. Coordinators describe the groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from functools import partial
from typing import Any, NamedTuple, TypeVar

from ottla.broker.coordination.groups import GroupShards
from ottla.broker.security.rights import Rights
from ottla.broker.serving.authorization import Operation, Resource
from ottla.broker.serving.parts import ResponseWriter, by_weight
from ottla.broker.serving.purgatory import Purgatory, Reply
from ottla.broker.serving.request import Peer, Request
from ottla.ports import Steps
from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from ottla.wire.api.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.api.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from ottla.wire.api.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from ottla.wire.errors import TOPIC_AUTHORIZATION_FAILED, UNSUPPORTED_VERSION
from ottla.wire.schema import Message

MEMBERS = ("groups", "members")
PIECE_BYTES = 256 << 10
MEMBER_BYTES = 1000
"""Bytes of members written in one step, and the fixed size of a member without its lists and metadata."""

DESCRIBED_BYTES = 1 << 20
"""Size of members described in one step, in bytes: about a millisecond."""

Asked = TypeVar(
    "Asked", DescribeGroupsRequest, ConsumerGroupDescribeRequest, ShareGroupDescribeRequest, StreamsGroupDescribeRequest
)
AskedById = TypeVar("AskedById", ConsumerGroupDescribeRequest, ShareGroupDescribeRequest, StreamsGroupDescribeRequest)
Described = TypeVar(
    "Described",
    DescribeGroupsResponse.DescribedGroup,
    ConsumerGroupDescribeResponse.DescribedGroup,
    ShareGroupDescribeResponse.DescribedGroup,
    StreamsGroupDescribeResponse.DescribedGroup,
)


def with_operations(groups: list[Described], peer: Peer, rights: Rights, *, included: bool) -> list[Described]:
    """Return the groups. If `included`, set the client's authorized operations in each existing group."""
    for group in groups:
        if included and not group.error_code:
            group.authorized_operations = rights.operations(peer, Resource.GROUP, group.group_id)
    return groups


class DescribedKind(NamedTuple):
    """The messages that describe one kind of groups, and the topics of a description, which a client must be allowed to describe.

    `hidden` is the error message in place of a group with other topics.
    """

    request: Callable[..., Message]
    response: Callable[..., Message]
    group: Callable[..., Any]
    topics_of: Callable[[Any], Iterable[str]]
    hidden: str = "The group reads topics that you may not describe: add ACLs for DESCRIBE on them."

    def refuse(self, group_id: str) -> Any:
        """Return the description of a group whose kind is not served."""
        return self.group(group_id=group_id, error_code=UNSUPPORTED_VERSION)

    def show(self, group: Any, may_describe: Mapping[str, bool]) -> Any:
        """Return a description, or an error and no members if the client may not describe one of its topics."""
        if all(may_describe[name] for name in self.topics_of(group)):
            return group
        return self.group(group_id=group.group_id, error_code=TOPIC_AUTHORIZATION_FAILED, error_message=self.hidden)


def describe_by_kind(
    request: Request[AskedById], kind: DescribedKind, groups: GroupShards, purgatory: Purgatory, rights: Rights, *, is_served: bool
) -> Steps[Reply]:
    """Describe groups of one kind, a few at a time by the size of their members, as far as the client may see them."""

    def combine(messages: list[Any]) -> Message:
        described = [group for message in messages for group in message.groups]
        if not rights.is_open:
            may_describe = rights.answers(request.peer, Operation.DESCRIBE, Resource.TOPIC)
            described = [kind.show(group, may_describe) for group in described]
        asks = request.body.include_authorized_operations
        return kind.response(groups=with_operations(described, request.peer, rights, included=asks))

    def describe(names: list[str]) -> Reply:
        if not is_served:
            return kind.response(groups=list(map(kind.refuse, names)))
        return groups.request_several(((name, kind.request(group_ids=[name])) for name in names), request, combine)

    writer = ResponseWriter(request, MEMBERS, kind.response())
    return (yield from described_slowly(request, lambda body: body.group_ids, groups, purgatory, writer, describe))


def described_slowly(
    request: Request[Asked],
    names_in: Callable[[Asked], list[str]],
    groups: GroupShards,
    purgatory: Purgatory,
    writer: ResponseWriter,
    describe: Callable[[list[str]], Reply],
) -> Steps[Reply]:
    """Describe the requested groups with `describe`, a few at a time, and write all results into one response."""
    for part in writer.admit(request):
        for names in by_weight(names_in(part.body), partial(_weight, groups), DESCRIBED_BYTES):
            described = yield from purgatory.wait_for(describe(names))
            if not isinstance(described, Message):
                return described
            for group in described.groups:  # type: ignore[attr-defined]  # both responses have groups
                yield from writer.put(_pieces(type(described), group))
            if writer.is_too_large:
                break
    return writer.reply()


def _pieces(response: Callable[..., Message], group: Any) -> Iterator[Message]:
    """Yield several responses for one group, each with some of its members."""
    for members in by_weight(group.members, _SIZE_OF[type(group)], PIECE_BYTES):
        some = copy(group)
        some.members = members
        yield response(groups=[some])


def _size_of_classic(member: DescribeGroupsResponse.DescribedGroupMember) -> int:
    """Return the approximate size of a member in bytes, which bounds the time to describe it."""
    return MEMBER_BYTES + len(member.member_metadata) + len(member.member_assignment)


def _size_of_consumer(member: ConsumerGroupDescribeResponse.Member) -> int:
    """Return the approximate size of a consumer group's member in bytes."""
    held = (*member.assignment.topic_partitions, *member.target_assignment.topic_partitions)
    partitions = sum(len(topic.partitions) for topic in held)
    return MEMBER_BYTES + 100 * (len(held) + len(member.subscribed_topic_names)) + 40 * partitions


def _size_of_share(member: ShareGroupDescribeResponse.Member) -> int:
    """Return the approximate size of a share group's member in bytes."""
    held = member.assignment.topic_partitions
    partitions = sum(len(topic.partitions) for topic in held)
    return MEMBER_BYTES + 100 * (len(held) + len(member.subscribed_topic_names)) + 40 * partitions


def _size_of_streams(member: StreamsGroupDescribeResponse.Member) -> int:
    """Return the approximate size of a streams group's member in bytes."""
    kinds = (
        kind
        for given in (member.assignment, member.target_assignment)
        for kind in (given.active_tasks, given.standby_tasks, given.warmup_tasks)
    )
    return MEMBER_BYTES + sum(100 + 40 * len(each.partitions) for kind in kinds for each in kind)


_SIZE_OF: dict[type, Callable[[Any], int]] = {
    DescribeGroupsResponse.DescribedGroup: _size_of_classic,
    ConsumerGroupDescribeResponse.DescribedGroup: _size_of_consumer,
    ShareGroupDescribeResponse.DescribedGroup: _size_of_share,
    StreamsGroupDescribeResponse.DescribedGroup: _size_of_streams,
}


def _weight(groups: GroupShards, name: str) -> int:
    """Return the size of a group's members in bytes; 0 if the group has no coordinator here."""
    machine = groups.machine_of(name)
    return 0 if machine is None else machine.weight_of(name)
