"""A broker of a simulated cluster, which shares its registry and its network with other brokers.

The broker can be stopped, killed, paused and cut from power, and its clock can drift.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from ottla.broker.broker import BrokerMachine
from ottla.broker.membership.directory import BROKER_EPOCH, NEW
from ottla.broker.membership.membership import NotAMember
from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Peer
from ottla.broker.settings import BrokerSettings, Listener
from ottla.cluster.metadata import ClusterPorts
from ottla.ports import Now, SessionEvent, StorageFailed
from ottla.sim.ensemble import SimEnsemble
from ottla.sim.host import SMALL, Answered, Host, SimConnection
from ottla.sim.links import SimNetwork
from ottla.sim.power import FaultyDisk
from ottla.sim.process import DriftingClock, SimProcess
from ottla.sim.shared_registry import RegistryFaults, SimSharedRegistry
from ottla.sim.storage import SECTOR_BYTES
from ottla.sim.world import World
from ottla.wire.schema import Message

PORT = 9092
PROTOCOL = "inter.broker.protocol.version"
RESTART_MS = HOUSE_EVERY_MS = 1_000


class ClusterHost(Host):
    """One broker of a cluster, on a machine of its own. The machine's disk survives when the process ends.

    The process ends, and is started again, if it cannot read the cluster's metadata or is still registered by its previous run.
    """

    def __init__(
        self,
        world: World,
        settings: Mapping[str, str],
        node_id: int,
        ensemble: SimEnsemble,
        network: SimNetwork,
        *,
        drift: float = 0.0,
        faults: RegistryFaults | None = None,
        room_alignment: int = SECTOR_BYTES,
    ) -> None:
        self._given = {**SMALL, "broker.id": str(node_id), **settings}
        self.node_id = node_id
        self.name = f"broker-{node_id}"
        self.faults = faults or RegistryFaults()
        self.session: SimSharedRegistry
        self.process: SimProcess
        self._ensemble = ensemble
        self._network = network
        self._drift = DriftingClock(world, drift)
        self._peers = 0
        self._is_listening = False
        self._stopped: list[Callable[[], None]] = []
        super().__init__(world, self._given, clock=self._drift, room_alignment=room_alignment)

    def lose_disk(self) -> None:
        """Replace the disk by an empty disk from the next start on, like a broker that is started without its volume."""
        assert self.broker is None, "a broker at work holds its files"
        self.disk = self._empty_disk()
        self.was_clean = self.ran_on = False

    def _empty_disk(self) -> FaultyDisk:
        disk = super()._empty_disk()
        disk.write_file(BROKER_EPOCH, NEW)
        return disk

    @property
    def protocol_version(self) -> str | None:
        """Return the configured inter-broker protocol version, or None."""
        return self._given.get(PROTOCOL)

    def speak(self, protocol_version: str) -> None:
        """Set the inter-broker protocol version (`inter.broker.protocol.version`) that the broker uses from the next start on."""
        self._given[PROTOCOL] = protocol_version
        self.settings = BrokerSettings(self._given)

    def jump(self, ms: int) -> None:
        """Move the wall clock by `ms`."""
        self._drift.jump(ms)

    def start(self) -> None:
        """Start the broker unless it runs: connect to the registry, read the cluster's metadata, then listen and register."""
        if self.broker is not None:
            return
        self._is_listening = False
        try:
            super().start()
        except StorageFailed:  # the disk refuses
            self._end_and_restart()
            return
        if self.broker is not None:
            self.session.on_session(self._on_session_event)
            self._keep_house()

    def _keep_house(self) -> None:
        """Check every second whether all logs are verified. A broker of a cluster opens its logs one by one."""
        self._note_boot()
        self._purgatory(HOUSE_EVERY_MS, self._keep_house)

    def _on_session_event(self, event: SessionEvent) -> None:
        if event is SessionEvent.BEGUN and not self._is_listening and self.broker is not None:
            self.broker.prepare(self._on_metadata)

    def _on_metadata(self, refusal: str) -> None:
        """Open the listener and join the cluster, or end the process if the metadata could not be read (`refusal`)."""
        broker, process = self.broker, self.process
        assert broker is not None, "nothing is called after the end"
        assert broker.membership is not None, "it is one of a cluster"
        if refusal:
            self._end_and_restart()
            return
        self._is_listening = True
        self._network.listen(self.name, PORT, process, self._accept)
        broker.membership.join([Listener("PLAINTEXT", self.name, PORT)], self._on_join)

    def _machine(self) -> BrokerMachine:
        self.process = SimProcess(self.world, self.name, clock=self._drift, around=self._around)
        self.session = SimSharedRegistry(self._ensemble, self.process, cuts=self._network.cuts, faults=self.faults)
        return BrokerMachine(
            settings=self.settings,
            clock=self.clock,
            disk=self.disk,
            cluster=ClusterPorts(self.session, self._network.links(self.process)),
            node_id=self.node_id,
            cluster_id="simulated-cluster-id-0",
            random_bytes=self.world.random.randbytes,
        )

    def _on_join(self, refusal: NotAMember | None) -> None:
        if refusal is not None:
            self._end_and_restart()

    def _end_and_restart(self) -> None:
        """End the process, and start it again after `RESTART_MS`, as a supervisor does."""
        self.die(power_cut=False)
        self.world.after(RESTART_MS, self._start_again)

    def _start_again(self) -> None:
        if self.broker is None:  # another caller may have started it since
            self.start()

    def leave(self, stopped: Callable[[], None]) -> None:
        """Stop the broker cleanly, after other brokers have become leaders of its partitions.

        `stopped` is called when the process has ended, even if the process was killed or lost power before the stop.
        """
        assert self.broker is not None, "there is a broker to stop"
        self._stopped.append(stopped)
        life = self.lives

        def stop() -> None:
            if self.broker is not None and life == self.lives:
                self.stop()

        self._around(partial(self.broker.transfer_leadership, lambda: self.world.after(0, stop)))

    def _close_registry(self) -> None:
        self.session.close()

    def _end(self) -> None:
        super()._end()
        self.process.end()
        if not self.was_power_cut:  # after a power cut the machine cannot close connections
            self._network.reset(self.process)
        stopped, self._stopped = self._stopped, []
        for tell in stopped:
            self.world.after(0, tell)

    # Time and events

    def next_ms(self) -> int | None:
        due_ms = super().next_ms()
        return None if due_ms is None or self.process.is_paused else self._drift.true_ms(due_ms)

    def run_due(self, now: Now) -> None:
        if not self.process.is_paused:
            super().run_due(self.clock.now())

    @property
    def is_member(self) -> bool:
        """Return whether the broker is registered and has been notified of its registration."""
        membership = None if self.broker is None else self.broker.membership
        return membership is not None and membership.is_member(self.clock.now())

    def set_faults(self, faults: RegistryFaults) -> None:
        """Set the faults that the broker's connection to the shared registry has from now on."""
        self.faults = self.session.faults = faults

    def pause(self, ms: int) -> None:
        """Pause the process for `ms`, as SIGSTOP does. Calls on its thread wait until the pause ends."""
        self.process.pause(ms)

    def receive(self, key: int, version: int, body: Message, peer: Peer, answered: Answered) -> None:
        """Pass a client's request to the broker; `answered` is called with the reply. While the process is paused, the request
        waits.
        """
        if not self._is_listening:
            answered(None)
        elif self.process.is_paused:
            self._purgatory(0, partial(self.receive, key, version, body, peer, answered))
        else:
            super().receive(key, version, body, peer, answered)

    def _ready(self, pending: DelayedReply, number: int, key: int, version: int) -> None:
        if pending.done:  # also called when the reply only stops blocking later requests
            super()._ready(pending, number, key, version)

    def _purgatory(self, ms: int, call: Callable[[], None]) -> None:
        process = self.process
        self.world.after(ms, lambda: process.post(call))

    @property
    def is_listening(self) -> bool:
        return self.broker is not None and self._is_listening

    def post(self, call: Callable[[], None]) -> None:
        self.process.post(call)

    # Other brokers

    def _accept(self) -> SimConnection:
        self._peers += 1
        return SimConnection(self, Peer(1_000_000 + self._peers, "10.1.0.1", 40_000, self.name, PORT))
