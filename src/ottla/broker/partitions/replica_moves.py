"""Moves of replicas between the log directories of this broker (KIP-113). Depends on partitions, their syncs and the disk port.

A replica is copied while it is used. When little is left, syncs of its log wait, the rest is copied and synced, and the copy
becomes the replica in one step (`Disk.exchange`). No acknowledged record can then be missing, because all of them are below the
last sync of the log. The former directory is removed once the new name is durable. If both exist after a crash, the copy's higher
number of moves decides; an unfinished copy is removed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from ottla.broker.partitions.log_directories import LogDirectories
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.partitions.replica_copy import LAST_BYTES, ReplicaCopy
from ottla.broker.scheduler import Scheduler
from ottla.broker.settings import SettingsInForce
from ottla.log.names import DELETING, FUTURE, set_aside_name
from ottla.ports import Disk, Steps, StorageFailed, TryAgain
from ottla.wire.errors import (
    INVALID_REPLICA_ASSIGNMENT,
    KAFKA_STORAGE_ERROR,
    LOG_DIR_NOT_FOUND,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    REPLICA_NOT_AVAILABLE,
)

log = logging.getLogger("ottla.broker")

ATTEMPTS = 5
"""How often the rest of a replica is copied while its syncs wait, before they go on."""
AGAIN_MS = 100
"""Pause before the next attempt, in ms."""
LONGEST_REST_MS = 1000
"""Longest pause before the rate of the copies is read again, in ms."""


class ReplicaMove:
    """A move of one replica to the log directory `target`. `copy` is None until it begins.

    While `has_turn`, no sync of the replica's log begins.
    """

    __slots__ = ("copy", "has_turn", "partition", "target")

    def __init__(self, partition: Partition, target: str) -> None:
        self.partition = partition
        self.target = target
        self.has_turn = False
        self.copy: ReplicaCopy | None = None

    @property
    def size_bytes(self) -> int:
        return 0 if self.copy is None else self.copy.size_bytes

    @property
    def offset_lag(self) -> int:
        """Return by how many offsets the copy is behind."""
        end_offset = 0 if self.copy is None else self.copy.end_offset
        return max(0, self.partition.log.log_end_offset - max(end_offset, self.partition.log.log_start_offset))


class Former:
    """The directory that a moved replica had before, in the log directory `source`."""

    __slots__ = ("is_renamed", "path", "source")

    def __init__(self, path: str, source: str) -> None:
        self.path = path
        self.source = source
        self.is_renamed = False


class ReplicaMoves:
    """All moves of replicas, at most `num.replica.alter.log.dirs.threads` of them at the same time."""

    def __init__(
        self,
        disk: Disk,
        scheduler: Scheduler,
        partitions: Partitions,
        settings: SettingsInForce,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._disk = disk
        self._scheduler = scheduler
        self._partitions = partitions
        self._directories: LogDirectories = partitions.directories
        self._settings = settings
        self._random_bytes = random_bytes
        self._moves: dict[str, ReplicaMove] = {}
        self._former: dict[str, Former] = {}
        """Former directories of moved replicas that must not be removed yet, by partition."""
        self._owed_bytes, self._paid_ms = 0.0, 0
        partitions.drop_copies, partitions.clear_copies = self.drop, self._clear_if_moved

    def of(self, target: str) -> list[ReplicaMove]:
        """Return the moves to a log directory."""
        return [move for move in self._moves.values() if move.target == target]

    def alter(self, topic: str, index: int, target: str) -> int:
        """Begin to move a replica to the log directory with the absolute path `target`. Return an error code.

        A move to another directory ends. A partition that this broker does not hold is created there if it is created later.
        """
        name, path = f"{topic}-{index}", self._directories.path_named(target)
        if path is None:
            return LOG_DIR_NOT_FOUND
        try:
            self._disk.room(path)
        except StorageFailed:
            return KAFKA_STORAGE_ERROR
        partition = self._partitions.get(topic, index)
        is_there = partition is not None and self._directories.place_of(name) == path
        if self._directories.is_cordoned(path) and not is_there:
            return INVALID_REPLICA_ASSIGNMENT
        if partition is None:
            self._directories.prefer(name, path)
            error_code = self._partitions.absent_error(topic, index)
            return REPLICA_NOT_AVAILABLE if error_code == NOT_LEADER_OR_FOLLOWER else error_code
        if partition.offline is not None:
            return KAFKA_STORAGE_ERROR
        move = self._moves.get(name)
        if move is None or move.target != path:
            self._cancel(name)
            if not is_there:
                self._moves[name] = ReplicaMove(partition, path)
                self._begin_next()
        return NONE

    def drop(self, name: str) -> bool:
        """End the move of a deleted partition, and rename its former directory. Return False if that is not possible."""
        self._cancel(name)
        former = self._former.get(name)
        if former is not None and not former.is_renamed and not self._rename_former(name, former):
            return False
        self._former.pop(name, None)
        if former is not None:
            self._disk.remove_tree_soon(former.path)
        return True

    def _cancel(self, name: str) -> None:
        move = self._moves.pop(name, None)
        if move is not None:
            self._scheduler.drop(("move", name))
            log.info("%s is not moved to %s any more: its move was ended", name, self._directories.name_of(move.target))
            self._clean_up(move)
            self._begin_next()

    def _clean_up(self, move: ReplicaMove) -> None:
        """Undo an unfinished move. A dropped job does not do this itself: nothing may be removed when a process has ended."""
        self._end_turn(move)
        if move.copy is not None:
            with suppress(StorageFailed):  # the next start removes it
                self._disk.remove_tree_soon(move.copy.path)

    def _begin_next(self) -> None:
        running = sum(move.copy is not None for move in self._moves.values())
        most = self._settings.value.num_replica_alter_log_dirs_threads or len(self._directories.paths)
        for name, move in list(self._moves.items()):
            if running < most and move.copy is None:
                move.copy = ReplicaCopy(self._disk, name, set_aside_name(name, self._random_bytes(16).hex(), FUTURE))
                running += 1
                ended = partial(self._end_move, name, move)
                self._scheduler.begin(("move", name), self._run(name, move, move.copy), ended, partial(self._fail, move, ended))

    def _end_move(self, name: str, move: ReplicaMove, _: object = None) -> None:
        if self._moves.get(name) is move:
            del self._moves[name]
        self._begin_next()

    def _fail(self, move: ReplicaMove, ended: Callable[[], None], failure: Exception) -> None:
        sentence, target = "%s remains where it is, because it could not be moved to %s: %s", self._directories.name_of(move.target)
        log.error(sentence, move.partition, target, failure, extra={"cause": "move"})
        self._clean_up(move)
        ended()

    def _run(self, name: str, move: ReplicaMove, copy: ReplicaCopy) -> Steps[None]:
        """Copy a replica until its copy can take its place. Raises `StorageFailed`."""
        if (former := self._former.get(name)) is not None:
            yield from self.clear_former(name)
            if name in self._former:
                raise StorageFailed(former.path, "its directory from before the last move is still there")
        self._disk.room(move.target)
        self._disk.put(copy.path, move.target)
        copy.begin()
        while self._is_held(move):
            try:
                copied = yield from copy.update(move.partition.log.log_end_offset, self._pace)
                if copied > LAST_BYTES:
                    continue
                if (yield from self._exchange(move, copy)):
                    return
            except TryAgain as failure:
                log.info("%s: its move waits: %s", name, failure)
            self._end_turn(move)
            yield self._scheduler.rest(AGAIN_MS)
        self._clean_up(move)

    def _is_held(self, move: ReplicaMove) -> bool:
        partition = move.partition
        return partition.offline is None and self._partitions.get(partition.topic, partition.index) is partition

    def _pace(self, size: int) -> Steps[None]:
        """Pause, so that all moves together keep replica.alter.log.dirs.io.max.bytes.per.second."""
        self._owed_bytes += size
        while True:
            rate = max(1, self._settings.value.replica_alter_log_dirs_io_max_bytes_per_second)
            now_ms = self._scheduler.now().mono_ms
            self._owed_bytes = max(0.0, self._owed_bytes - (now_ms - self._paid_ms) * rate / 1000)
            self._paid_ms = now_ms
            wait_ms = int(self._owed_bytes * 1000 / rate)
            if not wait_ms:
                break
            yield self._scheduler.rest(min(wait_ms, LONGEST_REST_MS))
        yield None

    @staticmethod
    def _at_once(size: int) -> Steps[None]:
        yield None

    def _exchange(self, move: ReplicaMove, copy: ReplicaCopy) -> Steps[bool]:
        """Let the copy become the replica, while no sync of the log runs. Return False if too much was changed meanwhile."""
        partition, syncs = move.partition, self._partitions.syncs
        yield from syncs.pause(partition)
        move.has_turn = True
        for _ in range(ATTEMPTS):
            yield from copy.update(partition.log.log_end_offset, self._at_once)
            if not self._is_held(move):
                return False
            if copy.finish(partition.log.dirty_files()):
                self._disk.exchange(str(partition), copy.path)
                self._note_moved(str(partition), move.target, copy.path)
                self._end_turn(move)
                return True
        return False

    def _end_turn(self, move: ReplicaMove) -> None:
        if move.has_turn:
            move.has_turn = False
            self._partitions.syncs.resume(move.partition)

    def _note_moved(self, name: str, target: str, former: str) -> None:
        source = self._directories.place_of(name)
        self._directories.record_move(name, target)
        self._former[name] = Former(former, source)
        del self._moves[name]
        log.info("%s is moved from %s to %s", name, *map(self._directories.name_of, (source, target)))
        self._scheduler.begin(("moved", former), self.clear_former(name))

    def clear_former(self, name: str) -> Steps[None]:
        """Remove the former directory of a replica. Return once it is removed, or a sync has failed.

        Its new directory must be durable before it is renamed, and the new name before its files are removed: after a power cut,
        one of both directories has all its files, among them the number of moves.
        """
        former = self._former.get(name)
        while former is not None and self._former.get(name) is former:
            is_renamed = former.is_renamed
            failure = yield partial(self._disk.sync_soon, [self._disk.directory(former.source if is_renamed else name)])
            if self._former.get(name) is not former:
                return
            if is_renamed != former.is_renamed:  # another caller was faster
                continue
            if failure is None:
                if is_renamed:
                    del self._former[name]
                    self._disk.remove_tree_soon(former.path)
                elif not self._rename_former(name, former):
                    return
            elif not isinstance(failure, TryAgain):
                sentence = "%s: its former directory remains until the next start, because a sync failed: %s"
                log.error(sentence, name, failure, extra={"cause": "move"})
                return
            else:
                yield self._scheduler.rest(AGAIN_MS)

    def _clear_if_moved(self, name: str) -> Steps[None] | None:
        """Return the steps that remove the former directory of a replica; None if it has none."""
        return self.clear_former(name) if name in self._former else None

    def _rename_former(self, name: str, former: Former) -> bool:
        gone = set_aside_name(name, self._random_bytes(16).hex(), DELETING)
        try:
            self._disk.rename(former.path, gone, sync=False)
        except StorageFailed as failure:
            log.error("%s: its former directory could not be removed: %s", name, failure, extra={"cause": "move"})
            return False
        former.path, former.is_renamed = gone, True
        return True
