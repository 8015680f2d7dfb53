"""Which broker is the controller: the one whose ephemeral entry is there. Each election is a new epoch. Knows the registry only."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from ottla.broker.failures import CONFLICTS
from ottla.broker.scheduler import Scheduler, Steps
from ottla.cluster import layout
from ottla.ports import NEW, Change, Entry, RegistryDamaged, SharedRegistry

log = logging.getLogger("ottla.broker")

FIRST_EPOCH = b"0"


class Elected(NamedTuple):
    """This broker is the controller, in this epoch; `epoch_version` is the version of the epoch's entry."""

    epoch: int
    epoch_version: int


class ControllerElection:
    """This broker's candidature, in one session at a time. `changed` is called when the controller may be another one."""

    def __init__(self, registry: SharedRegistry, node_id: int, scheduler: Scheduler, changed: Callable[[str], None]) -> None:
        self._registry = registry
        self._node_id = node_id
        self._scheduler = scheduler
        self._changed = changed
        self._claim = b""

    def session_over(self) -> None:
        """An entry that is there is not of this session any more."""
        self._claim = b""

    def held(self) -> Steps[Elected | None]:
        """Be elected if there is no controller; returns whether this broker is it. Whatever comes of it, the entry is watched."""
        while True:
            (entry,) = yield from self._registry.read([layout.CONTROLLER], changed=self._changed)
            if entry is not None:
                if entry.value != self._claim:
                    return None
                (epoch,) = yield from self._registry.read([layout.CONTROLLER_EPOCH])
                return None if epoch is None else Elected(_number(epoch), epoch.version)
            with suppress(*CONFLICTS):  # another one is quicker
                yield from self._stand()

    def _stand(self) -> Steps[None]:
        """Make the entry, and the next epoch, in one commit."""
        (epoch,) = yield from self._registry.read([layout.CONTROLLER_EPOCH])
        if epoch is None:
            yield from self._registry.commit([Change(layout.CONTROLLER_EPOCH, FIRST_EPOCH, NEW)])
            return
        self._claim = layout.controller_json(self._node_id, self._scheduler.now().wall_ms)
        claim = Change(layout.CONTROLLER, self._claim, NEW, ephemeral=True)
        yield from self._registry.commit([claim, Change(layout.CONTROLLER_EPOCH, b"%d" % (_number(epoch) + 1), epoch.version)])


def _number(epoch: Entry) -> int:
    try:
        return int(epoch.value)
    except ValueError:
        sentence = f"{layout.CONTROLLER_EPOCH} is no number, {epoch.value[:20]!r}: write the largest epoch that there was"
        raise RegistryDamaged(sentence) from None
