"""The positions of a consumer, the offsets that its group has committed, and the offsets of partitions. A part of `AsyncConsumer`.

It changes positions through the fetch driver, and contains no subscriptions and no iterations over records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.client import arguments
from ottla.client.arguments import check_partition, places
from ottla.client.consumer.committed_offsets import committable
from ottla.client.consumer.cursor import Progress
from ottla.client.consumer.fetcher import UNKNOWN_OFFSET
from ottla.client.consumer.rebalance_listeners import CommitCallback
from ottla.client.consumer.uncommitted_partitions import UncommittedPartitions
from ottla.client.errors import CommitFailed, SettingError
from ottla.client.metrics.consumer import PollMetrics
from ottla.client.settings.clients import ConsumerSettings
from ottla.client.types import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Place,
    TopicPartition,
)
from ottla.net.client.consumer.assignment import AssignmentDriver
from ottla.net.client.consumer.commits import CommitDriver
from ottla.net.client.consumer.fetch_driver import FetchDriver
from ottla.net.client.consumer.polling_consumer import PollingConsumer
from ottla.net.client.stopwatch import time_call

if TYPE_CHECKING:
    from ottla.net.client.of_release import GroupMember

Partition = tuple[str, int]


class OffsetCalls(PollingConsumer):
    """The calls of a consumer about positions and committed offsets."""

    _settings: ConsumerSettings
    _reader: FetchDriver
    _polls: PollMetrics
    _progress: Progress
    _uncommitted: UncommittedPartitions
    _assignment: AssignmentDriver
    _commits: CommitDriver

    @property
    def _member(self) -> GroupMember | None:
        return self._assignment.member

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions being read."""
        return self._assignment.partitions()

    # --- commits

    async def commit(self, offsets: Mapping[Place, OffsetAndMetadata | int] | None = None) -> None:
        """Commit offsets for the group. `offsets` None means the positions after all records handed out, or the stored offsets.

        Raises `CommitFailed` if the group has assigned the partitions to other members, `SettingError` without a group, or another
        `KafkaError`.
        """
        member = self._in_group()
        chosen = self._progress.offsets_to_commit() if offsets is None else committable(offsets)
        with time_call(self._polls.on_commit):
            await self._commits.commit(member, chosen)

    def commit_soon(
        self, offsets: Mapping[Place, OffsetAndMetadata | int] | None = None, *, on_commit: CommitCallback | None = None
    ) -> None:
        """Commit offsets as `commit` does, in the background and in the order of the calls. `close` waits for it.

        `on_commit(offsets, error)` is called then, as listeners are; `error` is None or the `KafkaError` that `commit` would raise.
        Without `on_commit`, the error is logged. Raises `SettingError` without a group.
        """
        member = self._in_group()
        self._check()
        arguments.callback("on_commit", on_commit)
        chosen = self._progress.offsets_to_commit() if offsets is None else committable(offsets)
        self._commits.begin(member, chosen, on_commit)

    def store_offsets(self, offsets: Mapping[Place, OffsetAndMetadata | int]) -> None:
        """Store offsets of assigned partitions for the next automatic commit, or for `commit()`.

        An offset is that of the next record to read. Needs `enable_auto_offset_store=False`: records that were handed out then are
        not committed until their offsets are stored, for example because other threads still process them. `seek` leaves stored
        offsets as they are.

        Raises `SettingError` without that setting or without a group, `KafkaError` if a partition is not assigned.
        """
        self._in_group()
        self._progress.store(committable(offsets))

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions after all records handed out so far."""
        return self._progress.positions()

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this member's identity in its group, for `Producer.send_offsets` (KIP-447).

        Raises `SettingError` without a group. Also raises it with `enable_auto_commit`, because aborting a transaction does not
        undo offsets committed outside of it. Raises `CommitFailed`, once, if the group has taken partitions away whose records
        were handed out, but not committed: a transaction with these records would be committed without their offsets.
        """
        member = self._in_group()
        if self._settings.enable_auto_commit:
            raise SettingError("Transactions commit this consumer's offsets: give it enable_auto_commit=False.")
        if lost := self._uncommitted.pop_lost():
            raise _taken_away(lost)
        return member.group_metadata()

    def _confirm(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Record that offsets of this consumer are part of a transaction.

        Raises `CommitFailed` if the group took such a partition away meanwhile: the next owner, perhaps this member, may read its
        records again.
        """
        lost = self._uncommitted.find_lost(offsets)
        self._progress.confirm(offsets)
        if lost:
            raise _taken_away(lost)

    def _in_group(self) -> GroupMember:
        """Return this consumer's membership of its group. Raises `SettingError` without a group."""
        if self._member is None:
            raise SettingError("Offsets are committed to a group: give the consumer a group_id.")
        return self._member

    async def committed(self, partition: Partition) -> OffsetAndMetadata | None:
        """Return the offset that the group has committed for a partition; None if it has committed none. Raises `KafkaError`."""
        member = self._in_group()
        where = check_partition(partition)
        with time_call(self._polls.on_committed):
            return (await member.fetch_committed([where])).get(where)

    # --- positions

    async def position(self, partition: Partition) -> int:
        """Return the offset of the next record to hand out from an assigned partition. Raises `KafkaError`."""
        where = check_partition(partition)
        reading = self._reader.fetcher.state_of(where)
        while (position := self._progress.position(where)) == UNKNOWN_OFFSET:
            self._raise_error()
            if (error := self._reader.fetcher.error(where)) is not None:
                raise error.with_traceback(None)
            if reading.reset_to is not None:
                found = await self._reader.offsets({where: reading.reset_to})
                if reading.reset_to is not None:
                    self._reader.fetcher.seek(where, found[where].offset)
            else:
                await asyncio.sleep(self._settings.retry_backoff_ms / 1000)
        return position

    def current_lag(self, partition: Partition) -> int | None:
        """Return the number of offsets from a partition's position to its end in the last fetch response (KIP-695).

        Return None before the first response. The end is the high watermark, or with `read_committed` the last stable offset.
        Raises `KafkaError` if the partition is not assigned.
        """
        where = check_partition(partition)
        return self._reader.state_of(where, self._progress.position(where)).lag

    def lag(self) -> dict[TopicPartition, int | None]:
        """Return `current_lag` of all assigned partitions."""
        return {where: self.current_lag(where) for where in sorted(self.assignment())}

    def seek(self, partition: Partition, offset: int) -> None:
        """Continue reading a partition at `offset`. Raises `KafkaError` if the partition is not assigned."""
        where = check_partition(partition)
        hint = "; seek_to_beginning() and seek_to_end() find the ends"
        self._reader.fetcher.seek(where, arguments.whole("offset", offset, hint=hint))
        self._progress.drop([where])
        self._reader.pump()

    def seek_to_beginning(self, *partitions: Partition) -> None:
        """Continue from the first record of these partitions, or without arguments of all assigned partitions."""
        self._seek_to(partitions, EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: Partition) -> None:
        """Continue with records written from now on, in these partitions, or without arguments in all assigned partitions."""
        self._seek_to(partitions, LATEST_TIMESTAMP)

    def _seek_to(self, partitions: Sequence[Partition], timestamp: int) -> None:
        for partition in partitions or sorted(self.assignment()):
            where = check_partition(partition)
            self._reader.fetcher.reset(where, timestamp)
            self._progress.drop([where])
        self._reader.pump()

    async def seek_to_time(self, timestamp_ms: int, *partitions: Partition) -> None:
        """Continue from the first record at or after a time (ms since 1970), or from the end if no record is that recent.

        Without `partitions`, seek in all assigned partitions. Raises `KafkaError`, and then all positions are unchanged.
        """
        time_ms = arguments.whole("timestamp_ms", timestamp_ms)
        wanted = places(partitions) or sorted(self.assignment())
        for where in wanted:
            self._reader.fetcher.state_of(where)  # raises unless it is assigned
        found = await self._reader.offsets(dict.fromkeys(wanted, time_ms))
        for where in [where for where in wanted if where in self.assignment()]:
            if found[where].offset == UNKNOWN_OFFSET:
                self.seek_to_end(where)
            else:
                self.seek(where, found[where].offset)

    async def seek_to_committed(self, *partitions: Partition) -> None:
        """Continue from the group's committed offsets, for example after an aborted transaction.

        Without arguments, seek in all assigned partitions. Raises `SettingError` without a group, or another `KafkaError`.
        """
        member = self._in_group()
        wanted = set(places(partitions)) or self.assignment()
        committed = await member.fetch_committed(wanted)
        for where in sorted(wanted & self.assignment()):
            if where in committed:
                self._reader.fetcher.seek(where, committed[where].offset)
            else:
                self._assignment.begin_uncommitted(where)
        self._progress.drop(wanted)
        self._uncommitted.abandon(wanted)
        self._reader.pump()

    def pause(self, *partitions: Partition) -> None:
        """Hand out no records of these partitions until `resume`."""
        self._reader.fetcher.pause(places(partitions))

    def resume(self, *partitions: Partition) -> None:
        """Hand out records of these partitions again."""
        self._reader.fetcher.pause(places(partitions), paused=False)
        self._reader.pump()
        self._reader.wake()

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return self._reader.fetcher.paused_partitions()

    # --- offsets of partitions

    async def beginning_offsets(self, partitions: Iterable[Partition]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition. Raises `KafkaError`."""
        return await self._ends(partitions, EARLIEST_TIMESTAMP)

    async def end_offsets(self, partitions: Iterable[Partition]) -> dict[TopicPartition, int]:
        """Return the end offset of each partition: the offset of the next record to be written. Raises `KafkaError`."""
        return await self._ends(partitions, LATEST_TIMESTAMP)

    async def _ends(self, partitions: Iterable[Partition], timestamp: int) -> dict[TopicPartition, int]:
        found = await self._reader.offsets(dict.fromkeys(places(partitions), timestamp))
        return {where: offset.offset for where, offset in found.items()}

    async def offsets_for_times(self, timestamps: Mapping[Partition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the first offset at or after a timestamp (ms since 1970) for each partition; -1 if no record is that recent."""
        return await self._reader.offsets(arguments.by_place("timestamps", timestamps, arguments.timestamp))


def _taken_away(partitions: list[TopicPartition]) -> CommitFailed:
    return CommitFailed(
        f"The group took {arguments.list_partitions(partitions)} from this consumer before their offsets were committed: "
        "other members read these records again."
    )
