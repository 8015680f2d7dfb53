"""What must be true of a follower that was let alone for a while: it has what its leader has, and knows what that means."""

from __future__ import annotations

from ottla.broker.replication.replica import Replica
from ottla.ports import Disk
from ottla.records.batches.header import read_header
from ottla.sim import invariants
from tests.sim.lives.played_leader import PlayedLeader
from tests.sim.seeds import Violation


class FollowerLedger:
    """Holds a follower against its played leader. `compacts`: records may be missing that newer ones replace."""

    def __init__(self, leader: PlayedLeader, *, compacts: bool) -> None:
        self._leader = leader
        self._compacts = compacts

    def check(self, replica: Replica, disk: Disk, cleaned_offset: int) -> None:
        """Raise `Violation` for the first thing that is not true, by its name."""
        if replica.offline is not None:
            raise Violation(f"stays online: {replica.offline}")
        self._catches_up(replica)
        self._has_the_records(replica)
        self._knows_producers(replica)
        self._is_clean(replica, cleaned_offset)
        self._ages(replica)
        log = replica.log
        faults = invariants.offsets_grow(log) + invariants.sizes_add_up(log) + invariants.indexes_point_at_batches(log, disk)
        if faults:
            raise Violation(f"sound files: {faults[0]}")

    def _catches_up(self, replica: Replica) -> None:
        end = replica.log.log_end_offset
        if end != self._leader.end:
            raise Violation(f"catches up: it ends at {end}, its leader at {self._leader.end}")
        if replica.high_watermark > end:
            raise Violation(f"catches up: readers see up to {replica.high_watermark}, beyond the end at {end}")

    def _has_the_records(self, replica: Replica) -> None:
        leader, start = self._leader, replica.log.log_start_offset
        held = {record.offset: record for record in invariants.stored_records(replica.log)}
        for offset, record in held.items():
            if leader.known.get(offset) != record:
                raise Violation(f"its leader's records: {record.value!r} at offset {offset} is not {leader.known.get(offset)}")
        there = {read_header(batch.data).base_offset for batch in leader.batches}
        for offset in sorted(there & leader.known.keys()):
            if start <= offset not in held and not self._may_go(offset):
                raise Violation(f"its leader's records: {leader.known[offset].value!r} at offset {offset} is missing")

    def _may_go(self, offset: int) -> bool:
        """Whether compaction may remove a record: a tombstone, an aborted one, or one that a newer one of its key replaces.

        The newer one may have been lost since, in an unclean election.
        """
        record = self._leader.known[offset]
        newest = max(other for other, found in self._leader.known.items() if found.key == record.key)
        is_replaced = offset < max(newest, self._leader.lost.get(record.key, -1))
        return self._compacts and (is_replaced or record.value is None or offset in self._leader.aborted)

    def _knows_producers(self, replica: Replica) -> None:
        log = replica.log
        faults = []
        if not (self._compacts and (self._leader.lost or self._knows_last_batches(replica))):
            faults += invariants.producers_equal_a_replay(log)
        if not self._compacts:
            faults += invariants.transactions_equal_a_replay(log)
        if faults:
            raise Violation(f"knows producers: {faults[0]}")
        begun, held, start = self._leader.begun, log.producers.open_transactions, log.log_start_offset
        # What began before the log does cannot be compared: it may not have been copied, or was another leader's.
        wrong = [id for id, offset in held.items() if offset >= start and offset != begun.get(id) and begun.get(id, start) >= start]
        wrong += [id for id, offset in begun.items() if offset >= start and offset != held.get(id) and held.get(id, start) >= start]
        # A compaction may have removed what an unclean election opened again.
        if self._compacts and self._leader.lost:
            wrong = [id for id in wrong if id not in begun]
        if wrong:
            raise Violation(f"knows producers: {held} are open, at the leader {begun}")

    def _knows_last_batches(self, replica: Replica) -> bool:
        """Return whether the last batch of each producer is known that its leader has.

        It may have been compacted away, when a later one followed that was cut off since.
        """
        last = {
            header.producer_id: header.base_offset
            for batch in self._leader.batches
            if not (header := read_header(batch.data)).is_control
        }
        known = {producer_id: producer.batches for producer_id, producer in replica.log.producers.by_id.items()}
        return all(batches[-1].base_offset == last.get(producer_id) for producer_id, batches in known.items() if batches)

    def _is_clean(self, replica: Replica, cleaned_offset: int) -> None:
        """Below the offset up to which it is compacted, each key has one plain record."""
        if not self._compacts:
            return
        first: dict[bytes | None, int] = {}
        for batch in invariants.stored_batches(replica.log):
            header = read_header(batch)
            if header.next_offset > min(cleaned_offset, replica.log.segments[-1].base_offset) or header.producer_id >= 0:
                continue
            record = self._leader.known.get(header.base_offset)
            if record is None or not header.record_count:
                continue
            if record.key in first:
                raise Violation(
                    f"is clean: {record.key!r} is at {first[record.key]} and {record.offset}, compacted to {cleaned_offset}"
                )
            first[record.key] = record.offset

    def _ages(self, replica: Replica) -> None:
        for segment in replica.log.segments:
            if segment.size:
                stored = read_header(segment.file.read(0, 61)).max_timestamp
                if segment.first_timestamp != stored:
                    raise Violation(f"ages: a segment of {stored} says that it began at {segment.first_timestamp}")
