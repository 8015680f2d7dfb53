"""A broker's membership in its cluster: registration, stepping down before its session can expire elsewhere, reregistration.

Depends on the shared registry and the scheduler, and not on partitions: leaders and followers read `is_member`, and callbacks
report each registration (`entered`) and its end (`left`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from ottla.broker.failures import CONFLICTS
from ottla.broker.identity import BrokerIdentity
from ottla.broker.membership.directory import DirectoryEpoch
from ottla.broker.releases.interbroker_versions import Switch
from ottla.broker.retries import Repeats
from ottla.broker.scheduler import Scheduler
from ottla.broker.settings import Listener, SecurityProtocol, SettingsInForce
from ottla.cluster import features, layout
from ottla.ports import NEW, Change, Done, Entry, Now, RegistryAway, SessionEvent, SharedRegistry, Steps

log = logging.getLogger("ottla.broker")

NO_EPOCH = -1
NOT_YET = 1 << 63
"""A number above every broker epoch, which stands for no registration."""
LISTENER_NAMES = "0.10.0-IV1"
"""The protocol version that introduced racks and listener names."""

RETRY_MS, MOST_RETRY_MS = 500, 2_000
"""First and longest pause before a failed registration is retried, in ms."""

LOOK = "check the registration"

DRIFT = 20
"""The registry's clock can be faster by 1/n: a broker steps down when 1/n of its session timeout is left."""


def _address_in(value: bytes) -> str:
    """Return the endpoints in a broker's entry, for messages to people."""
    try:
        stored = layout.read(value)
        return ", ".join(stored.get("endpoints") or [f"{stored['host']}:{stored['port']}"])
    except (ValueError, LookupError, TypeError, AttributeError):
        return "an invalid address"


class Event:
    """An event that occurs once, and for which a generator can wait: `while not event.has_happened: yield event.wait`."""

    def __init__(self) -> None:
        self.has_happened = False
        self._done: Done | None = None

    def on_change(self, path: str) -> None:
        """Set the event, as a callback of a registry watch."""
        self._happen()

    def on_deadline(self, now: Now) -> None:
        """Set the event, as a callback of a deadline."""
        self._happen()

    def _happen(self) -> None:
        self.has_happened = True
        done, self._done = self._done, None
        if done is not None:
            done(None)

    def wait(self, done: Done) -> None:
        """Call `done(None)` when the event occurs. It must not have occurred yet."""
        self._done = done


class NotAMember(Exception):
    """Raised for a broker that can't join its cluster. The message says why and what to do."""


class BrokerMembership:
    """This broker's registration in its cluster: its session with the registry, and its entry below /brokers/ids.

    Callbacks: `entered` after each registration, when `broker_epoch` is new and the controller assigns all roles again; `left` at
    the end of a registration, which makes earlier requests of the controller obsolete. While the registry is unreachable but the
    session lives, the roles remain. `silenced` is called when the session may have ended, so that the roles may not be used
    (`is_member` is False), and `woken` when they may be used again.
    """

    def __init__(
        self,
        registry: SharedRegistry,
        settings: SettingsInForce,
        identity: BrokerIdentity,
        scheduler: Scheduler,
        levels: Callable[[], Mapping[str, int]],
        directory: DirectoryEpoch,
    ) -> None:
        """Create a broker's membership, not registered yet.

        `levels` returns the cluster's finalized features, as far as they are read.
        """
        self.broker_epoch = NO_EPOCH
        """The broker epoch: the id of the transaction that created this broker's entry (KIP-380).

        It increases with each registration.
        """
        self.oldest_epoch = NO_EPOCH
        """The lowest broker epoch that the controller's requests may have. Older ones are meant for an earlier registration."""
        self.entered: list[Callable[[Now], None]] = []
        self.left: list[Callable[[Now], None]] = []
        self.silenced: list[Callable[[Now], None]] = []
        self.woken: list[Callable[[Now], None]] = []
        self._is_silent = False
        self._registry = registry
        self._settings = settings
        self._identity = identity
        self._scheduler = scheduler
        self._levels = levels
        self._directory = directory
        self._listeners: Sequence[Listener] = ()
        self._value = b""
        self._joined: Callable[[NotAMember | None], None] | None = None
        self._must_look = False
        """Whether the entry may have changed since the last read."""
        self._repeats = Repeats(RETRY_MS, MOST_RETRY_MS)

    def prepare(self) -> None:
        """Refuse requests of a controller until this broker registers, because they are meant for its previous process."""
        self.oldest_epoch = NOT_YET

    def join(self, listeners: Sequence[Listener], joined: Callable[[NotAMember | None], None]) -> None:
        """Register with these listeners, now and in each later session. `joined` is called once, after success or refusal."""
        self._listeners = listeners
        self._joined = joined
        self._registry.on_session(self._on_session_event)
        self._begin()

    def is_member(self, now: Now) -> bool:
        """Return whether this broker is registered and its session can't have expired."""
        return self.broker_epoch != NO_EPOCH and now.mono_ms < self._until_ms()

    def _until_ms(self) -> int:
        return self._registry.session_end_ms() - self._registry.timeout_ms // DRIFT

    def _on_session_event(self, event: SessionEvent) -> None:
        match event:
            case SessionEvent.AWAY:
                log.warning("the registry is unreachable; this broker serves until its session expires")
            case SessionEvent.BACK:
                log.info("the registry is reached again, and the session lived on")
                self._watch_session(self._scheduler.now())
            case SessionEvent.BEGUN | SessionEvent.ENDED:
                self._leave(event)

    def _leave(self, event: SessionEvent) -> None:
        """End the registration with its session, and register again in a new session."""
        self._end("the session with the registry ended")
        if event is SessionEvent.BEGUN:
            self._begin()

    def _end(self, why: str) -> None:
        now = self._scheduler.now()
        if self.broker_epoch != NO_EPOCH:
            log.warning("%s; this broker leads nothing until it is registered again", why)
            self.broker_epoch = NO_EPOCH
            self._scheduler.cancel("session")
            for tell in self.left:
                tell(now)

    def check_entry(self) -> None:
        """Check that this broker's entry exists in the registry, because an operator can remove the entry during a session."""
        self._must_look = True
        self._scheduler.begin(LOOK, self._check_entry(), failed=self._on_check_failure)

    def _entry_changed(self, path: str) -> None:
        self.check_entry()

    def _on_check_failure(self, failure: Exception) -> None:
        self._scheduler.at(LOOK, self._scheduler.now().mono_ms + RETRY_MS, lambda now: self.check_entry())

    def _check_entry(self) -> Steps[None]:
        path = layout.broker_path(self._identity.node_id)
        while self._must_look and self.broker_epoch != NO_EPOCH:
            self._must_look, epoch = False, self.broker_epoch
            (entry,) = yield from self._registry.read([path], changed=self._entry_changed)
            if epoch == self.broker_epoch and (entry is None or entry.created != epoch):
                self._end("the registration was removed while its session lives")
                self._begin()

    def _watch_session(self, now: Now) -> None:
        """Check at the session's deadline whether the session may have expired. Each renewal moves the deadline ahead.

        After a pause of the process, the session can be renewed without an event from the registry.
        """
        if self.broker_epoch == NO_EPOCH:
            return
        if self.is_member(now):
            self._scheduler.at("session", self._until_ms(), self._watch_session)
            self._wake_up(now)
        else:
            self._scheduler.at("session", now.mono_ms + RETRY_MS, self._watch_session)
            self._fall_silent(now)

    def _fall_silent(self, now: Now) -> None:
        if self._is_silent:
            return
        log.warning("the registry was silent for as long as the session may live: this broker leads nothing until it answers")
        self._is_silent = True
        for tell in self.silenced:
            tell(now)

    def _wake_up(self, now: Now) -> None:
        if self._is_silent:
            self._is_silent = False
            for tell in self.woken:
                tell(now)

    def _begin(self) -> None:
        """Register with a unique value, which identifies the entry as created in this session even if the response was lost."""
        self._scheduler.cancel("registration")
        self._scheduler.drop("registration")
        self._value = self._encode_entry()
        self._register(self._scheduler.now())

    def _register(self, now: Now) -> None:
        if self.broker_epoch == NO_EPOCH:
            self._scheduler.begin("registration", self._register_steps(), self._on_outcome, self._on_failure)

    def _on_failure(self, failure: Exception) -> None:
        level = logging.INFO if isinstance(failure, RegistryAway) else logging.ERROR
        self._repeats.log_once(log, level, "this broker could not register; it is retried: %s", failure)
        self._again()

    def _again(self) -> None:
        self._scheduler.at("registration", self._scheduler.now().mono_ms + self._repeats.pause_ms(), self._register)

    def _on_outcome(self, outcome: Entry | NotAMember) -> None:
        """Complete a registration attempt. `outcome` is the entry, of this broker or another, or the reason of a refusal."""
        joined, self._joined = self._joined, None
        refusal = outcome if isinstance(outcome, NotAMember) else self._accept(outcome)
        if refusal is not None and joined is None:
            self._repeats.log_once(log, logging.ERROR, "%s", refusal)
            self._again()
        if joined is not None:
            joined(refusal)

    def _accept(self, entry: Entry) -> NotAMember | None:
        """Continue with the registration `entry`, and return None. Return a `NotAMember` if another broker has the same id."""
        if entry.value == self._value:
            now = self._scheduler.now()
            self.broker_epoch = entry.created
            self._is_silent = False
            self._repeats.over()
            level = logging.DEBUG if self._directory.has_registry else logging.INFO
            log.log(level, "registered as broker %d with epoch %d", self._identity.node_id, entry.created)
            self._watch_session(now)
            self.check_entry()
            for tell in self.entered:
                tell(now)
            return None
        return NotAMember(
            f"Broker {self._identity.node_id} is in the cluster already, at {_address_in(entry.value)}: stop it, or give this "
            "one another number with --node-id."
        )

    def _unsuitable(self) -> NotAMember | None:
        """Return why this broker does not support the finalized features (KIP-584); None if it supports them.

        Older protocol versions have no levels.
        """
        if not self._settings.value.inter_broker_protocol_version.has(Switch.FEATURES):
            return None
        unserved = features.unsupported_levels(self._levels(), features.OFFERED)
        if not unserved:
            return None
        levels = ", ".join(f"{name}={level}" for name, level in unserved.items())
        return NotAMember(
            f"The cluster has finalized levels of features that this release does not serve ({levels}): start a newer one, or "
            "lower them with `ottla features downgrade`."
        )

    def _register_steps(self) -> Steps[Entry | NotAMember]:
        """Create the entry, write its epoch to the data directory, and return the entry. Return a `NotAMember` if refused."""
        refusal = self._unsuitable()
        if refusal is not None:
            return refusal
        sentence = yield from self._directory.refusal()
        if sentence is not None:
            return NotAMember(sentence)
        self.oldest_epoch = self._directory.newest_epoch + 1
        entry = yield from self._create_entry()
        if entry.value == self._value:
            yield from self._directory.record_registration(entry.created)
        return entry

    def _create_entry(self) -> Steps[Entry]:
        """Create this broker's entry in the registry, and return it. Return another entry that does not expire in time.

        An existing entry is probably from this broker's previous process, whose session will soon expire.
        """
        deadline_ms = self._scheduler.now().mono_ms + self._registry.timeout_ms * 5 // 4
        path = layout.broker_path(self._identity.node_id)
        while True:
            gone = Event()
            with suppress(*CONFLICTS):
                yield from self._registry.commit([Change(path, self._value, NEW, ephemeral=True)])
            (entry,) = yield from self._registry.read([path], changed=gone.on_change)
            if entry is None:
                continue
            if entry.value == self._value or self._scheduler.now().mono_ms >= deadline_ms:
                return entry
            self._scheduler.at("registration", deadline_ms, gone.on_deadline)
            while not gone.has_happened:
                yield gone.wait

    def _encode_entry(self) -> bytes:
        """Return the value of this broker's entry, in a version that the oldest release of the cluster can read."""
        settings = self._settings.value
        protocol = settings.inter_broker_protocol_version
        version = 5 if protocol.has(Switch.FEATURES) else 4 if protocol.is_at_least(LISTENER_NAMES) else 2
        endpoints = [
            (name, host, port, (settings.security_of(name) or SecurityProtocol.PLAINTEXT).value)
            for name, host, port in self._listeners
        ]
        return layout.member_json(endpoints, settings.broker_rack, self._scheduler.now().wall_ms, version, features.NEWEST)
