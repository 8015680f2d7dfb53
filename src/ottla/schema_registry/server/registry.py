"""One instance of a schema registry: answers from its own state, and changes it as the leader or through the leader."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.client.errors import KafkaError
from ottla.errors import SettingError
from ottla.schema_registry import records
from ottla.schema_registry.leadership import InstanceIdentity
from ottla.schema_registry.machine import Change, RegistryMachine
from ottla.schema_registry.records import SchemaEntry
from ottla.schema_registry.refusals import RegistryRefusal
from ottla.schema_registry.server.election import Election
from ottla.schema_registry.server.store import SchemaStore

log = logging.getLogger("ottla.schema_registry")

LEADER_WAIT_S = 10.0
"""The time, in s, that a change waits for a leader while one is elected."""
TOPIC, GROUP = "_schemas", "schema-registry"


@dataclass(frozen=True)
class RegistryOptions:
    """The topic with the records of a registry, and the group that elects its leader. All instances share both."""

    topic: str = TOPIC
    group: str = GROUP


class SchemaRegistryServer:
    """One instance. `settings` are keyword arguments of Ottla's clients.

    `identify` returns the address at which other instances reach this one. It is called once the server listens.
    """

    def __init__(self, settings: Mapping[str, Any], identify: Callable[[], InstanceIdentity], options: RegistryOptions) -> None:
        self.options = options
        self.store = SchemaStore(settings, options.topic)
        self._settings, self._identify = settings, identify
        self._lock = asyncio.Lock()
        self._is_current = False
        self.failure: Exception | None = None

    @property
    def machine(self) -> RegistryMachine:
        """Return the machine with the registry's state."""
        return self.store.machine

    async def start(self) -> None:
        """Read the topic, and take part in elections. An error that prevents it is kept in `failure`."""
        self.election = Election(self._settings, self.options.group, self._identify(), self._when_elected)
        try:
            await self.store.start()
        except (KafkaError, SettingError) as error:
            self.failure = error
        except RegistryRefusal as refusal:
            self.failure = KafkaError(f"The schema registry cannot read the topic {self.options.topic}: {refusal.message}.")
        else:
            self.election.start()

    async def close(self) -> None:
        """Leave the group, and close all connections."""
        await self.election.close()
        await self.store.close()

    async def _when_elected(self) -> None:
        self._is_current = False

    async def leader(self) -> InstanceIdentity | None:
        """Return the leader to which a change must be sent; None if this instance is the leader. Raises `RegistryRefusal`."""
        leader = await self.election.wait_for_leader(LEADER_WAIT_S)
        if leader is None:
            raise RegistryRefusal(50004, "Leader not known: try again, or check that the brokers answer.")
        return None if self.election.leads else leader

    async def change(self, change: Change, size: int) -> Any:
        """Decide a change as the leader, and return its reply once its records were read back. Raises `RegistryRefusal`.

        `size` is the number of bytes of the request.
        """
        async with self._lock:
            if not self._is_current:  # an earlier leader can have written records that are not read yet
                await self.store.append([SchemaEntry(records.NOOP)])
                self._is_current = True
            await self.store.catch_up()
            outcome = await self.store.compute(lambda: self.machine.decide(change), size)
            if outcome.entries:
                await self._append(outcome.entries)
            return outcome.reply

    async def _append(self, entries: tuple[SchemaEntry, ...]) -> None:
        if not self.election.leads:
            raise RegistryRefusal(50004, "Leader not known: another instance is elected just now; try again.")
        try:
            await self.store.append(entries)
        except RegistryRefusal:
            self._is_current = False  # the records may be in the topic nevertheless
            raise
