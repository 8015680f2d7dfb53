"""The controller election: the broker that owns the ephemeral controller entry wins, and each of its terms has its own epoch.

A term that begins because the outcome of a commit is uncertain has a new epoch too. Requests of the previous term may arrive late,
on an abandoned connection, and their epoch fences them. Depends on the registry only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from ottla.broker.failures import CONFLICTS
from ottla.broker.scheduler import Scheduler
from ottla.cluster import layout
from ottla.ports import NEW, Change, Entry, RegistryDamaged, SharedRegistry, Steps

log = logging.getLogger("ottla.broker")

FIRST_EPOCH = b"0"


class Elected(NamedTuple):
    """A won election: this broker is the controller in `epoch`; `epoch_version` is the version of the epoch's entry."""

    epoch: int
    epoch_version: int


class ControllerElection:
    """This broker's participation in controller elections. `changed` is called when the registry's controller entry changes."""

    def __init__(self, registry: SharedRegistry, node_id: int, scheduler: Scheduler, changed: Callable[[str], None]) -> None:
        self._registry = registry
        self._node_id = node_id
        self._scheduler = scheduler
        self._changed = changed
        self._claim = b""

    def session_over(self) -> None:
        """Forget the claim of the ended session: an existing controller entry no longer belongs to this broker."""
        self._claim = b""

    def contend(self, at_work: Elected | None) -> Steps[Elected | None]:
        """Return this broker's controller epoch, after taking part in the election if there is no controller.

        Return None if another broker is the controller. Return `at_work` if it is still valid, otherwise a new epoch. The
        controller entry is watched in any case.
        """
        while True:
            # Read the epoch first: if the entry then belongs to this session, no other broker was elected since that read.
            (epoch,) = yield from self._registry.read([layout.CONTROLLER_EPOCH])
            (entry,) = yield from self._registry.read([layout.CONTROLLER], changed=self._changed)
            if entry is not None and (entry.value != self._claim or epoch is None):
                return None
            if entry is not None and epoch is not None and at_work == Elected(_number(epoch), epoch.version):
                return at_work
            with suppress(*CONFLICTS):  # another broker was quicker
                at_work = yield from self._begin(epoch, is_elected=entry is not None)

    def _begin(self, epoch: Entry | None, *, is_elected: bool) -> Steps[Elected | None]:
        """Write the next epoch, and the controller entry unless this broker owns it already. Return the won election.

        If the registry has no epoch yet, write only the first epoch, and return None.
        """
        if epoch is None:
            yield from self._registry.commit([Change(layout.CONTROLLER_EPOCH, FIRST_EPOCH, NEW)])
            return None
        begun = Elected(_number(epoch) + 1, epoch.version + 1)
        changes = [Change(layout.CONTROLLER_EPOCH, b"%d" % begun.epoch, epoch.version, may_use_spare=True)]
        if not is_elected:
            self._claim = layout.controller_json(self._node_id, self._scheduler.now().wall_ms)
            changes.insert(0, Change(layout.CONTROLLER, self._claim, NEW, ephemeral=True))
        yield from self._registry.commit(changes)
        return begun


def _number(epoch: Entry) -> int:
    try:
        return layout.whole(int(epoch.value), highest=layout.LARGEST - 1)
    except ValueError:
        sentence = f"{layout.CONTROLLER_EPOCH} is not a number, {epoch.value[:20]!r}: write the largest epoch so far"
        raise RegistryDamaged(sentence) from None
