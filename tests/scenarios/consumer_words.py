"""What plays say of consumer groups (KIP-848): inputs as their words, records and replies as text.

topic orders has 4 partitions
ada enters g v1 topics=orders,paid pattern=o.* assignor=range rack=r1 instance=i1 rebalance=30s
ada lives g owns=orders-0,orders-1 topics=paid       (owns= alone: nothing; without it, nothing is said)
ada goes g / ada pauses g                            (for good; for a while, as a static member)
op looks g                                           (ConsumerGroupDescribe)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.coord.consumer import records as consumer
from ottla.coord.consumer.assign import TopicShape
from ottla.coord.consumer.topics import KnownTopic
from ottla.coord.member_checks import JOINING_EPOCH, LEAVING_EPOCH, STATIC_LEAVING_EPOCH
from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeResponse
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

EPOCHS = {"enters": JOINING_EPOCH, "goes": LEAVING_EPOCH, "pauses": STATIC_LEAVING_EPOCH}
TOMBSTONES: dict[type, str] = {
    consumer.TargetEpochForgotten: "target epoch",
    consumer.OldMetadataForgotten: "metadata of old",
}


def topic_id(name: str) -> bytes:
    """Ids in plays are names, so that they can be read."""
    return name.encode().ljust(16, b"\0")


def topic_name(of: bytes) -> str:
    return of.rstrip(b"\0").decode()


def topic(name: str, partitions: int) -> KnownTopic:
    return KnownTopic(name, topic_id(name), TopicShape(partitions))


def heartbeat(options: Mapping[str, str], group: str, identity: Mapping[str, Any], epoch: int, timeout_ms: int) -> Any:
    """The request of a heartbeat that says what these options say."""
    owned = None
    if "owns" in options:
        held = [place.rsplit("-", 1) for place in options["owns"].split(",") if place]
        by_topic: dict[str, list[int]] = {}
        for name, index in held:
            by_topic.setdefault(name, []).append(int(index))
        part = ConsumerGroupHeartbeatRequest.TopicPartitions
        owned = [part(topic_id=topic_id(name), partitions=indexes) for name, indexes in by_topic.items()]
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=identity["member_id"],
        instance_id=identity["group_instance_id"],
        member_epoch=epoch,
        rack_id=options.get("rack"),
        rebalance_timeout_ms=timeout_ms,
        subscribed_topic_names=[name for name in options["topics"].split(",") if name] if "topics" in options else None,
        subscribed_topic_regex=options.get("pattern"),
        server_assignor=options.get("assignor"),
        topic_partitions=owned,
    )


def places(held: Mapping[bytes, Iterable[int]]) -> str:
    shown = [f"{topic_name(of)}-{index}" for of in sorted(held) for index in sorted(held[of])]
    return " ".join(shown) or "nothing"


def shown_stored(record: consumer.ConsumerStored) -> str:
    """A record of a consumer group; members and targets by what changed."""
    name = type(record).__name__
    if name.endswith("Forgotten"):
        return f"no {TOMBSTONES.get(type(record), name.removesuffix('Forgotten').lower())} {' '.join(map(str, record))}"
    if isinstance(record, consumer.EpochStored):
        return f"epoch {record.group_id}: {record.epoch}" + ("" if record.metadata_hash else ", no topics")
    if isinstance(record, consumer.TargetEpochStored):
        return f"target epoch {record.group_id}: {record.epoch}"
    if isinstance(record, consumer.TargetStored):
        return f"target {record.group_id} {record.member_id}: {places(record.partitions)}"
    if isinstance(record, consumer.CurrentStored):
        return shown_current(record)
    if isinstance(record, consumer.PatternStored):
        return f"pattern {record.group_id} {record.pattern}: {' '.join(sorted(record.topics)) or 'nothing'}"
    assert isinstance(record, consumer.MemberStored)
    return shown_member(record)


def shown_current(record: consumer.CurrentStored) -> str:
    epochs = f"epoch {record.previous_epoch} -> {record.epoch}"
    gives = f", gives back {places(record.revoking)}" if record.revoking else ""
    return f"current {record.group_id} {record.member_id}: {epochs}, {record.state.name}, has {places(record.assigned)}{gives}"


def shown_member(record: consumer.MemberStored) -> str:
    wants = ",".join(sorted(record.topics)) or "no topic"
    more = {"pattern": record.pattern, "instance": record.instance_id, "rack": record.rack_id, "assignor": record.assignor}
    said = "".join(f", {name} {value}" for name, value in more.items() if value)
    return f"member {record.group_id} {record.member_id}: {wants}{said}{', classic' if record.classic else ''}"


def shown_heartbeat(message: ConsumerGroupHeartbeatResponse) -> str:
    told = f"{message.member_id} at epoch {message.member_epoch}"
    if message.assignment is None:
        return told
    return f"{told}, has {places({held.topic_id: held.partitions for held in message.assignment.topic_partitions})}"


def shown_described(message: ConsumerGroupDescribeResponse) -> str:
    group = message.groups[0]
    if group.error_code:
        return f"{group.error_message}"
    members = "; ".join(sorted(_described(member) for member in group.members)) or "nobody"
    epochs = f"epoch {group.group_epoch}, assigned {group.assignment_epoch} by {group.assignor_name}"
    return f"{group.group_state}, {epochs}: {members}"


def _described(member: ConsumerGroupDescribeResponse.Member) -> str:
    has, shall = (
        places({held.topic_id: held.partitions for held in assignment.topic_partitions})
        for assignment in (member.assignment, member.target_assignment)
    )
    kind = "" if member.member_type else " (classic)"
    return f"{member.member_id}{kind} at {member.member_epoch} has {has}" + ("" if has == shall else f", shall have {shall}")
