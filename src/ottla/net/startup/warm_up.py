"""The imports that a broker leaves out at its start, handlers and coordinators: a few at a time, between requests.

A start imports what the first answers need. The rest is imported once the listeners answer, so that no first request of an API
waits for it. A step imports one module and the modules that it needs: a few milliseconds.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import Final

from ottla.broker.scheduler import Scheduler
from ottla.broker.serving.api_table import apis
from ottla.ports import Steps

PAUSE_MS: Final = 3
"""The pause after each step."""
AGAIN_MS: Final = 1000
"""The pause before a module that could not be imported is imported again."""
MOST_PUT_OFF: Final = 20
"""The number of times in a row that a step is put off because requests wait. A broker with constant load imports, too."""

FIRST: Final = ("metadata", "topics", "produce", "fetch", "list_offsets")
"""The handlers that clients need first."""
MACHINES: Final = (
    "ottla.coord.consumer.records",
    "ottla.coord.classic.events",
    "ottla.coord.consumer.topics",
    "ottla.wire.data.share_groups",
    "ottla.wire.data.streams_groups",
    "ottla.coord.share.records",
    "ottla.coord.streams.records",
    "ottla.coord.records",
    "ottla.coord.outcome",
    "ottla.coord.offsets",
    "ottla.coord.classic.group",
    "ottla.coord.classic.rebalance",
    "ottla.coord.classic.join",
    "ottla.coord.consumer.group",
    "ottla.coord.consumer.subscription",
    "ottla.coord.consumer.heartbeat",
    "ottla.coord.classic.sync_group",
    "ottla.coord.consumer.migrate",
    "ottla.coord.consumer.groups",
    "ottla.coord.share.group",
    "ottla.coord.share.heartbeat",
    "ottla.coord.share.groups",
    "ottla.coord.streams.topology.request",
    "ottla.coord.streams.topology.configuration",
    "ottla.coord.streams.assign.sticky",
    "ottla.coord.streams.assign.warmups",
    "ottla.coord.streams.group",
    "ottla.coord.streams.target",
    "ottla.coord.streams.heartbeat",
    "ottla.coord.streams.groups",
    "ottla.coord.kinds",
    "ottla.coord.consumer.assign.built_in",
    "ottla.coord.group_machine",
    "ottla.coord.offset_reader",
    "ottla.coord.transactions.inputs",
    "ottla.coord.transactions.records",
    "ottla.coord.transactions.machine",
    "ottla.coord.share_state.machine",
)
"""The machines of coordinators, which have many modules: those that others need are first, so that each step is short."""

_importing = threading.Lock()
"""Held during an import: a child that is forked meanwhile, by another thread, could never import the same module."""

os.register_at_fork(before=_importing.acquire, after_in_parent=_importing.release, after_in_child=_importing.release)


def modules() -> Iterator[str]:
    """Return the modules to import, the most important ones first."""
    handlers = dict.fromkeys((*FIRST, *(api.module for api in apis())))
    names = [f"ottla.broker.handlers.{module}" for module in handlers]
    return iter((*names[: len(FIRST)], *MACHINES, *names[len(FIRST) :]))


def begin(scheduler: Scheduler, has_requests: Callable[[], bool]) -> None:
    """Import the modules in the background. `has_requests` returns whether requests wait."""
    left = [name for name in modules() if name not in sys.modules]
    if left:
        scheduler.begin("imports", _import(left, scheduler, has_requests))


def _import(names: list[str], scheduler: Scheduler, has_requests: Callable[[], bool]) -> Steps[None]:
    for name in names:
        yield scheduler.rest(PAUSE_MS)
        for _ in range(MOST_PUT_OFF):
            if not has_requests():
                break
            yield scheduler.rest(PAUSE_MS)
        while not _can_import(name):
            yield scheduler.rest(AGAIN_MS)


def _can_import(name: str) -> bool:
    """Import a module. Return False if that fails only at present: the process has no file handle, or Python is busy.

    Up to Python 3.11.7 and 3.12.1, parsing to a tree fails by a `SystemError` while another thread does it (gh-106905). Hooks that
    rewrite modules do it at imports, and the formatting of tracebacks does it. Python itself imports without a tree.
    """
    with _importing, suppress(ImportError):  # the first request of its API reports it
        try:
            import_module(name)
        except (OSError, SystemError):
            return False
    return True
