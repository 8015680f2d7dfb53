"""What must be true of groups whatever happens, written down as it happens: a violation raises `Violation` with its name.

one owner            no partition is held by two live members that the coordinator both knows
commits stay         what was acknowledged is what is read, or something younger; also after a power cut
commits grow         acknowledged offsets of a partition never go back, but by a commit that its sender's next has overtaken
the fenced are deaf  nothing is committed for a member that was told it is no member any more
all are read         when things are quiet, every partition has one member, and it is alive
soon settled         a group is quiet within a bounded number of heartbeats once nothing disturbs it any more
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, Protocol

from ottla.client.types import TopicPartition
from ottla.coord.group_machine import GroupMachine
from ottla.coord.streams.group import StreamsGroup
from ottla.wire import errors as codes
from ottla.wire.api.offset_commit import OffsetCommitRequest
from tests.sim.seeds import Violation

GONE = frozenset({codes.UNKNOWN_MEMBER_ID, codes.FENCED_INSTANCE_ID})
"""Answers that end a membership."""

QUIET = frozenset({"Stable", "Empty"})
"""The states of a group of any kind that waits for nothing."""

UNSURE = frozenset({codes.NOT_COORDINATOR, codes.COORDINATOR_NOT_AVAILABLE, codes.REQUEST_TIMED_OUT})
"""Answers that may be given to a commit which is stored all the same."""


class GroupReader(Protocol):
    """A client process, as the ledger sees it. `generation` is None for the consumer protocol."""

    group_id: str
    name: str
    alive: bool

    @property
    def member_id(self) -> str: ...

    @property
    def generation(self) -> int | None: ...


class CoordinatorView(Protocol):
    """The broker, or the brokers, that a ledger looks at."""

    def coordinators(self) -> list[GroupMachine]:
        """The coordinators of loaded offsets partitions."""
        ...


class Seat(NamedTuple):
    """A member as the coordinator knows it at one time: a classic member gets a new one with every generation."""

    group_id: str
    member_id: str
    generation: int


class Commit(NamedTuple):
    """An offset sent to be committed; tickets grow in the order in which the broker receives them.

    One that is `overtaken` came to the broker after what its sender sent later: over another connection, as nothing but a
    connection has an order. The broker cannot know.
    """

    seat: Seat
    where: TopicPartition
    ticket: int
    offset: int
    overtaken: bool


class OffsetHistory:
    """What may be committed for one partition: `acknowledged` is the newest answered commit, those in `open` came after it.

    `ticket` is that of the acknowledged one.
    """

    def __init__(self) -> None:
        self.acknowledged = -1
        self.ticket = -1
        self.open: dict[int, int] = {}


class GroupLedger:
    """Everything that was observed. The module's docstring names the violations."""

    def __init__(self, brokers: CoordinatorView, *, remembers_fenced: bool = True) -> None:
        """Unless it `remembers_fenced` members, they may be in again: a coordinator may not know yet that it has moved."""
        self._brokers = brokers
        self._remembers_fenced = remembers_fenced
        self._holders: dict[tuple[str, TopicPartition], list[GroupReader]] = {}
        self._offsets: dict[tuple[str, TopicPartition], OffsetHistory] = {}
        self._gone: dict[Seat, bool] = {}
        self._tickets = 0
        self._sent = 0
        self._newest: dict[tuple[str, str], int] = {}
        self.commits = 0
        self.refused = 0
        self.taken = 0

    def take(self, reader: GroupReader, partitions: Iterable[TopicPartition]) -> None:
        """Note that a member begins to read these."""
        for where in partitions:
            self.taken += 1
            self._holders.setdefault((reader.group_id, where), []).append(reader)
            self._check_holders(reader.group_id, where)

    def give(self, reader: GroupReader, partitions: Iterable[TopicPartition]) -> None:
        """Note that a member stops reading these."""
        for where in partitions:
            holders = self._holders.get((reader.group_id, where), [])
            if reader in holders:
                holders.remove(reader)

    def check(self) -> None:
        """Check all partitions: two members may have come to read the same one while the broker was down."""
        for group_id, where in self._holders:
            self._check_holders(group_id, where)

    def holders(self, group_id: str, where: TopicPartition) -> list[GroupReader]:
        """List the live processes that read a partition."""
        return [reader for reader in self._holders.get((group_id, where), []) if reader.alive]

    def _check_holders(self, group_id: str, where: TopicPartition) -> None:
        holders = self.holders(group_id, where)
        if len(holders) > 1:
            known = [reader.name for reader in holders if self._is_known(reader)]
            if len(known) > 1:
                raise Violation(f"one owner: {named(where)} of group {group_id} is read by {' and '.join(known)}")

    def _is_known(self, reader: GroupReader) -> bool:
        return any(knows(machine, reader) for machine in self._brokers.coordinators())

    def sending(self, reader: GroupReader) -> Callable[[Any], Any]:
        """Note a commit that leaves its sender; the returned function takes it when a broker receives it, as `committing` does."""
        self._sent += 1
        return partial(self.committing, reader, sent=self._sent)

    def committing(self, reader: GroupReader, body: OffsetCommitRequest, *, sent: int = 0) -> Any:
        """Note a commit that the broker received, the `sent`-th of all; the returned function takes its answer."""
        lasting = reader.generation is None
        self._tickets += 1
        ticket = self._tickets
        seat = Seat(body.group_id, body.member_id, body.generation_id_or_member_epoch)
        newest = self._newest.get(seat[:2], 0)
        self._newest[seat[:2]] = max(newest, sent)
        overtaken = sent < newest
        offered = {
            TopicPartition(topic.name, part.partition_index): part.committed_offset
            for topic in body.topics
            for part in topic.partitions
        }
        for where, offset in offered.items():
            self._offsets.setdefault((body.group_id, where), OffsetHistory()).open[ticket] = offset

        def answered(response: Any) -> None:
            if response is not None:
                for topic in response.topics:
                    for part in topic.partitions:
                        where = TopicPartition(topic.name, part.partition_index)
                        self._answered(Commit(seat, where, ticket, offered[where], overtaken), part.error_code, lasting)

        return answered

    def _answered(self, commit: Commit, error_code: int, lasting: bool) -> None:
        if not error_code:
            self._committed(commit)
            return
        if error_code not in UNSURE:
            self._offsets[commit.seat.group_id, commit.where].open.pop(commit.ticket, None)
        self.refused += 1
        if error_code in GONE:
            self.told_gone(commit.seat, lasting=lasting)

    def _committed(self, commit: Commit) -> None:
        seat, where, ticket, offset, overtaken = commit
        found = self._offsets[seat.group_id, where]
        self.commits += 1
        if seat in self._gone:
            raise Violation(f"the fenced are deaf: {seat} was fenced, and yet committed {offset} for {named(where)}")
        if ticket < found.ticket:  # a broker stood still with the answer, and another has taken its place
            return
        if offset < found.acknowledged and not overtaken:
            raise Violation(
                f"commits grow: {named(where)} of {seat.group_id} had {found.acknowledged} and has {offset} by {seat.member_id}"
            )
        found.acknowledged, found.ticket = offset, ticket
        found.open = {later: value for later, value in found.open.items() if later > ticket}

    def told_gone(self, seat: Seat, *, lasting: bool) -> None:
        """Note an answer that ends a membership. The broker's log remembers this for members of the consumer protocol only."""
        if self._remembers_fenced:
            self._gone[seat] = lasting

    def admitted(self, group_id: str, member_id: str, epoch: int) -> None:
        """Note that a coordinator took a member in at an epoch: an empty group begins anew, and comes to former epochs again."""
        self._gone = {
            seat: lasting for seat, lasting in self._gone.items() if seat[:2] != (group_id, member_id) or seat.generation < epoch
        }

    def broker_died(self) -> None:
        """Forget what the dead broker had not stored: a classic member that was out may be in again, with its generation."""
        self._gone = {seat: lasting for seat, lasting in self._gone.items() if lasting}

    def read(self, group_id: str, where: TopicPartition, offset: int) -> None:
        """Check an offset read by somebody (-1: nothing is committed)."""
        found = self._offsets.setdefault((group_id, where), OffsetHistory())
        if offset != found.acknowledged and offset not in found.open.values():
            raise Violation(
                f"commits stay: {named(where)} of {group_id} is said to have {offset}; acknowledged was {found.acknowledged}, "
                f"and after it came {sorted(found.open.values())}"
            )

    def read_all(self, is_known: Callable[[str], bool] = lambda group_id: True) -> None:
        """Compare everything with what the coordinators keep, of groups of which it `is_known`."""
        machines = self._brokers.coordinators()
        for group_id, where in self._offsets:
            if not is_known(group_id):
                continue
            kept = [machine.offsets.of(group_id).get(where.topic, {}).get(where.partition) for machine in machines]
            offsets = [committed.offset for committed in kept if committed is not None]
            self.read(group_id, where, offsets[0] if offsets else -1)


def named(where: TopicPartition) -> str:
    return f"{where.topic}-{where.partition}"


def knows(machine: GroupMachine, reader: GroupReader) -> bool:
    """Whether a coordinator would obey the reader: it knows the member id and, for a classic member, the generation."""
    consumers = machine.consumers.groups.get(reader.group_id)
    if consumers is not None:
        member = consumers.members.get(reader.member_id)
        return member is not None and (reader.generation is None or member.epoch == reader.generation)
    found = machine.context.find(reader.group_id)
    if isinstance(found, StreamsGroup):
        return reader.member_id in found.members
    classic = machine.classic.groups.get(reader.group_id)
    if classic is None or reader.member_id not in classic.members:
        return False
    return reader.generation == classic.generation


def member_ids(machine: GroupMachine, group_ids: Iterable[str]) -> list[str]:
    """List everybody a coordinator takes for a member of one of these groups."""
    groups = [group for group_id in group_ids if (group := machine.context.find(group_id)) is not None]
    return [member_id for group in groups for member_id in group.members]


def restless(machine: GroupMachine) -> list[str]:
    """List the groups that have members and are about to change."""
    groups = [group for kind in machine.kinds for group in kind.groups.values()]
    return [group.group_id for group in groups if group.state.value not in QUIET or _warms_up(group)]


def _warms_up(group: object) -> bool:
    """Whether tasks of a streams group are about to move."""
    return isinstance(group, StreamsGroup) and any(member.assigned.warmup for member in group.members.values())
