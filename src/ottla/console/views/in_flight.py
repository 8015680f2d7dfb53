"""Records in flight of share groups: which member holds them, how often they were delivered, and when their lock ends.

No request of Kafka's clients returns them. A console in the process of a broker reads them there, for the partitions that this
broker leads, and for the groups and topics that the visitor may describe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.client.admin.groups import GroupDescription, GroupMember
from ottla.client.connection.metadata import NO_LEADER, TopicInfo
from ottla.client.types import TopicPartition
from ottla.console.cluster_session import ClusterSession
from ottla.console.declarations import PageRefused
from ottla.console.rows import Pages, cut, sorted_by
from ottla.errors import KafkaError
from ottla.share.cells import ACQUIRED, ARCHIVED, AVAILABLE
from ottla.share.in_flight_rows import STATES, GroupInFlight, InFlightQuery, InFlightRow

ELSEWHERE: Final = (
    "Only the broker that leads a partition knows its records in flight, and no request of Kafka's clients returns them: "
    "open the console of an Ottla broker itself (ottla serve --console)."
)
UNSURE: Final = "The records in flight are shown only while the group can be described."
LAST_ATTEMPT, ONE_LEFT, LIMIT_REACHED = "last attempt", "one attempt left", "limit reached"
NO_MEMBER, OVERDUE = "left the group", "lock is over"
PLACE: Final = "place"
NAMED_BROKERS: Final = 5


@dataclass(frozen=True, slots=True)
class InFlightRecords:
    """Neighbouring records of a partition in one state. `member` is the client and the host of `member_id`, empty without one.

    `lock_ms` is the remaining time of the lock. With `is_pending`, the state is not stored yet. `warning` is the reason why the
    records need attention: few deliveries are left, their lock has ended, or their member has left the group.
    """

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    records: int
    state: str
    is_pending: bool
    member_id: str
    member: str
    deliveries: int
    lock_ms: int | None
    warning: str


@dataclass(frozen=True, slots=True)
class RecordHolder:
    """A member with the number of records that it holds."""

    member_id: str
    member: str
    records: int


@dataclass(frozen=True, slots=True)
class RecordsInFlight:
    """The records in flight of a share group: a page of `rows`, and the filters that chose them.

    `acquired` counts the records that members hold, None if this console cannot read them. `matching` counts all runs that match,
    of which `found` can be sorted and shown. `notes` are sentences about what is missing.
    """

    is_known: bool
    acquired: int | None
    rows: list[InFlightRecords]
    place: Pages
    found: int
    matching: int
    delivery_count_limit: int
    holders: list[RecordHolder]
    state: str
    member: str
    deliveries: int
    sort: str
    states: list[str]
    notes: list[str]


class HeldRecords(NamedTuple):
    """The records that members hold, by partition and by member id; None where this console cannot read them."""

    by_partition: Mapping[TopicPartition, int] = {}
    by_member: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class InFlightChoice:
    """The filters, the order and the page of the records in flight on a group's page."""

    state: str
    member: str
    deliveries: int
    sort: str
    page: int


SORTS = {
    PLACE: lambda row: (row.topic, row.partition, row.first_offset),
    "records": lambda row: row.records,
    "state": lambda row: row.state,
    "member": lambda row: (row.member, row.member_id) if row.member_id else None,
    "deliveries": lambda row: row.deliveries,
    "lock": lambda row: row.lock_ms,
}


async def read_groups(
    cluster: ClusterSession, key: str, queries: Sequence[InFlightQuery]
) -> tuple[Mapping[str, GroupInFlight] | None, str]:
    """Return the records in flight of groups, None if this console cannot read them, and a sentence with the reason."""
    local = cluster.config.local_broker
    if local is None:
        return None, ELSEWHERE
    if not queries:
        return {}, ""
    part = await cluster.part(key, lambda admin: local.read_in_flight(queries))
    return part.value, part.trouble


async def read_records(
    cluster: ClusterSession, found: GroupDescription, places: Iterable[TopicPartition], choice: InFlightChoice, *, is_current: bool
) -> tuple[RecordsInFlight, HeldRecords]:
    """Return the records in flight of a group that the visitor may describe, and how many are held.

    `places` are the partitions that the visitor's own requests named. With `is_current`, the group was described just now.
    """
    if choice.state not in ("", *STATES.values()):
        raise PageRefused(400, f"{choice.state[:60]!r} is no state of records: choose one of {', '.join(STATES.values())}.")
    wanted = sorted(places)
    group = found.group_id
    query = InFlightQuery(group, topics_of(wanted), choice.state, choice.member, choice.deliveries)
    groups, sentence = await read_groups(cluster, f"in flight {group} {choice}", [query]) if is_current else (None, UNSURE)
    members = {each.member_id: each for each in found.members}
    own = GroupInFlight() if groups is None or group not in groups else groups[group]
    rows = [_row(each, own.delivery_count_limit, members) for each in own.rows]
    shown, place = cut(sorted_by(rows, choice.sort, SORTS), choice.page, len(rows))
    notes = [sentence]
    held = HeldRecords()
    if groups is not None:
        leaders = await _leaders(cluster)
        held = HeldRecords(leaders.count_held(own, wanted), own.held)
        idle = len(held.by_partition.keys() - own.acquired.keys() - own.failures.keys())
        notes += [leaders.sentence(), *_notes(own, idle)]
    records = RecordsInFlight(
        groups is not None,
        None if groups is None else sum(own.acquired.values()),
        shown,
        place,
        len(rows),
        own.matching,
        own.delivery_count_limit,
        sorted((RecordHolder(each, name_of(members.get(each)), count) for each, count in own.held.items()), key=_holder_order),
        choice.state,
        choice.member,
        choice.deliveries,
        choice.sort,
        list(STATES.values()),
        list(dict.fromkeys(filter(None, notes))),
    )
    return records, held


async def count_held(
    cluster: ClusterSession, groups: Mapping[str, Iterable[TopicPartition]]
) -> tuple[Mapping[str, int], list[str]]:
    """Return the records that members of groups hold now, as far as they are known, and sentences about the others.

    `groups` have the partitions that the visitor's own requests named.
    """
    places = {group: sorted(some) for group, some in groups.items()}
    queries = [InFlightQuery(group, topics_of(some), most_rows=0) for group, some in places.items() if some]
    found, sentence = await read_groups(cluster, f"in flight of {sorted(places)}", queries)
    if found is None:
        return {}, [sentence]
    leaders = await _leaders(cluster)
    counts = {}
    for group, some in places.items():
        if group in found and (held := leaders.count_held(found[group], some)):
            counts[group] = sum(held.values())
    return counts, list(filter(None, (sentence, leaders.sentence())))


class PartitionLeaders:
    """The partitions of the shown groups, divided into those that the console's broker leads and those of other leaders."""

    def __init__(self, node_id: int, topics: Mapping[str, TopicInfo]) -> None:
        self._node_id = node_id
        self._topics = topics
        self._own: set[TopicPartition] = set()
        self._others: dict[TopicPartition, int] = {}

    def count_held(self, found: GroupInFlight, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the records that members of a group hold in each partition that the console's broker leads."""
        held = {}
        for where in places:
            leader = self._leader(where)
            if leader == self._node_id:
                self._own.add(where)
                held[where] = found.acquired.get(where, 0)
            elif leader != NO_LEADER:
                self._others[where] = leader
        return held

    def _leader(self, where: TopicPartition) -> int:
        topic = self._topics.get(where.topic)
        return NO_LEADER if topic is None or where.partition not in topic.partitions else topic.partitions[where.partition].leader

    def sentence(self) -> str:
        """Return the sentence about partitions that other brokers lead; empty without any."""
        if not self._others:
            return ""
        ids = sorted(set(self._others.values()))
        named = ", ".join(map(str, ids[:NAMED_BROKERS])) + (" and others" if len(ids) > NAMED_BROKERS else "")
        return (
            f"Records in flight are known of {len(self._own)} partitions, which broker {self._node_id} leads, and not of "
            f"{len(self._others)} that are led by {'broker' if len(ids) == 1 else 'brokers'} {named}: "
            "open the console there, too (ottla serve --console)."
        )


async def _leaders(cluster: ClusterSession) -> PartitionLeaders:
    local = cluster.config.local_broker
    assert local is not None, "its records were read"
    try:
        return PartitionLeaders(local.node_id, await cluster.topics())
    except KafkaError:  # the other parts of the page say so
        return PartitionLeaders(local.node_id, {})


def _notes(found: GroupInFlight, idle: int) -> Iterable[str]:
    """Yield sentences about share partitions that are not shown, or not completely. No member fetches `idle` ones."""
    if idle:
        which = "1 partition" if idle == 1 else f"{idle} partitions"
        yield f"No member fetches records of {which} now: none is held there, and delivery counts are with the share coordinator."
    if found.failures:
        (topic, partition), name = next(iter(found.failures.items()))
        yield f"{len(found.failures)} partitions could not be loaded, such as {topic}-{partition} ({name}): see the broker's log."
    if found.unread:
        yield f"{found.unread} partitions have too many runs to read them all: what is shown of them is incomplete."


def _row(row: InFlightRow, limit: int, members: Mapping[str, GroupMember]) -> InFlightRecords:
    return InFlightRecords(
        row.topic,
        row.partition,
        row.first_offset,
        row.last_offset,
        row.last_offset - row.first_offset + 1,
        row.state,
        row.is_pending,
        row.member_id,
        name_of(members.get(row.member_id)),
        row.delivery_count,
        row.lock_ms,
        _warn_of(row, limit, members),
    )


def _warn_of(row: InFlightRow, limit: int, members: Mapping[str, GroupMember]) -> str:
    if row.state == STATES[ACQUIRED]:
        if row.lock_ms is not None and row.lock_ms < 0:
            return OVERDUE
        if row.member_id not in members:
            return NO_MEMBER
        if row.delivery_count >= limit:
            return LAST_ATTEMPT
    if row.state == STATES[ARCHIVED] and row.delivery_count >= limit:
        return LIMIT_REACHED
    if row.state in (STATES[ACQUIRED], STATES[AVAILABLE]) and 0 < limit - 1 <= row.delivery_count:
        return ONE_LEFT
    return ""


def topics_of(places: Iterable[TopicPartition]) -> frozenset[str]:
    """Return the topics of partitions."""
    return frozenset(where.topic for where in places)


def name_of(member: GroupMember | None) -> str:
    """Return a member's client id and host; empty without a member."""
    return "" if member is None else f"{member.client_id or member.member_id} on {member.client_host}"


def _holder_order(holder: RecordHolder) -> tuple[int, str, str]:
    return -holder.records, holder.member, holder.member_id
