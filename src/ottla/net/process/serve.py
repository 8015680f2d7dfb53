"""A broker as its own process: signals, logs, and the line that reports its start. Protocol and command line are unknown here."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Protocol

from ottla.broker.settings import BrokerSettings
from ottla.net.kernel_schedule import request_slice
from ottla.net.process.service_manager import READY, STOPPING, notify
from ottla.net.process.signals import stop_signals
from ottla.net.server.garbage_collector import Collector
from ottla.net.server.listeners import Listen
from ottla.net.startup.open_files import raise_limit
from ottla.net.startup.start import Running, start
from ottla.records.compilation_warning import warn_once
from ottla.version import VERSION

log = logging.getLogger("ottla.net")

SLICE_NS = 100_000
"""The slice of the broker's threads, in ns, so that they run soon after they wake up while other processes keep all cores busy."""

SIGNALLED = 128
"""The number that a shell adds to a signal's number for an exit code."""


class Companion(Protocol):
    """A server beside the broker, on a thread of its own, such as the console. Both methods are called on other threads.

    `start` gets the started broker, and returns a line about the start. Its exception stops the broker, and `serve` raises it.
    """

    def start(self, running: Running) -> str: ...

    def stop(self) -> None: ...


def serve(
    data_dir: str,
    listen: list[Listen],
    settings: BrokerSettings,
    answers: Callable[[str], None],
    *,
    is_supervised: bool = False,
    companions: Sequence[Companion] = (),
) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP (a closed terminal). `answers(line)` is called once the broker serves requests.

    The `companions` start after the broker, and stop before it. An `is_supervised` broker also stops when its standard input ends,
    because its supervisor has then ended. Raises `BrokerFailed`.
    """
    raise_limit()
    request_slice(SLICE_NS)
    for number in stop_signals():
        signal.signal(number, _end_at_once)
    asyncio.run(_serve(data_dir, listen, settings, answers, companions, is_supervised=is_supervised))


def _end_at_once(number: int, frame: object) -> None:
    """End a broker that is still starting, as a kill does. The next start recovers.

    The loop is busy during a start, and by default no signal ends process 1 of a container, so a handler is needed.
    """
    log.warning("stopped by %s while it started", signal.Signals(number).name)
    os._exit(SIGNALLED + number)


async def _serve(
    data_dir: str,
    listen: list[Listen],
    settings: BrokerSettings,
    answers: Callable[[str], None],
    companions: Sequence[Companion],
    *,
    is_supervised: bool,
) -> None:
    loop = asyncio.get_running_loop()
    gc.freeze()  # the next collection skips the modules; a collection here would take 15 ms and free a few hundred objects
    running = await start(data_dir, listen, settings)
    stop = running.server.ended
    for number in stop_signals():
        loop.add_signal_handler(number, stop.set)
    if is_supervised:
        loop.add_reader(sys.stdin.fileno(), _on_input_end, loop, stop)
    warn_once()
    Collector().begin()
    try:
        async with AsyncExitStack() as beside:
            for line in [_line(running, data_dir), *[await _start(each, running, beside) for each in companions]]:
                answers(line)
            if not is_supervised:
                notify(READY)
            await stop.wait()
            log.info("stopping")
            if not is_supervised:
                notify(STOPPING)
    finally:
        await running.stop()
    log.info("stopped")
    running.check()


async def _start(companion: Companion, running: Running, beside: AsyncExitStack) -> str:
    """Start a companion, and let `beside` stop it. Return its line."""
    line = await asyncio.to_thread(companion.start, running)
    beside.push_async_callback(asyncio.to_thread, companion.stop)
    return line


def _on_input_end(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Stop the broker because its standard input has ended, and with it the parent process, which writes nothing to it."""
    loop.remove_reader(sys.stdin.fileno())
    log.warning("the parent process of this broker has ended")
    stop.set()


def _line(running: Running, data_dir: str) -> str:
    where = ", ".join(f"{address} as {address.release}" if address.release.name else str(address) for address in running.addresses)
    return f"Ottla {VERSION} answers at {where} (data in {data_dir}, started in {running.took_s * 1000:.0f} ms)"
