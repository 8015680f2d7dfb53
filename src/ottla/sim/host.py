"""A broker in a simulated world: it can be stopped, killed, cut from power, and restarted on the contents of its disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ottla.broker.broker import BrokerMachine
from ottla.broker.partitions.partition import Partition
from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Answer, Close, Peer, Throttled
from ottla.broker.settings import BrokerSettings
from ottla.client.types import TopicPartition
from ottla.coord.group_machine import GroupMachine
from ottla.coord.transactions.transaction import Transaction
from ottla.ports import Clock, Now, StorageFailed
from ottla.registry.journal import JournalRegistry
from ottla.sim.power import FaultyDisk, PowerCut
from ottla.sim.storage import SECTOR_BYTES
from ottla.sim.world import World
from ottla.wire.framing import FrameHeader, decode_response, encode_request
from ottla.wire.schema import Message

Answered = Callable[[Any], None]
"""A callback that gets the decoded response. It gets None if the broker ended or closed the connection before the response."""

SIZE_BYTES = 4
SMALL = {"ottla.journal.bytes": "65536"}
"""Settings that keep a simulated disk small, unless others are given."""

SLOW_SYNC, SLOWEST_SYNC_MS = 0.1, 40
"""The share of syncs that are slow, and the longest duration of one in ms. During a slow sync, a power cut loses data."""


class Host:
    """One simulated broker with its disk. Requests and responses are encoded and decoded as real frames.

    Its registry is the real implementation, on the same disk as the logs. When the `disk` cuts the power as ordered, the whole
    machine loses power if `cuts_power` is set, otherwise only the process ends. `slow_syncs` is the share of syncs that are slow.
    `log_dirs` are the log directories in addition to the data directory, on the same disk. A block of its journal is a multiple of
    `room_alignment` bytes.
    """

    def __init__(
        self,
        world: World,
        settings: Mapping[str, str],
        *,
        clock: Clock | None = None,
        log_dirs: Sequence[str] = (),
        room_alignment: int = SECTOR_BYTES,
    ) -> None:
        self.world = world
        self.clock: Clock = clock or world.clock
        self.settings = BrokerSettings({**SMALL, **settings})
        self.log_dirs = log_dirs
        self._room_alignment = room_alignment
        self.disk = self._empty_disk()
        self.broker: BrokerMachine | None = None
        self.lives = 0
        self.cuts_power = True
        self.slow_syncs = SLOW_SYNC
        self.was_clean = False
        """Whether the last run was stopped cleanly."""
        self.was_power_cut = False
        """Whether the last run ended with a power cut."""
        self.durable: dict[tuple[bytes, int], int] = {}
        """The durable offset of each served partition, by topic id and index, at the last power cut: no log may end before it."""
        self.when_ended: list[Callable[[], None]] = []
        """Callbacks that are called each time the process has ended."""
        self.ran_on = False
        """Whether all logs were checked since the last power cut, as the boot id in a data directory says."""
        self._registry: JournalRegistry
        self._syncing = False
        self._correlation_id = 0
        self._owed: dict[int, Answered] = {}
        world.timed.append(self)
        self.start()

    def _empty_disk(self) -> FaultyDisk:
        disk = FaultyDisk()
        disk.room_alignment = self._room_alignment
        for path in self.log_dirs:
            disk.make_dir(path)
            disk.sync_dir(path)
        return disk

    def start(self) -> None:
        """Start the broker unless it runs. Raises `StorageFailed` if it cannot start."""
        if self.broker is not None:
            return
        self.lives += 1
        self.was_power_cut = False
        clean, self.was_clean = self.was_clean, False
        self._stamp()
        try:
            broker = self._machine()
            broker.start(clean=clean, was_killed=self.ran_on and not clean)
            self.broker = broker
            self._note_boot()
            self._run_completions()
        except PowerCut:
            self.die(power_cut=self.cuts_power)

    def _note_boot(self) -> None:
        """Set `ran_on` once all logs are verified: from then on, only a power cut can damage a log."""
        self.ran_on = self.ran_on or (self.broker is not None and self.broker.are_all_checked)

    def _machine(self) -> BrokerMachine:
        """Return a new `BrokerMachine`, the broker without network and threads, which has not started."""
        self._registry = registry = JournalRegistry.open(self.disk)
        return BrokerMachine(
            settings=self.settings,
            clock=self.clock,
            disk=self.disk,
            cluster=registry,
            node_id=1,
            cluster_id="simulated-cluster-id-0",
            random_bytes=self.world.random.randbytes,
            log_dirs=self.log_dirs,
        )

    def stop(self) -> bool:
        """Stop the broker cleanly. Return whether every log was closed."""
        assert self.broker is not None, "there is a broker to stop"
        try:
            clean = self.broker.close()
            self._close_registry()
            self.disk.run_syncs()
        except PowerCut:
            self.die(power_cut=self.cuts_power)
            return False
        self.was_clean = clean
        self._end()
        self.disk.kill()
        return clean

    def _close_registry(self) -> None:
        with suppress(StorageFailed):  # the next start removes the ephemeral entries instead
            self._registry.close()

    def die(self, *, power_cut: bool) -> None:
        """End the process at once, without replies. With `power_cut`, any part of the unsynced data is lost, too."""
        self.was_power_cut = power_cut
        if power_cut:
            self.ran_on = False
            if self.broker is not None:
                served = [each for each in self.broker.partitions if hasattr(each, "log")]  # not while it is opened
                self.durable = {(each.topic_id, each.index): each.log.durable_offset for each in served}
            self.disk.crash(self.world.random)
        else:
            self.disk.kill(self.world.random)
        self._end()

    def _end(self) -> None:
        self.broker = None
        self._syncing = False
        owed, self._owed = self._owed, {}
        for answered in owed.values():
            answered(None)
        for call in self.when_ended:
            call()

    @property
    def is_listening(self) -> bool:
        """Return whether the broker accepts connections."""
        return self.broker is not None

    def post(self, call: Callable[[], None]) -> None:
        """Schedule a call of the broker. It is not called if the process ends before."""
        life = self.lives
        self.world.after(0, lambda: self._around(call) if self.broker is not None and life == self.lives else None)

    def _around(self, call: Callable[[], None]) -> None:
        """Run `call`, which is a call of the broker. If the disk's power fails during the call, stop this host."""
        self._stamp()
        try:
            call()
            self._run_completions()
        except PowerCut:
            self.die(power_cut=self.cuts_power)

    def _stamp(self) -> None:
        """Set the modification time of files that are written from now on."""
        self.disk.wall_ms = self.clock.now().wall_ms

    def coordinators(self) -> list[GroupMachine]:
        """Return the group coordinators of the loaded offsets partitions, or an empty list while the broker is down."""
        return [] if self.broker is None else self.broker.groups.machines

    def partitions(self) -> dict[TopicPartition, Partition]:
        """Return the partitions that are not offline, or an empty dict while the broker is down."""
        if self.broker is None:
            return {}
        return {TopicPartition(each.topic, each.index): each for each in self.broker.partitions if each.offline is None}

    def transactions(self) -> list[Transaction]:
        """Return the transactions of all known transactional ids, or an empty list while the broker is down."""
        shards = [] if self.broker is None else self.broker.transactions.coordinators.shards
        return [known for shard in shards for known in shard.machine.by_id.values()]

    def receive(self, key: int, version: int, body: Message, peer: Peer, answered: Answered) -> None:
        """Pass a request to the broker at once, without a simulated network. `answered` is called with the reply."""
        if self.broker is None:
            answered(None)
            return
        self._correlation_id += 1
        number = self._correlation_id
        self._owed[number] = answered
        frame = memoryview(bytearray(b"".join(encode_request(FrameHeader(key, version, number, "sim"), body))))[SIZE_BYTES:]
        self._stamp()
        try:
            answer = self.broker.receive(frame, peer, self.clock.now())
            if isinstance(answer, DelayedReply):
                self._await(answer, number, key, version)
            else:
                self._deliver(number, key, version, answer)
            self._run_completions()
        except PowerCut:
            self.die(power_cut=self.cuts_power)

    def next_ms(self) -> int | None:
        return None if self.broker is None else self.broker.scheduler.next_ms()

    def run_due(self, now: Now) -> None:
        if self.broker is None:
            return
        self._stamp()
        try:
            self.broker.run_timers(now)
            self._run_completions()
        except PowerCut:
            self.die(power_cut=self.cuts_power)

    def _await(self, pending: DelayedReply, number: int, key: int, version: int) -> None:
        if pending.done:
            self._deliver(number, key, version, pending.answer)
        else:
            pending.ready = partial(self._ready, pending, number, key, version)

    def _ready(self, pending: DelayedReply, number: int, key: int, version: int) -> None:
        self._deliver(number, key, version, pending.answer)

    def _deliver(self, number: int, key: int, version: int, answer: Answer) -> None:
        answered = self._owed.pop(number, None)
        if answered is None:
            return
        frame = frame_of(answer)
        answered(None if frame is None else decode_response(key, version, frame)[1])

    def _run_completions(self) -> None:
        if self.broker is None or self._syncing:
            return
        self.broker.finish_bundle(self.clock.now())
        if self.world.chance(self.slow_syncs):
            self._syncing = True
            life = self.lives
            self._purgatory(self.world.random.randrange(1, SLOWEST_SYNC_MS), lambda: self._on_synced(life))
        else:
            self._sync()

    def _purgatory(self, ms: int, call: Callable[[], None]) -> None:
        self.world.after(ms, call)

    def _on_synced(self, life: int) -> None:
        if life == self.lives and self._syncing:
            self._syncing = False
            try:
                self._sync()
            except PowerCut:
                self.die(power_cut=self.cuts_power)

    def _sync(self) -> None:
        if self.broker is not None:
            self.broker.finish_bundle(self.clock.now())
        while self.broker is not None and self.disk.run_syncs():
            self.broker.finish_bundle(self.clock.now())


class SimConnection:
    """A connection to a broker. Like a real connection, it begins a request only when no earlier reply is blocking."""

    def __init__(self, host: Host, peer: Peer) -> None:
        self._host = host
        self._peer = peer
        self._frames: deque[tuple[memoryview, Callable[[memoryview | None], None]]] = deque()
        self._open: list[DelayedReply] = []

    def serve(self, frame: memoryview, answered: Callable[[memoryview | None], None]) -> None:
        self._frames.append((frame, answered))
        self._serve_next()

    def close(self) -> None:
        """Handle the end of the connection at the other end: drop pending requests and replies."""
        self._frames.clear()
        if self._host.broker is not None:
            for delayed in self._open:
                self._host.broker.forget(delayed)
        self._open.clear()

    def _serve_next(self) -> None:
        while self._frames and not any(delayed.blocking for delayed in self._open):
            frame, answered = self._frames.popleft()
            broker = self._host.broker
            assert broker is not None, "what is posted to a process that has ended is not called"
            answer = broker.receive(frame, self._peer, self._host.clock.now())
            if isinstance(answer, DelayedReply) and not answer.done:
                self._open.append(answer)
                answer.ready = partial(self._ready, answer, answered)
            else:
                answered(frame_of(answer.answer if isinstance(answer, DelayedReply) else answer))

    def _ready(self, delayed: DelayedReply, answered: Callable[[memoryview | None], None]) -> None:
        if delayed.done and delayed in self._open:
            self._open.remove(delayed)
            answered(frame_of(delayed.answer))
        self._serve_next()


def frame_of(answer: Answer) -> memoryview | None:
    """Return the frame of an answer without its size, or None if the answer closes the connection."""
    parts = answer.parts if isinstance(answer, Throttled) else answer
    if parts is None or isinstance(parts, Close):
        return None
    try:
        whole = b"".join(part if isinstance(part, bytes | bytearray | memoryview) else part.read() for part in parts)
    except StorageFailed:  # a reply that cannot be read closes its connection
        return None
    return memoryview(whole)[SIZE_BYTES:]
