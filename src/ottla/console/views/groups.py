"""Groups of all kinds: their states, members, offsets and lag.

A group of kind `simple` has offsets and no protocol: tools and streams committed them without being members. Spark's streams with
the option `groupId` are such groups, and mark their offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.admin.groups import (
    CLASSIC,
    DEAD,
    SHARE,
    GroupDescription,
    GroupListing,
    GroupMember,
    ShareOffset,
    StreamsTasks,
    Subtopology,
)
from ottla.client.admin.offset_targets import OFFSET, SHIFT, TIME
from ottla.client.types import LATEST_TIMESTAMP, OffsetAndMetadata, TopicPartition
from ottla.console.cluster_session import ClusterSession
from ottla.console.declarations import PageRefused
from ottla.console.rows import Pages, cut, filter_rows, sorted_by
from ottla.console.views.in_flight import PLACE, HeldRecords, InFlightChoice, RecordsInFlight, read_records
from ottla.console.views.queues import records_done
from ottla.errors import KafkaError

SIMPLE, SPARK = "simple", "spark"
SPARK_METADATA: Final = "ottla-spark"
"""The metadata of offsets that a stream of Spark commits."""
SPARK_PREFIXES: Final = ("spark-kafka-source-", "spark-kafka-relation-", "spark-executor-")
"""The beginnings of the group ids that Spark's own connector makes."""
WITHOUT_MEMBERS: Final = ("Empty", DEAD)
GROUP: Final = "/groups/{group}"
EARLIEST, LATEST = "earliest", "latest"
TARGETS: Final = (EARLIEST, LATEST, TIME, OFFSET, SHIFT)
NAMED_MEMBERS: Final = 5
MOST_PARTITIONS: Final = 2_000
"""The partitions of a group that one page shows, those with the largest lag first."""

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group. `members` is None before it was described, `lag` before it was sampled and if nothing is committed."""

    group: str
    kind: str
    state: str
    protocol_type: str
    members: int | None
    topics: list[str]
    lag: int | None


@dataclass(frozen=True, slots=True)
class GroupList:
    """A page of groups. `troubles` are sentences about brokers that have not answered."""

    groups: list[GroupRow]
    place: Pages
    q: str
    sort: str
    kind: str
    kinds: list[str]
    troubles: list[str]


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member. `assignment` maps topics to partitions. `epoch` is -1 in a classic group.

    `tasks` maps the kinds of a streams member's tasks, such as standby, to the partitions of each subtopology, and `target_tasks`
    those to which the coordinator moves it, if they differ. `task_lags` are the records by which the state of a task, such as 1_0,
    is behind. `endpoint` is the address for interactive queries. `in_flight` counts the records that a share group's member holds,
    and is None where they are unknown.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int
    rack: str | None
    protocol: str
    assignment: dict[str, list[int]]
    target: dict[str, list[int]]
    partitions: int
    lag: int | None
    in_flight: int | None
    tasks: dict[str, dict[str, list[int]]]
    target_tasks: dict[str, dict[str, list[int]]]
    task_lags: dict[str, int]
    endpoint: str
    process_id: str
    client_tags: dict[str, str]


@dataclass(frozen=True, slots=True)
class SubtopologyRow:
    """A part of the topology of a streams group, with the topics that it reads, writes, and keeps its state in."""

    subtopology: str
    sources: list[str]
    repartition_sources: list[str]
    repartition_sinks: list[str]
    changelogs: list[str]


@dataclass(frozen=True, slots=True)
class GroupPartition:
    """A partition that a group reads or has read. Offsets are None if they are unknown; `reader` is a client id and a host.

    `committed` is the start offset of a share group, `done` the number of records after it that are acknowledged, and `in_flight`
    the number that members hold now.
    """

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    reader: str
    metadata: str
    done: int | None
    in_flight: int | None


@dataclass(frozen=True, slots=True)
class GroupDetails:
    """One group with its members and partitions. `partition_count` counts all partitions, also those that are not shown.

    `in_flight` has the records of a share group that members hold, or that are acknowledged early; None for other groups.
    """

    group: str
    kind: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: int
    epoch: int
    assignment_epoch: int
    members: list[MemberRow]
    partitions: list[GroupPartition]
    partition_count: int
    lag: int | None
    topics: list[str]
    troubles: list[str]
    targets: list[str]
    topology: list[SubtopologyRow]
    in_flight: RecordsInFlight | None


def kind_of(group_id: str, group_type: str, protocol_type: str, metadata: str) -> str:
    """Return the kind of a group: that of Kafka, simple for offsets without a protocol, spark for those of Spark's connector."""
    if group_id.startswith(SPARK_PREFIXES) or metadata == SPARK_METADATA:
        return SPARK
    if group_type in ("", CLASSIC):
        return CLASSIC if protocol_type else SIMPLE
    return group_type


SORTS = {
    "group": lambda row: row.group,
    "kind": lambda row: row.kind,
    "state": lambda row: row.state,
    "lag": lambda row: row.lag,
    "topics": lambda row: len(row.topics),
}


async def groups(cluster: ClusterSession, q: str = "", sort: str = "group", page: int = 1, kind: str = "") -> GroupList:
    """Return a page of groups, filtered by a part of their ids and by kind, and sorted by a column."""
    listed = await cluster.part("groups", lambda admin: admin.list_groups(check=False))
    samples = await cluster.read_samples()
    found: list[GroupListing] = list(listed.value or ())
    rows = [
        GroupRow(
            each.group_id,
            kind_of(each.group_id, each.group_type, each.protocol_type, samples.metadata.get(each.group_id, "")),
            each.state,
            each.protocol_type,
            None,
            sorted({where.topic for where in samples.committed.get(each.group_id, ())}),
            samples.lag(each.group_id),
        )
        for each in found
    ]
    kinds = sorted({row.kind for row in rows})
    matching = [row for row in filter_rows(rows, q, lambda row: row.group) if kind in ("", row.kind)]
    on_page, place = cut(sorted_by(matching, sort, SORTS), page, len(rows))
    ids = [row.group for row in on_page]
    described = await cluster.part(f"members {ids}", lambda admin: admin.describe_groups(*ids, check=False)) if ids else None
    known: Mapping[str, GroupDescription] = described.value if described is not None and described.value is not None else {}
    troubles = [listed.trouble, described.trouble if described is not None else "", samples.troubles.get("groups", "")]
    if listed.value is not None:
        troubles += [str(error) for error in listed.value.errors.values()]
    return GroupList([_with_members(row, known.get(row.group)) for row in on_page], place, q, sort, kind, kinds, _said(troubles))


def _with_members(row: GroupRow, found: GroupDescription | None) -> GroupRow:
    if found is None:
        return row
    topics = row.topics or sorted({where.topic for member in found.members for where in member.assignment})
    return GroupRow(row.group, row.kind, found.state or row.state, row.protocol_type, len(found.members), topics, row.lag)


def _said(troubles: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(filter(None, troubles)))


async def group(
    cluster: ClusterSession,
    group: str,
    state: str = "",
    member: str = "",
    deliveries: int = 0,
    sort: str = PLACE,
    page: int = 1,
) -> GroupDetails:
    """Return one group with its members, and the lag of its partitions now.

    The records in flight of a share group can be chosen by state, by member id and by the least number of deliveries, and sorted.
    """
    part = await cluster.part(f"group {group}", lambda admin: admin.describe_group(group), is_needed=True)
    found = part.value
    assert found is not None, "an error was raised without an answer"
    if found.state == DEAD and not found.members:
        raise PageRefused(404, f"There is no group {group}: it was deleted, or its offsets have expired.")
    committed, share_lag, offsets_trouble = await _read_committed(cluster, found)
    readers = _readers(found.members)
    wanted = sorted(committed.keys() | readers.keys())
    ends, ends_trouble = await _ends(cluster, wanted)
    records, held = None, HeldRecords()
    if found.group_type == SHARE:
        choice = InFlightChoice(state, member, deliveries, sort, page)
        records, held = await read_records(cluster, found, wanted, choice, is_current=not part.trouble)
    rows = [
        _partition(where, committed.get(where), share_lag.get(where), ends.get(where), readers.get(where, ()), held)
        for where in wanted
    ]
    metadata = next((each.metadata for each in committed.values() if each.metadata), "")
    kind = kind_of(group, found.group_type, found.protocol_type, metadata)
    return _details(found, kind, rows, held, records, _said((part.trouble, offsets_trouble, ends_trouble)))


def _details(
    found: GroupDescription,
    kind: str,
    rows: list[GroupPartition],
    held: HeldRecords,
    records: RecordsInFlight | None,
    troubles: list[str],
) -> GroupDetails:
    known = [max(row.lag, 0) for row in rows if row.lag is not None]
    lags = {(row.topic, row.partition): row.lag for row in rows}
    return GroupDetails(
        found.group_id,
        kind,
        found.state,
        found.protocol_type,
        found.protocol,
        found.coordinator_id,
        found.group_epoch,
        found.assignment_epoch,
        [_member(each, found.group_type, lags, held) for each in found.members],
        _with_most_lag(rows),
        len(rows),
        sum(known) if known else None,
        sorted({row.topic for row in rows}),
        troubles,
        list(TARGETS),
        [_subtopology(each) for each in found.topology],
        records,
    )


def _readers(members: Iterable[GroupMember]) -> dict[TopicPartition, list[GroupMember]]:
    """Return the members that each partition is assigned to."""
    readers: dict[TopicPartition, list[GroupMember]] = {}
    for member in members:
        for where in member.assignment:
            readers.setdefault(where, []).append(member)
    return readers


def _with_most_lag(rows: list[GroupPartition]) -> list[GroupPartition]:
    """Return at most `MOST_PARTITIONS` rows, in order: those with the largest lags."""
    if len(rows) <= MOST_PARTITIONS:
        return rows
    largest = sorted(rows, key=lambda row: -(row.lag or 0))[:MOST_PARTITIONS]
    return sorted(largest, key=lambda row: (row.topic, row.partition))


def _subtopology(part: Subtopology) -> SubtopologyRow:
    named = (part.source_topics, part.repartition_source_topics, part.repartition_sink_topics, part.changelog_topics)
    return SubtopologyRow(part.subtopology_id, *map(sorted, named))


async def _read_committed(
    cluster: ClusterSession, found: GroupDescription
) -> tuple[Mapping[TopicPartition, OffsetAndMetadata], dict[TopicPartition, int], str]:
    """Return the committed offsets of a group, the lag that a broker counts for a share group, and a sentence after a failure."""
    group = found.group_id
    if found.group_type != SHARE:
        part = await cluster.part(f"offsets {group}", lambda admin: admin.list_group_offsets(group, require_stable=False))
        return part.value or {}, {}, part.trouble
    shared = await cluster.part(f"offsets {group}", lambda admin: admin.list_share_group_offsets(group))
    positions: Mapping[TopicPartition, ShareOffset] = {} if shared.value is None else shared.value.get(group, {})
    known = {where: OffsetAndMetadata(each.start_offset) for where, each in positions.items() if each.start_offset >= 0}
    return known, {where: each.lag for where, each in positions.items() if each.lag >= 0}, shared.trouble


async def _ends(cluster: ClusterSession, partitions: Iterable[TopicPartition]) -> tuple[Offsets, str]:
    """Return the next offsets of partitions that exist and have a leader, and a sentence after a failure."""
    try:
        topics = await cluster.topics()
    except KafkaError as error:
        return {}, str(error)
    led = [where for where in partitions if has_leader(topics, where)]
    if not led:
        return {}, ""
    part = await cluster.part(
        f"ends {hash(tuple(led))}", lambda admin: admin.list_offsets(dict.fromkeys(led, LATEST_TIMESTAMP), check=False)
    )
    return {where: each.offset for where, each in (part.value or {}).items()}, part.trouble


def has_leader(topics: Mapping[str, object], where: TopicPartition) -> bool:
    partitions = getattr(topics.get(where.topic), "partitions", {})
    return where.partition in partitions and partitions[where.partition].leader >= 0


def _partition(
    where: TopicPartition,
    committed: OffsetAndMetadata | None,
    counted: int | None,
    end: int | None,
    readers: Sequence[GroupMember],
    held: HeldRecords,
) -> GroupPartition:
    """Return a row. `counted` is the lag that a broker counts for a share group, whose members read a partition together."""
    lag = counted
    if lag is None and committed is not None and end is not None:
        lag = end - committed.offset
    offset, metadata = (None, "") if committed is None else (committed.offset, committed.metadata or "")
    done = None if counted is None or offset is None else records_done(offset, end, counted)
    names, in_flight = _names_of(readers), held.by_partition.get(where)
    return GroupPartition(where.topic, where.partition, offset, end, lag, names, metadata[:200], done, in_flight)


def _names_of(readers: Sequence[GroupMember]) -> str:
    more = f" and {len(readers) - NAMED_MEMBERS} more" if len(readers) > NAMED_MEMBERS else ""
    return ", ".join(map(member_name, readers[:NAMED_MEMBERS])) + more


def member_name(member: GroupMember) -> str:
    return f"{member.group_instance_id or member.client_id or member.member_id} on {member.client_host}"


def _member(each: GroupMember, group_type: str, lags: Mapping[tuple[str, int], int | None], held: HeldRecords) -> MemberRow:
    own = [lag for where in each.assignment if (lag := lags.get((where.topic, where.partition))) is not None]
    details = each.streams
    return MemberRow(
        each.member_id,
        each.group_instance_id,
        each.client_id,
        each.client_host,
        each.member_epoch,
        each.rack_id,
        CLASSIC if each.is_classic else group_type,
        _by_topic(each.assignment),
        _by_topic(each.target_assignment),
        len(each.assignment),
        sum(max(lag, 0) for lag in own) if own else None,
        None if held.by_member is None else held.by_member.get(each.member_id, 0),
        _tasks_of(each.tasks),
        {} if details is None or details.target_tasks == each.tasks else _tasks_of(details.target_tasks),
        {} if details is None else {f"{name}_{index}": lag for (name, index), lag in details.task_lags.items()},
        "" if details is None else details.endpoint,
        "" if details is None else details.process_id,
        {} if details is None else details.client_tags,
    )


def _tasks_of(tasks: StreamsTasks | None) -> dict[str, dict[str, list[int]]]:
    """Return the tasks of each kind, without kinds that have none."""
    return {} if tasks is None else {kind: some for kind, some in tasks._asdict().items() if some}


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for where in sorted(partitions):
        found.setdefault(where.topic, []).append(where.partition)
    return found
