"""One broker as a state machine: its start, its requests and responses, its timers and its end.

It drives the objects of `broker.assembly`, and contains no sockets, files or event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ottla.broker.assembly import BrokerAssembly
from ottla.broker.controller.controlled_shutdown import HandOver
from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Answer, Peer
from ottla.broker.topics.registration import RegistryCheck
from ottla.ports import Buffer, Now, RegistryDamaged, Steps, StorageFailed
from ottla.registry.embedded_registry import EmbeddedRegistry

if TYPE_CHECKING:
    from ottla.broker.metrics.snapshots import Snapshots


class BrokerMachine(BrokerAssembly):
    """A Kafka broker as a state machine: bytes of requests in, parts of responses out.

    `random_bytes` is the only source of randomness. Without `workers`, all work runs on the caller's thread. `assignors` are the
    custom assignors that the settings name; without them, only the built-in assignors are available. `routes` are APIs in addition
    to Ottla's own APIs, or in place of them. Without an `authorizer`, and without an authorizer in the settings, everything is
    allowed. `proofs` verify tokens and tickets of other issuers. Without a `first_dialect`, no listener can emulate Kafka 0.6 or
    0.7. `loggers` are those whose levels clients can change.

    `log_dirs` are the log directories in addition to the data directory, as the disk knows them.

    `cluster` contains the shared registry and the links to other brokers. A single broker has only the store of its own registry.
    """

    def start(self, *, clean: bool, was_killed: bool = False) -> None:
        """Open every partition and replay the internal topics. After a `clean` shutdown, logs are not scanned.

        `was_killed`: the shutdown was not clean, but the machine kept running and all written data is present.
        """
        self.partitions.was_killed = was_killed
        now = self.clock.now()
        self.log_directories.load()
        self.configs.load()
        self.quotas.load()
        journals = self.partitions.syncs.journals
        journals.load(clean=clean, was_killed=was_killed)
        check = None if self.embedded is None else RegistryCheck(self.embedded.store, self.cluster_id)
        if check is not None:
            check.identity(self.directories)
        self.replication.manager.load(now, clean=clean)
        if check is not None and self.embedded is not None:
            check.clear(self.directories, self.partitions.checkpoints, clean=clean)
            self.moves.is_starting = True
            self._begin_alone(self.embedded)
            self.moves.is_starting = False
        journals.begin(self._is_topic_known)
        deleted = () if check is None else check.deleted
        self.groups.load(now, deleted)
        self.transactions.load()
        self.share_states.load()
        self.cleaner.start(now)
        self.tokens.keep_house(self.scheduler, now)
        self._schedule_housekeeping(now)
        self.finish_bundle(now)

    def _is_topic_known(self, topic_id: bytes) -> bool:
        """Return whether a topic may exist. A broker of a cluster gets to know the topics only after its start."""
        return not self.is_alone or self.image.name_of(topic_id) is not None

    def _begin_alone(self, embedded: EmbeddedRegistry) -> None:
        """Register as the only member and controller of a cluster, with all logs open.

        Raises `StorageFailed`. Raises `RegistryDamaged` if the registry can't be read, belongs to other data, or lacks partitions
        that have directories.
        """
        faults: list[str] = []
        with self._without_pauses():
            self.prepare(faults.append)
        if any(faults):
            raise RegistryDamaged(faults[0])
        with self._without_pauses():
            self.membership.join(self.settings.advertised_listeners or (), lambda refusal: None)
        if not self.metadata_waits.has_metadata:
            raise embedded.failure or StorageFailed("the registry", "the broker could not register in it")

    @contextmanager
    def _without_pauses(self) -> Iterator[None]:
        """Run all work that begins inside this context manager, and all timers that are due, before it exits.

        In a cluster of several brokers, do nothing.
        """
        if self.embedded is None:
            yield
            return
        with self.scheduler.hurry(), self.embedded.commit_at_once():
            yield
            while (next_ms := self.scheduler.next_ms()) is not None and next_ms <= self.clock.now().mono_ms:
                self.run_timers(self.clock.now())

    def prepare(self, prepared: Callable[[str], None]) -> None:
        """Load the cluster's settings and ACLs before any request is served, and follow their changes from then on.

        `prepared` is called once: with an error message if a setting or an ACL is invalid, else with an empty string.
        """

        def on_failure(failure: Exception) -> None:
            prepared(f"The registry of the cluster cannot be read ({failure}): start this broker again when it is available.")

        self.membership.prepare()
        if not self.is_alone and self.source is self.notifications:
            self.membership.entered.append(self.notifications.load_again)
        self.scheduler.begin("settings of the cluster", self._prepare_steps(), prepared, on_failure)

    def _prepare_steps(self) -> Steps[str]:
        fault = yield from self.source.load()
        if not fault:
            yield from self.credentials.hide_unknown_users()
        return fault

    def close(self) -> bool:
        """Close the logs, and return whether all were closed cleanly. No request may be received afterwards."""
        self.channels.close()
        self.scheduler.close()
        is_clean = self.partitions.close()
        return is_clean and self.replication.manager.are_all_checked

    @property
    def are_all_checked(self) -> bool:
        """Return whether every log is open and its records are checked. After a power failure, an unchecked log can be damaged."""
        return self.replication.manager.are_all_checked and self.partitions.are_all_online

    def transfer_leadership(self, over: Callable[[], None]) -> None:
        """Move leadership to other brokers before a shutdown, then call `over`."""
        membership, settings = self.membership, self.settings_in_force
        leave = HandOver(self.node_id, lambda: membership.broker_epoch, self.channels, self.image, settings, self.scheduler)
        leave.begin(over)

    def snapshots(self) -> Snapshots:
        """Return a source of snapshots of the broker's metrics. Only here its modules are imported, as most brokers have none."""
        from ottla.broker.metrics.broker_metrics import BROKER, MetricsContext
        from ottla.broker.metrics.group_metrics import GROUPS
        from ottla.broker.metrics.share_metrics import SHARES
        from ottla.broker.metrics.snapshots import Snapshots

        context = MetricsContext(
            self.partitions,
            self.image,
            self.controller,
            self.membership,
            self.groups,
            self.transactions,
            self.purgatory,
            self.fetch_sessions,
            self.shares,
            self.share_sessions,
            self.share_states.coordinators,
            self.client_metrics,
            self.changes,
            self.scheduler,
        )
        found = Snapshots(self.scheduler)
        for declared in (BROKER, GROUPS, SHARES):
            found.add(declared.readers, context)
        return found

    def receive(self, frame: Buffer, peer: Peer, now: Now, owned: bool = False) -> Answer | DelayedReply:
        """Serve one request frame (without its size) in the dialect of the peer's listener: see `Router.receive`."""
        return self.routers[peer.release.dialect].receive(frame, peer, now, owned)

    def on_disconnect(self, peer: Peer) -> None:
        """End the share sessions of a closed connection, so that other members get the records that it held."""
        sessions = self.share_sessions.of_connection(peer.id)
        for session in sessions:
            self.share_sessions.evict(session)
            self.purgatory.wake(session.key)  # a fetch of another connection may wait in the session
        self.shares.release(sessions)

    def finish_bundle(self, now: Now) -> None:
        """Finish a batch of requests: start the syncs that they need, and evaluate the delayed operations that they woke."""
        if self.groups.coordinators.gathering:
            self.groups.coordinators.append_gathered(now)
        if self.share_states.persister.ready:
            self.share_states.persister.flush(now)
        self.purgatory.evaluate_woken(now)
        self.partitions.syncs.start()

    def run_timers(self, now: Now) -> None:
        self.scheduler.run_due(now)
        self.finish_bundle(now)

    def _schedule_housekeeping(self, now: Now) -> None:
        """Schedule retention, checkpoints and attempts to make a refused journal at the intervals in the settings."""

        def retain(now: Now) -> None:
            self.scheduler.begin("retention", self.partitions.retain(now))

        def checkpoint(now: Now) -> None:
            self.partitions.syncs.journals.make_again()
            self.scheduler.begin("checkpoint", self.partitions.checkpoint())

        self.scheduler.every("retention", lambda: self.settings.log_retention_check_interval_ms, retain, now)
        self.scheduler.every("checkpoint", lambda: self.settings.log_flush_offset_checkpoint_interval_ms, checkpoint, now)
